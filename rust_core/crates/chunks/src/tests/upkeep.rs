//! Copying, punching and retiring packs on a real file system.

use super::*;
use crate::format::{content_start, frame_length};

const PAGE: u64 = 4096;

fn bytes_of(dir: &Path, pack: u64) -> Vec<u8> {
    std::fs::read(pack_path(dir, pack)).unwrap()
}

fn synced(packs: &Packs, bytes: &[u8]) -> WrittenChunk {
    let chunk = put(packs, bytes, bytes.len().max(1));
    packs.sync(std::slice::from_ref(&chunk)).unwrap();
    chunk
}

fn is_corrupt<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Corrupt { .. }))
}

#[test]
fn a_pack_is_idle_when_it_is_closed_and_nothing_written_in_it_is_held() {
    let dir = tempfile::tempdir().unwrap();
    let packs = open(dir.path(), &[]).unwrap();
    assert!(packs.is_idle(codec::pack(1)), "never created");
    let writer = packs.reserve(10, &KEY).unwrap();
    let chunk = put(&packs, &content(1, 1000), 1000);
    packs.sync(std::slice::from_ref(&chunk)).unwrap();
    packs.born(codec::pack(1));
    packs.close(codec::pack(7));
    assert_eq!(put(&packs, &content(2, 10), 10).number(), 1);
    packs.close(codec::pack(1));
    assert!(!packs.is_idle(codec::pack(1)));
    drop(writer);
    assert!(!packs.is_idle(codec::pack(1)), "the written chunk is left");
    let (copy, pin) = (chunk.clone(), chunk.pin());
    drop(chunk);
    assert!(!packs.is_idle(codec::pack(1)), "a copy of it is left");
    drop(copy);
    assert!(!packs.is_idle(codec::pack(1)), "its pin is left");
    drop(pin);
    assert!(packs.is_idle(codec::pack(1)));
    let mut buf = [0; 1000];
    packs.read(codec::chunk(1, PAGE + frame_length(10)), 0, &mut buf).unwrap();
    assert_eq!(buf[..], content(1, 1000));
    assert!(packs.is_idle(codec::pack(1)), "reading does not keep it");
    drop(put(&packs, &content(3, 10), 10));
    assert!(!packs.is_idle(codec::pack(2)), "it is open");
    // A pack in which not even an empty chunk fits is closed.
    let filling = (1 << 20) - PAGE - frame_length(10) - content_start(1 << 20);
    drop(put(&packs, &content(4, filling as usize), 100_000));
    assert!(packs.is_idle(codec::pack(2)));
    assert_eq!(put(&packs, b"", 1).number(), 3);
    assert!(open(dir.path(), &[1, 2]).unwrap().is_idle(codec::pack(1)));
}

#[test]
fn a_copy_is_the_same_chunk_in_another_pack() {
    let dir = tempfile::tempdir().unwrap();
    let packs = open(dir.path(), &[]).unwrap();
    for length in [0, 1, 65_536, 65_537, 400_000, 3_000_001] {
        let bytes = content(length, length as usize);
        let chunk = synced(&packs, &bytes);
        let copy = packs.copy(chunk.at).unwrap();
        assert!(copy.number() > chunk.number(), "never into the pack it comes from, open or not");
        assert_eq!((copy.length, copy.fingerprint, copy.prefix_hash), (chunk.length, chunk.fingerprint, 0));
        packs.sync(std::slice::from_ref(&copy)).unwrap();
        assert_eq!(get(&packs, &copy, 0, bytes.len()).unwrap(), bytes);
        let info = ChunkInfo { length: chunk.length, fingerprint: chunk.fingerprint };
        assert_eq!(packs.read_whole(copy.at).unwrap(), (info, bytes.clone()));
        assert_eq!(packs.read_whole(chunk.at).unwrap(), (info, bytes));
        let (source, target) = (bytes_of(dir.path(), chunk.number()), bytes_of(dir.path(), copy.number()));
        let stood = |file: &[u8], offset: u64| {
            let start = (offset + content_start(chunk.length)) as usize;
            file[start..start + chunk.length as usize].to_vec()
        };
        assert!(stood(&source, chunk.offset()) == stood(&target, copy.offset()));
    }
}

