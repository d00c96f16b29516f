//! Randomness that repeats with its seed.

use parking_lot::Mutex;

use orcas_base::error::Result;
use orcas_fs::Random;

/// A small generator (xorshift64*). A run can be repeated from its seed.
#[derive(Clone, Debug)]
pub struct SimRng(u64);

impl SimRng {
    pub fn new(seed: u64) -> Self {
        let mut rng = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        rng.next();
        rng
    }

    #[allow(clippy::should_implement_trait, reason = "it never ends, so it is not an iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }
}

/// Salts that repeat with the seed.
pub struct SimRandom(Mutex<SimRng>);

impl SimRandom {
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(SimRng::new(seed)))
    }
}

impl Random for SimRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        let mut rng = self.0.lock();
        bytes.iter_mut().for_each(|byte| *byte = rng.next() as u8);
        Ok(())
    }
}
