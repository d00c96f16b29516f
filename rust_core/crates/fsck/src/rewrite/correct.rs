//! The records that close a rewritten log: they remove every version and part that refers to lost data, then the lost
//! chunks and packs themselves, so that the log is consistent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::locks::{Locks, with_attributes_of};
use super::source::Source;
use crate::collect::Collector;
use crate::manifests::{Losses, each_part, each_version};
use crate::sealed::seals::{seal_of, stored_seal};
use crate::stacks::{RepairedStack, bucket_of_lost, fresh_layers, lost_layers, removal_of_lost, repaired_stacks};
use crate::{LOSSES_MAX, Loss};
use orcas_base::error::{Error, Result};
use orcas_chunks::{PackExamination, PackOptions, packs_present};
use orcas_fs::FileSystem;
use orcas_index::Index;
use orcas_record::{
    self as record, Annotations, Attributes, BlobLocation, Bucket, BucketId, ChunkLocation, ChunkMove, Extent,
    Fingerprint, MOVES_MAX, PackId, Record, Seal, Sequence, UploadId, Version,
};

/// Rows read at a time.
const PAGE: usize = 2_048;
const GONE: &str = "content of it is gone";
const ANNOTATION_GONE: &str = "an annotation of it is gone; the object itself is not";

/// What a rewritten log has to say in the end.
pub struct Corrections {
    pub records: Vec<Record>,
    pub losses: Vec<Loss>,
    pub losses_total: u64,
    /// Legal holds, as in [`super::GivenUp`].
    pub held: Vec<(String, u64)>,
    /// The names of buckets that were made up for layers.
    pub buckets: Vec<String>,
    /// Packs that are there and cannot be read at all.
    pub unreadable_packs: Vec<PackId>,
}

struct Search<'a> {
    collector: &'a Collector<'a>,
    index: &'a Index,
    /// Packs that can be read.
    readable: BTreeSet<PackId>,
    /// Chunks that are in no readable pack.
    gone: BTreeSet<Sequence>,
    /// Whether all of a segment can be read.
    segments: BTreeMap<Sequence, bool>,
    locks: Locks,
    losses: Losses,
    records: Vec<Record>,
    /// The names of buckets that were made up.
    made_up: Vec<String>,
}

/// `index` is one that was built of what the log still says.
///
/// # Errors
/// What reading the index or the headers of packs ran into; damage is no error.
pub fn corrections(
    index: &Index,
    source: &Source<'_>,
    (fs, packs): (&Arc<dyn FileSystem>, &PackOptions),
) -> Result<Corrections> {
    let present = packs_present(&**fs, packs)?;
    let (mut readable, mut unreadable) = (BTreeSet::new(), BTreeSet::new());
    for pack in present {
        match PackExamination::open(&**fs, packs, pack) {
            Ok(_) => readable.insert(pack),
            Err(Error::Corrupt { .. } | Error::Foreign { .. }) => unreadable.insert(pack),
            // What could not be read just now, or is of a newer format, is not given up.
            Err(error) => return Err(error),
        };
    }
    let mut search = Search {
        collector: source.collector,
        index,
        readable,
        gone: BTreeSet::new(),
        segments: BTreeMap::new(),
        locks: Locks::learn(index, source.collector, source.first_pass.lost_locks)?,
        losses: Losses::new(index, LOSSES_MAX)?,
        records: Vec::new(),
        made_up: Vec::new(),
    };
    search.stacks(source.first_pass.last + 1);
    search.chunks(source, (fs, packs))?;
    search.records.extend(search.locks.of_buckets());
    search.versions()?;
    search.parts()?;
    let Search { readable, gone, locks, losses, mut records, made_up: buckets, .. } = search;
    let gone: Vec<Sequence> = gone.into_iter().collect();
    records.extend(gone.chunks(MOVES_MAX).map(|blobs| Record::CondemnBlobs { blobs: blobs.to_vec() }));
    let lacking = index.read()?.packs()?.into_iter().filter(|pack| !readable.contains(pack));
    records.extend(lacking.map(|pack| Record::RetirePack { pack }));
    let unreadable_packs = unreadable.into_iter().collect();
    let held = locks.held();
    Ok(Corrections { records, losses: losses.listed, losses_total: losses.total, held, buckets, unreadable_packs })
}

