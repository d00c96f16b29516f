//! The entries of manifests and segments, and the numbers by which they name records.

use bytes::Bytes;

/// Store-wide order of records; the first record of a store has sequence 1.
pub type Sequence = u64;

/// A run of an object's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Content of at most `INLINE_MAX` bytes, which is not shared.
    Inline(Bytes),
    /// `length` bytes of a blob from `start` on.
    Blob { blob: Sequence, start: u32, length: u32 },
    /// A whole segment; `length` is the sum of its extents.
    Segment { segment: Sequence, length: u64 },
}

impl Extent {
    pub fn length(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Blob { length, .. } => u64::from(*length),
            Self::Segment { length, .. } => *length,
        }
    }
}
