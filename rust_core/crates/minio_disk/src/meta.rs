//! `xl.meta`: the versions of an object, as one drive has them. `cmd/xl-storage-format-v2.go` of MinIO describes it.

use std::collections::BTreeMap;

use twox_hash::XxHash64;

use crate::msgpack::Reader;

/// The largest list of versions that is read, without the content that may follow it.
pub const META_MAX: usize = 64 << 20;
/// Bytes before the content that stand for the head and the lengths.
pub const HEAD_MAX: usize = 18;
/// Blocks of MinIO have 1 MiB, formerly 10 MiB.
const BLOCK_MAX: i64 = 16 << 20;
const SHARDS_MAX: i64 = 256;

/// In the metadata of what was compressed.
pub const COMPRESSION: &[u8] = b"X-Minio-Internal-compression";

pub type Metadata = BTreeMap<Vec<u8>, Vec<u8>>;

/// What must be the same on all drives that have a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Zero is the null version.
    pub id: [u8; 16],
    pub kind: Kind,
    pub modified_ns: i64,
    pub data_dir: [u8; 16],
    pub data: usize,
    pub parity: usize,
    pub block: u64,
    /// The number of the shard, from 1 on, that each drive of the set has.
    pub distribution: Vec<u8>,
    pub parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Object,
    Marker,
    /// Of a format from before 2020.
    Legacy,
}

/// `size` is that of what is stored, `actual` that before compression or encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub number: u64,
    pub size: u64,
    pub actual: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Version {
    pub shape: Shape,
    /// The number of the shard, from 1 on, that this drive has.
    pub index: usize,
    /// That of users and that of MinIO, whose names begin with `X-Minio-Internal-`.
    pub metadata: Metadata,
}

/// The versions in the bytes of a file, and where in them the content follows, which need not be there. `None`: the
/// file is damaged, or of another format.
pub fn parse(bytes: &[u8]) -> Option<(Vec<Version>, usize)> {
    let start = bytes.len();
    let mut reader = Reader(bytes);
    let minor = match reader.take(8)? {
        b"XL2 1   " => 0,
        [b'X', b'L', b'2', b' ', 1, 0, minor @ 0..=3, 0] => *minor,
        _ => return None,
    };
    if minor == 0 {
        return Some((listed(reader)?, start));
    }
    let list = reader.bytes()?;
    if minor >= 2 && reader.integer()? != i64::from(XxHash64::oneshot(0, list) as u32) {
        return None;
    }
    let versions = if minor == 3 { indexed(Reader(list))? } else { listed(Reader(list))? };
    Some((versions, start - reader.0.len()))
}

/// How many bytes of a file `parse` needs, by its first `HEAD_MAX` bytes; `None`: all.
pub fn needed(head: &[u8]) -> Option<usize> {
    let mut reader = Reader(head);
    if matches!(reader.take(8)?, [.., 0, 0] | [.., b' ']) {
        return None;
    }
    let length = match *reader.take(1)?.first()? {
        0xc4 => 1,
        0xc5 => 2,
        0xc6 => 4,
        _ => return None,
    };
    let claimed = reader.take(length)?.iter().fold(0, |value, byte| value << 8 | usize::from(*byte));
    Some(claimed + HEAD_MAX)
}

/// Since version 1.3: two numbers of formats, a count, and each version behind a header that repeats some of it.
fn indexed(mut reader: Reader<'_>) -> Option<Vec<Version>> {
    let (header, meta, count) = (reader.integer()?, reader.integer()?, reader.integer()?);
    if !(0..=3).contains(&header) || !(0..=3).contains(&meta) || count < 0 {
        return None;
    }
    let mut versions = Vec::new();
    for _ in 0..count {
        reader.bytes()?;
        versions.extend(version(&mut Reader(reader.bytes()?))?);
    }
    Some(versions)
}

/// Before: a map with one array.
fn listed(mut reader: Reader<'_>) -> Option<Vec<Version>> {
    let mut versions = Vec::new();
    reader.map(|key, reader| {
        if key != b"Versions" {
            return reader.skip();
        }
        versions = reader.array(version)?.into_iter().flatten().collect();
        Some(())
    })?;
    Some(versions)
}

/// `Some(None)` is a version that is only kept until content elsewhere is deleted.
fn version(reader: &mut Reader<'_>) -> Option<Option<Version>> {
    let (mut kind, mut version) = (0, Version::default());
    let (mut numbers, mut sizes, mut actual_sizes) = (Vec::new(), Vec::new(), Vec::new());
    reader.map(|key, reader| match key {
        b"Type" => {
            kind = reader.integer()?;
            Some(())
        }
        b"V2Obj" | b"DelObj" => reader.map(|key, reader| {
            let shape = &mut version.shape;
            match key {
                b"ID" => shape.id = reader.bytes()?.try_into().ok()?,
                b"DDir" => shape.data_dir = reader.bytes()?.try_into().ok()?,
                b"EcM" => shape.data = count(reader)?,
                b"EcN" => shape.parity = count(reader)?,
                b"EcBSize" => shape.block = reader.integer().filter(|size| (1..=BLOCK_MAX).contains(size))? as u64,
                b"EcIndex" => version.index = count(reader)?,
                b"EcDist" => shape.distribution = reader.array(|reader| u8::try_from(reader.integer()?).ok())?,
                b"EcAlgo" | b"CSumAlgo" => {
                    reader.integer().filter(|algorithm| *algorithm == 1)?;
                }
                b"PartNums" => numbers = reader.array(natural)?,
                b"PartSizes" => sizes = reader.array(natural)?,
                // Of some that came without a length, it is -1.
                b"PartASizes" => actual_sizes = reader.array(|reader| Some(reader.integer()?.max(0) as u64))?,
                b"MTime" => shape.modified_ns = reader.integer()?,
                b"MetaSys" | b"MetaUsr" => reader.map(|name, reader| {
                    version.metadata.insert(name.to_vec(), reader.bytes()?.to_vec());
                    Some(())
                })?,
                _ => reader.skip()?,
            }
            Some(())
        }),
        _ => reader.skip(),
    })?;
    version.shape.kind = match kind {
        1 => Kind::Object,
        2 => Kind::Marker,
        3 => Kind::Legacy,
        _ => return None,
    };
    if version.metadata.contains_key(&b"x-minio-internal-tier-free-marker"[..]) {
        return Some(None);
    }
    if kind == 1 {
        let shape = &mut version.shape;
        let sound = shape.block > 0
            && shape.data > 0
            && shape.data >= shape.parity
            && (shape.data + shape.parity) as i64 <= SHARDS_MAX
            && shape.distribution.len() == shape.data + shape.parity
            && numbers.len() == sizes.len();
        sound.then_some(())?;
        let actual = |at: usize| actual_sizes.get(at).copied().unwrap_or(sizes[at]);
        shape.parts = numbers
            .iter()
            .enumerate()
            .map(|(at, number)| Part { number: *number, size: sizes[at], actual: actual(at) })
            .collect();
    }
    Some(Some(version))
}

fn natural(reader: &mut Reader<'_>) -> Option<u64> {
    u64::try_from(reader.integer()?).ok()
}

fn count(reader: &mut Reader<'_>) -> Option<usize> {
    reader.integer().filter(|count| (0..=SHARDS_MAX).contains(count)).map(|count| count as usize)
}
