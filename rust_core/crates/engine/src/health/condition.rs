//! Health: whether the store is undamaged, takes writes and has room, and if not, why.

use super::space::DiskSpace;
use crate::handle::Handle;
use orcas_base::buffers::BufferCounts;
use orcas_base::error::{Error, Result, StoreFault};
use orcas_index::Connections;
use orcas_record::Durability;

/// The condition of the store: the worst that is known of it. Damage comes before a stop, and that before want of
/// space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    Ok,
    /// New content is refused; reads and deletions continue, and so does everything once there is room.
    Full(Space),
    /// The store takes no writes until it is opened again; reads continue.
    ReadOnly(StoreFault),
    /// Something that was stored cannot be read, or may not be; the rest is read.
    Damaged(StoreFault),
}

/// The reason why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Free bytes are fewer than are to be kept free.
    UnderReserve { reserve: u64 },
    /// The file system took nothing more, and what the store kept for that case is in use.
    None,
}

/// Resources that are kept to be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pools {
    pub enabled: bool,
    pub buffers: BufferCounts,
    pub connections: Connections,
}

/// How the engine is.
#[derive(Clone, Debug)]
pub struct Health {
    pub condition: Condition,
    /// Whether content is taken now.
    pub writable: bool,
    pub durability: Durability,
    /// Bytes and records of the log that the index has yet to follow.
    pub lag_bytes: u64,
    pub lag_records: u64,
    pub pools: Pools,
}

impl Condition {
    /// All that `name` returns.
    pub const NAMES: [&str; 4] = ["ok", "full", "read-only", "damaged"];

    /// The word that `ready` answers with.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Full(_) => "full",
            Self::ReadOnly(_) => "read-only",
            Self::Damaged(_) => "damaged",
        }
    }

    /// The reason for everybody; it names no path.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Ok => None,
            Self::Full(Space::UnderReserve { reserve }) => Some(Error::UnderReserve { reserve: *reserve }.to_string()),
            Self::Full(Space::None) => Some(Error::StorageFull.to_string()),
            Self::ReadOnly(cause) | Self::Damaged(cause) => Some(cause.reason.to_owned()),
        }
    }

    /// The detail for the operator, with what only the operator should know.
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::ReadOnly(cause) | Self::Damaged(cause) => Some(cause.to_string()),
            Self::Ok | Self::Full(_) => self.reason(),
        }
    }
}

fn space(space: &DiskSpace, stalled: bool) -> Option<Space> {
    match space.check() {
        Ok(()) => stalled.then_some(Space::None),
        Err(Error::UnderReserve { reserve }) => Some(Space::UnderReserve { reserve }),
        Err(_) => Some(Space::None),
    }
}

fn condition(damage: Option<StoreFault>, writing: Result<()>, space: Option<Space>) -> Condition {
    match (damage, writing, space) {
        (Some(cause), ..) => Condition::Damaged(cause),
        (_, Err(Error::ReadOnly { cause }), _) => Condition::ReadOnly(cause),
        (_, _, Some(space)) => Condition::Full(space),
        (_, _, None) => Condition::Ok,
    }
}

impl Handle {
    /// How full the pools are.
    pub(crate) fn pools(&self) -> Pools {
        let shared = &self.shared;
        Pools {
            enabled: shared.options.pooling_enabled,
            buffers: shared.content.buffers.counts(),
            connections: shared.catalog.index.connections(),
        }
    }

    /// Asks the file system how much is free.
    pub fn health(&self) -> Health {
        let shared = &self.shared;
        let lag = shared.applies.lag();
        let writing = shared.faults.check_writable();
        let space = space(&shared.space, lag.stalled);
        Health {
            writable: writing.is_ok() && space.is_none(),
            condition: condition(shared.faults.damage(), writing, space),
            durability: shared.options.durability,
            lag_bytes: lag.bytes,
            lag_records: lag.records as u64,
            pools: self.pools(),
        }
    }
}
