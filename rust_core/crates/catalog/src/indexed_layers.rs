//! Lookups in layers while a page is read: in the read transaction of the page, with the overlay on top of it.

use std::cell::Cell;
use std::sync::Arc;

use super::Catalog;
use super::hidden::pass_all;
use super::recent::key_changes::{Known, NewerChanges};
use super::recent::overlay::Overlay;
use super::versions::newest_shown;
use orcas_base::error::Result;
use orcas_decide::Layers;
use orcas_index::{Reader, Stored};
use orcas_record::{BucketId, LayerKind, Object, Sequence, VersionId};
use orcas_store::version_of;

pub struct IndexedLayers<'r, 'i> {
    pub catalog: &'r Catalog,
    pub reader: &'r Reader<'i>,
    /// The sequence up to which the read transaction of the index sees records.
    applied: Sequence,
    /// Changes between layers when the page was begun.
    merges: u64,
    has_moved: Cell<bool>,
}

impl<'r, 'i> IndexedLayers<'r, 'i> {
    pub fn new(catalog: &'r Catalog, reader: &'r Reader<'i>, applied: Sequence) -> Self {
        let merges = catalog.overlay.read().merges();
        Self { catalog, reader, applied, merges, has_moved: Cell::new(false) }
    }

    pub fn merges(&self) -> u64 {
        self.merges
    }

    /// Whether the overlay lost records that the read transaction does not see, or versions went from one layer to
    /// another. What was found since the page was begun does not count then.
    pub fn has_moved(&self) -> bool {
        self.has_moved.get() || self.is_behind(&self.catalog.overlay.read())
    }

    fn is_behind(&self, overlay: &Overlay) -> bool {
        overlay.trimmed() > self.applied || overlay.merges() != self.merges
    }

    /// The state of a key in the overlay; its changes are added if the index knows the key.
    fn recent(
        &self,
        (layer, key): (BucketId, &[u8]),
        changes: &mut NewerChanges,
        known: impl FnOnce(&mut NewerChanges, &crate::recent::key_changes::KeyChanges) -> Known,
    ) -> Known {
        let overlay = self.catalog.overlay.read();
        if self.is_behind(&overlay) {
            self.has_moved.set(true);
            return Known::Gone;
        }
        overlay.key_changes(layer, key).map_or(Known::Below, |recent| known(changes, recent))
    }
}

impl IndexedLayers<'_, '_> {
    /// Whether a version of a layer below is gone by what `amendments` say, the newest first. No once the page has to
    /// begin anew.
    pub fn removes(&self, amendments: &[BucketId], key: &[u8], id: VersionId) -> Result<bool> {
        for layer in amendments {
            let mut changes = NewerChanges::default();
            let known = self.recent((*layer, key), &mut changes, |changes, recent| changes.version_in(recent, id));
            let marker = match known {
                Known::Object(object) => Some(object.version.delete_marker),
                Known::Gone => None,
                Known::Below => self.reader.is_marker(*layer, key, id)?,
            };
            if let Some(marker) = marker {
                return Ok(marker && !self.has_moved.get());
            }
        }
        Ok(false)
    }
}

fn object_of(stored: Option<Stored>, changes: &NewerChanges) -> Result<Option<Arc<Object>>> {
    let Some(stored) = stored else { return Ok(None) };
    let object = Object { sequence: stored.sequence, version: version_of(&stored)? };
    Ok(Some(changes.shown(Arc::new(object))))
}

/// Lookups find nothing once the page has to begin anew.
impl Layers for IndexedLayers<'_, '_> {
    type Found = Arc<Object>;

    fn object(found: &Arc<Object>) -> &Object {
        found
    }

    fn kind(&self, layer: BucketId) -> LayerKind {
        self.catalog.kind(layer)
    }

    fn version(&self, layer: BucketId, key: &[u8], id: VersionId) -> Result<Option<Arc<Object>>> {
        let mut changes = NewerChanges::default();
        let known = self.recent((layer, key), &mut changes, |changes, recent| changes.version_in(recent, id));
        match known {
            Known::Object(object) => Ok(Some(object)),
            Known::Gone => Ok(None),
            Known::Below => object_of(self.reader.version(layer, key, id)?, &changes),
        }
    }

    fn newest(&self, layer: BucketId, key: &[u8], before: Sequence) -> Result<Option<Arc<Object>>> {
        let mut changes = NewerChanges::default();
        let known = self.recent((layer, key), &mut changes, |changes, recent| changes.newest_in(recent, before));
        match known {
            Known::Object(object) => Ok(Some(object)),
            Known::Gone => Ok(None),
            Known::Below => match newest_shown(self.reader, (layer, key), before, &changes)? {
                Some(sequence) => object_of(self.reader.version_record(sequence)?, &changes),
                None => Ok(None),
            },
        }
    }

    fn pass_hidden(&self, above: &[BucketId], layer: BucketId, key: &[u8], hidden: Sequence) -> Result<Sequence> {
        pass_all(|| self.pass(above, layer, key, hidden))
    }
}
