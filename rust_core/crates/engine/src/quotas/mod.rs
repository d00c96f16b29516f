//! Quotas of buckets and owners, in the step that orders writes: `ledger` says what each holds as of everything decided,
//! `changes` what the records of a decision change about that, `requests` sets and shows quotas.
//!
//! Invariants. Without a quota nothing is counted. The ledger begins with the counts of the index, when that has everything
//! that was decided, and follows the decisions from there; whatever moves layers or fails makes it begin again.

mod changes;
mod ledger;
mod requests;

pub(super) use ledger::QuotaLedger;
