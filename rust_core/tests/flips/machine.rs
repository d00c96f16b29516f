//! What the stores of this suite stand on: a simulated disk, a clock that stands still, and randomness that repeats.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orcas_base::error::Result;
use orcas_engine::{Clock, Environment, IndexPlace, Stepper};
use orcas_fs::FileSystem;
use orcas_fs_testing::{SimDisk, SimRandom};

use super::keys::OneKey;
use super::size::{Size, options};

/// The time that it always is, milliseconds since the Unix epoch.
pub const NOW_MS: u64 = 1_700_000_000_000;

struct StillClock;

impl Clock for StillClock {
    fn now_ms(&self) -> u64 {
        NOW_MS
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

pub fn open(disk: &SimDisk, data: &Path, size: Size, index: IndexPlace) -> Result<Stepper> {
    let stepper = Stepper::open(options(data, size), environment(disk, index))?;
    stepper.handle().keys().set(OneKey::of(1));
    Ok(stepper)
}

pub fn environment(disk: &SimDisk, index: IndexPlace) -> Environment {
    Environment { fs: Arc::new(disk.clone()), clock: Arc::new(StillClock), random: Arc::new(SimRandom::new(7)), index }
}

/// A disk on which the directory is there.
pub fn disk_with(data: &Path) -> SimDisk {
    let disk = SimDisk::new();
    let mut ancestors: Vec<&Path> = data.ancestors().filter(|path| path.parent().is_some()).collect();
    ancestors.reverse();
    ancestors.iter().for_each(|path| disk.create_dir(path).unwrap());
    disk
}

/// `length` bytes that do not repeat, the same for the same seed.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut out = vec![0; length];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
    out
}
