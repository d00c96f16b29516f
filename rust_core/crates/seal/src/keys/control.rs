//! Small secrets of the control plane, each sealed as one message under a key of the keyring and bound to its name.
//!
//! Format: `docs/format.md`, Control data.

use std::fmt;

use zeroize::Zeroizing;

use crate::cipher::{AUTH_TAG_LENGTH, Algorithm, AuthTag, Cipher};
use crate::derive::Expander;
use crate::error::{Error, Result};
use crate::fresh::FreshId;
use crate::id::{SEAL_ID_LENGTH, SealId, StoreId};
use crate::secret::Secret;

const FORMAT: u8 = 1;
const HASHED_PREFIX: usize = 4 + SEAL_ID_LENGTH;
const CONTROL: &[u8] = b"orcas seal v1 control";

/// The key of the secrets of one store.
pub struct ControlKey {
    store: StoreId,
    expander: Expander,
}

impl fmt::Debug for ControlKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControlKey(..)")
    }
}

impl ControlKey {
    pub(crate) fn new(store: StoreId, material: &Secret) -> Self {
        Self { store, expander: Expander::new(material.expose()) }
    }

    /// The bytes that are stored of a secret under its name.
    pub fn seal(&self, name: &str, secret: &[u8], fresh: FreshId) -> Vec<u8> {
        let (algorithm, id) = (Algorithm::preferred(), fresh.used());
        let mut out = Vec::with_capacity(HASHED_PREFIX + secret.len() + AUTH_TAG_LENGTH);
        out.extend_from_slice(&[FORMAT, algorithm.code(), 0, 0]);
        out.extend_from_slice(&id.0);
        let mut body = Zeroizing::new(secret.to_vec());
        let tag = self.cipher(algorithm, id).seal([0; 12], &self.bound(&out, name), &mut body);
        out.extend_from_slice(&body);
        out.extend_from_slice(&tag);
        out
    }

    /// The secret that was sealed under this name.
    ///
    /// # Errors
    /// [`Error::NotAuthentic`] for changed bytes, or those of another name, store or key.
    pub fn open(&self, name: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
        let (head, rest) = sealed.split_at_checked(HASHED_PREFIX).ok_or(Error::NotAuthentic)?;
        let (body, tag): (_, &AuthTag) = rest.split_last_chunk().ok_or(Error::NotAuthentic)?;
        let algorithm = Algorithm::from_code(head[1]).filter(|_| head[0] == FORMAT && head[2..4] == [0, 0]);
        let id = SealId(head[4..].try_into().expect("the header has a fixed length"));
        let cipher = self.cipher(algorithm.ok_or(Error::NotAuthentic)?, id);
        let mut body = Zeroizing::new(body.to_vec());
        cipher.open([0; 12], &self.bound(head, name), &mut body, tag)?;
        Ok(body)
    }

    fn cipher(&self, algorithm: Algorithm, id: SealId) -> Cipher {
        self.expander.expand(&[CONTROL, &id.0, &[algorithm.code()]], |key| Cipher::new(algorithm, key))
    }

    fn bound(&self, head: &[u8], name: &str) -> Vec<u8> {
        [head, &self.store.0, name.as_bytes()].concat()
    }
}
