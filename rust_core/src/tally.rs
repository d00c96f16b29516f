//! What is counted of one request on its way: when it began, and the bytes of its body and of the response.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The arriving side.
pub struct Tally {
    pub began: Instant,
    received: AtomicU64,
    /// When the body had arrived.
    complete: OnceLock<Instant>,
}

impl Tally {
    pub fn new(began: Instant) -> Self {
        Self { began, received: AtomicU64::new(0), complete: OnceLock::new() }
    }

    /// Bytes of the body have arrived.
    pub fn add(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The body has arrived, or there is none.
    pub fn end(&self) {
        self.complete.get_or_init(Instant::now);
    }

    /// When it had.
    pub fn ended(&self) -> Option<Instant> {
        self.complete.get().copied()
    }

    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

/// A response body that leaves in pieces.
#[derive(Default)]
pub struct Delivery {
    sent: AtomicU64,
    first: OnceLock<Instant>,
}

impl Delivery {
    /// Bytes were handed to the socket.
    pub fn add(&self, bytes: u64) {
        self.first.get_or_init(Instant::now);
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// When the first of them were.
    pub fn first(&self) -> Option<Instant> {
        self.first.get().copied()
    }
}
