//! What the fuzz targets share: reading their input, requests as text, and how much memory a piece of work asks for.
//!
//! Each file of `fuzz_targets` is a program; `corpus` has its seeds, which `examples/seeds.rs` writes. A target asserts
//! what must hold for every input. It reaches private decoders by including their file, so the product exports nothing
//! for it. Without `--cfg fuzzing`, a target is a program that runs the seeds of a directory and changed copies of them.

#[path = "../../benches/support/counting.rs"]
mod counting;
mod input;
#[cfg(not(fuzzing))]
mod replay;
mod request;

pub use input::Input;
#[cfg(fuzzing)]
pub use libfuzzer_sys::fuzz_target;
#[cfg(not(fuzzing))]
pub use replay::replay;
pub use request::Request;

/// The secret and the clock of all signed seeds: the example of the S3 documentation.
pub const ACCESS_KEY: &str = "AKIAIOSFODNN7EXAMPLE";
pub const SECRET: &[u8] = b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
/// Seconds since 1970.
pub const NOW_S: i64 = 1_369_353_600;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Runs `work`, which may allocate at most `bytes_max` bytes, counting every allocation as if none were freed.
///
/// # Panics
/// When it allocates more.
pub fn bounded<T>(bytes_max: usize, work: impl FnOnce() -> T) -> T {
    let before = counting::Allocated::now();
    let result = work();
    let allocated = before.since();
    assert!(
        allocated.bytes <= bytes_max as u64,
        "{} bytes in {} allocations where {bytes_max} bytes must do",
        allocated.bytes,
        allocated.count
    );
    result
}

/// Takes what libFuzzer's macro of this name takes, and makes a program that calls [`replay`].
#[cfg(not(fuzzing))]
#[macro_export]
macro_rules! fuzz_target {
    (|$data:ident: &[u8]| $body:block) => {
        fn main() {
            $crate::replay(|$data: &[u8]| $body);
        }
    };
}
