//! A simulated disk that loses power, on which recovery is tested.
//!
//! A write is durable after a successful sync of its file, a directory entry after a successful sync of its directory.
//! A power loss leaves each unsynced 512-byte sector, independently, in any of the states that it went through, and each
//! unsynced directory operation happened or not. After a failed sync, pages read back as written, but no later sync
//! makes them durable. What a process sees is stored separately from what is on the disk.
#![forbid(unsafe_code)]

mod image;
mod random;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use self::image::Image;
use orcas_base::error::{Error, Result};
use orcas_fs::{File, FileSystem, Open, is_punchable};

pub use self::image::{CrashPolicy, SECTOR};
pub use self::random::{SimRandom, SimRng};

/// The kind of a step. Faults are planned for a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Creates a file or a directory.
    Create,
    Read,
    Write,
    /// Reserves space.
    Allocate,
    SetLength,
    /// Punches a hole.
    Punch,
    Sync,
    SyncDirectory,
    Rename,
    Remove,
}

/// One finished operation.
#[derive(Clone, Debug)]
pub struct StepInfo {
    /// Counts from 1.
    pub number: u64,
    pub operation: Operation,
    pub path: PathBuf,
    pub failed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Io,
    NoSpace,
}

type Hook = Box<dyn FnMut(&StepInfo, &SimDisk) + Send>;

/// A handle of a disk. Clones share the disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<DiskState>>,
}

struct DiskState {
    image: Image,
    locks: BTreeSet<PathBuf>,
    steps: u64,
    counts: BTreeMap<Operation, u64>,
    faults: Vec<PlannedFault>,
    hook: Option<Hook>,
    free_bytes: u64,
    has_holes: bool,
}

struct PlannedFault {
    operation: Operation,
    /// Counted like `SimDisk::count`.
    from: u64,
    fault: Fault,
    for_ever: bool,
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimDisk {
    /// An empty disk with its root directory `/`.
    pub fn new() -> Self {
        Self::with(Image::new())
    }

    fn with(image: Image) -> Self {
        let state = DiskState {
            image,
            locks: BTreeSet::new(),
            steps: 0,
            counts: BTreeMap::new(),
            faults: Vec::new(),
            hook: None,
            free_bytes: 1 << 40,
            has_holes: true,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// The disk after a power loss: what is durable, and the unsynced changes that `policy` keeps.
    pub fn crash(&self, rng: &mut SimRng, policy: CrashPolicy) -> Self {
        Self::with(self.state.lock().image.crash(rng, policy))
    }

    /// The disk after the process was killed: the page cache stays, with pending writes and lost pages.
    pub fn kill(&self) -> Self {
        self.snapshot()
    }

    /// An independent copy of disk and page cache, without locks, faults or hook. Copies share unchanged files.
    pub fn snapshot(&self) -> Self {
        Self::with(self.state.lock().image.clone())
    }

    /// A fingerprint of what a process that reads the disk would see.
    pub fn fingerprint(&self) -> u128 {
        self.state.lock().image.fingerprint()
    }

    /// Finished operations.
    pub fn steps(&self) -> u64 {
        self.state.lock().steps
    }

    /// Operations of this kind so far, failed ones included.
    pub fn count(&self, operation: Operation) -> u64 {
        self.state.lock().counts.get(&operation).copied().unwrap_or(0)
    }

    /// Makes the `nth` operation of this kind from now on fail (1 is the next), or that one and all later ones.
    pub fn fail(&self, operation: Operation, nth: u64, fault: Fault, for_ever: bool) {
        let from = self.count(operation) + nth;
        self.state.lock().faults.push(PlannedFault { operation, from, fault, for_ever });
    }

    pub fn clear_faults(&self) {
        self.state.lock().faults.clear();
    }

    /// Sets a hook that is called after every operation except reads. It may use the disk, for example for snapshots.
    pub fn on_step(&self, hook: impl FnMut(&StepInfo, &SimDisk) + Send + 'static) {
        self.state.lock().hook = Some(Box::new(hook));
    }

    /// From now on the file system cannot punch holes.
    pub fn refuse_holes(&self) {
        self.state.lock().has_holes = false;
    }

    pub fn set_free_bytes(&self, bytes: u64) {
        self.state.lock().free_bytes = bytes;
    }

    /// Runs an operation. `act` gets the image and the error with which it must fail, if any.
    fn step<T>(
        &self,
        operation: Operation,
        path: &Path,
        act: impl FnOnce(&mut Image, Option<Error>) -> Result<T>,
    ) -> Result<T> {
        orcas_base::sync::scheduling_point();
        let mut state = self.state.lock();
        let count = state.counts.entry(operation).or_default();
        *count += 1;
        let count = *count;
        let fault = state
            .faults
            .iter()
            .find(|fault| fault.operation == operation && (fault.from == count || fault.for_ever && fault.from < count))
            .map(|fault| fault.error(path));
        let done = act(&mut state.image, fault);
        if operation == Operation::Read {
            return done;
        }
        state.steps += 1;
        let info = StepInfo { number: state.steps, operation, path: path.to_owned(), failed: done.is_err() };
        if let Some(mut hook) = state.hook.take() {
            drop(state);
            hook(&info, self);
            self.state.lock().hook.get_or_insert(hook);
        }
        done
    }
}

impl PlannedFault {
    fn error(&self, path: &Path) -> Error {
        let op = match self.operation {
            Operation::Create => "open",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Allocate => "allocate",
            Operation::SetLength => "set length",
            Operation::Punch => "punch",
            Operation::Sync => "sync",
            Operation::SyncDirectory => "sync directory",
            Operation::Rename => "rename",
            Operation::Remove => "remove",
        };
        let kind = match self.fault {
            Fault::Io => io::ErrorKind::Other,
            Fault::NoSpace => io::ErrorKind::StorageFull,
        };
        Error::io(op, path, io::Error::new(kind, "injected"))
    }
}

struct SimFile {
    disk: SimDisk,
    inode: u64,
    path: PathBuf,
    writable: bool,
}

struct SimLock {
    disk: SimDisk,
    path: PathBuf,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.state.lock().locks.remove(&self.path);
    }
}

fn missing(path: &Path) -> Error {
    Error::Missing { path: path.to_owned() }
}

fn refused(op: &'static str, path: &Path, kind: io::ErrorKind) -> Error {
    Error::io(op, path, kind.into())
}

impl FileSystem for SimDisk {
    fn open(&self, path: &Path, mode: Open) -> Result<Arc<dyn File>> {
        let inode = match mode {
            Open::Create => self.step(Operation::Create, path, |image, fault| match fault {
                Some(error) => Err(error),
                None => image.create_file(path).map_err(|kind| refused("open", path, kind)),
            })?,
            Open::Read | Open::Write => self.state.lock().image.file(path).ok_or_else(|| missing(path))?,
        };
        Ok(Arc::new(SimFile { disk: self.clone(), inode, path: path.to_owned(), writable: mode != Open::Read }))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.state.lock().image.list(dir).ok_or_else(|| refused("list", dir, io::ErrorKind::NotFound))
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.step(Operation::Create, dir, |image, fault| match fault {
            Some(error) => Err(error),
            None => image.create_directory(dir).map_err(|kind| refused("create directory", dir, kind)),
        })
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.step(Operation::SyncDirectory, dir, |image, fault| {
            image.sync_directory(dir, fault.is_none()).map_err(|kind| refused("sync directory", dir, kind))?;
            fault.map_or(Ok(()), Err)
        })
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.step(Operation::Remove, path, |image, fault| match fault {
            Some(error) => Err(error),
            None => image.remove(path).map_err(|kind| refused("remove", path, kind)),
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.step(Operation::Rename, from, |image, fault| match fault {
            Some(error) => Err(error),
            None => image.rename(from, to).map_err(|kind| refused("rename", from, kind)),
        })
    }

    fn free_bytes(&self, _dir: &Path) -> Result<u64> {
        Ok(self.state.lock().free_bytes)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        if !self.state.lock().locks.insert(path.to_owned()) {
            return Err(Error::Locked { path: path.to_owned() });
        }
        Ok(Box::new(SimLock { disk: self.clone(), path: path.to_owned() }))
    }
}

impl SimFile {
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.disk.step(Operation::Read, &self.path, |image, fault| {
            if let Some(error) = fault {
                return Err(error);
            }
            if image.read(self.inode, offset, buf) {
                return Ok(());
            }
            Err(Error::corrupt(&self.path, offset, "the file ends too early"))
        })
    }

    fn check_writable(&self) -> Result<()> {
        if self.writable { Ok(()) } else { Err(refused("write", &self.path, io::ErrorKind::PermissionDenied)) }
    }
}

impl File for SimFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check_writable()?;
        self.disk.step(Operation::Write, &self.path, |image, fault| match fault {
            // A system call that fails may have written some whole sectors.
            Some(error) => {
                let half = (offset + bytes.len() as u64 / 2) / SECTOR as u64 * SECTOR as u64;
                image.write(self.inode, offset, &bytes[..half.saturating_sub(offset) as usize]);
                Err(error)
            }
            None => {
                image.write(self.inode, offset, bytes);
                Ok(())
            }
        })
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.read(offset, buf)
    }

    fn read_at_nowait(&self, offset: u64, buf: &mut [u8]) -> Result<bool> {
        self.read(offset, buf).map(|()| true)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.disk.state.lock().image.length(self.inode))
    }

