//! The engine through its own interface, on a real directory.

mod check;
mod cluster;
mod events;
mod health;
mod layers;
mod lifecycle;
mod objects;
mod options;
mod quotas;
mod reclaim;
mod rounds;
mod sealing;
mod standby;
mod steps;
mod support;
mod waits;

use std::sync::Arc;

use bytes::Bytes;

use super::{CompletionSink, Condition, Effort, EngineOptions, Waiter};
use orcas_base::error::Error;
use orcas_decide::{Failure, Intent, Outcome, Precondition, Refusal};
use orcas_record::{Cause, Durability};
use steps::Steps;
use support::{Store, options};

struct Panics;

impl CompletionSink for Panics {
    fn complete(&self, _: u64, _: Result<Outcome, Failure>) {
        panic!("on purpose");
    }
}

#[test]
fn when_the_committer_panics_nobody_waits_for_it() {
    let mut store = Store::new();
    let bucket = store.bucket("b");
    store.put(&bucket, "before", b"content").unwrap();
    let delete = |key: &'static str| Intent::DeleteObject {
        bucket: bucket.id,
        key: Bytes::from_static(key.as_bytes()),
        precondition: Precondition::default(),
        version: None,
        bypass: false,
    };
    store.handle().submit(delete("other"), Cause::Engine, Waiter::new(Arc::new(Panics), 0));
    // Some are decided with it, some wait, some come after it.
    let mut answers = (0..1_000).map(|_| store.put(&bucket, "after", b"content"));
    assert!(answers.any(|answer| answer.is_err()));
    match store.put(&bucket, "late", b"content") {
        Err(Failure::Engine(Error::ReadOnly { cause })) => assert!(cause.reason.contains("panicked"), "{cause}"),
        other => panic!("{other:?}"),
    }
    let health = store.handle().health();
    assert!(matches!(health.condition, Condition::ReadOnly(_)) && !health.writable, "{health:?}");
    assert_eq!(store.get(&bucket, "before").unwrap().as_deref(), Some(&b"content"[..]));
    assert!(matches!(store.handle().pin_for_backup(), Err(Error::ReadOnly { .. })));
    assert!(store.handle().reclaim(Effort::Compact).is_err());
    assert!(matches!(store.try_close(), Err(Error::ReadOnly { .. })));
    store.open();
    assert_eq!(store.get(&bucket, "before").unwrap().as_deref(), Some(&b"content"[..]));
    assert_eq!(store.get(&bucket, "late").unwrap(), None);
}

#[test]
fn what_was_put_is_read_back_before_and_after_a_restart() {
    let mut store = Store::new();
    let bucket = store.bucket("photos");
    let bodies: Vec<Vec<u8>> =
        [0, 1, 256, 257, 4096, 65_536, 100_000, 5 << 20].iter().map(|&n| support::noise(n, n as u64)).collect();
    for (at, body) in bodies.iter().enumerate() {
        store.put(&bucket, &format!("k/{at}"), body).unwrap();
    }
    for round in 0..3 {
        for (at, body) in bodies.iter().enumerate() {
            assert!(store.get(&bucket, &format!("k/{at}")).unwrap().as_deref() == Some(&body[..]), "{round} {at}");
        }
        assert_eq!(store.get(&bucket, "absent").unwrap(), None);
        store.reopen();
    }
}

#[test]
fn a_deleted_or_moved_object_stays_gone() {
    let mut store = Store::new();
    let bucket = store.bucket("b");
    store.put(&bucket, "old", b"content").unwrap();
    store.put(&bucket, "gone", &[7; 5000]).unwrap();
    store.delete(&bucket, "gone").unwrap();
    store.rename(&bucket, "old", "new").unwrap();
    for _ in 0..2 {
        assert_eq!(store.get(&bucket, "gone").unwrap(), None);
        assert_eq!(store.get(&bucket, "old").unwrap(), None);
        assert_eq!(store.get(&bucket, "new").unwrap().as_deref(), Some(&b"content"[..]));
        store.reopen();
    }
}

