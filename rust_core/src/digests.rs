//! The digests of bodies as functions, for the benchmarks that set an upload against them and for tests.

use pyo3::prelude::*;

use orcas_checksum::Md5Hasher;

/// The MD5 (RFC 1321) of one message, as a body that comes alone gets it: 16 bytes.
#[pyfunction]
pub fn md5(py: Python<'_>, content: &[u8]) -> [u8; 16] {
    py.detach(|| Md5Hasher::digest(content))
}
