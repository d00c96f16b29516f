//! Payloads of log records: a kind, then the payload. What decodes encodes to the same bytes, and no length in a
//! payload makes the decoder ask for memory that the payload does not account for.
#![cfg_attr(fuzzing, no_main)]

use bytes::Bytes;
use orcas_fuzz::{bounded, fuzz_target};
use orcas_record::{decode_caused, decode_extents, encode_caused, encode_extents, named_in};

/// Allocated bytes for each byte of payload. User metadata is what grows most: an empty name with an empty value takes
/// 4 bytes of payload and 64 of memory, in a vector that doubles.
const GROWTH_MAX: usize = 64;
const ANY_MAX: usize = 4096;

fuzz_target!(|data: &[u8]| {
    let Some((kind, payload)) = data.split_first() else { return };
    let payload = Bytes::copy_from_slice(payload);
    let bytes_max = GROWTH_MAX * payload.len() + ANY_MAX;
    if let Ok((record, cause)) = bounded(bytes_max, || decode_caused(*kind, &payload)) {
        let mut encoded = Vec::new();
        assert_eq!(encode_caused(&record, &cause, &mut encoded), *kind);
        assert_eq!(encoded, payload, "{record:?}");
        let length: usize = record.extents().count();
        assert!(length <= payload.len());
    }
    if let Ok(extents) = bounded(bytes_max, || decode_extents(&payload)) {
        let mut encoded = Vec::new();
        encode_extents(&extents, &mut encoded);
        assert_eq!(encoded, payload);
    }
    if let Some((_, key)) = named_in(*kind, &payload) {
        assert!(payload.windows(key.len().max(1)).any(|window| window == key) || key.is_empty());
    }
});