#[test]
fn a_damaged_chunk_is_neither_copied_nor_read_whole() {
    let dir = tempfile::tempdir().unwrap();
    let packs = open(dir.path(), &[]).unwrap();
    let chunk = synced(&packs, &content(1, 3_000_000));
    packs.born(chunk.at.pack());
    let path = pack_path(dir.path(), chunk.number());
    let good = bytes_of(dir.path(), chunk.number());
    let data = chunk.offset() as usize + content_start(chunk.length) as usize;
    let fronts = [0, 4, 8, 12, 16, 47, 48, 63, 64, 64 + 4 * 45].map(|at| chunk.offset() as usize + at);
    let contents = [0, 65_536, 1_048_575, 1_048_576, 2_999_999].map(|at| data + at);
    for at in fronts.into_iter().chain(contents) {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        std::fs::write(&path, &bad).unwrap();
        let packs = open(dir.path(), &[chunk.number()]).unwrap();
        assert!(is_corrupt(packs.read_whole(chunk.at)), "byte {at}");
        assert!(is_corrupt(packs.copy(chunk.at)), "byte {at}");
        // The space that the failed copy had reserved is free again.
        assert_eq!(put(&packs, &content(2, 100), 100).offset(), PAGE);
    }
    std::fs::write(&path, &good).unwrap();
    assert!(is_corrupt(packs.read_whole(codec::chunk(chunk.number(), chunk.offset() + PAGE))));
    assert!(is_corrupt(packs.copy(codec::chunk(chunk.number(), 0))));
}

#[test]
fn a_hole_takes_the_pages_of_its_chunk_and_of_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let page = PAGE as usize;
    // Frames of one page and of two, contents that end on a page, in it and behind it, and a table of more than a page.
    let (largest, edges) = (CHUNK_LENGTH_MAX as usize, [page - 68, page - 67, page, 2 * page - 68]);
    let lengths = [0, 1, 5000, 65_536, 65_537, 200_000, 1_000_000, largest].into_iter().chain(edges);
    for (seed, length) in (1..).zip(lengths) {
        let packs = Packs::open(Arc::new(RealFileSystem), options(dir.path(), 1 << 28), &[], None).unwrap();
        let around = [synced(&packs, &content(seed + 100, 10_000)), synced(&packs, &content(seed, length))];
        let [before, dead] = around;
        let after = synced(&packs, &content(seed + 200, 10_000));
        let pack = dead.number();
        let old = bytes_of(dir.path(), pack);
        let prefix = content_start(dead.length).next_multiple_of(PAGE);
        let expected = frame_length(dead.length) - prefix;
        for again in 0..2 {
            let given_back = packs.punch(codec::chunk(pack, dead.offset())).unwrap();
            if !packs.has_holes() {
                println!("this file system has no holes");
                return;
            }
            assert_eq!(given_back, expected, "length {length}, {again} before");
        }
        packs.sync_pack(codec::pack(pack)).unwrap();
        let new = bytes_of(dir.path(), pack);
        let hole = (dead.offset() + prefix) as usize..(dead.offset() + prefix + expected) as usize;
        assert!(new.len() == old.len() && new[hole.clone()].iter().all(|byte| *byte == 0), "length {length}");
        assert!(new[..hole.start] == old[..hole.start] && new[hole.end..] == old[hole.end..], "length {length}");
        let kept = [(&before, content(seed + 100, 10_000)), (&after, content(seed + 200, 10_000))];
        kept.iter().for_each(|(chunk, bytes)| assert_eq!(get(&packs, chunk, 0, 10_000).unwrap(), *bytes));
        if expected == 0 {
            assert_eq!(packs.read_whole(codec::chunk(pack, dead.offset())).unwrap().1, content(seed, length));
        } else {
            assert!(is_corrupt(packs.read_whole(codec::chunk(pack, dead.offset()))));
            assert!(is_corrupt(packs.copy(codec::chunk(pack, dead.offset()))));
            for packs in [&packs, &open(dir.path(), &[pack]).unwrap()] {
                for start in (0..length).step_by(64 * 1024) {
                    assert!(is_corrupt(get(packs, &dead, start, 1)), "length {length}, byte {start}");
                }
            }
        }
    }
}

