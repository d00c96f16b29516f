//! The file system interface of the store, which allows tests to inject faults.
//!
//! Implementations: `real` uses the operating system, `read_only` wraps another one, and the crate `fs_testing` has a disk that
//! loses power. Nothing here retries: a failed sync is reported once, and the caller must abandon the file.

mod given_up;
pub mod read_only;
pub mod real;
pub mod scratch;

use std::path::Path;
use std::sync::Arc;

use orcas_base::error::{Error, Result};

pub use given_up::GivenUp;

/// Holes consist of whole pages of this many bytes.
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

/// Files and directories. Relative paths are relative to the working directory of the process. Only `sync_data` and
/// `sync_dir` make anything durable; other calls may reach the disk in any order.
pub trait FileSystem: Send + Sync {
    /// `Error::Missing` when `mode` needs an existing file and there is none.
    fn open(&self, path: &Path, mode: Open) -> Result<Arc<dyn File>>;
    /// Sorted names in a directory. Names that are not UTF-8, which the store never makes, are omitted.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;
    /// Creates a directory, and succeeds if it already exists.
    fn create_dir(&self, dir: &Path) -> Result<()>;
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    fn remove(&self, path: &Path) -> Result<()>;
    /// Renames atomically and replaces `to`, which is in the same directory.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Bytes that an unprivileged process can still use on the file system of `dir`.
    fn free_bytes(&self, dir: &Path) -> Result<u64>;
    /// Takes an exclusive lock that ends with the process. `Error::Locked` if it is held already.
    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>>;
}

/// An open file. Calls on disjoint ranges may run in parallel.
pub trait File: Send + Sync {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Fills `buf`. `Error::Corrupt` if the file ends before.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()>;
    /// Like `read_at`, but returns `false`, with `buf` undefined, if that would wait for the disk.
    fn read_at_nowait(&self, offset: u64, buf: &mut [u8]) -> Result<bool>;
    fn len(&self) -> Result<u64>;
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
    fn set_len(&self, length: u64) -> Result<()>;
    /// Allocates space for this range, which reads as zeros if nothing was written there. After an error, any part of it
    /// may be allocated.
    fn allocate(&self, offset: u64, length: u64) -> Result<()>;
    /// Replaces a range by a hole, which reads as zeros and uses no space. Both numbers are multiples of `PUNCH_ALIGN`, and
    /// the length of the file stays. Returns `false`, without any change, if the file system has no holes. Durable only
    /// after a sync; a power loss before it may leave any part of the old bytes.
    fn punch(&self, offset: u64, length: u64) -> Result<bool>;
    /// Bytes of disk space that the file uses.
    fn allocated(&self) -> Result<u64>;
    /// Syncs the data and the metadata needed to read it. After an error the state of every unsynced byte is unknown.
    fn sync_data(&self) -> Result<()>;
    /// A hint to start writing this range to the disk.
    fn start_writeback(&self, offset: u64, length: u64);
    /// A hint that this range need not stay in the page cache.
    fn drop_cache(&self, offset: u64, length: u64);
}

/// Whether a hole may be punched there.
pub fn is_punchable(offset: u64, length: u64) -> bool {
    offset.is_multiple_of(PUNCH_ALIGN) && length.is_multiple_of(PUNCH_ALIGN) && offset.checked_add(length).is_some()
}

/// Fills `buf` like `File::read_at`, but unreadable pages become zeros, which then fail their checksum. For checks, which
/// continue after a bad sector.
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

/// The source of salts. Injected so that a simulated run can be repeated.
pub trait Random: Send + Sync {
    fn fill(&self, bytes: &mut [u8]) -> Result<()>;
}
