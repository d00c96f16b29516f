//! Round trips of every record, and arbitrary payloads.

use super::arbitrary::of_kind;
use super::samples::samples;
use super::*;
use proptest::prelude::*;
use proptest::sample::{Index, select};

fn encoded(record: &Record) -> (u8, Bytes) {
    let mut payload = Vec::new();
    let kind = encode(record, &mut payload);
    (kind, Bytes::from(payload))
}

fn numbers() -> Vec<u8> {
    kinds::ALL.iter().map(|(number, _)| *number).collect()
}

/// A kind, and an arbitrary record of it.
fn any_record() -> impl Strategy<Value = (u8, Record)> {
    select(numbers()).prop_flat_map(|kind| of_kind(kind).prop_map(move |record| (kind, record)))
}

#[test]
fn every_record_comes_back_as_it_was() {
    for record in samples() {
        let (kind, payload) = encoded(&record);
        assert_eq!(decode(kind, &payload).unwrap(), record);
    }
}

#[test]
fn a_cut_or_longer_payload_is_refused() {
    for record in samples() {
        let (kind, payload) = encoded(&record);
        // Where the bytes begin that end with the payload.
        let open_from = match record {
            Record::Content { .. } => 32,
            Record::PutDocument { .. } => 9,
            _ => usize::MAX,
        };
        for cut in 0..payload.len() {
            let result = decode(kind, &payload.slice(..cut));
            assert!(result.is_err() || cut >= open_from, "{record:?} cut at {cut}");
        }
        let longer = [&payload[..], &[0]].concat();
        assert!(decode(kind, &Bytes::from(longer)).is_err() || open_from < usize::MAX);
    }
}

/// A record has exactly one encoding.
#[test]
fn whatever_byte_is_changed_another_record_or_none_is_read() {
    for record in samples() {
        let (kind, payload) = encoded(&record);
        for at in 0..payload.len() {
            for value in 0..=u8::MAX {
                let mut changed = payload.to_vec();
                changed[at] = value;
                let changed = Bytes::from(changed);
                if let Ok(read) = decode(kind, &changed) {
                    assert_eq!(encoded(&read), (kind, changed), "{record:?}, byte {at}");
                }
            }
        }
    }
}

#[test]
fn other_kinds_are_refused() {
    let (_, payload) = encoded(&Record::PutVersion(samples::version()));
    for kind in (0..=u8::MAX).filter(|kind| !numbers().contains(kind)) {
        assert!(decode(kind, &payload).is_err(), "kind {kind}");
    }
}

#[test]
fn any_record_of_every_kind_comes_back_as_it_was() {
    for kind in numbers() {
        proptest!(|(record in of_kind(kind))| {
            let (found, payload) = encoded(&record);
            prop_assert_eq!(found, kind);
            prop_assert_eq!(decode(kind, &payload).unwrap(), record);
        });
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(kind in any::<u8>(), payload in proptest::collection::vec(any::<u8>(), 0..300)) {
        let payload = Bytes::from(payload);
        if let Ok(record) = decode(kind, &payload) {
            prop_assert_eq!(encoded(&record), (kind, payload));
        }
    }

    #[test]
    fn what_is_read_from_a_changed_payload_is_what_stands_there(
        (kind, record) in any_record(),
        other in select(numbers()),
        changes in proptest::collection::vec((any::<Index>(), any::<u8>()), 0..4),
    ) {
        let mut payload = encoded(&record).1.to_vec();
        for (at, value) in changes {
            if !payload.is_empty() {
                let at = at.index(payload.len());
                payload[at] = value;
            }
        }
        let payload = Bytes::from(payload);
        for kind in [kind, other] {
            if let Ok(record) = decode(kind, &payload) {
                prop_assert_eq!(encoded(&record), (kind, payload.clone()));
            }
        }
    }
}
