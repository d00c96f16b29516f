//! A log of objects, explored exhaustively within bounds: the state machines that a node drives, in every order in
//! which nodes and a store can act. `ORCAS_SHARE=1`, the default, explores the large bounds as well.
#![forbid(unsafe_code)]

mod copies;
#[path = "../explore/mod.rs"]
mod explore;
mod mistake;
mod node;
mod properties;
mod store;
mod world;

use std::collections::BTreeSet;

use explore::explore;
use mistake::Mistake;
use world::{Bounds, Protocol, Start};

const NONE: Bounds = Bounds {
    writes: 0,
    retires: 0,
    takes: 0,
    truncations: 0,
    renewals: 0,
    collections: 0,
    reads: 0,
    aheads: 0,
    crashes: 0,
    timeouts: 0,
    repeats: 0,
    false_refusals: 0,
};

struct Scenario {
    nodes: u8,
    /// Whether writes have content beside the log.
    content: bool,
    start: Start,
    bounds: Bounds,
}

const SMALL: [Scenario; 12] = [
    takeovers(2, Bounds { writes: 2, truncations: 3, reads: 1, ..NONE }),
    beginning(2, Bounds { writes: 1, takes: 3, reads: 1, timeouts: 1, ..NONE }),
    takeovers(2, Bounds { writes: 2, takes: 3, timeouts: 1, ..NONE }),
    takeovers(2, Bounds { writes: 2, takes: 2, timeouts: 1, repeats: 1, false_refusals: 1, ..NONE }),
    takeovers(3, Bounds { writes: 1, takes: 2, truncations: 2, ..NONE }),
    takeovers(2, Bounds { writes: 1, takes: 1, truncations: 2, crashes: 1, reads: 1, ..NONE }),
    takeovers(2, Bounds { writes: 2, takes: 1, truncations: 1, reads: 1, aheads: 1, ..NONE }),
    takeovers(3, Bounds { writes: 1, takes: 2, truncations: 1, aheads: 1, ..NONE }),
    takeovers(2, Bounds { writes: 1, takes: 2, renewals: 2, timeouts: 1, ..NONE }),
    takeovers(2, Bounds { writes: 1, takes: 1, truncations: 1, renewals: 2, repeats: 1, false_refusals: 1, ..NONE }),
    content(2, Bounds { writes: 2, retires: 1, takes: 1, collections: 1, timeouts: 1, ..NONE }),
    content(2, Bounds { writes: 1, retires: 1, takes: 1, collections: 1, crashes: 1, repeats: 1, ..NONE }),
];

const LARGE: [Scenario; 8] = [
    takeovers(3, Bounds { writes: 2, takes: 2, timeouts: 1, repeats: 1, false_refusals: 1, ..NONE }),
    takeovers(3, Bounds { writes: 1, takes: 3, truncations: 1, ..NONE }),
    takeovers(2, Bounds { writes: 2, takes: 1, truncations: 2, crashes: 1, timeouts: 1, ..NONE }),
    takeovers(2, Bounds { writes: 2, takes: 2, truncations: 2, crashes: 1, reads: 1, ..NONE }),
    takeovers(2, Bounds { writes: 2, takes: 2, truncations: 2, reads: 1, aheads: 2, ..NONE }),
    takeovers(3, Bounds { writes: 1, takes: 2, truncations: 1, renewals: 2, ..NONE }),
    content(2, Bounds { writes: 2, retires: 1, takes: 1, collections: 1, crashes: 1, repeats: 1, ..NONE }),
    content(2, Bounds { writes: 2, retires: 1, takes: 2, collections: 1, timeouts: 1, ..NONE }),
];

const fn takeovers(nodes: u8, bounds: Bounds) -> Scenario {
    Scenario { nodes, content: false, start: Start::Log, bounds }
}

const fn content(nodes: u8, bounds: Bounds) -> Scenario {
    Scenario { nodes, content: true, start: Start::Log, bounds }
}

