//! The system's allocator with counters: how much a piece of work asks it for.
//!
//! Counts what Rust allocates, on all threads; SQLite and the kernel have their own ways. A `realloc` that moves
//! counts as a new allocation of its whole size, one that grows in place as what it grew by.

#![allow(unsafe_code, reason = "an allocator can only be written so; every call goes to the system's unchanged")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

pub struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// What was allocated so far.
#[derive(Clone, Copy, Debug)]
pub struct Allocated {
    pub count: u64,
    pub bytes: u64,
}

impl Allocated {
    pub fn now() -> Self {
        Self { count: COUNT.load(Ordering::Relaxed), bytes: BYTES.load(Ordering::Relaxed) }
    }

    pub fn since(self) -> Self {
        let now = Self::now();
        Self { count: now.count - self.count, bytes: now.bytes - self.bytes }
    }
}

fn note(bytes: usize) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
}

// SAFETY: every method hands its arguments to `System` and returns what that returns.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `realloc`.
        let moved = unsafe { System.realloc(ptr, layout, new_size) };
        note(if moved == ptr { new_size.saturating_sub(layout.size()) } else { new_size });
        moved
    }
}
