//! Returns freed memory to the operating system.
//!
//! glibc keeps freed memory below any allocation that is still in use. Without this, the process stayed as large after a
//! load as during it, although the pool was empty.

/// Returns unused pages to the kernel. This takes longer the more there are, and other threads may wait for it when they
/// allocate.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "malloc_trim has no safe wrapper")]
pub fn release_memory() {
    // SAFETY: the function takes no pointers and may be called on any thread at any time.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators return memory by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn release_memory() {}
