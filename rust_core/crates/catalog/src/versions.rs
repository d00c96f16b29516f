//! Looking up versions that need not be current, and the newest one when the overlay does not hold it. As for the
//! current version, the overlay is asked first: what it loses meanwhile is in the index by then.

use std::sync::Arc;

use bytes::Bytes;

use super::Catalog;
use super::cache::LocatedObject;
use super::objects::{PinnedObject, in_overlay, single_blob};
use super::recent::key_changes::{Known, NewerChanges};
use super::recent::overlay::BlobPlace;
use orcas_base::error::Result;
use orcas_index::{Reader, Stored};
use orcas_record::{BucketId, Object, Sequence, VersionId};
use orcas_store::version_of;

impl Catalog {
    /// The version with this id, current or not, also a delete marker. Blocking.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn version_with(&self, bucket: BucketId, key: &Bytes, id: VersionId) -> Result<Option<PinnedObject>> {
        let pin = self.epochs.pin();
        let located = self.version_below(bucket, key, id, NewerChanges::default())?;
        Ok(located.map(|located| PinnedObject::of(located, pin)))
    }

    /// The delete marker that hides the versions of a key; `None` when the newest version is none. Blocking.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn newest_marker(&self, bucket: BucketId, key: &Bytes) -> Result<Option<PinnedObject>> {
        let pin = self.epochs.pin();
        let newest = self.newest_below(bucket, key, Sequence::MAX, NewerChanges::default())?;
        let marker = newest.filter(|located| located.object.version.delete_marker);
        Ok(marker.map(|located| PinnedObject::of(located, pin)))
    }

    /// The newest version of a key with a lower sequence than `before`, by what is published, with `changes` on top of
    /// that; also a delete marker.
    pub fn newest_below(
        &self,
        bucket: BucketId,
        key: &[u8],
        before: Sequence,
        mut changes: NewerChanges,
    ) -> Result<Option<LocatedObject>> {
        {
            let overlay = self.overlay.read();
            if let Some(recent) = overlay.key_changes(bucket, key) {
                match changes.newest_in(recent, before) {
                    Known::Object(object) => return Ok(Some(in_overlay(&overlay, &object))),
                    Known::Gone => return Ok(None),
                    Known::Below => {}
                }
            }
        }
        let mut reader = self.index.read()?;
        let transaction = reader.begin()?;
        match newest_shown(&transaction, (bucket, key), before, &changes)? {
            Some(sequence) => located(&transaction, transaction.version_record(sequence)?, &changes),
            None => Ok(None),
        }
    }

    /// The version with this id by what is published, with `changes` on top of that; also a delete marker.
    pub fn version_below(
        &self,
        bucket: BucketId,
        key: &[u8],
        id: VersionId,
        mut changes: NewerChanges,
    ) -> Result<Option<LocatedObject>> {
        {
            let overlay = self.overlay.read();
            if let Some(recent) = overlay.key_changes(bucket, key) {
                match changes.version_in(recent, id) {
                    Known::Object(object) => return Ok(Some(in_overlay(&overlay, &object))),
                    Known::Gone => return Ok(None),
                    Known::Below => {}
                }
            }
        }
        let mut reader = self.index.read()?;
        let transaction = reader.begin()?;
        located(&transaction, transaction.version(bucket, key, id)?, &changes)
    }
}

/// The sequence of the newest version of a key before this one in the index that `changes` do not hide.
pub fn newest_shown(
    reader: &Reader<'_>,
    key: (BucketId, &[u8]),
    before: Sequence,
    changes: &NewerChanges,
) -> Result<Option<Sequence>> {
    let mut newest = None;
    reader.versions_of_key(key, before, usize::MAX, &mut |row| {
        newest = (!changes.hide(row.version_id, row.listed.sequence)).then_some(row.listed.sequence);
        newest.is_none()
    })?;
    Ok(newest)
}

fn located(reader: &Reader<'_>, stored: Option<Stored>, changes: &NewerChanges) -> Result<Option<LocatedObject>> {
    let Some(stored) = stored else { return Ok(None) };
    let version = version_of(&stored)?;
    let place = match single_blob(&version) {
        Some(blob) => reader.sealed_blob(blob)?.map(BlobPlace::at),
        None => None,
    };
    let object = Arc::new(Object { sequence: stored.sequence, version });
    Ok(Some(LocatedObject { object: changes.shown(object), place }))
}
