//! Headers of log files: of plain files, which batches are appended to, and of compacted files, each of which replaces a
//! run of other files. A header is stored twice, in two sectors, so that damage to one copy does no harm. Encoding and
//! decoding only, no I/O; `docs/format.md` has the tables.

use std::path::Path;

use orcas_base::block::{block_crc, field};
use orcas_base::error::Error;
use orcas_base::planted::{self, Bug};

use super::format::{FILE_HEADER, FileContext, LogKeys};
use crate::LogPosition;

const FORMAT_VERSION: u32 = 3;
const MAGIC: [u8; 8] = *b"ORCASLOG";
const MAGIC_COMPACTED: [u8; 8] = *b"ORCASCMP";

/// Bytes of one copy of a header, within one sector. A plain header fills the rest with zeros.
const COPY: usize = 264;
/// Offset of the second copy. Files of earlier versions have zeros there.
const SECOND_AT: usize = 2048;
/// Bytes from the beginning of a file to the end of the second copy.
pub const HEADER_ENCODED: usize = SECOND_AT + COPY;
const PLAIN_SIGNED: usize = 128;
const COMPACTED_SIGNED: usize = 224;

/// Format: magic 8 | version u32 | header bytes u32 | store id 16 | file number u64 | salt 16 | predecessor's file u64 |
/// its end u64 | its last sequence u64 | its chain 32 | zero 16 | MAC 32 | CRC u32 over all before | zero 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHeader {
    pub store_id: [u8; 16],
    pub number: u64,
    pub salt: [u8; 16],
    /// The end of the predecessor. Its bytes after this offset are void.
    pub predecessor: LogPosition,
}

/// Format: as `FileHeader` up to the salt | from: position 56 | end: position 56 | end of the own batches u64 | their
/// last chain value 32 | zero 16 | MAC 32 | CRC u32 over all before | zero 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactedHeader {
    pub store_id: [u8; 16],
    pub number: u64,
    pub salt: [u8; 16],
    /// Start of the run that the file replaces, as named by the first file of the run.
    pub from: LogPosition,
    /// End of the run, as named by the file after the run.
    pub end: LogPosition,
    /// End of the batches in this file.
    pub own_end: u64,
    /// Chain value at `own_end`; that of `from` if the file has no batch.
    pub own_chain: [u8; 32],
}

/// A valid header of either kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Header {
    Plain(FileHeader),
    Compacted(CompactedHeader),
}

/// Why bytes are not a file header of this store.
#[derive(Debug, PartialEq, Eq)]
pub enum HeaderFault {
    Damaged,
    /// A damaged header of a compacted file. Harmless as long as the files that it replaces exist.
    CompactedDamaged,
    Version(u32),
    Foreign(&'static str),
}

/// Whether either copy of the header has the magic number of a plain file.
pub fn is_plain(bytes: &[u8; HEADER_ENCODED]) -> bool {
    has_magic(bytes, MAGIC)
}

/// Whether either copy of the header has the magic number of a compacted file. If so, the file is finished.
pub fn is_compacted(bytes: &[u8; HEADER_ENCODED]) -> bool {
    has_magic(bytes, MAGIC_COMPACTED)
}

fn has_magic(bytes: &[u8; HEADER_ENCODED], magic: [u8; 8]) -> bool {
    bytes.starts_with(&magic) || bytes[SECOND_AT..].starts_with(&magic)
}

impl FileHeader {
    pub fn encode(&self, keys: &LogKeys) -> [u8; HEADER_ENCODED] {
        let mut out = begin(MAGIC, &self.store_id, self.number, &self.salt);
        out[56..112].copy_from_slice(&self.predecessor.encode());
        sign(&mut out, keys, PLAIN_SIGNED);
        twice(&out)
    }

    pub fn context(&self) -> FileContext {
        FileContext::new(&self.store_id, self.number, &self.salt)
    }
}

impl CompactedHeader {
    pub fn encode(&self, keys: &LogKeys) -> [u8; HEADER_ENCODED] {
        let mut out = begin(MAGIC_COMPACTED, &self.store_id, self.number, &self.salt);
        out[56..112].copy_from_slice(&self.from.encode());
        out[112..168].copy_from_slice(&self.end.encode());
        out[168..176].copy_from_slice(&self.own_end.to_le_bytes());
        out[176..208].copy_from_slice(&self.own_chain);
        sign(&mut out, keys, COMPACTED_SIGNED);
        twice(&out)
    }

