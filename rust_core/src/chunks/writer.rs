//! Writes chunks in parallel and makes them durable in groups.
//!
//! `reserve` hands out places under a lock; the bytes are written without one. A sync has one leader for each pack;
//! it covers every chunk finished before it began, and those who come meanwhile wait for the next. After a failed
//! write or sync the pack is abandoned: what a successful sync covered stays, everything else in it fails.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::block::{BlockCrcs, block_count};
use crate::error::{Error, Result};
use crate::fs::{File, FileSystem, Open};

use super::format::{CHUNK_LENGTH_MAX, ChunkHeader, FILE_HEADER, PackHeader, content_start, frame_length};
use super::reader::{Reader, open_pack};
use super::{PackOptions, pack_number, pack_path};

/// Write-back of a chunk starts each time this many more bytes stand in the page cache.
const WRITEBACK: u64 = 1024 * 1024;

/// A chunk whose bytes are all written; durable only after `Packs::sync`.
#[derive(Clone)]
pub struct WrittenChunk {
    pub pack: u64,
    /// Of the chunk's frame.
    pub offset: u64,
    /// Bytes of content.
    pub length: u32,
    /// BLAKE3 of the content, keyed with the scope's key.
    pub identity: [u8; 32],
    /// Which sync of the pack covers it.
    ticket: u64,
    file: Arc<Pack>,
}

impl std::fmt::Debug for WrittenChunk {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "WrittenChunk({} + {} in pack {})", self.offset, self.length, self.pack)
    }
}

/// All packs of a store.
pub struct Packs {
    fs: Arc<dyn FileSystem>,
    options: Arc<PackOptions>,
    reader: Reader,
    state: Mutex<State>,
}

struct State {
    next_number: u64,
    open: Option<OpenForWriting>,
    unborn: BTreeSet<u64>,
}

struct OpenForWriting {
    pack: Arc<Pack>,
    /// Where the next frame goes.
    end: u64,
}

/// A pack that this process writes.
struct Pack {
    number: u64,
    file: Arc<dyn File>,
    crc_salt: u32,
    sync: Mutex<SyncState>,
    synced: Condvar,
}

#[derive(Default)]
struct SyncState {
    /// Chunks finished; a chunk's ticket is its number in this count.
    finished: u64,
    /// Tickets that a successful sync covers.
    durable: u64,
    leader: bool,
    failed: Option<Error>,
    /// Frames finished and not yet covered.
    frames: Vec<Range<u64>>,
}

impl Packs {
    /// `live` are the packs born per the log; other packs of this store hold nothing that counts and are removed.
    /// New packs get numbers from `next_number` on, above every number seen.
    pub fn open(fs: Arc<dyn FileSystem>, options: PackOptions, live: &[u64], next_number: u64) -> Result<Self> {
        let options = Arc::new(options);
        let present: BTreeSet<u64> = fs.list(&options.dir)?.iter().filter_map(|name| pack_number(name)).collect();
        for number in live {
            if !present.contains(number) {
                return Err(Error::Missing { path: pack_path(&options.dir, *number) });
            }
            open_pack(&*fs, &options, *number)?;
        }
        let unborn: Vec<u64> = present.iter().copied().filter(|number| !live.contains(number)).collect();
        for number in &unborn {
            // A pack of another store in this place is somebody's data: refuse, do not remove.
            if let Err(error @ Error::Foreign { .. }) = open_pack(&*fs, &options, *number) {
                return Err(error);
            }
        }
        for number in &unborn {
            fs.remove(&pack_path(&options.dir, *number))?;
        }
        if !unborn.is_empty() {
            fs.sync_dir(&options.dir)?;
        }
        let highest = present.last().copied().max(live.iter().copied().max()).unwrap_or(0);
        let state = State { next_number: next_number.max(highest + 1), open: None, unborn: BTreeSet::new() };
        Ok(Self { reader: Reader::new(Arc::clone(&fs), Arc::clone(&options)), fs, options, state: Mutex::new(state) })
    }

    /// Takes space for a chunk of `length` bytes, at most `CHUNK_LENGTH_MAX`, in a new pack if it must: then this
    /// blocks for the sync of its header and directory entry.
    pub fn reserve(&self, length: u32, scope_key: &[u8; 32]) -> Result<ChunkWriter> {
        if length > CHUNK_LENGTH_MAX {
            return Err(Error::Record { reason: "a chunk is larger than a pack's frame may be" });
        }
        let taken = frame_length(length);
        let mut state = self.state.lock();
        let mut open = match state.open.take() {
            Some(open)
                if open.pack.takes_more()
                    && (open.end == FILE_HEADER || open.end + taken <= self.options.pack_size) =>
            {
                open
            }
            _ => self.create(&mut state)?,
        };
        let offset = open.end;
        open.end += taken;
        let pack = Arc::clone(&open.pack);
        state.open = Some(open);
        drop(state);
        Ok(ChunkWriter {
            pack,
            offset,
            length,
            written: 0,
            handed_over: 0,
            hasher: blake3::Hasher::new_keyed(scope_key),
            crcs: BlockCrcs::with_capacity(block_count(length as usize)),
        })
    }

    /// Returns when all `chunks` are durable. An error says that at least one of them never will be.
    pub fn sync(&self, chunks: &[WrittenChunk]) -> Result<()> {
        let mut wanted: BTreeMap<u64, &WrittenChunk> = BTreeMap::new();
        for chunk in chunks {
            let last = wanted.entry(chunk.pack).or_insert(chunk);
            if chunk.ticket > last.ticket {
                *last = chunk;
            }
        }
        wanted.values().try_for_each(|chunk| chunk.file.sync(chunk.ticket))
    }

