//! Passing over removed versions of a key, in one scan of the index with the overlay on top of it.

use bytes::Bytes;

use super::Catalog;
use super::hidden::{PASSED_MAX, Passed, RunKey};
use super::indexed_layers::IndexedLayers;
use super::pages::objects::applied_to;
use super::pages::versions::{ListVersions, Merge, Next, VersionRows, VersionStart};
use orcas_base::error::Result;
use orcas_decide::Layers;
use orcas_record::{BucketId, LayerKind, Sequence};

/// Passes over removed versions as [`Layers::pass_hidden`] does, by what is published.
pub fn pass_published(
    catalog: &Catalog,
    above: &[BucketId],
    layer: BucketId,
    key: &[u8],
    hidden: Sequence,
) -> Result<Passed> {
    let mut reader = catalog.index.read()?;
    let transaction = reader.begin()?;
    let lookups = IndexedLayers::new(catalog, &transaction, applied_to(&transaction)?);
    lookups.pass(above, layer, key, hidden)
}

impl IndexedLayers<'_, '_> {
    pub fn pass(&self, above: &[BucketId], layer: BucketId, key: &[u8], hidden: Sequence) -> Result<Passed> {
        let amendments = above.iter().copied().filter(|layer| self.kind(*layer) == LayerKind::Amendments).collect();
        let place = RunKey { amendments, layer, key: Bytes::copy_from_slice(key) };
        let hidden_runs = &self.catalog.hidden;
        let mut run = hidden_runs.behind(&place, hidden, self.merges());
        let (prefix, max_keys) = (place.key.clone(), usize::MAX);
        let list = ListVersions { bucket: layer, prefix, delimiter: None, after: None, max_keys };
        let mut rows = Merge::new(self.catalog, self.reader, &list)?;
        rows.seek(VersionStart::Within(place.key.clone(), run.oldest));
        let mut passed = 0;
        while passed < PASSED_MAX
            && let Next::Version(Some(row)) = rows.next()?
            && row.key == place.key
            && self.removes(&place.amendments, key, row.id)?
        {
            (run.oldest, passed) = (row.sequence, passed + 1);
        }
        #[cfg(debug_assertions)]
        hidden_runs.look_at(passed + 1);
        // What was found beside a merge does not count.
        if passed > 0 && self.catalog.overlay.read().merges() == run.merges {
            hidden_runs.remember(place, run);
        }
        Ok(Passed { oldest: run.oldest, cut: passed == PASSED_MAX })
    }
}
