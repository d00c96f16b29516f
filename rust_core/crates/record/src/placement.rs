//! Where bytes are, as values that everybody may keep, compare and pass on. What they say is known only to the crates
//! that place bytes or store their places (log, chunks and index), which make and read them through `codec`.

use std::fmt;

/// A file of chunks. Its display is for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackId(u64);

/// A file of the log. Its display is for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogFileId(u64);

/// The place of a chunk. Ordered by pack, and in a pack as the chunks are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkLocation {
    pack: u64,
    /// Of the frame.
    offset: u64,
}

/// The place of a record in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogLocation {
    file: u64,
    /// Of the frame.
    offset: u64,
}

/// The place of a blob, and the length of its content in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlobLocation {
    /// A content.
    Log { at: LogLocation, length: u32 },
    /// A chunk.
    Pack { at: ChunkLocation, length: u32 },
}

impl ChunkLocation {
    pub fn pack(self) -> PackId {
        PackId(self.pack)
    }
}

impl LogLocation {
    pub fn file(self) -> LogFileId {
        LogFileId(self.file)
    }
}

impl BlobLocation {
    /// Bytes of content.
    pub fn length(self) -> u32 {
        match self {
            Self::Log { length, .. } | Self::Pack { length, .. } => length,
        }
    }
}

impl fmt::Display for PackId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl fmt::Display for LogFileId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// For messages.
impl fmt::Display for ChunkLocation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "pack {}, byte {}", self.pack, self.offset)
    }
}

/// For messages.
impl fmt::Display for LogLocation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "log file {}, byte {}", self.file, self.offset)
    }
}

/// The meaning of these values: numbers of files, and offsets of frames in them. Only for log, chunks and index, and
/// for tests that damage files.
pub mod codec {
    use super::{ChunkLocation, LogFileId, LogLocation, PackId};

    pub const fn pack(number: u64) -> PackId {
        PackId(number)
    }

    pub const fn pack_number(pack: PackId) -> u64 {
        pack.0
    }

    pub const fn log_file(number: u64) -> LogFileId {
        LogFileId(number)
    }

    pub const fn log_file_number(file: LogFileId) -> u64 {
        file.0
    }

    pub const fn chunk(pack: u64, offset: u64) -> ChunkLocation {
        ChunkLocation { pack, offset }
    }

    /// Number of the pack, and offset.
    pub const fn chunk_parts(at: ChunkLocation) -> (u64, u64) {
        (at.pack, at.offset)
    }

    pub const fn in_log(file: u64, offset: u64) -> LogLocation {
        LogLocation { file, offset }
    }

    /// Number of the file, and offset.
    pub const fn in_log_parts(at: LogLocation) -> (u64, u64) {
        (at.file, at.offset)
    }
}
