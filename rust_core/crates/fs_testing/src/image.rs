//! The state of a simulated disk and its page cache: what a process sees, what is durable, and the changes in between.
//!
//! Every change has the time at which it happened. A sector of zeros is `None`. Copies of an image share files,
//! contents and directories until they change.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::random::SimRng;
use orcas_fs::PUNCH_ALIGN;

/// Bytes that a disk writes atomically.
pub const SECTOR: usize = 512;
const ROOT: u64 = 0;

/// What happens to unsynced sectors and directory operations at a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPolicy {
    /// All are lost.
    Drop,
    /// All reached the disk.
    Keep,
    /// Writes up to a random time reached the disk, so their order is kept.
    Prefix,
    /// Each independently reached the disk or is lost, so writes are torn and reordered.
    Scatter,
}

/// What is in a sector that is not all zeros. Images share sectors, so each is hashed at most once.
struct Sector {
    bytes: [u8; SECTOR],
    print: OnceLock<blake3::Hash>,
}

#[derive(Clone)]
pub struct Image {
    files: BTreeMap<u64, Arc<Inode>>,
    directories: BTreeMap<u64, Arc<Directory>>,
    next_id: u64,
    now: u64,
}

/// What a file has. Images share contents, so each is hashed at most once; every change forgets the hash.
#[derive(Clone, Default)]
struct Content {
    length: u64,
    sectors: BTreeMap<u64, Arc<Sector>>,
    print: OnceLock<blake3::Hash>,
}

#[derive(Clone)]
enum Change {
    Sector(u64, Option<Arc<Sector>>),
    Length(u64),
}

/// `lost` are changes whose sync failed: still seen and perhaps on the disk, but not covered by later syncs.
#[derive(Clone, Default)]
struct Inode {
    seen: Arc<Content>,
    durable: Arc<Content>,
    pending: Vec<(u64, Change)>,
    lost: Vec<(u64, Change)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    File(u64),
    Directory(u64),
}

type Entries = BTreeMap<String, Entry>;

#[derive(Clone)]
enum DirectoryChange {
    Insert(String, Entry),
    Remove(String),
    Rename(String, String, Entry),
}

#[derive(Clone, Default)]
struct Directory {
    seen: Entries,
    durable: Entries,
    pending: Vec<(u64, DirectoryChange)>,
    lost: Vec<(u64, DirectoryChange)>,
}

impl Sector {
    fn new(bytes: [u8; SECTOR]) -> Self {
        Self { bytes, print: OnceLock::new() }
    }

    fn print(&self) -> &blake3::Hash {
        self.print.get_or_init(|| blake3::hash(&self.bytes))
    }
}

impl Content {
    fn apply(&mut self, change: &Change) {
        self.print = OnceLock::new();
        match change {
            Change::Sector(index, Some(sector)) => drop(self.sectors.insert(*index, Arc::clone(sector))),
            Change::Sector(index, None) => drop(self.sectors.remove(index)),
            Change::Length(length) => self.length = *length,
        }
    }

    /// Removes sectors beyond the end of the file, which a process cannot see.
    fn trim(&mut self) {
        self.print = OnceLock::new();
        self.sectors.split_off(&self.length.div_ceil(SECTOR as u64));
        let tail = (self.length % SECTOR as u64) as usize;
        if let Some(last) = self.sectors.get_mut(&(self.length / SECTOR as u64))
            && last.bytes[tail..].iter().any(|byte| *byte != 0)
        {
            let mut kept = last.bytes;
            kept[tail..].fill(0);
            *last = Arc::new(Sector::new(kept));
        }
    }

    fn print(&self) -> &blake3::Hash {
        self.print.get_or_init(|| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&self.length.to_le_bytes());
            for (index, sector) in &self.sectors {
                hasher.update(&index.to_le_bytes()).update(sector.print().as_bytes());
            }
            hasher.finalize()
        })
    }
}

impl DirectoryChange {
    fn names(&self) -> impl Iterator<Item = &str> {
        let (first, second) = match self {
            Self::Insert(name, _) | Self::Remove(name) => (name, None),
            Self::Rename(from, to, _) => (from, Some(to)),
        };
        std::iter::once(first).chain(second).map(String::as_str)
    }

