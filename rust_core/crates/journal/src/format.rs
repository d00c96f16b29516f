//! The bytes of a segment: its header and its frames. Pure.

use orcas_base::block::{block_crc, field};
use orcas_events::Place;

const MAGIC: [u8; 8] = *b"ORCASEVT";
pub(crate) const VERSION: u32 = 1;
pub(crate) const HEADER: usize = 144;
pub(crate) const FRAME_HEADER: usize = 32;
/// Bytes of a payload at most. This bounds what a damaged length can make a reader allocate.
pub(crate) const PAYLOAD_MAX: usize = 64 << 10;

/// Bytes of a mark.
pub const MARK: usize = 56;

/// Where the writer goes on: its own bytes, opaque here.
pub type Mark = [u8; MARK];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FrameKind {
    Event = 1,
    /// Something that the writer needs to go on.
    State = 2,
    /// Everything up to here is complete.
    Mark = 3,
}

/// The beginning of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub number: u64,
    pub store_id: [u8; 16],
    /// Random, chosen when the journal was begun.
    pub journal: u64,
    /// The last event before this segment, or where the segment begins if events before it are missing.
    pub after: Place,
    /// The sequence that `mark` stands for.
    pub sequence: u64,
    pub began_ms: u64,
    pub salt: u32,
    pub mark: Mark,
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.salt.to_le_bytes());
        out[16..24].copy_from_slice(&self.number.to_le_bytes());
        out[24..40].copy_from_slice(&self.store_id);
        out[40..48].copy_from_slice(&self.journal.to_le_bytes());
        out[48..56].copy_from_slice(&self.after.sequence.to_le_bytes());
        out[56..64].copy_from_slice(&u64::from(self.after.ordinal).to_le_bytes());
        out[64..72].copy_from_slice(&self.sequence.to_le_bytes());
        out[72..80].copy_from_slice(&self.began_ms.to_le_bytes());
        out[80..136].copy_from_slice(&self.mark);
        let crc = block_crc(&out[..140]);
        out[140..144].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// `None` unless it is the whole header of a segment of this format.
    pub fn decode(bytes: &[u8; HEADER]) -> Option<Self> {
        let number = |at| u64::from_le_bytes(field(bytes, at));
        let intact = block_crc(&bytes[..140]) == u32::from_le_bytes(field(bytes, 140));
        if !intact || bytes[..8] != MAGIC || u32::from_le_bytes(field(bytes, 8)) != VERSION {
            return None;
        }
        Some(Self {
            number: number(16),
            store_id: field(bytes, 24),
            journal: number(40),
            after: Place { sequence: number(48), ordinal: u16::try_from(number(56)).ok()? },
            sequence: number(64),
            began_ms: number(72),
            salt: u32::from_le_bytes(field(bytes, 12)),
            mark: field(bytes, 80),
        })
    }
}

/// A frame, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub kind: FrameKind,
    pub place: Place,
    pub time_ms: u64,
    pub length: usize,
    crc: u32,
}

impl Frame {
    /// Appends a frame. `false`, without any change, if the payload is too long.
    pub fn push(
        out: &mut Vec<u8>,
        salt: u32,
        kind: FrameKind,
        place: Place,
        time_ms: u64,
        payload: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let start = out.len();
        out.resize(start + FRAME_HEADER, 0);
        payload(out);
        let length = out.len() - start - FRAME_HEADER;
        if length > PAYLOAD_MAX {
            out.truncate(start);
            return false;
        }
        let header = &mut out[start..start + FRAME_HEADER];
        header[4..8].copy_from_slice(&(length as u32).to_le_bytes());
        header[8..16].copy_from_slice(&place.sequence.to_le_bytes());
        header[16..24].copy_from_slice(&time_ms.to_le_bytes());
        header[24..26].copy_from_slice(&place.ordinal.to_le_bytes());
        header[26] = kind as u8;
        let crc = block_crc(&out[start + 4..]) ^ salt;
        out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
        true
    }

    /// The frame at the beginning of `bytes`, not verified yet. `None` if there can be none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..FRAME_HEADER)?;
        let kind = match header[26] {
            1 => FrameKind::Event,
            2 => FrameKind::State,
            3 => FrameKind::Mark,
            _ => return None,
        };
        let length = u32::from_le_bytes(field(header, 4)) as usize;
        let place =
            Place { sequence: u64::from_le_bytes(field(header, 8)), ordinal: u16::from_le_bytes(field(header, 24)) };
        let time_ms = u64::from_le_bytes(field(header, 16));
        let crc = u32::from_le_bytes(field(header, 0));
        (length <= PAYLOAD_MAX).then_some(Self { kind, place, time_ms, length, crc })
    }

    /// Bytes of the frame.
    pub fn total(&self) -> usize {
        FRAME_HEADER + self.length
    }

    /// Whether `bytes`, which are the whole frame, are those that were written.
    pub fn is_intact(&self, bytes: &[u8], salt: u32) -> bool {
        block_crc(&bytes[4..]) ^ salt == self.crc
    }
}
