//! Verifies the chunks of one pack in the order of the file, with large reads, for checks. It bypasses the caches of
//! other readers, and continues after sectors that the disk cannot read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_base::block::{BLOCK_SIZE, field};
use orcas_base::error::{Error, Result};
use orcas_fs::{File, FileSystem, Open, read_around_faults};
use orcas_record::placement::codec;
use orcas_record::{ChunkLocation, PackId};

use super::PackOptions;
use super::format::{
    CHUNK_HEADER, ChunkHeader, FILE_HEADER, FRAME_ALIGN, blocks_match, content_start, frame_length, table_length,
};
use super::reader::open_pack;

/// Bytes read at a time.
const WINDOW: usize = 2 * 1024 * 1024;

/// A chunk that should be there.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedChunk {
    pub at: ChunkLocation,
    /// Length of the content, bytes.
    pub length: u32,
}

/// The result of the check of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkCheck {
    /// Every checksum matches.
    Whole {
        /// The fingerprint in the header.
        fingerprint: [u8; 32],
    },
    Damaged {
        /// The file and the byte, for messages.
        place: String,
        reason: &'static str,
    },
}

/// Takes the next bytes of a content.
pub type ContentSink<'a> = &'a mut dyn FnMut(&[u8]);

/// One pack, open for a check.
pub struct PackExamination {
    pack: PackId,
    file: Arc<dyn File>,
    path: PathBuf,
    crc_salt: u32,
    lacks_a_copy: bool,
    length: u64,
    window: Vec<u8>,
    start: u64,
    /// Bytes of the window that are filled.
    filled: usize,
}

