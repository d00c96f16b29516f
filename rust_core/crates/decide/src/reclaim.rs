//! Reclamation: what nothing refers to any more is given up, and what moved is found at its new place. Decided in the
//! one order of all mutations, so that a reference made before a decision is seen by it, and one made after it finds
//! the blob gone.

use super::decision::{Context, Decision};
use super::intent::ReplaceLog;
use super::outcome::Outcome;
use super::view::View;
use orcas_base::error::Result;
use orcas_record::{ChunkMove, ContentMove, MOVES_MAX, Record, Sequence};

/// Says where everything that was decided before ends. The committer does the rest.
pub(super) fn barrier(context: &Context) -> Decision {
    reclaimed(context, Vec::new(), Vec::new())
}

/// Condemns those of `blobs` that may be: nothing refers to them, asks for them or has done so since they were chosen.
pub(super) fn condemn(view: &dyn View, context: &Context, mut blobs: Vec<Sequence>) -> Result<Decision> {
    blobs.sort_unstable();
    blobs.dedup();
    let mut condemned = Vec::with_capacity(blobs.len());
    for blob in blobs {
        if view.condemn(blob)? {
            condemned.push(blob);
        }
    }
    let entries = condemned.clone();
    let records = condemned.chunks(MOVES_MAX).map(|blobs| Record::CondemnBlobs { blobs: blobs.to_vec() }).collect();
    Ok(reclaimed(context, entries, records))
}

/// The chunks of `from` that are durable at their new places now. One that was condemned meanwhile stays condemned.
pub(super) fn move_chunks(view: &dyn View, context: &Context, from: u64, moves: Vec<ChunkMove>) -> Result<Decision> {
    let mut moved = Vec::with_capacity(moves.len());
    for entry in moves {
        if view.chunk_is_in(entry.blob, from)? {
            moved.push(entry);
        }
    }
    let entries = moved.iter().map(|entry| entry.blob).collect();
    let records = moved.chunks(MOVES_MAX).map(|moves| Record::MoveChunks { moves: moves.to_vec() }).collect();
    Ok(reclaimed(context, entries, records))
}

pub(super) fn retire_pack(view: &dyn View, context: &Context, pack: u64) -> Result<Decision> {
    if !view.pack_is_free(pack)? {
        return Ok(reclaimed(context, Vec::new(), Vec::new()));
    }
    Ok(reclaimed(context, vec![pack], vec![Record::RetirePack { pack }]))
}

/// What `file` leaves out of the records `first..=last` was dead when it was written, and what is dead stays so.
pub(super) fn replace_log(context: &Context, replacement: ReplaceLog) -> Decision {
    let ReplaceLog { file, first, last, moves } = replacement;
    let of = |moves: &[ContentMove]| Record::MoveContents { file, moves: moves.to_vec() };
    let mut records: Vec<Record> = moves.chunks(MOVES_MAX).map(of).collect();
    records.push(Record::ReplaceLog { file, first, last });
    reclaimed(context, vec![file], records)
}

fn reclaimed(context: &Context, entries: Vec<u64>, records: Vec<Record>) -> Decision {
    let last = context.next_sequence + records.len() as u64 - 1;
    Decision { outcome: Outcome::Reclaimed { entries, last }, records }
}
