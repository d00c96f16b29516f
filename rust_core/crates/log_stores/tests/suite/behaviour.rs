//! What a log does, whatever keeps it.

use std::time::Duration;

use bytes::Bytes;
use orcas_log_stores::{Beginning, Error, LogStore, Owner, Read, Taken};
use orcas_shared_log::{Cursor, Entry, EntryId, Position, Snapshot};

use crate::database::Database;
use crate::ground::Ground;

pub async fn all(ground: &Ground) {
    println!("behaviour of {}", ground.url);
    what_is_appended_is_read_in_order(&ground.open("order").await).await;
    an_owner_that_was_replaced_appends_nothing(&ground.open("fenced").await).await;
    an_owner_learns_from_a_renewal_that_it_was_replaced(&ground.open("renewed").await).await;
    a_dropped_future_loses_no_place(&ground.open("dropped").await).await;
    a_glance_says_whether_there_is_more(&ground.open("glances").await).await;
    reading_goes_on_after_a_future_was_dropped(&ground.open("reading").await).await;
    a_log_is_truncated_below_a_snapshot(&ground.open("truncated").await).await;
    a_copy_of_another_log_is_noticed(&ground.open("other").await).await;
    a_batch_may_be_as_large_as_it_says(&ground.open("large").await).await;
}

/// A copy of a log: what was applied to it, and how far it is.
#[derive(Clone, Default)]
pub struct Replica {
    pub cursor: Cursor,
    pub entries: Vec<(Position, Entry<Bytes>)>,
}

impl Replica {
    pub fn apply(&mut self, position: Position, entry: Entry<Bytes>) {
        assert_eq!((position, entry.previous), (self.cursor.next, self.cursor.last));
        self.cursor = self.cursor.after(entry.id);
        self.entries.push((position, entry));
    }

    pub fn batches(&self) -> Vec<Bytes> {
        self.entries.iter().filter_map(|(_, entry)| entry.batch.clone()).collect()
    }

    /// Follows to the end.
    pub async fn follow(&mut self, store: &LogStore) -> Result<Option<Beginning>, Error> {
        let mut follower = store.follow(self.cursor);
        loop {
            match follower.next().await? {
                Read::Entry(position, entry) => self.apply(position, entry),
                Read::End => return Ok(None),
                Read::Truncated(beginning) => return Ok(Some(beginning)),
            }
        }
    }

    /// `None` if another node was faster.
    pub async fn take(&mut self, store: &LogStore) -> Result<Option<Owner>, Error> {
        let mut taking = store.take(self.cursor)?;
        loop {
            match taking.next().await? {
                Taken::Entry(position, entry) => self.apply(position, entry),
                Taken::Owner(owner) => return Ok(Some(owner)),
                Taken::Withdrawn => return Ok(None),
                Taken::Truncated(_) => panic!("the copy is older than the log"),
            }
        }
    }
}

async fn owner(store: &LogStore) -> (Owner, Replica) {
    let mut copy = Replica::default();
    let owner = copy.take(store).await.expect("the log is taken").expect("nobody else takes it");
    (owner, copy)
}

async fn read(store: &LogStore) -> Vec<Bytes> {
    let mut copy = Replica::default();
    assert_eq!(copy.follow(store).await, Ok(None));
    copy.batches()
}

async fn what_is_appended_is_read_in_order(store: &LogStore) {
    assert_eq!(read(store).await, Vec::<Bytes>::new());
    let (owner, copy) = owner(store).await;
    assert_eq!(owner.term(), 1);
    let mut expected = Vec::new();
    let mut cursor = copy.cursor;
    for number in 0..40 {
        let batch = Bytes::from(format!("batch {number}"));
        let after = owner.append(batch.clone()).await.expect("it is appended");
        assert_eq!(after.next, cursor.next + 1);
        cursor = after;
        expected.push(batch);
    }
    assert_eq!(read(store).await, expected);
    // One that has read everything reads what comes then.
    let mut follower = store.follow(cursor);
    assert_eq!(follower.next().await, Ok(Read::End));
    owner.append(Bytes::from_static(b"last")).await.expect("it is appended");
    assert!(matches!(follower.next().await, Ok(Read::Entry(position, _)) if position == cursor.next));
    assert_eq!(follower.next().await, Ok(Read::End));
}