#[test]
fn holes_free_space_in_packs_of_an_earlier_process_too() {
    let dir = tempfile::tempdir().unwrap();
    let packs = open(dir.path(), &[]).unwrap();
    let chunks: Vec<_> = (0..4).map(|seed| synced(&packs, &content(seed, 200_000))).collect();
    drop(packs);
    let packs = open(dir.path(), &[1]).unwrap();
    let before = packs.files().unwrap();
    assert_eq!(before[0].length, bytes_of(dir.path(), 1).len() as u64);
    assert!(is_corrupt(packs.punch(codec::chunk(1, chunks[1].offset() + PAGE))), "no chunk begins there");
    assert!(is_corrupt(packs.punch(codec::chunk(1, 0))));
    assert!(is_corrupt(packs.punch(codec::chunk(1, 1 << 40))));
    assert!(matches!(packs.punch(codec::chunk(9, PAGE)), Err(Error::Missing { .. })));
    assert_eq!(packs.files().unwrap(), before);
    let given_back: u64 =
        [1, 3].iter().map(|at: &usize| packs.punch(codec::chunk(1, chunks[*at].offset())).unwrap()).sum();
    packs.sync_pack(codec::pack(1)).unwrap();
    let after = packs.files().unwrap();
    assert_eq!((after.len(), after[0].pack, after[0].length), (1, codec::pack(1), before[0].length));
    if packs.has_holes() {
        assert!(given_back >= 2 * (200_000 - PAGE));
        // A file system may count the blocks that hold its map of the file's holes.
        let map = 4 * PAGE;
        assert!(after[0].allocated + given_back <= before[0].allocated + map, "{before:?} {after:?} {given_back}");
    }
    for at in [0, 2] {
        assert_eq!(get(&packs, &chunks[at], 0, 200_000).unwrap(), content(at as u64, 200_000));
    }
    // The sync closed the descriptor; the next hole opens the pack again.
    packs.punch(codec::chunk(1, chunks[0].offset())).unwrap();
    packs.sync_pack(codec::pack(1)).unwrap();
}

#[test]
fn a_retired_pack_is_gone_and_one_in_use_is_not_retired() {
    let dir = tempfile::tempdir().unwrap();
    let packs = open(dir.path(), &[]).unwrap();
    let chunk = synced(&packs, &content(1, 100_000));
    packs.close(codec::pack(1));
    let copy = packs.copy(codec::chunk(1, chunk.offset())).unwrap();
    packs.sync(std::slice::from_ref(&copy)).unwrap();
    assert!(matches!(packs.retire(codec::pack(1)), Err(Error::Record { .. })));
    assert_eq!(get(&packs, &chunk, 0, 100_000).unwrap().len(), 100_000);
    let kept = chunk.at;
    drop(chunk);
    packs.retire(codec::pack(1)).unwrap();
    assert!(!packs.path(codec::pack(1)).exists());
    assert_eq!(packs.files().unwrap().iter().map(|file| file.pack).collect::<Vec<_>>(), packs_of(&[2]));
    assert!(matches!(packs.read(kept, 0, &mut [0; 10]), Err(Error::Missing { .. })));
    assert_eq!(packs.unrecorded(), packs_of(&[2]));
    assert!(packs.retire(codec::pack(1)).is_err());
    assert_eq!(get(&packs, &copy, 0, 100_000).unwrap(), content(1, 100_000));
    drop(packs);
    open(dir.path(), &[2]).unwrap();
}

#[test]
fn copies_and_holes_work_while_others_write() {
    let dir = tempfile::tempdir().unwrap();
    let packs = open(dir.path(), &[]).unwrap();
    let old: Vec<_> = (0..8).map(|seed| synced(&packs, &content(seed, 150_000))).collect();
    let (copies, fresh) = std::thread::scope(|scope| {
        let fresh = scope.spawn(|| (100..130).map(|seed| synced(&packs, &content(seed, 90_000))).collect::<Vec<_>>());
        let copies: Vec<_> = old
            .iter()
            .map(|chunk| {
                let copy = packs.copy(chunk.at).unwrap();
                packs.sync(std::slice::from_ref(&copy)).unwrap();
                packs.punch(chunk.at).unwrap();
                packs.sync_pack(chunk.at.pack()).unwrap();
                copy
            })
            .collect();
        (copies, fresh.join().unwrap())
    });
    for (seed, copy) in (0..).zip(&copies) {
        assert_eq!(get(&packs, copy, 0, 150_000).unwrap(), content(seed, 150_000));
    }
    for (seed, chunk) in (100..).zip(&fresh) {
        assert_eq!(get(&packs, chunk, 0, 90_000).unwrap(), content(seed, 90_000));
    }
}
