//! Opens what is sealed with the data keys of a store: finds the key of a blob, and opens headers.

use std::sync::Arc;

use bytes::Bytes;

use super::content_keys::ContentKeys;
use orcas_base::error::{Error, Result};
use orcas_base::planted::{self, Bug};
use orcas_base::verifying::verifying;
use orcas_record::{ObjectHeaders, Seal, SealedHeaders, decode_headers};
use orcas_seal::{AUTH_TAG_LENGTH, Algorithm, BlobKey, DataKey, DataKeyId, SealId};

const NOT_AUTHENTIC: Error = Error::Record { reason: "sealed metadata does not match its authentication tag" };

/// The key of a blob that a data key of the keyring seals, bound to a context unless that is empty.
///
/// # Errors
/// Why the data key cannot be used.
pub fn key_of_blob(keys: &dyn ContentKeys, seal: &Seal, context: &[u8]) -> Result<BlobKey> {
    blob_key(&bound(keys.by_id(DataKeyId(seal.data_key))?, context), seal)
}

/// The key of a blob that this data key seals.
///
/// # Errors
/// As of `algorithm_of`.
pub fn blob_key(key: &DataKey, seal: &Seal) -> Result<BlobKey> {
    Ok(key.blob_key(algorithm_of(seal)?, SealId(seal.id)))
}

/// # Errors
/// [`Error::Record`] for one that is not known.
pub fn algorithm_of(seal: &Seal) -> Result<Algorithm> {
    let known = Algorithm::from_code(seal.algorithm);
    known.ok_or(Error::Record { reason: "a blob is sealed with an unknown algorithm" })
}

/// The key as it seals what belongs to a context.
pub fn bound(key: Arc<DataKey>, context: &[u8]) -> Arc<DataKey> {
    if context.is_empty() { key } else { Arc::new(key.bound(context)) }
}

/// The headers that were sealed, with the key that the seal leads to.
///
/// # Errors
/// [`Error::Record`] if they are not what was sealed.
pub fn open_headers(key: &BlobKey, sealed: &SealedHeaders) -> Result<ObjectHeaders> {
    let (bytes, tag) = sealed.bytes.split_last_chunk::<AUTH_TAG_LENGTH>().ok_or(NOT_AUTHENTIC)?;
    let mut bytes = bytes.to_vec();
    if !is_authentic(verifying(|| key.open_metadata(&mut bytes, tag))) {
        return Err(NOT_AUTHENTIC);
    }
    decode_headers(&Bytes::from(bytes))
}

/// Whether tags match what was opened.
pub fn is_authentic<T, E>(opened: Result<T, E>) -> bool {
    opened.is_ok() || planted::is(Bug::TagsNotCompared)
}
