//! How content of one object is sealed, and which key opens it: one of the server, a named one, or the key of a
//! request. Must not know headers, or how keys are kept.

use std::sync::Arc;

use orcas_base::error::{Error, Result};
use orcas_record::Encryption;
use orcas_seal::{CheckKey, CheckValue, CustomerKey, DataKey, StoreId};

/// The key that a customer sent with a request.
#[derive(Clone, Debug)]
pub struct RequestKey(Arc<(CustomerKey, Arc<DataKey>)>);

impl RequestKey {
    pub fn new(bytes: &[u8; 32], store: StoreId) -> Self {
        let key = CustomerKey::new(bytes);
        let data_key = Arc::new(key.data_key(store));
        Self(Arc::new((key, data_key)))
    }

    pub fn check_value(&self, key: &CheckKey, salt: [u8; 16]) -> CheckValue {
        self.0.0.check_value(key, salt)
    }

    pub fn matches(&self, key: &CheckKey, value: &CheckValue) -> bool {
        self.0.0.matches(key, value)
    }
}

/// How content is sealed: what its object says, and the key of the request where that is needed.
#[derive(Clone, Debug, Default)]
pub struct Sealing {
    pub encryption: Option<Encryption>,
    pub key: Option<RequestKey>,
}

impl From<Option<Encryption>> for Sealing {
    fn from(encryption: Option<Encryption>) -> Self {
        Self { encryption, key: None }
    }
}

impl Sealing {
    /// Whether nothing may share blobs with it.
    pub fn is_private(&self) -> bool {
        matches!(self.encryption, Some(Encryption::Customer(_)))
    }

    /// The data key of the key of the request.
    ///
    /// # Errors
    /// [`Error::NoCustomerKey`].
    pub fn of_request(&self) -> Result<Arc<DataKey>> {
        let key = self.key.as_ref().ok_or(Error::NoCustomerKey)?;
        Ok(Arc::clone(&key.0.1))
    }
}
