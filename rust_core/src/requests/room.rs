//! Memory that a transport reads into: a writable memoryview over a pooled buffer, so that a large body goes from the
//! socket to its worker without a copy.
//!
//! The transports of uvloop and asyncio release the view right after they report how much they read; the memory
//! stays where it is for as long as there is a view of it.

#![allow(unsafe_code, reason = "a buffer is exported by filling in a C structure, and written by who imports it")]

use std::ffi::c_int;

use bytes::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use orcas_base::buffers::Room;

#[pyclass(frozen, module = "orcas._core")]
struct Writable {
    room: Room,
}

#[pymethods]
impl Writable {
    /// # Safety
    /// `view` is a structure that the interpreter wants filled in, as for every `__getbuffer__`.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        const WRITABLE: c_int = 0;
        let room = &slf.get().room;
        let (start, length) = (room.start().as_ptr().cast(), room.length() as ffi::Py_ssize_t);
        // SAFETY: the view takes a reference to this object, which keeps the memory; nobody reads it before `filled`.
        match unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length, WRITABLE, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}

/// A writable view of `room`.
pub fn view(py: Python<'_>, room: Room) -> PyResult<Bound<'_, PyMemoryView>> {
    PyMemoryView::from(Bound::new(py, Writable { room })?.as_any())
}

/// The bytes that a transport reports to have read into the view of `room`.
pub fn filled(room: Room, count: usize) -> PyResult<Bytes> {
    if count > room.length() {
        return Err(PyValueError::new_err("more was read than the memory has room for"));
    }
    // SAFETY: `buffer_updated` is called with what was read into the view that `get_buffer` returned, and the next read
    // asks for another one.
    Ok(unsafe { room.filled(count) })
}
