//! How large the stores are whose bytes are flipped, and with which settings.

#[path = "../../crates/engine/src/tests/options.rs"]
mod small;

use std::path::Path;
use std::time::Duration;

use orcas_engine::EngineOptions;

/// How large a store is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub(super) chunk: u32,
    pub(super) log_file: u64,
    pub(super) pack: u64,
    /// Larger bodies go to disk as they come, in chunks.
    pub(super) streamed: usize,
    /// What lengths of objects are divided by.
    pub(super) divisor: usize,
    /// Objects under `many/`, `chunks/` and `later/`.
    pub(super) many: u64,
    pub(super) chunks: u64,
    pub(super) later: usize,
    /// All content is sealed.
    pub sealed: bool,
}

/// Most of a megabyte.
pub const LARGE: Size = Size {
    chunk: 12 << 10,
    log_file: 48 << 10,
    pack: 160 << 10,
    streamed: 20_000,
    divisor: 1,
    many: 40,
    chunks: 12,
    later: 60,
    sealed: false,
};

/// As little as still has one of everything: every byte of it can be tried.
pub const SMALL: Size = Size {
    chunk: 3 << 10,
    log_file: 12 << 10,
    pack: 20 << 10,
    streamed: 2_000,
    divisor: 10,
    many: 15,
    chunks: 9,
    later: 12,
    sealed: false,
};

/// The same, sealed.
#[allow(dead_code)] // Flips ask for it; salvage does not.
pub const SEALED: Size = Size { sealed: true, ..SMALL };

/// Room for chunks of several blocks.
#[allow(dead_code)] // Flips ask for it; salvage does not.
pub const BLOCKS: Size = Size { chunk: 512 << 10, pack: 8 << 20, log_file: 64 << 10, ..SMALL };

pub fn options(data: &Path, size: Size) -> EngineOptions {
    EngineOptions {
        write_buffer_window: Duration::from_secs(1),
        max_write_buffer_size: 64 << 10,
        max_write_buffer_count: 64,
        chunk_size: size.chunk,
        sync_interval: Duration::from_secs(1),
        log_file_size: size.log_file,
        pack_size: size.pack,
        ..small::options(data)
    }
}
