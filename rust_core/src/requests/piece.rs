//! A piece of a large body as Python reads it: a memoryview over the buffer that it was read and verified in.
//!
//! The bytes are not copied on their way to the socket. They never change and are freed, on whatever thread, when the last
//! view of them is gone, so a transport may keep a part of one for as long as the client takes to read.

#![allow(unsafe_code, reason = "a buffer is exported by filling in a C structure")]

use std::ffi::c_int;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use bytes::Bytes;

#[pyclass(frozen, module = "orcas._core")]
struct Piece {
    bytes: Bytes,
}

#[pymethods]
impl Piece {
    /// # Safety
    /// `view` is a structure that the interpreter wants filled in, as for every `__getbuffer__`.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        const READ_ONLY: c_int = 1;
        let bytes = &slf.get().bytes;
        let (start, length) = (bytes.as_ptr().cast_mut().cast(), bytes.len() as ffi::Py_ssize_t);
        // SAFETY: the view takes a reference to this object, which keeps the bytes where they are: nothing here is
        // mutable, and writers are refused.
        match unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length, READ_ONLY, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}

/// A read-only view of `bytes`.
pub fn view(py: Python<'_>, bytes: impl Into<Bytes>) -> PyResult<Bound<'_, PyMemoryView>> {
    PyMemoryView::from(Bound::new(py, Piece { bytes: bytes.into() })?.as_any())
}
