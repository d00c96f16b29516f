//! A log of rows, explored exhaustively within bounds. `ORCAS_SHARE=1`, the default, explores the large bounds as well.
#![forbid(unsafe_code)]

#[path = "../explore/mod.rs"]
mod explore;
mod world;

use explore::explore;
use orcas_shared_log::rows::{Answer, RowHead, Take, Taken};
use orcas_shared_log::{Cursor, Entry, EntryId, NodeId};
use world::{Bounds, Mistake, Protocol};

const NONE: Bounds = Bounds { writes: 0, takes: 0, crashes: 0, timeouts: 0, warnings: 0, failovers: 0, strays: 0 };

#[test]
fn every_promise_is_kept() {
    let share = std::env::var("ORCAS_SHARE").map_or(1, |share| share.parse().expect("ORCAS_SHARE is a number"));
    let small = [
        (2, Bounds { writes: 2, takes: 2, timeouts: 2, ..NONE }),
        (2, Bounds { writes: 2, takes: 1, warnings: 1, failovers: 1, timeouts: 1, ..NONE }),
        (3, Bounds { writes: 2, takes: 2, warnings: 1, failovers: 1, strays: 1, ..NONE }),
    ];
    let large = [
        (3, Bounds { writes: 2, takes: 2, timeouts: 2, crashes: 1, ..NONE }),
        (2, Bounds { writes: 2, takes: 2, warnings: 2, failovers: 2, timeouts: 1, ..NONE }),
    ];
    let mut all = 0;
    for (nodes, bounds) in small.into_iter().chain(large.into_iter().filter(|_| share == 1)) {
        let found = explore(&Protocol { nodes, bounds, mistake: None });
        assert!(found.broken.is_empty(), "{nodes} nodes, {bounds:?}: {:#?}", found.broken);
        assert_eq!(found.reached.len(), 1, "{nodes} nodes, {bounds:?}: not everything was tried");
        all += found.states;
    }
    println!("shared log of rows: {all} states");
}

/// A copy of another log, as long as this one or longer, and rows of another log.
#[test]
fn a_copy_of_another_log_does_not_become_the_owner() {
    let head = RowHead { term: 1, owner: NodeId(1), next: 2, last: Some(EntryId(7)) };
    for next in 0..4 {
        let last = (next > 0).then_some(EntryId(99));
        let mut take = Take::new(NodeId(2), Cursor { next, last });
        assert_eq!(take.answer::<u8>(&Answer::Head(head)), Taken::Continues);
        let mut taken = take.answer(&Answer::Changed(RowHead { term: 2, owner: NodeId(2), ..head }));
        if next < head.next {
            let rows = (next..head.next).scan(last, |previous, position| {
                let id = EntryId(u128::from(position) + 50);
                Some(Entry { id, term: 1, previous: previous.replace(id), batch: Some(0) })
            });
            taken = take.answer(&Answer::Entries(rows.collect()));
        }
        assert_eq!(taken, Taken::Broken, "{next} entries");
    }
}

#[test]
fn every_mistake_is_noticed() {
    for (mistake, bounds) in [
        (Mistake::WarningIgnored, Bounds { writes: 1, warnings: 1, ..NONE }),
        (Mistake::FoundMeansDurable, Bounds { writes: 1, warnings: 2, ..NONE }),
        (Mistake::CheckedBeside, Bounds { writes: 1, takes: 1, ..NONE }),
        (Mistake::EndNotAsked, Bounds { writes: 1, takes: 1, ..NONE }),
    ] {
        let found = explore(&Protocol { nodes: 2, bounds, mistake: Some(mistake) });
        assert!(!found.broken.is_empty(), "{mistake:?} is not noticed in {} states", found.states);
    }
}
