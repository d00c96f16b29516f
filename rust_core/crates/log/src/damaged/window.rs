//! The part of a log file that is in memory, for reading a file from start to end past any damage: unreadable sectors
//! read as zeros, and `next_frame` finds the next frame after damage.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use orcas_base::block::field;
use orcas_base::error::Result;
use orcas_fs::{File, read_around_faults};
use orcas_record::Sequence;

use crate::encoding::{FRAME_ALIGN, FRAME_HEADER, FileContext, FrameHeader};

/// Bytes read at a time.
const BLOCK: u64 = 4 * 1024 * 1024;

/// Called with the number of bytes before every read. An error ends the reading.
pub type Meter<'a> = &'a dyn Fn(u64) -> Result<()>;

pub struct Window<'a> {
    file: Arc<dyn File>,
    /// Bytes from here on are ignored.
    pub limit: u64,
    block: Bytes,
    start: u64,
    meter: Meter<'a>,
}

impl<'a> Window<'a> {
    pub fn new(file: Arc<dyn File>, limit: u64, meter: Meter<'a>) -> Self {
        Self { file, limit, block: Bytes::new(), start: 0, meter }
    }

    pub fn holds(&self, at: u64, length: usize) -> bool {
        self.start <= at && at + length as u64 <= self.start + self.block.len() as u64
    }

    /// Loads `length` bytes at `at` into the window. `false` beyond the limit.
    ///
    /// # Errors
    /// When reading fails, and errors of the meter.
    pub fn load(&mut self, at: u64, length: usize) -> Result<bool> {
        if self.holds(at, length) {
            return Ok(true);
        }
        if at + length as u64 > self.limit {
            return Ok(false);
        }
        let wanted = (self.limit - at).min(BLOCK).max(length as u64) as usize;
        (self.meter)(wanted as u64)?;
        // The memory of the previous block is reused if no payload in it is kept.
        let mut block = std::mem::take(&mut self.block).try_into_mut().unwrap_or_default();
        if block.capacity() < wanted {
            block = BytesMut::zeroed(wanted);
        }
        block.resize(wanted, 0);
        read_around_faults(&*self.file, at, &mut block)?;
        self.block = block.freeze();
        self.start = at;
        Ok(true)
    }

    pub fn view(&self, at: u64, length: usize) -> &[u8] {
        let from = (at - self.start) as usize;
        &self.block[from..from + length]
    }

    pub fn slice(&self, at: u64, length: usize) -> Bytes {
        let from = (at - self.start) as usize;
        self.block.slice(from..from + length)
    }

    /// The rest of the window from `at` on.
    pub fn rest(&self, at: u64) -> &[u8] {
        &self.block[(at - self.start) as usize..]
    }

    /// The first whole frame after `from` that belongs to the file of `context` and can follow the record `last`. `until` is
    /// the last record of the file, if known.
    ///
    /// # Errors
    /// As `load`.
    pub fn next_frame(
        &mut self,
        from: u64,
        context: &FileContext,
        (last, until): (Sequence, Option<Sequence>),
    ) -> Result<Option<(u64, FrameHeader)>> {
        let mut at = from + FRAME_ALIGN as u64;
        while self.load(at, FRAME_HEADER)? {
            let bytes = self.rest(at);
            // The last bytes of a block are examined again with those that follow.
            let whole = bytes.len() - FRAME_HEADER + 1;
            for offset in (0..whole).step_by(FRAME_ALIGN) {
                let candidate = &bytes[offset..offset + FRAME_HEADER];
                if !FrameHeader::is_likely(candidate) {
                    continue;
                }
                let found_at = at + offset as u64;
                let Some(header) = FrameHeader::decode(&field(candidate, 0), context, found_at) else { continue };
                if found_at + header.frame_length() as u64 <= self.limit && header.follows(last, until) {
                    return Ok(Some((found_at, header)));
                }
            }
            at += whole.next_multiple_of(FRAME_ALIGN) as u64;
        }
        Ok(None)
    }
}
