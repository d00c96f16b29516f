//! Hash maps keyed by ids that the store assigns.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Keyed by a sequence or the id of a bucket, pack or file. The store assigns these numbers, so clients cannot choose
/// keys that collide, and a fast hash suffices.
pub(crate) type IdMap<V> = HashMap<i64, V, BuildHasherDefault<IdHasher>>;
/// Keyed by (blob or segment, bucket).
pub(crate) type IdPairMap<V> = HashMap<(i64, i64), V, BuildHasherDefault<IdHasher>>;

#[derive(Default, Clone, Copy)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_i64(i64::from(*byte));
        }
    }

    fn write_i64(&mut self, value: i64) {
        self.0 = (self.0.rotate_left(5) ^ value.cast_unsigned()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
