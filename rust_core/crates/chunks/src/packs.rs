//! All packs of a store: opens them, reserves space in new ones, and tracks which of them are in use.
//!
//! A pack is in use while it takes chunks, and while the log may still get a record of something that this process
//! wrote into it. Everything that keeps a pack in use holds its `Arc<Pack>`, and nothing else does.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use orcas_base::block::CHUNK_LENGTH_MAX;
use orcas_base::error::{Error, Result};
use orcas_base::planted::{self, Bug};
use orcas_base::sync::Mutex;
use orcas_base::sync::atomic::AtomicBool;
use orcas_fs::{FileSystem, Open};
use orcas_record::placement::codec;
use orcas_record::{ChunkLocation, PackId};

use super::format::{FORMAT_VERSION, PackHeader, content_start, frame_length};
use super::pack::{FailedSyncs, Pack};
use super::reader::{OpenPack, Reader, open_pack, read_header};
use super::writer::{ChunkWriter, FrameWriter, WrittenChunk};
use super::{PackOptions, pack_number, pack_path};

/// All packs of a store.
pub struct Packs {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) options: Arc<PackOptions>,
    pub(super) reader: Reader,
    pub(super) failed_syncs: Arc<FailedSyncs>,
    /// Packs with punched holes that are not synced yet, kept open for the sync. Oldest first.
    pub(super) punched: Mutex<VecDeque<Arc<OpenPack>>>,
    pub(super) no_holes: AtomicBool,
    /// Held while a pack is created, so that only one is created at a time. Taken before `state`.
    creating: Mutex<()>,
    /// Never held during calls of the file system, because commits take it.
    state: Mutex<WriteState>,
}

struct WriteState {
    next_number: u64,
    /// The pack that takes chunks.
    open: Option<Arc<Pack>>,
    /// Packs without a birth record.
    unrecorded: BTreeSet<u64>,
    /// Packs that this process created.
    written: BTreeMap<u64, Weak<Pack>>,
}

/// All packs whose files are in the directory, ascending.
///
/// # Errors
/// When the directory cannot be listed.
pub fn packs_present(fs: &dyn FileSystem, options: &PackOptions) -> Result<BTreeSet<PackId>> {
    Ok(numbers_present(fs, options)?.into_iter().map(codec::pack).collect())
}

fn numbers_present(fs: &dyn FileSystem, options: &PackOptions) -> Result<BTreeSet<u64>> {
    Ok(fs.list(&options.dir)?.iter().filter_map(|name| pack_number(name)).collect())
}

/// Reads the headers of all packs in `dir`, of any store. What cannot be read is left to those who read more.
///
/// # Errors
/// [`Error::Version`] for a pack of another format.
pub fn check_formats(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    for number in fs.list(dir).unwrap_or_default().iter().filter_map(|name| pack_number(name)) {
        let path = pack_path(dir, number);
        let header = fs.open(&path, Open::Read).and_then(|file| read_header(&*file));
        if let Some(found) = header.ok().and_then(|encoded| PackHeader::other_version(&encoded)) {
            return Err(Error::Version { path, found, supported: FORMAT_VERSION });
        }
    }
    Ok(())
}

/// Renames packs, so that the next start ignores them. Returns the new paths.
///
/// # Errors
/// When a pack cannot be renamed; some may have been renamed.
pub fn set_packs_aside(fs: &dyn FileSystem, options: &PackOptions, packs: &[PackId]) -> Result<Vec<PathBuf>> {
    let mut aside = Vec::new();
    for pack in packs {
        let path = pack_path(&options.dir, codec::pack_number(*pack));
        let kept = path.with_extension("pack.damaged");
        fs.rename(&path, &kept)?;
        aside.push(kept);
    }
    if aside.is_empty() { Ok(aside) } else { fs.sync_dir(&options.dir).map(|()| aside) }
}

