//! What a truncation leaves in a bucket.

use std::time::Duration;

use bytes::Bytes;
use orcas_log_stores::{LogStore, Options, Owner};
use orcas_shared_log::Snapshot;

use crate::behaviour::Replica;
use crate::bucket::{Bucket, Faults};
use crate::ground::{Ground, options};

const HOUR: Duration = Duration::from_secs(3600);

async fn take(store: &LogStore, copy: &mut Replica) -> Owner {
    copy.take(store).await.expect("the log is taken").expect("nobody else takes it")
}

async fn until_there_are(bucket: &Bucket, positions: &[u64]) {
    let log = positions.iter().map(|position| format!("/logs/a/log/{position:020}"));
    let expected: Vec<_> = ["/logs/a/head".to_owned()].into_iter().chain(log).collect();
    for _ in 0..6000 {
        if bucket.keys() == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(bucket.keys(), expected);
}

/// Three owners with four batches each.
async fn log(store: &LogStore) -> (Owner, Replica) {
    let mut copy = Replica::default();
    let mut owner = take(store, &mut copy).await;
    for number in 0..12 {
        if number == 4 || number == 8 {
            copy.follow(store).await.expect("it is read");
            owner = take(store, &mut copy).await;
        }
        owner.append(Bytes::from(format!("{number}"))).await.expect("it is appended");
    }
    copy.follow(store).await.expect("it is read");
    (owner, copy)
}

pub async fn leaves_fences() {
    let bucket = Bucket::start(Faults::None).await;
    let store = Ground::bucket(bucket.port).open("a").await;
    let (owner, mut copy) = log(&store).await;
    let snapshots = vec![Snapshot { at: copy.cursor, term: owner.term() }];
    assert_eq!(owner.keep(snapshots.clone(), 12, vec![0, 5, 10]).await, Ok(()));
    until_there_are(&bucket, &[0, 5, 10, 12, 13, 14]).await;
    drop(owner);
    // As if that owner had not come to delete it.
    for position in [2, 3, 4, 6, 7, 11] {
        bucket.put(&format!("/logs/a/log/{position:020}"), b"left");
    }
    let owner = take(&store, &mut copy).await;
    assert_eq!(owner.keep(snapshots, 12, vec![0, 5, 10]).await, Ok(()));
    until_there_are(&bucket, &[0, 5, 10, 12, 13, 14, 15]).await;
}

/// A store that deletes nothing keeps nobody waiting who renews an owner, or truncates again.
pub async fn keeps_nobody_waiting() {
    let bucket = Bucket::start(Faults::NoDeletes).await;
    let options = Options { deadline: HOUR, ..options() };
    let store = LogStore::open(&Ground::bucket(bucket.port).url("a"), &options).await.expect("the store opens");
    let (owner, copy) = log(&store).await;
    let snapshots = vec![Snapshot { at: copy.cursor, term: owner.term() }];
    let changes = async {
        assert_eq!(owner.keep(snapshots.clone(), 10, vec![0, 5]).await, Ok(()));
        assert_eq!(owner.renew().await, Ok(()));
        assert_eq!(owner.keep(snapshots, 12, vec![0, 5, 10]).await, Ok(()));
        assert_eq!(owner.renew().await, Ok(()));
    };
    tokio::time::timeout(HOUR / 60, changes).await.expect("a change does not wait");
    *bucket.state.faults.lock() = Faults::None;
    until_there_are(&bucket, &[0, 5, 10, 12, 13, 14]).await;
}
