//! Operations on packs for reclamation: reading and copying whole chunks, punching dead ones, retiring empty packs.
//!
//! The caller decides what is dead. A chunk may be punched, or a pack retired, only when the record that says so is
//! durable, and no reader is left that may have looked up its location before.

use std::path::PathBuf;
use std::sync::Arc;

use orcas_base::block::{BLOCK_SIZE, field};
use orcas_base::error::{Error, Result};
use orcas_base::sync::atomic::Ordering;
use orcas_fs::{File, Open};
use orcas_record::placement::codec;
use orcas_record::{ChunkLocation, PackId};

use super::format::{CHUNK_HEADER, ChunkHeader, FILE_HEADER, FRAME_ALIGN, blocks_match, content_start, frame_length};
use super::packs::Packs;
use super::reader::{FramePrefix, OpenPack, open_pack};
use super::writer::WrittenChunk;
use super::{pack_named, pack_path};

/// Bytes that a copy reads at a time; whole blocks.
const COPY_PIECE: usize = 16 * BLOCK_SIZE;
/// Packs with unsynced holes whose descriptors are kept. Others are opened again for the sync.
const PUNCHED_MAX: usize = 16;

/// The header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkInfo {
    /// Bytes of content.
    pub length: u32,
    /// The fingerprint as computed when the chunk was first written. Its key is not known here, so it cannot be
    /// verified.
    pub fingerprint: [u8; 32],
}

/// A pack file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackFile {
    pub pack: PackId,
    pub length: u64,
    /// Bytes that it takes on the disk.
    pub allocated: u64,
}

impl Packs {
    /// The whole content of the chunk, verified; at most `CHUNK_LENGTH_MAX` bytes.
    pub fn read_whole(&self, at: ChunkLocation) -> Result<(ChunkInfo, Vec<u8>)> {
        let (pack, prefix) = self.prefix(at)?;
        let offset = codec::chunk_parts(at).1;
        let length = prefix.header.length;
        let mut content = vec![0; length as usize];
        read_verified(&pack, offset, &prefix, 0, &mut content)?;
        Ok((ChunkInfo { length, fingerprint: prefix.header.fingerprint }, content))
    }

    /// Copies the chunk into the open pack, with its fingerprint and checksums, and verifies each block. Its own pack is
    /// closed if it is the open one. The copy has no prefix hash, because moving a chunk does not need it.
    pub fn copy(&self, at: ChunkLocation) -> Result<WrittenChunk> {
        self.close(at.pack());
        let (source, prefix) = self.prefix(at)?;
        let offset = codec::chunk_parts(at).1;
        let length = prefix.header.length as usize;
        let mut frame = self.reserve_frame(prefix.header.length)?;
        let mut piece = vec![0; length.min(COPY_PIECE)];
        for start in (0..length).step_by(COPY_PIECE) {
            let piece = &mut piece[..COPY_PIECE.min(length - start)];
            read_verified(&source, offset, &prefix, start, piece)?;
            frame.write(piece)?;
        }
        // The checksums of the source, not new ones, so that a bit flipped in memory during the copy is detected.
        let crcs: Vec<u32> = prefix.crcs.iter().map(|crc| crc ^ source.crc_salt).collect();
        frame.finish(prefix.header.fingerprint, 0, &crcs)
    }

    /// Frees the pages of the chunk, except those that hold its header and table, and with them
    /// the beginning of the content. Returns the length of the hole in bytes, even if it was punched before; 0 when the
    /// chunk has no other pages or the file system does not support holes (see `has_holes`). Durable after `sync_pack`.
    pub fn punch(&self, at: ChunkLocation) -> Result<u64> {
        let (pack, offset) = codec::chunk_parts(at);
        let (file, crc_salt) = self.writable(pack)?;
        let mut encoded = [0; CHUNK_HEADER];
        file.read_at(offset, &mut encoded)?;
        let header = ChunkHeader::decode(&field(&encoded, 0), crc_salt, offset)
            .ok_or_else(|| Error::corrupt(&self.path(at.pack()), offset, "no chunk begins here"))?;
        let kept = content_start(header.length).next_multiple_of(FRAME_ALIGN);
        let hole = frame_length(header.length) - kept;
        if hole == 0 {
            return Ok(0);
        }
        if !file.punch(offset + kept, hole)? {
            self.no_holes.store(true, Ordering::Relaxed);
            return Ok(0);
        }
        Ok(hole)
    }

