//! Round trips of every record, and arbitrary payloads.

mod arbitrary;
mod documents;
mod samples;

use std::num::NonZeroU8;

use self::arbitrary::of_kind;
use self::samples::{causes, samples};
use super::encoding::kinds;
use super::*;
use orcas_base::error::Error;
use proptest::prelude::*;
use proptest::sample::{Index, select};

fn encoded(record: &Record) -> (u8, Bytes) {
    encoded_caused(&(record.clone(), Cause::Engine))
}

fn encoded_caused((record, cause): &(Record, Cause)) -> (u8, Bytes) {
    let mut payload = Vec::new();
    let kind = encode_caused(record, cause, &mut payload);
    (kind, Bytes::from(payload))
}

fn any_cause() -> impl Strategy<Value = Cause> {
    let request = (1..u8::MAX - 1, any::<u64>(), any::<[u8; 32]>()).prop_map(|(operation, request, principal)| {
        let operation = NonZeroU8::new(operation).unwrap();
        Cause::Request(RequestCause { operation, request, principal })
    });
    prop_oneof![Just(Cause::Engine), Just(Cause::Lifecycle), Just(Cause::Sealing), request]
}

fn numbers() -> Vec<u8> {
    kinds::ALL.iter().map(|(number, _)| *number).collect()
}

/// A kind, and an arbitrary record of it.
fn any_record() -> impl Strategy<Value = (u8, (Record, Cause))> {
    let records = select(numbers()).prop_flat_map(|kind| of_kind(kind).prop_map(move |record| (kind, record)));
    (records, any_cause()).prop_map(|((kind, record), cause)| (kind, (record, cause)))
}

fn all_samples() -> impl Iterator<Item = (Record, Cause)> {
    samples().into_iter().flat_map(|record| causes().map(|cause| (record.clone(), cause)))
}

#[test]
fn every_record_comes_back_as_it_was() {
    for (record, cause) in all_samples() {
        let (kind, payload) = encoded_caused(&(record.clone(), cause));
        assert_eq!(decode(kind, &payload).unwrap(), record);
        let kept = if kinds::keeps_cause(kind) { cause } else { Cause::Engine };
        assert_eq!(decode_caused(kind, &payload).unwrap(), (record, kept));
    }
}

#[test]
fn a_cut_or_longer_payload_is_refused() {
    for (record, cause) in all_samples() {
        let (kind, payload) = encoded_caused(&(record.clone(), cause));
        // Where the bytes begin that end with the payload.
        let open_from = match record {
            Record::Content { .. } => 32,
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
    for (record, cause) in all_samples() {
        let (kind, payload) = encoded_caused(&(record.clone(), cause));
        for at in 0..payload.len() {
            for value in 0..=u8::MAX {
                let mut changed = payload.to_vec();
                changed[at] = value;
                let changed = Bytes::from(changed);
                if let Ok(read) = decode_caused(kind, &changed) {
                    assert_eq!(encoded_caused(&read), (kind, changed), "{record:?}, byte {at}");
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
        proptest!(|(record in of_kind(kind), cause in any_cause())| {
            let cause = if kinds::keeps_cause(kind) { cause } else { Cause::Engine };
            let (found, payload) = encoded_caused(&(record.clone(), cause));
            prop_assert_eq!(found, kind);
            prop_assert_eq!(decode_caused(kind, &payload).unwrap(), (record, cause));
        });
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(kind in any::<u8>(), payload in proptest::collection::vec(any::<u8>(), 0..300)) {
        let payload = Bytes::from(payload);
        if let Ok(read) = decode_caused(kind, &payload) {
            prop_assert_eq!(encoded_caused(&read), (kind, payload));
        }
    }

    #[test]
    fn what_is_read_from_a_changed_payload_is_what_stands_there(
        (kind, record) in any_record(),
        other in select(numbers()),
        changes in proptest::collection::vec((any::<Index>(), any::<u8>()), 0..4),
    ) {
        let mut payload = encoded_caused(&record).1.to_vec();
        for (at, value) in changes {
            if !payload.is_empty() {
                let at = at.index(payload.len());
                payload[at] = value;
            }
        }
        let payload = Bytes::from(payload);
        for kind in [kind, other] {
            if let Ok(read) = decode_caused(kind, &payload) {
                prop_assert_eq!(encoded_caused(&read), (kind, payload.clone()));
            }
        }
    }
}

#[test]
fn headers_are_sealed_whole_and_only_with_encryption() {
    let sealed =
        Box::new(SealedHeaders { seal: Seal { data_key: [1; 16], id: [2; 32], algorithm: 1 }, bytes: Bytes::new() });
    let of = |headers, encryption| {
        let attributes = Attributes { encryption, ..Attributes::default() };
        encoded(&Record::PutVersion(Version { headers, attributes, ..samples::version() }))
    };
    let refused = |(kind, payload)| matches!(decode(kind, &payload), Err(Error::Record { .. }));
    let visible = ObjectHeaders { sealed: Some(sealed.clone()), ..samples::version().headers.split().1 };
    assert!(!refused(of(visible.clone(), Some(Encryption::Managed))));
    assert!(refused(of(visible, None)));
    for unsealed in [
        ObjectHeaders { content_type: Some("a/b".into()), ..ObjectHeaders::default() },
        ObjectHeaders { user: vec![("n".into(), Bytes::new())], ..ObjectHeaders::default() },
    ] {
        assert!(!refused(of(unsealed.clone(), Some(Encryption::Managed))));
        assert!(refused(of(ObjectHeaders { sealed: Some(sealed.clone()), ..unsealed }, Some(Encryption::Managed))));
    }
}

#[test]
fn what_was_sealed_are_headers_that_are_sealed() {
    let (hidden, visible) = samples::version().headers.split();
    assert!(hidden.has_unsealed() && !visible.has_unsealed());
    let bytes = Bytes::from(encode_headers(&hidden));
    assert_eq!(decode_headers(&bytes).unwrap(), hidden);
    assert!(decode_headers(&bytes.slice(1..)).is_err());
    assert!(decode_headers(&Bytes::from([&bytes[..], &[0]].concat())).is_err());
    assert!(decode_headers(&Bytes::from(encode_headers(&visible))).is_err());
}
