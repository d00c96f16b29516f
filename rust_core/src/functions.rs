//! What the data path computes of every body and writes into every response, as functions: for tests, and for benchmarks
//! that compare it with plain Python. Sizes in bytes, times in milliseconds since 1970.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use orcas_checksum::{Etag, Md5Hasher};
use orcas_s3::format;
use orcas_s3::header_block::HeaderBlock;

/// Bytes of the lines of most objects.
const LINES_ROOM: usize = 512;

/// The MD5 (RFC 1321) of one message, computed as for a single body: 16 bytes.
#[pyfunction]
pub fn md5(py: Python<'_>, content: &[u8]) -> [u8; 16] {
    py.detach(|| Md5Hasher::digest(content))
}

/// The entity tag of 16 bytes of MD5, `parts` being 0 for an object that came in one request.
fn etag(md5: &[u8], parts: u16) -> PyResult<Etag> {
    let md5 = md5.try_into().map_err(|_| PyValueError::new_err("an MD5 has 16 bytes"))?;
    Ok(Etag { md5, parts })
}

#[pyfunction]
pub fn format_etag<'py>(py: Python<'py>, md5: &[u8], parts: u16) -> PyResult<Bound<'py, PyBytes>> {
    let etag = etag(md5, parts)?;
    Ok(made(py, format::ETAG_ROOM, |out| format::format_etag(out, &etag)))
}

#[pyfunction]
pub fn format_content_length(py: Python<'_>, length: u64) -> Bound<'_, PyBytes> {
    made(py, format::DECIMAL_ROOM, |out| format::format_content_length(out, length))
}

#[pyfunction]
pub fn format_last_modified(py: Python<'_>, modified_ms: i64) -> Bound<'_, PyBytes> {
    made(py, format::HTTP_DATE_LEN, |out| format::format_last_modified(out, modified_ms))
}

#[pyfunction]
pub fn format_content_range(py: Python<'_>, first: u64, last: u64, size: u64) -> Bound<'_, PyBytes> {
    made(py, format::CONTENT_RANGE_ROOM, |out| format::format_content_range(out, first, last, size))
}

#[pyfunction]
pub fn set_object_headers<'py>(
    py: Python<'py>,
    md5: &[u8],
    parts: u16,
    length: u64,
    modified_ms: i64,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut block = HeaderBlock::new();
    block.set_object_headers(&etag(md5, parts)?, length, modified_ms);
    Ok(lines(py, &block))
}

#[pyfunction]
pub fn set_object_headers_with_content_type<'py>(
    py: Python<'py>,
    md5: &[u8],
    parts: u16,
    length: u64,
    modified_ms: i64,
    content_type: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let mut block = HeaderBlock::new();
    block.set_object_headers_with_content_type(&etag(md5, parts)?, length, modified_ms, content_type);
    if block.is_flawed() {
        return Err(PyValueError::new_err("the content type has a line end or a NUL in it"));
    }
    Ok(lines(py, &block))
}

/// As HTTP/1.1 writes them.
fn lines<'py>(py: Python<'py>, block: &HeaderBlock) -> Bound<'py, PyBytes> {
    made(py, LINES_ROOM, |out| block.write_lines(out))
}

fn made(py: Python<'_>, room: usize, write: impl FnOnce(&mut Vec<u8>)) -> Bound<'_, PyBytes> {
    let mut out = Vec::with_capacity(room);
    write(&mut out);
    PyBytes::new(py, &out)
}
