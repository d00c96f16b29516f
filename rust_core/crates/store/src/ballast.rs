//! The ballast: a file that only takes space. It is deleted when the disk has no room for what a store must do even
//! then: start, delete, reclaim, and apply the log to the index. It is created again from space that becomes free.
//!
//! While it is shorter than it should be, no content is accepted: the space that it gave up is for getting out of a
//! full disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use orcas_base::error::{Error, Result};
use orcas_fs::{File, FileSystem, Open};

const NAME: &str = "ballast";
/// What a start and a small store need: two small log files, and the write-ahead log of the index for some
/// transactions.
pub const SMALLEST: u64 = 8 << 20;
/// Taken at a time, so that whatever there is of room can be had.
const STEP: u64 = 1 << 20;
/// The least worth taking. On a disk that somebody else fills, a start may find no other room, and it can do with a few
/// hundred KiB.
const LEAST: u64 = 64 << 10;

pub struct Ballast {
    fs: Arc<dyn FileSystem>,
    data: PathBuf,
    /// Bytes at most; 0 for none.
    largest: u64,
    held: AtomicU64,
    /// Whoever changes the file. Not a lock of `orcas_base::sync`: what a scheduler drives has no ballast.
    changing: Mutex<()>,
    /// Whether there was no room for something, and the ballast is not whole again.
    short: AtomicBool,
    /// The ballast could not grow, for another reason than a full disk. Reported once, until it grows.
    failing: AtomicBool,
}

impl Ballast {
    /// No ballast, for a store in which nothing is written.
    pub fn none(fs: Arc<dyn FileSystem>, data: &Path) -> Self {
        Self {
            fs,
            data: data.to_owned(),
            largest: 0,
            held: AtomicU64::new(0),
            changing: Mutex::default(),
            short: AtomicBool::new(false),
            failing: AtomicBool::new(false),
        }
    }

    /// Looks at what there is.
    ///
    /// # Errors
    /// When the file cannot be looked at.
    pub fn open(fs: Arc<dyn FileSystem>, data: &Path, largest: u64) -> Result<Self> {
        let ballast = Self { largest, ..Self::none(fs, data) };
        if largest == 0 {
            return Ok(ballast);
        }
        match ballast.fs.open(&ballast.path(), Open::Read) {
            Ok(file) => ballast.held.store(file.len()?, Ordering::Release),
            Err(Error::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(ballast)
    }

    /// Whether the store is to have one.
    pub fn is_wanted(&self) -> bool {
        self.largest > 0
    }

    fn path(&self) -> PathBuf {
        self.data.join(NAME)
    }

    /// Bytes that it should have. A transaction of the index rewrites at most as many pages as there are.
    fn wanted(&self) -> u64 {
        let index = self.fs.open(&self.data.join("index.db"), Open::Read).and_then(|file| file.len());
        SMALLEST.saturating_add(index.unwrap_or(0)).min(self.largest)
    }

    fn free(&self) -> u64 {
        // A file system that cannot tell says so when it is written to.
        self.fs.free_bytes(&self.data).unwrap_or(u64::MAX)
    }

    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Acquire)
    }

    pub fn is_short(&self) -> bool {
        self.short.load(Ordering::Acquire)
    }

    /// Gives it up if less is free than the least that a start needs.
    pub fn make_room_if_short(&self) {
        if self.largest > 0 && self.free() < SMALLEST.min(self.largest) {
            self.give_up();
        }
    }

    /// True when there is more room than before.
    pub fn give_up(&self) -> bool {
        if self.largest == 0 {
            return false;
        }
        let _changing = self.changing.lock();
        self.short.store(true, Ordering::Release);
        if self.held() == 0 {
            return false;
        }
        let removed = self.fs.remove(&self.path());
        let removed = removed.inspect_err(|error| tracing::error!(%error, "The ballast could not be removed")).is_ok();
        if removed {
            self.held.store(0, Ordering::Release);
            // Some file systems give blocks out again only when it is durable that they are free.
            if let Err(error) = self.fs.sync_dir(&self.data) {
                tracing::warn!(%error, "The removal of the ballast is not durable: its space may come later");
            }
            tracing::warn!("The disk is full: the ballast was removed to make room");
        }
        removed
    }

    /// Takes what is free beyond `left`, as far as it is wanted. What fails is tried again later.
    pub fn fill(&self, left: u64) {
        if self.largest == 0 {
            return;
        }
        let wanted = self.wanted();
        let _changing = self.changing.lock();
        let most = wanted.saturating_sub(self.held()).min(self.free().saturating_sub(left));
        if most >= LEAST {
            // What could not be had comes with another attempt. Health reports a full disk.
            match self.grow(most) {
                Ok(()) => self.failing.store(false, Ordering::Relaxed),
                Err(Error::StorageFull) => {}
                Err(error) if self.failing.swap(true, Ordering::Relaxed) => drop(error),
                Err(error) => {
                    tracing::warn!(%error, "The ballast cannot grow to its full size");
                }
            }
        }
        if wanted.saturating_sub(self.held()) < STEP {
            self.short.store(false, Ordering::Release);
        }
    }

