//! Whether what a request stores is encrypted, and how an answer says so.

use super::lane::Lane;
use super::response::HeaderBlock;
use orcas_http::Headers;
use orcas_record::{BucketId, DocumentKind, Encryption};
use orcas_s3::encryption::{AES256, ENCRYPTION, asked};
use orcas_s3::{ErrorCode, S3Error};

impl Lane {
    /// The encryption of what a request stores in the bucket: what its headers ask for, else the default of the bucket,
    /// else that of the store.
    ///
    /// # Errors
    /// `NotImplemented` if it is to be encrypted and there is no keyring.
    pub fn encryption(&self, bucket: BucketId, headers: &Headers<'_>) -> Result<Option<Encryption>, S3Error> {
        if !asked(headers)? && !self.encrypts_by_default(bucket) {
            return Ok(None);
        }
        self.check_can_encrypt()?;
        Ok(Some(Encryption::Managed))
    }

    pub fn encrypts_by_default(&self, bucket: BucketId) -> bool {
        self.options.encrypt_by_default
            || self.engine.document(bucket, DocumentKind::Encryption).is_some_and(|document| !document.bytes.is_empty())
    }

    /// # Errors
    /// `NotImplemented`, which says what to configure.
    pub fn check_can_encrypt(&self) -> Result<(), S3Error> {
        if self.engine.can_seal() {
            return Ok(());
        }
        let message = "x-amz-server-side-encryption and default encryption need a master key: start the server with \
                       ORCAS_MASTER_KEY or ORCAS_MASTER_PASSPHRASE.";
        Err(S3Error::with(ErrorCode::NotImplemented, message))
    }
}

/// Appends the header that says how an object is encrypted, if it is.
pub fn show(encryption: Option<Encryption>, headers: &mut HeaderBlock) {
    if let Some(Encryption::Managed) = encryption {
        headers.push(ENCRYPTION, AES256.as_bytes());
    }
}
