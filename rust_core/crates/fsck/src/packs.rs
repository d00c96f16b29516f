//! Reads every chunk that the index knows, pack by pack in the order of the files, on several threads.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::FindingKind;
use super::collect::Collector;
use super::owners::Owners;
use crate::sealed::seals::{End, seal_of};
use crate::sealed::tags::{AuthTagCheck, Waiting};
use orcas_base::error::{Error, Result};
use orcas_chunks::{ChunkCheck, ExpectedChunk, PackExamination, PackOptions, pack_named};
use orcas_fs::FileSystem;
use orcas_index::{BlobEntry, Index};
use orcas_record::{BlobLocation, ChunkLocation, Fingerprint, PackId, Seal};

/// Chunks that a thread takes at a time, and bytes of them.
const UNIT_CHUNKS: usize = 256;
const UNIT_BYTES: u64 = 64 << 20;

pub(super) struct PackCheck<'a> {
    pub fs: Arc<dyn FileSystem>,
    pub options: PackOptions,
    /// Says which chunks there are.
    pub index: &'a Index,
    pub owners: &'a Owners,
    pub collector: &'a Collector<'a>,
    pub read_content: bool,
    pub tags: &'a AuthTagCheck<'a>,
    /// The index of the open store, when there is one: packs are made meanwhile and chunks condemned.
    pub live: Option<&'a Index>,
}

/// Adjacent chunks of one pack.
struct Unit {
    pack: PackId,
    chunks: Vec<BlobEntry>,
}

struct Cursor {
    packs: std::vec::IntoIter<PackId>,
    /// The pack, and the last chunk of it that was taken.
    present: Option<(PackId, Option<ChunkLocation>)>,
}

