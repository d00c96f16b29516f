//! One pass over a target without libFuzzer: each seed of a directory, then copies of it with a few bytes changed. The
//! changes are the same in every run.

use std::path::PathBuf;

/// Changed copies of each seed.
const CHANGED: u64 = 1000;

/// Runs `target` with the files of the directories that the command line names.
///
/// # Panics
/// When `target` does, after printing the seed and the number of the changed copy; or without a seed.
pub fn replay(target: impl Fn(&[u8])) {
    let mut seeds: Vec<PathBuf> = Vec::new();
    for directory in std::env::args_os().skip(1) {
        let entries = std::fs::read_dir(&directory).expect("a directory of seeds");
        seeds.extend(entries.map(|entry| entry.expect("an entry of the directory").path()));
    }
    seeds.sort();
    assert!(!seeds.is_empty(), "the command line names no directory with seeds");
    for seed in &seeds {
        let data = std::fs::read(seed).expect("a seed");
        for copy in 0..=CHANGED {
            let running = Running { seed, copy };
            target(&changed(&data, copy));
            std::mem::forget(running);
        }
    }
    println!("{} inputs of {} seeds", seeds.len() as u64 * (CHANGED + 1), seeds.len());
}

/// Says in a panic which input was running.
struct Running<'a> {
    seed: &'a PathBuf,
    copy: u64,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        eprintln!("failed on {}, changed copy {}", self.seed.display(), self.copy);
    }
}

/// The seed for `copy` 0. Otherwise up to four bytes have other values, or the end is cut off.
fn changed(data: &[u8], copy: u64) -> Vec<u8> {
    let mut out = data.to_vec();
    if copy == 0 || out.is_empty() {
        return out;
    }
    // SplitMix64.
    let mut state = copy;
    let mut random = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    for _ in 0..random() % 5 {
        let at = (random() % out.len() as u64) as usize;
        out[at] = if random() % 2 == 0 { out[at] ^ (1 << (random() % 8)) } else { random() as u8 };
    }
    if random() % 8 == 0 {
        out.truncate((random() % out.len() as u64) as usize);
    }
    out
}
