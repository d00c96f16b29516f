//! Reads the frames of one segment in order, a block at a time.

use std::path::Path;
use std::sync::Arc;

use orcas_base::error::Result;
use orcas_fs::{File, FileSystem, Open};

use super::format::{FRAME_HEADER, Frame, FrameKind, HEADER, Header, PAYLOAD_MAX};
use orcas_events::Place;

/// Bytes that are read at once; enough for any frame.
const WINDOW: usize = 128 << 10;
const _: () = assert!(WINDOW >= FRAME_HEADER + PAYLOAD_MAX);

/// The header of a segment; `None` if it is damaged or not there.
pub(crate) fn read_header(fs: &dyn FileSystem, path: &Path) -> Result<Option<Header>> {
    let file = fs.open(path, Open::Read)?;
    let mut bytes = [0; HEADER];
    if file.len()? < HEADER as u64 {
        return Ok(None);
    }
    file.read_at(0, &mut bytes)?;
    Ok(Header::decode(&bytes))
}

/// An intact frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanned<'a> {
    pub kind: FrameKind,
    pub place: Place,
    pub time_ms: u64,
    pub payload: &'a [u8],
}

pub(crate) struct Scanner {
    file: Arc<dyn File>,
    salt: u32,
    /// Where reading ends.
    end: u64,
    /// The offset of the next frame.
    offset: u64,
    window: Vec<u8>,
    /// The offset of the first byte of the window.
    window_at: u64,
}

impl Scanner {
    /// A scan from the frame at `offset` up to `end`.
    pub fn new(file: Arc<dyn File>, salt: u32, offset: u64, end: u64) -> Self {
        Self { file, salt, end, offset, window: Vec::new(), window_at: offset }
    }

    /// Behind the last intact frame.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether all bytes were intact frames.
    pub fn is_done(&self) -> bool {
        self.offset == self.end
    }

    /// The next frame; `None` at the end, or where no intact frame is.
    pub fn next(&mut self) -> Result<Option<Scanned<'_>>> {
        if !self.fill(FRAME_HEADER)? {
            return Ok(None);
        }
        let Some(frame) = Frame::decode(self.ahead()) else { return Ok(None) };
        if !self.fill(frame.total())? {
            return Ok(None);
        }
        let start = (self.offset - self.window_at) as usize;
        let bytes = &self.window[start..start + frame.total()];
        if !frame.is_intact(bytes, self.salt) {
            return Ok(None);
        }
        self.offset += frame.total() as u64;
        let Frame { kind, place, time_ms, .. } = frame;
        Ok(Some(Scanned { kind, place, time_ms, payload: &bytes[FRAME_HEADER..] }))
    }

    fn ahead(&self) -> &[u8] {
        &self.window[(self.offset - self.window_at) as usize..]
    }

    /// Whether there are `count` bytes more; then they are in the window.
    fn fill(&mut self, count: usize) -> Result<bool> {
        if self.offset + count as u64 > self.end {
            return Ok(false);
        }
        if self.ahead().len() < count {
            let length = (self.end - self.offset).min(WINDOW as u64) as usize;
            self.window.resize(length, 0);
            self.window_at = self.offset;
            self.file.read_at(self.offset, &mut self.window)?;
        }
        Ok(true)
    }
}
