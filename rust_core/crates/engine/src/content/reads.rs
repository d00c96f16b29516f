//! Reading the bytes of objects that were looked up.

use std::sync::Arc;

use super::Content;
use super::stored::{HeldBlob, read_inline};
use orcas_base::error::{Error, Result};
use orcas_catalog::{EpochPin, PinnedObject};
use orcas_record::{Extent, Sequence};
use orcas_store::Sealing;

impl Content {
    /// Fills `buf` with the object's bytes from `first` on, verified. `Ok(false)`, with `buf` undefined, when that
    /// would wait for the disk or the content is in several pieces: use a reader.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the bytes are not the ones that were stored.
    pub fn try_read(&self, found: &PinnedObject, first: u64, buf: &mut [u8]) -> Result<bool> {
        if buf.is_empty() {
            return Ok(true);
        }
        let sealing = found.sealing();
        match (found.object.version.manifest.as_slice(), found.place()) {
            ([Extent::Inline(bytes)], _) => read_inline(bytes, &sealing, first as u32, buf).map(|()| true),
            ([Extent::Blob { blob, start, .. }], Some(place)) => {
                self.check_seal(place, sealing.encryption.as_ref())?;
                self.try_read_blob((*blob, place), &sealing, start + first as u32, buf)
            }
            _ => Ok(false),
        }
    }

    /// Bytes `first..=last` of an object, which must lie inside it.
    pub fn reader(self: &Arc<Self>, found: &PinnedObject, first: u64, last: u64) -> ObjectReader {
        ObjectReader::new(Arc::clone(self), found, first, last)
    }
}

/// Reads a range of an object in order. Blocking; every byte it gives was verified.
pub struct ObjectReader {
    content: Arc<Content>,
    cursors: Vec<ExtentCursor>,
    remaining: u64,
    sealing: Sealing,
    /// The blob in hand, so that its place is looked up once.
    blob: Option<HeldBlob>,
    /// Held until the last byte.
    _pin: EpochPin,
}

struct ExtentCursor {
    extents: Arc<[Extent]>,
    next: usize,
    /// Bytes to skip at the start of the next extent.
    skip: u64,
}

impl ObjectReader {
    fn new(content: Arc<Content>, found: &PinnedObject, first: u64, last: u64) -> Self {
        let version = &found.object.version;
        let extents: Arc<[Extent]> = version.manifest.as_slice().into();
        let remaining = if version.size == 0 { 0 } else { last - first + 1 };
        let cursors = vec![ExtentCursor { extents, next: 0, skip: first }];
        Self { content, cursors, remaining, sealing: found.sealing(), blob: None, _pin: found.pin().clone() }
    }

    /// Bytes still to come.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Fills the front of `buf` with the next bytes and returns how many: 0 only at the end of the range or for an
    /// empty `buf`. One call reads from one blob.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the bytes are not the ones that were stored; nothing may be sent after that.
    pub fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        if self.remaining == 0 || buf.is_empty() {
            return Ok(0);
        }
        loop {
            let cursor =
                self.cursors.last_mut().ok_or(Error::Record { reason: "a manifest is shorter than its object" })?;
            let Some(extent) = cursor.extents.get(cursor.next) else {
                self.cursors.pop();
                continue;
            };
            let length = extent.length();
            if cursor.skip >= length {
                cursor.skip -= length;
                cursor.next += 1;
                continue;
            }
            let skip = cursor.skip;
            let wanted = (length - skip).min(self.remaining).min(buf.len() as u64);
            let extent = extent.clone();
            match extent {
                Extent::Segment { segment, .. } => {
                    cursor.next += 1;
                    cursor.skip = 0;
                    if self.cursors.len() > 1 {
                        return Err(Error::Record { reason: "a segment names a segment" });
                    }
                    let extents = self.content.catalog.segment(segment)?;
                    self.cursors.push(ExtentCursor { extents, next: 0, skip });
                    continue;
                }
                Extent::Inline(bytes) => {
                    read_inline(&bytes, &self.sealing, skip as u32, &mut buf[..wanted as usize])?;
                }
                Extent::Blob { blob, start, .. } => {
                    self.read_from(blob, start + skip as u32, &mut buf[..wanted as usize])?;
                }
            }
            if let Some(cursor) = self.cursors.last_mut() {
                cursor.skip += wanted;
            }
            self.remaining -= wanted;
            return Ok(wanted as usize);
        }
    }

    fn read_from(&mut self, blob: Sequence, start: u32, buf: &mut [u8]) -> Result<()> {
        let held = match self.blob.take() {
            Some(held) if held.is(blob) => held,
            _ => {
                let place = self.content.catalog.place(blob)?;
                self.content.check_seal(&place, self.sealing.encryption.as_ref())?;
                HeldBlob::new(blob, place)
            }
        };
        self.content.read_blob(self.blob.insert(held), &self.sealing, start, buf)
    }
}
