//! The state as the committer sees it: records decided in this batch over the published overlay over the index.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::tokens::RequestTokens;
use crate::state::EngineState;
use orcas_base::error::{Error, Result};
use orcas_base::planted::{self, Bug};
use orcas_catalog::{
    BucketTable, Current, KeyChanges, Known, NewerChanges, Overlay, pass_published, published_blob, shows_nothing,
    successor,
};
use orcas_decide::{Completed, View};
use orcas_record::{
    BlobLocation, Bucket, BucketId, BucketRole, DocumentKind, Extent, Fingerprint, Object, PackId, Part, Sequence,
    Upload, UploadId, VersionId,
};
use orcas_store::part_of;

pub(crate) struct CommitterView<'a> {
    pub shared: &'a EngineState,
    pub pending: &'a Overlay,
    pub buckets: &'a BucketTable,
    pub tokens: &'a RequestTokens,
    /// UpdateVersion records that were decided.
    pub updates: u64,
}

/// Parts asked of the index at a time.
const PART_PAGE: usize = 1_000;

impl View for CommitterView<'_> {
    fn bucket(&self, id: BucketId) -> Option<Arc<Bucket>> {
        self.buckets.by_id(id).cloned()
    }

    fn bucket_by_name(&self, name: &[u8]) -> Option<Arc<Bucket>> {
        self.buckets.by_name(name).cloned()
    }

    fn bucket_count(&self) -> usize {
        self.buckets.count()
    }

    fn snapshot(&self, name: &[u8]) -> Option<Arc<Bucket>> {
        self.buckets.snapshot(name).cloned()
    }

    fn snapshot_count(&self) -> usize {
        self.buckets.snapshot_count()
    }

    fn is_named_beside(&self, layer: BucketId, by: BucketId) -> bool {
        self.buckets.is_named_beside(layer, by)
    }

    fn has_snapshots(&self, bucket: &Bucket) -> bool {
        self.buckets.snapshots_of(&bucket.name).next().is_some()
    }

    fn document(&self, bucket: BucketId, kind: DocumentKind) -> Option<Bytes> {
        self.buckets.documents().get(bucket, kind).map(|document| document.bytes.clone())
    }

    fn documents_len(&self) -> usize {
        self.buckets.documents().total_len()
    }

    fn bucket_is_empty(&self, id: BucketId) -> Result<bool> {
        if self.pending.has_versions(id) {
            return Ok(false);
        }
        // The connection first, as everywhere: a thread that waits for one must not block others at the overlay.
        let reader = self.shared.catalog.index.read()?;
        // A deletion decided in this batch or published lately may not have reached the index. What the overlay loses
        // before it is locked is in the index by then, which is read behind it.
        let overlay = self.shared.catalog.overlay.read();
        let hides = |changes: Option<&KeyChanges>, version, sequence| {
            changes.is_some_and(|changes| changes.hide(version, sequence))
        };
        let is_left = |key: &Bytes, recent: &KeyChanges| {
            let decided = self.pending.key_changes(id, key);
            recent.live().any(|object| !hides(decided, object.version.version_id, object.sequence))
        };
        if overlay.range(id, Bound::Unbounded).any(|(key, recent)| is_left(key, recent)) {
            return Ok(false);
        }
        let mut empty = true;
        reader.every_version(id, &mut |row| {
            let (key, version, sequence) = (&row.listed.key, row.version_id, row.listed.sequence);
            empty = hides(self.pending.key_changes(id, key), version, sequence)
                || hides(overlay.key_changes(id, key), version, sequence);
            empty
        })?;
        Ok(empty)
    }

    fn shows_nothing(&self, bucket: &Bucket) -> Result<bool> {
        let amendments = bucket.amendments();
        let brings = |layer: &&BucketId| Some(**layer) != amendments && self.pending.has_versions(**layer);
        if bucket.layers.iter().any(|layer| brings(&layer)) {
            return Ok(false);
        }
        shows_nothing(&self.shared.catalog, bucket)
    }

    fn layer_object(&self, bucket: BucketId, key: &[u8]) -> Result<Option<Arc<Object>>> {
        match self.pending.key_changes(bucket, key).map(KeyChanges::current) {
            Some(Current::Object(object)) => return Ok(Some(Arc::clone(object))),
            Some(Current::None) => return Ok(None),
            Some(Current::Below) => {
                let newest = self.layer_newest(bucket, key, Sequence::MAX)?;
                return Ok(newest.filter(|object| !object.version.delete_marker));
            }
            None => {}
        }
        self.shared.catalog.object_to_decide(bucket, &Bytes::copy_from_slice(key))
    }

    fn layer_version(&self, bucket: BucketId, key: &[u8], id: VersionId) -> Result<Option<Arc<Object>>> {
        let mut changes = NewerChanges::default();
        if let Some(recent) = self.pending.key_changes(bucket, key).filter(|_| !planted::is(Bug::LocksOutOfOrder)) {
            match changes.version_in(recent, id) {
                Known::Object(object) => return Ok(Some(object)),
                Known::Gone => return Ok(None),
                Known::Below => {}
            }
        }
        Ok(self.shared.catalog.version_below(bucket, key, id, changes)?.map(|located| located.object))
    }

    fn layer_newest(&self, bucket: BucketId, key: &[u8], before: Sequence) -> Result<Option<Arc<Object>>> {
        let mut changes = NewerChanges::default();
        if let Some(recent) = self.pending.key_changes(bucket, key) {
            match changes.newest_in(recent, before) {
                Known::Object(object) => return Ok(Some(object)),
                Known::Gone => return Ok(None),
                Known::Below => {}
            }
        }
        Ok(self.shared.catalog.newest_below(bucket, key, before, changes)?.map(|located| located.object))
    }

    /// Passes over removed versions as published records show them: records that are decided and not published only
    /// remove more. Too many are left to the next request, which goes on from there.
    fn pass_hidden_in(&self, above: &[BucketId], layer: BucketId, key: &[u8], hidden: Sequence) -> Result<Sequence> {
        let passed = pass_published(&self.shared.catalog, above, layer, key, hidden)?;
        if passed.cut { Err(Error::ManyDeleted) } else { Ok(passed.oldest) }
    }

    fn segment(&self, segment: Sequence) -> Result<Arc<[Extent]>> {
        match self.pending.segment(segment) {
            Some(extents) => Ok(Arc::clone(extents)),
            None => self.shared.catalog.segment(segment),
        }
    }

    fn shared_blob(
        &self,
        fingerprint: &Fingerprint,
        length: u32,
        prefix_hash: Option<u64>,
    ) -> Result<Option<Sequence>> {
        let condemned = |blob| self.pending.is_condemned(blob);
        match self.pending.shared_blob(fingerprint) {
            Some((blob, found)) if found == length && !condemned(blob) => Ok(Some(blob)),
            _ => published_blob(&self.shared.catalog, fingerprint, length, prefix_hash, &condemned),
        }
    }

    fn upload(&self, id: UploadId) -> Result<Option<Arc<Upload>>> {
        match self.pending.upload(id) {
            Some(change) => Ok(change.value.clone()),
            None => self.shared.catalog.open_upload(id),
        }
    }

    fn parts(&self, id: UploadId) -> Result<BTreeMap<u16, Arc<Part>>> {
        // The overlay first: what it loses meanwhile is in the index by then.
        let recent: Vec<Arc<Part>> = self.shared.catalog.overlay.read().parts(id, 0).cloned().collect();
        let mut parts = BTreeMap::new();
        let mut after = 0;
        loop {
            let page = self.shared.catalog.index.read()?.parts(id, after, PART_PAGE)?;
            for row in &page {
                parts.insert(row.number, Arc::new(part_of(&row.part)?));
            }
            match page.last() {
                Some(last) if page.len() == PART_PAGE => after = last.number,
                _ => break,
            }
        }
        parts.extend(recent.into_iter().map(|part| (part.number, part)));
        parts.extend(self.pending.parts(id, 0).map(|part| (part.number, Arc::clone(part))));
        Ok(parts)
    }

    fn each_object(
        &self,
        bucket: BucketId,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], Sequence) -> bool,
    ) -> Result<bool> {
        // The overlay first: what it loses meanwhile is in the index by then.
        let mut recent = BTreeMap::new();
        note_current(&self.shared.catalog.overlay.read(), bucket, prefix, &mut recent);
        note_current(self.pending, bucket, prefix, &mut recent);
        let mut recent = recent.into_iter().peekable();
        let mut all = true;
        let mut tell = |key: &[u8], sequence: Option<Sequence>| sequence.is_none_or(|sequence| visit(key, sequence));
        let until = successor(prefix);
        self.shared.catalog.index.read()?.scan_current(
            bucket,
            prefix,
            true,
            until.as_deref(),
            usize::MAX,
            &mut |row| {
                while let Some((key, sequence)) = recent.next_if(|(key, _)| key[..] < row.key[..]) {
                    all = all && tell(&key, sequence);
                }
                let changed = recent.next_if(|(key, _)| key[..] == row.key[..]);
                all = all && tell(&row.key, changed.map_or(Some(row.sequence), |(_, sequence)| sequence));
                all
            },
        )?;
        Ok(all && recent.all(|(key, sequence)| tell(&key, sequence)))
    }

    fn updates(&self) -> u64 {
        self.updates
    }

    fn request_of(&self, token: &[u8; 32]) -> Option<[u8; 32]> {
        self.tokens.request_of(token)
    }

    fn completed(&self, id: UploadId) -> Result<Option<Completed>> {
        match self.pending.completed(id) {
            Some(completed) => Ok(Some(completed.clone())),
            None => self.shared.catalog.completed(id),
        }
    }
}

