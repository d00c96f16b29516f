//! Rewrites a damaged log: every record that can be read goes into a new log, followed by records that remove what
//! refers to lost data. For a store whose operator has accepted the loss.
//!
//! Invariants. The old log stays in force until the new one is durable and has been verified: an index was built from
//! it under the same rules as at any start. What is given up is reported by bucket and key. Nothing is destroyed: the
//! files of the old log, and packs that cannot be read, are kept under other names.

mod buckets;
mod correct;
mod locks;
mod source;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::closed::places;
use super::collect::Collector;
use super::present::{Copied, PresentIndex, copy_index, private_options};
use super::{CheckOptions, CheckProgress, Loss, Phase};
use correct::Corrections;
use orcas_base::error::Result;
use orcas_chunks::set_packs_aside;
use orcas_fs::FileSystem;
use orcas_fs::scratch::ScratchDir;
use orcas_index::{Applied, Index, Writer};
use orcas_log::{CONTENT_PREFIX, LogPosition, LogRewrite, inspect, set_aside_before};
use orcas_record::{self as record, BlobLocation, LogLocation, Record, Sequence};
use orcas_store::StoreKeys;
use source::Source;

/// Records that go into a private index at a time.
const GROUP: usize = 4_096;
/// A private index of a log that is not larger is built in memory.
const IN_MEMORY_MAX: u64 = 256 << 20;

/// What a rewrite left behind.
#[derive(Clone, Debug, Default)]
pub struct GivenUp {
    /// Versions and parts that are gone, the first `LOSSES_MAX`.
    pub losses: Vec<Loss>,
    pub losses_total: u64,
    /// Records that could not be read, first to last: what they changed is as it was before them.
    pub records: Vec<(Sequence, Sequence)>,
    /// Names given to buckets whose own are gone.
    pub buckets: Vec<String>,
    /// Names of buckets, and how many of their versions got a legal hold: a lost record may have locked them.
    pub held: Vec<(String, u64)>,
    /// Files that are kept under new names, to be examined.
    pub kept: Vec<PathBuf>,
}

/// Rewrites the log of a store that is not open; the lock is held.
///
/// # Errors
/// What reading or writing ran into, and `Index` when what is left does not fit together. The old log is in force then.
pub fn rewrite_log(
    fs: &Arc<dyn FileSystem>,
    data: &Path,
    keys: &StoreKeys,
    (options, progress): (&CheckOptions, &CheckProgress),
) -> Result<GivenUp> {
    let collector = &Collector::new(options, progress, data.to_owned());
    collector.progress().enter(Phase::Log);
    let (log, packs) = places(data, keys);
    let scratch = ScratchDir::new()?;
    let copied = match copy_index(collector, data, &scratch, keys.store_id)? {
        PresentIndex::Copied(copied) => Some(copied),
        PresentIndex::Absent | PresentIndex::Unreadable(_) => None,
    };
    let in_force = copied.as_ref().map_or(Ok(Vec::new()), |copied| copied.index.read()?.log_files())?;
    let inspection = inspect(Arc::clone(fs), log.clone(), &in_force.iter().map(|row| row.file).collect(), None)?;
    let known = (copied.as_ref().map_or(0, Copied::applied), copied.as_ref().map(|copied| &copied.index));
    let source = Source::learn(collector, &inspection, known)?;

    let bytes: u64 = inspection.pieces.iter().map(|piece| piece.bytes).sum();
    let place = |name: &str| (bytes > IN_MEMORY_MAX).then(|| scratch.path().join(name));
    let mut new = LogRewrite::begin(Arc::clone(fs), log.clone())?;
    let file = new.file();
    let loose = Index::open(private_options(place("loose.db").as_deref()), keys.store_id)?;
    let mut follower = Follower::new(&loose)?;
    source.each(&mut |sequence, kind, payload, record| {
        let at = new.push(sequence, kind, &[payload])?;
        follower.take(sequence, kind, payload, record, located(record, payload, at))
    })?;
    follower.end_loose()?;
    collector.progress().enter(Phase::Losses);
    let Corrections { records, losses, losses_total, held, buckets: of_layers, unreadable_packs } =
        correct::corrections(&loose, &source, (fs, &packs))?;
    drop(loose);
    let first = source.first_pass.last + 1;
    for (sequence, record) in (first..).zip(&records) {
        let mut payload = Vec::new();
        let kind = record::encode(record, &mut payload);
        new.push(sequence, kind, &[&payload])?;
    }

    collector.progress().enter(Phase::Index);
    let strict = Index::open(private_options(place("strict.db").as_deref()), keys.store_id)?;
    let mut follower = Follower::new(&strict)?;
    source.each(&mut |sequence, kind, payload, record| {
        follower.take(sequence, kind, payload, record, located(record, payload, new.start()))
    })?;
    for (sequence, record) in (first..).zip(&records) {
        let mut payload = Vec::new();
        let kind = record::encode(record, &mut payload);
        follower.take(sequence, kind, &payload.into(), record, None)?;
    }
    follower.end_strict()?;

    new.finish()?;
    let mut kept = set_aside_before(&**fs, &log.dir, file)?;
    kept.extend(set_packs_aside(&**fs, &packs, &unreadable_packs)?);
    let (records, mut buckets) = (source.first_pass.lost, source.made_up);
    buckets.extend(of_layers);
    Ok(GivenUp { losses, losses_total, records, buckets, held, kept })
}

/// Where the content of a record is.
fn located(record: &Record, payload: &Bytes, at: LogLocation) -> Option<BlobLocation> {
    let length = payload.len().saturating_sub(CONTENT_PREFIX) as u32;
    matches!(record, Record::Content { .. }).then_some(BlobLocation::Log { at, length })
}

type Entry = (Sequence, u8, Bytes, Record, Option<BlobLocation>);

/// A private index that is built as records come.
struct Follower {
    writer: Writer,
    waiting: Vec<Entry>,
}

impl Follower {
    fn new(index: &Index) -> Result<Self> {
        let mut writer = index.writer()?;
        writer.begin_bulk()?;
        Ok(Self { writer, waiting: Vec::new() })
    }

    fn take(
        &mut self,
        sequence: Sequence,
        kind: u8,
        payload: &Bytes,
        record: &Record,
        location: Option<BlobLocation>,
    ) -> Result<()> {
        // The bytes of a content are not looked at, and would hold on to the block that they were read with.
        let (payload, record) = match record {
            Record::Content { fingerprint, shared, seal, .. } => {
                let bytes = Bytes::new();
                let (fingerprint, shared, seal) = (*fingerprint, *shared, *seal);
                (Bytes::new(), Record::Content { fingerprint, shared, bytes, seal })
            }
            _ => {
                let payload = Bytes::copy_from_slice(payload);
                let record = record::decode(kind, &payload)?;
                (payload, record)
            }
        };
        self.waiting.push((sequence, kind, payload, record, location));
        if self.waiting.len() >= GROUP { self.apply() } else { Ok(()) }
    }

    fn apply(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let applied: Vec<Applied<'_>> = waiting
            .iter()
            .map(|(sequence, kind, payload, record, location)| Applied {
                sequence: *sequence,
                kind: *kind,
                record,
                payload,
                location: *location,
            })
            .collect();
        if applied.is_empty() { Ok(()) } else { self.writer.apply(&applied, &LogPosition::ORIGIN.encode()) }
    }

    fn end_loose(mut self) -> Result<()> {
        self.apply()?;
        self.writer.end_salvage().map(drop)
    }

    fn end_strict(mut self) -> Result<()> {
        self.apply()?;
        self.writer.end_bulk()
    }
}
