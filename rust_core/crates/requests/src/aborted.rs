//! The uploads that were aborted last: AbortMultipartUpload answers once more for them.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;

use orcas_record::{BucketId, UploadId};

/// Aborted uploads, in memory: after a start of the server there are none.
#[derive(Default)]
pub struct Aborted {
    /// The id, and a hash of bucket and key. Looked through only for an id that is not known otherwise.
    last: Mutex<VecDeque<(UploadId, u64)>>,
    hasher: RandomState,
}

impl Aborted {
    const MAX: usize = 4_096;

    pub fn keep(&self, bucket: BucketId, key: &[u8], id: UploadId) {
        let entry = (id, self.hasher.hash_one((bucket.0, key)));
        let mut last = self.last.lock();
        if last.len() == Self::MAX {
            last.pop_front();
        }
        last.push_back(entry);
    }

    pub fn has(&self, bucket: BucketId, key: &[u8], id: UploadId) -> bool {
        let entry = (id, self.hasher.hash_one((bucket.0, key)));
        self.last.lock().contains(&entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uploads_that_were_aborted_last_are_known() {
        let id = |n: usize| UploadId(std::array::from_fn(|at| (n >> (8 * (at % 8))) as u8));
        let (aborted, bucket) = (Aborted::default(), BucketId(1));
        (0..=Aborted::MAX).for_each(|n| aborted.keep(bucket, b"k", id(n)));
        assert!((1..=Aborted::MAX).all(|n| aborted.has(bucket, b"k", id(n))));
        assert_eq!(aborted.last.lock().len(), Aborted::MAX);
        for (bucket, key, n) in [(1, b"k", 0), (1, b"l", 1), (2, b"k", 1)] {
            assert!(!aborted.has(BucketId(bucket), key, id(n)));
        }
    }
}
