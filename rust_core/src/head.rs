//! The header list of an ASGI scope as bytes.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

pub type HeaderObjects<'py> = Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>;

/// An ASGI header list.
pub fn header_objects<'py>(headers: &Bound<'py, PyList>) -> PyResult<HeaderObjects<'py>> {
    headers.iter().map(|pair| header(&pair)).collect()
}

/// The bytes of it.
pub fn byte_pairs<'a>(objects: &'a HeaderObjects<'_>) -> Vec<(&'a [u8], &'a [u8])> {
    objects.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
}

/// One pair of it.
fn header<'py>(pair: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    // Servers give tuples, whose items are at hand; ASGI allows any iterable.
    match pair.cast::<PyTuple>() {
        Ok(pair) => Ok((pair.get_item(0)?.cast_into::<PyBytes>()?, pair.get_item(1)?.cast_into::<PyBytes>()?)),
        Err(_) => Ok((pair.get_item(0)?.cast_into::<PyBytes>()?, pair.get_item(1)?.cast_into::<PyBytes>()?)),
    }
}
