//! Manifests: which extents a version or part names, when they move into segments, and how a range of one manifest
//! becomes another.

use std::collections::HashMap;

use crate::intent::{Body, ChunkPlace, PlacedChunk, Sharing};
use crate::outcome::Refusal;
use crate::view::View;
use orcas_base::error::{Error, Result};
use orcas_record::{
    Encryption, Extent, Fingerprint, HASHED_PREFIX, MANIFEST_EXTENTS_MAX, Record, SEGMENT_EXTENTS_MAX, Seal, Sequence,
    short_hash,
};

/// Extents that one manifest is put together from: more than the largest object has, in parts just too short for
/// segments.
const TOGETHER_MAX: usize = 1 << 20;
/// Bytes of a manifest in its record: half of what a record may take, so that there is room for all else that an object
/// has.
const MANIFEST_BYTES_MAX: usize = 4 << 20;
/// More than an extent takes beside the bytes of an inline one.
const EXTENT_BYTES: usize = 32;
/// Blobs at the end of a manifest that is appended to.
const TAIL_MAX: usize = 32;
const TOO_MANY: Refusal =
    Refusal::InvalidRequest { reason: "The parts are made of too many ranges of other objects to be put together." };

/// The records of a decision as they are drafted; each knows the sequence it will get.
pub(crate) struct Draft {
    next: Sequence,
    records: Vec<Record>,
    /// The shared chunks among `records`.
    chunks: HashMap<Fingerprint, Sequence>,
}

impl Draft {
    pub fn new(next: Sequence) -> Self {
        Self { next, records: Vec::with_capacity(2), chunks: HashMap::new() }
    }

    /// The sequence of the next record.
    pub fn next_sequence(&self) -> Sequence {
        self.next
    }

    pub fn push(&mut self, record: Record) -> Sequence {
        let sequence = self.next;
        self.next += 1;
        self.records.push(record);
        sequence
    }

    pub fn into_records(self) -> Vec<Record> {
        self.records
    }

    /// Drafts the records that hold `body` and returns the manifest that names them.
    ///
    /// # Errors
    /// When a blob cannot be looked up, or the body is not encrypted as its object shall be.
    pub fn store(&mut self, view: &dyn View, body: Body, encryption: Option<&Encryption>) -> Result<Vec<Extent>> {
        if !body.is(encryption) {
            return Err(Error::Record { reason: "a body is not encrypted as its object is" });
        }
        match body {
            Body::Inline(bytes) if bytes.is_empty() => Ok(Vec::new()),
            Body::Inline(bytes) => Ok(vec![Extent::Inline(bytes)]),
            Body::Content { fingerprint, sharing, bytes, seal } => {
                let stored = bytes.len() as u32;
                let length = match seal {
                    None => stored,
                    Some(_) => {
                        Seal::content_length(stored).ok_or(Error::Record { reason: "no sealed content is so long" })?
                    }
                };
                let prefix_hash = (length as usize <= HASHED_PREFIX).then(|| short_hash(&fingerprint.0));
                let known = match sharing {
                    Sharing::Sought => view.shared_blob(&fingerprint, stored, prefix_hash)?,
                    Sharing::Off | Sharing::Offered => None,
                };
                let blob = match known {
                    Some(blob) => blob,
                    None => self.push(Record::Content { fingerprint, shared: sharing != Sharing::Off, bytes, seal }),
                };
                Ok(vec![Extent::Blob { blob, start: 0, length }])
            }
            Body::Chunks(chunks) => {
                let extents = chunks.iter().map(|chunk| self.chunk(view, chunk)).collect::<Result<_>>()?;
                Ok(self.segmented(extents))
            }
        }
    }

    fn chunk(&mut self, view: &dyn View, chunk: &PlacedChunk) -> Result<Extent> {
        let PlacedChunk { fingerprint, sharing, length, .. } = *chunk;
        let extent = |blob| Ok(Extent::Blob { blob, start: 0, length });
        let (prefix_hash, at, seal) = match chunk.place {
            ChunkPlace::Known { blob } => return extent(blob),
            ChunkPlace::New { prefix_hash, at, seal } => (prefix_hash, at, seal),
        };
        let stored = if seal.is_some() { Seal::stored_length(length) } else { length };
        if sharing == Sharing::Sought {
            let known = match self.chunks.get(&fingerprint) {
                Some(drafted) => Some(*drafted),
                None => view.shared_blob(&fingerprint, stored, Some(prefix_hash))?,
            };
            if let Some(blob) = known {
                return extent(blob);
            }
        }
        let shared = sharing != Sharing::Off;
        let blob = self.push(Record::Chunk { fingerprint, shared, prefix_hash, at, length: stored, seal });
        if shared {
            self.chunks.insert(fingerprint, blob);
        }
        extent(blob)
    }

