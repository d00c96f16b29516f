//! A pack that this process writes: reservation of space in it, and the syncs that make it durable.
//!
//! One thread leads a sync, which covers every chunk finished before it began. Threads that come meanwhile wait for the
//! next one. After a failed write or sync the pack takes no more chunks: those that a successful sync covered stay
//! valid, all others fail. After a failed sync the pack is never synced again, through any descriptor.

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
    /// The offset of the next frame.
    end: Mutex<u64>,
    sync: Mutex<SyncState>,
    synced: Condvar,
    failed_syncs: Arc<FailedSyncs>,
}

#[derive(Default)]
struct SyncState {
    /// Number of chunks finished. A chunk's ordinal is this number when it was finished.
    finished: u64,
    /// The highest ordinal that a successful sync covers.
    durable: u64,
    /// Whether a thread is syncing.
    leader: bool,
    failed: Option<Error>,
    /// Finished frames that no sync covers yet.
    frames: Vec<Range<u64>>,
}

/// The packs whose sync failed, and the errors. A second sync could succeed although the data never reached the disk.
#[derive(Default)]
pub(super) struct FailedSyncs(Mutex<BTreeMap<u64, Error>>);

impl FailedSyncs {
    pub fn check(&self, pack: u64) -> Result<()> {
        self.0.lock().get(&pack).cloned().map_or(Ok(()), Err)
    }

    /// Syncs `file` of `pack`; fails if a sync of it failed before.
    pub fn sync(&self, pack: u64, file: &dyn File) -> Result<()> {
        self.check(pack)?;
        file.sync_data().inspect_err(|error| drop(self.0.lock().insert(pack, error.clone())))
    }

    /// To be called when the pack is deleted.
    pub fn forget(&self, pack: u64) {
        self.0.lock().remove(&pack);
    }
}

impl Pack {
    pub fn new(number: u64, file: Arc<dyn File>, crc_salt: u32, failed_syncs: Arc<FailedSyncs>) -> Self {
        let (end, sync, synced) = (Mutex::new(FILE_HEADER), Mutex::default(), Condvar::new());
        Self { number, file, crc_salt, end, sync, synced, failed_syncs }
    }

    /// Reserves `length` bytes for a frame and returns their offset; `None` when the pack takes no more chunks or they
    /// do not fit. An empty pack takes one frame of any size.
    pub fn reserve(&self, length: u64, pack_size: u64) -> Option<u64> {
        if !self.takes_more() {
            return None;
        }
        let mut end = self.end.lock();
        let offset = *end;
        (offset == FILE_HEADER || offset + length <= pack_size).then(|| *end += length)?;
        Some(offset)
    }

    /// Abandons an unfinished frame. Its space can be reserved again if it is the last frame; otherwise it is dead.
    /// This is safe because its header was not written, no write to it is in progress, and the next frame overwrites
    /// it.
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

    /// All bytes of `frame` are written. Returns the ordinal to sync it with.
    pub fn finish(&self, frame: Range<u64>) -> u64 {
        let mut sync = self.sync.lock();
        sync.finished += 1;
        sync.frames.push(frame);
        sync.finished
    }

    /// Returns when the frame with this ordinal is durable.
    pub fn sync(&self, ordinal: u64) -> Result<()> {
        let mut sync = self.sync.lock();
        loop {
            if sync.durable >= ordinal {
                return Ok(());
            }
            if let Some(error) = &sync.failed {
                return Err(error.clone());
            }
            if sync.leader {
                self.synced.wait(&mut sync);
            } else {
                // The result is in the state.
                let _ = self.lead(&mut sync);
            }
        }
    }

    /// Makes durable all changes of the pack before the call, even if it takes no more chunks.
    pub fn flush(&self) -> Result<()> {
        let mut sync = self.sync.lock();
        while sync.leader {
            self.synced.wait(&mut sync);
        }
        self.lead(&mut sync)
    }

    /// Runs one sync, with the lock released meanwhile. No other thread may be syncing.
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
