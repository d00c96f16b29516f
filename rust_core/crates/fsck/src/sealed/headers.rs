//! Verifies the authentication tags of sealed headers with the data keys that seal them: of versions, and of uploads
//! that are not completed, since an object gets the headers of its upload as they are.

use super::tags::AuthTagCheck;
use crate::FindingKind;
use crate::collect::Collector;
use crate::manifests::{each_upload, each_version};
use orcas_base::error::Result;
use orcas_index::Index;
use orcas_record::Sequence;

/// Finds the versions and uploads whose headers do not open although their key is at hand.
///
/// # Errors
/// When the index cannot be read, and that of a check that was cancelled.
pub(crate) fn check_headers(tags: &AuthTagCheck<'_>, index: &Index, collector: &Collector<'_>) -> Result<()> {
    let damaged = |what: &str, sequence: Sequence| {
        collector.find(
            FindingKind::Blob,
            format!("{what} {sequence}"),
            "its metadata does not match its authentication tag",
        );
        collector.damaged_headers(sequence);
    };
    let go_on = || collector.go_on();
    each_version(index, &go_on, &mut |sequence, version| {
        if let Ok(version) = version
            && let Some(sealed) = &version.headers.sealed
            && !tags.headers_may_open(sealed, version.attributes.encryption.as_ref())
        {
            damaged("version", sequence);
        }
        Ok(())
    })?;
    each_upload(index, &go_on, &mut |found| {
        if let Ok(upload) = &found.upload
            && let Some(sealed) = &upload.headers.sealed
            && !tags.headers_may_open(sealed, upload.attributes.encryption.as_ref())
        {
            damaged("upload", found.sequence);
        }
    })
}
