//! What has threads and belongs to one process. A child of a fork has none of these threads, but shares files, sockets and
//! locks with its parent, so it may neither use nor close what it has inherited.

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// Dropped without the interpreter, because that may join threads; in a child of a fork, not dropped at all.
pub struct Owned<T: Send> {
    /// None only while this is dropped.
    inner: Option<T>,
    /// What it is, for the sentence that refuses.
    name: &'static str,
    process: u32,
}

impl<T: Send> Owned<T> {
    pub fn new(name: &'static str, inner: T) -> Self {
        Self { inner: Some(inner), name, process: std::process::id() }
    }

    /// # Errors
    /// `OSError` in a child of the process that has made it.
    pub fn get(&self) -> PyResult<&T> {
        let inner = self.inner.as_ref().filter(|_| self.process == std::process::id());
        inner.ok_or_else(|| {
            let name = self.name;
            PyOSError::new_err(format!("the {name} belongs to the process that has started it, not to its child"))
        })
    }
}

impl<T: Send> Drop for Owned<T> {
    fn drop(&mut self) {
        let Some(inner) = self.inner.take() else { return };
        if self.process != std::process::id() {
            std::mem::forget(inner);
            return;
        }
        // While the interpreter ends, nobody else wants it, and this drops what was given without calling it.
        Python::try_attach(|py| py.detach(|| drop(inner)));
    }
}