#[test]
fn one_of_many_conditional_writers_wins() {
    let store = Store::new();
    let bucket = store.bucket("b");
    let wins: usize = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..16)
            .map(|n| {
                let (store, bucket) = (&store, &bucket);
                scope.spawn(move || {
                    let mut put = store.small_put(bucket, "key", format!("writer {n}").as_bytes());
                    put.precondition = Precondition { if_none_match_any: true, ..Precondition::default() };
                    match store.handle().execute(Intent::PutObject(Box::new(put))) {
                        Ok(Outcome::Put(_)) => 1,
                        Err(Failure::Refused(Refusal::PreconditionFailed { .. })) => 0,
                        other => panic!("{other:?}"),
                    }
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert_eq!(wins, 1);
}

#[test]
fn weaker_modes_are_visible_at_once_and_durable_after_a_clean_close() {
    for durability in [Durability::UnsafeNone, Durability::Buffered, Durability::Interval] {
        let mut store = Store::with(|options| options.durability = durability);
        let bucket = store.bucket("b");
        for n in 0..300 {
            store.put(&bucket, &format!("{n:04}"), &support::noise(1000, n)).unwrap();
        }
        assert_eq!(store.list(&bucket).len(), 300);
        store.reopen();
        assert_eq!(store.list(&bucket).len(), 300);
        assert_eq!(store.get(&bucket, "0299").unwrap().unwrap(), support::noise(1000, 299));
    }
}

#[test]
fn a_buffer_holds_no_more_than_its_limits_say_though_parts_of_it_are_written_early() {
    const LENGTH: usize = 60_000;
    for (size, count) in [(3 << 20, 2048), (8 << 20, 30), (100_000, 2048)] {
        let mut steps = Steps::with(|options| {
            options.durability = Durability::Buffered;
            options.max_write_buffer_size = size;
            options.max_write_buffer_count = count;
        });
        let bucket = steps.bucket("b");
        let before = steps.shared().applies.lag().bytes;
        let mut synced_at = Vec::new();
        for n in 0..200u64 {
            let seen = steps.shared().applies.lag().bytes;
            steps.put(&bucket, &format!("{n}"), &support::noise(LENGTH, n));
            if steps.shared().applies.lag().bytes > seen {
                synced_at.push(n + 1);
            }
        }
        // The index is given what a sync covered.
        assert!(steps.shared().applies.lag().bytes - before > synced_at.last().unwrap() * LENGTH as u64);
        let batches = std::iter::once(&0).chain(&synced_at).zip(&synced_at).map(|(from, to)| to - from);
        let expected = size.div_ceil(LENGTH as u64).min(u64::from(count));
        assert!(batches.clone().all(|held| (expected - 2..=expected).contains(&held)), "{expected}: {synced_at:?}");
    }
}

#[test]
fn a_bucket_goes_only_when_it_is_empty() {
    let store = Store::new();
    let bucket = store.bucket("b");
    store.put(&bucket, "k", b"x").unwrap();
    let delete = || store.handle().execute(Intent::DeleteBucket { bucket: bucket.id });
    assert!(matches!(delete(), Err(Failure::Refused(Refusal::BucketNotEmpty))));
    store.delete(&bucket, "k").unwrap();
    assert!(matches!(delete(), Ok(Outcome::Done)));
    assert!(matches!(delete(), Err(Failure::Refused(Refusal::NoSuchBucket))));
    assert!(matches!(store.put(&bucket, "k", b"x"), Err(Failure::Refused(Refusal::NoSuchBucket))));
}

#[test]
fn an_upload_survives_a_restart_and_its_completion_can_be_repeated() {
    let mut store = Store::new();
    let bucket = store.bucket("b");
    let upload = store.create_upload(&bucket, "big");
    let first = support::noise(5 << 20, 1);
    let parts = vec![store.put_part(&bucket, "big", upload, 1, &first)];
    store.reopen();
    let mut parts = parts;
    parts.push(store.put_part(&bucket, "big", upload, 2, b"tail"));
    let done = store.complete(&bucket, "big", upload, &parts).unwrap();
    let again = store.complete(&bucket, "big", upload, &parts).unwrap();
    assert_eq!(done, again);
    store.reopen();
    assert_eq!(store.complete(&bucket, "big", upload, &parts).unwrap(), done);
    let body = store.get(&bucket, "big").unwrap().unwrap();
    assert!(body == [&first[..], b"tail"].concat());
    assert!(matches!(
        store.complete(&bucket, "big", upload, &parts[..1]),
        Err(Failure::Refused(Refusal::NoSuchUpload))
    ));
}

#[test]
fn a_lost_index_is_rebuilt_from_the_log() {
    let mut store = Store::new();
    let bucket = store.bucket("b");
    for n in 0..500u64 {
        store.put(&bucket, &format!("{:03}", n % 250), &support::noise(300 + n as usize, n)).unwrap();
    }
    store.put(&bucket, "large", &support::noise(1 << 20, 9)).unwrap();
    store.check_rebuild();
    assert_eq!(store.get(&bucket, "large").unwrap().unwrap(), support::noise(1 << 20, 9));
}

#[test]
fn a_second_opener_is_refused() {
    let store = Store::new();
    let second = super::Engine::open(options(store.path()), support::environment());
    assert!(matches!(second.err(), Some(orcas_base::error::Error::Locked { .. })));
}

#[test]
fn a_range_is_read_from_any_place() {
    let store = Store::with(|options| options.chunk_size = 70_000);
    let bucket = store.bucket("b");
    let body = support::noise(300_000, 3);
    store.put(&bucket, "k", &body).unwrap();
    for (first, last) in
        [(0, 0), (69_999, 70_000), (65_535, 65_536), (0, 299_999), (139_999, 280_001), (299_999, 299_999)]
    {
        assert!(store.get_range(&bucket, "k", first, last) == body[first as usize..=last as usize], "{first}-{last}");
    }
}

#[test]
fn a_copied_part_names_a_range_of_its_source() {
    let store = Store::with(|options| options.chunk_size = 1 << 20);
    let bucket = store.bucket("b");
    let source = support::noise(9 << 20, 4);
    store.put(&bucket, "source", &source).unwrap();
    let upload = store.create_upload(&bucket, "copy");
    let request = |number, range| super::CopyPartRequest {
        source: (bucket.id, Bytes::from_static(b"source"), None),
        source_conditions: Default::default(),
        range,
        bucket: bucket.id,
        key: Bytes::from_static(b"copy"),
        upload,
        number,
        keys: Default::default(),
    };
    let part = |number, range| match crate::run_copy(store.handle().copy_part(&request(number, range))) {
        Ok(Outcome::Part(put)) => (number, put.etag.md5),
        other => panic!("{other:?}"),
    };
    let parts = [part(1, Some((777_777, 777_777 + (6 << 20)))), part(2, None)];
    store.complete(&bucket, "copy", upload, &parts).unwrap();
    let expected = [&source[777_777..=777_777 + (6 << 20)], &source[..]].concat();
    assert!(store.get(&bucket, "copy").unwrap().unwrap() == expected);
    let beyond = crate::run_copy(store.handle().copy_part(&request(3, Some((0, 9 << 20)))));
    assert!(matches!(beyond, Err(Failure::Refused(_))));
}

/// Whoever polls it can use the thread for something else after each piece, or end the copy.
#[test]
fn a_copy_that_reads_its_source_pauses_and_can_be_ended() {
    use std::task::{Context, Poll, Waker};
    let store = Store::with(|options| options.chunk_size = 1 << 20);
    let bucket = store.bucket("b");
    store.put(&bucket, "source", &support::noise(5 << 20, 4)).unwrap();
    let upload = store.create_upload(&bucket, "copy");
    let request = |number| super::CopyPartRequest {
        source: (bucket.id, Bytes::from_static(b"source"), None),
        source_conditions: Default::default(),
        range: Some((1, (5 << 20) - 1)),
        bucket: bucket.id,
        key: Bytes::from_static(b"copy"),
        upload,
        number,
        keys: Default::default(),
    };
    let handle = store.handle();
    let polled = |number, polls_max| {
        let request = request(number);
        let mut copy = std::pin::pin!(handle.copy_part(&request));
        let mut context = Context::from_waker(Waker::noop());
        (1..=polls_max).find(|_| matches!(copy.as_mut().poll(&mut context), Poll::Ready(Ok(_))))
    };
    // Four whole pieces, and what is left.
    assert_eq!(polled(1, 4), None);
    assert_eq!(polled(2, 9), Some(5));
    let parts = handle.list_parts(orcas_catalog::ListParts { upload, after: 0, max_parts: 10 }).unwrap();
    assert_eq!(parts.entries.iter().map(|part| part.number).collect::<Vec<_>>(), [2]);
}
