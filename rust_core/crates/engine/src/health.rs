//! How the store is: whether it is whole, takes writes and has room, and if not, why.
//!
//! Whoever finds out that something is wrong says so here, once: `Shared::stop_writing` for what ends writing until the
//! store is opened again, `Shared::note_damage` for what is not whole. The two are independent: a damaged store may go on
//! taking writes, and one that stopped writing may be whole.

use std::collections::BTreeMap;

// Not one of `orcas_base::sync`: nothing is called while it is held.
use parking_lot::Mutex as Kept;

use super::{Handle, Pools, Shared, Task};
use orcas_base::error::{Cause, Error, Result};
use orcas_base::sync::Mutex;
use orcas_base::sync::atomic::{AtomicBool, Ordering};
use orcas_record::Durability;

/// What can be expected of the store. The worst that is known of it: damage before a stop before want of space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    Ok,
    /// What brings content is refused; reads and deletions go on, and so does everything once there is room.
    Full(Space),
    /// Nothing is written until the store is opened again; reads go on.
    ReadOnly(Cause),
    /// Something that was stored cannot be read, or may not be; the rest is read.
    Damaged(Cause),
}

/// What there is no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Free bytes are fewer than are to be kept free.
    UnderReserve { reserve: u64 },
    /// The file system took nothing more, and what the store kept for that case is in use.
    None,
}

/// What damage is found in. Of each part one cause is kept, the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Keys,
    Log,
    Packs,
    Index,
}

/// How the engine is.
#[derive(Clone, Debug)]
pub struct Health {
    pub condition: Condition,
    /// Whether content is taken now.
    pub writable: bool,
    pub durability: Durability,
    /// What the index has yet to follow.
    pub lag_bytes: u64,
    pub lag_records: u64,
    pub pools: Pools,
}

/// What is wrong with an open store.
#[derive(Default)]
pub(super) struct Troubles {
    /// Set after its cause.
    stopped: AtomicBool,
    stop: Mutex<Option<Cause>>,
    damage: Kept<BTreeMap<Part, Cause>>,
}

impl Condition {
    /// The word that `ready` answers with.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Full(_) => "full",
            Self::ReadOnly(_) => "read-only",
            Self::Damaged(_) => "damaged",
        }
    }

    /// For everybody; names no path.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Ok => None,
            Self::Full(Space::UnderReserve { reserve }) => Some(Error::UnderReserve { reserve: *reserve }.to_string()),
            Self::Full(Space::None) => Some(Error::StorageFull.to_string()),
            Self::ReadOnly(cause) | Self::Damaged(cause) => Some(cause.reason.to_owned()),
        }
    }

    /// For the operator, with what only the operator should know.
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::ReadOnly(cause) | Self::Damaged(cause) => Some(cause.to_string()),
            Self::Ok | Self::Full(_) => self.reason(),
        }
    }
}

impl Shared {
    /// From now on reads only, until the store is opened again. The first cause counts.
    pub(super) fn stop_writing(&self, cause: Cause) {
        self.troubles.stop.lock().get_or_insert(cause);
        self.troubles.stopped.store(true, Ordering::Release);
    }

    /// Something that was stored is damaged. Changes nothing but what `health` says.
    pub(super) fn note_damage(&self, part: Part, cause: Cause) {
        let known = self.troubles.damage.lock().entry(part).or_insert_with(|| cause.clone()).clone();
        if known != cause {
            tracing::error!(part = ?part, %cause, "There is more damage: `orcas fsck` tells what is affected");
        }
    }

    /// The part is whole again.
    pub(super) fn note_mended(&self, part: Part) {
        self.troubles.damage.lock().remove(&part);
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        if !self.troubles.stopped.load(Ordering::Acquire) {
            return Ok(());
        }
        let stop = self.troubles.stop.lock().clone();
        Err(stop.map_or(Error::Closed, |cause| Error::ReadOnly { cause }))
    }

    pub(super) fn check_space(&self) -> Result<()> {
        let reserve = self.options.reserve;
        match self.fs.free_bytes(&self.options.data) {
            Ok(free) if free < reserve => Err(Error::UnderReserve { reserve }),
            Ok(_) | Err(_) if self.ballast.is_short() => {
                self.request(Task::Ballast);
                Err(Error::StorageFull)
            }
            // A file system that cannot tell says so when it is written to.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn space(&self, stalled: bool) -> Option<Space> {
        match self.check_space() {
            Ok(()) => stalled.then_some(Space::None),
            Err(Error::UnderReserve { reserve }) => Some(Space::UnderReserve { reserve }),
            Err(_) => Some(Space::None),
        }
    }

    fn condition(&self, writing: Result<()>, space: Option<Space>) -> Condition {
        if let Some(cause) = self.troubles.damage.lock().values().next() {
            return Condition::Damaged(cause.clone());
        }
        match (writing, space) {
            (Err(Error::ReadOnly { cause }), _) => Condition::ReadOnly(cause),
            (_, Some(space)) => Condition::Full(space),
            (_, None) => Condition::Ok,
        }
    }
}

impl Handle {
    /// Asks the file system how much is free.
    pub fn health(&self) -> Health {
        let shared = &self.shared;
        let lag = shared.applies.lag();
        let writing = shared.check_writable();
        let space = shared.space(lag.stalled);
        Health {
            writable: writing.is_ok() && space.is_none(),
            condition: shared.condition(writing, space),
            durability: shared.options.durability,
            lag_bytes: lag.bytes,
            lag_records: lag.records as u64,
            pools: self.pools(),
        }
    }
}