impl Packs {
    /// Opens the packs of a store. `live` are those with a birth record; other packs of this store hold nothing that
    /// counts and are removed. New packs get numbers above `highest` and every number in use.
    ///
    /// # Errors
    /// `Missing`, `Corrupt`, `Version` or `Foreign` for a live pack, `Foreign` for any pack of another store, `Io`.
    pub fn open(
        fs: Arc<dyn FileSystem>,
        options: PackOptions,
        live: &[PackId],
        highest: Option<PackId>,
    ) -> Result<Self> {
        let options = Arc::new(options);
        let live: Vec<u64> = live.iter().copied().map(codec::pack_number).collect();
        let present = numbers_present(&*fs, &options)?;
        for number in &live {
            if !present.contains(number) {
                return Err(Error::Missing { path: pack_path(&options.dir, *number) });
            }
            open_pack(&*fs, &options, *number, Open::Read)?;
        }
        let unrecorded: Vec<u64> = present.iter().copied().filter(|number| !live.contains(number)).collect();
        for number in &unrecorded {
            // A pack of another store is somebody's data, and must not be removed.
            if let Err(error @ Error::Foreign { .. }) = open_pack(&*fs, &options, *number, Open::Read) {
                return Err(error);
            }
        }
        for number in &unrecorded {
            fs.remove(&pack_path(&options.dir, *number))?;
        }
        if !unrecorded.is_empty() {
            fs.sync_dir(&options.dir)?;
            tracing::info!(packs = unrecorded.len(), "Packs of uploads that a crash interrupted were removed");
        }
        let highest = highest.map(codec::pack_number).max(present.last().copied()).max(live.iter().copied().max());
        Ok(Self::with(fs, options, None, highest.unwrap_or(0) + 1))
    }

    /// Packs for reading only, which another process copies here. None is removed, because the log may come to name it.
    pub fn copied(fs: Arc<dyn FileSystem>, options: PackOptions) -> Self {
        Self::with(fs, Arc::new(options), None, 1)
    }

    /// Packs for reading only. `salts` are those of the packs that can be read.
    pub(super) fn salvaged(fs: Arc<dyn FileSystem>, options: PackOptions, salts: HashMap<u64, u32>) -> Self {
        Self::with(fs, Arc::new(options), Some(salts), 1)
    }

    fn with(
        fs: Arc<dyn FileSystem>,
        options: Arc<PackOptions>,
        salts: Option<HashMap<u64, u32>>,
        next_number: u64,
    ) -> Self {
        Self {
            reader: Reader::new(Arc::clone(&fs), Arc::clone(&options), salts),
            fs,
            options,
            failed_syncs: Arc::default(),
            punched: Mutex::default(),
            no_holes: AtomicBool::new(false),
            creating: Mutex::new(()),
            state: Mutex::new(WriteState {
                next_number,
                open: None,
                unrecorded: BTreeSet::new(),
                written: BTreeMap::new(),
            }),
        }
    }

