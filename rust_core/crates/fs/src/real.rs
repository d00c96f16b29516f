//! The operating system's files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the way to the files of the machine")]

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

#[cfg(target_os = "macos")]
use super::PUNCH_ALIGN;
use super::{File, FileSystem, Open, Random, is_punchable};
use orcas_base::error::{Error, Result};

/// From here on an operator hears of a sync: clients wait for it.
const SLOW_SYNC: Duration = Duration::from_secs(1);

pub struct RealFileSystem;

struct RealFile {
    file: fs::File,
    path: PathBuf,
}

fn report_slow_sync(begun: Instant, path: &Path) {
    let took = begun.elapsed();
    if took >= SLOW_SYNC {
        let (path, seconds) = (path.display(), took.as_secs_f64());
        tracing::warn!(%path, seconds, "A sync took more than a second: the disk is slow or busy");
    }
}

/// Salts from the operating system.
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        getrandom::fill(bytes)
            .map_err(|error| Error::io("getrandom", Path::new("/dev/urandom"), io::Error::other(error.to_string())))
    }
}

impl FileSystem for RealFileSystem {
    fn open(&self, path: &Path, mode: Open) -> Result<Arc<dyn File>> {
        let mut options = fs::OpenOptions::new();
        // Only the owner may read the store, which contains its keys.
        options.read(true).write(mode != Open::Read).create_new(mode == Open::Create).mode(0o600);
        let file = options.open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if mode != Open::Create => Error::Missing { path: path.to_owned() },
            _ => Error::io("open", path, error),
        })?;
        Ok(Arc::new(RealFile { file, path: path.to_owned() }))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir).map_err(|error| Error::io("list", dir, error))? {
            let entry = entry.map_err(|error| Error::io("list", dir, error))?;
            names.extend(entry.file_name().into_string());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        match fs::create_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
            done => done.map_err(|error| Error::io("create directory", dir, error)),
        }
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let begun = Instant::now();
        let synced = fs::File::open(dir).and_then(|opened| opened.sync_all());
        report_slow_sync(begun, dir);
        synced.map_err(|error| Error::io("sync directory", dir, error))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|error| Error::io("remove", path, error))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|error| Error::io("rename", from, error))
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        let found = rustix::fs::statvfs(dir).map_err(|error| Error::io("statvfs", dir, error.into()))?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|error| Error::io("open lock", path, error))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Box::new(file)),
            Err(error) if error == rustix::io::Errno::WOULDBLOCK => Err(Error::Locked { path: path.to_owned() }),
            Err(error) => Err(Error::io("lock", path, error.into())),
        }
    }
}

impl File for RealFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|error| Error::io("write", &self.path, error))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(buf, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::corrupt(&self.path, offset, "the file ends too early"),
            _ => Error::io("read", &self.path, error),
        })
    }

    #[cfg(target_os = "linux")]
    fn read_at_nowait(&self, offset: u64, buf: &mut [u8]) -> Result<bool> {
        use rustix::io::{Errno, ReadWriteFlags};
        let wanted = buf.len();
        match rustix::io::preadv2(&self.file, &mut [io::IoSliceMut::new(buf)], offset, ReadWriteFlags::NOWAIT) {
            Ok(read) => Ok(read == wanted),
            // Some file systems and kernels lack the flag. The caller then reads in its worker pool.
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INTR | Errno::INVAL) => Ok(false),
            Err(error) => Err(Error::io("read", &self.path, error.into())),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn read_at_nowait(&self, _offset: u64, _buf: &mut [u8]) -> Result<bool> {
        Ok(false)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|error| Error::io("stat", &self.path, error))?.len())
    }

    fn set_len(&self, length: u64) -> Result<()> {
        self.file.set_len(length).map_err(|error| Error::io("set length", &self.path, error))
    }

    fn allocate(&self, offset: u64, length: u64) -> Result<()> {
        match allocate(&self.file, offset, length) {
            Err(error) if is_unsupported(&error) => self.write_at(offset, &vec![0; length as usize]),
            done => done.map_err(|error| Error::io("allocate", &self.path, error)),
        }
    }

    fn punch(&self, offset: u64, length: u64) -> Result<bool> {
        if !is_punchable(offset, length) {
            return Err(Error::io("punch", &self.path, io::ErrorKind::InvalidInput.into()));
        }
        if length == 0 {
            return Ok(true);
        }
        match punch_hole(&self.file, offset, length) {
            Ok(()) => Ok(true),
            Err(error) if is_unsupported(&error) => Ok(false),
            Err(error) => Err(Error::io("punch", &self.path, error)),
        }
    }

    fn allocated(&self) -> Result<u64> {
        // The unit of this count is 512 bytes, whatever the block size of the file system is.
        Ok(self.file.metadata().map_err(|error| Error::io("stat", &self.path, error))?.blocks().saturating_mul(512))
    }

    fn sync_data(&self) -> Result<()> {
        let begun = Instant::now();
        let synced = self.file.sync_data();
        report_slow_sync(begun, &self.path);
        synced.map_err(|error| Error::io("sync", &self.path, error))
    }

    fn start_writeback(&self, offset: u64, length: u64) {
        // For dirty pages this advice only starts their write-back; it drops the clean ones.
        self.drop_cache(offset, length);
    }

    #[cfg(target_os = "linux")]
    fn drop_cache(&self, offset: u64, length: u64) {
        if let Some(length) = std::num::NonZeroU64::new(length) {
            // This is only a hint, so an error has no consequence.
            let _ = rustix::fs::fadvise(&self.file, offset, Some(length), rustix::fs::Advice::DontNeed);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn drop_cache(&self, _offset: u64, _length: u64) {}
}

#[cfg(target_os = "linux")]
fn allocate(file: &fs::File, offset: u64, length: u64) -> io::Result<()> {
    use rustix::fs::FallocateFlags;
    Ok(rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), offset, length))?)
}

