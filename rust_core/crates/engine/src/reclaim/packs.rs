//! Space in packs: gaps that belong to no chunk are punched out, packs with little in them are emptied into others, and
//! empty ones are retired.

use std::collections::HashSet;
use std::time::Duration;

use super::{After, Policy, Reclaimer, Shared, State, Step, passes_over};
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_chunks::{PackFile, WrittenChunk};
use orcas_decide::Intent;
use orcas_index::PackUsage;
use orcas_record::ChunkMove;

/// Chunks and bytes that are copied before their move is committed.
const STEP_CHUNKS: usize = 256;
const STEP_BYTES: u64 = 16 << 20;
/// Chunks whose gaps are looked at in one step of a sweep.
const SWEEP_CHUNKS: usize = 4_096;
/// After this time packs and log files are looked at again in which there was nothing to do, or something in the way.
const PASSED_FOR: Duration = Duration::from_secs(600);
/// Bytes beside the content that a chunk takes at most for header, table and the rest of its last page.
const CHUNK_OVERHEAD: u64 = 8 << 10;

/// What is to be done with a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// Nothing is in it any more.
    Retire(u64),
    /// Nothing of what was written into it ever became an object.
    Discard(u64),
    /// Little is in it.
    Empty(u64),
    /// It takes no more chunks from now on, so that one of the others can follow.
    Seal(u64),
    /// Space between its chunks belongs to nothing.
    Sweep(u64),
}

/// The next pack with something to gain. `swept` are not looked at for gaps again, `passed` not at all.
fn choose(
    shared: &Shared,
    policy: &Policy,
    swept: &HashSet<u64>,
    passed: &dyn Fn(u64) -> bool,
) -> Result<Option<Task>> {
    let usage = shared.index.read()?.pack_usage()?;
    let files = shared.packs.files()?;
    let mut best: Option<(u64, Task)> = None;
    for pack in usage.iter().filter(|pack| !passed(pack.pack)) {
        let Some(file) = files.iter().find(|file| file.pack == pack.pack) else { continue };
        let Some((gain, task)) = task(pack, file, policy, swept.contains(&pack.pack)) else { continue };
        if best.is_none_or(|(most, _)| gain > most) {
            let idle = shared.packs.is_idle(pack.pack);
            best = Some((gain, if idle { task } else { Task::Seal(pack.pack) }));
        }
    }
    for pack in shared.packs.unborn().into_iter().filter(|pack| !passed(*pack) && shared.packs.is_idle(*pack)) {
        let gain = files.iter().find(|file| file.pack == pack).map_or(0, |file| file.allocated);
        if best.is_none_or(|(most, _)| gain > most) {
            best = Some((gain, Task::Discard(pack)));
        }
    }
    Ok(best.map(|(_, task)| task))
}

fn task(pack: &PackUsage, file: &PackFile, policy: &Policy, swept: bool) -> Option<(u64, Task)> {
    if pack.blobs == 0 {
        return Some((file.allocated.max(1), Task::Retire(pack.pack)));
    }
    let held = pack.live_bytes + pack.dead_bytes + pack.blobs * CHUNK_OVERHEAD;
    let gain = file.allocated.saturating_sub(held);
    if gain < policy.freed_min {
        return None;
    }
    if !swept {
        return Some((gain, Task::Sweep(pack.pack)));
    }
    // Gaps could not be punched, or not enough of them: the chunks that are left move.
    let worth = held as f64 <= file.allocated as f64 * policy.live_max && held <= policy.output_max;
    worth.then_some((gain, Task::Empty(pack.pack)))
}

/// A pack that is being emptied.
pub(super) struct Move {
    pub pack: u64,
    from: u64,
}

impl Move {
    pub fn new(pack: u64) -> Self {
        Self { pack, from: 0 }
    }

    /// Copies the next chunks and makes them durable. The intent that moves them, with the bytes that were copied;
    /// `None` when nothing is left.
    pub fn step(&mut self, shared: &Shared) -> Result<Option<(Intent, u64)>> {
        let mut rows = shared.index.read()?.blobs_in_pack(self.pack, self.from, STEP_CHUNKS)?;
        let mut bytes = 0;
        let fits = rows.iter().take_while(|row| {
            let first = bytes == 0;
            bytes += u64::from(row.length);
            first || bytes <= STEP_BYTES
        });
        let fits = fits.count();
        rows.truncate(fits);
        let Some(last) = rows.last() else { return Ok(None) };
        self.from = last.offset + 1;
        let copied = rows.iter().map(|row| shared.packs.copy(self.pack, row.offset));
        let written: Vec<WrittenChunk> = copied.collect::<Result<_>>()?;
        if !planted::is(Bug::MoveWithoutSync) {
            shared.packs.sync(&written)?;
        }
        let place = |(row, chunk): (&orcas_index::PackedBlob, &WrittenChunk)| ChunkMove {
            blob: row.sequence,
            pack: chunk.pack,
            offset: chunk.offset,
        };
        let moves = rows.iter().zip(&written).map(place).collect();
        let pins = written.iter().map(WrittenChunk::pin).collect();
        let bytes = rows.iter().map(|row| u64::from(row.length)).sum();
        Ok(Some((Intent::MoveChunks { from: self.pack, moves, pins }, bytes)))
    }
}