    /// Packs whose birth the log does not know yet: it must, before or with the first chunk that names them.
    pub fn unborn(&self) -> Vec<u64> {
        self.state.lock().unborn.iter().copied().collect()
    }

    /// The log knows `pack`, durably.
    pub fn born(&self, pack: u64) {
        self.state.lock().unborn.remove(&pack);
    }

    /// Fills `buf` with bytes of the chunk at `offset` of `pack`, from byte `start` of its content. `Error::Corrupt`
    /// when a checksum does not hold.
    pub fn read(&self, pack: u64, offset: u64, start: u32, buf: &mut [u8]) -> Result<()> {
        self.reader.read(pack, offset, start, buf, &|file, at, buf| file.read_at(at, buf).map(|()| true)).map(|_| ())
    }

    /// Like `read`, but `false` (with `buf` undefined) when that would wait for the disk.
    pub fn try_read(&self, pack: u64, offset: u64, start: u32, buf: &mut [u8]) -> Result<bool> {
        self.reader.read(pack, offset, start, buf, &|file, at, buf| file.read_at_nowait(at, buf))
    }

    fn create(&self, state: &mut State) -> Result<OpenForWriting> {
        let number = state.next_number;
        state.next_number += 1;
        let mut salt = [0; 16];
        self.options.random.fill(&mut salt)?;
        let header = PackHeader { store_id: self.options.store_id, number, salt };
        let path = pack_path(&self.options.dir, number);
        let created = self.fs.open(&path, Open::Create).and_then(|file| {
            file.write_at(0, &header.encode())?;
            file.sync_data()?;
            self.fs.sync_dir(&self.options.dir)?;
            Ok(file)
        });
        if created.is_err() {
            // A leftover is unborn and the next start removes it; this only gives its space back sooner.
            let _ = self.fs.remove(&path);
        }
        let pack = Arc::new(Pack {
            number,
            file: created?,
            crc_salt: header.crc_salt(),
            sync: Mutex::default(),
            synced: Condvar::new(),
        });
        state.unborn.insert(number);
        Ok(OpenForWriting { pack, end: FILE_HEADER })
    }
}

impl Pack {
    fn takes_more(&self) -> bool {
        self.sync.lock().failed.is_none()
    }

    fn check(&self) -> Result<()> {
        self.sync.lock().failed.clone().map_or(Ok(()), Err)
    }

    fn fail(&self, error: &Error) {
        self.sync.lock().failed.get_or_insert_with(|| error.clone());
    }

    fn sync(&self, ticket: u64) -> Result<()> {
        let mut sync = self.sync.lock();
        loop {
            if sync.durable >= ticket {
                return Ok(());
            }
            if let Some(error) = &sync.failed {
                return Err(error.clone());
            }
            if sync.leader {
                self.synced.wait(&mut sync);
                continue;
            }
            sync.leader = true;
            let covered = sync.finished;
            let frames = std::mem::take(&mut sync.frames);
            drop(sync);
            let done = self.file.sync_data();
            if done.is_ok() {
                frames.iter().for_each(|frame| self.file.drop_cache(frame.start, frame.end - frame.start));
            }
            sync = self.sync.lock();
            sync.leader = false;
            match done {
                Ok(()) => sync.durable = covered,
                Err(error) => drop(sync.failed.get_or_insert(error)),
            }
            self.synced.notify_all();
        }
    }
}

/// Writes one chunk at its reserved place. Dropped without `finish`, the place stays dead space.
pub struct ChunkWriter {
    pack: Arc<Pack>,
    offset: u64,
    length: u32,
    written: u64,
    /// Bytes whose write-back was started.
    handed_over: u64,
    hasher: blake3::Hasher,
    crcs: BlockCrcs,
}

impl ChunkWriter {
    /// The next bytes of the content, in pieces of any size; together not more than was reserved.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.written + bytes.len() as u64 > u64::from(self.length) {
            return Err(Error::Record { reason: "more bytes than were reserved for the chunk" });
        }
        self.put(content_start(self.length) + self.written, bytes)?;
        self.hasher.update(bytes);
        self.crcs.update(bytes);
        self.written += bytes.len() as u64;
        if self.written - self.handed_over >= WRITEBACK {
            let from = self.offset + content_start(self.length) + self.handed_over;
            self.pack.file.start_writeback(from, self.written - self.handed_over);
            self.handed_over = self.written;
        }
        Ok(())
    }

    /// Writes the header. Exactly the reserved length must have been written.
    pub fn finish(mut self) -> Result<WrittenChunk> {
        if self.written != u64::from(self.length) {
            return Err(Error::Record { reason: "fewer bytes than were reserved for the chunk" });
        }
        let identity = self.hasher.finalize().into();
        let crcs = std::mem::replace(&mut self.crcs, BlockCrcs::with_capacity(0)).finish();
        self.put(0, &ChunkHeader::encode(self.length, &identity, &crcs, self.pack.crc_salt, self.offset))?;
        let mut sync = self.pack.sync.lock();
        sync.finished += 1;
        sync.frames.push(self.offset..self.offset + frame_length(self.length));
        let ticket = sync.finished;
        drop(sync);
        let (pack, offset, length) = (self.pack.number, self.offset, self.length);
        Ok(WrittenChunk { pack, offset, length, identity, ticket, file: self.pack })
    }

    fn put(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.pack.check()?;
        let written = self.pack.file.write_at(self.offset + at, bytes);
        if let Err(error) = &written {
            self.pack.fail(error);
        }
        written
    }
}
