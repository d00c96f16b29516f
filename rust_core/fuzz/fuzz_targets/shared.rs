//! Entries and heads of shared logs: a byte that says which, then the bytes of an entry, the same without a checksum and
//! with one that holds, a head, the snapshots in a row, or the changes of files that are a batch. What is read can be
//! written, and is the same when it is read again.
#![cfg_attr(fuzzing, no_main)]

use bytes::Bytes;
use orcas_fuzz::{Input, bounded, fuzz_target};

#[allow(dead_code, reason = "the stores of shared logs use more of it")]
#[path = "../../crates/log_stores/src/format.rs"]
mod format;

#[allow(dead_code, reason = "the nodes of a cluster use more of it")]
#[path = "../../crates/cluster/src/change.rs"]
mod change;

use change::Change;
use format::{OVERHEAD, decode_entry, decode_head, decode_snapshots, encode_entry, encode_head, encode_snapshots};

/// Allocated bytes for each byte of text: a snapshot has three names, and a list grows.
const GROWTH_MAX: usize = 16;
const ANY_MAX: usize = 4096;
/// Allocated bytes for each byte of changes, the shortest of which has five: a note.
const CHANGE_MAX: usize = 64;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let kind = input.u8() % 5;
    let rest = input.rest();
    let text_max = GROWTH_MAX * rest.len() + ANY_MAX;
    match kind {
        4 => {
            let bytes = Bytes::copy_from_slice(rest);
            // A name has at least a byte.
            if let Some(changes) = bounded(CHANGE_MAX * rest.len() + ANY_MAX, || Change::decode_all(&bytes)) {
                let mut again = Vec::new();
                changes.iter().for_each(|change| change.encode(&mut again));
                assert_eq!(again, bytes);
            }
        }
        0 | 1 => {
            let checksum = if kind == 1 { blake3::hash(rest).as_bytes().to_vec() } else { Vec::new() };
            let bytes = Bytes::from([rest, &checksum].concat());
            // The batch is a part of what was read.
            if let Some(entry) = bounded(ANY_MAX, || decode_entry(&bytes)) {
                assert_eq!(entry.batch.as_ref().map_or(0, Bytes::len) + OVERHEAD, bytes.len());
                assert_eq!(encode_entry(&entry), bytes);
            }
        }
        2 => {
            if let Some(head) = bounded(text_max, || decode_head(rest)) {
                assert_eq!(decode_head(encode_head(&head).as_bytes()), Some(head));
            }
        }
        _ => {
            let Ok(text) = std::str::from_utf8(rest) else { return };
            if let Some(snapshots) = bounded(text_max, || decode_snapshots(text)) {
                assert_eq!(decode_snapshots(&encode_snapshots(&snapshots)), Some(snapshots));
            }
        }
    }
});
