//! The data keys of owners, from the keyring of the store to the engine.

use std::sync::Arc;

use orcas_base::error::{Error, Result};
use orcas_engine::ContentKeys;
use orcas_keyring::{KeyError, Keyring};
use orcas_seal::{DataKey, DataKeyId};

/// What data keys of content are kept under, followed by the owner.
const PURPOSE: &[u8] = b"content:";

pub struct KeyringKeys(pub Arc<Keyring>);

fn purpose(owner: &[u8]) -> Vec<u8> {
    [PURPOSE, owner].concat()
}

fn refusal(error: KeyError) -> Error {
    let reason = error.to_string().into();
    match error {
        KeyError::NotStored(_) | KeyError::Older(_) => Error::NoNewKey { reason },
        KeyError::Unusable(_) | KeyError::NoKey { .. } | KeyError::Unknown { .. } => Error::KeyUnusable { reason },
    }
}

impl ContentKeys for KeyringKeys {
    fn current(&self, owner: &[u8]) -> Result<Arc<DataKey>> {
        self.0.data_key(&purpose(owner)).map_err(refusal)
    }

    fn at_hand(&self, owner: &[u8]) -> bool {
        matches!(self.0.known_data_key(&purpose(owner)), Ok(Some(_)))
    }

    fn by_id(&self, id: DataKeyId) -> Result<Arc<DataKey>> {
        self.0.unwrap(id).map_err(refusal)
    }
}
