//! Access policies, and access decisions by them. Pure: no clock, no files, no network; one allocates nothing as a rule.
//!
//! Invariants: a policy is read as a whole or refused. Every request is authorized by one function, [`evaluate`], within
//! a bounded number of steps. What no statement allows is denied, and one statement that denies outweighs any that allow.
//! What a statement asks of the principal is answered from [`Principal`], never from a header. Text from a request is
//! compared and never interpreted: it holds no wildcards and no variables.
//!
//! Knows nothing of Orcas: not which requests need which actions, nor where keys of conditions come from.
#![forbid(unsafe_code)]

mod actions;
mod conditions;
mod context;
mod error;
mod evaluate;
mod json;
mod keys;
mod lint;
mod pattern;
mod policy;
mod positions;
mod principals;
mod simulate;
mod values;

#[cfg(test)]
mod tests;

pub use actions::{ResourceType, S3_ACTIONS};
pub use context::{Context, REQUEST_STEPS_MAX, Request, Steps};
pub use error::{Fault, PolicyError, PolicyKind};
pub use evaluate::{AccessDecision, Missing, Policies, Reason, Source, evaluate, evaluate_within};
pub use lint::warnings;
pub use policy::{Policy, RESOURCE_POLICY_LEN_MAX};
pub use principals::{Kind, Principal};
pub use simulate::simulate;
