//! Finding content that is already stored: the boundaries of chunks, and a filter of known hashes. Pure. Must not know
//! where chunks are stored.
#![forbid(unsafe_code)]

pub mod chunker;
pub mod filter;
