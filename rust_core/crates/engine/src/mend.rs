//! Builds an index that was found damaged anew, from the log, beside the one that serves, and puts it in its place.
//!
//! Invariants. Reclamation rests meanwhile, so every file of the log stays and none is replaced. The applier stands still
//! while the files change hands, at a record that both indexes have reached: what follows is applied to the new one as it
//! would have been to the old one. Where the index cannot be built, the store stops writing and says so; nothing is lost by
//! that, for the log has everything.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::health::Part;
use super::recover::{apply_recovered, index_options};
use super::{Shared, Task};
use orcas_base::error::{Cause, Error, Result};
use orcas_base::planted::{self, Bug};
use orcas_base::sync::{Condvar, Mutex};
use orcas_fs::{FileSystem, Open};
use orcas_index::{Index, Writer};
use orcas_log::{LogFiles, LogPosition, RecoveredBatch};
use orcas_record::Sequence;

/// The index while it is being built.
pub(super) const REBUILT_NAME: &str = "index.db.rebuild";
/// An empty file that says that `index.db` is damaged, so that a start builds it anew even if it comes upon nothing.
pub(super) const MARK_NAME: &str = "index.db.damaged";

/// Records that go into the index in one piece.
const RECORDS: usize = 16_384;
/// Records that may be left for the time in which the applier stands still.
const LEFT_MAX: Sequence = 10_000;
/// Times the log is followed before that, should writers be faster.
const ROUNDS_MAX: usize = 8;
/// Between two attempts while there is no room.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Indexes that are built within `WITHIN` before the disk is taken to be at fault.
const TIMES_MAX: usize = 3;
const WITHIN: Duration = Duration::from_secs(3600);

const UNDER_WAY: &str =
    "the index is damaged and is being built anew from the log; what needs its damaged part has to wait";
const NO_ROOM: &str = "the index is damaged and there is no room to build it anew: free space on the disk";
const IN_VAIN: &str = "the index is damaged and could not be built anew: stop the server and run `orcas fsck`";
const TOO_OFTEN: &str =
    "the index was damaged again and again: stop the server, look after the disk and run `orcas fsck`";

#[derive(Default)]
struct State {
    /// Why the index is to be built anew.
    wanted: Option<Arc<str>>,
    stopped: bool,
}

/// What the thread is asked.
#[derive(Default)]
pub(super) struct Mending {
    state: Mutex<State>,
    changed: Condvar,
}

impl Mending {
    /// The index is damaged. Returns at once.
    pub fn request(&self, reason: &Arc<str>) {
        self.state.lock().wanted.get_or_insert_with(|| Arc::clone(reason));
        self.changed.notify_all();
    }

    /// Whether an index is wanted, whose place nobody else is to take.
    pub fn is_wanted(&self) -> bool {
        self.state.lock().wanted.is_some()
    }

    /// Ends the thread soon.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }

    fn go_on(&self) -> Result<()> {
        if self.state.lock().stopped { Err(Error::Closed) } else { Ok(()) }
    }

    /// Waits for a request; `None` when the thread is to end.
    fn wait(&self) -> Option<Arc<str>> {
        let mut state = self.state.lock();
        loop {
            match (&state.wanted, state.stopped) {
                (_, true) => return None,
                (Some(reason), false) => return Some(Arc::clone(reason)),
                (None, false) => self.changed.wait(&mut state),
            }
        }
    }

    /// False when the thread is to end.
    fn rest(&self) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, |state| !state.stopped, AGAIN_AFTER);
        !state.stopped
    }
}

/// The thread, until `Mending::stop`.
pub(super) fn run(shared: &Arc<Shared>, logs: &LogFiles) {
    let mut built: VecDeque<Duration> = VecDeque::new();
    while let Some(reason) = shared.mending.wait() {
        let now = shared.clock.monotonic();
        built.retain(|at| now.saturating_sub(*at) < WITHIN);
        if built.len() >= TIMES_MAX {
            return give_up(shared, Cause::new(TOO_OFTEN, reason));
        }
        // Should it fail, whoever comes upon the damage after a restart asks again.
        let marked = mark(&*shared.fs, &shared.options.data);
        let _ = marked.inspect_err(|error| tracing::warn!(%error, "The damaged index could not be marked"));
        tell(shared, Cause::new(UNDER_WAY, Arc::clone(&reason)));
        let rebuilt = match rebuild(shared, logs) {
            Err(Error::StorageFull) if shared.make_room() => rebuild(shared, logs),
            done => done,
        };
        match rebuilt {
            Ok(()) => {
                let seconds = shared.clock.monotonic().saturating_sub(now).as_secs_f64();
                tracing::warn!(%reason, seconds, "The index was damaged and has been rebuilt from the log");
                built.push_back(now);
            }
            Err(Error::Closed) => return,
            Err(Error::StorageFull) => {
                tell(shared, NO_ROOM.into());
                if !shared.mending.rest() {
                    return;
                }
            }
            Err(error) => return give_up(shared, Cause::new(IN_VAIN, error.to_string())),
        }
    }
}

