//! Every record there and back, and whatever else may stand in a payload.

use super::samples::samples;
use super::*;
use proptest::prelude::*;

#[test]
fn every_record_comes_back_as_it_was() {
    for record in samples() {
        let mut payload = Vec::new();
        let kind = encode(&record, &mut payload);
        assert_eq!(decode(kind, &Bytes::from(payload)).unwrap(), record);
    }
}

#[test]
fn a_cut_or_longer_payload_is_refused() {
    for record in samples() {
        let mut payload = Vec::new();
        let kind = encode(&record, &mut payload);
        let open_ended = matches!(record, Record::Content { .. });
        for cut in 0..payload.len() {
            let result = decode(kind, &Bytes::copy_from_slice(&payload[..cut]));
            assert!(result.is_err() || (open_ended && cut >= 32), "{record:?} cut at {cut}");
        }
        payload.push(0);
        assert!(decode(kind, &Bytes::from(payload)).is_err() || open_ended);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(kind in 0u8..30, payload in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(kind, &Bytes::from(payload));
    }
}
