//! The contents of a store and the space that they take: per bucket from the index, and of files from the file system.
//!
//! Numbers from the index lag behind acknowledged writes as the index does, by at most a quarter of a second when
//! little is written. Those of all buckets are of one moment, sizes of files of another.

use super::condition::Pools;
use crate::handle::Handle;
use crate::metrics::EngineMetrics;
use orcas_base::error::{Error, Result};
use orcas_catalog::CacheCounts;
use orcas_decide::Layers;
use orcas_fs::Open;
use orcas_index::{Counts, Totals};
use orcas_record::LayerKind;

/// A bucket as the index counts it; with several layers, the sum over them, in which an object counts as often as it
/// was replaced. With versioning, an object that was replaced or deleted after a snapshot counts as a current one, and a
/// version that was deleted or changed after it as it was. Bytes, where the name says nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketUsage {
    pub id: u64,
    pub name: String,
    pub owner: String,
    /// Current versions that are no delete markers.
    pub objects: u64,
    /// The sum of their sizes.
    pub bytes: u64,
    /// Versions that are not current, and delete markers.
    pub history: u64,
    /// Everything that its versions and open uploads refer to, as often as they do.
    pub logical: u64,
    /// Bytes of the same content, each distinct content counted once.
    pub stored: u64,
}

/// Files of the store, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilesUsage {
    pub log_files: u64,
    /// The file made ahead of its use included.
    pub log_bytes: u64,
    pub log_allocated: u64,
    pub packs: u64,
    pub pack_bytes: u64,
    /// Bytes of packs on the disk, without the holes.
    pub pack_allocated: u64,
    pub index_bytes: u64,
    pub index_wal_bytes: u64,
}

#[derive(Clone, Debug)]
pub struct Usage {
    pub store_id: [u8; 16],
    /// Buckets in byte order of their names.
    pub buckets: Vec<BucketUsage>,
    pub totals: Totals,
    pub files: FilesUsage,
    pub pools: Pools,
}

fn add(sum: &mut Counts, layer: &Counts) {
    sum.objects += layer.objects;
    sum.bytes += layer.bytes;
    sum.history += layer.history;
    sum.logical += layer.logical;
    sum.stored += layer.stored;
}

impl Handle {
    /// Blocking; costs a scan of all buckets and an `open` for each file.
    ///
    /// # Errors
    /// When the index or a directory cannot be read.
    pub fn usage(&self) -> Result<Usage> {
        let (buckets, totals) = self.bucket_usage()?;
        let (store_id, pools) = (self.shared.keys.store_id, self.pools());
        Ok(Usage { store_id, buckets, totals, files: self.files_usage()?, pools })
    }

    /// The part of it that the index knows. Blocking.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn bucket_usage(&self) -> Result<(Vec<BucketUsage>, Totals)> {
        let reader = self.shared.catalog.index.read()?;
        let counted = reader.all_counts()?;
        let mut buckets = Vec::new();
        for bucket in self.buckets() {
            let mut counts = Counts::default();
            // Delete markers that hide an object below.
            let mut hidden = 0;
            // Its open uploads are under its own id, also if its objects are not.
            let own = Some(&bucket.id).filter(|id| !bucket.stack().contains(id));
            for layer in bucket.stack().iter().chain(own) {
                // One that the index has yet to hear of is empty so far.
                let mut of_layer = counted.get(layer).copied().unwrap_or_default();
                match self.shared.catalog.kind(*layer) {
                    _ if bucket.layers.is_empty() => {}
                    LayerKind::History => {}
                    LayerKind::Single => hidden += std::mem::take(&mut of_layer.history),
                    // They are about versions that a layer below counts. Only what they refer to adds to that.
                    LayerKind::Amendments => (of_layer.objects, of_layer.bytes, of_layer.history) = (0, 0, 0),
                }
                add(&mut counts, &of_layer);
            }
            counts.objects = counts.objects.saturating_sub(hidden);
            buckets.push(BucketUsage {
                id: bucket.id.0,
                name: String::from_utf8_lossy(&bucket.name).into_owned(),
                owner: String::from_utf8_lossy(&bucket.owner).into_owned(),
                objects: counts.objects,
                bytes: counts.bytes,
                history: counts.history,
                logical: counts.logical,
                stored: counts.stored,
            });
        }
        Ok((buckets, reader.totals()?))
    }

    fn files_usage(&self) -> Result<FilesUsage> {
        let shared = &self.shared;
        let data = &shared.options.data;
        let mut usage = FilesUsage::default();
        let log = data.join("log");
        for name in shared.fs.list(&log)? {
            match shared.fs.open(&log.join(name), Open::Read) {
                Ok(file) => {
                    usage.log_files += 1;
                    usage.log_bytes += file.len()?;
                    usage.log_allocated += file.allocated()?;
                }
                // Compacted meanwhile.
                Err(Error::Missing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        for pack in shared.packs.files()? {
            usage.packs += 1;
            usage.pack_bytes += pack.length;
            usage.pack_allocated += pack.allocated;
        }
        let length = |name: &str| match shared.fs.open(&data.join(name), Open::Read) {
            Ok(file) => file.len(),
            // An index in memory has no file.
            Err(Error::Missing { .. }) => Ok(0),
            Err(error) => Err(error),
        };
        usage.index_bytes = length("index.db")?;
        usage.index_wal_bytes = length("index.db-wal")?;
        Ok(usage)
    }
}

impl Handle {
    pub fn metrics(&self) -> &EngineMetrics {
        &self.shared.metrics
    }

    pub fn object_cache(&self) -> CacheCounts {
        self.shared.catalog.cache.counts()
    }

    /// Objects whose records are published and not in the index.
    pub fn overlay_keys(&self) -> u64 {
        self.shared.catalog.overlay.read().keys()
    }

    /// Free bytes below which no content is accepted.
    pub fn disk_reserve(&self) -> u64 {
        self.shared.options.disk_reserve
    }

    /// Bytes that the disk has left, for everybody.
    ///
    /// # Errors
    /// If the file system cannot tell.
    pub fn disk_free(&self) -> Result<u64> {
        self.shared.fs.free_bytes(&self.shared.options.data)
    }
}
