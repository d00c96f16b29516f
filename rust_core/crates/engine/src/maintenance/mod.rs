//! Mutations that the engine makes by itself: what they are (`intent`), how their answers are found (`reply`), and how
//! they are decided (`rules`).

mod intent;
mod reply;
mod rules;

pub(super) use intent::{MaintenanceIntent, MaintenanceOutcome, MergeFate, MergedVersion, ReplaceLog};
pub(super) use reply::{MaintenanceReply, MaintenanceWaiter};
