//! The applier: durable batches into the index, in order, many in one transaction, with the position they end at.
//! Only after the transaction has committed do their records leave the overlay.

use std::sync::Arc;

use super::Shared;
use super::queue::AppendedBatch;
use crate::error::{Cause, Error, Result};
use crate::index::{Applied, Writer};

/// Records trimmed from the overlay at a time, so that readers do not wait for all of them.
const TRIM_RECORDS: usize = 256;

pub(super) struct Applier {
    shared: Arc<Shared>,
    writer: Writer,
}

impl Applier {
    pub fn new(shared: Arc<Shared>, mut writer: Writer) -> Self {
        let leaving = Arc::clone(&shared.leaving);
        writer.on_leaving_segments(Box::new(move |segment, record| leaving.keep(segment, record)));
        Self { shared, writer }
    }

    /// The thread: until the queue is closed and empty, or the index has failed. A disk without room is waited for: the
    /// log has everything, and so does the next start.
    pub fn run(mut self) {
        while self.shared.applies.wait_for_work() {
            match self.step() {
                Ok(()) => {}
                Err(Error::StorageFull) if self.shared.applies.wait_for_space() => {}
                Err(Error::StorageFull) => return,
                Err(error) => {
                    let reason = "the index could not follow the log: restart the server, which builds it again";
                    self.shared.stop_writing(Cause::new(reason, error.to_string()));
                    self.shared.applies.fail();
                    return;
                }
            }
        }
    }

    /// One transaction, if there is anything to apply. Without room for it everything stays as it was.
    pub fn step(&mut self) -> Result<()> {
        let mut batches = self.shared.applies.take();
        let mut applied = self.apply(&batches);
        if matches!(applied, Err(Error::StorageFull)) {
            // One batch needs least, and what is checkpointed leaves its place in the write-ahead log to it.
            self.shared.make_room();
            let _ = self.shared.index.checkpoint();
            self.shared.applies.put_back(batches.split_off(1.min(batches.len())));
            applied = self.apply(&batches);
        }
        match applied {
            Ok(()) => self.note_applied(&batches),
            Err(Error::StorageFull) => {
                self.shared.applies.put_back(batches);
                self.shared.applies.stall();
                return Err(Error::StorageFull);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn apply(&mut self, batches: &[AppendedBatch]) -> Result<()> {
        let Some(last) = batches.last() else { return Ok(()) };
        let records: Vec<Applied<'_>> = batches.iter().flat_map(applied).collect();
        self.writer.apply(&records, &last.position.encode())
    }

    fn note_applied(&self, batches: &[AppendedBatch]) {
        let Some(last) = batches.last() else { return };
        self.shared.leaving.committed(&self.shared.epochs);
        self.shared.trim(batches, TRIM_RECORDS);
        let bytes = batches.iter().map(|batch| batch.bytes).sum();
        let records = batches.iter().map(|batch| batch.records.len()).sum();
        self.shared.applies.applied(bytes, records, last.position.sequence);
        self.shared.note_applied(bytes);
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
