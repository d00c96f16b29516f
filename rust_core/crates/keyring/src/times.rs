//! How long keys take: deriving the master key from its secret, and unwrapping a data key that was not in memory.

use std::sync::Arc;

use orcas_metrics::{Histogram, Scale};

/// Since the keyring was opened, that included.
#[derive(Clone, Debug)]
pub struct KeyTimes {
    /// Times to derive master keys. Scrypt takes most of it, if there is a passphrase.
    pub derived: Arc<Histogram>,
    /// Times to unwrap data keys that the cache did not have.
    pub unwrapped: Arc<Histogram>,
}

impl Default for KeyTimes {
    fn default() -> Self {
        let histogram = || Arc::new(Histogram::new(&Scale::SHORT_TIME));
        Self { derived: histogram(), unwrapped: histogram() }
    }
}
