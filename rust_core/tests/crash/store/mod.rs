//! The store under test: one life after the other on a disk that loses power, every step of it, and what is read of each
//! image that a cut leaves.

pub(crate) mod events;
mod images;
mod intents;
mod observe;
mod reclaim;
mod run;
mod sealed;
mod steps;
mod world;

pub(crate) use images::{POLICIES, Tally, reclaim_everything};
pub(crate) use observe::version_ids;
pub(crate) use run::{Run, is_fault};
pub(crate) use world::CHUNK_SIZE;
