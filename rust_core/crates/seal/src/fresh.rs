//! Randomness, and ids that nothing was sealed under yet.

use crate::error::Result;
use crate::id::{SEAL_ID_LENGTH, SealId};

/// Fills a slice with random bytes that nobody can predict.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]) -> Result<()>;

/// A [`SealId`] that nothing was sealed under yet. Sealing consumes it, so that no key meets the same nonce twice. It is
/// random, so neither a crash nor a restored backup brings an old one back.
#[derive(Debug)]
pub struct FreshId(SealId);

impl FreshId {
    /// # Errors
    /// Those of `random`.
    pub fn draw(random: Random<'_>) -> Result<Self> {
        let mut id = [0; SEAL_ID_LENGTH];
        random(&mut id)?;
        Ok(Self(SealId(id)))
    }

    /// Whoever takes the id out seals under it, once.
    pub(crate) fn used(self) -> SealId {
        self.0
    }
}