/// Punches out what stands between the chunks of an idle pack: condemned chunks, and bodies that never were objects.
/// The caller has waited until every record that was decided is in the index.
pub(super) struct Sweep {
    pub pack: u64,
    /// Everything before was looked at.
    at: u64,
    allocated: u64,
}

impl Sweep {
    pub fn new(shared: &Shared, pack: u64) -> Result<Self> {
        Ok(Self { pack, at: 0, allocated: shared.packs.allocated(pack)? })
    }

    /// Looks at the next gaps. The bytes that were given back when the end is reached.
    pub fn step(&mut self, shared: &Shared) -> Result<Option<u64>> {
        let rows = shared.index.read()?.blobs_in_pack(self.pack, self.at, SWEEP_CHUNKS)?;
        for row in &rows {
            shared.packs.punch_range(self.pack, self.at, row.offset)?;
            self.at = row.offset + orcas_chunks::frame_length(row.length);
        }
        if rows.len() == SWEEP_CHUNKS {
            return Ok(None);
        }
        shared.packs.punch_range(self.pack, self.at, u64::MAX)?;
        shared.packs.sync_pack(self.pack)?;
        Ok(Some(self.allocated.saturating_sub(shared.packs.allocated(self.pack)?)))
    }
}

impl Reclaimer {
    pub(super) fn choose_pack(&mut self, policy: &Policy) -> Result<Option<Step>> {
        let left: HashSet<u64> = self.graves.iter().filter_map(|(_, grave)| grave.vacated()).collect();
        let now = self.shared.clock.monotonic();
        if now.saturating_sub(self.passed_since) > PASSED_FOR {
            self.passed_since = now;
            self.swept.clear();
            self.passed.clear();
            self.passed_logs.clear();
        }
        let passed = |pack| self.passed.contains(&pack) || left.contains(&pack);
        let task = choose(&self.shared, policy, &self.swept, &passed)?;
        Ok(Some(match task {
            None => return Ok(None),
            Some(Task::Retire(pack)) => self.submit(Intent::RetirePack { pack }, After::Retired(pack), State::Idle),
            Some(Task::Seal(pack)) => {
                self.shared.packs.seal(pack);
                // Somebody still writes into it: later.
                if !self.shared.packs.is_idle(pack) {
                    self.passed.insert(pack);
                }
                Step::Worked { bytes: 0 }
            }
            // The pack is idle, so nothing new comes into it; what was decided before is waited for, since neither a pin
            // nor the index shows it.
            Some(Task::Sweep(pack)) => {
                let sweep = Sweep::new(&self.shared, pack)?;
                if planted::is(Bug::SweepWithoutBarrier) {
                    self.state = State::Sweeping(sweep);
                    return Ok(Some(Step::Worked { bytes: 0 }));
                }
                self.submit(Intent::Barrier { seal: false }, After::Nothing, State::Sweeping(sweep))
            }
            Some(Task::Discard(pack)) => {
                self.submit(Intent::Barrier { seal: false }, After::Discarded(pack), State::Idle)
            }
            Some(Task::Empty(pack)) if policy.compact => {
                self.submit(Intent::Barrier { seal: false }, After::Nothing, State::Emptying(Move::new(pack)))
            }
            Some(Task::Empty(pack)) => {
                self.passed.insert(pack);
                Step::Worked { bytes: 0 }
            }
        }))
    }

    /// Removes a pack that was idle, and not born, before a barrier.
    pub(super) fn discard(&mut self, pack: u64) -> Result<()> {
        // Should it stay, it is not looked at again at once.
        self.passed.insert(pack);
        if !self.shared.packs.unborn().contains(&pack) {
            return Ok(());
        }
        self.shared.packs.retire(pack)?;
        self.done.lock().packs += 1;
        Ok(())
    }

    pub(super) fn sweep(&mut self, mut sweep: Sweep) -> Result<Step> {
        let swept = sweep.step(&self.shared);
        if swept.as_ref().is_err_and(passes_over) {
            self.passed.insert(sweep.pack);
        }
        match swept? {
            Some(freed) => {
                self.swept.insert(sweep.pack);
                self.done.lock().punched_bytes += freed;
            }
            None => self.state = State::Sweeping(sweep),
        }
        Ok(Step::Worked { bytes: 0 })
    }

    pub(super) fn empty(&mut self, mut moving: Move) -> Result<Step> {
        let pack = moving.pack;
        let stepped = moving.step(&self.shared);
        if stepped.as_ref().is_err_and(passes_over) {
            self.passed.insert(pack);
        }
        match stepped? {
            Some((intent, bytes)) => {
                self.done.lock().moved_bytes += bytes;
                self.submit(intent, After::Moved(pack), State::Emptying(moving));
                Ok(Step::Worked { bytes: 2 * bytes })
            }
            None => Ok(self.submit(Intent::RetirePack { pack }, After::Retired(pack), State::Idle)),
        }
    }
}