/// A chunk that is looked for in the packs that can be read.
struct Wanted {
    blob: Sequence,
    /// Bytes that are stored of it.
    length: u32,
    seal: Option<Seal>,
}

impl Search<'_> {
    /// Gives buckets the layers that a lost record gave them, and layers a bucket if theirs is lost. `first` is the
    /// sequence of the first correction.
    fn stacks(&mut self, first: Sequence) {
        let repaired = repaired_stacks(self.locks.buckets());
        let lost = lost_layers(self.locks.buckets(), &repaired, |layer| self.locks.has_objects(layer));
        let lost: Vec<Bucket> = lost.into_iter().cloned().collect();
        for RepairedStack { bucket, mut layers, versioning, needs_top } in repaired {
            if let Some(bucket) = self.locks.bucket(bucket).filter(|_| needs_top) {
                let bucket = Bucket { versioning, ..bucket.clone() };
                layers = self.push_written(first, &bucket, layers);
            }
            self.locks.set_layers(bucket, layers, versioning);
        }
        for layer in lost {
            let made_up = bucket_of_lost(&layer, layer.id, vec![layer.id]);
            let layers = self.push_written(first, &made_up, vec![layer.id]);
            let made_up = Bucket { id: self.next_id(first), layers, ..made_up };
            self.made_up.push(String::from_utf8_lossy(&made_up.name).into_owned());
            self.locks.insert(made_up.clone());
            self.records.push(Record::CreateBucket(made_up));
        }
        self.locks.see_stacks();
    }

    /// The id of a bucket is the sequence of its record.
    fn next_id(&self, first: Sequence) -> BucketId {
        BucketId(first + self.records.len() as u64)
    }

    /// Empty layers for what is written to this bucket, above those `below`. Returns all of them.
    fn push_written(&mut self, first: Sequence, bucket: &Bucket, below: Vec<BucketId>) -> Vec<BucketId> {
        let made = fresh_layers(bucket, self.next_id(first));
        let layers = made.iter().rev().map(|layer| layer.id).chain(below).collect();
        for layer in made {
            self.locks.insert(layer.clone());
            self.records.push(Record::CreateBucket(layer));
        }
        layers
    }

    /// Finds chunks whose place is gone, and looks for them in packs that can be read: a record that moved them may be
    /// what was lost. Packs whose birth was lost are born again.
    fn chunks(&mut self, source: &Source<'_>, place: (&Arc<dyn FileSystem>, &PackOptions)) -> Result<()> {
        let born: BTreeSet<PackId> = self.index.read()?.packs()?.into_iter().collect();
        let mut unrecorded = BTreeSet::new();
        let mut wanted: BTreeMap<[u8; 32], Vec<Wanted>> = BTreeMap::new();
        let mut after = 0;
        loop {
            source.collector.go_on()?;
            let page = self.index.read()?.blobs_after(after, PAGE)?;
            let Some(last) = page.last() else { break };
            after = last.sequence;
            for entry in &page {
                let BlobLocation::Pack { at, length } = entry.location else { continue };
                let pack = at.pack();
                let retired = source.first_pass.packs_retired.contains(&pack);
                if !self.readable.contains(&pack) || retired && !born.contains(&pack) {
                    self.gone.insert(entry.sequence);
                    if let Some(Fingerprint(fingerprint)) = entry.fingerprint {
                        let seal = seal_of(self.index, entry)?;
                        let chunk = Wanted { blob: entry.sequence, length, seal };
                        wanted.entry(fingerprint).or_default().push(chunk);
                    }
                } else if !born.contains(&pack) {
                    unrecorded.insert(pack);
                }
            }
        }
        let mut moves: Vec<ChunkMove> = Vec::new();
        if !wanted.is_empty() {
            let (fs, options) = place;
            for pack in self.readable.iter().filter(|pack| !source.first_pass.packs_retired.contains(pack)) {
                let mut examination = PackExamination::open(&**fs, options, *pack)?;
                let meter = |bytes| source.collector.read(bytes);
                let mut found: Vec<(ChunkLocation, &Wanted)> = Vec::new();
                examination.each_frame(&meter, &mut |at, fingerprint, length| {
                    let chunks = wanted.get(&fingerprint).into_iter().flatten();
                    found.extend(chunks.filter(|chunk| chunk.length == length).map(|chunk| (at, chunk)));
                })?;
                for (to, Wanted { blob, length, seal }) in found {
                    // Equal content that was sealed twice has one fingerprint, but opens only with its own seal.
                    if seal.is_some() && stored_seal(&mut examination, (to, *length), &meter)? != *seal {
                        continue;
                    }
                    moves.push(ChunkMove { blob: *blob, to });
                    self.gone.remove(blob);
                    if !born.contains(pack) {
                        unrecorded.insert(*pack);
                    }
                }
            }
        }
        self.records.extend(unrecorded.into_iter().map(|pack| Record::CreatePack { pack }));
        self.records.extend(moves.chunks(MOVES_MAX).map(|moves| Record::MoveChunks { moves: moves.to_vec() }));
        Ok(())
    }

    fn versions(&mut self) -> Result<()> {
        let (index, collector) = (self.index, self.collector);
        each_version(index, &|| collector.go_on(), &mut |sequence, version| {
            let version = version?;
            if !self.is_whole(&version.manifest)? {
                self.losses.version(&version, GONE);
                let key = Bytes::copy_from_slice(&version.key);
                let lost = (version.bucket, &key, version.version_id);
                self.records.extend(removal_of_lost(index, self.locks.buckets(), lost)?);
                return Ok(());
            }
            let readable = self.readable_annotations(&version)?;
            let fewer = readable != version.attributes.annotations;
            if fewer {
                self.losses.version(&version, ANNOTATION_GONE);
            }
            let attributes = Attributes { annotations: readable, ..version.attributes.clone() };
            let version = Version { attributes, ..version };
            let hold = self.locks.hold(sequence, &version);
            self.records.extend(hold.or_else(|| fewer.then(|| with_attributes_of(sequence, &version))));
            Ok(())
        })
    }

    /// The annotations of a version whose texts are there.
    fn readable_annotations(&self, version: &Version) -> Result<Annotations> {
        let mut gone = BTreeSet::new();
        for annotation in version.attributes.annotations.as_slice() {
            if let Extent::Blob { blob, .. } = annotation.text
                && !self.has_blob(blob)?
            {
                gone.insert(&annotation.name);
            }
        }
        if gone.is_empty() {
            return Ok(version.attributes.annotations.clone());
        }
        Ok(version.attributes.annotations.filtered(|annotation| !gone.contains(&annotation.name)))
    }

    /// An upload that lacks a part cannot be completed as its client means to: it is aborted.
    fn parts(&mut self) -> Result<()> {
        let (index, collector) = (self.index, self.collector);
        let mut aborted: BTreeSet<UploadId> = BTreeSet::new();
        each_part(index, &|| collector.go_on(), &mut |found, part| {
            let part = part?;
            if !self.is_whole(&part.manifest)? {
                self.losses.part(found, &part, GONE);
                aborted.insert(found.upload);
            }
            Ok(())
        })?;
        self.records.extend(aborted.into_iter().map(|upload| Record::AbortUpload { upload }));
        Ok(())
    }

    fn is_whole(&mut self, manifest: &[Extent]) -> Result<bool> {
        for extent in manifest {
            let whole = match extent {
                Extent::Inline(_) => true,
                Extent::Blob { blob, .. } => self.has_blob(*blob)?,
                Extent::Segment { segment, .. } => self.has_segment(*segment)?,
            };
            if !whole {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn has_blob(&self, blob: Sequence) -> Result<bool> {
        Ok(!self.gone.contains(&blob) && self.index.read()?.blob(blob)?.is_some())
    }

    fn has_segment(&mut self, segment: Sequence) -> Result<bool> {
        if let Some(known) = self.segments.get(&segment) {
            return Ok(*known);
        }
        let whole = match self.index.read()?.segment(segment)? {
            // Segments hold extents of blobs only.
            Some(payload) => {
                let mut whole = true;
                for extent in record::decode_extents(&payload)? {
                    if let Extent::Blob { blob, .. } = extent {
                        whole &= self.has_blob(blob)?;
                    }
                }
                whole
            }
            None => false,
        };
        self.segments.insert(segment, whole);
        Ok(whole)
    }
}
