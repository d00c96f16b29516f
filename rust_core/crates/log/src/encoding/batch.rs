//! The bytes of a batch: its records as frames, closed by a commit record.

use orcas_base::block::{BLOCK_SIZE, block_crc, field};
use orcas_record::Sequence;

use super::format::{
    COMMIT_FRAME, Commit, FRAME_ALIGN, FRAME_HEADER, FRAME_PAYLOAD_MAX, FileContext, FrameClass, FrameHeader, LogKeys,
    payload_start,
};
use crate::LogPosition;

/// Most bytes of a batch, so that frame offsets fit into 32 bits.
const BATCH_MAX: usize = 1024 * 1024 * 1024;

/// The place of a record in its batch, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchFrame(pub(crate) u32);

/// The encoded records that one commit makes durable together.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// End of the record frames. A commit record from an earlier `close` may follow.
    frames_end: usize,
    records: usize,
    last_sequence: Sequence,
    /// The salt that the block checksums in `bytes` are currently mixed with.
    salt: u32,
    /// A record was too large, so the whole batch is refused.
    pub(crate) refused: bool,
}

impl Batch {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a record whose payload is `parts` joined, at most `FRAME_PAYLOAD_MAX` bytes. Sequences ascend.
    pub fn push(&mut self, sequence: Sequence, kind: u8, parts: &[&[u8]]) -> BatchFrame {
        debug_assert!(sequence > self.last_sequence);
        self.bytes.truncate(self.frames_end);
        let offset = self.frames_end;
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > FRAME_PAYLOAD_MAX || offset + length > BATCH_MAX {
            self.refused = true;
            return BatchFrame(offset as u32);
        }
        let header = FrameHeader { kind, class: FrameClass::Record, length: length as u32, sequence };
        let start = offset + payload_start(length);
        self.bytes.reserve(header.frame_length() + COMMIT_FRAME);
        self.bytes.extend_from_slice(&header.encode());
        self.bytes.resize(start, 0);
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        let (front, payload) = self.bytes.split_at_mut(start);
        for (block, stored) in payload.chunks(BLOCK_SIZE).zip(front[offset + FRAME_HEADER..].chunks_exact_mut(4)) {
            stored.copy_from_slice(&(block_crc(block) ^ self.salt).to_le_bytes());
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(FRAME_ALIGN), 0);
        self.frames_end = self.bytes.len();
        self.records += 1;
        self.last_sequence = sequence;
        BatchFrame(offset as u32)
    }

    /// Bytes of the record frames.
    pub fn len(&self) -> usize {
        self.frames_end
    }

    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub fn records(&self) -> usize {
        self.records
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        *self = Self { bytes, ..Self::default() };
    }

    /// Binds every frame to its position in the file and closes the batch with its commit record. Returns its end.
    pub(crate) fn close(
        &mut self,
        keys: &LogKeys,
        context: &FileContext,
        from: &LogPosition,
        durable: Sequence,
    ) -> LogPosition {
        self.bytes.truncate(self.frames_end);
        let salt_change = self.salt ^ context.crc_salt();
        self.salt = context.crc_salt();
        let mut at = 0;
        while at < self.frames_end {
            let mut header: [u8; FRAME_HEADER] = field(&self.bytes, at);
            let length = u32::from_le_bytes(field(&header, 8)) as usize;
            let crc = context.header_crc(&header, from.offset + at as u64);
            header[..4].copy_from_slice(&crc.to_le_bytes());
            self.bytes[at..at + FRAME_HEADER].copy_from_slice(&header);
            let payload = at + payload_start(length);
            for stored in self.bytes[at + FRAME_HEADER..payload].chunks_exact_mut(4) {
                let salted = u32::from_le_bytes(field(stored, 0)) ^ salt_change;
                stored.copy_from_slice(&salted.to_le_bytes());
            }
            at = (payload + length).next_multiple_of(FRAME_ALIGN);
        }
        let mut commit = Commit {
            start: from.offset,
            durable,
            records: self.records as u32,
            chain: [0; 32],
            sequence: self.last_sequence.max(from.sequence),
        };
        let mut chain = keys.chain_after(&from.chain);
        chain.update(&self.bytes).update(&commit.chained());
        commit.chain = chain.finalize().into();
        self.bytes.extend_from_slice(&commit.encode(keys, context, from.offset + self.frames_end as u64));
        let offset = from.offset + self.bytes.len() as u64;
        LogPosition { file: context.number, offset, chain: commit.chain, sequence: commit.sequence }
    }

    /// The bytes that `close` prepared for writing.
    pub(crate) fn closed_bytes(&self) -> &[u8] {
        &self.bytes
    }
}