#[cfg(not(target_os = "linux"))]
fn allocate(_file: &fs::File, _offset: u64, _length: u64) -> io::Result<()> {
    Err(rustix::io::Errno::OPNOTSUPP.into())
}

#[cfg(target_os = "linux")]
fn punch_hole(file: &fs::File, offset: u64, length: u64) -> io::Result<()> {
    use rustix::fs::FallocateFlags;
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, mode, offset, length))?)
}

#[cfg(target_os = "macos")]
#[allow(unsafe_code, reason = "F_PUNCHHOLE has no safe wrapper")]
fn punch_hole(file: &fs::File, offset: u64, length: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    // Holes beyond the end of a file are not specified. There is nothing to punch there, and an incomplete page at the end
    // is overwritten.
    let end = file.metadata()?.len().min(offset + length);
    let pages = end.saturating_sub(offset) / PUNCH_ALIGN * PUNCH_ALIGN;
    if pages > 0 {
        let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let hole = libc::fpunchhole_t {
            fp_flags: 0,
            reserved: 0,
            fp_offset: offset.try_into().map_err(invalid)?,
            fp_length: pages.try_into().map_err(invalid)?,
        };
        // SAFETY: `file` keeps the descriptor open; F_PUNCHHOLE reads one fpunchhole_t, which lives across the call.
        let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_PUNCHHOLE, &raw const hole) };
        if done == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    let tail = end.saturating_sub(offset + pages) as usize;
    file.write_all_at(&[0; PUNCH_ALIGN as usize][..tail], offset + pages)
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn punch_hole(_file: &fs::File, _offset: u64, _length: u64) -> io::Result<()> {
    Err(rustix::io::Errno::OPNOTSUPP.into())
}

/// Whether the error means that this file system or kernel has no holes.
fn is_unsupported(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let unsupported = [Errno::OPNOTSUPP, Errno::NOTSUP, Errno::NOSYS, Errno::NOTTY];
    Errno::from_io_error(error).is_some_and(|errno| unsupported.contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_round_trip_and_report_errors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let disk = RealFileSystem;
        assert!(matches!(disk.open(&path, Open::Read), Err(Error::Missing { .. })));
        let file = disk.open(&path, Open::Create).unwrap();
        assert!(matches!(disk.open(&path, Open::Create), Err(Error::Io { .. })));
        file.write_at(3, b"orcas").unwrap();
        file.sync_data().unwrap();
        disk.sync_dir(dir.path()).unwrap();
        let mut bytes = [0; 8];
        file.read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\0\0\0orcas");
        assert!(matches!(file.read_at(1, &mut bytes), Err(Error::Corrupt { .. })));
        assert!(!file.read_at_nowait(1, &mut bytes).unwrap());
        file.start_writeback(0, 8);
        assert_eq!(disk.list(dir.path()).unwrap(), ["file"]);
        assert!(disk.free_bytes(dir.path()).unwrap() > 0);
    }

    #[test]
    fn a_punched_range_reads_as_zeros_and_takes_no_space() {
        let dir = tempfile::tempdir().unwrap();
        let file = RealFileSystem.open(&dir.path().join("file"), Open::Create).unwrap();
        let length = 1024 * 1024;
        file.write_at(0, &vec![7; length]).unwrap();
        file.sync_data().unwrap();
        let before = file.allocated().unwrap();
        assert!(before >= length as u64);
        assert!(matches!(file.punch(512, 4096), Err(Error::Io { .. })));
        assert!(matches!(file.punch(4096, 100), Err(Error::Io { .. })));
        assert!(file.punch(8192, 0).unwrap());
        if !file.punch(4096, 512 * 1024).unwrap() {
            println!("this file system has no holes");
            return;
        }
        file.sync_data().unwrap();
        assert!(file.allocated().unwrap() <= before - 512 * 1024);
        assert_eq!(file.len().unwrap(), length as u64);
        let mut bytes = vec![1; length];
        file.read_at(0, &mut bytes).unwrap();
        for (at, byte) in bytes.iter().enumerate() {
            let punched = (4096..4096 + 512 * 1024).contains(&at);
            assert_eq!(*byte, if punched { 0 } else { 7 }, "{at}");
        }
    }

    #[test]
    fn an_allocated_range_takes_space_and_reads_as_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let file = RealFileSystem.open(&dir.path().join("file"), Open::Create).unwrap();
        file.allocate(0, 1 << 20).unwrap();
        assert_eq!(file.len().unwrap(), 1 << 20);
        assert!(file.allocated().unwrap() >= 1 << 20);
        let mut bytes = vec![1; 1 << 20];
        file.read_at(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_file_opened_for_reading_cannot_be_punched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        RealFileSystem.open(&path, Open::Create).unwrap().write_at(0, &[7; 8192]).unwrap();
        assert!(matches!(RealFileSystem.open(&path, Open::Read).unwrap().punch(0, 4096), Err(Error::Io { .. })));
    }

    #[test]
    fn a_second_lock_is_refused_until_the_first_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = RealFileSystem.lock(&path).unwrap();
        assert!(matches!(RealFileSystem.lock(&path), Err(Error::Locked { .. })));
        drop(held);
        RealFileSystem.lock(&path).unwrap();
    }
}
