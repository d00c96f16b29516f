//! A decision: what it may use besides the state, and the records that it makes.

use super::outcome::Outcome;
use orcas_record::{Record, Sequence, UploadId};

/// What a decision may use besides the state.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// The sequence that the first record of the decision gets; the others follow it.
    pub next_sequence: Sequence,
    /// Random, used when the intent creates an upload.
    pub upload_id: UploadId,
}

/// A verdict with the records that make it true, in the order of their sequences.
#[derive(Debug)]
pub struct Decision {
    pub outcome: Outcome,
    pub records: Vec<Record>,
}

impl Decision {
    pub fn without_records(outcome: Outcome) -> Self {
        Self { outcome, records: Vec::new() }
    }
}
