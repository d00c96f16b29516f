//! The records of a damaged log as a rewrite takes them: all that can be read, in order, and between them those that
//! the index still has or that other records need. Nothing here writes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::buckets::{KnownBuckets, MadeUp, bucket_of, free_between};
use super::locks::LostLocks;
use crate::collect::Collector;
use crate::sealed::seals::seal_of;
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_index::Index;
use orcas_log::{Inspection, RecoveredRecord, Seen};
use orcas_record::{self as record, BlobLocation, BucketId, PackId, Record, Sequence};

/// Rows read at a time.
const PAGE: usize = 2_048;
/// Records of the index that are put in at most: they are held in memory.
const RESTORED_MAX: usize = 1 << 20;

/// Told of each record: sequence, kind, payload, and what it says.
pub type Visit<'a> = &'a mut dyn FnMut(Sequence, u8, &Bytes, &Record) -> Result<()>;

/// Told of records that cannot be read: first to last, and their kind if the frame header says it.
type Lost<'a> = &'a mut dyn FnMut((Sequence, Sequence), Option<u8>);

/// What was learned in a first pass.
#[derive(Default)]
pub struct FirstPass {
    /// The highest sequence that any record has or had.
    pub last: Sequence,
    /// Records that cannot be read, first to last, as the log's files say it.
    pub lost: Vec<(Sequence, Sequence)>,
    /// The last of them that may have locked a version and are not in the index either.
    pub lost_locks: LostLocks,
    buckets: KnownBuckets,
    pub packs_created: BTreeSet<PackId>,
    pub packs_retired: BTreeSet<PackId>,
}

pub struct Source<'a> {
    pub collector: &'a Collector<'a>,
    pub inspection: &'a Inspection,
    /// The last record that is known to have been durable.
    pub applied: Sequence,
    pub first_pass: FirstPass,
    /// Records to put in, by sequence.
    inserted: BTreeMap<Sequence, (u8, Bytes)>,
    /// Names of buckets that were made up.
    pub made_up: Vec<String>,
}

impl<'a> Source<'a> {
    /// Reads the log once. `index` is the store's, if it can be read.
    ///
    /// # Errors
    /// What reading ran into; damage is no error.
    pub fn learn(
        collector: &'a Collector<'a>,
        inspection: &'a Inspection,
        (applied, index): (Sequence, Option<&Index>),
    ) -> Result<Self> {
        let (inserted, made_up) = (BTreeMap::new(), Vec::new());
        let mut source = Self { collector, inspection, applied, first_pass: FirstPass::default(), inserted, made_up };
        let mut first_pass = FirstPass { last: applied, ..FirstPass::default() };
        let mut lost = Vec::new();
        source.read(&mut |range, kind| lost.push((range, kind)), &mut |sequence, _, _, record| {
            first_pass.see(sequence, record);
            Ok(())
        })?;
        // If it is not known how many records are lost, none are assumed behind the last known one.
        let last_lost = |may_lock: &dyn Fn(u8) -> bool| {
            let locks = lost.iter().filter(|((_, last), kind)| *last > applied && kind.is_none_or(may_lock));
            locks.map(|((first, last), _)| *last.min(&first_pass.last).max(first)).max().unwrap_or(0)
        };
        first_pass.lost_locks = LostLocks {
            updates: last_lost(&|kind| kind == record::UPDATE_VERSION),
            amendments: last_lost(&record::may_amend),
        };
        first_pass.lost = lost.into_iter().map(|((first, last), _)| (first, last.min(first_pass.last))).collect();
        first_pass.lost.retain(|(first, last)| first <= last);
        source.first_pass = first_pass;
        if let Some(index) = index {
            source.restore(index)?;
        }
        source.make_up_buckets()?;
        Ok(source)
    }

    /// Shows every record in order, but those that say where records stand in the files of the old log, and those of
    /// buckets that were deleted later.
    ///
    /// # Errors
    /// What reading ran into, and whatever `visit` returns.
    pub fn each(&self, visit: Visit<'_>) -> Result<()> {
        let mut inserted = self.inserted.iter().peekable();
        let mut show = |sequence: Sequence, kind: u8, payload: &Bytes, record: &Record| {
            if self.counts(record) { visit(sequence, kind, payload, record) } else { Ok(()) }
        };
        self.read(&mut |_, _| {}, &mut |sequence, kind, payload, record| {
            while let Some((at, (kind, payload))) = inserted.next_if(|(at, _)| **at < sequence) {
                show(*at, *kind, payload, &record::decode(*kind, payload)?)?;
            }
            // A record that is there is never replaced.
            inserted.next_if(|(at, _)| **at == sequence);
            show(sequence, kind, payload, record)
        })?;
        for (at, (kind, payload)) in inserted {
            show(*at, *kind, payload, &record::decode(*kind, payload)?)?;
        }
        Ok(())
    }

    fn counts(&self, record: &Record) -> bool {
        let gone = |bucket: BucketId| self.first_pass.buckets.is_deleted(bucket);
        match record {
            Record::MoveContents { .. } | Record::ReplaceLog { .. } => false,
            // These also end something that may be elsewhere: an object in another bucket, an upload.
            Record::MoveVersion { from_bucket, version, .. } => !gone(*from_bucket) || !gone(version.bucket),
            Record::CompleteUpload { .. } => true,
            record => !bucket_of(record).is_some_and(gone),
        }
    }

