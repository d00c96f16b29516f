//! Random bytes for seal ids, which are stored in the clear. Many are drawn at once, because each draw is a system call;
//! none is used twice.

use orcas_base::error::Result;
use orcas_base::sync::Mutex;
use orcas_fs::Random;

/// Bytes of one draw.
const DRAWN: usize = 2048;

#[derive(Default)]
pub(crate) struct SealIds(Mutex<Vec<u8>>);

impl SealIds {
    /// The next bytes, at most `DRAWN` at once.
    ///
    /// # Errors
    /// Those of `random`; nothing is drawn then.
    pub fn fill(&self, random: &dyn Random, bytes: &mut [u8]) -> Result<()> {
        let mut left = self.0.lock();
        if left.len() < bytes.len() {
            let mut drawn = vec![0; DRAWN.max(bytes.len())];
            random.fill(&mut drawn)?;
            *left = drawn;
        }
        let rest = left.len() - bytes.len();
        bytes.copy_from_slice(&left[rest..]);
        left.truncate(rest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashSet;

    use super::*;

    thread_local! {
        static DRAWS: Cell<u64> = const { Cell::new(0) };
    }

    /// No two eight bytes of it are equal.
    struct Counting;

    impl Random for Counting {
        fn fill(&self, bytes: &mut [u8]) -> Result<()> {
            let draw = DRAWS.replace(DRAWS.get() + 1);
            for (at, chunk) in (0_u64..).zip(bytes.chunks_exact_mut(8)) {
                chunk.copy_from_slice(&(draw << 32 | at).to_le_bytes());
            }
            Ok(())
        }
    }

    #[test]
    fn no_bytes_are_used_twice_and_few_draws_are_made() {
        let (ids, mut seen) = (SealIds::default(), HashSet::new());
        for _ in 0..200 {
            let mut id = [0; 32];
            ids.fill(&Counting, &mut id).unwrap();
            assert!(id.chunks_exact(8).all(|part| seen.insert(part.to_vec())), "{id:?}");
        }
        assert_eq!(DRAWS.get(), 4);
    }
}
