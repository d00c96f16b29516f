//! Turns the secret that the operator gives into an open keyring, which takes as long as scrypt. Of files it knows only
//! the names, for messages.

use std::path::Path;

use orcas_seal::{
    Error as SealError, Kdf, Keyring as Keys, MasterKey, MasterSecret, ScryptParams, SealedKeyring, StoreId,
};

use crate::error::OpenError;
use crate::times::KeyTimes;

/// How a keyring derives its key from this secret, with `params` if it is a passphrase.
pub(crate) fn kdf_for(
    secret: &MasterSecret,
    params: ScryptParams,
    random: orcas_seal::Random<'_>,
) -> Result<Kdf, SealError> {
    match secret {
        MasterSecret::Key(_) => Ok(Kdf::Key),
        MasterSecret::Passphrase(_) => Kdf::scrypt(params, random),
    }
}

pub(crate) fn unseal(
    path: &Path,
    bytes: &[u8],
    store: StoreId,
    secret: &MasterSecret,
    times: &KeyTimes,
) -> Result<(Keys, MasterKey), OpenError> {
    let parsed = SealedKeyring::parse(bytes)?;
    let path = path.to_owned();
    match (secret, parsed.kdf()) {
        (MasterSecret::Key(_), Kdf::Scrypt { .. }) => return Err(OpenError::WantsPassphrase { path }),
        (MasterSecret::Passphrase(_), Kdf::Key) => return Err(OpenError::WantsKey { path }),
        _ => {}
    }
    let master = times.derived.timed(|| secret.derive(parsed.kdf()))?;
    match Keys::open(&parsed, store, Some(&master)) {
        Ok(keys) => Ok((keys, master)),
        Err(SealError::MasterKey) => Err(OpenError::MasterKey { path }),
        Err(error) => Err(error.into()),
    }
}
