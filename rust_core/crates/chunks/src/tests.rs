//! Packs on a real file system.

mod upkeep;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use orcas_base::block::CHUNK_LENGTH_MAX;
use orcas_base::error::{Error, Result};
use orcas_fs::FileSystem;
use orcas_fs::real::{RealFileSystem, SystemRandom};
use orcas_fs_testing::SimDisk;
use orcas_record::{HASHED_PREFIX, short_hash};

use super::*;

const KEY: [u8; 32] = [3; 32];

fn options(dir: &Path, pack_size: u64) -> PackOptions {
    PackOptions { dir: dir.to_owned(), store_id: [7; 16], pack_size, random: Arc::new(SystemRandom) }
}

impl WrittenChunk {
    pub(super) fn number(&self) -> u64 {
        codec::chunk_parts(self.at).0
    }

    pub(super) fn offset(&self) -> u64 {
        codec::chunk_parts(self.at).1
    }
}

pub(super) fn packs_of(numbers: &[u64]) -> Vec<PackId> {
    numbers.iter().copied().map(codec::pack).collect()
}

fn open(dir: &Path, live: &[u64]) -> Result<Packs> {
    Packs::open(Arc::new(RealFileSystem), options(dir, 1 << 20), &packs_of(live), None)
}

fn content(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) as u8 ^ seed as u8).collect()
}

fn put(packs: &Packs, bytes: &[u8], piece: usize) -> WrittenChunk {
    let mut writer = packs.reserve(bytes.len() as u32, &KEY).unwrap();
    bytes.chunks(piece).for_each(|piece| writer.write(piece).unwrap());
    writer.finish().unwrap()
}

fn get(packs: &Packs, chunk: &WrittenChunk, start: usize, length: usize) -> Result<Vec<u8>> {
    let mut buf = vec![0; length];
    packs.read(chunk.at, start as u32, &mut buf)?;
    Ok(buf)
}

#[test]
fn chunks_round_trip_in_any_range_and_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let packs = open(dir.path(), &[]).unwrap();
    let contents: Vec<_> =
        [0, 1, 65_536, 65_537, 400_000, 5_000_000].map(|length| content(length, length as usize)).into();
    let chunks: Vec<_> = contents.iter().map(|bytes| put(&packs, bytes, 50_000)).collect();
    packs.sync(&chunks).unwrap();
    let live = packs.unrecorded();
    assert_eq!(live, packs_of(&[1, 2]));
    live.iter().for_each(|pack| packs.born(*pack));
    assert!(packs.unrecorded().is_empty());
    for packs in [packs, open(dir.path(), &[1, 2]).unwrap()] {
        for (chunk, bytes) in chunks.iter().zip(&contents) {
            assert_eq!(chunk.fingerprint, *blake3::keyed_hash(&KEY, bytes).as_bytes());
            assert_eq!(get(&packs, chunk, 0, bytes.len()).unwrap(), *bytes);
            for (start, end) in [(0, 1), (65_535, 65_537), (65_536, 131_072), (70_000, 399_999)] {
                if end <= bytes.len() {
                    assert_eq!(get(&packs, chunk, start, end - start).unwrap(), bytes[start..end]);
                }
            }
            let mut buf = vec![0; bytes.len()];
            if packs.try_read(chunk.at, 0, &mut buf).unwrap() {
                assert_eq!(buf, *bytes);
            }
            assert!(matches!(get(&packs, chunk, bytes.len(), 1), Err(Error::Corrupt { .. })));
        }
    }
}

#[test]
fn a_written_chunk_carries_the_prefix_hash_of_its_content() {
    let dir = tempfile::tempdir().unwrap();
    let packs = open(dir.path(), &[]).unwrap();
    for length in [0, 1, HASHED_PREFIX - 1, HASHED_PREFIX, HASHED_PREFIX + 1, 3 * HASHED_PREFIX + 5] {
        let bytes = content(4, length);
        let covered = blake3::keyed_hash(&KEY, &bytes[..length.min(HASHED_PREFIX)]);
        for piece in [999, HASHED_PREFIX - 1, HASHED_PREFIX, HASHED_PREFIX + 1, 4 * HASHED_PREFIX] {
            let chunk = put(&packs, &bytes, piece);
            assert_eq!(chunk.prefix_hash, short_hash(covered.as_bytes()), "{length} bytes in pieces of {piece}");
            assert_eq!(chunk.fingerprint, *blake3::keyed_hash(&KEY, &bytes).as_bytes());
        }
    }
}