    /// Whether the pack's file ends before the last chunk in it does, which has `length` bytes of content.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn is_cut_short(&self, last: ChunkLocation, length: u32) -> Result<bool> {
        let (pack, offset) = codec::chunk_parts(last);
        let file = self.fs.open(&pack_path(&self.options.dir, pack), Open::Read)?;
        Ok(file.len()? < offset + content_start(length) + u64::from(length))
    }

    /// Reserves space for a chunk of `length` bytes, at most `CHUNK_LENGTH_MAX`. If it has to create a pack, it waits
    /// for the sync of the pack's header and directory entry.
    pub fn reserve(&self, length: u32, scope_key: &[u8; 32]) -> Result<ChunkWriter> {
        Ok(ChunkWriter::new(self.reserve_frame(length)?, scope_key))
    }

    pub(super) fn reserve_frame(&self, length: u32) -> Result<FrameWriter> {
        if length > CHUNK_LENGTH_MAX {
            return Err(Error::Record { reason: "a chunk is larger than a pack's frame may be" });
        }
        let taken = frame_length(length);
        if let Some((pack, offset)) = self.reserve_open(taken) {
            return Ok(FrameWriter::new(pack, offset, length));
        }
        let _creating = self.creating.lock();
        // Another thread may have created one meanwhile.
        if let Some((pack, offset)) = self.reserve_open(taken) {
            return Ok(FrameWriter::new(pack, offset, length));
        }
        let pack = self.create()?;
        let offset = pack.reserve(taken, self.options.pack_size);
        let offset = offset.ok_or(Error::Record { reason: "a chunk does not fit into an empty pack" })?;
        let mut state = self.state.lock();
        state.unrecorded.insert(pack.number);
        state.written.retain(|_, written| written.strong_count() > 0);
        state.written.insert(pack.number, Arc::downgrade(&pack));
        if !pack.is_full(self.options.pack_size) {
            state.open = Some(Arc::clone(&pack));
        }
        drop(state);
        Ok(FrameWriter::new(pack, offset, length))
    }

    /// Reserves space in the open pack; `None` if there is none or it has no space.
    fn reserve_open(&self, taken: u64) -> Option<(Arc<Pack>, u64)> {
        let mut state = self.state.lock();
        let open = state.open.take()?;
        let offset = open.reserve(taken, self.options.pack_size)?;
        if !open.is_full(self.options.pack_size) {
            state.open = Some(Arc::clone(&open));
        }
        Some((open, offset))
    }

    /// Returns when all `chunks` are durable. After an error, at least one of them never will be.
    pub fn sync(&self, chunks: &[WrittenChunk]) -> Result<()> {
        let mut wanted: BTreeMap<u64, &WrittenChunk> = BTreeMap::new();
        for chunk in chunks {
            let last = wanted.entry(chunk.file.number).or_insert(chunk);
            if chunk.ordinal > last.ordinal {
                *last = chunk;
            }
        }
        wanted.values().try_for_each(|chunk| chunk.file.sync(chunk.ordinal))
    }

    /// Packs without a birth record. The log needs one before, or in the same batch as, the first record that names a
    /// chunk in the pack.
    pub fn unrecorded(&self) -> Vec<PackId> {
        self.state.lock().unrecorded.iter().copied().map(codec::pack).collect()
    }

    /// To be called when the birth record of `pack` is durable.
    pub fn born(&self, pack: PackId) {
        self.state.lock().unrecorded.remove(&codec::pack_number(pack));
    }

    /// Makes `pack` take no more chunks. Space already reserved in it stays valid.
    pub fn close(&self, pack: PackId) {
        self.state.lock().open.take_if(|open| open.number == codec::pack_number(pack));
    }

    /// Whether the log will get no more records of chunks that this process wrote into `pack`: the pack is not open,
    /// and no writer, written chunk or pin of it is left. Once true, it stays true.
    pub fn is_idle(&self, pack: PackId) -> bool {
        let pack = codec::pack_number(pack);
        let mut state = self.state.lock();
        // After an error a pack takes no more chunks, so it is not open.
        state.open.take_if(|open| !open.takes_more());
        state.written.get(&pack).is_none_or(|written| written.strong_count() == 0)
    }

    /// The error for a chunk that is not what was stored, although its checksums match.
    pub fn corrupt(&self, at: ChunkLocation, reason: &'static str) -> Error {
        let (pack, offset) = codec::chunk_parts(at);
        Error::corrupt(&self.path(codec::pack(pack)), offset, reason)
    }

    /// Fills `buf` with bytes of the chunk, from byte `start` of its content.
    ///
    /// # Errors
    /// `Corrupt` when a checksum does not match, `Missing`, `Io`.
    pub fn read(&self, at: ChunkLocation, start: u32, buf: &mut [u8]) -> Result<()> {
        let (pack, offset) = codec::chunk_parts(at);
        self.reader.read(pack, offset, start, buf, &|file, at, buf| file.read_at(at, buf).map(|()| true)).map(|_| ())
    }

    /// Like `read`, but `false` (with `buf` undefined) when that would wait for the disk.
    pub fn try_read(&self, at: ChunkLocation, start: u32, buf: &mut [u8]) -> Result<bool> {
        let (pack, offset) = codec::chunk_parts(at);
        self.reader.read(pack, offset, start, buf, &|file, at, buf| file.read_at_nowait(at, buf))
    }

    /// `pack`, if this process created it and it is in use.
    pub(super) fn in_use(&self, pack: u64) -> Option<Arc<Pack>> {
        self.state.lock().written.get(&pack).and_then(Weak::upgrade)
    }

    /// To be called when `pack` is deleted.
    pub(super) fn forget(&self, pack: u64) {
        let mut state = self.state.lock();
        state.unrecorded.remove(&pack);
        state.written.remove(&pack);
    }

    fn create(&self) -> Result<Arc<Pack>> {
        let number = {
            let mut state = self.state.lock();
            state.next_number += 1;
            state.next_number - 1
        };
        let mut salt = [0; 16];
        self.options.random.fill(&mut salt)?;
        let header = PackHeader { store_id: self.options.store_id, number, salt };
        let path = pack_path(&self.options.dir, number);
        let created = self.fs.open(&path, Open::Create).and_then(|file| {
            file.write_at(0, &header.encode())?;
            file.sync_data()?;
            if !planted::is(Bug::PackWithoutDirectorySync) {
                self.fs.sync_dir(&self.options.dir)?;
            }
            Ok(file)
        });
        if created.is_err() {
            // The next start would remove it as well, because it has no birth record. This frees its space now.
            let _ = self.fs.remove(&path);
        }
        Ok(Arc::new(Pack::new(number, created?, header.crc_salt(), Arc::clone(&self.failed_syncs))))
    }
}
