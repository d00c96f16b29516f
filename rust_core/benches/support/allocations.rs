//! Counts what is allocated: the system's allocator with a counter of its own for each thread.
#![allow(unsafe_code)] // an allocator cannot be written without; every call is passed on as it came

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// To be declared as `#[global_allocator]`.
pub struct Counting;

fn count() {
    COUNT.set(COUNT.get() + 1);
}

// SAFETY: `System` keeps the contract, and counting neither allocates nor unwinds: the counter is a plain `Cell` without
// destructor, made at compile time.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Allocations and reallocations that `once` makes on this thread.
pub fn allocations(once: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    once();
    COUNT.get() - before
}
