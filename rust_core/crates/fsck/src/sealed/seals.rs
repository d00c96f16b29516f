//! The seals of blobs: as the index has them, and as chunks end with them.

use orcas_base::error::Result;
use orcas_chunks::{ChunkCheck, ExpectedChunk, PackExamination};
use orcas_index::{BlobEntry, Index};
use orcas_record::{ChunkLocation, Seal};

/// How the blob is sealed, if it is.
///
/// # Errors
/// When the index cannot be read.
pub(crate) fn seal_of(index: &Index, entry: &BlobEntry) -> Result<Option<Seal>> {
    if !entry.sealed {
        return Ok(None);
    }
    Ok(index.read()?.sealed_blob(entry.sequence)?.and_then(|(_, seal)| seal))
}

/// The seal with which a chunk ends; `None` if the chunk is damaged.
///
/// # Errors
/// What reading ran into, and `meter`'s.
pub(crate) fn stored_seal(
    pack: &mut PackExamination,
    (at, length): (ChunkLocation, u32),
    meter: &dyn Fn(u64) -> Result<()>,
) -> Result<Option<Seal>> {
    let mut end = End::default();
    match pack.chunk(ExpectedChunk { at, length }, Some(&mut |stored| end.update(stored)), meter)? {
        ChunkCheck::Whole { .. } => Ok(end.seal()),
        ChunkCheck::Damaged { .. } => Ok(None),
    }
}

/// The last bytes of what is stored of a blob.
#[derive(Default)]
pub(crate) struct End(Vec<u8>);

impl End {
    /// The next bytes.
    pub fn update(&mut self, stored: &[u8]) {
        self.0.extend_from_slice(&stored[stored.len().saturating_sub(Seal::LENGTH)..]);
        let surplus = self.0.len().saturating_sub(Seal::LENGTH);
        self.0.drain(..surplus);
    }

    pub fn seal(&self) -> Option<Seal> {
        Seal::at_end_of(&self.0)
    }
}
