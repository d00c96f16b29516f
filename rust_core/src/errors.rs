//! The exception that Python gets when a store cannot be used.

use orcas_base::error::Error;
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
