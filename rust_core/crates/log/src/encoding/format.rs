//! Encoding of frames and commit records. No I/O.
//!
//! A length is used only after its checksum was verified. All integers are little-endian. The tables in
//! `docs/format.md` are the specification.

use orcas_base::block::{BLOCK_SIZE, block_count, block_crc, field};
use orcas_base::planted::{self, Bug};
use orcas_record::Sequence;

/// Offset of the first frame. So a batch never rewrites the sectors of the header.
pub const FILE_HEADER: u64 = 4096;

pub const FRAME_HEADER: usize = 24;
pub const FRAME_ALIGN: usize = 8;
/// Most bytes of a payload. This bounds what a reader allocates for a damaged length.
pub const FRAME_PAYLOAD_MAX: usize = 8 * 1024 * 1024;
pub const COMMIT_PAYLOAD: usize = 88;
pub const COMMIT_FRAME: usize = FRAME_HEADER + COMMIT_PAYLOAD;
/// Part of the commit payload that the chain covers.
pub const COMMIT_CHAINED: usize = 24;
const COMMIT_SIGNED: usize = COMMIT_CHAINED + 32;

/// The keys of a store's log, derived from its commit key.
#[derive(Clone)]
pub struct LogKeys {
    chain: [u8; 32],
    mac: [u8; 32],
}

impl LogKeys {
    pub fn derive(commit_key: &[u8; 32]) -> Self {
        Self {
            chain: blake3::derive_key("orcas log v1 chain", commit_key),
            mac: blake3::derive_key("orcas log v1 mac", commit_key),
        }
    }

    pub fn header_mac(&self, covered: &[u8]) -> blake3::Hash {
        blake3::keyed_hash(&self.mac, covered)
    }

    /// The hasher of the next chain value. Its input is the frames of the batch and the chained part of the commit payload.
    pub fn chain_after(&self, previous: &[u8; 32]) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new_keyed(&self.chain);
        hasher.update(previous);
        hasher
    }
}

/// The identity of a file, to which its checksums and MACs are bound.
#[derive(Clone)]
pub struct FileContext {
    pub number: u64,
    bound: [u8; 40],
    crc_salt: u32,
}

impl FileContext {
    pub fn new(store_id: &[u8; 16], number: u64, salt: &[u8; 16]) -> Self {
        let mut bound = [0; 40];
        bound[..16].copy_from_slice(store_id);
        bound[16..32].copy_from_slice(salt);
        bound[32..].copy_from_slice(&number.to_le_bytes());
        Self { number, bound, crc_salt: u32::from_le_bytes(field(salt, 0)) }
    }

    pub fn crc_salt(&self) -> u32 {
        self.crc_salt
    }

    /// Checksum of the frame header `bytes`, without its first four bytes, at `offset` of the file.
    pub fn header_crc(&self, bytes: &[u8; FRAME_HEADER], offset: u64) -> u32 {
        let mut covered = [0; FRAME_HEADER + 4];
        covered[..20].copy_from_slice(&bytes[4..]);
        covered[20..].copy_from_slice(&offset.to_le_bytes());
        block_crc(&covered) ^ self.crc_salt
    }

