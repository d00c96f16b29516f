//! Seals what was stored without encryption: every version of every bucket, of its snapshots and of its forks, under the
//! data key of its owner. Then it has nothing unsealed left on the disk, as far as the files of the store go.
//!
//! Invariants. A version that is not sealed yet, or has changed since it was read, stays as it is (`decide`). Each blob
//! is stored again once for each owner, so what was shared stays shared. Nothing is remembered between runs: after a
//! crash or an error, the next run finds what is left. In memory are a blob and one batch. Runs on the caller's thread
//! and gives way to clients.
//!
//! `again` is the one place in which the content of a version is sealed anew.

mod again;
mod finish;
mod report;
mod run;
mod walk;

pub use report::{Left, SealProgress, SealReport};
