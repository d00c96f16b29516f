//! Copies that are not of the log in the store, and heads that are gone or older. One node acts at a time.

use orcas_shared_log::objects::{Change, Changed, Follow, Followed, Head, Take, Taken};
use orcas_shared_log::{Cursor, Entry, EntryId, NodeId, Snapshot};

use crate::node::Body;
use crate::store::{Request, Store};

const FIRST: NodeId = NodeId(1);
const SECOND: NodeId = NodeId(2);

fn take(store: &mut Store, node: NodeId, cursor: Cursor) -> Taken<Body> {
    let mut take = Take::new(node, EntryId(node.0 << 8), cursor);
    loop {
        match take.reply(&store.call(&take.call())) {
            Taken::Continues | Taken::Entry(_) => {}
            done => return done,
        }
    }
}

fn follow(store: &mut Store, cursor: Cursor) -> Followed<Body> {
    let mut follow = Follow::new(cursor);
    loop {
        match follow.reply(&store.call(&follow.call())) {
            Followed::Continues | Followed::Entry(_) => {}
            done => return done,
        }
    }
}

/// A store whose log has the fence of its owner and one write.
fn log() -> (Store, Cursor) {
    let mut store = Store::default();
    let Taken::Owner { fence, .. } = take(&mut store, FIRST, Cursor::default()) else { panic!("nobody else is there") };
    let batch = Some(Body::Write { number: 0, content: None });
    let entry = Entry { id: EntryId(7), term: 1, previous: Some(fence.id), batch };
    store.entries.insert(1, entry);
    (store, Cursor { next: 2, last: Some(EntryId(7)) })
}

fn of_another_log(next: u64) -> Cursor {
    Cursor { next, last: Some(EntryId(99)) }
}

#[test]
fn a_copy_of_another_log_does_not_become_the_owner() {
    for next in 1..4 {
        let (mut store, _) = log();
        let head = store.head.clone();
        assert_eq!(take(&mut store, SECOND, of_another_log(next)), Taken::Broken, "{next} entries");
        assert_eq!(store.head, head, "the owner is left alone");
        let mut empty = Store::default();
        assert_eq!(take(&mut empty, SECOND, of_another_log(next)), Taken::Broken, "{next} entries, an empty store");
    }
}

#[test]
fn a_copy_of_another_log_has_not_reached_the_end() {
    for next in 1..4 {
        let (mut store, cursor) = log();
        assert_eq!(follow(&mut store, of_another_log(next)), Followed::Broken, "{next} entries");
        assert_eq!(follow(&mut store, cursor), Followed::End);
    }
}

#[test]
fn a_store_without_a_log_has_nothing_to_follow() {
    assert_eq!(follow(&mut Store::default(), Cursor::default()), Followed::End);
    assert_eq!(follow(&mut Store::default(), of_another_log(1)), Followed::Broken);
    let (mut store, _) = log();
    store.head = None;
    assert_eq!(follow(&mut store, Cursor::default()), Followed::Broken, "the head is missing");
}

#[test]
fn a_copy_that_ends_at_the_floor_is_known_by_the_snapshot() {
    let (mut store, cursor) = log();
    let snapshots = vec![Snapshot { at: cursor, term: 1 }];
    let head = store.head.take().map(|head| Head { floor: cursor.next, snapshots, ..head });
    store.head = head;
    store.entries.remove(&1);
    assert_eq!(take(&mut store, SECOND, of_another_log(cursor.next)), Taken::Broken);
    assert_eq!(follow(&mut store, of_another_log(cursor.next)), Followed::Broken);
    assert_eq!(follow(&mut store, cursor), Followed::End);
    assert!(matches!(take(&mut store, SECOND, cursor), Taken::Owner { .. }));
}

#[test]
fn a_log_without_its_head_is_not_begun_again() {
    let (mut store, cursor) = log();
    store.head = None;
    for cursor in [Cursor::default(), cursor] {
        assert_eq!(take(&mut store, SECOND, cursor), Taken::Broken, "{cursor:?}");
        assert_eq!(store.head, None);
    }
    let _ = store.execute(&Request::DeleteEntry(1));
    assert_eq!(take(&mut store, SECOND, Cursor::default()), Taken::Broken, "the fence is there");
}

#[test]
fn a_store_that_has_gone_back_is_not_taken_for_another_owner() {
    let (mut store, cursor) = log();
    let older = store.head.clone();
    let Taken::Owner { head, .. } = take(&mut store, SECOND, cursor) else { panic!("nobody else takes it") };
    for found in [older, None] {
        store.head = found;
        let mut change = Change::new(head.clone(), |_| {});
        let changed = std::iter::repeat_with(|| change.reply(&store.call(&change.call()))).flatten().next();
        assert_eq!(changed, Some(Changed::Broken));
    }
}
