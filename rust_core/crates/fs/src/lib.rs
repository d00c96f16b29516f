//! The file system as the store uses it: the seam at which faults are injected.
//!
//! Two implementations: `real` (the sole user of the operating system's files for data) and `sim` (a model of a disk
//! that loses power). Nothing here retries: a failed sync is reported once and the caller must abandon the file.

pub mod read_only;
pub mod real;
pub mod scratch;
pub mod sim;

use std::path::Path;
use std::sync::Arc;

use orcas_base::error::{Error, Result};

/// What file systems give back is whole pages of this many bytes.
pub const PUNCH_ALIGN: u64 = 4096;

/// How to open a file. Nothing here truncates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// Existing, read only.
    Read,
    /// Must not exist; read and write. Its directory entry is durable only after `sync_dir`.
    Create,
    /// Existing, read and write.
    Write,
}

/// Files and directories. All paths are absolute or relative to the process; no call follows another's order by
/// itself: only `sync_data` and `sync_dir` make anything durable.
pub trait FileSystem: Send + Sync {
    /// `Error::Missing` when `mode` needs a file that is not there.
    fn open(&self, path: &Path, mode: Open) -> Result<Arc<dyn File>>;
    /// Names in a directory, sorted; names that are not UTF-8 are left out, the store makes none.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;
    /// Succeeds when the directory exists already.
    fn create_dir(&self, dir: &Path) -> Result<()>;
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    fn remove(&self, path: &Path) -> Result<()>;
    /// Atomic; replaces `to`. Both in one directory.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Bytes an unprivileged process may still use on the file system that holds `dir`.
    fn free_bytes(&self, dir: &Path) -> Result<u64>;
    /// Takes an exclusive lock that dies with the process; `Error::Locked` when somebody holds it.
    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>>;
}

/// An open file. Calls may run in parallel on disjoint ranges.
pub trait File: Send + Sync {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Fills `buf`, or `Error::Corrupt` when the file ends before.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()>;
    /// Like `read_at`, but `false` (with `buf` undefined) when that would wait for the disk.
    fn read_at_nowait(&self, offset: u64, buf: &mut [u8]) -> Result<bool>;
    fn len(&self) -> Result<u64>;
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
    fn set_len(&self, length: u64) -> Result<()>;
    /// Takes space for this range, which reads as zeros if nothing was written there. After an error any part of it may
    /// be taken.
    fn allocate(&self, offset: u64, length: u64) -> Result<()>;
    /// Zeros that take no space; the file's length stays. Both numbers are multiples of `PUNCH_ALIGN`. `false` when the
    /// file system cannot: then nothing changed. Durable only after a sync; until then a power cut leaves any part of
    /// the old bytes.
    fn punch(&self, offset: u64, length: u64) -> Result<bool>;
    /// Bytes of the disk that the file takes.
    fn allocated(&self) -> Result<u64>;
    /// Data and the metadata needed to read it back. After an error the state of every unsynced byte is unknown.
    fn sync_data(&self) -> Result<()>;
    /// Hint: begin to write this range to the disk.
    fn start_writeback(&self, offset: u64, length: u64);
    /// Hint: this range need not stay in memory.
    fn drop_cache(&self, offset: u64, length: u64);
}

/// Whether a hole may be punched there.
fn is_punchable(offset: u64, length: u64) -> bool {
    offset.is_multiple_of(PUNCH_ALIGN) && length.is_multiple_of(PUNCH_ALIGN) && offset.checked_add(length).is_some()
}

/// Fills `buf` like `File::read_at`; what the disk cannot read comes as zeros, page by page, and so fails whatever
/// checksum covers it. For checks, which go on behind a bad sector.
pub fn read_around_faults(file: &dyn File, offset: u64, buf: &mut [u8]) -> Result<()> {
    match file.read_at(offset, buf) {
        Err(Error::Io { .. }) => {}
        done => return done,
    }
    for (index, page) in buf.chunks_mut(PUNCH_ALIGN as usize).enumerate() {
        match file.read_at(offset + index as u64 * PUNCH_ALIGN, page) {
            Err(Error::Io { .. }) => page.fill(0),
            done => done?,
        }
    }
    Ok(())
}

/// Where salts come from; injected so that a simulated run repeats exactly.
pub trait Random: Send + Sync {
    fn fill(&self, bytes: &mut [u8]) -> Result<()>;
}