/// Nodes that start together with an empty store.
const fn beginning(nodes: u8, bounds: Bounds) -> Scenario {
    Scenario { nodes, content: false, start: Start::Nothing, bounds }
}

#[test]
fn every_promise_is_kept() {
    let share = std::env::var("ORCAS_SHARE").map_or(1, |share| share.parse().expect("ORCAS_SHARE is a number"));
    let scenarios = SMALL.iter().chain(LARGE.iter().filter(|_| share == 1));
    let (mut states, mut reached) = (0, BTreeSet::new());
    for Scenario { nodes, content, start, bounds } in scenarios {
        let found =
            explore(&Protocol { nodes: *nodes, bounds: *bounds, content: *content, start: *start, mistake: None });
        assert!(found.broken.is_empty(), "{nodes} nodes, {bounds:?}: {:#?}", found.broken);
        states += found.states;
        reached.extend(found.reached);
    }
    println!("shared log: {states} states");
    let rare: BTreeSet<_> = properties::rare().iter().map(|(name, _)| *name).collect();
    assert_eq!(reached, rare, "not everything was tried");
}

/// The bounds within which each mistake shows.
const MISTAKES: [(Mistake, Scenario); 18] = [
    (Mistake::FencesDeleted, takeovers(2, Bounds { writes: 2, takes: 1, truncations: 2, ..NONE })),
    (Mistake::HeadNotReadAgain, takeovers(3, Bounds { writes: 1, takes: 2, truncations: 2, ..NONE })),
    (Mistake::NoFence, takeovers(2, Bounds { writes: 1, takes: 1, ..NONE })),
    (Mistake::PlaceSkipped, takeovers(2, Bounds { writes: 2, takes: 1, timeouts: 1, ..NONE })),
    (Mistake::PlaceUsedAgain, takeovers(2, Bounds { writes: 2, timeouts: 1, ..NONE })),
    (Mistake::Renumbered, takeovers(2, Bounds { writes: 1, takes: 1, timeouts: 1, ..NONE })),
    (Mistake::OwnEntryTakenForAnother, takeovers(2, Bounds { writes: 1, timeouts: 1, ..NONE })),
    (Mistake::IdsMadeFromPlaces, takeovers(2, Bounds { writes: 1, takes: 1, reads: 1, ..NONE })),
    (Mistake::CleanupAfterAnUnknownCommit, content(2, Bounds { writes: 1, timeouts: 1, ..NONE })),
    (Mistake::ContentAfterItsEntry, content(2, Bounds { writes: 1, ..NONE })),
    (Mistake::ContentDeletedBeforeItsEntry, content(2, Bounds { writes: 1, retires: 1, ..NONE })),
    (Mistake::ContentOfTheCurrentTermRemoved, content(2, Bounds { writes: 1, collections: 1, ..NONE })),
    (Mistake::HeadTakenBack, takeovers(3, Bounds { writes: 1, takes: 2, renewals: 1, ..NONE })),
    (Mistake::CollectedAfterALostRace, takeovers(2, Bounds { writes: 1, takes: 1, truncations: 1, ..NONE })),
    (Mistake::FloorAboveTheOlderSnapshot, takeovers(2, Bounds { writes: 1, truncations: 2, ..NONE })),
    (Mistake::FencesBelieved, takeovers(3, Bounds { writes: 1, takes: 2, truncations: 1, reads: 1, ..NONE })),
    (Mistake::HolesReadAhead, takeovers(2, Bounds { writes: 2, reads: 1, aheads: 1, ..NONE })),
    (Mistake::HoleTakenForTheEnd, takeovers(2, Bounds { writes: 2, truncations: 2, reads: 1, ..NONE })),
];

#[test]
fn every_mistake_is_noticed() {
    for (mistake, Scenario { nodes, content, start, bounds }) in MISTAKES {
        let found = explore(&Protocol { nodes, bounds, content, start, mistake: Some(mistake) });
        assert!(!found.broken.is_empty(), "{mistake:?} is not noticed in {} states", found.states);
    }
}