    fn grow(&self, by: u64) -> Result<()> {
        let path = self.path();
        let file: Arc<dyn File> = match self.fs.open(&path, Open::Write) {
            Err(Error::Missing { .. }) => self.fs.open(&path, Open::Create)?,
            opened => opened?,
        };
        let mut held = self.held();
        let end = held + by;
        while held < end {
            let length = STEP.min(end - held);
            if let Err(error) = file.allocate(held, length) {
                let _ = file.set_len(held);
                return Err(error);
            }
            held += length;
            self.held.store(held, Ordering::Release);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orcas_fs_testing::{Fault, Operation, SimDisk};
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Metadata, Subscriber};

    const MIB: u64 = 1 << 20;

    /// Keeps the messages of diagnostics.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    impl Lines {
        fn taken(&self) -> Vec<String> {
            std::mem::take(&mut self.0.lock())
        }
    }

    impl Visit for Lines {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            if field.name() == "message" {
                self.0.lock().push(format!("{value:?}"));
            }
        }
    }

    impl Subscriber for Lines {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn event(&self, event: &tracing::Event<'_>) {
            event.record(&mut self.clone());
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    fn ballast(disk: &SimDisk, largest: u64) -> Ballast {
        Ballast::open(Arc::new(disk.clone()), Path::new("/"), largest).unwrap()
    }

    #[test]
    fn it_goes_when_there_is_no_room_and_comes_back_when_there_is() {
        let disk = SimDisk::new();
        let kept = ballast(&disk, 64 * MIB);
        kept.fill(SMALLEST);
        assert_eq!((kept.held(), kept.is_short()), (SMALLEST, false));
        kept.make_room_if_short();
        assert_eq!(kept.held(), SMALLEST);
        disk.set_free_bytes(SMALLEST - 1);
        kept.make_room_if_short();
        assert!(!kept.give_up());
        assert_eq!((kept.held(), kept.is_short()), (0, true));
        // What is free by now is for the work that it was given up for.
        disk.set_free_bytes(SMALLEST);
        kept.fill(SMALLEST);
        assert_eq!((kept.held(), kept.is_short()), (0, true));
        disk.set_free_bytes(SMALLEST + 3 * MIB);
        kept.fill(SMALLEST);
        assert_eq!((kept.held(), kept.is_short()), (3 * MIB, true));
        // Less than a step counts as well: the next start may have nothing else.
        disk.set_free_bytes(LEAST - 1);
        kept.fill(0);
        assert_eq!(kept.held(), 3 * MIB);
        disk.set_free_bytes(LEAST);
        kept.fill(0);
        assert_eq!((kept.held(), kept.is_short()), (3 * MIB + LEAST, true));
        // The next start finds it.
        let kept = ballast(&disk, 64 * MIB);
        assert_eq!(kept.held(), 3 * MIB + LEAST);
        disk.set_free_bytes(1 << 40);
        kept.fill(SMALLEST);
        assert_eq!((kept.held(), kept.is_short()), (SMALLEST, false));
    }

    #[test]
    fn what_fails_is_reported_once() {
        let cannot_grow = "The ballast cannot grow to its full size";
        let not_durable = "The removal of the ballast is not durable: its space may come later";
        let (disk, lines) = (SimDisk::new(), Lines::default());
        let kept = ballast(&disk, 64 * MIB);
        tracing::subscriber::with_default(lines.clone(), || {
            // A disk that fills up is no failure.
            disk.fail(Operation::Allocate, 1, Fault::NoSpace, false);
            kept.fill(0);
            assert_eq!(lines.taken(), [""; 0]);
            for _ in 0..2 {
                disk.fail(Operation::Allocate, 2, Fault::Io, true);
                kept.fill(0);
                kept.fill(0);
                assert_eq!(lines.taken(), [cannot_grow]);
                disk.clear_faults();
                kept.fill(0);
                assert_eq!((kept.held(), lines.taken()), (SMALLEST, vec![]));
                disk.fail(Operation::SyncDirectory, 1, Fault::Io, false);
                assert!(kept.give_up());
                // Other tests report a full disk at the same time, so whether `tracing` shows that line here is a race.
                assert_eq!(lines.taken().first().map(String::as_str), Some(not_durable));
            }
        });
    }

    #[test]
    fn a_store_that_shall_have_none_touches_nothing() {
        let disk = SimDisk::new();
        disk.set_free_bytes(0);
        let none = ballast(&disk, 0);
        none.make_room_if_short();
        none.fill(0);
        assert!(!none.give_up());
        assert_eq!((none.held(), none.is_short(), disk.steps()), (0, false, 0));
    }
}
