//! The files of the owner: a file system whose syncs append to the shared log.
//!
//! Invariants. A sync returns when the log has every change of the file before it, and all renames and removals before
//! them. Bytes of a file of the store's log reach the local file after the shared log has them; until then they are in
//! memory, and reads see them. So a local log never has a batch that the shared log lacks, whatever ends the process.
//! Bytes of packs are written at once: what no record names does no harm. Nothing is synced locally but by
//! [`Mark`](super::Mark), which says how much of the shared log the local files have.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use orcas_base::error::Result;
use orcas_fs::{File, FileSystem, Open, PUNCH_ALIGN};
use parking_lot::{Mutex, RwLock};

use super::change::{Change, is_shared};
use super::queue::Queue;

pub struct SharedFiles {
    inner: Arc<dyn FileSystem>,
    root: PathBuf,
    shared: Arc<Shared>,
}

struct Shared {
    queue: Arc<Queue>,
    /// Files that are open, by name.
    open: Mutex<HashMap<String, Weak<Tracked>>>,
    /// Files that were changed since the last mark.
    dirty: Mutex<BTreeSet<String>>,
    /// Held for reading from the append of a change until the local file has it.
    applying: RwLock<()>,
}

/// What the handles of one file share.
struct Tracked {
    name: Mutex<String>,
    /// Writes wait in memory for the shared log.
    defers: bool,
    state: Mutex<State>,
    /// Held during a sync.
    syncing: Mutex<()>,
}

#[derive(Default)]
struct State {
    /// Since the last sync, in their order.
    changes: Vec<Pending>,
    /// Deferred writes of the sync that is under way.
    flushing: Vec<(u64, Bytes)>,
    /// Other nodes have the file up to here, or will with the next sync.
    end: u64,
}

enum Pending {
    /// Not in the local file yet.
    Deferred(u64, Bytes),
    /// In the local file: from, to.
    Written(u64, u64),
    Cut(u64),
    Punched(u64, u64),
}

struct SharedFile {
    inner: Arc<dyn File>,
    shared: Arc<Shared>,
    tracked: Arc<Tracked>,
}

impl SharedFiles {
    /// `root`: the directory of the store.
    pub fn new(inner: Arc<dyn FileSystem>, root: &Path, queue: Arc<Queue>) -> Self {
        let shared = Shared { queue, open: Mutex::default(), dirty: Mutex::default(), applying: RwLock::default() };
        Self { inner, root: root.to_owned(), shared: Arc::new(shared) }
    }

    /// Calls `look` while no change is in the log and not in the local files. Returns its result, and the names of files
    /// that were changed since the last call.
    pub fn at_rest<T>(&self, look: impl FnOnce() -> T) -> (T, BTreeSet<String>) {
        let _none = self.shared.applying.write();
        (look(), std::mem::take(&mut *self.shared.dirty.lock()))
    }

    /// Counts files as changed since the last mark.
    pub fn note_dirty(&self, names: BTreeSet<String>) {
        self.shared.dirty.lock().extend(names);
    }

    /// Appends every file of the store as it is, for nodes that have nothing. The store is not open.
    ///
    /// # Errors
    /// What reading the files or appending ran into.
    pub fn append_all(&self) -> Result<()> {
        let names = |folder: &str| -> Result<Vec<String>> {
            let found = match self.inner.list(&self.root.join(folder)) {
                Err(_) if !folder.is_empty() => Vec::new(),
                found => found?,
            };
            let join = |name: String| if folder.is_empty() { name } else { format!("{folder}/{name}") };
            Ok(found.into_iter().map(join).filter(|name| is_shared(name)).collect())
        };
        // What the log names is there before the log.
        for name in [names("")?, names("chunks")?, names("log")?].into_iter().flatten() {
            let file = self.inner.open(&self.root.join(&name), Open::Read)?;
            let length = file.len()?;
            let mut offset = 0;
            while offset < length {
                let mut bytes = vec![0; PIECE.min(length - offset) as usize];
                file.read_at(offset, &mut bytes)?;
                let count = bytes.len() as u64;
                if !is_zero(&bytes) {
                    let change = Change::Write { name: name.clone(), offset, bytes: bytes.into() };
                    self.shared.queue.append([change])?;
                }
                offset += count;
            }
        }
        Ok(())
    }

    fn name(&self, path: &Path) -> Option<String> {
        let name = path.strip_prefix(&self.root).ok()?.to_str()?;
        is_shared(name).then(|| name.to_owned())
    }

