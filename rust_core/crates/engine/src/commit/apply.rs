//! The applier: durable batches into the index, in order, many in one transaction, with the position they end at.
//! Only after the transaction has committed do their records leave the overlay.

use std::sync::Arc;
use std::time::Duration;

use super::queue::{AppendedBatch, Next, Stall};
use crate::state::EngineState;
use crate::upkeep::UpkeepTask;
use orcas_base::error::{Error, Result, StoreFault};
use orcas_index::{Applied, Writer};

/// Log bytes after which the index's write-ahead log is checkpointed.
const CHECKPOINT_BYTES: u64 = 32 << 20;
/// Least bytes that a record counts for: that of a deletion is short, but changes as many pages of the index as any
/// other.
const CHECKPOINT_RECORD_BYTES: u64 = 512;
/// Records trimmed from the overlay at a time, so that readers do not wait for all of them.
const TRIM_RECORDS: usize = 256;

pub(crate) struct Applier {
    shared: Arc<EngineState>,
    /// The writer of the index; `None` only during a pause.
    writer: Option<Writer>,
    /// Bytes that were applied since the index's write-ahead log was checkpointed.
    since_checkpoint: u64,
}

impl Applier {
    pub fn new(shared: Arc<EngineState>, writer: Writer) -> Self {
        let mut applier = Self { shared, writer: None, since_checkpoint: 0 };
        applier.continue_with(writer);
        applier
    }

    fn continue_with(&mut self, mut writer: Writer) {
        let retired = Arc::clone(&self.shared.catalog.retired_segments);
        writer.on_segment_removal(Box::new(move |segment, record| retired.keep(segment, record)));
        self.writer = Some(writer);
    }

    /// The thread: until the queue is closed and empty, or the index has failed for good. A disk without room is waited
    /// for, and so is another index in the place of a damaged one: the log has everything, and so does the next start.
    pub fn run(mut self) {
        loop {
            let step = match self.shared.applies.wait_for_work() {
                Next::Apply => self.step(),
                Next::Halt if self.pause() => Ok(()),
                Next::Halt | Next::End => return,
            };
            match step {
                Ok(()) => {}
                Err(Error::StorageFull) if self.shared.applies.wait_for_space() => {}
                Err(Error::StorageFull) => return,
                Err(Error::Index { reason } | Error::IndexDamaged { reason })
                    if self.shared.catalog.index.is_file() =>
                {
                    self.shared.index_rebuild.request(&reason);
                    if !self.pause() {
                        return;
                    }
                }
                Err(error) => return self.fail(&error),
            }
        }
    }

    /// Until the index has been replaced, or was not. False when that is the end.
    fn pause(&mut self) -> bool {
        self.writer = None;
        if !self.shared.applies.halted() {
            return false;
        }
        match self.shared.catalog.index.writer() {
            Ok(writer) => {
                self.continue_with(writer);
                true
            }
            Err(error) => {
                self.fail(&error);
                false
            }
        }
    }

    fn fail(&self, error: &Error) {
        let reason = "the index could not follow the log: restart the server, which rebuilds it";
        self.shared.faults.stop_writing(StoreFault::new(reason, error.to_string()));
        self.shared.applies.fail();
    }

    /// Applies durable batches in one transaction, if there are any. Without room for it, or an index that takes it,
    /// everything stays as it was.
    pub fn step(&mut self) -> Result<()> {
        let began = self.shared.clock.monotonic();
        let mut batches = self.shared.applies.take();
        let mut applied = self.apply(&batches);
        if matches!(applied, Err(Error::StorageFull)) {
            // One batch needs least, and what is checkpointed leaves its place in the write-ahead log to it.
            self.shared.space.make_room();
            let _ = self.shared.catalog.index.checkpoint();
            self.shared.applies.put_back(batches.split_off(1.min(batches.len())));
            applied = self.apply(&batches);
        }
        let why = match &applied {
            Ok(()) => {
                self.note_applied(&batches, self.shared.clock.monotonic().saturating_sub(began));
                return Ok(());
            }
            Err(Error::StorageFull) => Stall::Space,
            Err(Error::Index { .. } | Error::IndexDamaged { .. }) => Stall::Damage,
            Err(_) => return applied,
        };
        self.shared.applies.put_back(batches);
        self.shared.applies.stall(why);
        applied
    }

    fn apply(&mut self, batches: &[AppendedBatch]) -> Result<()> {
        let Some(last) = batches.last() else { return Ok(()) };
        let records: Vec<Applied<'_>> = batches.iter().flat_map(applied).collect();
        let Some(writer) = &mut self.writer else { return Err(Error::Closed) };
        writer.apply(&records, &last.position.encode())
    }

    fn note_applied(&mut self, batches: &[AppendedBatch], took: Duration) {
        let Some(last) = batches.last() else { return };
        self.shared.catalog.retired_segments.committed(&self.shared.catalog.epochs);
        for records in batches.iter().flat_map(|batch| batch.records.chunks(TRIM_RECORDS)) {
            let mut overlay = self.shared.catalog.overlay.write();
            records.iter().for_each(|record| overlay.trim(record.sequence, &record.record));
        }
        self.shared.applies.applied(batches, last.position.clone(), took);
        let bytes: u64 = batches.iter().map(|batch| batch.bytes).sum();
        let records: usize = batches.iter().map(|batch| batch.records.len()).sum();
        self.since_checkpoint += bytes.max(CHECKPOINT_RECORD_BYTES * records as u64);
        if self.since_checkpoint >= CHECKPOINT_BYTES {
            self.since_checkpoint = 0;
            self.shared.upkeep.request(UpkeepTask::Checkpoint);
        }
    }
}

fn applied(batch: &AppendedBatch) -> impl Iterator<Item = Applied<'_>> {
    batch.records.iter().map(|record| Applied {
        sequence: record.sequence,
        kind: record.kind,
        record: &record.record,
        payload: &record.payload,
        location: batch.location(record),
    })
}
