//! The master key: 32 bytes as base64, or a passphrase through scrypt. `Kdf` is what the keyring's header says of it.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orcas_checksum::base64_decode;
use zeroize::Zeroizing;

use crate::cache::{CacheLimits, KeyCache};
use crate::cipher::{Algorithm, Cipher};
use crate::derive::Expander;
use crate::error::{Error, Result};
use crate::fresh::Random;
use crate::id::SealId;
use crate::secret::Secret;

const KEYRING: &[u8] = b"orcas seal v1 keyring";
/// Bytes of the longest passphrase.
const PASSPHRASE_MAX: usize = 1024;
/// Bytes that scrypt may use: a header that nobody authenticated yet must not exhaust the memory.
const SCRYPT_MEMORY_MAX: u64 = 1 << 30;

/// The cost of scrypt. It uses 128 × N × r bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScryptParams {
    log2_n: u8,
    r: u8,
    p: u8,
}

impl ScryptParams {
    /// N = 32,768, r = 8, p = 1: 32 MiB.
    pub const DEFAULT: Self = Self { log2_n: 15, r: 8, p: 1 };

    /// # Errors
    /// [`Error::ScryptParams`] unless 2^10 <= N <= 2^22, 1 <= r <= 32, 1 <= p <= 16, and the memory is at most 1 GiB.
    pub fn new(log2_n: u8, r: u8, p: u8) -> Result<Self> {
        if !(10..=22).contains(&log2_n) || !(1..=32).contains(&r) || !(1..=16).contains(&p) {
            return Err(Error::ScryptParams { reason: "N is 2^10 to 2^22, r is 1 to 32, p is 1 to 16" });
        }
        if (128 * u64::from(r)) << log2_n > SCRYPT_MEMORY_MAX {
            return Err(Error::ScryptParams { reason: "they ask for more than 1 GiB" });
        }
        Ok(Self { log2_n, r, p })
    }

    pub fn log2_n(self) -> u8 {
        self.log2_n
    }

    pub fn r(self) -> u8 {
        self.r
    }

    pub fn p(self) -> u8 {
        self.p
    }
}

/// How the key that seals a keyring comes from the master secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kdf {
    /// The master key as it is.
    Key,
    Scrypt {
        params: ScryptParams,
        salt: [u8; 32],
    },
}

impl Kdf {
    /// Scrypt with a new salt.
    ///
    /// # Errors
    /// Those of `random`.
    pub fn scrypt(params: ScryptParams, random: Random<'_>) -> Result<Self> {
        let mut salt = [0; 32];
        random(&mut salt)?;
        Ok(Self::Scrypt { params, salt })
    }
}

/// The secret that the operator gives.
pub enum MasterSecret {
    Key(Secret),
    Passphrase(Passphrase),
}

/// A passphrase, and a number that no other one in this process has: what a derived key is looked up by. A hash of the
/// passphrase would be one more thing to keep secret.
pub struct Passphrase {
    text: Zeroizing<Vec<u8>>,
    number: u64,
}

static PASSPHRASES: AtomicU64 = AtomicU64::new(0);

impl MasterSecret {
    /// 32 bytes in base64, as `openssl rand -base64 32` prints them. White space around them is ignored.
    ///
    /// # Errors
    /// [`Error::MalformedMasterKey`].
    pub fn from_base64(text: &[u8]) -> Result<Self> {
        let decoded = base64_decode(text.trim_ascii()).map(Zeroizing::new);
        let key: Option<&[u8; 32]> = decoded.as_ref().and_then(|bytes| bytes.as_slice().try_into().ok());
        let key = key.ok_or(Error::MalformedMasterKey { reason: "the master key is not 32 bytes in base64" })?;
        Ok(Self::Key(Secret::new(key)))
    }

    /// Every byte counts, white space included.
    ///
    /// # Errors
    /// [`Error::MalformedMasterKey`] for an empty one or one of more than 1,024 bytes.
    pub fn from_passphrase(text: &[u8]) -> Result<Self> {
        if text.is_empty() || text.len() > PASSPHRASE_MAX {
            return Err(Error::MalformedMasterKey { reason: "a passphrase has 1 to 1,024 bytes" });
        }
        let number = PASSPHRASES.fetch_add(1, Ordering::Relaxed);
        Ok(Self::Passphrase(Passphrase { text: Zeroizing::new(text.to_vec()), number }))
    }

    /// The key for a keyring with this header. With scrypt this takes a fraction of a second and the memory that its
    /// parameters say.
    ///
    /// # Errors
    /// [`Error::MasterKey`] when the header asks for a passphrase and this is a key, or the other way round.
    pub fn derive(&self, kdf: Kdf) -> Result<MasterKey> {
        let secret = match (self, kdf) {
            (Self::Key(key), Kdf::Key) => key.clone(),
            (Self::Passphrase(it), Kdf::Scrypt { params, salt }) => stretched(&it.text, params, &salt)?,
            _ => return Err(Error::MasterKey),
        };
        Ok(MasterKey { kdf, keys: Expander::new(secret.expose()) })
    }
}

pub(crate) fn stretched(text: &[u8], params: ScryptParams, salt: &[u8]) -> Result<Secret> {
    let refused = Error::ScryptParams { reason: "scrypt refuses them" };
    let params = scrypt::Params::new(params.log2_n, params.r.into(), params.p.into()).map_err(|_| refused.clone())?;
    let mut secret = Secret::new(&[0; 32]);
    let mut done = Ok(());
    secret.fill(|bytes| done = scrypt::scrypt(text, salt, &params, bytes).map_err(|_| refused));
    done.map(|()| secret)
}

impl fmt::Debug for MasterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterSecret(..)")
    }
}

/// The key that seals and opens keyrings.
pub struct MasterKey {
    kdf: Kdf,
    keys: Expander,
}

impl MasterKey {
    /// How it was derived: the header of a keyring that it seals says so.
    pub fn kdf(&self) -> Kdf {
        self.kdf
    }

    /// The cipher of one act of sealing.
    pub(crate) fn keyring_cipher(&self, algorithm: Algorithm, id: SealId) -> Cipher {
        self.keys.expand(&[KEYRING, &id.0], |key| Cipher::new(algorithm, key))
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({:?}, ..)", self.kdf)
    }
}

/// A passphrase, by its number, and a header.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ScryptId {
    passphrase: u64,
    salt: [u8; 32],
    params: ScryptParams,
}

impl Hash for ScryptId {
    /// The salt is random, and few entries differ in the rest alone.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.salt[..8]);
    }
}

/// Keys derived by scrypt.
#[derive(Debug)]
pub struct MasterCache {
    keys: KeyCache<ScryptId, MasterKey>,
}

impl MasterCache {
    pub fn new(limits: CacheLimits) -> Self {
        Self { keys: KeyCache::new(limits) }
    }

    /// Like [`MasterSecret::derive`], and cached if it is by scrypt.
    ///
    /// # Errors
    /// Those of [`MasterSecret::derive`].
    pub fn derive(&self, secret: &MasterSecret, kdf: Kdf, now_ms: u64) -> Result<Arc<MasterKey>> {
        let (MasterSecret::Passphrase(it), Kdf::Scrypt { params, salt }) = (secret, kdf) else {
            return secret.derive(kdf).map(Arc::new);
        };
        let id = ScryptId { passphrase: it.number, salt, params };
        self.keys.get_or_make(&id, now_ms, || secret.derive(kdf))
    }
}
