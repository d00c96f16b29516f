//! What disks do to files beside changing a byte: a file ends early, or blocks of another one stand in it. A store that
//! opens shows what was stored or an error, as with a flipped byte, and `fsck` names the file; one that lacks the end of a
//! file says that it is damaged before anybody asks for what stood there.

use std::panic::{AssertUnwindSafe, catch_unwind};

use orcas_fs_testing::SimRng;

use crate::judge::{Bench, Effect, FlipResult, Said};
use crate::store::{self, Built, LARGE};
use crate::{is_clear, kind};

/// Of each store.
const HARMS: u64 = 150;
const BLOCK: usize = 4096;
const BLOCKS_MAX: u64 = 8;

#[derive(Debug)]
enum Harm {
    /// The file ends here.
    Cut(usize),
    /// Blocks of this file, from the same place of it.
    Blocks { of: String, at: usize, length: usize },
}

/// Something that happens to a log file or a pack.
fn random(rng: &mut SimRng, built: &Built) -> (String, Harm) {
    let names: Vec<&String> = built.files.keys().filter(|name| kind(name) != "keys").collect();
    let any = |rng: &mut SimRng| names[rng.below(names.len() as u64) as usize].clone();
    loop {
        let name = any(rng);
        let bytes = &built.files[&name];
        if rng.below(2) == 0 {
            // Little may be gone, or much.
            let most = 1 + rng.below(bytes.len() as u64);
            return (name, Harm::Cut(bytes.len() - 1 - rng.below(most) as usize));
        }
        let of = any(rng);
        let shared = bytes.len().min(built.files[&of].len()) / BLOCK;
        // Headers tell files apart before anything else does.
        if of == name || kind(&of) != kind(&name) || shared < 2 {
            continue;
        }
        // A few, or all behind the header.
        let (first, count) = match rng.below(4) {
            0 => (1, shared - 1),
            _ => {
                let first = 1 + rng.below(shared as u64 - 1) as usize;
                (first, (1 + rng.below(BLOCKS_MAX) as usize).min(shared - first))
            }
        };
        return (name, Harm::Blocks { of, at: first * BLOCK, length: count * BLOCK });
    }
}

fn change(bench: &Bench<'_>, name: &str, harm: &Harm) -> FlipResult {
    match harm {
        Harm::Cut(left) => bench.change(name, &|file| file.set_len(*left as u64).unwrap()),
        Harm::Blocks { of, at, length } => {
            let blocks = &bench.built.files[of][*at..at + length];
            bench.change(name, &|file| file.write_at(*at as u64, blocks).unwrap())
        }
    }
}

/// Whether a log that was not closed has lost its end: then nobody can tell without an index what stood there.
fn takes_the_end(built: &Built, name: &str, harm: &Harm) -> bool {
    let last = built.files.iter().rfind(|(name, bytes)| kind(name) == "log" && bytes.starts_with(b"ORCASLOG"));
    let Some((_, bytes)) = last.filter(|(last, _)| *last == name && !built.undecided.is_empty()) else { return false };
    let written = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
    match harm {
        Harm::Cut(_) => true,
        Harm::Blocks { at, length, .. } => at + length > written,
    }
}

/// What is wrong with what a store shows after that.
fn judge(built: &Built, name: &str, harm: &Harm, result: &FlipResult) -> Option<String> {
    let mut noticed = false;
    let rebuilt = result.rebuilt.as_ref().filter(|_| !takes_the_end(built, name, harm));
    for effect in result.kept.as_ref().into_iter().chain(rebuilt) {
        match effect {
            Effect::Refused(error) if is_clear(error) => noticed = true,
            Effect::Refused(error) => return Some(format!("refused unclearly: {error}")),
            Effect::Opened(seen) => {
                let torn = seen.absent.iter().all(|key| built.undecided.iter().any(|name| name.ends_with(key)));
                if !seen.wrong.is_empty() || !torn {
                    return Some(format!("it shows something else: absent {:?}, {:?}", seen.absent, seen.wrong));
                }
                noticed |= seen.errors > 0;
                if matches!(harm, Harm::Cut(_)) && seen.errors > 0 && !seen.told {
                    return Some(format!("nobody is told: {:?}", seen.first_error));
                }
            }
        }
    }
    match &result.said {
        Said::Failed(error) => Some(format!("the check failed: {error}")),
        Said::Elsewhere(what) => Some(format!("the check does not name the file, but {what}")),
        Said::Nothing if noticed => Some("the check is silent".to_owned()),
        Said::Nothing | Said::Named => None,
    }
}

/// One of them, by its seed; what is wrong then.
pub fn attempt(bench: &Bench<'_>, seed: u64) -> Option<String> {
    let (name, harm) = random(&mut SimRng::new(seed), bench.built);
    let judged = catch_unwind(AssertUnwindSafe(|| judge(bench.built, &name, &harm, &change(bench, &name, &harm))));
    let what = judged.unwrap_or_else(|_| Some("it panics".to_owned()))?;
    Some(format!("seed {seed}, {name}, {harm:?}: {what}"))
}

#[test]
fn files_that_end_early_and_blocks_in_the_wrong_file() {
    for built in [store::closed(LARGE), store::killed(LARGE)] {
        let bench = Bench::new(&built, true);
        let failures: Vec<String> = (1..=HARMS).filter_map(|seed| attempt(&bench, seed)).collect();
        failures.iter().for_each(|failure| println!("{failure}"));
        assert!(failures.is_empty(), "{} of {HARMS} did harm", failures.len());
    }
}
