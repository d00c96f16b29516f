//! One key of the keyring: its names, state and versions.

use crate::error::{Error, Result};
use crate::id::KeyId;
use crate::kms::KeyName;
use crate::secret::Secret;

/// Keys in a keyring, destroyed ones included.
pub const KEYS_MAX: usize = 4096;
/// Versions of a key.
pub const VERSIONS_MAX: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    Enabled,
    Disabled,
    /// At `due_ms`, milliseconds since 1970, it is destroyed.
    PendingDestruction {
        due_ms: u64,
    },
    /// It has no versions any more. Its id stays, so that whoever needs it learns why it is gone.
    Destroyed,
}

/// A named key.
#[derive(Debug)]
pub struct Key {
    pub id: KeyId,
    pub name: KeyName,
    pub state: KeyState,
    /// Milliseconds since 1970.
    pub created_ms: u64,
    /// By number, without gaps from 1; none if destroyed.
    pub versions: Vec<Version>,
}

impl Key {
    /// The newest version of an enabled key.
    pub(super) fn usable(&self) -> Result<&Version> {
        let id = self.id;
        match self.state {
            KeyState::Enabled => self.versions.last().ok_or(Error::KeyDestroyed { id }),
            KeyState::Disabled => Err(Error::KeyDisabled { id }),
            KeyState::PendingDestruction { .. } => Err(Error::KeyPendingDestruction { id }),
            KeyState::Destroyed => Err(Error::KeyDestroyed { id }),
        }
    }
}

/// One version of a key.
#[derive(Debug)]
pub struct Version {
    pub number: u32,
    /// Milliseconds since 1970.
    pub created_ms: u64,
    material: Secret,
}

impl Version {
    pub(super) fn from_material(number: u32, created_ms: u64, material: Secret) -> Self {
        Self { number, created_ms, material }
    }

    pub(super) fn material(&self) -> &Secret {
        &self.material
    }
}
