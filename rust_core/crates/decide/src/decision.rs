//! A decision: what it may use besides the state, and the records that it makes.

use super::outcome::Outcome;
use orcas_record::{Record, Sequence, UploadId, VersionId};

/// The inputs of a decision besides the state.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// The sequence that the first record of the decision gets; the others follow it.
    pub next_sequence: Sequence,
    /// Random, used when the intent creates an upload.
    pub upload_id: UploadId,
    /// A secret of the store, so that nobody can guess the ids of versions.
    pub version_key: [u8; 32],
}

impl Context {
    /// The id of the version that the record with this sequence brings.
    pub fn version_id(&self, sequence: Sequence) -> VersionId {
        let mut hasher = blake3::Hasher::new_keyed(&self.version_key);
        // After a crash the sequence of a write that was not durable is used again, for another version.
        hasher.update(&sequence.to_le_bytes()).update(&self.now_ms.to_le_bytes());
        let mut id = [0; 16];
        id[..8].copy_from_slice(&sequence.to_be_bytes());
        id[8..].copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        VersionId::Named(id)
    }

    /// The time of a new version: that of a replica, unless it is ahead of the clock, or now.
    pub fn time_of(&self, replica_ms: Option<u64>) -> u64 {
        replica_ms.map_or(self.now_ms, |ms| ms.min(self.now_ms))
    }
}

/// An outcome with the records that make it true, in the order of their sequences.
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