    fn commit_mac(&self, keys: &LogKeys, frame: &[u8; COMMIT_FRAME], offset: u64) -> blake3::Hash {
        let mut covered = [0; 40 + 8 + FRAME_HEADER + COMMIT_SIGNED];
        covered[..40].copy_from_slice(&self.bound);
        covered[40..48].copy_from_slice(&offset.to_le_bytes());
        covered[48..].copy_from_slice(&frame[..FRAME_HEADER + COMMIT_SIGNED]);
        blake3::keyed_hash(&keys.mac, &covered)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameClass {
    Record,
    Commit,
}

impl FrameClass {
    const RECORD: u8 = 1;
    pub const COMMIT: u8 = 2;
}

/// Format: CRC u32 over the rest and the frame's offset | kind u8 | class u8 | zero u16 | payload bytes u32 | zero u32 |
/// sequence u64. A record's frame goes on with a CRC u32 for each 64 KiB block of the payload, the payload, and zeros
/// up to a multiple of 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    pub kind: u8,
    pub class: FrameClass,
    pub length: u32,
    pub sequence: Sequence,
}

impl FrameHeader {
    /// The header without the checksum, which depends on the offset.
    pub fn encode(&self) -> [u8; FRAME_HEADER] {
        let mut out = [0; FRAME_HEADER];
        out[4] = self.kind;
        out[5] = match self.class {
            FrameClass::Record => FrameClass::RECORD,
            FrameClass::Commit => FrameClass::COMMIT,
        };
        out[8..12].copy_from_slice(&self.length.to_le_bytes());
        out[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        out
    }

    /// Whether the bytes that all frame headers have in common are right. A cheap test before the checksum.
    pub fn is_likely(bytes: &[u8]) -> bool {
        matches!(bytes[5], FrameClass::RECORD | FrameClass::COMMIT) && bytes[6..8] == [0; 2] && bytes[12..16] == [0; 4]
    }

    /// Whether this frame can follow the record `last` in a file whose last record is `until`.
    pub fn follows(&self, last: Sequence, until: Option<Sequence>) -> bool {
        let follows = match self.class {
            FrameClass::Record => self.sequence > last,
            FrameClass::Commit => self.sequence >= last,
        };
        follows && self.sequence <= until.unwrap_or(Sequence::MAX)
    }

    /// `None` if no frame of this file begins at `offset`.
    pub fn decode(bytes: &[u8; FRAME_HEADER], context: &FileContext, offset: u64) -> Option<Self> {
        if u32::from_le_bytes(field(bytes, 0)) != context.header_crc(bytes, offset) {
            return None;
        }
        let header = Self {
            kind: bytes[4],
            class: match bytes[5] {
                FrameClass::RECORD => FrameClass::Record,
                FrameClass::COMMIT => FrameClass::Commit,
                _ => return None,
            },
            length: u32::from_le_bytes(field(bytes, 8)),
            sequence: u64::from_le_bytes(field(bytes, 16)),
        };
        let fits = match header.class {
            FrameClass::Record => header.length as usize <= FRAME_PAYLOAD_MAX,
            FrameClass::Commit => header.length as usize == COMMIT_PAYLOAD,
        };
        fits.then_some(header)
    }

    /// Bytes from the frame's start to its payload.
    pub fn payload_start(&self) -> usize {
        match self.class {
            FrameClass::Record => payload_start(self.length as usize),
            FrameClass::Commit => FRAME_HEADER,
        }
    }

    /// Bytes of the whole frame with its padding.
    pub fn frame_length(&self) -> usize {
        (self.payload_start() + self.length as usize).next_multiple_of(FRAME_ALIGN)
    }
}

/// Bytes from the start of a record's frame to its payload of `length` bytes.
pub const fn payload_start(length: usize) -> usize {
    FRAME_HEADER + 4 * block_count(length)
}

/// Verifies blocks of a payload. `table` has the stored checksums of `blocks`, in order.
pub fn blocks_match(context: &FileContext, table: &[u8], blocks: &[u8]) -> bool {
    blocks
        .chunks(BLOCK_SIZE)
        .zip(table.chunks_exact(4))
        .all(|(block, stored)| u32::from_le_bytes(field(stored, 0)) == block_crc(block) ^ context.crc_salt())
        || planted::is(Bug::LogBlocksNotCompared)
}

/// Format of the payload: batch start u64 | highest sequence known durable u64 | records u32 | zero u32 | chain 32 |
/// MAC 32. The frame's sequence is the last one of the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Offset of the batch's first frame.
    pub start: u64,
    pub durable: Sequence,
    pub records: u32,
    pub chain: [u8; 32],
    pub sequence: Sequence,
}

impl Commit {
    /// The part of the payload that the chain covers.
    pub fn chained(&self) -> [u8; COMMIT_CHAINED] {
        let mut out = [0; COMMIT_CHAINED];
        out[0..8].copy_from_slice(&self.start.to_le_bytes());
        out[8..16].copy_from_slice(&self.durable.to_le_bytes());
        out[16..20].copy_from_slice(&self.records.to_le_bytes());
        out
    }

    /// The frame of the commit record at `offset`.
    pub fn encode(&self, keys: &LogKeys, context: &FileContext, offset: u64) -> [u8; COMMIT_FRAME] {
        let header =
            FrameHeader { kind: 0, class: FrameClass::Commit, length: COMMIT_PAYLOAD as u32, sequence: self.sequence };
        let mut encoded = header.encode();
        let crc = context.header_crc(&encoded, offset);
        encoded[..4].copy_from_slice(&crc.to_le_bytes());
        let mut out = [0; COMMIT_FRAME];
        out[..FRAME_HEADER].copy_from_slice(&encoded);
        out[FRAME_HEADER..FRAME_HEADER + COMMIT_CHAINED].copy_from_slice(&self.chained());
        out[FRAME_HEADER + COMMIT_CHAINED..FRAME_HEADER + COMMIT_SIGNED].copy_from_slice(&self.chain);
        let mac = context.commit_mac(keys, &out, offset);
        out[FRAME_HEADER + COMMIT_SIGNED..].copy_from_slice(mac.as_bytes());
        out
    }

    /// `None` unless the MAC proves that this commit record was written at `offset` of this file with `keys`.
    pub fn decode(frame: &[u8; COMMIT_FRAME], keys: &LogKeys, context: &FileContext, offset: u64) -> Option<Self> {
        let header = FrameHeader::decode(&field(frame, 0), context, offset)?;
        let stored = blake3::Hash::from_bytes(field(frame, FRAME_HEADER + COMMIT_SIGNED));
        let genuine = context.commit_mac(keys, frame, offset) == stored || planted::is(Bug::CommitNotAuthenticated);
        if header.class != FrameClass::Commit || !genuine {
            return None;
        }
        Some(Self {
            start: u64::from_le_bytes(field(frame, FRAME_HEADER)),
            durable: u64::from_le_bytes(field(frame, FRAME_HEADER + 8)),
            records: u32::from_le_bytes(field(frame, FRAME_HEADER + 16)),
            chain: field(frame, FRAME_HEADER + COMMIT_CHAINED),
            sequence: header.sequence,
        })
    }
}
