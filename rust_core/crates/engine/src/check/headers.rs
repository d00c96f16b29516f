//! Verifies the tags of sealed headers with the data keys that seal them.

use super::super::content_keys::ContentKeys;
use super::super::encrypting::key_of_blob;
use super::super::sealed_headers::opened;
use super::FindingKind;
use super::collect::Collector;
use super::manifests::each_version;
use super::tags::{CUSTOMERS, context_of};
use orcas_base::error::{Error, Result};
use orcas_index::Index;
use orcas_record::{SealedHeaders, Version};

/// Finds the versions whose headers do not open although their key is at hand.
///
/// # Errors
/// When the index cannot be read, and that of a check that was cancelled.
pub(super) fn check_headers(keys: &dyn ContentKeys, index: &Index, collector: &Collector<'_>) -> Result<()> {
    each_version(index, &|| collector.go_on(), &mut |sequence, version| {
        let Ok(version) = version else { return Ok(()) };
        if let Some(sealed) = &version.headers.sealed
            && !may_open(keys, &version, sealed)
        {
            collector.find(FindingKind::Blob, format!("version {sequence}"), "its metadata does not match its tag");
            collector.damaged_headers(sequence);
        }
        Ok(())
    })
}

/// Whether they open, or nothing here could open them.
fn may_open(keys: &dyn ContentKeys, version: &Version, sealed: &SealedHeaders) -> bool {
    if sealed.seal.data_key == CUSTOMERS {
        return true;
    }
    let context = context_of(version.attributes.encryption.as_ref()).unwrap_or_default();
    match key_of_blob(keys, &sealed.seal, &context) {
        Ok(key) => opened(&key, sealed).is_ok(),
        // An algorithm that nobody has written.
        Err(Error::Record { .. }) => false,
        Err(_) => true,
    }
}
