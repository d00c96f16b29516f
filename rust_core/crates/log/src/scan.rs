//! Reads the batches of a log file in order. Payloads are slices of the large blocks that are read.
//!
//! A scan stops at the first frame or commit record that does not continue the chain. Only `claims_after_end` looks
//! further, to distinguish damage from a torn tail.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use orcas_base::block::field;
use orcas_base::error::{Error, Result};
use orcas_fs::File;
use orcas_record::Sequence;
use orcas_record::placement::codec;

use super::encoding::{
    COMMIT_FRAME, Commit, FILE_HEADER, FRAME_ALIGN, FRAME_HEADER, FileContext, FrameClass, FrameHeader, Header, LogKeys,
};
use super::{LogPosition, RecoveredBatch, RecoveredRecord};

/// Bytes read at a time.
const SCAN_BLOCK: u64 = 4 * 1024 * 1024;

/// A batch, and the highest sequence that its commit record says is durable.
pub struct Scanned {
    pub batch: RecoveredBatch,
    pub durable: Sequence,
}

pub struct Scanner {
    file: Arc<dyn File>,
    pub path: PathBuf,
    keys: LogKeys,
    context: FileContext,
    length: u64,
    /// End of the last batch that continues the chain.
    position: LogPosition,
    /// Bytes of the file from `block_start`.
    block: Bytes,
    block_start: u64,
}

impl Scanner {
    /// Begins at the first frame.
    pub fn new(file: Arc<dyn File>, path: PathBuf, keys: LogKeys, header: &Header) -> Result<Self> {
        let position = LogPosition { file: header.number(), offset: FILE_HEADER, ..header.from().clone() };
        let length = file.len()?;
        Ok(Self { file, path, keys, context: header.context(), length, position, block: Bytes::new(), block_start: 0 })
    }

    pub fn position(&self) -> &LogPosition {
        &self.position
    }

    /// Continues after the batch that ends at `position`. `false` if no such batch ends there. The proof is its commit
    /// record or, if that is damaged, a following batch that continues the chain from `position`.
    pub fn seek(&mut self, position: &LogPosition) -> Result<bool> {
        if *position == self.position {
            return Ok(true);
        }
        let Some(start) = position.offset.checked_sub(COMMIT_FRAME as u64) else { return Ok(false) };
        if start < FILE_HEADER || start % FRAME_ALIGN as u64 != 0 {
            return Ok(false);
        }
        if !self.load(start, COMMIT_FRAME)? {
            return Ok(false);
        }
        let found = Commit::decode(&field(self.view(start, COMMIT_FRAME), 0), &self.keys, &self.context, start);
        let before = std::mem::replace(&mut self.position, position.clone());
        let proven = match found {
            Some(commit) => commit.chain == position.chain && commit.sequence == position.sequence,
            None => self.next()?.is_some(),
        };
        self.position = if proven { position.clone() } else { before };
        Ok(proven)
    }

    /// The next batch. `None` where the chain ends.
    pub fn next(&mut self) -> Result<Option<Scanned>> {
        let start = self.position.offset;
        let mut chain = self.keys.chain_after(&self.position.chain);
        let mut records = Vec::new();
        let (mut at, mut hashed) = (start, start);
        loop {
            if !self.holds(at, FRAME_HEADER) {
                self.hash(&mut chain, &mut hashed, at);
            }
            if !self.load(at, FRAME_HEADER)? {
                return Ok(None);
            }
            let view = self.view(at, FRAME_HEADER);
            let Some(header) = FrameHeader::decode(&field(view, 0), &self.context, at) else { return Ok(None) };
            let length = header.frame_length();
            if !self.holds(at, length) {
                self.hash(&mut chain, &mut hashed, at);
            }
            if !self.load(at, length)? {
                return Ok(None);
            }
            if header.class == FrameClass::Record {
                let (sequence, kind, file) = (header.sequence, header.kind, self.context.number);
                let from = (at - self.block_start) as usize + header.payload_start();
                let payload = self.block.slice(from..from + header.length as usize);
                records.push(RecoveredRecord { sequence, kind, payload, at: codec::in_log(file, at) });
                at += length as u64;
                continue;
            }
            self.hash(&mut chain, &mut hashed, at);
            let frame = field(self.view(at, COMMIT_FRAME), 0);
            let Some(commit) = Commit::decode(&frame, &self.keys, &self.context, at) else { return Ok(None) };
            chain.update(&commit.chained());
            if commit.start != start
                || commit.records as usize != records.len()
                || chain.finalize() != blake3::Hash::from_bytes(commit.chain)
            {
                return Ok(None);
            }
            self.position = LogPosition {
                file: self.context.number,
                offset: at + length as u64,
                chain: commit.chain,
                sequence: commit.sequence,
            };
            let batch = RecoveredBatch { position: self.position.clone(), records };
            return Ok(Some(Scanned { batch, durable: commit.durable }));
        }
    }

