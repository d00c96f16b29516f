//! Where the data keys under which content is sealed come from. Must not know how they are kept.

use std::sync::Arc;

use orcas_base::error::Result;
use orcas_seal::{DataKey, DataKeyId};

/// Where the data keys of owners come from.
pub trait ContentKeys: Send + Sync {
    /// The key under which new content of the owner is sealed. May write files the first time.
    ///
    /// # Errors
    /// Why there is none.
    fn current(&self, owner: &[u8]) -> Result<Arc<DataKey>>;
    /// Whether `current` would answer without waiting.
    fn at_hand(&self, owner: &[u8]) -> bool;
    /// Never waits.
    ///
    /// # Errors
    /// Why it cannot be used.
    fn by_id(&self, id: DataKeyId) -> Result<Arc<DataKey>>;
}
