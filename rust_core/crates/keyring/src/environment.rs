//! The parts of the machine that the keyring uses: real in a server, simulated in tests.

use std::sync::Arc;

use orcas_fs::{FileSystem, Random};
use orcas_seal::{CacheLimits, Error as SealError};

/// Milliseconds of some clock.
pub type Now = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The parts of the machine that the keyring uses.
#[derive(Clone)]
pub struct Environment {
    pub fs: Arc<dyn FileSystem>,
    pub random: Arc<dyn Random>,
    /// Since 1970.
    pub now_ms: Now,
    /// Never goes back.
    pub monotonic_ms: Now,
    /// Limits of the caches of unwrapped data keys and of the keys of blobs.
    pub cache: CacheLimits,
}

impl Environment {
    pub(crate) fn fill(&self, bytes: &mut [u8]) -> Result<(), SealError> {
        self.random.fill(bytes).map_err(|_| SealError::Invalid { reason: "the system gives no random bytes" })
    }
}