/// The thread has ended without being asked to.
pub(super) fn died(shared: &Shared) {
    give_up(shared, IN_VAIN.into());
}

fn give_up(shared: &Shared, cause: Cause) {
    shared.stop_writing(cause.clone());
    tell(shared, cause);
    shared.applies.give_up();
}

fn tell(shared: &Shared, cause: Cause) {
    shared.note_mended(Part::Index);
    shared.note_damage(Part::Index, cause);
}

/// Says in the directory of the store that its index is damaged.
fn mark(fs: &dyn FileSystem, data: &Path) -> Result<()> {
    if !is_marked(fs, data)? && !planted::is(Bug::MendWithoutMark) {
        fs.open(&data.join(MARK_NAME), Open::Create)?;
        fs.sync_dir(data)?;
    }
    Ok(())
}

pub(super) fn is_marked(fs: &dyn FileSystem, data: &Path) -> Result<bool> {
    Ok(fs.list(data)?.iter().any(|name| name == MARK_NAME))
}

/// The index is whole.
pub(super) fn unmark(fs: &dyn FileSystem, data: &Path) -> Result<()> {
    if is_marked(fs, data)? {
        fs.remove(&data.join(MARK_NAME))?;
        fs.sync_dir(data)?;
    }
    Ok(())
}

fn rebuild(shared: &Arc<Shared>, logs: &LogFiles) -> Result<()> {
    // Files that were replaced may be needed, and files that replace others must not become the only ones on the way.
    let _rest = shared.holds.take();
    let path = shared.options.data.join(REBUILT_NAME);
    let outcome = build(shared, logs, &path);
    if outcome.is_err() {
        // What is left of it is removed by the next attempt, or the next start.
        let _ = Index::destroy(&path);
    }
    outcome
}

fn build(shared: &Shared, logs: &LogFiles, path: &Path) -> Result<()> {
    Index::destroy(path)?;
    let index = Index::open(index_options(&shared.options, Some(path.to_owned())), shared.keys.store_id)?;
    let mut follower = Follower::new(shared, logs, index.writer()?)?;
    for _ in 0..ROUNDS_MAX {
        let end = shared.applies.applied_to();
        let before = follower.reached;
        follower.follow(&end)?;
        if end.sequence - before <= LEFT_MAX {
            break;
        }
    }
    // True when it could not go on anyway.
    let waits = shared.applies.halt()?;
    let outcome = take_over(shared, follower, index, path);
    if outcome.is_ok() || !waits {
        shared.applies.release();
    }
    outcome
}

/// While the applier stands still.
fn take_over(shared: &Shared, mut follower: Follower<'_>, index: Index, path: &Path) -> Result<()> {
    follower.follow(&shared.applies.applied_to())?;
    follower.end()?;
    index.close()?;
    shared.index.replace(path)?;
    // What was asked for meanwhile was about the old one.
    shared.mending.state.lock().wanted = shared.index.damage();
    // If it stays, the next start builds the index once more.
    let unmarked = unmark(&*shared.fs, &shared.options.data);
    let _ = unmarked.inspect_err(|error| tracing::warn!(%error, "The next start will rebuild the index once more"));
    shared.note_mended(Part::Index);
    // From the old one the filter may not have been filled.
    shared.request(Task::Heads);
    Ok(())
}

/// Brings the log into the new index.
struct Follower<'a> {
    shared: &'a Shared,
    logs: &'a LogFiles,
    writer: Writer,
    /// The last record that was read.
    reached: Sequence,
}

impl<'a> Follower<'a> {
    fn new(shared: &'a Shared, logs: &'a LogFiles, mut writer: Writer) -> Result<Self> {
        writer.begin_bulk()?;
        Ok(Self { shared, logs, writer, reached: 0 })
    }

    /// Goes on to `end`.
    fn follow(&mut self, end: &LogPosition) -> Result<()> {
        let Self { shared, logs, writer, reached } = self;
        let dir = shared.options.data.join("log");
        let mut waiting: Vec<RecoveredBatch> = Vec::new();
        let mut records = 0;
        logs.replay(*reached, end, &mut |batch| {
            shared.mending.go_on()?;
            records += batch.records.len();
            waiting.push(batch);
            if records >= RECORDS {
                records = 0;
                apply_recovered(writer, &std::mem::take(&mut waiting), &dir)?;
            }
            Ok(())
        })?;
        apply_recovered(writer, &waiting, &dir)?;
        *reached = end.sequence.max(*reached);
        Ok(())
    }

    fn end(mut self) -> Result<()> {
        self.writer.end_bulk()
    }
}
