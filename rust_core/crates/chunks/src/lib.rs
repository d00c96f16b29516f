//! Chunks: where they end, and packs: files of chunks, written in parallel at reserved offsets.
//! Packs are not part of the log's chain.
//!
//! Invariants. A chunk counts only if a committed manifest names it. Its location is passed to the log only after a
//! sync that began when all its bytes were written. A pack whose sync failed takes no more chunks and is never synced
//! again. A pack's header and directory entry are durable before any chunk in it is. This crate does not know records
//! (except for the definition of a prefix hash), the log, the index or the engine. `docs/format.md` specifies every byte.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests damage files by hand"))]

pub mod chunker;
#[cfg(test)]
mod crash_tests;
mod examine;
mod format;
mod frames;
mod pack;
mod packs;
mod reader;
mod salvage;
#[cfg(test)]
mod tests;
mod upkeep;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_fs::Random;
use orcas_record::placement::codec;
use orcas_record::{ChunkLocation, PackId};

pub use examine::{ChunkCheck, ContentSink, ExpectedChunk, PackExamination};
pub use frames::PackFrame;
pub use packs::{Packs, check_formats, packs_present, set_packs_aside};
pub use salvage::{PackSalvage, store_ids};
pub use upkeep::{ChunkInfo, PackFile};
pub use writer::{ChunkWriter, WrittenChunk};

/// The usual size of a pack, at which a new one is begun.
pub const PACK_SIZE: u64 = 1024 * 1024 * 1024;

/// The directory of the packs of a store, and how new packs are made.
#[derive(Clone)]
pub struct PackOptions {
    pub dir: PathBuf,
    pub store_id: [u8; 16],
    /// Bytes; a pack is larger only if it holds a single chunk that does not fit.
    pub pack_size: u64,
    pub random: Arc<dyn Random>,
}

/// The pack of a chunk of `length` bytes, and the bytes that it takes there: from, to.
pub fn place_of(at: ChunkLocation, length: u32) -> (PackId, u64, u64) {
    let (pack, offset) = codec::chunk_parts(at);
    (codec::pack(pack), offset, offset + format::frame_length(length))
}

fn pack_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(pack_name(codec::pack(number)))
}

/// The name of the file of a pack.
pub fn pack_name(pack: PackId) -> String {
    format!("{:020}.pack", codec::pack_number(pack))
}

/// The pack whose file has this name; `None` for names that no pack has.
pub fn pack_named(name: &str) -> Option<PackId> {
    pack_number(name).map(codec::pack)
}

fn pack_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".pack")?;
    if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|number| *number > 0)
}
