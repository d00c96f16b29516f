//! What the files of a store contain, as dicts.

use std::path::PathBuf;

use bytes::Bytes;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::options::environment;
use crate::errors::store_error;
use orcas_base::error::Error;
use orcas_inspect::{Entry, Filter, Part, Value, inspect};

/// As `orcas_inspect::Filter`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Selection {
    kinds: Vec<String>,
    bucket: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
    prefix: Option<Vec<u8>>,
    first: Option<u64>,
    last: Option<u64>,
    file: Option<String>,
}

/// Calls `take` with each selected row of a part of a store, which may be open. Changes nothing. Blocks.
#[pyfunction]
pub fn inspect_store(py: Python<'_>, data: PathBuf, part: &str, selection: Selection, take: Py<PyAny>) -> PyResult<()> {
    let part = match part {
        "log" => Part::Log,
        "packs" => Part::Packs,
        "journal" => Part::Journal,
        _ => return Err(pyo3::exceptions::PyValueError::new_err("no part of a store")),
    };
    let Selection { kinds, bucket, key, prefix, first, last, file } = selection;
    let filter = Filter {
        kinds: kinds.into_iter().map(|kind| kind.to_lowercase()).collect(),
        bucket: bucket.map(Bytes::from),
        key: key.map(Bytes::from),
        prefix: prefix.map(Bytes::from),
        first,
        last,
        file,
    };
    // The exception that ended it.
    let raised: Mutex<Option<PyErr>> = Mutex::default();
    let noted = |result: PyResult<()>| {
        result.map_err(|error| {
            raised.lock().get_or_insert(error);
            Error::Closed
        })
    };
    let done = py.detach(|| {
        let tick = || {
            let ended = raised.lock().is_some();
            if ended { Err(Error::Closed) } else { noted(Python::attach(|py| py.check_signals())) }
        };
        inspect(&environment().fs, &data, part, &filter, &tick, &mut |row| {
            noted(Python::attach(|py| take.call1(py, (as_dict(py, row)?,)).map(drop)))
        })
    });
    match raised.into_inner() {
        Some(error) => Err(error),
        None => done.map_err(store_error),
    }
}

fn as_dict(py: Python<'_>, entry: Entry) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("file", entry.file)?;
    dict.set_item("byte", entry.byte)?;
    dict.set_item("sequence", entry.sequence)?;
    dict.set_item("kind", entry.kind)?;
    for (name, value) in entry.fields {
        match value {
            Value::Number(number) => dict.set_item(name, number)?,
            Value::Text(text) => dict.set_item(name, text)?,
            Value::Bytes(bytes) => dict.set_item(name, PyBytes::new(py, &bytes))?,
            Value::Numbers(numbers) => dict.set_item(name, numbers)?,
            Value::Pairs(pairs) => {
                let pair = |(name, value): &(Bytes, Bytes)| (PyBytes::new(py, name), PyBytes::new(py, value));
                dict.set_item(name, pairs.iter().map(pair).collect::<Vec<_>>())?;
            }
        }
    }
    Ok(dict)
}