    fn apply(&self, entries: &mut Entries) {
        match self {
            Self::Insert(name, entry) => drop(entries.insert(name.clone(), *entry)),
            Self::Remove(name) => drop(entries.remove(name)),
            Self::Rename(from, to, entry) => {
                entries.remove(from);
                entries.insert(to.clone(), *entry);
            }
        }
    }
}

impl Image {
    pub fn new() -> Self {
        let directories = BTreeMap::from([(ROOT, Arc::default())]);
        Self { files: BTreeMap::new(), directories, next_id: ROOT + 1, now: 0 }
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    fn directory(&self, path: &Path) -> Option<u64> {
        let mut id = ROOT;
        for name in path.iter().filter(|name| *name != "/") {
            match self.directories.get(&id)?.seen.get(name.to_str()?)? {
                Entry::Directory(next) => id = *next,
                Entry::File(_) => return None,
            }
        }
        Some(id)
    }

    /// The directory of `path` and the name in that directory.
    fn place(&self, path: &Path) -> Option<(u64, String)> {
        Some((self.directory(path.parent()?)?, path.file_name()?.to_str()?.to_owned()))
    }

    fn entry(&self, path: &Path) -> Option<Entry> {
        let (directory, name) = self.place(path)?;
        self.directories.get(&directory)?.seen.get(&name).copied()
    }

    pub fn file(&self, path: &Path) -> Option<u64> {
        match self.entry(path)? {
            Entry::File(id) => Some(id),
            Entry::Directory(_) => None,
        }
    }

    pub fn list(&self, path: &Path) -> Option<Vec<String>> {
        Some(self.directories.get(&self.directory(path)?)?.seen.keys().cloned().collect())
    }

    fn change(&mut self, directory: u64, change: DirectoryChange) {
        let now = self.tick();
        if let Some(directory) = self.directories.get_mut(&directory) {
            let directory = Arc::make_mut(directory);
            change.apply(&mut directory.seen);
            directory.pending.push((now, change));
        }
    }

    pub fn create_file(&mut self, path: &Path) -> Result<u64, ErrorKind> {
        let (directory, name) = self.place(path).ok_or(ErrorKind::NotFound)?;
        if self.entry(path).is_some() {
            return Err(ErrorKind::AlreadyExists);
        }
        let id = self.new_id();
        self.files.insert(id, Arc::default());
        self.change(directory, DirectoryChange::Insert(name, Entry::File(id)));
        Ok(id)
    }

    pub fn create_directory(&mut self, path: &Path) -> Result<(), ErrorKind> {
        let Some((directory, name)) = self.place(path) else {
            return self.directory(path).map(|_| ()).ok_or(ErrorKind::NotFound);
        };
        match self.entry(path) {
            Some(Entry::Directory(_)) => return Ok(()),
            Some(Entry::File(_)) => return Err(ErrorKind::AlreadyExists),
            None => {}
        }
        let id = self.new_id();
        self.directories.insert(id, Arc::default());
        self.change(directory, DirectoryChange::Insert(name, Entry::Directory(id)));
        Ok(())
    }

    pub fn remove(&mut self, path: &Path) -> Result<(), ErrorKind> {
        self.file(path).ok_or(ErrorKind::NotFound)?;
        let (directory, name) = self.place(path).ok_or(ErrorKind::NotFound)?;
        self.change(directory, DirectoryChange::Remove(name));
        Ok(())
    }

    pub fn rename(&mut self, from: &Path, to: &Path) -> Result<(), ErrorKind> {
        let entry = self.entry(from).ok_or(ErrorKind::NotFound)?;
        let (directory, old) = self.place(from).ok_or(ErrorKind::NotFound)?;
        let (other, new) = self.place(to).ok_or(ErrorKind::NotFound)?;
        if directory != other {
            return Err(ErrorKind::CrossesDevices);
        }
        self.change(directory, DirectoryChange::Rename(old, new, entry));
        Ok(())
    }

    /// A failed sync (`succeeds` is false) makes the pending changes `lost`.
    pub fn sync_directory(&mut self, path: &Path, succeeds: bool) -> Result<(), ErrorKind> {
        let id = self.directory(path).ok_or(ErrorKind::NotFound)?;
        let Some(directory) = self.directories.get_mut(&id).map(Arc::make_mut) else { return Err(ErrorKind::NotFound) };
        let pending = std::mem::take(&mut directory.pending);
        if succeeds {
            for (_, change) in &pending {
                change.apply(&mut directory.durable);
                directory.lost.retain(|(_, lost)| !lost.names().any(|name| change.names().any(|other| other == name)));
            }
        } else {
            directory.lost.extend(pending);
        }
        Ok(())
    }

    pub fn length(&self, file: u64) -> u64 {
        self.files.get(&file).map_or(0, |inode| inode.seen.length)
    }

    /// `false` if the file ends before `buf` is full.
    pub fn read(&self, file: u64, offset: u64, buf: &mut [u8]) -> bool {
        let Some(inode) = self.files.get(&file).filter(|inode| offset + buf.len() as u64 <= inode.seen.length) else {
            return false;
        };
        for (index, start, range) in sectors(offset, buf.len()) {
            match inode.seen.sectors.get(&index) {
                Some(sector) => buf[range.clone()].copy_from_slice(&sector.bytes[start..start + range.len()]),
                None => buf[range].fill(0),
            }
        }
        true
    }

    pub fn write(&mut self, file: u64, offset: u64, bytes: &[u8]) {
        let now = self.tick();
        let Some(inode) = self.files.get_mut(&file).map(Arc::make_mut) else { return };
        for (index, start, range) in sectors(offset, bytes.len()) {
            let mut sector = inode.seen.sectors.get(&index).map_or([0; SECTOR], |sector| sector.bytes);
            sector[start..start + range.len()].copy_from_slice(&bytes[range]);
            let sector = (sector != [0; SECTOR]).then(|| Arc::new(Sector::new(sector)));
            inode.note(now, Change::Sector(index, sector));
        }
        let end = offset + bytes.len() as u64;
        if end > inode.seen.length && !bytes.is_empty() {
            inode.note(now, Change::Length(end));
        }
    }

    pub fn set_length(&mut self, file: u64, length: u64) {
        let now = self.tick();
        let Some(inode) = self.files.get_mut(&file).map(Arc::make_mut) else { return };
        let tail = (length % SECTOR as u64) as usize;
        let first = length / SECTOR as u64;
        let cut: Vec<_> = inode.seen.sectors.range(first..).map(|(index, sector)| (*index, sector.bytes)).collect();
        for (index, mut sector) in cut {
            sector[if index == first { tail } else { 0 }..].fill(0);
            let sector = (sector != [0; SECTOR]).then(|| Arc::new(Sector::new(sector)));
            inode.note(now, Change::Sector(index, sector));
        }
        inode.note(now, Change::Length(length));
    }

    /// Makes the file at least this long. What was not written reads as zeros.
    pub fn allocate(&mut self, file: u64, length: u64) {
        if self.length(file) < length {
            self.set_length(file, length);
        }
    }

    /// Clears whole sectors, each separately as in a write, but none beyond the end.
    pub fn punch(&mut self, file: u64, offset: u64, length: u64) {
        let now = self.tick();
        let Some(inode) = self.files.get_mut(&file).map(Arc::make_mut) else { return };
        let range = offset / SECTOR as u64..(offset + length) / SECTOR as u64;
        let punched: Vec<u64> = inode.seen.sectors.range(range).map(|(index, _)| *index).collect();
        punched.into_iter().for_each(|index| inode.note(now, Change::Sector(index, None)));
    }

    /// Bytes of the pages with a byte that is not zero. On a real file system, written zeros use space too.
    pub fn allocated(&self, file: u64) -> u64 {
        let Some(inode) = self.files.get(&file) else { return 0 };
        let mut pages: Vec<u64> = inode.seen.sectors.keys().map(|index| index * SECTOR as u64 / PUNCH_ALIGN).collect();
        pages.dedup();
        pages.len() as u64 * PUNCH_ALIGN
    }

    /// A failed sync (`succeeds` is false) turns the dirty pages clean without writing them.
    pub fn sync(&mut self, file: u64, succeeds: bool) {
        let Some(inode) = self.files.get_mut(&file).map(Arc::make_mut) else { return };
        let pending = std::mem::take(&mut inode.pending);
        if !succeeds {
            inode.lost.extend(pending);
            return;
        }
        let durable = Arc::make_mut(&mut inode.durable);
        for (_, change) in pending {
            durable.apply(&change);
            inode.lost.retain(|(_, lost)| match (lost, &change) {
                (Change::Sector(lost, _), Change::Sector(written, _)) => lost != written,
                (Change::Length(_), Change::Length(_)) => false,
                _ => true,
            });
        }
    }

    pub fn crash(&self, rng: &mut SimRng, policy: CrashPolicy) -> Self {
        let cut = rng.below(self.now + 1);
        let mut keeps = |moment: u64| match policy {
            CrashPolicy::Drop => false,
            CrashPolicy::Keep => true,
            CrashPolicy::Prefix => moment <= cut,
            CrashPolicy::Scatter => rng.below(2) == 0,
        };
        let mut after = Self { files: BTreeMap::new(), directories: BTreeMap::new(), ..self.clone() };
        for (id, directory) in &self.directories {
            let mut entries = directory.durable.clone();
            for (moment, change) in directory.lost.iter().chain(&directory.pending) {
                if keeps(*moment) {
                    change.apply(&mut entries);
                }
            }
            let directory = Directory { seen: entries.clone(), durable: entries, ..Directory::default() };
            after.directories.insert(*id, Arc::new(directory));
        }
        for (id, inode) in &self.files {
            if inode.pending.is_empty() && inode.lost.is_empty() {
                after.files.insert(*id, Arc::clone(inode));
                continue;
            }
            // Some of the changes are applied, in order, so every sector ends in one of the states that it went through.
            let mut content = (*inode.durable).clone();
            for (moment, change) in inode.lost.iter().chain(&inode.pending) {
                if keeps(*moment) {
                    content.apply(change);
                }
            }
            content.trim();
            let content = Arc::new(content);
            let inode = Inode { seen: Arc::clone(&content), durable: content, ..Inode::default() };
            after.files.insert(*id, Arc::new(inode));
        }
        after
    }

    pub fn fingerprint(&self) -> u128 {
        let mut all = Vec::new();
        self.describe(ROOT, &mut all);
        let mut out = [0; 16];
        out.copy_from_slice(&blake3::hash(&all).as_bytes()[..16]);
        u128::from_le_bytes(out)
    }

    /// Encodes everything that is seen in a directory, unambiguously.
    fn describe(&self, id: u64, out: &mut Vec<u8>) {
        let Some(directory) = self.directories.get(&id) else { return };
        out.extend_from_slice(&(directory.seen.len() as u64).to_le_bytes());
        for (name, entry) in &directory.seen {
            out.extend_from_slice(&(name.len() as u64).to_le_bytes());
            out.extend_from_slice(name.as_bytes());
            match entry {
                Entry::Directory(id) => {
                    out.push(b'd');
                    self.describe(*id, out);
                }
                Entry::File(id) => {
                    let Some(inode) = self.files.get(id) else { continue };
                    out.push(b'f');
                    out.extend_from_slice(inode.seen.print().as_bytes());
                }
            }
        }
    }
}

impl Inode {
    fn note(&mut self, now: u64, change: Change) {
        Arc::make_mut(&mut self.seen).apply(&change);
        self.pending.push((now, change));
    }
}

/// The sectors under `length` bytes at `offset`: index, first byte in the sector, range in the caller's bytes.
fn sectors(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let at = offset + done as u64;
        let start = (at % SECTOR as u64) as usize;
        let taken = (SECTOR - start).min(length - done);
        done += taken;
        Some((at / SECTOR as u64, start, done - taken..done))
    })
}
