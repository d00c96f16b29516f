//! A pack that this process writes: who has which place in it, and the syncs that make it durable.
//!
//! A sync has one leader; it covers every chunk finished before it began, and those who come meanwhile wait for the
//! next. After a failed write or sync the pack takes no more chunks: what a successful sync covered stays, everything
//! else in it fails. After a failed sync the pack is never synced again, by whatever name it is reached.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use orcas_base::error::{Error, Result};
use orcas_base::sync::{Condvar, Mutex, MutexGuard};
use orcas_fs::File;

use super::format::{FILE_HEADER, FRAME_ALIGN};

pub(super) struct Pack {
    pub number: u64,
    pub file: Arc<dyn File>,
    pub crc_salt: u32,
    /// Where the next frame goes.
    end: Mutex<u64>,
    sync: Mutex<SyncState>,
    synced: Condvar,
    failed_syncs: Arc<FailedSyncs>,
}

#[derive(Default)]
struct SyncState {
    /// Chunks finished; a chunk's ticket is its number in this count.
    finished: u64,
    /// Tickets that a successful sync covers.
    durable: u64,
    leader: bool,
    failed: Option<Error>,
    /// Frames finished and not yet covered.
    frames: Vec<Range<u64>>,
}

/// The packs of which a sync failed, and how: a second sync of one could succeed without its bytes on the disk.
#[derive(Default)]
pub(super) struct FailedSyncs(Mutex<BTreeMap<u64, Error>>);

impl FailedSyncs {
    pub fn check(&self, pack: u64) -> Result<()> {
        self.0.lock().get(&pack).cloned().map_or(Ok(()), Err)
    }

    /// Syncs `file` of `pack`, unless that failed before.
    pub fn sync(&self, pack: u64, file: &dyn File) -> Result<()> {
        self.check(pack)?;
        file.sync_data().inspect_err(|error| drop(self.0.lock().insert(pack, error.clone())))
    }

    /// The pack is no more.
    pub fn forget(&self, pack: u64) {
        self.0.lock().remove(&pack);
    }
}

impl Pack {
    pub fn new(number: u64, file: Arc<dyn File>, crc_salt: u32, failed_syncs: Arc<FailedSyncs>) -> Self {
        let (end, sync, synced) = (Mutex::new(FILE_HEADER), Mutex::default(), Condvar::new());
        Self { number, file, crc_salt, end, sync, synced, failed_syncs }
    }

    /// Takes `length` bytes for a frame; `None` when the pack takes no more or they do not fit. One frame that is
    /// larger than `pack_size` fits into an empty pack.
    pub fn reserve(&self, length: u64, pack_size: u64) -> Option<u64> {
        if !self.takes_more() {
            return None;
        }
        let mut end = self.end.lock();
        let offset = *end;
        (offset == FILE_HEADER || offset + length <= pack_size).then(|| *end += length)?;
        Some(offset)
    }

    /// An unfinished frame goes. The place is free again when it is the last; otherwise it stays dead space. No header
    /// stands there and no write is on its way: whatever comes next overwrites it.
    pub fn release(&self, frame: &Range<u64>) {
        let mut end = self.end.lock();
        if *end == frame.end {
            *end = frame.start;
        }
    }

    /// Whether not even an empty chunk fits.
    pub fn is_full(&self, pack_size: u64) -> bool {
        *self.end.lock() + FRAME_ALIGN > pack_size
    }

    pub fn takes_more(&self) -> bool {
        self.sync.lock().failed.is_none()
    }

    /// Writes into a reserved frame.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.sync.lock().failed.clone().map_or(Ok(()), Err)?;
        let written = self.file.write_at(offset, bytes);
        if let Err(error) = &written {
            self.sync.lock().failed.get_or_insert_with(|| error.clone());
        }
        written
    }

    /// All bytes of `frame` are written. Returns the ticket to sync it with.
    pub fn finish(&self, frame: Range<u64>) -> u64 {
        let mut sync = self.sync.lock();
        sync.finished += 1;
        sync.frames.push(frame);
        sync.finished
    }

    /// Returns when the frame with this ticket is durable.
    pub fn sync(&self, ticket: u64) -> Result<()> {
        let mut sync = self.sync.lock();
        loop {
            if sync.durable >= ticket {
                return Ok(());
            }
            if let Some(error) = &sync.failed {
                return Err(error.clone());
            }
            if sync.leader {
                self.synced.wait(&mut sync);
            } else {
                // How it ended stands in the state.
                let _ = self.lead(&mut sync);
            }
        }
    }

    /// Makes durable what was done to the pack before the call, also when it takes no more chunks.
    pub fn flush(&self) -> Result<()> {
        let mut sync = self.sync.lock();
        while sync.leader {
            self.synced.wait(&mut sync);
        }
        self.lead(&mut sync)
    }

    /// One sync, with the lock released meanwhile. There is no other leader.
    fn lead(&self, sync: &mut MutexGuard<'_, SyncState>) -> Result<()> {
        sync.leader = true;
        let covered = sync.finished;
        let frames = std::mem::take(&mut sync.frames);
        let done = MutexGuard::unlocked(sync, || {
            let done = self.failed_syncs.sync(self.number, &*self.file);
            if done.is_ok() {
                frames.iter().for_each(|frame| self.file.drop_cache(frame.start, frame.end - frame.start));
            }
            done
        });
        sync.leader = false;
        match &done {
            Ok(()) => sync.durable = covered,
            Err(error) => drop(sync.failed.get_or_insert_with(|| error.clone())),
        }
        self.synced.notify_all();
        done
    }
}
