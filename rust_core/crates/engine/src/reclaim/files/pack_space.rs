//! Space that can be gained in packs: which pack is worth the work, and how its chunks are moved or its gaps punched
//! out.

use std::collections::HashSet;

use crate::maintenance::MaintenanceIntent;
use crate::reclaim::limits::ReclaimLimits;
use crate::state::EngineState;
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_chunks::{PackFile, WrittenChunk};
use orcas_index::PackUsage;
use orcas_record::{ChunkLocation, ChunkMove, PackId};

/// Chunks and bytes that are copied before their move is committed.
const STEP_CHUNKS: usize = 256;
const STEP_BYTES: u64 = 16 << 20;
/// Chunks whose gaps are looked at in one step of a sweep.
const SWEEP_CHUNKS: usize = 4_096;
/// Bytes beside the content that a chunk takes at most for header, table and the rest of its last page.
const CHUNK_OVERHEAD: u64 = 8 << 10;

/// The task for a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackTask {
    /// The pack has no chunks any more.
    Retire(PackId),
    /// No chunk of the pack ever became part of an object.
    Discard(PackId),
    /// Little is in it.
    Empty(PackId),
    /// The pack takes no more chunks from now on, so that one of the others can follow.
    Close(PackId),
    /// Space between its chunks belongs to nothing.
    Sweep(PackId),
}

/// The next pack with something to gain. `swept` are not looked at for gaps again, `passed` not at all.
pub(crate) fn choose(
    shared: &EngineState,
    limits: &ReclaimLimits,
    swept: &HashSet<PackId>,
    passed: &dyn Fn(PackId) -> bool,
) -> Result<Option<PackTask>> {
    let usage = shared.catalog.index.read()?.pack_usage()?;
    let files = shared.packs.files()?;
    let mut best: Option<(u64, PackTask)> = None;
    for pack in usage.iter().filter(|pack| !passed(pack.pack)) {
        let Some(file) = files.iter().find(|file| file.pack == pack.pack) else { continue };
        let Some((gain, task)) = task(pack, file, limits, swept.contains(&pack.pack)) else { continue };
        if best.is_none_or(|(most, _)| gain > most) {
            let idle = shared.packs.is_idle(pack.pack);
            best = Some((gain, if idle { task } else { PackTask::Close(pack.pack) }));
        }
    }
    for pack in shared.packs.unrecorded().into_iter().filter(|pack| !passed(*pack) && shared.packs.is_idle(*pack)) {
        let gain = files.iter().find(|file| file.pack == pack).map_or(0, |file| file.allocated);
        if best.is_none_or(|(most, _)| gain > most) {
            best = Some((gain, PackTask::Discard(pack)));
        }
    }
    Ok(best.map(|(_, task)| task))
}

fn task(pack: &PackUsage, file: &PackFile, limits: &ReclaimLimits, swept: bool) -> Option<(u64, PackTask)> {
    if pack.blobs == 0 {
        return Some((file.allocated.max(1), PackTask::Retire(pack.pack)));
    }
    let held = pack.live_bytes + pack.dead_bytes + pack.blobs * CHUNK_OVERHEAD;
    let gain = file.allocated.saturating_sub(held);
    if gain < limits.freed_min {
        return None;
    }
    if !swept {
        return Some((gain, PackTask::Sweep(pack.pack)));
    }
    // Gaps could not be punched, or not enough of them: the chunks that are left move.
    let worth = held as f64 <= file.allocated as f64 * limits.live_max && held <= limits.output_max;
    worth.then_some((gain, PackTask::Empty(pack.pack)))
}

/// A pack that is being emptied.
pub(crate) struct Move {
    pub pack: PackId,
    /// The last chunk that was copied.
    last: Option<ChunkLocation>,
}

impl Move {
    pub fn new(pack: PackId) -> Self {
        Self { pack, last: None }
    }

    /// Copies the next chunks and makes them durable. The intent that moves them, with the bytes that were copied;
    /// `None` when nothing is left.
    pub fn step(&mut self, shared: &EngineState) -> Result<Option<(MaintenanceIntent, u64)>> {
        let mut rows = shared.catalog.index.read()?.blobs_in_pack(self.pack, self.last, STEP_CHUNKS)?;
        let mut bytes = 0;
        let fits = rows.iter().take_while(|row| {
            let first = bytes == 0;
            bytes += u64::from(row.length);
            first || bytes <= STEP_BYTES
        });
        let fits = fits.count();
        rows.truncate(fits);
        let Some(last) = rows.last() else { return Ok(None) };
        self.last = Some(last.at);
        let copied = rows.iter().map(|row| shared.packs.copy(row.at));
        let written: Vec<WrittenChunk> = copied.collect::<Result<_>>()?;
        if !planted::is(Bug::MoveWithoutSync) {
            shared.packs.sync(&written)?;
        }
        let place =
            |(row, chunk): (&orcas_index::PackedBlob, &WrittenChunk)| ChunkMove { blob: row.sequence, to: chunk.at };
        let moves = rows.iter().zip(&written).map(place).collect();
        let pins = written.iter().map(WrittenChunk::pin).collect();
        let bytes = rows.iter().map(|row| u64::from(row.length)).sum();
        Ok(Some((MaintenanceIntent::MoveChunks { from: self.pack, moves, pins }, bytes)))
    }
}

/// Punches out what is between the chunks of an idle pack: condemned chunks, and bodies that never were objects.
/// The caller has waited until every record that was decided is in the index.
pub(crate) struct Sweep {
    pub pack: PackId,
    /// The last chunk before which everything was looked at, and its length.
    last: Option<(ChunkLocation, u32)>,
    allocated: u64,
}

impl Sweep {
    pub fn new(shared: &EngineState, pack: PackId) -> Result<Self> {
        Ok(Self { pack, last: None, allocated: shared.packs.allocated(pack)? })
    }

    /// Looks at the next gaps. The bytes that were given back when the end is reached.
    pub fn step(&mut self, shared: &EngineState) -> Result<Option<u64>> {
        let rows = shared.catalog.index.read()?.blobs_in_pack(self.pack, self.last.map(|(at, _)| at), SWEEP_CHUNKS)?;
        for row in &rows {
            shared.packs.punch_gap(self.pack, self.last, Some(row.at))?;
            self.last = Some((row.at, row.length));
        }
        if rows.len() == SWEEP_CHUNKS {
            return Ok(None);
        }
        shared.packs.punch_gap(self.pack, self.last, None)?;
        shared.packs.sync_pack(self.pack)?;
        Ok(Some(self.allocated.saturating_sub(shared.packs.allocated(self.pack)?)))
    }
}