/// Notes which objects records here have brought and ended. A record of attributes alone says nothing of that.
fn note_current(overlay: &Overlay, bucket: BucketId, prefix: &[u8], recent: &mut BTreeMap<Bytes, Option<Sequence>>) {
    for (key, changes) in overlay.range(bucket, Bound::Included(prefix)).take_while(|(key, _)| key.starts_with(prefix))
    {
        let sequence = match changes.current() {
            Current::Object(object) => Some(object.sequence),
            Current::None => None,
            Current::Below => continue,
        };
        recent.insert(key.clone(), sequence);
    }
}

/// The questions of maintenance and quotas.
impl CommitterView<'_> {
    /// Condemns `blob` if nothing refers to it or asks for it, and nothing has since it was chosen. If it returns true,
    /// nothing ever will.
    pub fn condemn(&self, blob: Sequence) -> Result<bool> {
        if planted::is(Bug::CondemnWithoutCheck) {
            let fingerprint = self.shared.catalog.index.read()?.blob_fingerprint(blob)?;
            return Ok(fingerprint.is_none_or(|fingerprint| self.shared.catalog.pins.condemn(fingerprint, blob)));
        }
        // A reference that was decided after the blob was chosen has taken it off the candidates; one from before is
        // in the index, which was waited for.
        if !self.shared.reclaim.candidates.contains(blob) {
            return Ok(false);
        }
        // What is decided and not applied yet; then the index.
        if self.pending.mentions(blob) || self.shared.catalog.overlay.read().mentions(blob) {
            return Ok(false);
        }
        let reader = self.shared.catalog.index.read()?;
        if reader.blob_refs(blob)? != Some(0) {
            return Ok(false);
        }
        // An upload that has found the blob by its fingerprint and is not decided yet holds a pin on it.
        Ok(reader.blob_fingerprint(blob)?.is_none_or(|fingerprint| self.shared.catalog.pins.condemn(fingerprint, blob)))
    }

    /// A part of an upload.
    pub fn part(&self, id: UploadId, number: u16) -> Result<Option<Arc<Part>>> {
        let after = number.saturating_sub(1);
        let of = |overlay: &Overlay| overlay.parts(id, after).next().filter(|part| part.number == number).cloned();
        // The overlay first: what it loses meanwhile is in the index by then.
        if let Some(part) = of(self.pending).or_else(|| of(&self.shared.catalog.overlay.read())) {
            return Ok(Some(part));
        }
        let found = self.shared.catalog.index.read()?.parts(id, after, 1)?;
        match found.first().filter(|row| row.number == number) {
            Some(row) => Ok(Some(Arc::new(part_of(&row.part)?))),
            None => Ok(None),
        }
    }

    /// Whether `id` is a layer that is to be removed.
    pub fn is_dropped(&self, id: BucketId) -> bool {
        self.buckets.by_id(id).is_some_and(|bucket| bucket.role == BucketRole::Dropped)
    }

    /// Whether nothing is left in a layer that takes no writes. The index must say so twice, by its rows and by its
    /// counts: it could not be built again from a log that deletes a layer which is not empty.
    pub fn layer_is_empty(&self, layer: BucketId) -> Result<bool> {
        // What is decided or published is not counted yet.
        let is_changed = |overlay: &Overlay| overlay.range(layer, Bound::Unbounded).next().is_some();
        if is_changed(self.pending)
            || is_changed(&self.shared.catalog.overlay.read())
            || !self.bucket_is_empty(layer)?
        {
            return Ok(false);
        }
        if self.shared.catalog.index.read()?.bucket_is_empty(layer)? {
            return Ok(true);
        }
        let reason = Arc::from("it lacks versions of a layer that it counts");
        if self.shared.catalog.index.is_file() {
            self.shared.index_rebuild.request(&reason);
        }
        Err(Error::IndexDamaged { reason })
    }

    /// Whether the bytes of `blob` are in `pack`.
    pub fn chunk_is_in(&self, blob: Sequence, pack: PackId) -> Result<bool> {
        if self.pending.is_condemned(blob) || self.shared.catalog.overlay.read().is_condemned(blob) {
            return Ok(false);
        }
        let place = self.shared.catalog.index.read()?.blob(blob)?;
        Ok(matches!(place, Some(BlobLocation::Pack { at, .. }) if at.pack() == pack))
    }

    /// Whether `pack` exists, holds nothing that counts, and nothing is on its way into it.
    pub fn pack_is_free(&self, pack: PackId) -> Result<bool> {
        if planted::is(Bug::RetirePackInFlight) {
            return Ok(self.shared.catalog.index.read()?.blobs_in_pack(pack, None, 1)?.is_empty());
        }
        // In the order in which a chunk gets there: written and pinned, decided, published, in the index.
        if !self.shared.packs.is_idle(pack) || self.pending.pack_in_use(pack) {
            return Ok(false);
        }
        if self.shared.catalog.overlay.read().pack_in_use(pack) {
            return Ok(false);
        }
        let reader = self.shared.catalog.index.read()?;
        Ok(reader.has_pack(pack)? && reader.blobs_in_pack(pack, None, 1)?.is_empty())
    }
}
