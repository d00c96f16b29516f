//! Preallocates log files before they are needed, on any thread.
//!
//! A file is used only after it is durably as long as it will be, reads as zeros, and has a durable directory entry. So
//! a full disk shows here and not in a commit. Where syncs are small, its zeros are written, so that a sync of an append
//! changes no metadata; where they are large, its space is only reserved, so that no byte is written twice. On a nearly
//! full disk, files are small. This is also the source of the numbers of all log files, including compacted ones; no
//! number is used twice.

use std::sync::Arc;

use orcas_base::error::{Error, Result};
use orcas_base::sync::Mutex;
use orcas_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use orcas_fs::{File, FileSystem, Open};

use super::directory::{DirectorySyncs, LogDirectory};
use crate::{LogOptions, file_path};

/// Bytes that are written or reserved at a time.
const PIECE: u64 = 1024 * 1024;
/// Most syncs that a file without written zeros is to take. Each makes the file system commit its journal, which writes
/// about three pages and flushes the disk once more. So below this number the zeros are the larger part.
const RESERVED_SYNCS_MAX: u64 = 512;
/// Bytes of a log file on a nearly full disk: some thousand deletions.
const SMALL: u64 = 2 * 1024 * 1024;
/// Bytes of the smallest log file, if there is no space for a larger one.
const SMALLEST: u64 = 64 * 1024;
/// The disk is nearly full when it has space for fewer files than this.
const FILES_FREE_MIN: u64 = 4;

pub(crate) struct Spare {
    pub number: u64,
    pub file: Arc<dyn File>,
    pub bytes: u64,
}

/// Bytes of the next log file when `free` bytes are free and files have `file_size` bytes otherwise.
pub fn size_at(free: u64, file_size: u64) -> u64 {
    if free / FILES_FREE_MIN < file_size { SMALL.min(file_size) } else { file_size }
}

struct Slot {
    next_number: u64,
    ready: Option<Spare>,
    /// The log is closed, so no more files are made.
    closed: bool,
}

/// Makes the next log file. Cheap to clone and to send to a background thread.
#[derive(Clone)]
pub struct SpareMaker {
    fs: Arc<dyn FileSystem>,
    options: Arc<LogOptions>,
    syncs: DirectorySyncs,
    /// Locked while a file is made.
    slot: Arc<Mutex<Slot>>,
    /// Whether a file is ready or being made. Changed under the lock, read without it.
    coming: Arc<AtomicBool>,
    /// Bytes that a sync of the current file makes durable, on average.
    synced_at_once: Arc<AtomicU64>,
}

impl SpareMaker {
    pub(crate) fn new(directory: &LogDirectory, next_number: u64) -> Self {
        let LogDirectory { fs, options, syncs, .. } = directory.clone();
        let slot = Arc::new(Mutex::new(Slot { next_number, ready: None, closed: false }));
        Self { fs, options, syncs, slot, coming: Arc::default(), synced_at_once: Arc::default() }
    }

    /// For a log that is not written: it makes no file.
    pub fn unused(fs: &Arc<dyn FileSystem>, options: &LogOptions) -> Self {
        let maker = Self::new(&LogDirectory::new(Arc::clone(fs), options.clone()), 0);
        maker.close();
        maker
    }

    /// Makes a spare file unless there is one. Blocks until the disk has written up to `file_size` bytes; a roll in that
    /// time waits as well.
    pub fn make(&self) -> Result<()> {
        let mut slot = self.slot.lock();
        if slot.ready.is_none() && !slot.closed {
            self.coming.store(true, Ordering::Release);
            let created = self.create(&mut slot);
            self.coming.store(created.is_ok(), Ordering::Release);
            slot.ready = Some(created?);
        }
        Ok(())
    }

    /// Whether a file is ready for the next roll, or being made. Never blocks, because commits call this.
    pub fn is_coming(&self) -> bool {
        self.coming.load(Ordering::Acquire)
    }

    /// How many bytes a sync makes durable, on average. The next file is made for such syncs.
    pub(crate) fn expect_syncs_of(&self, bytes: u64) {
        self.synced_at_once.store(bytes, Ordering::Relaxed);
    }

    /// Removes the spare file, to free its space. `false` if there is none.
    pub fn remove(&self) -> bool {
        self.remove_from(&mut self.slot.lock())
    }

    pub(crate) fn close(&self) {
        let mut slot = self.slot.lock();
        slot.closed = true;
        self.remove_from(&mut slot);
    }

    fn remove_from(&self, slot: &mut Slot) -> bool {
        let Some(spare) = slot.ready.take() else { return false };
        self.coming.store(false, Ordering::Release);
        // If this fails, recovery removes the file.
        self.fs.remove(&file_path(&self.options.dir, spare.number)).is_ok()
    }

    /// A new file number.
    pub(crate) fn number(&self) -> u64 {
        let mut slot = self.slot.lock();
        slot.next_number += 1;
        slot.next_number - 1
    }

    pub(crate) fn take(&self) -> Result<Spare> {
        let mut slot = self.slot.lock();
        match slot.ready.take() {
            Some(spare) => {
                self.coming.store(false, Ordering::Release);
                Ok(spare)
            }
            None => self.create(&mut slot),
        }
    }

    /// Makes a file as large as the free space allows.
    fn create(&self, slot: &mut Slot) -> Result<Spare> {
        let free = self.fs.free_bytes(&self.options.dir).unwrap_or(u64::MAX);
        let mut bytes = size_at(free, self.options.file_size);
        loop {
            match self.create_of(slot, bytes) {
                Err(Error::StorageFull) if bytes > SMALLEST && bytes < self.options.file_size => {
                    bytes = (bytes / 4).max(SMALLEST);
                }
                done => return done,
            }
        }
    }

    fn create_of(&self, slot: &mut Slot, bytes: u64) -> Result<Spare> {
        let number = slot.next_number;
        slot.next_number += 1;
        let path = file_path(&self.options.dir, number);
        let failed_syncs = self.syncs.failed();
        let created = self.fs.open(&path, Open::Create).and_then(|file| {
            if self.synced_at_once.load(Ordering::Relaxed) < bytes / RESERVED_SYNCS_MAX {
                fill(&*file, 0, bytes)?;
            } else {
                in_pieces(0, bytes, |offset, length| file.allocate(offset, length))?;
            }
            file.sync_data()?;
            self.syncs.sync(&*self.fs, &self.options, failed_syncs)?;
            Ok(file)
        });
        if created.is_err() {
            // Recovery would remove the incomplete file; this frees its space now.
            let _ = self.fs.remove(&path);
        }
        Ok(Spare { number, file: created?, bytes })
    }
}

/// Writes zeros to this range, so that it is allocated.
pub(crate) fn fill(file: &dyn File, from: u64, to: u64) -> Result<()> {
    let zeros = vec![0; PIECE.min(to - from) as usize];
    in_pieces(from, to, |offset, length| file.write_at(offset, &zeros[..length as usize]))
}

fn in_pieces(from: u64, to: u64, mut act: impl FnMut(u64, u64) -> Result<()>) -> Result<()> {
    let mut offset = from;
    while offset < to {
        let length = (to - offset).min(PIECE);
        act(offset, length)?;
        offset += length;
    }
    Ok(())
}
