//! A small store in which everything happens soon: files roll after a few objects, all content is shared, and the same
//! seed gives the same store.

#[path = "../../src/tests/options.rs"]
mod engine_options;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use orcas_engine::{Clock, EngineOptions, Environment, IndexPlace, ReclaimLimits};
use orcas_fs_testing::{SimDisk, SimRandom, SimRng};
use orcas_record::{Durability, RefLevel};

const CHUNK: usize = 6 << 10;
/// Chunks of which a manifest of its own does not hold enough for one object.
const TINY_CHUNK: usize = 256;
const TINY_CHUNKS: u64 = 66;
/// Contents up to this length are one content of the log; larger ones are cut into chunks.
pub const SMALL_MAX: usize = CHUNK;

/// Everything that is worth anything is rewritten.
pub const LIMITS: ReclaimLimits =
    ReclaimLimits { live_max: 0.97, freed_min: 1, output_max: 1 << 30, compact: true, hurry: false };

/// A millisecond passes whenever somebody looks.
#[derive(Default)]
struct TestClock(AtomicU64);

impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        1_700_000_000_000 + self.0.load(Ordering::Relaxed)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// What a schedule is about.
pub struct World {
    pub options: EngineOptions,
    /// Numbers of the contents in use. The fewer, the more often they die and come back.
    pub contents: &'static [usize],
    pub clients: u64,
    /// Of one client.
    pub operations: u64,
}

/// How long the manifests are.
#[derive(Clone, Copy)]
pub enum Manifests {
    Short,
    /// Too long to stand in their objects.
    Segmented,
}

impl World {
    pub fn new(seed: u64, manifests: Manifests) -> Self {
        let mut rng = SimRng::new(seed ^ 0x7ace);
        let mut options = options(&mut rng);
        let contents: &[usize] = match (manifests, rng.below(8)) {
            (Manifests::Segmented, _) => {
                options.chunk_size = TINY_CHUNK as u32;
                options.pack_size = 1 << 20;
                &[0, 5, 6]
            }
            (Manifests::Short, 0) => &[0],
            (Manifests::Short, 1) => &[2],
            (Manifests::Short, 2..=3) => &[1, 4],
            (Manifests::Short, _) => &[0, 1, 2, 3, 4],
        };
        Self { options, contents, clients: 2 + rng.below(3), operations: 2 + rng.below(3) }
    }
}

fn options(rng: &mut SimRng) -> EngineOptions {
    let durability = match rng.below(8) {
        0 => Durability::Interval,
        1 => Durability::Buffered,
        2 => Durability::UnsafeNone,
        _ => Durability::Sync,
    };
    EngineOptions {
        batch_write_enabled: rng.below(2) > 0,
        write_buffer_window: Duration::from_millis(20),
        max_write_buffer_size: 16 << 10,
        max_write_buffer_count: 4,
        chunk_size: CHUNK as u32,
        durability,
        ref_level: if rng.below(4) > 0 { RefLevel::Full } else { RefLevel::Fast },
        sync_interval: Duration::from_millis(20),
        log_file_size: 8 << 10,
        pack_size: 32 << 10,
        ..engine_options::options(Path::new("/data"))
    }
}

pub fn environment(disk: &SimDisk, seed: u64) -> Environment {
    Environment {
        fs: Arc::new(disk.clone()),
        clock: Arc::new(TestClock::default()),
        random: Arc::new(SimRandom::new(seed)),
        index: IndexPlace::Memory(None),
    }
}

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut out = vec![0; length];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
    out
}

/// What objects are made of: two small contents, three of chunks, which share some, two of so many chunks that they stand
/// in a segment, and one within the record of its object.
pub fn contents() -> &'static [Vec<u8>] {
    static CONTENTS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    CONTENTS.get_or_init(|| {
        let chunk = |number| noise(CHUNK, number);
        let tiny = |first: u64| -> Vec<u8> {
            (first..first + TINY_CHUNKS).flat_map(|number| noise(TINY_CHUNK, number)).collect()
        };
        vec![
            noise(2_000, 1),
            noise(3_000, 2),
            [chunk(3), chunk(4)].concat(),
            [chunk(4), chunk(5), chunk(3)].concat(),
            [chunk(6), noise(1_000, 7)].concat(),
            tiny(100),
            tiny(130),
            noise(100, 8),
        ]
    })
}
