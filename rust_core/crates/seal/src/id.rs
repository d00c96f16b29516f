//! Ids: of the store, of keys in the keyring, and of each act of sealing.

use std::fmt;

/// Bytes of a [`SealId`].
pub const SEAL_ID_LENGTH: usize = 32;

/// The id of a store, from its store keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreId(pub [u8; 16]);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The name of one act of sealing, stored beside what was sealed: the key of that act derives from it. Not secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SealId(pub [u8; SEAL_ID_LENGTH]);

/// The id of a key of the keyring. Random, written as a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 16]);

impl KeyId {
    /// An id of 16 random bytes, of which six bits are those of a UUID of version 4.
    pub fn from_random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }

    /// The id in a UUID of 36 characters; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let groups: Vec<&str> = text.split('-').collect();
        if !groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]) || !groups.iter().all(|group| digits(group)) {
            return None;
        }
        u128::from_str_radix(&groups.concat(), 16).ok().map(|number| Self(number.to_be_bytes()))
    }

    /// The ARN of the key for a region and an account, which are those of the server.
    pub fn arn(&self, region: &str, account: &str) -> String {
        format!("arn:aws:kms:{region}:{account}:key/{self}")
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            let dash = if matches!(place, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}
