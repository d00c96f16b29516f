//! Encoding and decoding of packs: file header and chunk frames. No I/O.
//!
//! A length is trusted only after its checksum was verified. All integers are little-endian. The tables in
//! `docs/format.md` are the specification.

use orcas_base::block::{BLOCK_SIZE, CHUNK_LENGTH_MAX, block_count, block_crc, field};
use orcas_base::planted::{self, Bug};

pub const FORMAT_VERSION: u32 = 1;
/// Chunk frames begin at multiples of this, so that no page holds bytes of two chunks. A write never touches a page
/// that an earlier sync made durable, and all pages of a dead chunk can be freed.
pub const FRAME_ALIGN: u64 = 4096;
pub const FILE_HEADER: u64 = FRAME_ALIGN;
/// Bytes of one copy of a pack's header.
const COPY: usize = 64;
/// The offset of the second copy, in another sector. Packs of earlier versions have none.
const SECOND_AT: usize = 2048;
/// Bytes from the beginning of a pack to the end of the second copy.
pub const FILE_HEADER_ENCODED: usize = SECOND_AT + COPY;
const FILE_MAGIC: [u8; 8] = *b"ORCASPAK";

pub const CHUNK_HEADER: usize = 64;
const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"CHNK");

/// Format: magic 8 | version u32 | header bytes u32 | store id 16 | pack number u64 | salt 16 | CRC u32 over all before
/// | zero 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackHeader {
    pub store_id: [u8; 16],
    pub number: u64,
    pub salt: [u8; 16],
}

/// The reason why bytes are not the header of this pack.
#[derive(Debug, PartialEq, Eq)]
pub enum HeaderFault {
    Damaged,
    Version(u32),
    Foreign(&'static str),
}

impl PackHeader {
    pub fn encode(&self) -> [u8; FILE_HEADER_ENCODED] {
        let mut out = [0; FILE_HEADER_ENCODED];
        out[0..8].copy_from_slice(&FILE_MAGIC);
        out[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&(FILE_HEADER as u32).to_le_bytes());
        out[16..32].copy_from_slice(&self.store_id);
        out[32..40].copy_from_slice(&self.number.to_le_bytes());
        out[40..56].copy_from_slice(&self.salt);
        let crc = block_crc(&out[..56]);
        out[56..60].copy_from_slice(&crc.to_le_bytes());
        out.copy_within(..COPY, SECOND_AT);
        out
    }

    /// `number` is the one in the file's name. If neither copy is valid, the fault is that of the first one, unless the
    /// second is of another version.
    pub fn decode(bytes: &[u8; FILE_HEADER_ENCODED], store_id: &[u8; 16], number: u64) -> Result<Self, HeaderFault> {
        let copy = |at| Self::decode_copy(&field(bytes, at), store_id, number);
        copy(0).or_else(|fault| {
            copy(SECOND_AT).map_err(|second| if matches!(second, HeaderFault::Version(_)) { second } else { fault })
        })
    }

    /// The version of a header that is not the one that is read here, of any pack and store. It is trusted only if the
    /// checksum of its copy matches.
    pub fn other_version(bytes: &[u8; FILE_HEADER_ENCODED]) -> Option<u32> {
        let version = [0, SECOND_AT].into_iter().find_map(|at| Self::version_of_copy(&field(bytes, at)));
        version.filter(|found| *found != FORMAT_VERSION)
    }

    /// The version in a copy whose checksum matches.
    fn version_of_copy(bytes: &[u8; COPY]) -> Option<u32> {
        let holds = bytes[..8] == FILE_MAGIC && u32::from_le_bytes(field(bytes, 56)) == block_crc(&bytes[..56]);
        holds.then(|| u32::from_le_bytes(field(bytes, 8)))
    }

    /// The header of a pack of any store and number, from the first copy that is valid.
    pub fn decode_any(bytes: &[u8; FILE_HEADER_ENCODED]) -> Option<Self> {
        let copy = |at: usize| {
            Self::decode_copy(&field(bytes, at), &field(bytes, at + 16), u64::from_le_bytes(field(bytes, at + 32)))
        };
        [0, SECOND_AT].into_iter().find_map(|at| copy(at).ok())
    }

    /// Whether one of the copies is damaged: of bytes that `decode` accepted.
    pub fn lacks_a_copy(bytes: &[u8; FILE_HEADER_ENCODED]) -> bool {
        let second = &bytes[SECOND_AT..];
        bytes[..COPY] != *second && second.iter().any(|byte| *byte != 0)
    }

