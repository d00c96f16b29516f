//! The digests of bodies as functions, for tests and for benchmarks that compare an upload with them.

use pyo3::prelude::*;

use orcas_checksum::Md5Hasher;

/// The MD5 (RFC 1321) of one message, computed as for a single body: 16 bytes.
#[pyfunction]
pub fn md5(py: Python<'_>, content: &[u8]) -> [u8; 16] {
    py.detach(|| Md5Hasher::digest(content))
}
