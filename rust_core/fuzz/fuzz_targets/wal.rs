//! The write-ahead log of the index. One part compares what `PageChecksums` remembers of frames with a plain model, another
//! checks that a damaged file is taken for broken exactly when a frame behind the damage stands in the database.
#![cfg_attr(fuzzing, no_main)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use orcas_fuzz::{Input, fuzz_target};

#[allow(dead_code, reason = "the index uses more of it")]
#[path = "../../crates/index/src/files/frames.rs"]
mod frames;
#[allow(dead_code, reason = "the index uses more of it")]
#[path = "../../crates/index/src/files/layout.rs"]
mod layout;

use frames::{FRAME, is_broken};
use layout::PAGE;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const FRAMES_MAX: u8 = 4;

/// SQLite's checksum: pairs of words, each added to what came before.
fn chained(mut sums: (u32, u32), bytes: &[u8], big_endian: bool) -> (u32, u32) {
    for pair in bytes.chunks_exact(8) {
        let word = |at: usize| {
            let word = [pair[at], pair[at + 1], pair[at + 2], pair[at + 3]];
            if big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
        };
        sums.0 = sums.0.wrapping_add(word(0)).wrapping_add(sums.1);
        sums.1 = sums.1.wrapping_add(word(4)).wrapping_add(sums.0);
    }
    sums
}

fn push_sums(out: &mut Vec<u8>, sums: (u32, u32)) {
    out.extend_from_slice(&sums.0.to_be_bytes());
    out.extend_from_slice(&sums.1.to_be_bytes());
}

/// A write-ahead log with these pages, each of one repeated byte, as SQLite writes it.
fn write_ahead_log(pages: &[(u32, u8)], salts: [u8; 8], big_endian: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + pages.len() * FRAME);
    for word in [0x377f_0682 + u32::from(big_endian), 3_007_000, PAGE as u32, 0] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out.extend_from_slice(&salts);
    let mut sums = chained((0, 0), &out, big_endian);
    push_sums(&mut out, sums);
    for (number, byte) in pages {
        let start = out.len();
        out.extend_from_slice(&number.to_be_bytes());
        out.extend_from_slice(&[0, 0, 0, 1]);
        sums = chained(sums, &out[start..], big_endian);
        out.extend_from_slice(&salts);
        let page = [*byte; PAGE];
        sums = chained(sums, &page, big_endian);
        push_sums(&mut out, sums);
        out.extend_from_slice(&page);
    }
    out
}

/// Where the database stands; its write-ahead log is beside it.
fn place() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        parent.join(format!("orcas-fuzz-wal-{}", std::process::id()))
    })
}

fn judged(database: &[u8], log: &[u8]) -> bool {
    let wal = format!("{}-wal", place().display());
    std::fs::write(place(), database).expect("there is room for a few pages");
    std::fs::write(&wal, log).expect("there is room for a few pages");
    let broken = is_broken(place()).expect("both files can be read");
    std::fs::remove_file(place()).expect("it was written");
    std::fs::remove_file(wal).expect("it was written");
    broken
}

/// A sound log with one byte changed, and a database that has some of its pages.
fn damaged(mut input: Input<'_>) {
    let (big_endian, salts) = (input.u8() & 1 == 1, input.array());
    let count = 1 + input.u8() % FRAMES_MAX;
    let pages: Vec<(u32, u8)> = (0..count).map(|_| (u32::from(input.u8() % 6), input.u8())).collect();
    let mut log = write_ahead_log(&pages, salts, big_endian);
    let mut database = vec![0xa5; 5 * PAGE];
    let held = input.u8();
    for (at, (number, byte)) in pages.iter().enumerate() {
        if held >> at & 1 == 1 && (1..=5).contains(number) {
            database[(*number as usize - 1) * PAGE..][..PAGE].fill(*byte);
        }
    }
    assert!(!judged(&database, &log), "nothing was damaged");

    let at = input.u32() as usize % log.len();
    log[at] ^= input.u8().max(1);
    let behind = at.checked_sub(HEADER).map(|at| at / FRAME + 1);
    let stands = |(number, byte): &(u32, u8)| {
        let page = (*number as usize).checked_sub(1).and_then(|before| database.get(before * PAGE..)?.get(..PAGE - 8));
        page.is_some_and(|page| page.iter().all(|stored| stored == byte))
    };
    // The header was durable before any frame was.
    let expected = behind.is_none_or(|behind| pages[behind..].iter().any(stands));
    assert_eq!(judged(&database, &log), expected, "byte {at}");
}

/// Any bytes.
fn arbitrary(mut input: Input<'_>) {
    let length = usize::from(input.u16());
    let database = input.take(length);
    judged(database, input.rest());
}

/// What a frame's page was last, as far as it is known: `None` after it was written in pieces.
type Model = HashMap<usize, Option<u8>>;

fn remembered(mut input: Input<'_>) {
    let sums = frames::checksums_of(c"of this input");
    let mut model = Model::new();
    while !input.is_empty() {
        let (how, frame, byte) = (input.u8(), usize::from(input.u8() % 8), input.u8());
        let start = HEADER + frame * FRAME;
        let whole = how & 2 == 2;
        let bytes = vec![byte; if whole { FRAME } else { PAGE }];
        let offset = if whole { start } else { start + FRAME_HEADER };
        match how & 0x0d {
            0 | 4 => {
                sums.written(&bytes, offset);
                model.insert(frame, Some(byte));
            }
            1 => {
                sums.written(&bytes[..usize::from(input.u8()).max(1)], start + FRAME_HEADER);
                model.insert(frame, None);
            }
            5 => sums.written(&bytes[..FRAME_HEADER], start),
            _ => {
                let known = model.get(&frame).copied().flatten();
                assert_eq!(sums.read(&bytes, offset), known.is_none_or(|known| known == byte));
                if whole && known.is_none() {
                    model.insert(frame, Some(byte));
                }
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    match input.u8() % 3 {
        0 => damaged(input),
        1 => arbitrary(input),
        _ => remembered(input),
    }
});