async fn an_owner_that_was_replaced_appends_nothing(store: &LogStore) {
    let (first, _) = owner(store).await;
    first.append(Bytes::from_static(b"first")).await.expect("it is appended");
    let (second, copy) = owner(store).await;
    assert_eq!(copy.batches(), ["first"]);
    assert_eq!(first.append(Bytes::from_static(b"late")).await, Err(Error::Fenced(2)));
    assert_eq!(first.append(Bytes::from_static(b"later")).await, Err(Error::Fenced(2)));
    assert_eq!(first.keep(Vec::new(), 0, Vec::new()).await, Err(Error::Fenced(2)));
    second.append(Bytes::from_static(b"second")).await.expect("it is appended");
    let (third, _) = owner(store).await;
    assert_eq!(third.term(), 3);
    assert_eq!(second.keep(Vec::new(), 0, Vec::new()).await, Err(Error::Fenced(3)));
    assert_eq!(read(store).await, ["first", "second"]);
}

async fn an_owner_learns_from_a_renewal_that_it_was_replaced(store: &LogStore) {
    let (first, mut copy) = owner(store).await;
    first.append(Bytes::from_static(b"first")).await.expect("it is appended");
    copy.follow(store).await.expect("it is read");
    let snapshot = Snapshot { at: copy.cursor, term: first.term() };
    assert_eq!(first.keep(vec![snapshot], 1, vec![0]).await, Ok(()));
    for _ in 0..3 {
        assert_eq!(first.renew().await, Ok(()));
    }
    assert_eq!(first.over(), None);
    let second = copy.take(store).await.expect("the log is taken").expect("nobody else takes it");
    assert_eq!(first.renew().await, Err(Error::Fenced(2)));
    assert_eq!(first.over(), Some(Error::Fenced(2)));
    assert_eq!(first.append(Bytes::from_static(b"late")).await, Err(Error::Fenced(2)));
    // The head says what it said before.
    assert_eq!(second.keep(vec![snapshot], 0, Vec::new()).await, Err(Error::Floor));
    let beginning = Beginning { floor: 1, snapshots: vec![snapshot] };
    assert_eq!(Replica::default().follow(store).await, Ok(Some(beginning)));
    assert_eq!((second.renew().await, second.over()), (Ok(()), None));
}

async fn a_dropped_future_loses_no_place(store: &LogStore) {
    let (owner, _) = owner(store).await;
    let mut kept = Vec::new();
    for number in 0..20 {
        let dropped = owner.append(Bytes::from(format!("dropped {number}")));
        // Polled once, so that the batch is on its way.
        tokio::select! {
            biased;
            _ = dropped => {}
            () = std::future::ready(()) => {}
        }
        let batch = Bytes::from(format!("kept {number}"));
        owner.append(batch.clone()).await.expect("it is appended");
        kept.push(batch);
    }
    let found = read(store).await;
    let expected: Vec<_> = (0..20).flat_map(|number| [format!("dropped {number}"), format!("kept {number}")]).collect();
    assert_eq!(found, expected);
}

async fn a_glance_says_whether_there_is_more(store: &LogStore) {
    let (owner, mut copy) = owner(store).await;
    let mut follower = store.follow(copy.cursor);
    assert_eq!(follower.next().await, Ok(Read::End));
    for _ in 0..3 {
        assert_eq!(follower.glance().await, Ok(false));
    }
    let mut expected = Vec::new();
    for number in 0..5 {
        let batch = Bytes::from(format!("{number}"));
        owner.append(batch.clone()).await.expect("it is appended");
        expected.push(batch);
        if number % 2 == 0 {
            continue;
        }
        // A second glance forgets nothing.
        assert_eq!((follower.glance().await, follower.glance().await), (Ok(true), Ok(true)));
        while let Read::Entry(position, entry) = follower.next().await.expect("it is read") {
            copy.apply(position, entry);
        }
        assert_eq!(copy.batches(), expected);
        assert_eq!(follower.glance().await, Ok(false));
    }
    // A fence of another owner, where the log has some, is no less than a batch.
    let mut other = copy.clone();
    let owner = other.take(store).await.expect("the log is taken").expect("nobody else takes it");
    owner.append(Bytes::from_static(b"last")).await.expect("it is appended");
    assert_eq!(follower.glance().await, Ok(true));
    while let Read::Entry(position, entry) = follower.next().await.expect("it is read") {
        copy.apply(position, entry);
    }
    assert_eq!(copy.batches().last().map(|batch| &batch[..]), Some(&b"last"[..]));
}

/// What `next` does at the end of a log of rows, and a glance does not.
pub async fn a_glance_changes_no_row(database: &Database) {
    let store = database.ground().open("glanced").await;
    let (_owner, copy) = owner(&store).await;
    let mut follower = store.follow(copy.cursor);
    let version = "SELECT xmin::text::int8 FROM glanced_head";
    let before = database.count(version).await;
    assert_eq!(follower.glance().await, Ok(false));
    assert_eq!(database.count(version).await, before);
    assert_eq!(follower.next().await, Ok(Read::End));
    assert_ne!(database.count(version).await, before);
}

