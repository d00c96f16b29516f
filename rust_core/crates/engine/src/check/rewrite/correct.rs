//! The records that close a rewritten log: they take away every version and part that leads to something that is gone,
//! then the chunks and packs that are, so that the log says nothing that is not so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::super::LOSSES_MAX;
use super::super::Loss;
use super::super::losses::hexadecimal;
use super::source::Source;
use crate::reads::{part_of, version_of};
use orcas_base::error::{Error, Result};
use orcas_chunks::{PackExamination, PackOptions, packs_present};
use orcas_fs::FileSystem;
use orcas_index::{BlobLocation, Index};
use orcas_record::{
    self as record, BucketId, ChunkMove, Extent, Identity, MOVES_MAX, Record, Sequence, UploadId, VersionId,
};

/// Rows read at a time.
const PAGE: usize = 2_048;

/// What a rewritten log has to say in the end.
#[derive(Default)]
pub struct Corrections {
    pub records: Vec<Record>,
    pub losses: Vec<Loss>,
    pub losses_total: u64,
    /// Packs that are there and cannot be read at all.
    pub unreadable_packs: Vec<u64>,
}

struct Search<'a> {
    index: &'a Index,
    /// Packs that can be read.
    readable: BTreeSet<u64>,
    /// Chunks that stand in no pack that can be read.
    gone: BTreeSet<Sequence>,
    /// Whether all of a segment can be read.
    segments: BTreeMap<Sequence, bool>,
    names: BTreeMap<BucketId, String>,
    found: Corrections,
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
    let found = Corrections { unreadable_packs: unreadable.into_iter().collect(), ..Corrections::default() };
    let (segments, names) = (BTreeMap::new(), BTreeMap::new());
    let mut search = Search { index, readable, gone: BTreeSet::new(), segments, names, found };
    search.names()?;
    search.chunks(source, (fs, packs))?;
    search.versions()?;
    search.parts()?;
    let gone: Vec<Sequence> = search.gone.iter().copied().collect();
    let condemned = gone.chunks(MOVES_MAX).map(|blobs| Record::CondemnBlobs { blobs: blobs.to_vec() });
    search.found.records.extend(condemned);
    let lacking = index.read()?.packs()?.into_iter().filter(|pack| !search.readable.contains(pack));
    search.found.records.extend(lacking.map(|pack| Record::RetirePack { pack }));
    Ok(search.found)
}

impl Search<'_> {
    fn names(&mut self) -> Result<()> {
        for stored in self.index.read()?.buckets()? {
            if let Ok(Record::CreateBucket(bucket) | Record::UpdateBucket(bucket)) =
                record::decode(stored.kind, &stored.record)
            {
                self.names.insert(bucket.id, String::from_utf8_lossy(&bucket.name).into_owned());
            }
        }
        Ok(())
    }

    /// Finds chunks whose place is gone, and looks for them in packs that can be read: a record that moved them may be
    /// what was lost. Packs whose birth was lost are born again.
    fn chunks(&mut self, source: &Source<'_>, place: (&Arc<dyn FileSystem>, &PackOptions)) -> Result<()> {
        let born: BTreeSet<u64> = self.index.read()?.packs()?.into_iter().collect();
        let mut unborn = BTreeSet::new();
        let mut wanted: BTreeMap<[u8; 32], (Sequence, u32)> = BTreeMap::new();
        let mut after = 0;
        loop {
            source.collector.go_on()?;
            let page = self.index.read()?.blobs_after(after, PAGE)?;
            let Some(last) = page.last() else { break };
            after = last.sequence;
            for entry in &page {
                let BlobLocation::Pack { pack, length, .. } = entry.location else { continue };
                let retired = source.facts.packs_retired.contains(&pack);
                if !self.readable.contains(&pack) || retired && !born.contains(&pack) {
                    self.gone.insert(entry.sequence);
                    wanted.extend(entry.identity.map(|Identity(identity)| (identity, (entry.sequence, length))));
                } else if !born.contains(&pack) {
                    unborn.insert(pack);
                }
            }
        }
        let mut moves: Vec<ChunkMove> = Vec::new();
        if !wanted.is_empty() {
            let (fs, options) = place;
            for pack in self.readable.iter().filter(|pack| !source.facts.packs_retired.contains(pack)) {
                let mut examination = PackExamination::open(&**fs, options, *pack)?;
                let meter = |bytes| source.collector.read(bytes);
                examination.each_frame(&meter, &mut |offset, identity, length| {
                    if let Some((blob, _)) = wanted.get(&identity).filter(|(_, wanted)| *wanted == length) {
                        moves.push(ChunkMove { blob: *blob, pack: *pack, offset });
                        self.gone.remove(blob);
                        if !born.contains(pack) {
                            unborn.insert(*pack);
                        }
                    }
                })?;
            }
        }
        self.found.records.extend(unborn.into_iter().map(|pack| Record::CreatePack { pack }));
        self.found.records.extend(moves.chunks(MOVES_MAX).map(|moves| Record::MoveChunks { moves: moves.to_vec() }));
        Ok(())
    }

    fn versions(&mut self) -> Result<()> {
        let mut after = 0;
        loop {
            let page = self.index.read()?.versions_after(after, PAGE)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.sequence;
            for stored in &page {
                let version = version_of(stored)?;
                if self.is_whole(&version.manifest)? {
                    continue;
                }
                let (bucket, version_id) = (version.bucket, version.version_id);
                let shown = match version_id {
                    VersionId::Null => None,
                    VersionId::Named(id) => Some(hexadecimal(&id)),
                };
                let key = Bytes::copy_from_slice(&version.key);
                self.lose(bucket, key.clone(), (shown, None), version.size);
                self.found.records.push(Record::DeleteVersion { bucket, key, version_id });
            }
        }
    }

    /// An upload that lacks a part cannot be completed as its client means to: it is aborted.
    fn parts(&mut self) -> Result<()> {
        let mut after = None;
        let mut aborted: BTreeSet<UploadId> = BTreeSet::new();
        loop {
            let page = self.index.read()?.parts_after(after, PAGE)?;
            let Some(last) = page.last() else { break };
            after = Some((last.upload, last.part.number));
            for found in page {
                let part = part_of(&found.part.part)?;
                if !self.is_whole(&part.manifest)? {
                    let name = format!("{}/{}", hexadecimal(&found.upload.0), part.number);
                    self.lose(found.bucket, Bytes::copy_from_slice(&found.key), (None, Some(name)), part.size);
                    aborted.insert(found.upload);
                }
            }
        }
        self.found.records.extend(aborted.into_iter().map(|upload| Record::AbortUpload { upload }));
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

    fn lose(
        &mut self,
        bucket: BucketId,
        key: Bytes,
        (version_id, upload): (Option<String>, Option<String>),
        bytes: u64,
    ) {
        self.found.losses_total += 1;
        if self.found.losses.len() < LOSSES_MAX {
            let bucket = self.names.get(&bucket).cloned().unwrap_or_else(|| format!("bucket {}", bucket.0));
            let reason = "content of it is gone".to_owned();
            self.found.losses.push(Loss { bucket, key, version_id, upload, bytes, reason });
        }
    }
}
