//! Where the suites take the keys of sealed content from.

use std::sync::Arc;

use orcas_base::error::{Error, KeyFault, Result};
use orcas_seal::{CheckKey, DataKey, DataKeyId, Secret, StoreId};
use orcas_store::{ContentKeys, KeyId};

/// One data key of a store, for every owner and every named key.
pub struct OneKey(Arc<DataKey>);

impl OneKey {
    pub fn of(store: u8) -> Arc<Self> {
        let made = DataKey::generate(StoreId([store; 16]), &mut |bytes| {
            bytes.fill(7);
            Ok(())
        });
        Arc::new(Self(Arc::new(made.expect("the bytes are given"))))
    }
}

impl ContentKeys for OneKey {
    fn store(&self) -> StoreId {
        self.0.store()
    }

    fn current(&self, _: &[u8], _: Option<KeyId>) -> Result<Arc<DataKey>> {
        Ok(Arc::clone(&self.0))
    }

    fn at_hand(&self, _: &[u8], _: Option<KeyId>) -> bool {
        true
    }

    fn named(&self, _: Option<&str>) -> Result<KeyId> {
        Ok([3; 16])
    }

    fn check_named(&self, _: KeyId) -> Result<()> {
        Ok(())
    }

    fn check_key(&self) -> Result<CheckKey> {
        Ok(CheckKey::new(Secret::new(&[8; 32])))
    }

    fn by_id(&self, id: DataKeyId) -> Result<Arc<DataKey>> {
        let unknown = Error::KeyUnusable { reason: "unknown".into(), fault: KeyFault::Missing };
        if id == self.0.id() { Ok(Arc::clone(&self.0)) } else { Err(unknown) }
    }
}
