//! A read-only view of another file system, so that examining a damaged store cannot make it worse.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::{File, FileSystem, Open};
use orcas_base::error::{Error, Result};

/// Passes reads to the file system below and refuses everything else.
pub struct ReadOnlyFileSystem {
    below: Arc<dyn FileSystem>,
}

struct ReadOnlyFile {
    below: Arc<dyn File>,
}

impl ReadOnlyFileSystem {
    pub fn new(below: Arc<dyn FileSystem>) -> Self {
        Self { below }
    }
}

fn refused<T>() -> Result<T> {
    Err(Error::ReadOnly { cause: "it was opened for salvage".into() })
}

impl FileSystem for ReadOnlyFileSystem {
    fn open(&self, path: &Path, mode: Open) -> Result<Arc<dyn File>> {
        match mode {
            Open::Read => Ok(Arc::new(ReadOnlyFile { below: self.below.open(path, mode)? })),
            Open::Create | Open::Write => refused(),
        }
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.below.list(dir)
    }

    fn create_dir(&self, _dir: &Path) -> Result<()> {
        refused()
    }

    fn sync_dir(&self, _dir: &Path) -> Result<()> {
        refused()
    }

    fn remove(&self, _path: &Path) -> Result<()> {
        refused()
    }

    fn rename(&self, _from: &Path, _to: &Path) -> Result<()> {
        refused()
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.below.free_bytes(dir)
    }

    /// Does not create the file. Without it nobody has the store open, and neither on a read-only file system.
    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        if let Err(Error::Missing { .. }) = self.below.open(path, Open::Read) {
            return Ok(Box::new(()));
        }
        match self.below.lock(path) {
            Err(Error::Io { source, .. })
                if matches!(source.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied) =>
            {
                Ok(Box::new(()))
            }
            taken => taken,
        }
    }
}

impl File for ReadOnlyFile {
    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> Result<()> {
        refused()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.below.read_at(offset, buf)
    }

    fn read_at_nowait(&self, offset: u64, buf: &mut [u8]) -> Result<bool> {
        self.below.read_at_nowait(offset, buf)
    }

    fn len(&self) -> Result<u64> {
        self.below.len()
    }

    fn set_len(&self, _length: u64) -> Result<()> {
        refused()
    }

    fn allocate(&self, _offset: u64, _length: u64) -> Result<()> {
        refused()
    }

    fn punch(&self, _offset: u64, _length: u64) -> Result<bool> {
        refused()
    }

    fn allocated(&self) -> Result<u64> {
        self.below.allocated()
    }

    fn sync_data(&self) -> Result<()> {
        refused()
    }

    fn start_writeback(&self, _offset: u64, _length: u64) {}

    fn drop_cache(&self, offset: u64, length: u64) {
        self.below.drop_cache(offset, length);
    }
}
