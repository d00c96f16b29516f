//! Who goes on at every lock, atomic and disk operation. A seed gives all of it: the strategy and every choice.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orcas_fs_testing::SimRng;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

/// Scheduling decisions among which the points of a priority change are strewn; about what a schedule has.
const STEPS: u64 = 4_000;
/// Priority changes beside those by yielding.
const CHANGES_MAX: u64 = 6;

enum Strategy {
    /// Everybody with the same chance, at every point.
    Random,
    /// The same task goes on, with one chance in so many that another comes.
    Sticky(u64),
    /// Probabilistic concurrency testing: the runnable task of the highest priority goes on; at few points the running one
    /// falls behind all others. Tasks by number; a larger value goes first.
    Priorities { of: Vec<u64>, changes: Vec<u64>, step: u64, lowest: u64 },
}

/// One schedule for each seed.
pub struct Schedules {
    seeds: Range<u64>,
    current: Arc<AtomicU64>,
    rng: SimRng,
    strategy: Strategy,
}

/// Priorities given at birth stand above all that are given later.
const BORN: u64 = 1 << 32;

impl Schedules {
    /// `current` always holds the seed of the running schedule.
    pub fn new(seeds: Range<u64>, current: Arc<AtomicU64>) -> Self {
        Self { seeds, current, rng: SimRng::new(0), strategy: Strategy::Random }
    }
}

impl Scheduler for Schedules {
    fn new_execution(&mut self) -> Option<Schedule> {
        let seed = self.seeds.next()?;
        self.current.store(seed, Ordering::Relaxed);
        self.rng = SimRng::new(seed);
        self.strategy = match self.rng.below(8) {
            0 | 1 => Strategy::Random,
            2 | 3 => Strategy::Sticky(4 + self.rng.below(28)),
            _ => {
                let changes = (0..self.rng.below(CHANGES_MAX)).map(|_| self.rng.below(STEPS)).collect();
                Strategy::Priorities { of: Vec::new(), changes, step: 0, lowest: BORN }
            }
        };
        Some(Schedule::new(seed))
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, is_yielding: bool) -> Option<TaskId> {
        let any = |rng: &mut SimRng| runnable[rng.below(runnable.len() as u64) as usize].id();
        match &mut self.strategy {
            Strategy::Random => Some(any(&mut self.rng)),
            Strategy::Sticky(chances) => {
                let stays = current.filter(|current| runnable.iter().any(|task| task.id() == *current));
                match stays {
                    Some(current) if !is_yielding && self.rng.below(*chances) > 0 => Some(current),
                    _ => Some(any(&mut self.rng)),
                }
            }
            Strategy::Priorities { of, changes, step, lowest } => {
                let most = runnable.iter().map(|task| usize::from(task.id())).max()?;
                while of.len() <= most {
                    of.push(BORN + self.rng.below(BORN));
                }
                if runnable.len() > 1 {
                    *step += 1;
                    if (is_yielding || changes.contains(step))
                        && let Some(current) = current
                    {
                        *lowest -= 1;
                        of[usize::from(current)] = *lowest;
                    }
                }
                runnable.iter().map(|task| task.id()).max_by_key(|task| of[usize::from(*task)])
            }
        }
    }

    fn next_u64(&mut self) -> u64 {
        self.rng.next()
    }
}
