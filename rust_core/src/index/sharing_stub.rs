//! Stands in until the real ones are there.

use super::{Reader, Stored};
use crate::error::Result;
use crate::record::{Identity, Sequence};

impl Reader<'_> {
    pub fn shared_blob(&self, _identity: &Identity) -> Result<Option<(Sequence, u32)>> {
        Ok(None)
    }
    pub fn scan_heads_of_shared(&self, _visit: &mut dyn FnMut(u64)) -> Result<()> {
        Ok(())
    }
    pub fn versions_by_sha256(&self, _sha256: &[u8; 32], _limit: usize) -> Result<Vec<Stored>> {
        Ok(Vec::new())
    }
}
