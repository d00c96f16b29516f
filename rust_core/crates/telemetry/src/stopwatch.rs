//! Times the steps of a request before its answer, in the gateway and in the engine, if it is traced or may be reported
//! as slow. Other requests have no stopwatch, and read no clock for it. Must not know who shows the steps.

use std::time::{Duration, Instant};

use orcas_base::verifying::with_time;
use orcas_engine::RoundTimes;
use parking_lot::Mutex;

/// Steps in the order in which a request takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Until its change was handed to the committer: digests, and for a large body the sync of its chunks.
    Prepare,
    /// Until a worker or the committer took it up.
    Queue,
    /// The committer waited for the index, which was too far behind.
    ApplyWait,
    /// The committer decided it, and what came with it.
    Decide,
    /// The batch was written to the log.
    Append,
    /// The log was synced.
    Sync,
    /// The change was shown to readers, and the answer given.
    Publish,
    /// The object was looked up in memory or in the index.
    Lookup,
    /// The bytes of the body were read. Of a body in several pieces, the sum of all.
    Read,
    /// Their checksums were compared, or what was sealed opened and its tags compared. The sum as well.
    Verify,
}

impl Step {
    pub const COUNT: usize = 10;

    pub fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Queue => "queue",
            Self::ApplyWait => "apply_wait",
            Self::Decide => "decide",
            Self::Append => "append",
            Self::Sync => "sync",
            Self::Publish => "publish",
            Self::Lookup => "lookup",
            Self::Read => "read",
            Self::Verify => "verify",
        }
    }
}

/// When a request took a step, and how long that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTime {
    pub step: Step,
    /// The first time.
    pub began: Instant,
    /// The time that it took in all.
    pub took: Duration,
}

#[derive(Debug, Default)]
pub struct Stopwatch {
    steps: Mutex<Steps>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Steps {
    /// When the request had all that it needs to begin.
    began: Option<Instant>,
    /// When its change was handed to the committer.
    submitted: Option<Instant>,
    taken: [Option<StepTime>; Step::COUNT],
}

impl Steps {
    fn add(&mut self, step: Step, began: Instant, took: Duration) {
        let Some(time) = self.taken.get_mut(step as usize) else { return };
        let before = time.map_or(Duration::ZERO, |time| time.took);
        let began = time.map_or(began, |time| time.began);
        *time = Some(StepTime { step, began, took: before + took });
    }

    fn between(&mut self, step: Step, began: Instant, ended: Instant) {
        self.add(step, began, ended.saturating_duration_since(began));
    }
}

impl Stopwatch {
    /// The body has arrived, or there is none.
    pub fn begin(&self) {
        self.steps.lock().began = Some(Instant::now());
    }

    /// The steps so far, in their order.
    pub fn steps(&self) -> Vec<StepTime> {
        self.steps.lock().taken.into_iter().flatten().collect()
    }

    /// The change is handed to the committer now.
    pub fn submitted(&self) {
        let now = Instant::now();
        let mut steps = self.steps.lock();
        if let Some(began) = steps.began.take() {
            steps.between(Step::Prepare, began, now);
        }
        steps.submitted = Some(now);
    }

    /// The committer gives its answer, at the time `engine_now` of its clock.
    pub fn committed(&self, round: &RoundTimes, engine_now: Duration) {
        let now = Instant::now();
        let at = |time: Duration| now.checked_sub(engine_now.saturating_sub(time)).unwrap_or(now);
        let mut steps = self.steps.lock();
        let began = at(round.began);
        if let Some(submitted) = steps.submitted.take() {
            let awaited = round.awaited_index.map_or(began, |since| at(since).max(submitted)).min(began);
            steps.between(Step::Queue, submitted, awaited);
            if awaited < began {
                steps.between(Step::ApplyWait, awaited, began);
            }
        }
        let decided = round.decided.map_or(now, at);
        steps.between(Step::Decide, began, decided);
        let (sync, synced) = round.sync.map_or((now, now), |(began, ended)| (at(began), at(ended)));
        if round.appended {
            steps.between(Step::Append, decided, sync);
        }
        if round.sync.is_some() {
            steps.between(Step::Sync, sync, synced);
            steps.between(Step::Publish, synced, now);
        }
    }

    /// A worker takes the request up now, which was handed to it at `since`.
    pub fn taken_up(&self, since: Instant) {
        self.steps.lock().between(Step::Queue, since, Instant::now());
    }

    /// The object that was asked for at `since` is found.
    pub fn found(&self, since: Instant) {
        self.steps.lock().between(Step::Lookup, since, Instant::now());
    }
}

/// Reads bytes of an object. A stopwatch, if there is one, is told how long that took, and how much of it verifying them.
pub fn reading<T>(stopwatch: Option<&Stopwatch>, read: impl FnOnce() -> T) -> T {
    let Some(stopwatch) = stopwatch else { return read() };
    let began = Instant::now();
    let (done, verified) = with_time(read);
    let reading = began.elapsed().saturating_sub(verified);
    let mut steps = stopwatch.steps.lock();
    steps.add(Step::Read, began, reading);
    steps.add(Step::Verify, began + reading, verified);
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use orcas_base::verifying::verifying;

    fn names(stopwatch: &Stopwatch) -> Vec<&'static str> {
        stopwatch.steps().iter().map(|time| time.step.name()).collect()
    }

    #[test]
    fn the_steps_of_a_write_follow_each_other_without_a_gap() {
        let stopwatch = Stopwatch::default();
        stopwatch.begin();
        stopwatch.submitted();
        std::thread::sleep(Duration::from_millis(5));
        let second = Duration::from_millis;
        let round = RoundTimes {
            awaited_index: Some(second(996)),
            began: second(997),
            decided: Some(second(998)),
            appended: true,
            sync: Some((second(999), second(1000))),
        };
        stopwatch.committed(&round, second(1000));
        assert_eq!(names(&stopwatch), ["prepare", "queue", "apply_wait", "decide", "append", "sync", "publish"]);
        let steps = stopwatch.steps();
        for two in steps.windows(2) {
            assert_eq!(two[0].began + two[0].took, two[1].began, "{two:?}");
        }
        assert!(steps[2..6].iter().all(|step| step.took == second(1)), "{steps:?}");
    }

    #[test]
    fn a_round_without_a_sync_has_none() {
        let stopwatch = Stopwatch::default();
        stopwatch.submitted();
        stopwatch.committed(&RoundTimes::default(), Duration::from_millis(1));
        assert_eq!(names(&stopwatch), ["queue", "decide"]);
        assert_eq!(stopwatch.steps()[0].took, Duration::ZERO, "it began before the clock of the round");
    }

    #[test]
    fn pieces_add_up() {
        let stopwatch = Stopwatch::default();
        let nap = || std::thread::sleep(Duration::from_millis(2));
        for _ in 0..2 {
            reading(Some(&stopwatch), || {
                nap();
                verifying(nap);
            });
        }
        let steps = stopwatch.steps();
        assert_eq!(names(&stopwatch), ["read", "verify"]);
        assert!(steps.iter().all(|step| step.took >= Duration::from_millis(4)), "{steps:?}");
        assert!(steps[0].began < steps[1].began);
        assert_eq!(reading(None, || 1), 1);
    }
}