    /// Frees the whole pages of an idle pack between two chunks that count, where no other that does has any bytes.
    /// `after` is the first, with the length of its content; without it, the gap begins with the pack, and without
    /// `before` it ends with it. Not durable by itself: a crash may only lose the freed space.
    pub fn punch_gap(
        &self,
        pack: PackId,
        after: Option<(ChunkLocation, u32)>,
        before: Option<ChunkLocation>,
    ) -> Result<()> {
        if !self.is_idle(pack) {
            return Err(Error::Record { reason: "a pack that is in use cannot be punched" });
        }
        let (file, _) = self.writable(codec::pack_number(pack))?;
        let end = |(at, length)| codec::chunk_parts(at).1 + frame_length(length);
        let from = after.map_or(FILE_HEADER, end).next_multiple_of(FRAME_ALIGN);
        let until = before.map_or(u64::MAX, |at| codec::chunk_parts(at).1).min(file.len()?) / FRAME_ALIGN * FRAME_ALIGN;
        if from < until && !file.punch(from, until - from)? {
            self.no_holes.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Bytes that a pack takes on the disk.
    pub fn allocated(&self, pack: PackId) -> Result<u64> {
        self.fs.open(&self.path(pack), Open::Read)?.allocated()
    }

    /// `false` once a `punch` failed because the file system does not support holes. Then space is freed only by
    /// copying the live chunks of a pack and retiring it.
    pub fn has_holes(&self) -> bool {
        !self.no_holes.load(Ordering::Relaxed)
    }

    /// Makes the holes in `pack` durable. After a failed sync of the pack, this fails until the process ends.
    pub fn sync_pack(&self, pack: PackId) -> Result<()> {
        let pack = codec::pack_number(pack);
        if let Some(pack) = self.in_use(pack) {
            return pack.flush();
        }
        let (file, _) = self.writable(pack)?;
        let synced = self.failed_syncs.sync(pack, &*file);
        self.punched.lock().retain(|open| open.number != pack);
        synced
    }

    /// Deletes an idle pack, durably, and drops its descriptors and tables. After an error the file may still exist;
    /// the next start deletes it.
    pub fn retire(&self, pack: PackId) -> Result<()> {
        if !self.is_idle(pack) {
            return Err(Error::Record { reason: "a pack that is in use cannot be retired" });
        }
        self.fs.remove(&self.path(pack))?;
        let pack = codec::pack_number(pack);
        self.reader.forget(pack);
        self.punched.lock().retain(|open| open.number != pack);
        self.failed_syncs.forget(pack);
        self.forget(pack);
        self.fs.sync_dir(&self.options.dir)
    }

    /// Every pack file, ascending, with a birth record or without.
    pub fn files(&self) -> Result<Vec<PackFile>> {
        let mut files = Vec::new();
        for pack in self.fs.list(&self.options.dir)?.iter().filter_map(|name| pack_named(name)) {
            match self.fs.open(&self.path(pack), Open::Read) {
                Ok(file) => files.push(PackFile { pack, length: file.len()?, allocated: file.allocated()? }),
                // Retired meanwhile.
                Err(Error::Missing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    pub fn path(&self, pack: PackId) -> PathBuf {
        pack_path(&self.options.dir, codec::pack_number(pack))
    }

    fn prefix(&self, at: ChunkLocation) -> Result<(Arc<OpenPack>, FramePrefix)> {
        let (pack, offset) = codec::chunk_parts(at);
        let pack = self.reader.open(pack)?;
        let prefix = FramePrefix::read(&pack, offset, &|file, at, buf| file.read_at(at, buf).map(|()| true))?;
        let prefix =
            prefix.ok_or_else(|| Error::corrupt(&pack.path, offset, "the header of the chunk was not read"))?;
        Ok((pack, prefix))
    }

    /// The file of `pack`, open for writing, and its salt.
    fn writable(&self, pack: u64) -> Result<(Arc<dyn File>, u32)> {
        if let Some(pack) = self.in_use(pack) {
            return Ok((Arc::clone(&pack.file), pack.crc_salt));
        }
        let mut punched = self.punched.lock();
        if let Some(found) = punched.iter().find(|open| open.number == pack) {
            return Ok((Arc::clone(&found.file), found.crc_salt));
        }
        let opened = open_pack(&*self.fs, &self.options, pack, Open::Write)?;
        if punched.len() == PUNCHED_MAX {
            punched.pop_front();
        }
        let found = (Arc::clone(&opened.file), opened.crc_salt);
        punched.push_back(Arc::new(opened));
        Ok(found)
    }
}

/// Reads and verifies whole blocks of the content, from byte `start`, a multiple of the block size, to the end of a
/// block or of the content.
fn read_verified(pack: &OpenPack, offset: u64, prefix: &FramePrefix, start: usize, buf: &mut [u8]) -> Result<()> {
    pack.file.read_at(offset + content_start(prefix.header.length) + start as u64, buf)?;
    if blocks_match(&prefix.crcs[start / BLOCK_SIZE..], buf, pack.crc_salt) {
        return Ok(());
    }
    buf.fill(0);
    Err(Error::corrupt(&pack.path, offset, "a block does not match its checksum"))
}