    /// Moves blob extents of a long list into segment records.
    pub fn segmented(&mut self, extents: Vec<Extent>) -> Vec<Extent> {
        if extents.len() <= MANIFEST_EXTENTS_MAX {
            return extents;
        }
        let mut out = Vec::new();
        for run in extents.chunk_by(|one, next| is_blob(one) && is_blob(next)) {
            if run.len() == 1 {
                out.extend_from_slice(run);
                continue;
            }
            out.extend(run.chunks(SEGMENT_EXTENTS_MAX).map(|extents| self.segment(extents)));
        }
        out
    }

    /// The manifest of an object with `next` at its end. Blobs at its end become a segment when there are `TAIL_MAX`, and
    /// that one takes in the segments before it that are not longer. So each is about twice as long as the one behind it:
    /// the record of an object stays small however often something is appended to it, and its blobs are listed anew only
    /// a few times.
    ///
    /// # Errors
    /// When a segment cannot be read.
    pub fn appended(&mut self, view: &dyn View, manifest: &[Extent], next: Vec<Extent>) -> Result<Vec<Extent>> {
        let mut extents = [manifest, &next].concat();
        let tail_at = extents.iter().rposition(|extent| !is_blob(extent)).map_or(0, |at| at + 1);
        if extents.len() - tail_at < TAIL_MAX {
            return Ok(extents);
        }
        let mut tail = extents.split_off(tail_at);
        while let Some(Extent::Segment { segment, .. }) = extents.last() {
            let before = view.segment(*segment)?;
            if before.len() > tail.len() || before.len() + tail.len() > SEGMENT_EXTENTS_MAX {
                break;
            }
            tail = [&before[..], &tail].concat();
            extents.pop();
        }
        for run in tail.chunks(SEGMENT_EXTENTS_MAX) {
            extents.push(self.segment(run));
        }
        Ok(extents)
    }

    fn segment(&mut self, extents: &[Extent]) -> Extent {
        let length = extents.iter().map(Extent::length).sum();
        let segment = self.push(Record::Segment { extents: extents.to_vec() });
        Extent::Segment { segment, length }
    }

    /// As `segmented`, for extents that a client has put together from other objects.
    ///
    /// # Errors
    /// `InvalidRequest` when no record could hold the manifest.
    pub fn gathered(&mut self, parts: &[&[Extent]]) -> Result<Vec<Extent>, Refusal> {
        if parts.iter().map(|part| part.len()).sum::<usize>() > TOGETHER_MAX {
            return Err(TOO_MANY);
        }
        let manifest = self.segmented(parts.concat());
        let bytes = |extent: &Extent| match extent {
            Extent::Inline(bytes) => EXTENT_BYTES + bytes.len(),
            Extent::Blob { .. } | Extent::Segment { .. } => EXTENT_BYTES,
        };
        match manifest.iter().map(bytes).sum::<usize>() {
            ..=MANIFEST_BYTES_MAX => Ok(manifest),
            _ => Err(TOO_MANY),
        }
    }
}

fn is_blob(extent: &Extent) -> bool {
    matches!(extent, Extent::Blob { .. })
}

/// The extents that hold bytes `first..=last` of `manifest`, segments resolved where only a part of them is wanted.
pub(crate) fn slice(view: &dyn View, manifest: &[Extent], first: u64, last: u64) -> Result<Vec<Extent>> {
    let mut out = Vec::new();
    slice_into(view, manifest, first, last, &mut out, true)?;
    Ok(out)
}

fn slice_into(
    view: &dyn View,
    manifest: &[Extent],
    first: u64,
    last: u64,
    out: &mut Vec<Extent>,
    segments: bool,
) -> Result<()> {
    let mut at = 0u64;
    for extent in manifest {
        let (begin, end) = (at, at + extent.length());
        at = end;
        if end <= first || begin > last {
            continue;
        }
        // Relative to the extent: `from` included, `to` excluded.
        let (from, to) = (first.saturating_sub(begin), (last + 1).min(end) - begin);
        match extent {
            Extent::Inline(bytes) => out.push(Extent::Inline(bytes.slice(from as usize..to as usize))),
            Extent::Blob { blob, start, .. } => {
                out.push(Extent::Blob { blob: *blob, start: start + from as u32, length: (to - from) as u32 });
            }
            Extent::Segment { .. } if from == 0 && to == end - begin => out.push(extent.clone()),
            Extent::Segment { segment, .. } if segments => {
                slice_into(view, &view.segment(*segment)?, from, to - 1, out, false)?;
            }
            Extent::Segment { .. } => return Err(Error::Record { reason: "a segment names a segment" }),
        }
    }
    Ok(())
}
