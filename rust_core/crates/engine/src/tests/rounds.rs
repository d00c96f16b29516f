//! What those who wait for an answer learn about the round that gave it.

use std::sync::Arc;
use std::time::Duration;

use super::steps::Steps;
use crate::{CompletionSink, RoundTimes, Waiter};
use orcas_base::sync::{Sender, bounded};
use orcas_decide::{Failure, Outcome};
use orcas_record::{Bucket, Cause, Durability};

struct Times(Sender<RoundTimes>);

impl CompletionSink for Times {
    fn complete(&self, _: u64, _: Result<Outcome, Failure>) {
        panic!("an answer of a round comes with its times");
    }

    fn complete_quietly(&self, _: u64, result: Result<Outcome, Failure>, round: &RoundTimes) -> bool {
        result.unwrap();
        self.0.send(*round).unwrap();
        false
    }
}

/// The times of the round that decides a put, and when that was submitted.
fn put(steps: &mut Steps, bucket: &Bucket) -> (Duration, RoundTimes) {
    let (told, times) = bounded(1);
    let intent = steps.intent(bucket, "k", b"content");
    let submitted = steps.handle().monotonic();
    steps.handle().submit(intent, Cause::Engine, Waiter::new(Arc::new(Times(told)), 0));
    steps.advance(Duration::from_secs(5));
    steps.stepper().commit();
    (submitted, times.recv().unwrap())
}

#[test]
fn a_synced_round_decides_appends_and_syncs_in_this_order() {
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    let (submitted, times) = put(&mut steps, &bucket);
    let (decided, (sync, synced)) = (times.decided.unwrap(), times.sync.unwrap());
    assert!(times.began >= submitted + Duration::from_secs(5), "{times:?}");
    assert!(times.began <= decided && decided <= sync && sync <= synced, "{times:?}");
    assert!(synced <= steps.handle().monotonic());
    assert!(times.appended && times.awaited_index.is_none());
}

#[test]
fn a_buffered_round_neither_appends_nor_syncs() {
    let mut steps = Steps::with(|options| options.durability = Durability::Buffered);
    let bucket = steps.bucket("b");
    let (_, times) = put(&mut steps, &bucket);
    assert!(times.decided.is_some() && !times.appended && times.sync.is_none(), "{times:?}");
}