    fn tracked(&self, name: String, file: &dyn File, is_new: bool) -> Result<Arc<Tracked>> {
        let mut open = self.shared.open.lock();
        if let Some(tracked) = open.get(&name).and_then(Weak::upgrade) {
            return Ok(tracked);
        }
        open.retain(|_, tracked| tracked.strong_count() > 0);
        let end = if is_new { 0 } else { file.len()? };
        let tracked = Arc::new(Tracked {
            defers: name.starts_with("log/"),
            name: Mutex::new(name.clone()),
            state: Mutex::new(State { end, ..State::default() }),
            syncing: Mutex::default(),
        });
        open.insert(name, Arc::downgrade(&tracked));
        Ok(tracked)
    }
}

impl FileSystem for SharedFiles {
    fn open(&self, path: &Path, mode: Open) -> Result<Arc<dyn File>> {
        let file = self.inner.open(path, mode)?;
        let Some(name) = self.name(path) else { return Ok(file) };
        if mode == Open::Create {
            self.shared.open.lock().remove(&name);
        }
        let tracked = self.tracked(name, &*file, mode == Open::Create)?;
        Ok(Arc::new(SharedFile { inner: file, shared: Arc::clone(&self.shared), tracked }))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.inner.create_dir(dir)
    }

    /// Renames and removals are in the log when this returns. A new file is there for others with its first bytes.
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        if dir.starts_with(&self.root) {
            let ticket = self.shared.queue.add([]);
            self.shared.queue.wait(ticket)?;
        }
        // For the files that this node alone has.
        self.inner.sync_dir(dir)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let name = self.name(path);
        if name.is_some() {
            self.shared.check()?;
        }
        self.inner.remove(path)?;
        if let Some(name) = name {
            self.shared.open.lock().remove(&name);
            // Its directory is to be synced.
            self.shared.dirty.lock().insert(name.clone());
            self.shared.queue.add([Change::Remove { name }]);
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let names = (self.name(from), self.name(to));
        if names.0.is_some() {
            self.shared.check()?;
        }
        self.inner.rename(from, to)?;
        match names {
            (Some(from), Some(to)) => {
                let mut open = self.shared.open.lock();
                if let Some(tracked) = open.remove(&from) {
                    if let Some(tracked) = tracked.upgrade() {
                        tracked.name.lock().clone_from(&to);
                    }
                    open.insert(to.clone(), tracked);
                }
                let mut dirty = self.shared.dirty.lock();
                dirty.remove(&from);
                dirty.insert(to.clone());
                self.shared.queue.add([Change::Rename { from, to }]);
            }
            (Some(name), None) => drop(self.shared.queue.add([Change::Remove { name }])),
            (None, _) => {}
        }
        Ok(())
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.inner.free_bytes(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        self.inner.lock(path)
    }
}

impl Shared {
    /// Whether this node may still take something away from its files.
    fn check(&self) -> Result<()> {
        self.queue.over().map_or(Ok(()), Err)
    }
}

/// Bytes of a pack that are read at once, to be appended.
const PIECE: u64 = 1 << 20;

impl SharedFile {
    /// Everything that was changed since the last sync, for the log.
    fn take(&self) -> Result<Vec<Change>> {
        let name = self.tracked.name.lock().clone();
        let pending = {
            let mut state = self.tracked.state.lock();
            let pending = std::mem::take(&mut state.changes);
            let deferred = pending.iter().filter_map(|change| match change {
                Pending::Deferred(offset, bytes) => Some((*offset, bytes.clone())),
                _ => None,
            });
            state.flushing = deferred.collect();
            pending
        };
        let mut changes = Vec::with_capacity(pending.len());
        for change in pending {
            match change {
                Pending::Deferred(offset, bytes) => changes.push(Change::Write { name: name.clone(), offset, bytes }),
                Pending::Written(mut from, to) => {
                    while from < to {
                        let mut bytes = vec![0; PIECE.min(to - from) as usize];
                        self.inner.read_at(from, &mut bytes)?;
                        let next = from + bytes.len() as u64;
                        changes.push(Change::Write { name: name.clone(), offset: from, bytes: bytes.into() });
                        from = next;
                    }
                }
                Pending::Cut(length) => changes.push(Change::Cut { name: name.clone(), length }),
                Pending::Punched(offset, length) => {
                    changes.push(Change::Punch { name: name.clone(), offset, length });
                }
            }
        }
        Ok(changes)
    }

    /// Notes what may never be followed by a sync of this file.
    fn note(&self, state: &mut State, change: Pending) {
        if !state.changes.is_empty() {
            return state.changes.push(change);
        }
        let name = self.tracked.name.lock().clone();
        self.shared.queue.add(match change {
            Pending::Cut(length) => Some(Change::Cut { name, length }),
            Pending::Punched(offset, length) => Some(Change::Punch { name, offset, length }),
            Pending::Deferred(..) | Pending::Written(..) => None,
        });
    }

