//! What the engine's threads report, as dicts for Python's log. They never wait for Python: it comes for the events.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use orcas_telemetry::diagnostics::{self, Level, Value};

#[derive(IntoPyObject)]
pub struct Event<'py> {
    part: &'static str,
    level: u32,
    file: &'static str,
    line: u32,
    message: String,
    fields: Bound<'py, PyDict>,
}

/// Collects events from this level of `logging` on. Called again, it changes the level.
#[pyfunction]
pub fn collect_events(level: u32) {
    diagnostics::collect(match level {
        0..=10 => Level::DEBUG,
        11..=20 => Level::INFO,
        21..=30 => Level::WARN,
        31.. => Level::ERROR,
    });
}

/// Blocks until `take_events` has something. False after `end_events`.
#[pyfunction]
pub fn wait_for_events(py: Python<'_>) -> bool {
    py.detach(diagnostics::wait)
}

/// The events that nobody has taken yet, in order.
#[pyfunction]
pub fn take_events(py: Python<'_>) -> PyResult<Vec<Event<'_>>> {
    diagnostics::take().into_iter().map(|event| converted(py, event)).collect()
}

/// Frees whoever blocks in `wait_for_events`. Events are collected as before.
#[pyfunction]
pub fn end_events() {
    diagnostics::end();
}

fn converted(py: Python<'_>, event: diagnostics::Event) -> PyResult<Event<'_>> {
    let diagnostics::Event { level, part, file, line, message, fields: values } = event;
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
    Ok(Event { part, level, file, line, message, fields })
}
