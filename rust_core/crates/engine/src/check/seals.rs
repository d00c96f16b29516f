//! The seals of blobs, as the index has them.

use orcas_base::error::Result;
use orcas_index::{BlobEntry, Index};
use orcas_record::Seal;

/// How the blob is sealed, if it is.
///
/// # Errors
/// When the index cannot be read.
pub(super) fn seal_of(index: &Index, entry: &BlobEntry) -> Result<Option<Seal>> {
    if !entry.sealed {
        return Ok(None);
    }
    Ok(index.read()?.sealed_blob(entry.sequence)?.and_then(|(_, seal)| seal))
}
