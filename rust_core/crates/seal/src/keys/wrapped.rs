//! Data keys as they are stored: wrapped by one version of a key of the keyring, and bound to where they belong.
//!
//! Format: `docs/format.md`, Wrapped data keys.

use super::data_key::{DataKey, DataKeyId};
use super::kms::EncryptionContext;
use crate::cipher::{Algorithm, AuthTag, Cipher};
use crate::derive::Expander;
use crate::error::{Error, Result};
use crate::fresh::FreshId;
use crate::id::{KeyId, SealId, StoreId};
use crate::secret::Secret;

/// Bytes of an encoded wrapped data key.
pub const WRAPPED_LENGTH: usize = 120;

const FORMAT: u8 = 1;
const WRAPS: &[u8] = b"orcas seal v1 wraps";

/// Where a data key belongs: whose blobs it seals, in which store, and the encryption context.
#[derive(Clone, Copy, Debug)]
pub struct Domain<'a> {
    pub store: StoreId,
    /// The id of the owner or of the bucket. Callers keep the two apart, for example by a prefix.
    pub owner: &'a [u8],
    pub context: &'a EncryptionContext,
}

/// A data key under a key of the keyring. Holds nothing that needs to stay secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKey {
    algorithm: Algorithm,
    /// What wraps it, and in which version.
    key: KeyId,
    version: u32,
    data_key: DataKeyId,
    seal: SealId,
    sealed: [u8; 32],
    tag: AuthTag,
}

impl WrappedKey {
    /// The name of the data key: what an unwrapped one is cached under.
    pub fn data_key(&self) -> DataKeyId {
        self.data_key
    }

    /// The key of the keyring that wraps it.
    pub fn key(&self) -> KeyId {
        self.key
    }

    /// The version of that key, from 1.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Wraps under the material of one version of a key.
    pub(crate) fn wrap(
        (key, version, material): (KeyId, u32, &Secret),
        data_key: &DataKey,
        domain: &Domain<'_>,
        (algorithm, fresh): (Algorithm, FreshId),
    ) -> Self {
        let mut sealed = Secret::new(data_key.secret().expose());
        let seal = fresh.used();
        let mut wrapped =
            Self { algorithm, key, version, data_key: data_key.id(), seal, sealed: [0; 32], tag: Default::default() };
        let (cipher, bound) = (wrapped.cipher(material), wrapped.bound(domain));
        sealed.fill(|bytes| wrapped.tag = cipher.seal([0; 12], &bound, bytes));
        wrapped.sealed = *sealed.expose();
        wrapped
    }

    /// The data key, with the material of the version that wraps it.
    pub(crate) fn unwrap(&self, material: &Secret, domain: &Domain<'_>) -> Result<DataKey> {
        let mut secret = Secret::new(&self.sealed);
        let mut opened = Ok(());
        secret.fill(|bytes| opened = self.cipher(material).open([0; 12], &self.bound(domain), bytes, &self.tag));
        opened?;
        Ok(DataKey::new(self.data_key, domain.store, secret))
    }

    fn cipher(&self, material: &Secret) -> Cipher {
        let info = [WRAPS, &self.seal.0, &[self.algorithm.code()]];
        Expander::new(material.expose()).expand(&info, |key| Cipher::new(self.algorithm, key))
    }

    fn bound(&self, domain: &Domain<'_>) -> Vec<u8> {
        let mut bound = Vec::new();
        self.head(&mut bound);
        bound.extend_from_slice(&domain.store.0);
        bound.extend_from_slice(&(domain.owner.len() as u64).to_le_bytes());
        bound.extend_from_slice(domain.owner);
        bound.extend(domain.context.encoded());
        bound
    }

    fn head(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[FORMAT, self.algorithm.code(), 0, 0]);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.key.0);
        out.extend_from_slice(&self.data_key.0);
        out.extend_from_slice(&self.seal.0);
    }

    pub fn encode(&self) -> [u8; WRAPPED_LENGTH] {
        let mut out = Vec::with_capacity(WRAPPED_LENGTH);
        self.head(&mut out);
        out.extend_from_slice(&self.sealed);
        out.extend_from_slice(&self.tag);
        out.try_into().expect("the fields have fixed lengths")
    }

    /// # Errors
    /// [`Error::Version`] for another format, [`Error::NotAuthentic`] for what no version writes.
    pub fn decode(bytes: &[u8; WRAPPED_LENGTH]) -> Result<Self> {
        fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
            bytes[at..at + N].try_into().expect("fields lie inside the fixed length")
        }
        if bytes[0] != FORMAT {
            return Err(Error::Version { found: bytes[0].into(), supported: FORMAT.into() });
        }
        let algorithm = Algorithm::from_code(bytes[1]).filter(|_| bytes[2..4] == [0, 0]).ok_or(Error::NotAuthentic)?;
        Ok(Self {
            algorithm,
            version: u32::from_le_bytes(field(bytes, 4)),
            key: KeyId(field(bytes, 8)),
            data_key: DataKeyId(field(bytes, 24)),
            seal: SealId(field(bytes, 40)),
            sealed: field(bytes, 72),
            tag: field(bytes, 104),
        })
    }
}
