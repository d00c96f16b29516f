//! Events for tests.

use proptest::prelude::*;

use super::event::{Bucket, Event, Object, Place};
use super::names::EventName;

/// One with everything that an event can have.
pub fn event() -> Event {
    Event {
        name: EventName::ObjectCreatedPut,
        place: Place { sequence: 42, ordinal: 1 },
        time_ms: 1_767_323_045_678,
        bucket: Bucket { name: "photos".into(), owner: "owner".into(), id: 0 },
        object: Some(Object {
            key: "a b/é.jpg".into(),
            size: Some(1024),
            etag: "d41d8cd98f00b204e9800998ecf8427e".into(),
            version_id: "v1".into(),
        }),
        principal: "alice".into(),
        request_id: "00000000000000AB".into(),
        source_address: "127.0.0.1".into(),
    }
}

fn objects() -> impl Strategy<Value = Object> {
    let key = proptest::collection::vec(any::<u8>(), 1..20);
    (key, any::<Option<u64>>(), ".{0,6}", ".{0,6}").prop_map(|(key, size, etag, version_id)| Object {
        key,
        size,
        etag,
        version_id,
    })
}

/// Any that JSON can express.
pub fn events() -> impl Strategy<Value = Event> {
    let name = (0..EventName::ALL.len()).prop_map(|at| EventName::ALL[at]);
    let place = (any::<(u64, u16)>(), 0u64..253_402_300_799_999);
    (name, place, objects(), [".{0,6}", ".{0,6}", "[a-z]{0,6}", ".{0,6}", "[0-9a-f:]{0,6}"]).prop_map(
        |(name, ((sequence, ordinal), time_ms), object, [bucket, owner, principal, request_id, source])| Event {
            name,
            place: Place { sequence, ordinal },
            time_ms,
            bucket: Bucket { name: bucket, owner, id: 0 },
            object: (!name.is_of_bucket()).then_some(object),
            principal: if name.is_of_service() { String::new() } else { principal },
            request_id,
            source_address: if name.is_of_service() { String::new() } else { source },
        },
    )
}