#[test]
fn the_space_of_an_abandoned_last_chunk_is_reserved_again() {
    let dir = tempfile::tempdir().unwrap();
    let packs = open(dir.path(), &[]).unwrap();
    let first = put(&packs, &content(1, 5000), 5000);
    let mut abandoned = packs.reserve(100_000, &KEY).unwrap();
    abandoned.write(&[0xee; 60_000]).unwrap();
    drop(abandoned);
    // The same after everything but the header was written.
    let mut abandoned = packs.reserve(9000, &KEY).unwrap();
    abandoned.write(&[0xdd; 9000]).unwrap();
    drop(abandoned);
    let next = put(&packs, &content(2, 30_000), 1000);
    assert_eq!(next.offset(), first.offset() + format::frame_length(5000));
    // If another chunk follows it, its space is dead.
    let mut abandoned = packs.reserve(20_000, &KEY).unwrap();
    abandoned.write(&[0xcc; 20_000]).unwrap();
    let behind = put(&packs, &content(3, 70_000), 70_000);
    drop(abandoned);
    let last = put(&packs, &content(4, 10_000), 10_000);
    assert_eq!(behind.offset(), next.offset() + format::frame_length(30_000) + format::frame_length(20_000));
    assert_eq!(last.offset(), behind.offset() + format::frame_length(70_000));
    let chunks = [first, next, behind, last];
    packs.sync(&chunks).unwrap();
    for (seed, chunk) in (1..).zip(&chunks) {
        let length = chunk.length as usize;
        assert_eq!(get(&packs, chunk, 0, length).unwrap(), content(seed, length));
    }
}