    /// Fills `buf` if some of it waits in memory. `None`: none of it does.
    fn read_waiting(&self, offset: u64, buf: &mut [u8]) -> Option<Result<()>> {
        if !self.tracked.defers {
            return None;
        }
        let state = self.tracked.state.lock();
        let end = offset + buf.len() as u64;
        let deferred = state.changes.iter().filter_map(|change| match change {
            Pending::Deferred(at, bytes) => Some((*at, bytes)),
            _ => None,
        });
        let waiting: Vec<(u64, &Bytes)> = state
            .flushing
            .iter()
            .map(|(at, bytes)| (*at, bytes))
            .chain(deferred)
            .filter(|(at, bytes)| *at < end && offset < at + bytes.len() as u64)
            .collect();
        if waiting.is_empty() {
            return None;
        }
        Some(self.read_below(offset, buf, state.end).map(|()| {
            for (at, bytes) in waiting {
                let (from, to) = (at.max(offset), end.min(at + bytes.len() as u64));
                let target = &mut buf[(from - offset) as usize..(to - offset) as usize];
                target.copy_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
            }
        }))
    }

    /// What the local file has of a range that ends before `known`.
    fn read_below(&self, offset: u64, buf: &mut [u8], known: u64) -> Result<()> {
        let length = self.inner.len()?;
        if offset + buf.len() as u64 > length.max(known) {
            return self.inner.read_at(offset, buf);
        }
        let have = length.saturating_sub(offset).min(buf.len() as u64) as usize;
        buf[have..].fill(0);
        if have == 0 { Ok(()) } else { self.inner.read_at(offset, &mut buf[..have]) }
    }
}

impl File for SharedFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let tracked = &self.tracked;
        let end = offset + bytes.len() as u64;
        let mut state = tracked.state.lock();
        // Space for later batches: other nodes need none. But a header is a whole page.
        if tracked.defers && offset >= state.end && is_zero(bytes) {
            if state.end < PUNCH_ALIGN && end >= PUNCH_ALIGN {
                let missing = vec![0; (PUNCH_ALIGN - offset) as usize];
                state.changes.push(Pending::Deferred(offset, missing.into()));
                state.end = PUNCH_ALIGN;
            }
            drop(state);
            return self.inner.write_at(offset, bytes);
        }
        if tracked.defers {
            state.end = state.end.max(end);
            state.changes.push(Pending::Deferred(offset, Bytes::copy_from_slice(bytes)));
            return Ok(());
        }
        drop(state);
        self.inner.write_at(offset, bytes)?;
        let mut state = tracked.state.lock();
        state.end = state.end.max(end);
        match state.changes.last_mut() {
            Some(Pending::Written(_, to)) if *to == offset => *to = end,
            _ => state.changes.push(Pending::Written(offset, end)),
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.read_waiting(offset, buf).unwrap_or_else(|| self.inner.read_at(offset, buf))
    }

    fn read_at_nowait(&self, offset: u64, buf: &mut [u8]) -> Result<bool> {
        match self.read_waiting(offset, buf) {
            Some(read) => read.map(|()| true),
            None => self.inner.read_at_nowait(offset, buf),
        }
    }

    fn len(&self) -> Result<u64> {
        let known = if self.tracked.defers { self.tracked.state.lock().end } else { 0 };
        Ok(self.inner.len()?.max(known))
    }

    fn set_len(&self, length: u64) -> Result<()> {
        self.shared.check()?;
        let mut state = self.tracked.state.lock();
        self.inner.set_len(length)?;
        state.end = state.end.min(length);
        self.note(&mut state, Pending::Cut(length));
        Ok(())
    }

    fn allocate(&self, offset: u64, length: u64) -> Result<()> {
        self.inner.allocate(offset, length)
    }

    fn punch(&self, offset: u64, length: u64) -> Result<bool> {
        self.shared.check()?;
        let punched = self.inner.punch(offset, length)?;
        if punched {
            self.note(&mut self.tracked.state.lock(), Pending::Punched(offset, length));
        }
        Ok(punched)
    }

    fn allocated(&self) -> Result<u64> {
        self.inner.allocated()
    }

