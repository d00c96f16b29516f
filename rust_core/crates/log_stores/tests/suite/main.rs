//! What every store of a shared log does, over a bucket and over PostgreSQL, undisturbed and through faults.
#![forbid(unsafe_code)]

mod behaviour;
mod bucket;
mod database;
mod ground;
mod proxy;
mod refusals;
mod takeovers;
mod truncation;

use behaviour::Replica;
use bucket::{Bucket, Faults};
use bytes::Bytes;
use database::Database;
use ground::{Ground, Random};

#[tokio::test]
async fn objects_behave() {
    let bucket = Bucket::start(Faults::None).await;
    behaviour::all(&Ground::bucket(bucket.port)).await;
}

#[tokio::test]
async fn objects_are_refused_with_a_reason() {
    refusals::of_objects().await;
}

/// An entry is not read before the fourth behind it was asked for.
#[tokio::test]
async fn a_node_that_is_behind_reads_ahead() {
    let [held, until] = ["/logs/a/log/00000000000000000030", "/logs/a/log/00000000000000000034"];
    let bucket = Bucket::start(Faults::None).await;
    let store = Ground::bucket(bucket.port).open("a").await;
    let batches: Vec<_> = (0..60).map(|number| Bytes::from(number.to_string())).collect();
    let owner = Replica::default().take(&store).await.expect("the log is taken").expect("nobody else takes it");
    for batch in &batches {
        owner.append(batch.clone()).await.expect("it is appended");
    }
    *bucket.state.faults.lock() = Faults::HeldBack(held, until);
    // The owner has asked for them, to create them.
    bucket.state.asked.lock().clear();
    let mut copy = Replica::default();
    assert_eq!(copy.follow(&store).await, Ok(None));
    assert_eq!(copy.batches(), batches);
    bucket.state.asked.lock().clear();
    let mut copy = Replica::default();
    assert!(copy.take(&store).await.expect("the log is taken").is_some());
    assert_eq!(copy.batches(), batches);
}

#[tokio::test]
async fn a_truncation_leaves_fences() {
    truncation::leaves_fences().await;
}

#[tokio::test]
async fn a_truncation_keeps_nobody_waiting() {
    truncation::keeps_nobody_waiting().await;
}

/// A server starts slowly, so one serves all tests of rows.
#[tokio::test]
async fn rows_behave() {
    let Some(database) = Database::start().await else { return };
    behaviour::all(&database.ground()).await;
    behaviour::a_glance_changes_no_row(&database).await;
    refusals::of_rows(&database).await;
    refusals::a_commit_with_a_warning_is_not_durable(&database).await;
    for seed in seeds() {
        let proxy = proxy::start(database.port, seed).await;
        takeovers::run(&database.ground().through(proxy), "proxied", seed).await;
    }
}

#[tokio::test]
async fn takeovers_lose_nothing_when_a_bucket_fails() {
    for seed in seeds() {
        let bucket = Bucket::start(Faults::Seeded(seed)).await;
        takeovers::run(&Ground::bucket(bucket.port), "faulty", seed).await;
    }
}

#[tokio::test]
async fn takeovers_lose_nothing_when_connections_to_a_bucket_are_cut() {
    for seed in seeds() {
        let bucket = Bucket::start(Faults::None).await;
        let proxy = proxy::start(bucket.port, seed).await;
        takeovers::run(&Ground::bucket(proxy), "proxied", seed).await;
    }
}

/// `ORCAS_LOG_URL` names a store that somebody else runs, with `LOG` in place of the name of a log. The variables of AWS
/// clients have its keys.
#[tokio::test]
async fn another_store_behaves() {
    if let Ok(url) = std::env::var("ORCAS_LOG_URL") {
        let ground = Ground { url: url.leak(), port: 0 };
        behaviour::all(&ground).await;
        takeovers::run(&ground, "another", Random::from_the_system()).await;
    }
}

/// One, and more if everything is to be run. `ORCAS_LOG_SEED` repeats one.
fn seeds() -> Vec<u64> {
    if let Ok(seed) = std::env::var("ORCAS_LOG_SEED") {
        return vec![seed.parse().expect("ORCAS_LOG_SEED is a number")];
    }
    let runs = if std::env::var("ORCAS_SHARE").is_ok_and(|share| share != "1") { 1 } else { 3 };
    (0..runs).map(|_| Random::from_the_system()).collect()
}