    pub fn context(&self) -> FileContext {
        FileContext::new(&self.store_id, self.number, &self.salt)
    }
}

impl Header {
    /// `number` is that in the name of the file. If neither copy is valid, returns the fault of the first, unless the second
    /// is of another version.
    pub fn decode(
        bytes: &[u8; HEADER_ENCODED],
        keys: &LogKeys,
        store_id: &[u8; 16],
        number: u64,
    ) -> Result<Self, HeaderFault> {
        let copy = |at| Self::decode_copy(&field(bytes, at), keys, store_id, number);
        if planted::is(Bug::SecondHeaderIgnored) {
            return copy(0);
        }
        copy(0).or_else(|fault| copy(SECOND_AT).map_err(|second| second.or(fault)))
    }

    /// The offset of a damaged copy and its correct content, for bytes that `decode` accepted. `None` also for files of
    /// earlier versions, which have only one copy.
    pub fn lost_copy(bytes: &[u8; HEADER_ENCODED]) -> Option<(u64, &[u8])> {
        let (first, second) = (&bytes[..COPY], &bytes[SECOND_AT..]);
        let holds = |copy: &[u8]| {
            let signed = if copy.starts_with(&MAGIC) { PLAIN_SIGNED } else { COMPACTED_SIGNED };
            u32::from_le_bytes(field(copy, signed + 32)) == block_crc(&copy[..signed + 32])
        };
        match (holds(first), holds(second)) {
            (true, false) if second.iter().any(|byte| *byte != 0) => Some((SECOND_AT as u64, first)),
            (false, true) => Some((0, second)),
            _ => None,
        }
    }

    fn decode_copy(bytes: &[u8; COPY], keys: &LogKeys, store_id: &[u8; 16], number: u64) -> Result<Self, HeaderFault> {
        let (signed, damaged) = match field(bytes, 0) {
            MAGIC => (PLAIN_SIGNED, HeaderFault::Damaged),
            MAGIC_COMPACTED => (COMPACTED_SIGNED, HeaderFault::CompactedDamaged),
            _ => return Err(HeaderFault::Damaged),
        };
        match version_of_copy(bytes) {
            Some(FORMAT_VERSION) => {}
            Some(version) => return Err(HeaderFault::Version(version)),
            None => return Err(damaged),
        }
        let found_store: [u8; 16] = field(bytes, 16);
        if found_store != *store_id {
            return Err(HeaderFault::Foreign("it carries the id of another store"));
        }
        if keys.header_mac(&bytes[..signed]) != blake3::Hash::from_bytes(field(bytes, signed)) {
            return Err(match damaged {
                HeaderFault::Damaged => HeaderFault::Foreign("it was made with another commit key"),
                other => other,
            });
        }
        if u64::from_le_bytes(field(bytes, 32)) != number {
            return Err(HeaderFault::Foreign("it is another file of this store under this name"));
        }
        let (store_id, salt, from) = (*store_id, field(bytes, 40), position(bytes, 56));
        if signed == PLAIN_SIGNED {
            return Ok(Self::Plain(FileHeader { store_id, number, salt, predecessor: from }));
        }
        let (end, own_end) = (position(bytes, 112), u64::from_le_bytes(field(bytes, 168)));
        // Walks back through the chain terminate because of this.
        if from.file >= end.file || from.sequence >= end.sequence || own_end < FILE_HEADER {
            return Err(damaged);
        }
        let own_chain = field(bytes, 176);
        Ok(Self::Compacted(CompactedHeader { store_id, number, salt, from, end, own_end, own_chain }))
    }

    /// Reads a damaged header without any verification. Only for inspecting damaged logs: the caller checks that the salt
    /// matches a frame.
    pub fn salvage(bytes: &[u8; HEADER_ENCODED], store_id: &[u8; 16], number: u64) -> Self {
        let (store_id, salt, from) = (*store_id, field(bytes, 40), position(bytes, 56));
        if field(bytes, 0) != MAGIC_COMPACTED {
            return Self::Plain(FileHeader { store_id, number, salt, predecessor: from });
        }
        let (end, own_end) = (position(bytes, 112), u64::from_le_bytes(field(bytes, 168)));
        let own_chain = field(bytes, 176);
        Self::Compacted(CompactedHeader { store_id, number, salt, from, end, own_end, own_chain })
    }

