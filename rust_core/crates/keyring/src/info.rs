//! The facts about a key for operators.

use orcas_seal::{KeyId, KeyState};

/// A key as the operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    pub id: KeyId,
    pub name: String,
    pub state: KeyState,
    pub created_ms: u64,
    pub versions: usize,
    /// Data keys that it wraps.
    pub data_keys: usize,
}
