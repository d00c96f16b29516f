//! The exceptions that Python gets when a store cannot be used, and when it refuses what was asked for.

use orcas_base::error::Error;
use orcas_s3::S3Error;
use pyo3::PyErr;

pyo3::create_exception!(
    _core,
    StoreError,
    pyo3::exceptions::PyException,
    "The store cannot be opened, read or closed in order. The message is one sentence."
);

pub fn store_error(error: Error) -> PyErr {
    StoreError::new_err(error.to_string())
}

pyo3::create_exception!(
    _core,
    MasterKeyError,
    StoreError,
    "The master key is missing, or does not open the keyring. The message is one sentence."
);

pyo3::create_exception!(
    _core,
    Refusal,
    pyo3::exceptions::PyException,
    "A request is answered with an error. The arguments are status, code and message."
);

pub fn refusal(status: u16, code: &'static str, message: String) -> PyErr {
    Refusal::new_err((status, code, message))
}

pub fn refusal_of(error: S3Error) -> PyErr {
    refusal(error.code.status(), error.code.as_str(), error.message.into_owned())
}
