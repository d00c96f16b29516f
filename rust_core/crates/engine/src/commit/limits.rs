//! How much work a round accepts, and when it accepts none.

use super::Committer;
use orcas_base::error::Error;
use orcas_record::Durability;

/// A batch is appended at this size: a `sync` one because what waits behind it should not wait for long, a `buffered`
/// one because it is read again, to be chained and written, and would no longer be in the processor's cache.
const BATCH_BYTES_MAX: u64 = 1 << 20;
/// Nor is a larger part of the buffer held back, so that its end is near when its flush is due.
const BUFFER_PARTS: u64 = 8;
/// Bytes of records after which a round takes no more. A copy, or a change of attributes, brings records that no body
/// announces, of hundreds of KiB each where there are many parts or annotations.
const ROUND_LEN_MAX: usize = 4 * BATCH_BYTES_MAX as usize;

impl Committer {
    /// Why this round takes nothing on, if there is a reason.
    pub(super) fn what_keeps_back(&self) -> Option<Error> {
        let full = || self.shared.space.ballast.is_short() && !self.log_has_room();
        self.shared.applies.stuck().or_else(|| full().then_some(Error::StorageFull))
    }

    /// Whether what this round brings can do no harm on a full disk. What finds no place in the log fails with its
    /// round, and with what was promised before in a weaker mode than `sync`: so as long as there is such a promise,
    /// what may not find a place is refused before it is decided.
    fn log_has_room(&self) -> bool {
        !self.promised
            || self.log.room() >= self.batch.len() as u64 + BATCH_BYTES_MAX
            // Whatever else is wrong shows when it is written to.
            || !matches!(self.shared.space.make_spare(), Err(Error::StorageFull))
    }

    /// How many intents one round takes, and after how many bytes of bodies it ends.
    pub(super) fn round_limits(&self) -> (usize, u64) {
        let options = &self.shared.options;
        if !options.batch_write_enabled {
            return (1, 1);
        }
        let (count, bytes) = (options.max_write_buffer_count as usize, options.max_write_buffer_size);
        match options.durability {
            Durability::Sync | Durability::Interval | Durability::UnsafeNone => (count, bytes.min(BATCH_BYTES_MAX)),
            Durability::Buffered => {
                // What is left of the buffer. It is not full, or it would have been flushed.
                let held = self.unsynced_bytes + self.batch.len() as u64;
                let objects = self.unsynced_objects + self.objects;
                let left = bytes.saturating_sub(held).min(self.append_size());
                (count.saturating_sub(objects).max(1), left.max(1))
            }
        }
    }

    /// Bytes at which a `buffered` batch is appended.
    pub(super) fn append_size(&self) -> u64 {
        BATCH_BYTES_MAX.min(self.shared.options.max_write_buffer_size / BUFFER_PARTS)
    }

    /// Whether a round takes no more. `start` is the length of the batch before it.
    pub(super) fn round_is_full(&self, start: usize) -> bool {
        self.batch.len() >= start + ROUND_LEN_MAX
    }
}
