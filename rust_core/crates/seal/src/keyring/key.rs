//! One key of the keyring: its names, state and versions. And one data key that the keyring keeps.

use crate::error::{Error, Result};
use crate::id::KeyId;
use crate::keys::{KeyName, WrappedKey};
use crate::secret::Secret;

/// Keys in a keyring, destroyed ones included.
pub const KEYS_MAX: usize = 4096;
/// Versions of a key.
pub const VERSIONS_MAX: usize = 256;
/// Data keys in a keyring.
pub const DATA_KEYS_MAX: usize = 16_384;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    Enabled,
    Disabled,
    /// At `due_ms`, milliseconds since 1970, it is destroyed.
    PendingDestruction {
        due_ms: u64,
    },
    /// The key has no versions any more. Its id stays, so that whoever needs it learns why it is gone.
    Destroyed,
}

/// A named key.
#[derive(Clone, Debug)]
pub struct Key {
    pub id: KeyId,
    pub name: KeyName,
    pub state: KeyState,
    /// Milliseconds since 1970.
    pub created_ms: u64,
    /// Versions by number, without gaps from 1; none if destroyed.
    pub versions: Vec<Version>,
}

impl Key {
    /// Refuses a key that is not enabled.
    ///
    /// # Errors
    /// [`Error::KeyDisabled`], [`Error::KeyPendingDestruction`] or [`Error::KeyDestroyed`].
    pub fn check_usable(&self) -> Result<()> {
        self.usable().map(drop)
    }

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
#[derive(Clone, Debug)]
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

/// A data key of an owner, wrapped for that owner without an encryption context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKey {
    /// The owner, in at most 255 bytes.
    pub owner: Vec<u8>,
    pub wrapped: WrappedKey,
}