    /// A header whose checksum matches, of any store and with any key. Only for inspecting damaged logs.
    pub fn decode_unsigned(bytes: &[u8; HEADER_ENCODED]) -> Option<Self> {
        [0, SECOND_AT].into_iter().find_map(|at| Self::decode_copy_unsigned(&field(bytes, at)))
    }

    fn decode_copy_unsigned(bytes: &[u8; COPY]) -> Option<Self> {
        let version = version_of_copy(bytes)?;
        let header = Self::salvage(&twice(bytes), &field(bytes, 16), u64::from_le_bytes(field(bytes, 32)));
        let in_order = match &header {
            Self::Plain(_) => true,
            Self::Compacted(header) => header.from.sequence < header.end.sequence && header.own_end >= FILE_HEADER,
        };
        (in_order && version == FORMAT_VERSION).then_some(header)
    }

    /// The version of a header of either kind that is not the one that is read here, in any store. It is trusted only if
    /// the checksum of its copy matches.
    pub fn other_version(bytes: &[u8; HEADER_ENCODED]) -> Option<u32> {
        let version = [0, SECOND_AT].into_iter().find_map(|at| version_of_copy(&field(bytes, at)));
        version.filter(|found| *found != FORMAT_VERSION)
    }

    pub fn store_id(&self) -> &[u8; 16] {
        match self {
            Self::Plain(header) => &header.store_id,
            Self::Compacted(header) => &header.store_id,
        }
    }

    pub fn number(&self) -> u64 {
        match self {
            Self::Plain(header) => header.number,
            Self::Compacted(header) => header.number,
        }
    }

    /// Start of what the file covers. The chain of its first batch continues from here.
    pub fn from(&self) -> &LogPosition {
        match self {
            Self::Plain(header) => &header.predecessor,
            Self::Compacted(header) => &header.from,
        }
    }

    pub fn context(&self) -> FileContext {
        match self {
            Self::Plain(header) => header.context(),
            Self::Compacted(header) => header.context(),
        }
    }
}

impl HeaderFault {
    /// This fault if it names a version, which only an intact copy does; otherwise the other one.
    fn or(self, other: Self) -> Self {
        if matches!(self, Self::Version(_)) { self } else { other }
    }

    pub fn into_error(self, path: &Path) -> Error {
        match self {
            Self::Damaged | Self::CompactedDamaged => {
                Error::corrupt(path, 0, "the file header does not match its checksum")
            }
            Self::Version(found) => Error::Version { path: path.to_owned(), found, supported: FORMAT_VERSION },
            Self::Foreign(reason) => Error::Foreign { path: path.to_owned(), reason },
        }
    }
}

/// The version in a copy whose checksum matches.
fn version_of_copy(bytes: &[u8; COPY]) -> Option<u32> {
    let crc_at = 32
        + match field(bytes, 0) {
            MAGIC => PLAIN_SIGNED,
            MAGIC_COMPACTED => COMPACTED_SIGNED,
            _ => return None,
        };
    let holds = u32::from_le_bytes(field(bytes, crc_at)) == block_crc(&bytes[..crc_at]);
    holds.then(|| u32::from_le_bytes(field(bytes, 8)))
}

fn twice(copy: &[u8; COPY]) -> [u8; HEADER_ENCODED] {
    let mut out = [0; HEADER_ENCODED];
    out[..COPY].copy_from_slice(copy);
    out[SECOND_AT..].copy_from_slice(copy);
    out
}

fn begin(magic: [u8; 8], store_id: &[u8; 16], number: u64, salt: &[u8; 16]) -> [u8; COPY] {
    let mut out = [0; COPY];
    out[0..8].copy_from_slice(&magic);
    out[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    out[12..16].copy_from_slice(&(FILE_HEADER as u32).to_le_bytes());
    out[16..32].copy_from_slice(store_id);
    out[32..40].copy_from_slice(&number.to_le_bytes());
    out[40..56].copy_from_slice(salt);
    out
}

fn sign(out: &mut [u8; COPY], keys: &LogKeys, signed: usize) {
    let mac = keys.header_mac(&out[..signed]);
    out[signed..signed + 32].copy_from_slice(mac.as_bytes());
    let crc = block_crc(&out[..signed + 32]);
    out[signed + 32..signed + 36].copy_from_slice(&crc.to_le_bytes());
}

fn position(bytes: &[u8], at: usize) -> LogPosition {
    LogPosition::decode_whole(&field(bytes, at))
}