async fn reading_goes_on_after_a_future_was_dropped(store: &LogStore) {
    let (owner, _) = owner(store).await;
    for number in 0..10 {
        owner.append(Bytes::from(format!("{number}"))).await.expect("it is appended");
    }
    let mut copy = Replica::default();
    let mut taking = store.take(copy.cursor).expect("a number is found");
    for tries in 0.. {
        // Each time a little longer.
        tokio::select! {
            () = tokio::time::sleep(Duration::from_micros(200 * tries)) => {}
            taken = taking.next() => match taken.expect("the log is read") {
                Taken::Entry(position, entry) => copy.apply(position, entry),
                Taken::Owner(owner) => {
                    assert_eq!(owner.append(Bytes::from_static(b"new")).await.map(|after| after.last.is_some()), Ok(true));
                    break;
                }
                Taken::Withdrawn | Taken::Truncated(_) => panic!("nobody else is there"),
            },
        }
    }
    assert_eq!(copy.batches(), (0..10).map(|number| number.to_string()).collect::<Vec<_>>());
    assert!(matches!(owner.append(Bytes::from_static(b"late")).await, Err(Error::Fenced(_))));
}

async fn a_log_is_truncated_below_a_snapshot(store: &LogStore) {
    let (owner, mut copy) = owner(store).await;
    let fences: Vec<_> = copy.entries.iter().filter(|(_, entry)| entry.batch.is_none()).map(|(at, _)| *at).collect();
    let mut behind = Replica::default();
    behind.follow(store).await.expect("it is read");
    for number in 0..30 {
        owner.append(Bytes::from(format!("{number}"))).await.expect("it is appended");
    }
    copy.follow(store).await.expect("it is read");
    let snapshot = Snapshot { at: copy.cursor, term: owner.term() };
    assert_eq!(owner.keep(vec![snapshot], copy.cursor.next + 1, Vec::new()).await, Err(Error::Floor));
    assert_eq!(owner.keep(vec![snapshot], copy.cursor.next, fences.clone()).await, Ok(()));
    assert_eq!(owner.keep(vec![snapshot], copy.cursor.next - 1, Vec::new()).await, Err(Error::Floor));
    let beginning = Beginning { floor: copy.cursor.next, snapshots: vec![snapshot] };
    // The copy is not older than the log, and others are.
    assert_eq!(copy.follow(store).await, Ok(None));
    // Until the entries are deleted, which nobody waits for, they can be read.
    while let Ok(None) = behind.clone().follow(store).await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(behind.clone().follow(store).await, Ok(Some(beginning.clone())));
    assert!(
        matches!(store.take(behind.cursor).unwrap().next().await, Ok(Taken::Truncated(found)) if found == beginning)
    );
    assert_eq!(owner.keep(vec![snapshot], copy.cursor.next, fences).await, Ok(()));
    owner.append(Bytes::from_static(b"after")).await.expect("it is appended");
    let mut loaded = Replica { cursor: snapshot.at, entries: Vec::new() };
    assert_eq!(loaded.follow(store).await, Ok(None));
    assert_eq!(loaded.batches(), ["after"]);
    assert!(loaded.take(store).await.expect("the log is taken").is_some());
}

async fn a_copy_of_another_log_is_noticed(store: &LogStore) {
    let (owner, _) = owner(store).await;
    for number in 0..3 {
        owner.append(Bytes::from(format!("{number}"))).await.expect("it is appended");
    }
    for next in [1, 2, 50] {
        let mut other = Replica { cursor: Cursor { next, last: Some(EntryId(9)) }, entries: Vec::new() };
        assert_eq!(other.follow(store).await, Err(Error::OtherLog), "a copy up to {next}");
        assert_eq!(other.take(store).await.map(|_| ()), Err(Error::OtherLog), "a copy up to {next}");
    }
}

async fn a_batch_may_be_as_large_as_it_says(store: &LogStore) {
    let (owner, _) = owner(store).await;
    let limit = store.largest_batch();
    let largest = Bytes::from(vec![7; limit]);
    let length = limit + 1;
    assert_eq!(owner.append(Bytes::from(vec![7; length])).await, Err(Error::TooLarge { length, limit }));
    owner.append(largest.clone()).await.expect("it is appended");
    assert!(read(store).await == [largest], "the batch is another one");
}