    fn read(&self, lost: Lost<'_>, visit: Visit<'_>) -> Result<()> {
        let (mut last, mut stopped) = (0, false);
        for piece in &self.inspection.pieces {
            if let Some(gap) = &piece.gap {
                lost((last + 1, gap.until), None);
            }
            let examined = piece.examine(self.applied, &|bytes| self.collector.read(bytes), &mut |seen| {
                let batch = match seen {
                    Seen::Batch(batch) => batch,
                    Seen::Fault(fault) => {
                        fault.lost.into_iter().for_each(|range| lost(range, fault.kind));
                        stopped = planted::is(Bug::RepairWithoutResync);
                        return Ok(());
                    }
                };
                for RecoveredRecord { sequence, kind, payload, .. } in &batch.records {
                    if *sequence <= last || stopped {
                        continue;
                    }
                    last = *sequence;
                    match record::decode(*kind, payload) {
                        Ok(record) => visit(*sequence, *kind, payload, &record)?,
                        Err(_) => lost((*sequence, *sequence), Some(*kind)),
                    }
                }
                Ok(())
            })?;
            last = last.max(examined.last);
        }
        if let Some(gap) = &self.inspection.gap {
            lost((last + 1, gap.until), None);
        }
        Ok(())
    }

    /// Takes what the index has of the lost records: all but the content of small bodies.
    fn restore(&mut self, index: &Index) -> Result<()> {
        for (first, last) in self.first_pass.lost.clone() {
            self.restore_range(index, first, last.min(self.applied))?;
        }
        let is_lost = |first_pass: &FirstPass, sequence| {
            first_pass.lost.iter().any(|(first, last)| (*first..=*last).contains(&sequence))
        };
        for stored in index.read()?.buckets()? {
            if is_lost(&self.first_pass, stored.sequence) {
                self.inserted.insert(stored.sequence, (stored.kind, stored.record.clone()));
            }
            if let Ok(Record::CreateBucket(bucket) | Record::UpdateBucket(bucket)) =
                record::decode(stored.kind, &stored.record)
            {
                self.first_pass.buckets.see_stored(stored.sequence, bucket);
            }
        }
        for stored in index.read()?.documents()? {
            if is_lost(&self.first_pass, stored.sequence) {
                self.inserted.insert(stored.sequence, (stored.kind, stored.record));
            }
        }
        Ok(())
    }

    fn restore_range(&mut self, index: &Index, first: Sequence, last: Sequence) -> Result<()> {
        let mut after = first.saturating_sub(1);
        while self.inserted.len() < RESTORED_MAX {
            let page = index.read()?.versions_after(after, PAGE)?;
            let Some(end) = page.last().map(|stored| stored.sequence) else { break };
            let within = page.into_iter().filter(|stored| stored.sequence <= last);
            self.inserted.extend(within.map(|stored| (stored.sequence, (stored.kind, stored.record))));
            after = end;
            if end >= last {
                break;
            }
        }
        after = first.saturating_sub(1);
        while self.inserted.len() < RESTORED_MAX {
            let page = index.read()?.updates_after(after, PAGE)?;
            let Some(end) = page.last().map(|(sequence, _)| *sequence) else { break };
            let within = page.into_iter().filter(|(sequence, _)| *sequence <= last);
            self.inserted.extend(within.map(|(sequence, update)| (sequence, (record::UPDATE_VERSION, update))));
            after = end;
            if end >= last {
                break;
            }
        }
        after = first.saturating_sub(1);
        while self.inserted.len() < RESTORED_MAX {
            let page = index.read()?.segments_after(after, PAGE)?;
            let Some(end) = page.last().map(|(sequence, _)| *sequence) else { break };
            for (sequence, payload) in page.into_iter().filter(|(sequence, _)| *sequence <= last) {
                let extents = record::decode_extents(&payload)?;
                self.insert(sequence, &Record::Segment { extents });
            }
            after = end;
            if end >= last {
                break;
            }
        }
        after = first.saturating_sub(1);
        while self.inserted.len() < RESTORED_MAX {
            let page = index.read()?.blobs_after(after, PAGE)?;
            let Some(end) = page.last().map(|entry| entry.sequence) else { break };
            for entry in page.iter().filter(|entry| entry.sequence <= last) {
                if let (BlobLocation::Pack { at, length }, Some(fingerprint)) = (entry.location, entry.fingerprint) {
                    let (shared, prefix_hash) = (true, record::short_hash(&fingerprint.0));
                    let seal = seal_of(index, entry)?;
                    self.insert(entry.sequence, &Record::Chunk { fingerprint, shared, prefix_hash, at, length, seal });
                }
            }
            after = end;
            if end >= last {
                break;
            }
        }
        Ok(())
    }

    /// Objects cannot do without their bucket: one whose record is gone comes back, under its name if anything tells
    /// it.
    fn make_up_buckets(&mut self) -> Result<()> {
        for made_up in self.first_pass.buckets.made_up(&mut self.made_up) {
            match made_up {
                MadeUp::At(sequence, bucket) => self.insert(sequence, &Record::CreateBucket(bucket)),
                MadeUp::Between(after, before, bucket) => {
                    let is_taken = |sequence| self.inserted.contains_key(&sequence);
                    let sequence = free_between(&self.first_pass.lost, (after, before), is_taken)?;
                    self.insert(sequence, &Record::UpdateBucket(bucket));
                }
            }
        }
        Ok(())
    }

    fn insert(&mut self, sequence: Sequence, record: &Record) {
        let mut payload = Vec::new();
        let kind = record::encode(record, &mut payload);
        self.inserted.insert(sequence, (kind, payload.into()));
    }
}

impl FirstPass {
    fn see(&mut self, sequence: Sequence, record: &Record) {
        self.last = self.last.max(sequence);
        match record {
            Record::CreatePack { pack } => drop(self.packs_created.insert(*pack)),
            Record::RetirePack { pack } => drop(self.packs_retired.insert(*pack)),
            record => self.buckets.see(sequence, record),
        }
    }
}