impl PackExamination {
    /// # Errors
    /// `Missing`, or `Corrupt`, `Foreign` and `Version` for its header.
    pub fn open(fs: &dyn FileSystem, options: &PackOptions, pack: PackId) -> Result<Self> {
        let opened = open_pack(fs, options, codec::pack_number(pack), Open::Read)?;
        let length = opened.file.len()?;
        let (file, path, crc_salt, lacks_a_copy) = (opened.file, opened.path, opened.crc_salt, opened.lacks_a_copy);
        Ok(Self { pack, file, path, crc_salt, lacks_a_copy, length, window: Vec::new(), start: 0, filled: 0 })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether one of the two copies of the header is damaged.
    pub fn lacks_a_copy(&self) -> bool {
        self.lacks_a_copy
    }

    /// Bytes of the file.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Verifies one chunk: its header and table, and with `content` also all of its content, which is passed to that in
    /// order. `meter` is called with the bytes of every read before it; an error from it ends the check.
    ///
    /// # Errors
    /// `Io`, and those of `meter`. Damage is a result, not an error.
    pub fn chunk(
        &mut self,
        expected: ExpectedChunk,
        content: Option<ContentSink<'_>>,
        meter: &dyn Fn(u64) -> Result<()>,
    ) -> Result<ChunkCheck> {
        Ok(match self.verify(expected, content, meter)? {
            Ok(fingerprint) => ChunkCheck::Whole { fingerprint },
            Err((offset, reason)) => ChunkCheck::Damaged { place: place(&self.path, offset), reason },
        })
    }

    /// The last `length` bytes of the content of a chunk, not verified; fewer if the pack ends before.
    ///
    /// # Errors
    /// `Io`, and those of `meter`.
    pub fn tail(&self, expected: ExpectedChunk, length: usize, meter: &dyn Fn(u64) -> Result<()>) -> Result<Vec<u8>> {
        let ExpectedChunk { at, length: whole } = expected;
        let end = (codec::chunk_parts(at).1 + content_start(whole) + u64::from(whole)).min(self.length);
        let mut tail = vec![0; length.min(end as usize).min(whole as usize)];
        meter(tail.len() as u64)?;
        read_around_faults(&*self.file, end - tail.len() as u64, &mut tail)?;
        Ok(tail)
    }

    /// The fingerprint in the header, or the offset of the damage.
    fn verify(
        &mut self,
        expected: ExpectedChunk,
        content: Option<ContentSink<'_>>,
        meter: &dyn Fn(u64) -> Result<()>,
    ) -> Result<std::result::Result<[u8; 32], (u64, &'static str)>> {
        let ExpectedChunk { at, length } = expected;
        let (_, offset) = codec::chunk_parts(at);
        let damaged = |offset, reason| Ok(Err((offset, reason)));
        let prefix_length = CHUNK_HEADER + table_length(length);
        let end = offset.checked_add(content_start(length) + u64::from(length));
        if offset < FILE_HEADER || end.is_none_or(|end| end > self.length) {
            return damaged(offset, "the pack ends before the chunk does");
        }
        let start = offset + content_start(length);
        // Otherwise only the prefix is needed.
        let ahead = content.as_ref().map(|_| (prefix_length + length as usize).min(WINDOW));
        let prefix = self.view(offset, prefix_length, ahead.unwrap_or(prefix_length), meter)?.to_vec();
        let Some(header) = ChunkHeader::decode(&field(&prefix, 0), self.crc_salt, offset) else {
            return damaged(offset, "no chunk begins here");
        };
        if header.length != length {
            return damaged(offset, "the chunk has another length");
        }
        let Some(crcs) = header.decode_table(&prefix[CHUNK_HEADER..], self.crc_salt) else {
            return damaged(offset + CHUNK_HEADER as u64, "the checksum table does not match");
        };
        let Some(content) = content else { return Ok(Ok(header.fingerprint)) };
        let mut done = 0;
        while done < length as usize {
            let at = start + done as u64;
            // Whole blocks, as many as the window has or can hold.
            let left = length as usize - done;
            let present = self.present(at);
            let take = if present >= BLOCK_SIZE.min(left) { present } else { WINDOW };
            let piece = if take >= left { left } else { take - take % BLOCK_SIZE };
            let salt = self.crc_salt;
            let blocks = self.view(at, piece, WINDOW.min(left), meter)?;
            let table = &crcs[done / BLOCK_SIZE..];
            if !blocks_match(table, blocks, salt) {
                let bad = blocks
                    .chunks(BLOCK_SIZE)
                    .zip(table)
                    .position(|(block, crc)| !blocks_match(std::slice::from_ref(crc), block, salt));
                let at = at + (bad.unwrap_or(0) * BLOCK_SIZE) as u64;
                return damaged(at, "a block does not match its checksum");
            }
            content(blocks);
            done += piece;
        }
        Ok(Ok(header.fingerprint))
    }

    /// Calls `visit` with the location, fingerprint and content length of every chunk whose header is valid.
    ///
    /// # Errors
    /// `Io`, and those of `meter`.
    pub fn each_frame(
        &mut self,
        meter: &dyn Fn(u64) -> Result<()>,
        visit: &mut dyn FnMut(ChunkLocation, [u8; 32], u32),
    ) -> Result<()> {
        let mut at = FILE_HEADER;
        while at + CHUNK_HEADER as u64 <= self.length {
            let salt = self.crc_salt;
            let header = ChunkHeader::decode(&field(self.view(at, CHUNK_HEADER, WINDOW, meter)?, 0), salt, at);
            at += header.map_or(FRAME_ALIGN, |header| frame_length(header.length));
            if let Some(header) = header {
                let offset = at - frame_length(header.length);
                visit(codec::chunk(codec::pack_number(self.pack), offset), header.fingerprint, header.length);
            }
        }
        Ok(())
    }

    /// The place of a chunk as text, for messages.
    pub fn place(&self, at: ChunkLocation) -> String {
        place(&self.path, codec::chunk_parts(at).1)
    }

    /// Drops the chunks from `first` to `last` from the page cache, with `length` bytes from where the last one begins.
    pub fn drop_cache(&self, first: ChunkLocation, last: ChunkLocation, length: u64) {
        let ((_, from), (_, last)) = (codec::chunk_parts(first), codec::chunk_parts(last));
        self.file.drop_cache(from, last.saturating_sub(from) + length);
    }

    /// Number of bytes from `at` on that are in the window.
    fn present(&self, at: u64) -> usize {
        let end = self.start + self.filled as u64;
        if at < self.start || at >= end { 0 } else { (end - at) as usize }
    }

    /// `length` bytes at `at`. If they are not in the window, it is filled with up to `ahead` bytes from `at` on.
    fn view(&mut self, at: u64, length: usize, ahead: usize, meter: &dyn Fn(u64) -> Result<()>) -> Result<&[u8]> {
        if self.present(at) < length {
            let wanted = (ahead.max(length) as u64).min(self.length.saturating_sub(at)) as usize;
            if wanted < length {
                return Err(Error::corrupt(&self.path, at, "the file ends too early"));
            }
            meter(wanted as u64)?;
            self.filled = 0;
            if self.window.len() < wanted {
                self.window.resize(wanted, 0);
            }
            read_around_faults(&*self.file, at, &mut self.window[..wanted])?;
            self.start = at;
            self.filled = wanted;
        }
        let from = (at - self.start) as usize;
        Ok(&self.window[from..from + length])
    }
}

fn place(path: &Path, offset: u64) -> String {
    format!("{}, byte {offset}", path.display())
}