impl PackCheck<'_> {
    /// Returns the number of packs.
    ///
    /// # Errors
    /// What reading ran into; damage is no error.
    pub fn run(&self, threads: usize) -> Result<u64> {
        let packs = self.index.read()?.packs()?;
        self.look_for_others(&packs)?;
        let cursor = Mutex::new(Cursor { packs: packs.clone().into_iter(), present: None });
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..threads).map(|_| scope.spawn(|| self.read(&cursor))).collect();
            readers.into_iter().try_for_each(|reader| match reader.join() {
                Ok(done) => done,
                Err(_) => Err(Error::Record { reason: "a thread of the check ended early" }),
            })
        })?;
        Ok(packs.len() as u64)
    }

    fn look_for_others(&self, born: &[PackId]) -> Result<()> {
        let born: BTreeSet<PackId> = born.iter().copied().collect();
        let dir = &self.options.dir;
        for name in self.fs.list(dir)? {
            let place = dir.join(&name).display().to_string();
            match pack_named(&name) {
                Some(pack) if born.contains(&pack) || self.live.is_some() => {}
                Some(_) => self.collector.find(FindingKind::Leftover, place, "the log does not know this pack"),
                None => self.collector.find(FindingKind::Suspicious, place, "this file is no pack"),
            }
        }
        Ok(())
    }

    fn next(&self, cursor: &Mutex<Cursor>) -> Result<Option<Unit>> {
        let cursor = &mut *cursor.lock();
        loop {
            let (pack, after) = match cursor.present {
                Some(present) => present,
                None => match cursor.packs.next() {
                    Some(pack) => (pack, None),
                    None => return Ok(None),
                },
            };
            let mut chunks = self.index.read()?.chunks_after(pack, after, UNIT_CHUNKS)?;
            let mut bytes = 0;
            let taken = chunks.iter().position(|chunk| {
                bytes += u64::from(chunk.location.length());
                bytes >= UNIT_BYTES
            });
            chunks.truncate(taken.map_or(chunks.len(), |last| last + 1));
            cursor.present = chunks.last().and_then(chunk_of).map(|chunk| (pack, Some(chunk.at)));
            // A pack without any chunk is opened all the same.
            if !chunks.is_empty() || after.is_none() {
                return Ok(Some(Unit { pack, chunks }));
            }
        }
    }

    fn read(&self, cursor: &Mutex<Cursor>) -> Result<()> {
        let mut open: Option<(PackId, Option<PackExamination>)> = None;
        let mut hint = 0;
        while let Some(unit) = self.next(cursor)? {
            if open.as_ref().is_none_or(|(pack, _)| *pack != unit.pack) {
                let first = unit.chunks.first().is_none_or(|first| self.is_first(unit.pack, first));
                open = Some((unit.pack, self.open(unit.pack, first)?));
            }
            match &mut open {
                Some((_, Some(pack))) => self.check(pack, &unit, &mut hint)?,
                _ => self.all_lost(&unit),
            }
        }
        Ok(())
    }

    /// Whether this is the pack's first chunk: then what is wrong with the whole pack is told, once.
    fn is_first(&self, pack: PackId, chunk: &BlobEntry) -> bool {
        let first = self.index.read().and_then(|reader| reader.chunks_after(pack, None, 1));
        first.is_ok_and(|found| found.first().is_none_or(|found| found.sequence == chunk.sequence))
    }

    fn open(&self, pack: PackId, tell: bool) -> Result<Option<PackExamination>> {
        match PackExamination::open(&*self.fs, &self.options, pack) {
            Ok(open) => {
                if tell && open.lacks_a_copy() {
                    let detail = "one of the two copies of the pack's header is damaged";
                    self.collector.find(FindingKind::Suspicious, open.path().display().to_string(), detail);
                }
                Ok(Some(open))
            }
            Err(error) => {
                let (place, detail) = match &error {
                    Error::Missing { path } => (path.display().to_string(), "the pack is missing".to_owned()),
                    Error::Corrupt { path, offset, reason } => {
                        (format!("{}, byte {offset}", path.display()), (*reason).to_owned())
                    }
                    Error::Foreign { path, .. } | Error::Version { path, .. } => {
                        (format!("{}, byte 0", path.display()), error.to_string())
                    }
                    Error::Io { path, .. } => (path.display().to_string(), error.to_string()),
                    _ => return Err(error),
                };
                if tell {
                    self.collector.find(FindingKind::Pack, place, detail);
                }
                Ok(None)
            }
        }
    }

    fn all_lost(&self, unit: &Unit) {
        for chunk in &unit.chunks {
            self.collector.damaged(chunk.sequence, "the pack that holds it cannot be read");
        }
    }

    fn check(&self, pack: &mut PackExamination, unit: &Unit, hint: &mut usize) -> Result<()> {
        let meter = |bytes| self.collector.read(bytes);
        for chunk in &unit.chunks {
            let seal = seal_of(self.index, chunk)?;
            let how = (self.read_content, Some(self.tags));
            if let Some((place, reason)) = check_chunk(pack, (chunk, seal), self.owners, how, hint, &meter)? {
                if self.live.map_or(Ok(false), |live| is_condemned(live, chunk))? {
                    continue;
                }
                self.collector.find(FindingKind::Blob, place, format!("chunk {}: {reason}", chunk.sequence));
                self.collector.damaged(chunk.sequence, reason);
            }
        }
        self.collector.count_blobs(unit.chunks.len() as u64);
        let ends = (unit.chunks.first().and_then(chunk_of), unit.chunks.last().and_then(chunk_of));
        if let (Some(first), Some(last)) = ends {
            // Packs do not stay in memory when they are written, either.
            pack.drop_cache(first.at, last.at, u64::from(last.length));
        }
        Ok(())
    }
}

