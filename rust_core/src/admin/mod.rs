//! What the admin API and the clock of the control plane do with an open store: reading its state, snapshots, quotas and
//! usage, metrics, and work that is due.

mod callers;
mod maintenance;
pub(crate) mod metrics;
mod seal_stored;
pub(crate) mod snapshots;
mod tools;
mod usage;

pub(crate) use callers::{PyAdminCaller, judge};
pub(crate) use maintenance::Maintenance;
pub(crate) use seal_stored::SealProgress;
pub(crate) use tools::{
    BackupPin, LifecycleState, Pools, ReclaimState, ReclaimStats, Stats, open_secret, seal_secret, sign,
};
pub(crate) use usage::UsageCounts;
