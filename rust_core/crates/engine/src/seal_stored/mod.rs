//! Seals what was stored without encryption, under the data keys of owners: every version of every bucket and snapshot,
//! and every incomplete upload. Then it leaves nothing unsealed in the files of the store.
//!
//! Invariants. A version or an upload that has changed since it was read stays as it is. Each blob is stored again once,
//! so what was shared stays shared. Nothing is remembered between runs: the next one finds what a crash or an error has
//! left. In memory are a blob and one batch. Runs on the caller's thread and gives way to clients. `reencryption` is the
//! one place in which content is sealed anew.

mod finish;
mod reencryption;
mod report;
mod run;
mod uploads;
mod walk;

pub use report::{Left, SealProgress, SealReport};
#[cfg(test)]
pub(super) use run::first_batch;