    /// Searches everything after the current position: the highest durable sequence in a genuine commit record, and the
    /// end of the last bytes that are not zero.
    pub fn claims_after_end(&mut self) -> Result<Claims> {
        let mut claims = Claims { durable: 0, written_end: self.position.offset };
        let mut at = self.position.offset;
        while at + FRAME_ALIGN as u64 <= self.length {
            let wanted = (self.length - at).min(SCAN_BLOCK) as usize;
            if !self.load(at, wanted)? {
                break;
            }
            let block = self.view(at, wanted);
            for (index, word) in block.chunks_exact(FRAME_ALIGN).enumerate() {
                if word == [0; FRAME_ALIGN] {
                    continue;
                }
                let offset = at + (index * FRAME_ALIGN) as u64;
                claims.written_end = offset + FRAME_ALIGN as u64;
                if word[5] == FrameClass::COMMIT {
                    claims.durable = claims.durable.max(self.claim_at(offset, &block[index * FRAME_ALIGN..])?);
                }
            }
            at += (wanted - wanted % FRAME_ALIGN) as u64;
        }
        Ok(claims)
    }

    fn claim_at(&self, offset: u64, bytes: &[u8]) -> Result<Sequence> {
        if bytes.len() >= FRAME_HEADER && FrameHeader::decode(&field(bytes, 0), &self.context, offset).is_none() {
            return Ok(0);
        }
        let mut frame = [0; COMMIT_FRAME];
        if bytes.len() >= COMMIT_FRAME {
            frame.copy_from_slice(&bytes[..COMMIT_FRAME]);
        } else if offset + COMMIT_FRAME as u64 <= self.length {
            self.file.read_at(offset, &mut frame)?;
        }
        Ok(Commit::decode(&frame, &self.keys, &self.context, offset).map_or(0, |commit| commit.durable))
    }

    pub fn corrupt(&self, reason: &'static str) -> Error {
        Error::corrupt(&self.path, self.position.offset, reason)
    }

    fn holds(&self, at: u64, length: usize) -> bool {
        self.block_start <= at && at + length as u64 <= self.block_start + self.block.len() as u64
    }

    /// Hashes the bytes of the current block up to `until`, before another block is loaded.
    fn hash(&self, chain: &mut blake3::Hasher, hashed: &mut u64, until: u64) {
        if *hashed < until {
            let from = (*hashed - self.block_start) as usize;
            chain.update(&self.block[from..(until - self.block_start) as usize]);
            *hashed = until;
        }
    }

    /// Loads `length` bytes at `at` into the current block. `false` beyond the end of the file.
    fn load(&mut self, at: u64, length: usize) -> Result<bool> {
        if !self.holds(at, length) {
            if at + length as u64 > self.length {
                return Ok(false);
            }
            let wanted = (self.length - at).min(SCAN_BLOCK).max(length as u64) as usize;
            // The memory of the previous block is reused if no payload in it is kept.
            let mut block = std::mem::take(&mut self.block).try_into_mut().unwrap_or_default();
            if block.capacity() < wanted {
                block = BytesMut::zeroed(wanted);
            }
            block.resize(wanted, 0);
            self.file.read_at(at, &mut block)?;
            self.block = block.freeze();
            self.block_start = at;
        }
        Ok(true)
    }

    /// Bytes that `load` has loaded.
    fn view(&self, at: u64, length: usize) -> &[u8] {
        let from = (at - self.block_start) as usize;
        &self.block[from..from + length]
    }
}

pub struct Claims {
    pub durable: Sequence,
    pub written_end: u64,
}
