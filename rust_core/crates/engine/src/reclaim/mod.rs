//! Reclamation: condemns what nothing refers to, rewrites what is left of log files and packs that hold little, and
//! destroys files that nobody needs. One thread drives it, or a test, step by step; it never holds up the committer
//! for longer than one small decision.
//!
//! Invariants. Bytes move only into files that are durable before the record that says so. A file is destroyed only after
//! that record is durable and applied, nothing in memory leads to the file any more, and every reader of that time is
//! gone. What was submitted is never forgotten: its answer decides what may be destroyed.

mod blobs;
mod candidates;
mod driver;
mod keep;
mod logs;
mod packs;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::queue::Answer;
use super::{Shared, Waiter};
use orcas_base::error::{Error, Result};
use orcas_base::planted::{self, Bug};
use orcas_base::sync::Mutex;
use orcas_decide::{Intent, Outcome};
use orcas_index::BlobLocation;
use orcas_log::{CompactedLog, LogFiles};
use orcas_record::Sequence;

pub(super) use candidates::Candidates;
#[cfg(test)]
pub(super) use driver::on_demand;
pub use driver::{Effort, ReclaimProgress, Reclaimed};
pub(super) use driver::{Requests, run};
use logs::{Compaction, Estimates};
use packs::{Move, Sweep};

/// What is worth doing.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// A file is rewritten when at most this share of it still counts.
    pub live_max: f64,
    /// Bytes that must be gained.
    pub freed_min: u64,
    /// Bytes that may be written at a time; less when the disk is nearly full.
    pub output_max: u64,
    /// Log files and packs are rewritten, not only given up when nothing in them counts.
    pub compact: bool,
    /// Somebody waits: the index follows at once instead of gathering what comes.
    pub hurry: bool,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing is worth doing.
    Idle,
    /// Bytes were read or written, or something was submitted.
    Worked { bytes: u64 },
    /// For a commit, the index or a reader.
    Waiting,
}

/// What waits for readers to go.
enum Grave {
    Log(u64),
    Pack(u64),
    /// Condemned blobs that a lookup from before may still know.
    Blobs(Vec<Sequence>),
    /// Chunks were moved out of this pack: what they leave is no gap before their readers are gone.
    Moved(u64),
}

impl Grave {
    fn vacated(&self) -> Option<u64> {
        match self {
            Self::Moved(pack) | Self::Pack(pack) => Some(*pack),
            Self::Log(_) | Self::Blobs(_) => None,
        }
    }
}

/// What is done once a submitted intent is applied.
enum After {
    Condemned(Vec<(Sequence, BlobLocation)>),
    /// Everything that had been decided before is in the index.
    Settled(Vec<(Sequence, BlobLocation)>),
    Moved(u64),
    Retired(u64),
    /// A pack that no record names.
    Discarded(u64),
    Replaced(Box<CompactedLog>),
    /// A request reaches to the last record that was decided before it.
    Limited,
    Nothing,
}

enum State {
    Idle,
    /// Everybody of `epoch` may know these blobs through an object.
    Chosen {
        epoch: u64,
        blobs: Vec<(Sequence, BlobLocation)>,
    },
    Submitted {
        answer: Arc<Answer>,
        after: After,
        then: Box<State>,
    },
    Rewriting(Box<Compaction>),
    Emptying(Move),
    Sweeping(Sweep),
}

/// The state of reclamation between two steps.
pub struct Reclaimer {
    shared: Arc<Shared>,
    logs: LogFiles,
    state: State,
    graves: Vec<(u64, Grave)>,
    estimates: Estimates,
    /// Where the next look for dead blobs begins.
    cursor: Sequence,
    /// What came after this record is left for later, so that a request ends.
    limit: Sequence,
    turn: u8,
    /// Packs whose gaps were punched out lately, and those in which nothing could be done lately.
    swept: HashSet<u64>,
    passed: HashSet<u64>,
    /// Since when, on the monotonic clock.
    passed_since: Duration,
    /// Log files that could not be rewritten lately.
    passed_logs: HashSet<u64>,
    done: Arc<Mutex<Reclaimed>>,
}

impl Reclaimer {
    pub(super) fn new(shared: Arc<Shared>, logs: LogFiles, done: Arc<Mutex<Reclaimed>>) -> Self {
        Self {
            shared,
            logs,
            state: State::Idle,
            graves: Vec::new(),
            estimates: Estimates::default(),
            cursor: 0,
            limit: Sequence::MAX,
            turn: 2,
            swept: HashSet::new(),
            passed: HashSet::new(),
            passed_since: Duration::ZERO,
            passed_logs: HashSet::new(),
            done,
        }
    }

