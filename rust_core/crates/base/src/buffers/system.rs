//! What was freed, given back to the operating system.
//!
//! glibc keeps freed memory for what is allocated next, as soon as anything above it is still in use: after a load the
//! pool was empty and the process was as large as before.

/// Gives the pages that no allocation lies on to the kernel. Takes the longer the more there are; other threads may wait
/// when they allocate.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "malloc_trim has no safe wrapper")]
pub(super) fn give_back() {
    // SAFETY: takes no pointers; glibc allows it on any thread at any time.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators do so by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn give_back() {}