    fn sync_data(&self) -> Result<()> {
        let _one = self.tracked.syncing.lock();
        let _applying = self.shared.applying.read();
        let changes = self.take()?;
        let ticket = self.shared.queue.add(changes);
        self.shared.queue.wait(ticket)?;
        self.shared.dirty.lock().insert(self.tracked.name.lock().clone());
        let flushed = self.tracked.state.lock().flushing.clone();
        flushed.iter().try_for_each(|(offset, bytes)| self.inner.write_at(*offset, bytes))?;
        self.tracked.state.lock().flushing.clear();
        Ok(())
    }

    /// Appends what was written so far, so that the end of a large body does not wait for all of it. An error is that of the
    /// next sync as well.
    fn start_writeback(&self, offset: u64, length: u64) {
        self.inner.start_writeback(offset, length);
        if !self.tracked.defers {
            drop(self.sync_data());
        }
    }

    fn drop_cache(&self, offset: u64, length: u64) {
        self.inner.drop_cache(offset, length);
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use orcas_base::error::Error;
    use orcas_fs::GivenUp;
    use orcas_fs::real::RealFileSystem;

    use super::*;
    use crate::copy::{Applied, Copy};
    use crate::queue::Appender;

    const LOG: &str = "log/00000000000000000001.log";
    const PACK: &str = "chunks/1.pack";

    /// A log in memory, which can be made to refuse.
    #[derive(Clone, Default)]
    struct InMemory(Arc<Mutex<(Vec<Bytes>, bool)>>);

    impl Appender for InMemory {
        fn append(&self, batch: Bytes) -> Result<(), String> {
            let mut state = self.0.lock();
            if state.1 {
                return Err("it is another node's".to_owned());
            }
            state.0.push(batch);
            Ok(())
        }

        fn largest_batch(&self) -> usize {
            64 << 10
        }
    }

    struct Site {
        dir: tempfile::TempDir,
        log: InMemory,
        files: SharedFiles,
    }

    impl Site {
        fn new() -> Self {
            let (dir, log) = (tempfile::tempdir().unwrap(), InMemory::default());
            for folder in ["log", "chunks"] {
                std::fs::create_dir(dir.path().join(folder)).unwrap();
            }
            let queue = Arc::new(Queue::new(Box::new(log.clone())));
            let files = SharedFiles::new(Arc::new(RealFileSystem), dir.path(), queue);
            Self { dir, log, files }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn open(&self, name: &str, mode: Open) -> Arc<dyn File> {
            self.files.open(&self.path(name), mode).unwrap()
        }

        fn local(&self, name: &str) -> Vec<u8> {
            std::fs::read(self.path(name)).unwrap()
        }

        /// Another node's directory, with everything that the log has.
        fn copied(&self) -> (tempfile::TempDir, Applied) {
            let (dir, mut applied) = (tempfile::tempdir().unwrap(), Applied::default());
            let mut copy = Copy::new(Arc::new(RealFileSystem), dir.path());
            self.log.0.lock().0.iter().for_each(|batch| copy.apply(batch, &mut applied).unwrap());
            applied.given_up.shorten(&RealFileSystem, dir.path()).unwrap();
            (dir, applied)
        }
    }

    /// Whether a node gives up at once, or has put that off when the file is made again, or applies everything in one step.
    #[test]
    fn a_file_that_was_removed_and_made_again_is_the_new_one() {
        let site = Site::new();
        let former = site.open(LOG, Open::Create);
        former.write_at(0, b"a former one").unwrap();
        former.sync_data().unwrap();
        former.set_len(8).unwrap();
        former.sync_data().unwrap();
        site.files.remove(&site.path(LOG)).unwrap();
        site.files.sync_dir(&site.path("log")).unwrap();
        let new = site.open(LOG, Open::Create);
        for (offset, bytes) in [(0, &b"new"[..]), (3, b" and longer than that")] {
            new.write_at(offset, bytes).unwrap();
            new.sync_data().unwrap();
            site.files.sync_dir(&site.path("log")).unwrap();
        }
        let batches = site.log.0.lock().0.clone();
        for (at_once, in_one_step) in [(true, false), (false, false), (false, true)] {
            let dir = tempfile::tempdir().unwrap();
            let mut copy = Copy::new(Arc::new(RealFileSystem), dir.path());
            let mut waiting: Vec<GivenUp> = Vec::new();
            let mut applied = Applied::default();
            for batch in &batches {
                copy.apply(batch, &mut applied).unwrap();
                if in_one_step {
                    continue;
                }
                let given_up = std::mem::take(&mut applied).given_up;
                given_up.anew.iter().for_each(|name| waiting.iter_mut().for_each(|earlier| earlier.keep(name)));
                waiting.push(given_up);
                if at_once {
                    waiting.drain(..).for_each(|given_up| copy.give_up(&given_up).unwrap());
                }
            }
            waiting.push(applied.given_up);
            waiting.iter().for_each(|given_up| copy.give_up(given_up).unwrap());
            let found = std::fs::read(dir.path().join(LOG)).unwrap();
            assert_eq!(found, b"new and longer than that", "{at_once} {in_one_step}");
        }
    }

    #[test]
    fn bytes_of_the_log_are_local_when_the_shared_log_has_them_and_read_before() {
        let site = Site::new();
        let file = site.open(LOG, Open::Create);
        file.write_at(0, b"header").unwrap();
        file.write_at(6, b"batch").unwrap();
        assert!(site.local(LOG).is_empty());
        let mut read = [0; 11];
        site.open(LOG, Open::Read).read_at(0, &mut read).unwrap();
        assert_eq!((&read, file.len().unwrap()), (b"headerbatch", 11));
        file.sync_data().unwrap();
        assert_eq!(site.local(LOG), b"headerbatch");
        let (other, _) = site.copied();
        assert_eq!(std::fs::read(other.path().join(LOG)).unwrap(), b"headerbatch");
    }

    #[test]
    fn what_the_log_refuses_is_never_in_a_local_file_of_the_log() {
        let site = Site::new();
        let file = site.open(LOG, Open::Create);
        file.write_at(0, b"first").unwrap();
        file.sync_data().unwrap();
        site.log.0.lock().1 = true;
        file.write_at(5, b"second").unwrap();
        assert!(matches!(file.sync_data(), Err(Error::ReadOnly { .. })));
        assert!(matches!(file.sync_data(), Err(Error::ReadOnly { .. })));
        assert!(matches!(site.files.sync_dir(site.dir.path()), Err(Error::ReadOnly { .. })));
        assert_eq!(site.local(LOG), b"first");
    }

    #[test]
    fn space_for_later_batches_is_not_sent() {
        let site = Site::new();
        let file = site.open(LOG, Open::Create);
        file.write_at(0, &[0; 1 << 20]).unwrap();
        file.write_at(1 << 20, &[0; 1 << 20]).unwrap();
        file.sync_data().unwrap();
        file.write_at(0, b"header").unwrap();
        file.sync_data().unwrap();
        file.write_at(2, &[0; 2]).unwrap();
        file.sync_data().unwrap();
        let (other, _) = site.copied();
        let found = std::fs::read(other.path().join(LOG)).unwrap();
        assert_eq!((found.len(), &found[..8]), (4096, &b"he\0\0er\0\0"[..]));
        assert_eq!(site.local(LOG).len(), 2 << 20);
        assert_eq!(site.local(LOG)[..4096], found);
    }

    #[test]
    fn every_byte_of_a_pack_is_sent_once_and_names_change_in_order() {
        let site = Site::new();
        let pack = site.open(PACK, Open::Create);
        let body: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
        pack.write_at(100, &body).unwrap();
        pack.write_at(0, &[0; 100]).unwrap();
        assert_eq!(site.local(PACK).len(), 200_100);
        pack.start_writeback(0, 200_100);
        pack.write_at(200_100, &[0; 50]).unwrap();
        pack.sync_data().unwrap();
        pack.sync_data().unwrap();
        pack.set_len(200_120).unwrap();
        let draft = site.open("store.draft", Open::Create);
        draft.write_at(0, b"keys").unwrap();
        draft.sync_data().unwrap();
        site.files.rename(&site.path("store.draft"), &site.path("store.keys")).unwrap();
        site.files.remove(&site.path(PACK)).unwrap();
        site.files.sync_dir(site.dir.path()).unwrap();
        let (other, applied) = site.copied();
        let sent: usize = site.log.0.lock().0.iter().map(Bytes::len).sum();
        assert!(sent < 201_000, "{sent}");
        assert_eq!(applied.given_up.files, [PACK]);
        assert_eq!(applied.given_up.ends, [(PACK.to_owned(), 200_120)]);
        let found = std::fs::read(other.path().join(PACK)).unwrap();
        assert_eq!((found.len(), &found[100..200_100]), (200_120, &body[..]));
        assert_eq!(std::fs::read(other.path().join("store.keys")).unwrap(), b"keys");
        assert!(!other.path().join("store.draft").exists());
    }

    #[test]
    fn files_of_this_node_alone_are_not_sent() {
        let site = Site::new();
        for name in ["ballast", "store.closed", "index.db"] {
            let file = site.open(name, Open::Create);
            file.write_at(0, b"local").unwrap();
            file.sync_data().unwrap();
        }
        assert!(site.log.0.lock().0.is_empty());
    }
}
