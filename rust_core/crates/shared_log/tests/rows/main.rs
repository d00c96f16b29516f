//! A log of rows, explored exhaustively within bounds. `ORCAS_SHARE=1`, the default, explores the large bounds as well.
#![forbid(unsafe_code)]

#[path = "../explore/mod.rs"]
mod explore;
mod world;

use explore::explore;
use world::{Bounds, Mistake, Protocol};

const NONE: Bounds = Bounds { writes: 0, takes: 0, crashes: 0, timeouts: 0, warnings: 0, failovers: 0 };
#[test]
fn every_promise_is_kept() {
    let share = std::env::var("ORCAS_SHARE").map_or(1, |share| share.parse().expect("ORCAS_SHARE is a number"));
    let small = [
        (2, Bounds { writes: 2, takes: 2, timeouts: 2, ..NONE }),
        (2, Bounds { writes: 2, takes: 1, warnings: 1, failovers: 1, timeouts: 1, ..NONE }),
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
