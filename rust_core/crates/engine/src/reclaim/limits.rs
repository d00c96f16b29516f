//! The limits of a step of reclamation, and its result.

/// The kinds of work that are worth doing, and how much of each.
#[derive(Clone, Copy, Debug)]
pub struct ReclaimLimits {
    /// A file is rewritten when at most this share of it still counts.
    pub live_max: f64,
    /// Bytes that must be gained.
    pub freed_min: u64,
    /// Bytes that may be written at a time; less when the disk is nearly full.
    pub output_max: u64,
    /// Log files and packs are rewritten, not only given up when nothing in them counts.
    pub compact: bool,
    /// Somebody waits: the index follows at once instead of gathering batches.
    pub hurry: bool,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is no work worth doing.
    Idle,
    /// Bytes were read or written, or something was submitted.
    Worked { bytes: u64 },
    /// Waiting for a commit, the index or a reader.
    Waiting,
}