#[test]
fn a_flipped_bit_is_refused_where_it_is_touched_and_only_there() {
    let dir = tempfile::tempdir().unwrap();
    let packs = open(dir.path(), &[]).unwrap();
    let bytes = content(1, 200_000);
    let chunk = put(&packs, &bytes, bytes.len());
    packs.sync(std::slice::from_ref(&chunk)).unwrap();
    drop(packs);
    let path = pack_path(dir.path(), chunk.number());
    let good = std::fs::read(&path).unwrap();
    let frame = chunk.offset() as usize;
    let data = frame + format::content_start(chunk.length) as usize;
    for at in (frame..data).chain([data, data + 65_535, data + 65_536, data + 199_999]) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        std::fs::write(&path, &bad).unwrap();
        let packs = open(dir.path(), &[chunk.number()]).unwrap();
        for block in 0..4 {
            let from = block * 65_536;
            let until = (from + 65_536).min(200_000);
            let touched = at < data || (from..until).contains(&(at - data));
            match get(&packs, &chunk, from, until - from) {
                Ok(read) => assert!(!touched && read == bytes[from..until], "byte {at}, block {block}"),
                Err(Error::Corrupt { .. }) => assert!(touched, "byte {at}, block {block}"),
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn a_chunk_is_read_only_at_its_own_offset() {
    let dir = tempfile::tempdir().unwrap();
    let packs = open(dir.path(), &[]).unwrap();
    let chunk = put(&packs, &content(1, 3000), 3000);
    // A client stores the bytes of a frame as content: no chunk begins inside another's content.
    let frame = std::fs::read(pack_path(dir.path(), 1)).unwrap()[chunk.offset() as usize..].to_vec();
    let mut content = vec![0; 8192 - format::content_start(8192 + frame.len() as u32) as usize];
    content.extend_from_slice(&frame);
    content.resize(8192 + frame.len(), 0);
    let outer = put(&packs, &content, content.len());
    packs.sync(&[chunk.clone(), outer.clone()]).unwrap();
    let mut inner = chunk.clone();
    inner.at = codec::chunk(outer.number(), outer.offset() + 8192);
    assert_eq!(std::fs::read(pack_path(dir.path(), 1)).unwrap()[inner.offset() as usize..][..64], frame[..64]);
    assert!(matches!(get(&packs, &inner, 0, 3000), Err(Error::Corrupt { .. })));
    assert_eq!(get(&packs, &chunk, 0, 3000).unwrap().len(), 3000);
}

#[test]
fn a_writer_must_write_exactly_what_it_reserved() {
    let dir = tempfile::tempdir().unwrap();
    let packs = open(dir.path(), &[]).unwrap();
    let mut writer = packs.reserve(10, &KEY).unwrap();
    writer.write(&[1; 9]).unwrap();
    assert!(writer.write(&[1; 2]).is_err());
    assert!(writer.finish().is_err());
    assert!(packs.reserve(CHUNK_LENGTH_MAX + 1, &KEY).is_err());
    put(&packs, &content(1, 100), 7);
}

#[test]
fn missing_foreign_and_swapped_packs_are_refused_and_unrecorded_ones_removed() {
    let dir = tempfile::tempdir().unwrap();
    let packs = open(dir.path(), &[]).unwrap();
    let first = put(&packs, &content(1, 1_000_000), 100_000);
    let second = put(&packs, &content(2, 1_000_000), 100_000);
    assert_eq!((first.number(), second.number()), (1, 2));
    packs.sync(&[first, second]).unwrap();
    drop(packs);
    assert!(matches!(open(dir.path(), &[1, 2, 3]), Err(Error::Missing { .. })));
    let (one, two) = (pack_path(dir.path(), 1), pack_path(dir.path(), 2));
    let swap = dir.path().join("swap");
    let turn = || {
        std::fs::rename(&one, &swap).unwrap();
        std::fs::rename(&two, &one).unwrap();
        std::fs::rename(&swap, &two).unwrap();
    };
    turn();
    assert!(matches!(open(dir.path(), &[1, 2]), Err(Error::Foreign { .. })));
    turn();
    let stranger = PackOptions { store_id: [8; 16], ..options(dir.path(), 1 << 20) };
    assert!(matches!(
        Packs::open(Arc::new(RealFileSystem), stranger, &packs_of(&[1]), None),
        Err(Error::Foreign { .. })
    ));
    assert!(two.exists());
    let packs = open(dir.path(), &[1]).unwrap();
    assert!(one.exists() && !two.exists());
    assert_eq!(put(&packs, &content(3, 10), 10).number(), 3);
}

/// Creating a pack waits for the disk; meanwhile a commit asks which packs have no birth record.
#[test]
fn nobody_waits_for_a_pack_that_is_being_created() {
    let disk = SimDisk::new();
    let dir = Path::new("/chunks");
    disk.create_dir(dir).unwrap();
    let packs = Arc::new(Packs::open(Arc::new(disk.clone()), options(dir, 1 << 20), &[], None).unwrap());
    let (asking, steps) = (Arc::clone(&packs), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&steps);
    disk.on_step(move |_, _| {
        let (asking, (sender, answer)) = (Arc::clone(&asking), std::sync::mpsc::channel());
        std::thread::spawn(move || sender.send(asking.unrecorded()));
        assert_eq!(answer.recv_timeout(Duration::from_secs(10)), Ok(Vec::new()));
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let writer = packs.reserve(1_000, &[1; 32]).unwrap();
    assert!(steps.load(Ordering::Relaxed) > 2);
    assert_eq!(packs.unrecorded(), packs_of(&[1]));
    drop(writer);
}

#[test]
fn parallel_writers_share_packs_and_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let packs = open(dir.path(), &[]).unwrap();
    let chunks: Vec<WrittenChunk> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|seed| {
                let packs = &packs;
                scope.spawn(move || {
                    let chunk = put(packs, &content(seed, 200_000), 30_000);
                    packs.sync(std::slice::from_ref(&chunk)).unwrap();
                    chunk
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (seed, chunk) in chunks.iter().enumerate() {
        assert_eq!(get(&packs, chunk, 0, 200_000).unwrap(), content(seed as u64, 200_000));
    }
}
