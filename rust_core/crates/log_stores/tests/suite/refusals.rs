//! What is wrong is said, and nothing is changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use orcas_log_stores::{Error, LogStore, Options};

use crate::behaviour::Replica;
use crate::bucket::{Bucket, Faults};
use crate::database::Database;
use crate::ground::{Ground, options};

async fn refused(url: &str, options: &Options) -> Error {
    match LogStore::open(url, options).await {
        Ok(_) => panic!("{url} is opened"),
        Err(error) => error,
    }
}

fn hasty() -> Options {
    Options { call_timeout: Duration::from_secs(1), deadline: Duration::from_secs(3), ..options() }
}

pub async fn of_objects() {
    let bucket = Bucket::start(Faults::None).await;
    let ground = Ground::bucket(bucket.port);
    assert!(matches!(refused("ftp://logs", &options()).await, Error::Url(_)));
    assert!(matches!(refused("s3://logs?endpoint=ftp://a", &options()).await, Error::Url(_)));
    assert!(matches!(refused("s3://logs", &options()).await, Error::Unfit(reason) if reason.contains("TLS")));
    let keyless = Options { credentials: None, ..options() };
    assert!(matches!(refused(&ground.url("a"), &keyless).await, Error::Credentials(_)));

    bucket.put("/logs/a/head", b"{\"format\": 2}");
    assert!(matches!(refused(&ground.url("a"), &options()).await, Error::Foreign(_)));
    assert_eq!(bucket.keys(), ["/logs/a/head"]);

    let store = ground.open("b").await;
    let owner = Replica::default().take(&store).await.expect("the log is taken").expect("nobody else takes it");
    *bucket.state.faults.lock() = Faults::Always("403 Forbidden");
    assert!(matches!(refused(&ground.url("b"), &options()).await, Error::Credentials(_)));
    assert!(matches!(store.touch().await, Err(Error::Credentials(_))));
    *bucket.state.faults.lock() = Faults::Always("501 Not Implemented");
    assert!(matches!(refused(&ground.url("b"), &options()).await, Error::Unfit(_)));
    *bucket.state.faults.lock() = Faults::Silent;
    assert!(matches!(refused(&ground.url("b"), &hasty()).await, Error::Unknown(_)));
    *bucket.state.faults.lock() = Faults::None;
    owner.append(Bytes::from_static(b"an owner goes on")).await.expect("it is appended");
    store.touch().await.expect("the head is read");

    let store = LogStore::open(&ground.url("c"), &hasty()).await.expect("the store opens");
    let owner = Replica::default().take(&store).await.expect("the log is taken").expect("nobody else takes it");
    *bucket.state.faults.lock() = Faults::Silent;
    let first = owner.append(Bytes::from_static(b"never answered")).await.expect_err("nobody answers");
    assert!(matches!(first, Error::Unknown(_)));
    *bucket.state.faults.lock() = Faults::None;
    // What has become of the batch is open, so none may follow it.
    assert_eq!(owner.append(Bytes::from_static(b"next")).await, Err(first));
}

pub async fn of_rows(database: &Database) {
    let ground = database.ground();
    let url = ground.url("refused");
    assert!(matches!(refused(&ground.url("No-name"), &options()).await, Error::Url(_)));
    assert!(matches!(refused("postgresql://", &options()).await, Error::Url(_)));
    assert!(matches!(refused(&url.replace("log=", "colour="), &options()).await, Error::Url(_)));
    assert!(
        matches!(refused("postgresql://example.com/a", &options()).await, Error::Unfit(tls) if tls.contains("TLS"))
    );
    assert!(matches!(refused(&url.replace(":secret", ":wrong"), &options()).await, Error::Credentials(_)));
    assert!(matches!(refused(&url.replace("/postgres?", "/nothing?"), &options()).await, Error::Unfit(_)));

    database.run(&["CREATE TABLE foreign_head (a int)", "INSERT INTO foreign_head VALUES (1)"]).await;
    assert!(matches!(refused(&ground.url("foreign"), &options()).await, Error::Foreign(_)));
    database.run(&["CREATE TABLE half_log (a int)"]).await;
    assert!(matches!(refused(&ground.url("half"), &options()).await, Error::Foreign(_)));
    assert_eq!(database.count("SELECT count(*) FROM pg_tables WHERE tablename = 'half_head'").await, 0);
    ground.open("later").await;
    database.run(&["UPDATE later_head SET format = 2"]).await;
    assert!(matches!(refused(&ground.url("later"), &options()).await, Error::Foreign(_)));

    database.run(&["ALTER ROLE orcas SET synchronous_commit = off"]).await;
    assert!(matches!(refused(&url, &options()).await, Error::Unfit(reason) if reason.contains("synchronous_commit")));
    database.run(&["ALTER ROLE orcas RESET synchronous_commit"]).await;
    let store = ground.open("refused").await;
    assert!(store.warning().is_some_and(|warning| warning.contains("standby")));
    // Over a connection that is kept.
    store.touch().await.expect("the head is read");
    store.touch().await.expect("the head is read");
}

/// A wait for a standby that is cancelled ends with a commit and a warning.
pub async fn a_commit_with_a_warning_is_not_durable(database: &Database) {
    let store = database.ground().open("warned").await;
    let mut copy = Replica::default();
    let owner = copy.take(&store).await.expect("the log is taken").expect("nobody else takes it");
    let (acknowledged, stops) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
    let writing = tokio::spawn({
        let (acknowledged, stops) = (Arc::clone(&acknowledged), Arc::clone(&stops));
        async move {
            while !stops.load(Ordering::Acquire) {
                let number = acknowledged.load(Ordering::Acquire);
                owner.append(Bytes::from(number.to_string())).await.expect("it is appended");
                acknowledged.fetch_add(1, Ordering::Release);
            }
        }
    });
    database.run(&["ALTER SYSTEM SET synchronous_standby_names = 'absent'", "SELECT pg_reload_conf()"]).await;
    // Until the last row is there, and nobody is told so.
    let (mut cancelled, mut rows) = (0, 0);
    while cancelled < 3 || rows <= acknowledged.load(Ordering::Acquire) {
        tokio::time::sleep(Duration::from_millis(10)).await;
        cancelled += database
            .count(
                "SELECT count(*) FILTER (WHERE pg_cancel_backend(pid)) FROM pg_stat_activity
                WHERE wait_event = 'SyncRep' AND application_name = 'orcas'",
            )
            .await;
        rows = database.count("SELECT count(*) FROM warned_log").await;
    }
    assert_eq!(rows, acknowledged.load(Ordering::Acquire) + 1);
    stops.store(true, Ordering::Release);
    database.run(&["ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"]).await;
    writing.await.expect("the task ends");
    copy.follow(&store).await.expect("it is read");
    assert_eq!(copy.batches(), (0..rows).map(|number| number.to_string()).collect::<Vec<_>>());
}
