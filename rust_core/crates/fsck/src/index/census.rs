//! Counts every reference again, from the manifests of versions and parts and from segments alone, and compares the
//! sums with those of the index. Memory is bounded: a limited number of blobs at a time, for each of which all
//! manifests are read.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::collect::Collector;
use crate::{FindingKind, Phase};
use orcas_base::error::Result;
use orcas_index::{BlobEntry, Counts, Index, PackUsage, Totals};
use orcas_record::{
    self as record, BlobLocation, Bucket, BucketId, BucketRole, Extent, LayerKind, LogFileId, PackId, Record, Seal,
    Sequence, UploadId, Versioning,
};
use orcas_store::{part_of, upload_of, version_of};

/// Blobs that are counted at a time.
const WINDOW: usize = 2_000_000;
/// Rows read at a time.
const PAGE: usize = 2_048;

pub(crate) struct Census<'a> {
    pub collector: &'a Collector<'a>,
    pub index: &'a Index,
    /// Log files that are there.
    pub log_files: &'a BTreeSet<LogFileId>,
}

/// What was counted of one blob.
#[derive(Clone, Copy, Default)]
struct Count {
    refs: u64,
    /// The bucket whose references `refs` holds; those of others are in `Window::others`.
    bucket: u64,
}

/// Some of the blobs, ascending, with what was counted of them.
struct Window {
    blobs: Vec<BlobEntry>,
    counts: Vec<Count>,
    others: HashMap<(usize, BucketId), u64>,
    /// The blobs with sequences from `first` to `last`.
    first: Sequence,
    last: Sequence,
}

impl Window {
    fn find(&self, blob: Sequence) -> Option<usize> {
        self.blobs.binary_search_by_key(&blob, |entry| entry.sequence).ok()
    }

    fn count(&mut self, index: usize, bucket: BucketId) {
        let count = &mut self.counts[index];
        if count.refs == 0 || count.bucket == bucket.0 {
            count.bucket = bucket.0;
            count.refs += 1;
        } else {
            *self.others.entry((index, bucket)).or_default() += 1;
        }
    }
}

/// Sums over everything.
#[derive(Default)]
struct Sums {
    buckets: BTreeMap<BucketId, Counts>,
    totals: Totals,
    packs: BTreeMap<PackId, (u64, u64, u64)>,
    /// Which bucket holds which segment, and whether for objects that are encrypted.
    segments: HashMap<(Sequence, BucketId), bool>,
}

