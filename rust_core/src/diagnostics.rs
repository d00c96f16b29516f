//! What the engine's threads report, as dicts for Python's log. They never wait for Python: it comes for the diagnostics.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use orcas_telemetry::diagnostics::{self, Level, Value};

#[derive(IntoPyObject)]
pub struct Diagnostic<'py> {
    part: &'static str,
    level: u32,
    file: &'static str,
    line: u32,
    message: String,
    fields: Bound<'py, PyDict>,
}

/// Collects diagnostics from this level of `logging` on. Called again, it changes the level.
#[pyfunction]
pub fn collect_diagnostics(level: u32) {
    diagnostics::collect(match level {
        0..=10 => Level::DEBUG,
        11..=20 => Level::INFO,
        21..=30 => Level::WARN,
        31.. => Level::ERROR,
    });
}

/// Blocks until `take_diagnostics` has something. False after `end_diagnostics`.
#[pyfunction]
pub fn wait_for_diagnostics(py: Python<'_>) -> bool {
    py.detach(diagnostics::wait)
}

/// The diagnostics that nobody has taken yet, in order.
#[pyfunction]
pub fn take_diagnostics(py: Python<'_>) -> PyResult<Vec<Diagnostic<'_>>> {
    diagnostics::take().into_iter().map(|diagnostic| converted(py, diagnostic)).collect()
}

/// Frees whoever blocks in `wait_for_diagnostics`. Diagnostics are collected as before.
#[pyfunction]
pub fn end_diagnostics() {
    diagnostics::end();
}

fn converted(py: Python<'_>, diagnostic: diagnostics::Diagnostic) -> PyResult<Diagnostic<'_>> {
    let diagnostics::Diagnostic { level, part, file, line, message, fields: values } = diagnostic;
    let fields = PyDict::new(py);
    for (name, value) in values {
        match value {
            Value::Text(text) => fields.set_item(name, text)?,
            Value::Signed(number) => fields.set_item(name, number)?,
            Value::Unsigned(number) => fields.set_item(name, number)?,
            Value::Float(number) => fields.set_item(name, number)?,
            Value::Flag(flag) => fields.set_item(name, flag)?,
        }
    }
    let level = match level {
        Level::TRACE | Level::DEBUG => 10,
        Level::INFO => 20,
        Level::WARN => 30,
        Level::ERROR => 40,
    };
    Ok(Diagnostic { part, level, file, line, message, fields })
}
