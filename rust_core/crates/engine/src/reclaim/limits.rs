//! What a step of reclamation may do, and what it did.

/// What is worth doing, and how much of it.
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
    /// Somebody waits: the index follows at once instead of gathering what comes.
    pub hurry: bool,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing is worth doing.
    Idle,
    /// Bytes were read or written, or something was submitted.
    Worked { bytes: u64 },
    /// For a commit, the index or a reader.
    Waiting,
}