    /// What is under way, for reports; `None` between two pieces of work.
    pub fn doing(&self) -> Option<&'static str> {
        Some(match &self.state {
            State::Idle if self.graves.is_empty() => return None,
            State::Idle => "burial",
            State::Chosen { .. } => "waiting for readers",
            State::Submitted { after, .. } => match after {
                After::Condemned(_) => "CondemnBlobs",
                After::Moved(_) => "MoveChunks",
                After::Retired(_) => "RetirePack",
                After::Discarded(_) => "discarding a pack",
                After::Replaced(_) => "ReplaceLog",
                After::Settled(_) | After::Limited | After::Nothing => "barrier",
            },
            State::Rewriting(_) => "compaction of the log",
            State::Emptying(_) => "emptying a pack",
            State::Sweeping(_) => "sweeping a pack",
        })
    }

    /// What it is doing and what it has done.
    #[cfg(feature = "shuttle")]
    pub fn describe(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (doing, graves) = (self.doing(), self.graves.len());
        write!(f, "{doing:?}, {graves} graves, {:?}, logs {:?}", *self.done.lock(), self.logs.sealed())
    }

    /// Looks at everything again, also at what was not worth it.
    pub fn refresh(&mut self) {
        self.cursor = 0;
        self.swept.clear();
        self.passed.clear();
        self.passed_logs.clear();
        self.estimates.forget();
    }

    /// Does the next piece of work. Blocks only for files, never for a commit or a reader.
    ///
    /// # Errors
    /// What reading or writing a file ran into, and `ReadOnly`; the work under way is given up, nothing is lost.
    pub fn step(&mut self, policy: &Policy) -> Result<Step> {
        self.shared.check_writable()?;
        let holds = Arc::clone(&self.shared.holds);
        // Until the end of the step nobody takes a hold, and while somebody has one nothing moves or goes.
        let Some(_turn) = holds.turn() else { return Ok(Step::Waiting) };
        if self.bury()? {
            return Ok(Step::Worked { bytes: 0 });
        }
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => self.choose(policy),
            State::Chosen { epoch, blobs } => Ok(self.condemn(epoch, blobs)),
            State::Submitted { answer, after, then } => self.submitted(policy, answer, after, then),
            State::Rewriting(compaction) => self.rewrite(compaction),
            State::Emptying(moving) => self.empty(moving),
            State::Sweeping(sweep) => self.sweep(sweep),
        }
    }

    /// Destroys one thing that nobody can be reading any more.
    fn bury(&mut self) -> Result<bool> {
        let blind = planted::is(Bug::UnlinkWithoutReaders);
        let Some(at) = self.graves.iter().position(|(epoch, _)| blind || self.shared.epochs.is_over(*epoch)) else {
            return Ok(false);
        };
        if matches!(self.graves.get(at), Some((_, Grave::Log(_)))) {
            // After a power cut an index that had fallen back into this file would have to be built anew. That is the
            // lesser evil when there is no room for a checkpoint: room is what this is about.
            match self.shared.index.checkpoint() {
                Ok(_) | Err(Error::StorageFull) => {}
                Err(error) => return Err(error),
            }
        }
        // What cannot be removed is not tried again: it may be gone already, and the next start removes it.
        match self.graves.swap_remove(at).1 {
            Grave::Log(file) => {
                self.logs.remove(file)?;
                tracing::debug!(file, "A log file was reclaimed");
            }
            Grave::Pack(pack) => {
                self.shared.packs.retire(pack)?;
                tracing::debug!(pack, "A pack was reclaimed");
            }
            Grave::Blobs(blobs) => self.shared.pins.forget(&blobs),
            Grave::Moved(_) => {}
        }
        Ok(true)
    }

    /// Blobs, packs and log files take turns, so that none of them starves beside clients that delete without end.
    fn choose(&mut self, policy: &Policy) -> Result<Step> {
        for _ in 0..3 {
            self.turn = (self.turn + 1) % 3;
            let step = match self.turn {
                0 => self.choose_blobs()?,
                1 => self.choose_pack(policy)?,
                _ if policy.compact => self.choose_logs(policy)?,
                _ => None,
            };
            if let Some(step) = step {
                return Ok(step);
            }
        }
        Ok(if self.graves.is_empty() { Step::Idle } else { Step::Waiting })
    }

    fn submit(&mut self, intent: Intent, after: After, then: State) -> Step {
        let answer = Arc::new(Answer::default());
        let waiter = Waiter::new(Arc::clone(&answer) as Arc<dyn super::CompletionSink>, 0);
        match self.shared.intents.push(intent, waiter) {
            Ok(()) => {
                self.state = State::Submitted { answer, after, then: Box::new(then) };
                Step::Worked { bytes: 0 }
            }
            Err(_) => Step::Idle,
        }
    }

    fn submitted(&mut self, policy: &Policy, answer: Arc<Answer>, after: After, then: Box<State>) -> Result<Step> {
        let Some(outcome) = answer.get() else {
            self.state = State::Submitted { answer, after, then };
            return Ok(Step::Waiting);
        };
        let (entries, last) = match outcome {
            Ok(Outcome::Reclaimed { entries, last }) => (entries, last),
            Ok(_) => (Vec::new(), 0),
            Err(failure) => {
                self.give_up(&after);
                // What a request has put off goes on. A sweep or a move may have waited for this very answer.
                if matches!(*then, State::Submitted { .. } | State::Chosen { .. } | State::Rewriting(_)) {
                    self.state = *then;
                }
                return Err(failure.into_error());
            }
        };
        let early = matches!(after, After::Replaced(_)) && planted::is(Bug::ReplaceLogBeforeApplied);
        if !self.shared.applies.has(last) && !early {
            if policy.hurry {
                self.shared.applies.hurry();
            }
            self.state = State::Submitted { answer, after, then };
            return Ok(Step::Waiting);
        }
        self.state = *then;
        if matches!(after, After::Limited) {
            self.limit = last;
        }
        self.applied(after, &entries)?;
        Ok(Step::Worked { bytes: 0 })
    }

    /// The commit failed.
    fn give_up(&mut self, after: &After) {
        match after {
            // Nothing was condemned: the blobs may be hit again, and chosen again.
            After::Condemned(blobs) => {
                let blobs: Vec<Sequence> = blobs.iter().map(|(blob, _)| *blob).collect();
                self.shared.pins.forget(&blobs);
                self.shared.candidates.drop(blobs.into_iter());
            }
            After::Settled(blobs) => self.shared.candidates.drop(blobs.iter().map(|(blob, _)| *blob)),
            // Whether the record is on the disk is decided at the next start, which needs the new file then: the old ones
            // stay claimed.
            After::Replaced(_) => {}
            After::Moved(_) | After::Retired(_) | After::Discarded(_) | After::Limited | After::Nothing => {}
        }
    }

    /// The records are in the index: nothing that is looked up from now on leads to the old places.
    fn applied(&mut self, after: After, entries: &[u64]) -> Result<()> {
        match after {
            After::Condemned(blobs) => self.condemned(&blobs, entries),
            After::Settled(blobs) => self.settled(blobs)?,
            After::Moved(pack) => self.dig([Grave::Moved(pack)]),
            After::Retired(pack) if entries.is_empty() => drop(self.passed.insert(pack)),
            After::Retired(pack) => {
                self.done.lock().packs += 1;
                self.dig([Grave::Pack(pack)]);
            }
            After::Discarded(pack) => self.discard(pack)?,
            After::Replaced(compacted) => {
                self.logs.replace(&compacted);
                self.done.lock().log_files += compacted.replaced.len() as u64;
                self.dig(compacted.replaced.into_iter().map(Grave::Log));
            }
            After::Limited | After::Nothing => {}
        }
        Ok(())
    }

    /// What places in the cache of objects lead to is to go.
    fn dig(&mut self, graves: impl IntoIterator<Item = Grave>) {
        self.shared.cache.clear();
        let epoch = self.shared.epochs.end();
        self.graves.extend(graves.into_iter().map(|grave| (epoch, grave)));
    }

    /// Waits for the index to have everything that was decided; with `seal` the log file in use ends there, so that it
    /// can be compacted; when `limited`, what comes later is left alone until `unlimited`.
    pub fn settle(&mut self, seal: bool, limited: bool) -> Step {
        self.unlimited();
        let after = if limited { After::Limited } else { After::Nothing };
        let then = std::mem::replace(&mut self.state, State::Idle);
        self.submit(Intent::Barrier { seal }, after, then)
    }

    /// Everything counts again, whenever it came; also what a request that ended early would still have limited.
    pub fn unlimited(&mut self) {
        self.limit = Sequence::MAX;
        let mut state = &mut self.state;
        while let State::Submitted { after, then, .. } = state {
            if matches!(after, After::Limited) {
                *after = After::Nothing;
            }
            state = then;
        }
    }
}

/// Whether what met the error is left alone for a while. What lacked room is tried again.
fn passes_over(error: &Error) -> bool {
    !matches!(error, Error::StorageFull)
}