    fn decode_copy(bytes: &[u8; COPY], store_id: &[u8; 16], number: u64) -> Result<Self, HeaderFault> {
        let version = Self::version_of_copy(bytes).ok_or(HeaderFault::Damaged)?;
        if version != FORMAT_VERSION {
            return Err(HeaderFault::Version(version));
        }
        let header =
            Self { store_id: field(bytes, 16), number: u64::from_le_bytes(field(bytes, 32)), salt: field(bytes, 40) };
        if header.store_id != *store_id {
            return Err(HeaderFault::Foreign("it carries the id of another store"));
        }
        if header.number != number {
            return Err(HeaderFault::Foreign("it is another pack of this store under this name"));
        }
        Ok(header)
    }

    /// The part of the salt that is mixed into every checksum in the pack.
    pub fn crc_salt(&self) -> u32 {
        if planted::is(Bug::PackSaltIgnored) {
            return 0;
        }
        u32::from_le_bytes(field(&self.salt, 0))
    }
}

/// Format: CRC u32 over the rest and the frame's offset | magic u32 | length u32 | CRC u32 of the table | fingerprint
/// 32 | zero 16; then the table, a CRC u32 for each 64 KiB block of the content; then the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Bytes of content.
    pub length: u32,
    pub fingerprint: [u8; 32],
    table_crc: u32,
}

impl ChunkHeader {
    /// Header and table for a chunk at `offset` of a pack; `crcs` are the unsalted checksums of the content's blocks.
    pub fn encode(length: u32, fingerprint: &[u8; 32], crcs: &[u32], crc_salt: u32, offset: u64) -> Vec<u8> {
        let mut out = vec![0; CHUNK_HEADER];
        crcs.iter().for_each(|crc| out.extend_from_slice(&(crc ^ crc_salt).to_le_bytes()));
        let table_crc = block_crc(&out[CHUNK_HEADER..]) ^ crc_salt;
        out[4..8].copy_from_slice(&CHUNK_MAGIC.to_le_bytes());
        out[8..12].copy_from_slice(&length.to_le_bytes());
        out[12..16].copy_from_slice(&table_crc.to_le_bytes());
        out[16..48].copy_from_slice(fingerprint);
        let crc = header_crc(&out[..CHUNK_HEADER], crc_salt, offset);
        out[0..4].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// `None` when no chunk of this pack begins at `offset`.
    pub fn decode(bytes: &[u8; CHUNK_HEADER], crc_salt: u32, offset: u64) -> Option<Self> {
        if u32::from_le_bytes(field(bytes, 0)) != header_crc(bytes, crc_salt, offset)
            || u32::from_le_bytes(field(bytes, 4)) != CHUNK_MAGIC
        {
            return None;
        }
        let length = u32::from_le_bytes(field(bytes, 8));
        let header = Self { length, table_crc: u32::from_le_bytes(field(bytes, 12)), fingerprint: field(bytes, 16) };
        (length <= CHUNK_LENGTH_MAX).then_some(header)
    }

    /// The only salt under which these bytes can be a header at `offset`.
    pub fn salt_for(bytes: &[u8; CHUNK_HEADER], offset: u64) -> u32 {
        u32::from_le_bytes(field(bytes, 0)) ^ header_crc(bytes, 0, offset)
    }

    /// The only salt under which a table with this checksum belongs to the header.
    pub fn table_salt(&self, table_crc: u32) -> u32 {
        self.table_crc ^ table_crc
    }

    /// The salted checksums in `table`; `None` when it does not match the header.
    pub fn decode_table(&self, table: &[u8], crc_salt: u32) -> Option<Vec<u32>> {
        if block_crc(table) ^ crc_salt != self.table_crc {
            return None;
        }
        Some(table.chunks_exact(4).map(|stored| u32::from_le_bytes(field(stored, 0))).collect())
    }
}

fn header_crc(header: &[u8], crc_salt: u32, offset: u64) -> u32 {
    let mut covered = [0; CHUNK_HEADER + 4];
    covered[..CHUNK_HEADER - 4].copy_from_slice(&header[4..CHUNK_HEADER]);
    covered[CHUNK_HEADER - 4..].copy_from_slice(&offset.to_le_bytes());
    block_crc(&covered) ^ crc_salt
}

/// Bytes of the checksum table of a chunk.
pub const fn table_length(length: u32) -> usize {
    4 * block_count(length as usize)
}

/// Bytes from the start of a chunk's frame to its content.
pub const fn content_start(length: u32) -> u64 {
    (CHUNK_HEADER + table_length(length)) as u64
}

/// Bytes a chunk's frame takes in its pack.
pub const fn frame_length(length: u32) -> u64 {
    (content_start(length) + length as u64).next_multiple_of(FRAME_ALIGN)
}

/// Checks consecutive blocks of content against their salted checksums.
pub fn blocks_match(crcs: &[u32], blocks: &[u8], crc_salt: u32) -> bool {
    blocks.chunks(BLOCK_SIZE).zip(crcs).all(|(block, stored)| block_crc(block) ^ crc_salt == *stored)
        || planted::is(Bug::ChunkBlocksNotCompared)
}
