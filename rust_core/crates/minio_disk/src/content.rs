//! The bytes of one part of an object: shards are read from the drives, compared with their hashes, and put together.
//! Those that are missing or damaged are made from the others.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the files of another server")]

use std::fmt::Write;
use std::fs::File;
use std::io::{Error, Read};
use std::path::Path;

use minlz::Reader as S2Reader;

use crate::drives::{Drives, read_list, read_up_to, under};
use crate::erasure::{HASH, decoded, decoder, hash};
use crate::merge::Taken;
use crate::meta::{COMPRESSION, Part};
use crate::msgpack::Reader;
use crate::sealed::{Packages, of_part};

/// Bytes that are given at a time of what was compressed.
const PIECE: usize = 1 << 20;
/// Of the key and the length before inline content.
const INLINE_HEAD: usize = 64;
/// Each part is encrypted by itself.
const IN_PARTS: &[u8] = b"X-Minio-Internal-Encrypted-Multipart";

/// The next bytes; none at the end. The error says why they cannot be had.
type Next = Box<dyn FnMut() -> Result<Vec<u8>, String> + Send>;

/// A part, piece by piece.
pub struct Content(Next);

impl Content {
    /// The part with this place in the list of parts of the version at `path`, below the directories of drives.
    pub fn open(drives: &Drives, set: usize, path: &[u8], version: &Taken, part: usize) -> Option<Self> {
        let part = version.shape.parts.get(part)?;
        let mut blocks = Blocks::open(drives, set, path, version, *part);
        let mut next: Next = Box::new(move || blocks.next_block());
        if let Some(secret) = version.secret {
            let in_parts = version.metadata.contains_key(IN_PARTS);
            let secret = if in_parts { of_part(&secret, part.number) } else { secret };
            let mut packages = Packages::new(Stream::new(next), secret);
            next = Box::new(move || packages.next_piece());
        }
        if version.metadata.contains_key(COMPRESSION) {
            let mut reader = S2Reader::new(Stream::new(next));
            next = Box::new(move || {
                let mut piece = Vec::new();
                reader.by_ref().take(PIECE as u64).read_to_end(&mut piece).map_err(|error| error.to_string())?;
                Ok(piece)
            });
        }
        Some(Self(next))
    }

    /// The next bytes; none at the end. The error says why they cannot be had.
    pub fn next_piece(&mut self) -> Result<Vec<u8>, String> {
        (self.0)()
    }
}

/// Where a drive has a shard: in a file of its own, or from a byte of `xl.meta` on.
struct Shard {
    file: File,
    start: u64,
}

struct Blocks {
    shards: Vec<Option<Shard>>,
    data: usize,
    parity: usize,
    block: u64,
    number: u64,
    left: u64,
}

impl Blocks {
    fn open(drives: &Drives, set: usize, path: &[u8], version: &Taken, part: Part) -> Self {
        let shape = &version.shape;
        let is_inline = version.metadata.contains_key(&b"x-minio-internal-inline-data"[..]);
        let open = |holder: &Option<usize>| {
            let folder = under(drives.sets[set][(*holder)?].as_ref()?, path);
            let apart = || {
                let name = format!("{}/part.{}", uuid(&shape.data_dir), part.number);
                File::open(folder.join(name)).ok().map(|file| Shard { file, start: 0 })
            };
            let inside = || if shape.parts.len() == 1 { inline(&folder, &shape.id).ok().flatten() } else { None };
            // Not all that is inline says so.
            if is_inline { inside().or_else(apart) } else { apart().or_else(inside) }
        };
        let shards = if part.size == 0 { Vec::new() } else { version.holders.iter().map(open).collect() };
        Self { shards, data: shape.data, parity: shape.parity, block: shape.block, number: 0, left: part.size }
    }

    /// The next block; empty at the end.
    fn next_block(&mut self) -> Result<Vec<u8>, String> {
        if self.left == 0 {
            return Ok(Vec::new());
        }
        let length = self.block.min(self.left) as usize;
        let (size, whole) = (length.div_ceil(self.data), (self.block as usize).div_ceil(self.data));
        let mut have = Vec::new();
        let mut shards = Vec::new();
        for (number, place) in self.shards.iter_mut().enumerate() {
            if have.len() == self.data {
                break;
            }
            let Some(shard) = place else { continue };
            match read_shard(shard, self.number * (HASH + whole) as u64, size) {
                Some(bytes) => {
                    have.push(number);
                    shards.push(bytes);
                }
                // What follows may be sound, but a drive with damage is not needed if others are whole.
                None => *place = None,
            }
        }
        if have.len() < self.data {
            return Err(format!("{} sound shards are needed, and {} are left", self.data, have.len()));
        }
        let mut bytes = Vec::with_capacity(size * self.data);
        if have.iter().enumerate().all(|(at, number)| at == *number) {
            shards.iter().for_each(|shard| bytes.extend_from_slice(shard));
        } else {
            let rows = decoder(self.data, self.parity, &have).ok_or("its shards cannot be joined")?;
            for (number, row) in rows.iter().enumerate() {
                match have.iter().position(|held| *held == number) {
                    Some(at) => bytes.extend_from_slice(&shards[at]),
                    None => bytes.extend_from_slice(&decoded(row, &shards)),
                }
            }
        }
        bytes.truncate(length);
        self.number += 1;
        self.left -= length as u64;
        Ok(bytes)
    }
}

/// A shard of a block, if it has the hash before it.
fn read_shard(shard: &Shard, at: u64, size: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; HASH + size];
    if read_up_to(&shard.file, &mut bytes, shard.start.checked_add(at)?).ok()? < bytes.len() {
        return None;
    }
    let shard = bytes.split_off(HASH);
    (hash(&shard)[..] == bytes).then_some(shard)
}

/// Where `xl.meta` has the content of a version: behind the versions, in a map by their ids.
fn inline(folder: &Path, id: &[u8; 16]) -> Result<Option<Shard>, Error> {
    let file = File::open(folder.join("xl.meta"))?;
    let Some((_, mut at)) = read_list(&file)? else { return Ok(None) };
    let wanted = if *id == [0; 16] { "null".to_owned() } else { uuid(id) };
    let mut head = [0; INLINE_HEAD];
    let length = read_up_to(&file, &mut head, at)?;
    let mut reader = Reader(&head[..length]);
    let Some(count) = reader.take(1).filter(|version| *version == [1]).and_then(|_| reader.map_count()) else {
        return Ok(None);
    };
    at += (length - reader.0.len()) as u64;
    for _ in 0..count {
        let length = read_up_to(&file, &mut head, at)?;
        let mut reader = Reader(&head[..length]);
        let Some((name, size)) = reader.bytes().and_then(|name| Some((name, reader.bytes_length()?))) else {
            return Ok(None);
        };
        at += (length - reader.0.len()) as u64;
        if name == wanted.as_bytes() {
            return Ok(Some(Shard { file, start: at }));
        }
        at += size as u64;
    }
    Ok(None)
}

pub fn uuid(id: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in id.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Pieces as a stream.
struct Stream {
    next: Next,
    piece: Vec<u8>,
    given: usize,
}

impl Stream {
    fn new(next: Next) -> Self {
        Self { next, piece: Vec::new(), given: 0 }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> Result<usize, Error> {
        if self.given == self.piece.len() {
            (self.piece, self.given) = ((self.next)().map_err(Error::other)?, 0);
        }
        let count = into.len().min(self.piece.len() - self.given);
        into[..count].copy_from_slice(&self.piece[self.given..][..count]);
        self.given += count;
        Ok(count)
    }
}
