//! Headers of encrypted objects: sealed before the committer gets them, opened when an answer or a copy needs them.
//!
//! Each act of sealing has a seal id of its own, which nothing else is sealed under. So the same headers that are stored
//! twice look different, and those of another version do not open in the place of these. Must not know which headers
//! there are.

use std::borrow::Cow;

use crate::handle::Handle;
use crate::state::EngineState;
use orcas_base::error::{Error, Result};
use orcas_catalog::PinnedObject;
use orcas_record::{Bucket, ObjectHeaders, SealedHeaders, encode_headers};
use orcas_seal::DataKey;
use orcas_store::{Sealing, open_headers};

impl Handle {
    /// The headers as an object of the bucket stores them that is encrypted like this. May wait for the data key of the
    /// owner of the bucket, unless `can_seal_at_once` or content was just sealed.
    ///
    /// # Errors
    /// [`Error::NoKeyring`], or why the data key cannot be used.
    pub fn sealed_headers(&self, bucket: &Bucket, sealing: &Sealing, headers: ObjectHeaders) -> Result<ObjectHeaders> {
        if sealing.encryption.is_none() || !headers.has_unsealed() {
            return Ok(headers);
        }
        self.shared.seal_headers(&*self.shared.data_key(bucket, sealing)?, headers)
    }

    /// The headers of an object in the clear. Never waits.
    ///
    /// # Errors
    /// Why the key cannot be used, [`Error::NoCustomerKey`], or [`Error::Record`] if they are not what was sealed.
    pub fn headers<'a>(&self, found: &'a PinnedObject) -> Result<Cow<'a, ObjectHeaders>> {
        let headers = &found.object.version.headers;
        let Some(sealed) = &headers.sealed else { return Ok(Cow::Borrowed(headers)) };
        let opened = self.shared.open_headers(sealed, &found.sealing())?;
        let (storage_class, website_redirect) = (headers.storage_class.clone(), headers.website_redirect.clone());
        Ok(Cow::Owned(ObjectHeaders { storage_class, website_redirect, ..opened }))
    }
}

impl EngineState {
    /// The headers as an object stores them that is encrypted with `key`.
    pub fn seal_headers(&self, key: &DataKey, headers: ObjectHeaders) -> Result<ObjectHeaders> {
        if !headers.has_unsealed() {
            return Ok(headers);
        }
        let (hidden, visible) = headers.split();
        let (mut sealer, seal) = self.sealer(key, 0)?;
        let mut bytes = encode_headers(&hidden);
        let tag = sealer.seal_metadata(&mut bytes);
        bytes.extend_from_slice(&tag.map_err(|_| Error::Record { reason: "headers are too long to be sealed" })?);
        let sealed = SealedHeaders { seal, bytes: bytes.into() };
        Ok(ObjectHeaders { sealed: Some(Box::new(sealed)), ..visible })
    }

    fn open_headers(&self, sealed: &SealedHeaders, sealing: &Sealing) -> Result<ObjectHeaders> {
        open_headers(&*self.blob_key(&sealed.seal, sealing)?, sealed)
    }
}
