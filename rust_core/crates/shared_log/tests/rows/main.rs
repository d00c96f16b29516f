//! A log of rows, explored exhaustively within bounds. `ORCAS_SHARE=1`, the default, explores the large bounds as well.
#![forbid(unsafe_code)]

#[path = "../explore/mod.rs"]
mod explore;
mod world;

use std::collections::BTreeSet;

use explore::{Model, explore};
use orcas_shared_log::rows::{Answer, Kept, RowHead, Take, Taken};
use orcas_shared_log::{Cursor, Entry, EntryId, NodeId};
use world::{Bounds, Mistake, Protocol};

const NONE: Bounds = Bounds {
    writes: 0,
    takes: 0,
    crashes: 0,
    timeouts: 0,
    warnings: 0,
    failovers: 0,
    strays: 0,
    follows: 0,
    reads: 0,
    truncations: 0,
    renewals: 0,
};

#[test]
fn every_promise_is_kept() {
    let share = std::env::var("ORCAS_SHARE").map_or(1, |share| share.parse().expect("ORCAS_SHARE is a number"));
    let small = [
        (2, Bounds { writes: 2, takes: 2, timeouts: 2, ..NONE }),
        (2, Bounds { writes: 2, takes: 1, warnings: 1, failovers: 1, timeouts: 1, ..NONE }),
        (3, Bounds { writes: 2, takes: 2, warnings: 1, failovers: 1, strays: 1, ..NONE }),
        (2, Bounds { writes: 2, truncations: 1, follows: 2, timeouts: 1, ..NONE }),
        (2, Bounds { writes: 2, truncations: 3, timeouts: 1, ..NONE }),
        (2, Bounds { writes: 1, follows: 2, warnings: 1, failovers: 1, strays: 1, ..NONE }),
        (2, Bounds { writes: 1, takes: 1, truncations: 2, ..NONE }),
        (2, Bounds { writes: 1, takes: 1, renewals: 2, timeouts: 1, ..NONE }),
        (2, Bounds { writes: 1, truncations: 2, renewals: 1, timeouts: 1, ..NONE }),
        (2, Bounds { writes: 2, reads: 2, takes: 1, timeouts: 1, ..NONE }),
        (2, Bounds { writes: 1, reads: 2, warnings: 1, failovers: 1, strays: 1, ..NONE }),
        (2, Bounds { writes: 2, reads: 1, truncations: 2, ..NONE }),
    ];
    let large = [
        (3, Bounds { writes: 2, takes: 2, timeouts: 2, crashes: 1, ..NONE }),
        (2, Bounds { writes: 2, takes: 2, warnings: 2, failovers: 2, timeouts: 1, ..NONE }),
        (2, Bounds { writes: 2, takes: 2, truncations: 2, follows: 1, timeouts: 1, ..NONE }),
        (2, Bounds { writes: 2, takes: 1, truncations: 2, warnings: 1, failovers: 1, ..NONE }),
        (3, Bounds { writes: 2, takes: 1, truncations: 1, follows: 1, crashes: 1, ..NONE }),
        (2, Bounds { writes: 1, takes: 2, truncations: 1, renewals: 2, timeouts: 1, ..NONE }),
        (2, Bounds { writes: 1, takes: 1, renewals: 2, warnings: 1, failovers: 1, ..NONE }),
        (3, Bounds { writes: 2, takes: 1, reads: 1, crashes: 1, ..NONE }),
    ];
    let (mut all, mut reached) = (0, BTreeSet::new());
    for (nodes, bounds) in small.into_iter().chain(large.into_iter().filter(|_| share == 1)) {
        let found = explore(&Protocol { nodes, bounds, mistake: None });
        assert!(found.broken.is_empty(), "{nodes} nodes, {bounds:?}: {:#?}", found.broken);
        println!("{nodes} nodes, {bounds:?}: {} states", found.states);
        reached.extend(found.reached);
        all += found.states;
    }
    assert_eq!(reached.len(), Protocol::rare().len(), "not everything was tried");
    println!("shared log of rows: {all} states");
}

/// A copy of another log, as long as this one or longer, and rows of another log.
#[test]
fn a_copy_of_another_log_does_not_become_the_owner() {
    let head = RowHead { term: 1, owner: NodeId(1), next: 2, last: Some(EntryId(7)), kept: Kept::default() };
    for next in 0..4 {
        let last = (next > 0).then_some(EntryId(99));
        let mut take = Take::new(NodeId(2), Cursor { next, last });
        assert_eq!(take.answer::<u8>(&Answer::Head(head.clone())), Taken::Continues);
        let mut taken: Taken<u8> = take.answer(&Answer::Changed(RowHead { term: 2, owner: NodeId(2), ..head.clone() }));
        if next < head.next {
            let rows = (next..head.next).scan(last, |previous, position| {
                let id = EntryId(u128::from(position) + 50);
                Some(Entry { id, term: 1, previous: previous.replace(id), batch: Some(0) })
            });
            assert_eq!(take.answer(&Answer::Entries(rows.collect())), Taken::Continues);
            taken = take.answer(&Answer::Changed(RowHead { term: 2, owner: NodeId(2), ..head.clone() }));
        }
        assert_eq!(taken, Taken::Broken, "{next} entries");
    }
}

#[test]
fn every_mistake_is_noticed() {
    for (mistake, bounds, promise) in [
        (Mistake::WarningIgnored, Bounds { writes: 1, warnings: 1, ..NONE }, "a standby has every acknowledged write"),
        (
            Mistake::FoundMeansDurable,
            Bounds { writes: 1, warnings: 2, ..NONE },
            "a standby has every acknowledged write",
        ),
        (Mistake::CheckedBeside, Bounds { writes: 1, takes: 1, ..NONE }, "an owner has every acknowledged write"),
        (Mistake::EndNotAsked, Bounds { writes: 1, takes: 1, ..NONE }, "an owner has every acknowledged write"),
        (
            Mistake::EndNotProven,
            Bounds { writes: 1, follows: 1, failovers: 1, strays: 1, ..NONE },
            "a copy at the end has every acknowledged write",
        ),
        (
            Mistake::GapTakenForTheEnd,
            Bounds { writes: 1, follows: 1, truncations: 1, ..NONE },
            "a copy at the end has every acknowledged write",
        ),
        (Mistake::SnapshotNotWritten, Bounds { truncations: 1, ..NONE }, "a head names only snapshots that are there"),
        (
            Mistake::RemovedBeforehand,
            Bounds { writes: 1, truncations: 1, ..NONE },
            "every entry from the floor on is there",
        ),
        (
            Mistake::ChangeNotNumbered,
            Bounds { writes: 2, truncations: 3, timeouts: 1, ..NONE },
            "a head names only snapshots that are there",
        ),
        (
            Mistake::FormerOwnerTells,
            Bounds { writes: 1, takes: 1, reads: 1, ..NONE },
            "a copy at the end has every acknowledged write",
        ),
    ] {
        // Two owners, and a third node that asks the wrong one.
        let nodes = if mistake == Mistake::FormerOwnerTells { 3 } else { 2 };
        let found = explore(&Protocol { nodes, bounds, mistake: Some(mistake) });
        assert!(found.broken.contains_key(promise), "{mistake:?} breaks {:?} in {} states", found.broken, found.states);
    }
}
