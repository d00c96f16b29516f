//! Quotas of buckets and owners, in the step that orders writes: `ledger` says what each holds as of everything
//! decided, `changes` what the records of a decision change about that, `requests` sets and shows quotas, `room`
//! refuses early what `published` says cannot fit.
//!
//! Invariants. Without a quota nothing is counted. The ledger begins with the counts of the index, when that has
//! everything that was decided, and follows the decisions from there. A failed batch, or a change that brings objects
//! which it has not counted, makes it begin again, but not before it is needed by a write that may add something where
//! a quota holds.

mod changes;
mod ledger;
mod published;
mod requests;
mod room;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use orcas_base::sync::RwLock;
use orcas_decide::Quota;

pub use room::Addition;

pub(super) use ledger::{Change, QuotaLedger};

/// The state of quotas that callers and the committer share.
#[derive(Default)]
pub(super) struct Quotas {
    /// The quotas of owners. Replaced as a whole.
    pub owners: RwLock<Arc<HashMap<Bytes, Quota>>>,
    pub published: published::PublishedUsage,
}
