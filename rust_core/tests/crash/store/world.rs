//! What the engine takes from the world, made repeatable: options small enough that files roll, a clock that the test
//! moves, randomness that tells upload ids before they are drawn, and the box into which answers fall.

#[path = "../../../crates/engine/src/tests/options.rs"]
mod options;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use orcas_base::error::Result;
use orcas_decide::{Failure, Outcome};
use orcas_engine::{Clock, CompletionSink, EngineOptions, Environment, IndexPlace, Stepper};
use orcas_fs::Random;
use orcas_fs_testing::{SimDisk, SimRandom, SimRng};
use orcas_record::{Durability, RefLevel, UploadId};
use parking_lot::Mutex;

use super::sealed::Mode;
use crate::keys::OneKey;

const EPOCH_MS: u64 = 1_700_000_000_000;
/// Bytes.
pub const CHUNK_SIZE: u32 = 12 << 10;
pub const INTERVAL: Duration = Duration::from_millis(50);

#[derive(Default)]
pub struct TestClock {
    monotonic_ms: AtomicU64,
    /// How far somebody has set the clock forward.
    ahead_ms: AtomicU64,
}

impl TestClock {
    pub fn advance(&self, by: Duration) {
        self.monotonic_ms.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    }

    /// Sets the time of the day to some time after the beginning; if it was ahead, it may go back.
    pub fn set_ahead(&self, by: Duration) {
        self.ahead_ms.store(by.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        EPOCH_MS + self.ahead_ms.load(Ordering::Relaxed) + self.monotonic_ms.load(Ordering::Relaxed)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.monotonic_ms.load(Ordering::Relaxed))
    }
}

/// Bytes that an upload id takes from the generator; nothing else takes as many.
const UPLOAD_ID_RANDOM: usize = 6;

/// Counts the upload ids drawn and makes the count the id.
pub struct TestRandom {
    other: SimRandom,
    uploads: AtomicU64,
}

impl TestRandom {
    pub fn drawn(&self) -> u64 {
        self.uploads.load(Ordering::Relaxed)
    }
}

impl Random for TestRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        if bytes.len() != UPLOAD_ID_RANDOM {
            return self.other.fill(bytes);
        }
        let number = self.uploads.fetch_add(1, Ordering::Relaxed);
        bytes.copy_from_slice(&number.to_be_bytes()[2..]);
        Ok(())
    }
}

/// The id of the upload that takes draw `number` at `now_ms`, in a life that began with draw `first`.
pub fn upload_id(now_ms: u64, first: u64, number: u64) -> UploadId {
    let mut id = [0; 16];
    id[..6].copy_from_slice(&now_ms.to_be_bytes()[2..]);
    id[6..10].copy_from_slice(&((number - first) as u32).to_be_bytes());
    id[10..].copy_from_slice(&number.to_be_bytes()[2..]);
    UploadId(id)
}

/// Answers in the order they were given.
#[derive(Default)]
pub struct Answers(Mutex<Vec<(u64, Result<Outcome, Failure>)>>);

impl Answers {
    pub fn take(&self) -> Vec<(u64, Result<Outcome, Failure>)> {
        std::mem::take(&mut self.0.lock())
    }
}

impl CompletionSink for Answers {
    fn complete(&self, token: u64, result: Result<Outcome, Failure>) {
        self.0.lock().push((token, result));
    }
}

/// One store's options with clock and randomness; all lives of a store share them.
#[derive(Clone)]
pub struct World {
    pub options: EngineOptions,
    pub clock: Arc<TestClock>,
    pub random: Arc<TestRandom>,
    pub mode: Mode,
    keys: Arc<OneKey>,
}

impl World {
    pub fn new(seed: u64, durability: Durability, rng: &mut SimRng) -> Self {
        let options = EngineOptions {
            batch_write_enabled: rng.below(4) > 0,
            write_buffer_window: Duration::from_millis(20 + rng.below(100)),
            max_write_buffer_size: 8 << 10 << rng.below(4),
            max_write_buffer_count: 2 + rng.below(12) as u32,
            chunk_size: CHUNK_SIZE,
            durability,
            ref_level: [RefLevel::Full, RefLevel::Full, RefLevel::Fast, RefLevel::Off][rng.below(4) as usize],
            sync_interval: INTERVAL,
            log_file_size: 8 << 10 << rng.below(3),
            pack_size: 64 << 10,
            ..options::options(Path::new("/data"))
        };
        Self { options, clock: Arc::default(), random: Self::random(seed), mode: Mode::of(seed), keys: OneKey::of(1) }
    }

    fn random(seed: u64) -> Arc<TestRandom> {
        Arc::new(TestRandom { other: SimRandom::new(seed), uploads: AtomicU64::new(0) })
    }

    /// The same store opened by somebody whose choices must not change those of the run.
    pub fn aside(&self, seed: u64) -> Self {
        Self { random: Self::random(seed ^ 0x0a51_de00), ..self.clone() }
    }

    pub fn open(&self, disk: &SimDisk, index: Option<Arc<Vec<u8>>>) -> Result<Stepper> {
        let environment = Environment {
            fs: Arc::new(disk.clone()),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            random: Arc::clone(&self.random) as Arc<dyn Random>,
            index: IndexPlace::Memory(index),
        };
        let stepper = Stepper::open(self.options.clone(), environment)?;
        stepper.handle().keys().set(Arc::clone(&self.keys) as _);
        Ok(stepper)
    }
}
