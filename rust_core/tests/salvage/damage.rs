//! What is done to a store: bytes changed, runs of bytes overwritten, files cut or removed.

use std::collections::{BTreeMap, BTreeSet};

use orcas_fs_testing::SimRng;

use crate::store::Built;

/// Bytes of a log file that only its header takes, and of a pack.
const HEADER: usize = 4096;
const PLACES_MAX: u64 = 100;
const RUN_MAX: u64 = 6_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    Kept,
    Missing,
    /// So many bytes of each file are changed.
    Garbled(u64),
    /// The database alone, or cut.
    WithoutWal,
    Cut,
}

#[derive(Debug)]
pub struct Plan {
    pub seed: u64,
    pub index: Index,
    pub removed: BTreeSet<String>,
    /// Bytes that are left.
    pub cut: BTreeMap<String, usize>,
    /// Bytes by file and offset.
    pub written: Vec<(String, usize, Vec<u8>)>,
}

impl Plan {
    pub fn nothing() -> Self {
        Self { seed: 0, index: Index::Kept, removed: BTreeSet::new(), cut: BTreeMap::new(), written: Vec::new() }
    }

    /// Every header of log and packs is gone, and so are the keys.
    pub fn headless(files: &BTreeMap<String, Vec<u8>>) -> Self {
        let mut plan = Self::nothing();
        for (name, bytes) in files {
            if name.contains('/') {
                plan.written.push((name.clone(), 0, vec![0xa5; HEADER.min(bytes.len())]));
            } else {
                plan.removed.insert(name.clone());
            }
        }
        plan
    }

    pub fn random(seed: u64, built: &Built) -> Self {
        let mut rng = SimRng::new(seed);
        let mut plan = Self { seed, ..Self::nothing() };
        plan.index = match rng.below(6) {
            0 | 1 => Index::Missing,
            2 => Index::Kept,
            3 => Index::Garbled(1 + rng.below(20)),
            4 => Index::WithoutWal,
            _ => Index::Cut,
        };
        let names: Vec<&String> = built.files.keys().filter(|name| !built.files[*name].is_empty()).collect();
        // Small numbers as often as large ones.
        let most = 1 + rng.below(PLACES_MAX);
        let places = 1 + rng.below(most);
        for _ in 0..places {
            let name = names[rng.below(names.len() as u64) as usize];
            plan.place(&mut rng, name, &built.files[name]);
        }
        for _ in 0..rng.below(3) * rng.below(3) {
            let name = names[rng.below(names.len() as u64) as usize].clone();
            match rng.below(3) {
                0 => {
                    plan.removed.insert(name);
                }
                1 => {
                    let left = rng.below(built.files[&name].len() as u64) as usize;
                    plan.cut.insert(name, left);
                }
                _ => plan.written.push((name.clone(), 0, vec![0; HEADER.min(built.files[&name].len())])),
            }
        }
        if rng.below(8) == 0 {
            plan.removed.extend(["store.keys", "store.keys.copy"].map(str::to_owned));
        }
        plan
    }

    fn place(&mut self, rng: &mut SimRng, name: &str, bytes: &[u8]) {
        let at = match rng.below(8) {
            // Where nothing but a header is.
            0 => rng.below(bytes.len().min(264) as u64),
            _ => rng.below(bytes.len() as u64),
        } as usize;
        let length = match rng.below(4) {
            0 => 1 + rng.below(RUN_MAX) as usize,
            _ => 1,
        };
        let zeros = rng.below(3) == 0;
        let run = bytes[at..(at + length).min(bytes.len())].iter();
        let changed = run.map(|byte| if zeros { 0 } else { byte ^ (1 + rng.below(255) as u8) }).collect();
        self.written.push((name.to_owned(), at, changed));
    }

    /// Whether a byte of this range is not what it was.
    pub fn hits(&self, files: &BTreeMap<String, Vec<u8>>, name: &str, from: usize, until: usize) -> bool {
        let whole = &files[name];
        self.removed.contains(name)
            || self.cut.get(name).is_some_and(|left| *left < until)
            || self.written.iter().any(|(file, at, bytes)| {
                let (first, last) = ((*at).max(from), (at + bytes.len()).min(until));
                // Later writes may have brought the byte back; that counts as hit all the same.
                file == name && first < last && (first..last).any(|place| bytes[place - at] != whole[place])
            })
    }
}
