//! How long the documents of the API take: pages of lists, and what clients send as XML.

use orcas_metrics::{Histogram, Scale};

/// Objects and their bytes are no documents.
pub struct DocumentTimes {
    /// Pages of lists, each read from the engine and written in one pass.
    pub written: Histogram,
    /// Documents of requests.
    pub parsed: Histogram,
}

impl Default for DocumentTimes {
    fn default() -> Self {
        Self { written: Histogram::new(&Scale::SHORT_TIME), parsed: Histogram::new(&Scale::SHORT_TIME) }
    }
}
