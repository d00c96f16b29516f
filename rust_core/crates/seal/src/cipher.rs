//! Authenticated encryption of one message in place: the only user of ring.
//!
//! Callers guarantee that a key never seals two messages under the same nonce.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

use crate::error::{Error, Result};
use crate::secret::{Secret, Wiped};

/// Bytes of an authentication tag.
pub const AUTH_TAG_LENGTH: usize = 16;

/// The authentication tag of a block, which proves that it was not changed.
pub type AuthTag = [u8; AUTH_TAG_LENGTH];

/// How a blob is sealed. Stored beside each, because stores move between machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    Aes256Gcm,
    ChaCha20Poly1305,
}

impl Algorithm {
    /// All, in the order in which they are declared.
    pub const ALL: [Self; 2] = [Self::Aes256Gcm, Self::ChaCha20Poly1305];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes256Gcm => "AES-256-GCM",
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        }
    }

    /// The stored number: 1 or 2.
    pub const fn code(self) -> u8 {
        match self {
            Self::Aes256Gcm => 1,
            Self::ChaCha20Poly1305 => 2,
        }
    }

    /// `None` for a number that no version has written.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Aes256Gcm),
            2 => Some(Self::ChaCha20Poly1305),
            _ => None,
        }
    }

    /// The faster one here: AES-256-GCM if the CPU has instructions for AES and carry-less multiplication.
    pub fn preferred() -> Self {
        #[cfg(target_arch = "x86_64")]
        let fast = std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
        #[cfg(target_arch = "aarch64")]
        let fast = std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let fast = false;
        if fast { Self::Aes256Gcm } else { Self::ChaCha20Poly1305 }
    }
}

/// An expanded key.
pub(crate) struct Cipher {
    key: Wiped<LessSafeKey>,
    algorithm: Algorithm,
}

impl Cipher {
    pub fn new(algorithm: Algorithm, key: &[u8; 32]) -> Self {
        let ring = match algorithm {
            Algorithm::Aes256Gcm => &AES_256_GCM,
            Algorithm::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        let key = UnboundKey::new(ring, key).expect("both algorithms take keys of 32 bytes");
        Self { key: Wiped::new(LessSafeKey::new(key)), algorithm }
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Encrypts `bytes`, fewer than 2^32, in place. The nonce must be new for this key.
    pub fn seal(&self, nonce: [u8; 12], bound: &[u8], bytes: &mut [u8]) -> AuthTag {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(bound), bytes);
        let tag = tag.expect("messages are shorter than both algorithms allow");
        tag.as_ref().try_into().expect("tags of both algorithms have 16 bytes")
    }

    /// Decrypts in place. After an error, `bytes` are zeros.
    ///
    /// # Errors
    /// [`Error::NotAuthentic`].
    pub fn open(&self, nonce: [u8; 12], bound: &[u8], bytes: &mut [u8], tag: &AuthTag) -> Result<()> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = self.key.open_in_place_separate_tag(nonce, Aad::from(bound), (*tag).into(), bytes, 0..);
        if opened.is_err() {
            bytes.fill(0);
            return Err(Error::NotAuthentic);
        }
        Ok(())
    }
}

/// Seals one message of the control plane with AES-256-GCM: its bytes, and the authentication tag behind them. `bound` must be the same
/// when it is opened. The nonce must be new for this key.
pub fn seal_message(key: &Secret, nonce: [u8; 12], bound: &[u8], message: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(message.len() + AUTH_TAG_LENGTH);
    sealed.extend_from_slice(message);
    let tag = Cipher::new(Algorithm::Aes256Gcm, key.expose()).seal(nonce, bound, &mut sealed);
    sealed.extend_from_slice(&tag);
    sealed
}

/// The message that [`seal_message`] has sealed.
///
/// # Errors
/// [`Error::NotAuthentic`].
pub fn open_message(key: &Secret, nonce: [u8; 12], bound: &[u8], sealed: &[u8]) -> Result<Vec<u8>> {
    let (message, tag) = sealed.split_last_chunk::<AUTH_TAG_LENGTH>().ok_or(Error::NotAuthentic)?;
    let mut message = message.to_vec();
    Cipher::new(Algorithm::Aes256Gcm, key.expose()).open(nonce, bound, &mut message, tag)?;
    Ok(message)
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cipher({:?}, ..)", self.algorithm)
    }
}
