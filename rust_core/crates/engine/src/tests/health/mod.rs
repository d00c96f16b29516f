//! What the store says of itself.

pub(super) mod backup;
mod full_disk;
mod index_rebuild;
mod index_writes;

use super::support::Store;
use crate::{Condition, Space, StorePart};
use orcas_base::error::{Error, StoreFault};
use orcas_decide::Failure;

#[test]
fn the_worst_that_is_known_counts() {
    let mut store = Store::new();
    let bucket = store.bucket("b");
    store.put(&bucket, "kept", b"content").unwrap();
    store.put(&bucket, "gone", b"content").unwrap();
    assert_eq!(store.handle().health().condition, Condition::Ok);
    store.change(|options| options.disk_reserve = u64::MAX);
    store.reopen();
    let said = |writable: bool| {
        let health = store.handle().health();
        assert_eq!(health.writable, writable);
        health.condition
    };
    assert_eq!(said(false), Condition::Full(Space::UnderReserve { reserve: u64::MAX }));
    let refused = store.put(&bucket, "new", b"content");
    assert!(matches!(refused, Err(Failure::Engine(Error::UnderReserve { .. }))), "{refused:?}");
    store.delete(&bucket, "gone").unwrap();
    assert_eq!(store.get(&bucket, "kept").unwrap().as_deref(), Some(&b"content"[..]));

    let shared = &store.handle().shared;
    shared.faults.stop_writing(StoreFault::new("it stopped", "on /a/path"));
    shared.faults.stop_writing("and once more".into());
    let Condition::ReadOnly(cause) = said(false) else { panic!("{:?}", said(false)) };
    assert_eq!((cause.reason, cause.to_string().as_str()), ("it stopped", "it stopped: on /a/path"));
    assert!(matches!(store.delete(&bucket, "kept"), Err(Failure::Engine(Error::ReadOnly { .. }))));

    shared.faults.note_damage(StorePart::Index, StoreFault::new("a page is not what was written", "page 7"));
    shared.faults.note_damage(StorePart::Log, StoreFault::new("a file is too short", "/a/path"));
    shared.faults.note_damage(StorePart::Log, "and another".into());
    let said = said(false);
    assert_eq!(said.reason().as_deref(), Some("a file is too short"));
    assert_eq!((said.name(), said.detail().as_deref()), ("damaged", Some("a file is too short: /a/path")));
    shared.faults.note_repaired(StorePart::Log);
    assert_eq!(store.handle().health().condition.reason().as_deref(), Some("a page is not what was written"));
    shared.faults.note_repaired(StorePart::Index);
    assert_eq!(store.handle().health().condition.name(), "read-only");
}

#[test]
fn damage_by_itself_does_not_stop_writing() {
    let store = Store::new();
    let bucket = store.bucket("b");
    store.handle().shared.faults.note_damage(StorePart::Packs, "a pack is missing".into());
    store.put(&bucket, "new", b"content").unwrap();
    let health = store.handle().health();
    assert!(health.writable && health.condition.name() == "damaged", "{health:?}");
}