impl Census<'_> {
    /// # Errors
    /// When the index cannot be read.
    pub fn run(&self) -> Result<()> {
        self.collector.progress().enter(Phase::Packs);
        let mut sums = Sums::default();
        let mut after = 0;
        let mut first_round = true;
        loop {
            let mut window = self.window(after, first_round)?;
            let full = window.last < Sequence::MAX;
            after = window.last;
            self.count_manifests(&mut window, &mut sums, first_round)?;
            self.count_segments(&mut window, &sums)?;
            self.compare_blobs(&window, &mut sums);
            first_round = false;
            if !full {
                break;
            }
        }
        self.compare_sums(&mut sums)
    }

    fn window(&self, after: Sequence, first: bool) -> Result<Window> {
        let mut blobs: Vec<BlobEntry> = Vec::new();
        let mut last = Sequence::MAX;
        loop {
            let from = blobs.last().map_or(after, |entry| entry.sequence);
            let page = self.index.read()?.blobs_after(from, PAGE)?;
            let ended = page.len() < PAGE;
            blobs.extend(page);
            if ended {
                break;
            }
            if blobs.len() >= WINDOW {
                last = blobs.last().map_or(last, |entry| entry.sequence);
                break;
            }
        }
        let counts = vec![Count::default(); blobs.len()];
        let first = if first { 0 } else { after + 1 };
        Ok(Window { blobs, counts, others: HashMap::new(), first, last })
    }

    fn count_manifests(&self, window: &mut Window, sums: &mut Sums, first_round: bool) -> Result<()> {
        self.each_manifest(&mut |holder, extents| {
            for extent in extents {
                if first_round {
                    let counts = sums.buckets.entry(holder.bucket).or_default();
                    counts.logical += extent.length();
                    sums.totals.logical += extent.length();
                    if let Extent::Inline(bytes) = extent {
                        counts.stored += bytes.len() as u64;
                        sums.totals.stored += bytes.len() as u64;
                    }
                    if let Extent::Segment { segment, .. } = extent {
                        let sealed = sums.segments.entry((*segment, holder.bucket)).or_insert(holder.sealed);
                        if *sealed != holder.sealed {
                            self.sealed_otherwise(*segment, holder.to_string());
                        }
                    }
                    if holder.sealed && matches!(extent, Extent::Inline(_)) {
                        self.collector.find(FindingKind::Manifest, holder.to_string(), "it holds bytes unsealed");
                    }
                }
                if let Extent::Blob { blob, start, length } = extent {
                    let by = (holder.bucket, holder.sealed);
                    self.refer(window, (*blob, *start, *length), by, &|| holder.to_string());
                }
            }
        })
    }

    /// Each bucket that holds a segment refers to its blobs.
    fn count_segments(&self, window: &mut Window, sums: &Sums) -> Result<()> {
        let mut holders: BTreeMap<Sequence, Vec<(BucketId, bool)>> = BTreeMap::new();
        for ((segment, bucket), sealed) in &sums.segments {
            holders.entry(*segment).or_default().push((*bucket, *sealed));
        }
        let mut after = 0;
        loop {
            let page = self.index.read()?.segments_after(after, 16)?;
            let Some((last, _)) = page.last() else { break };
            after = *last;
            for (segment, payload) in page {
                let buckets = holders.remove(&segment).unwrap_or_default();
                for extent in record::decode_extents(&payload).unwrap_or_default() {
                    let Extent::Blob { blob, start, length } = extent else { continue };
                    for holder in &buckets {
                        let name = || format!("segment {segment}");
                        self.refer(window, (blob, start, length), *holder, &name);
                    }
                }
            }
        }
        if window.first == 0 {
            for segment in holders.keys() {
                let place = format!("segment {segment}");
                self.collector.find(FindingKind::Manifest, place, "a manifest names it, but it is not there");
                self.collector.damaged(*segment, "a segment of its manifest is not there");
            }
        }
        Ok(())
    }

    fn refer(
        &self,
        window: &mut Window,
        (blob, start, length): (Sequence, u32, u32),
        (bucket, sealed): (BucketId, bool),
        by: &dyn Fn() -> String,
    ) {
        if !(window.first..=window.last).contains(&blob) {
            return;
        }
        let Some(index) = window.find(blob) else {
            let detail = format!("it names blob {blob}, which is not there");
            self.collector.find(FindingKind::Manifest, by(), detail);
            return self.collector.damaged(blob, "a blob of its manifest is not there");
        };
        let entry = &window.blobs[index];
        if entry.sealed != sealed {
            self.sealed_otherwise(blob, by());
        }
        let stored = entry.location.length();
        let content = if entry.sealed { Seal::content_length(stored).unwrap_or(0) } else { stored };
        if u64::from(start) + u64::from(length) > u64::from(content) {
            let detail = format!("it reaches beyond the end of blob {blob}");
            self.collector.find(FindingKind::Manifest, by(), detail);
            self.collector.damaged(blob, "its manifest reaches beyond a blob");
        }
        window.count(index, bucket);
    }

    fn sealed_otherwise(&self, named: Sequence, by: String) {
        let detail = format!("content {named} is not sealed as it should be");
        self.collector.find(FindingKind::Manifest, by, detail);
        self.collector.damaged(named, "content of it is not sealed as the object says");
    }

    fn compare_blobs(&self, window: &Window, sums: &mut Sums) {
        let mut others: HashMap<usize, Vec<(u64, u64)>> = HashMap::new();
        for ((index, bucket), refs) in &window.others {
            others.entry(*index).or_default().push((bucket.0, *refs));
        }
        for (index, (entry, count)) in window.blobs.iter().zip(&window.counts).enumerate() {
            let mut holders = others.remove(&index).unwrap_or_default();
            if count.refs > 0 {
                holders.push((count.bucket, count.refs));
            }
            let refs: u64 = holders.iter().map(|(_, refs)| refs).sum();
            let home = holders.iter().map(|(bucket, _)| BucketId(*bucket)).min();
            if (refs, home) != (entry.refs, entry.home) {
                let place = format!("index.db, table blobs, row {}", entry.sequence);
                let said = bucket_name(entry.home);
                let detail = format!(
                    "manifests refer to the blob {refs} times, first from {}; the row says {} times, first from {said}",
                    bucket_name(home),
                    entry.refs,
                );
                self.collector.find(FindingKind::Counts, place, detail);
            }
            sums.add_blob(entry, &holders);
            if let BlobLocation::Log { at, .. } = entry.location
                && !self.log_files.contains(&at.file())
            {
                self.collector.damaged(entry.sequence, "the log file that holds it cannot be read");
            }
        }
    }

    fn compare_sums(&self, sums: &mut Sums) -> Result<()> {
        let reader = self.index.read()?;
        let (rows, records) = reader.row_counts()?;
        let mut versions = 0;
        for (bucket, row) in rows {
            let counts = sums.buckets.entry(bucket).or_default();
            (counts.objects, counts.bytes, counts.history) = (row.objects, row.bytes, row.history);
            versions += row.objects + row.history;
        }
        if versions != records {
            let detail = format!("{records} records of versions, but {versions} rows in heads and history");
            self.collector.find(FindingKind::Counts, "index.db, table versions", detail);
        }
        let mut buckets = BTreeMap::new();
        for stored in reader.buckets()? {
            let (Record::CreateBucket(bucket) | Record::UpdateBucket(bucket)) =
                record::decode(stored.kind, &stored.record)?
            else {
                continue;
            };
            let counted = sums.buckets.remove(&bucket.id).unwrap_or_default();
            let said = reader.counts(bucket.id)?.unwrap_or_default();
            self.compare_counts(&format!("index.db, table buckets, row {}", bucket.id.0), &counted, &said);
            buckets.insert(bucket.id, bucket);
        }
        self.check_stacks(&buckets);
        for bucket in sums.buckets.keys() {
            let place = format!("index.db, table buckets, row {}", bucket.0);
            self.collector.find(FindingKind::Counts, place, "versions belong to it, but it is not there");
        }
        self.compare_counts("index.db, table totals", &sums.totals, &reader.totals()?);
        for PackUsage { pack, blobs, live_bytes, dead_bytes } in reader.pack_usage()? {
            let counted = sums.packs.remove(&pack).unwrap_or_default();
            let place = format!("index.db, table packs, row {pack}");
            self.compare_counts(&place, &counted, &(blobs, live_bytes, dead_bytes));
        }
        for pack in sums.packs.keys() {
            let place = format!("index.db, table packs, row {pack}");
            self.collector.find(FindingKind::Counts, place, "chunks are in it, but it does not exist");
        }
        Ok(())
    }

    /// The layers that buckets and snapshots name are there, and those that take what is written are of the right kind.
    fn check_stacks(&self, buckets: &BTreeMap<BucketId, Bucket>) {
        for bucket in buckets.values() {
            let find = |detail: String| {
                let place = format!("index.db, table buckets, row {}", bucket.id.0);
                self.collector.find(FindingKind::Counts, place, detail);
            };
            for layer in bucket.layers.iter().filter(|layer| !buckets.contains_key(layer)) {
                find(format!("it names layer {}, which is not there", layer.0));
            }
            let takes_histories = bucket.role == BucketRole::Bucket
                && bucket.versioning != Versioning::Unversioned
                && !bucket.layers.is_empty();
            let kind = |at: usize| Some(buckets.get(bucket.layers.get(at)?)?.layer_kind());
            if takes_histories && (kind(0), kind(1)) != (Some(LayerKind::History), Some(LayerKind::Amendments)) {
                find("it has versioning, but no layers for histories and amendments on top".to_owned());
            }
        }
    }

    fn compare_counts<T: PartialEq + std::fmt::Debug>(&self, place: &str, counted: &T, said: &T) {
        if counted != said {
            let detail = format!("the manifests add up to {counted:?}; the row says {said:?}");
            self.collector.find(FindingKind::Counts, place, detail);
        }
    }

    /// Shows every manifest of a version, with its annotations, or of a part.
    fn each_manifest(&self, visit: &mut dyn FnMut(&Holder, &mut dyn Iterator<Item = &Extent>)) -> Result<()> {
        let mut after = 0;
        loop {
            self.collector.go_on()?;
            let page = self.index.read()?.versions_after(after, PAGE)?;
            let Some(last) = page.last() else { break };
            after = last.sequence;
            for stored in &page {
                match version_of(stored) {
                    Ok(version) => {
                        let sealed = version.attributes.encryption.is_some();
                        let holder = Holder { bucket: version.bucket, part: None, sequence: stored.sequence, sealed };
                        let annotations = version.attributes.annotations.extents();
                        visit(&holder, &mut version.manifest.iter().chain(annotations));
                    }
                    Err(error) => self.unreadable("versions", stored.sequence, &error),
                }
            }
        }
        let mut after = None;
        let mut upload: Option<(UploadId, bool)> = None;
        loop {
            self.collector.go_on()?;
            let page = self.index.read()?.parts_after(after, PAGE)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some((last.upload, last.part.number));
            for found in &page {
                match part_of(&found.part.part) {
                    Ok(part) => {
                        let sequence = found.part.part.sequence;
                        let sealed = match upload.filter(|(id, _)| *id == found.upload) {
                            Some((_, sealed)) => sealed,
                            None => self.is_sealed(found.upload)?,
                        };
                        upload = Some((found.upload, sealed));
                        let holder = Holder { bucket: found.bucket, part: Some(part.number), sequence, sealed };
                        visit(&holder, &mut part.manifest.iter());
                    }
                    Err(error) => self.unreadable("parts", found.part.part.sequence, &error),
                }
            }
        }
    }

    /// Whether the parts of an upload are.
    fn is_sealed(&self, upload: UploadId) -> Result<bool> {
        let Some(stored) = self.index.read()?.upload(upload)? else { return Ok(false) };
        Ok(upload_of(stored.kind, &stored.record).is_ok_and(|upload| upload.attributes.encryption.is_some()))
    }

    fn unreadable(&self, table: &str, sequence: Sequence, error: &orcas_base::error::Error) {
        let place = format!("index.db, table {table}, record {sequence}");
        self.collector.find(FindingKind::Index, place, error.to_string());
    }
}

/// The holder of a manifest.
struct Holder {
    bucket: BucketId,
    part: Option<u16>,
    sequence: Sequence,
    /// Whether its content has to be.
    sealed: bool,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.part {
            None => write!(out, "version {}", self.sequence),
            Some(part) => write!(out, "part {part} of record {}", self.sequence),
        }
    }
}

fn bucket_name(bucket: Option<BucketId>) -> String {
    bucket.map_or("no bucket".to_owned(), |bucket| format!("bucket {}", bucket.0))
}

impl Sums {
    fn add_blob(&mut self, entry: &BlobEntry, holders: &[(u64, u64)]) {
        let length = u64::from(entry.location.length());
        for (bucket, _) in holders {
            self.buckets.entry(BucketId(*bucket)).or_default().stored += length;
        }
        let (live, dead) = if holders.is_empty() { (0, length) } else { (length, 0) };
        self.totals.stored += live;
        self.totals.dead += dead;
        if let BlobLocation::Pack { at, .. } = entry.location {
            let usage = self.packs.entry(at.pack()).or_default();
            *usage = (usage.0 + 1, usage.1 + live, usage.2 + dead);
        }
    }
}
