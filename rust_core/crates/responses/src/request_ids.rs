//! Ids of requests: a counter under a random mask. They are unique in a process, and no two processes count alike.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::response::Envelope;

pub struct RequestIds {
    /// The id of this process, for `x-amz-id-2`.
    pub host_id: Arc<str>,
    next: AtomicU64,
    mask: u64,
}

impl RequestIds {
    /// Of random bytes.
    pub fn new(mask: [u8; 8], host_id: Arc<str>) -> Self {
        Self { host_id, next: AtomicU64::new(0), mask: u64::from_be_bytes(mask) }
    }

    /// What responses to a request for `path`, as it stood in the request line, say about the request.
    #[inline]
    pub fn envelope(&self, method: &[u8], path: &[u8]) -> Envelope {
        Envelope {
            request_id: self.next(),
            host_id: Arc::clone(&self.host_id),
            resource: path.to_vec(),
            is_head: method == b"HEAD",
            for_browsers: false,
            cors: None,
        }
    }

    /// 16 hexadecimal digits in upper case, unique in this process.
    #[inline]
    pub fn next(&self) -> [u8; 16] {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        // An odd multiplier permutes the 64-bit numbers, so neighbours look unrelated and none repeats.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let id = self.next.fetch_add(1, Ordering::Relaxed).wrapping_mul(SPREAD) ^ self.mask;
        std::array::from_fn(|place| HEX[(id >> (60 - 4 * place) & 15) as usize])
    }
}