    fn set_len(&self, length: u64) -> Result<()> {
        self.check_writable()?;
        self.disk.step(Operation::SetLength, &self.path, |image, fault| match fault {
            Some(error) => Err(error),
            None => {
                image.set_length(self.inode, length);
                Ok(())
            }
        })
    }

    fn allocate(&self, offset: u64, length: u64) -> Result<()> {
        self.check_writable()?;
        self.disk.step(Operation::Allocate, &self.path, |image, fault| match fault {
            // A system call that fails may have reserved a part.
            Some(error) => {
                image.allocate(self.inode, offset + length / 2);
                Err(error)
            }
            None => {
                image.allocate(self.inode, offset + length);
                Ok(())
            }
        })
    }

    fn punch(&self, offset: u64, length: u64) -> Result<bool> {
        self.check_writable()?;
        if !is_punchable(offset, length) {
            return Err(refused("punch", &self.path, io::ErrorKind::InvalidInput));
        }
        if !self.disk.state.lock().has_holes {
            return Ok(false);
        }
        self.disk.step(Operation::Punch, &self.path, |image, fault| match fault {
            // A system call that fails may have punched a part.
            Some(error) => {
                image.punch(self.inode, offset, (length / 2).next_multiple_of(SECTOR as u64));
                Err(error)
            }
            None => {
                image.punch(self.inode, offset, length);
                Ok(true)
            }
        })
    }

    fn allocated(&self) -> Result<u64> {
        Ok(self.disk.state.lock().image.allocated(self.inode))
    }

    fn sync_data(&self) -> Result<()> {
        self.disk.step(Operation::Sync, &self.path, |image, fault| {
            image.sync(self.inode, fault.is_none());
            fault.map_or(Ok(()), Err)
        })
    }

    fn start_writeback(&self, _offset: u64, _length: u64) {}

    fn drop_cache(&self, _offset: u64, _length: u64) {}
}