/// What is wrong with a chunk, if anything is. The seal is the one that opens it. Its tags are told to `tags` only, if its
/// content is read.
///
/// # Errors
/// What reading ran into, and `meter`'s.
fn check_chunk(
    pack: &mut PackExamination,
    (chunk, seal): (&BlobEntry, Option<Seal>),
    owners: &Owners,
    (read_content, tags): (bool, Option<&AuthTagCheck<'_>>),
    hint: &mut usize,
    meter: &dyn Fn(u64) -> Result<()>,
) -> Result<Option<(String, &'static str)>> {
    let Some(expected) = chunk_of(chunk) else { return Ok(None) };
    let likely = owners.likely(chunk.home, *hint);
    let first = likely.map(|(_, scope)| scope).unwrap_or_default();
    // What the fingerprint of a sealed chunk is of cannot be seen here. Its blocks are read all the same.
    let mut hasher = (read_content && !chunk.sealed).then(|| StoredHasher::new(&first));
    let mut end = End::default();
    let mut opening = match (tags.filter(|_| read_content), seal) {
        (Some(tags), Some(seal)) => tags.opening(&seal, expected.length),
        _ => None,
    };
    if let Some(opening) = &mut opening {
        opening.take_tags(&pack.tail(expected, opening.end_length(), meter)?);
    }
    let check = match &mut hasher {
        Some(hasher) => pack.chunk(expected, Some(&mut |stored| hasher.update(stored)), meter)?,
        None if read_content => {
            let mut take = |stored: &[u8]| {
                end.update(stored);
                if let Some(opening) = &mut opening {
                    opening.update(stored);
                }
            };
            pack.chunk(expected, Some(&mut take), meter)?
        }
        None => pack.chunk(expected, None, meter)?,
    };
    let stored = match check {
        ChunkCheck::Damaged { place, reason } => return Ok(Some((place, reason))),
        ChunkCheck::Whole { fingerprint } => Fingerprint(fingerprint),
    };
    if chunk.fingerprint.is_some_and(|fingerprint| fingerprint != stored) {
        return Ok(Some((pack.place(expected.at), "the chunk has another fingerprint than its record")));
    }
    let Some(hasher) = hasher else {
        let other_seal = read_content && seal.is_some() && end.seal() != seal;
        if let (Some(tags), Some(seal), Some(opening), false) = (tags, seal, opening, other_seal) {
            tags.judge(chunk.sequence, Waiting { location: chunk.location, seal }, opening);
        }
        return Ok(other_seal.then(|| (pack.place(expected.at), "the chunk ends with another seal than its record")));
    };
    if hasher.finish() == stored {
        *hint = likely.map_or(*hint, |(index, _)| index);
        return Ok(None);
    }
    for (index, scope) in (0..owners.count()).filter_map(|index| Some((index, owners.scope(index)?))) {
        if scope == first {
            continue;
        }
        let mut hasher = StoredHasher::new(&scope);
        let check = pack.chunk(expected, Some(&mut |stored| hasher.update(stored)), meter)?;
        if matches!(check, ChunkCheck::Whole { .. }) && hasher.finish() == stored {
            *hint = index;
            return Ok(None);
        }
    }
    // The owner of what nothing refers to may be gone with the last bucket.
    let unknown_owner = chunk.refs == 0;
    Ok((!unknown_owner).then(|| (pack.place(expected.at), "the content is not the one that was stored")))
}

/// What is wrong with a chunk of a store that is open: where, and why. Nothing is if it was condemned meanwhile.
///
/// # Errors
/// What reading ran into, and `go_on`'s.
pub fn check_live_chunk(
    index: &Index,
    pack: &mut PackExamination,
    chunk: &BlobEntry,
    owners: &Owners,
    hint: &mut usize,
    go_on: &dyn Fn(u64) -> Result<()>,
) -> Result<Option<(String, &'static str)>> {
    let wrong = check_chunk(pack, (chunk, seal_of(index, chunk)?), owners, (true, None), hint, go_on)?;
    if wrong.is_some() && is_condemned(index, chunk)? { Ok(None) } else { Ok(wrong) }
}

/// Whether a chunk was condemned since it was looked up: an epoch keeps what objects lead to, not what nothing does.
///
/// # Errors
/// When the index cannot be read.
fn is_condemned(live: &Index, chunk: &BlobEntry) -> Result<bool> {
    Ok(chunk.refs == 0 && live.read()?.blob(chunk.sequence)? != Some(chunk.location))
}

/// Where a chunk should be; `None` for a content.
pub fn chunk_of(entry: &BlobEntry) -> Option<ExpectedChunk> {
    match entry.location {
        BlobLocation::Log { .. } => None,
        BlobLocation::Pack { at, length } => Some(ExpectedChunk { at, length }),
    }
}

/// Computes the fingerprint of a chunk from what is stored of it.
struct StoredHasher {
    hasher: blake3::Hasher,
}

impl StoredHasher {
    fn new(scope: &[u8; 32]) -> Self {
        Self { hasher: blake3::Hasher::new_keyed(scope) }
    }

    /// The next blocks.
    fn update(&mut self, stored: &[u8]) {
        self.hasher.update(stored);
    }

    fn finish(self) -> Fingerprint {
        Fingerprint(*self.hasher.finalize().as_bytes())
    }
}
