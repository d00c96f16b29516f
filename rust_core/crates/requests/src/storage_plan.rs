//! How a body is stored: which checksum is kept, and how it is sealed. If it becomes part of an upload or an object,
//! that decides both, and is looked up once.

use std::sync::Arc;

use bytes::Bytes;

use orcas_bodies::intake::{DeclaredBody, Digests};
use orcas_bodies::problem::Problem;
use orcas_checksum::{ChecksumAlgorithm, ChecksumType};
use orcas_decide::{ChecksumRefusal, Refusal};
use orcas_engine::Handle;
use orcas_record::{Attributes, Bucket, BucketId, Encryption, Upload, UploadId};
use orcas_s3::encryption::needs_version_four;
use orcas_s3::{ErrorCode, S3Error};
use orcas_store::Sealing;

/// The upload or object that a body becomes a part of.
#[derive(Clone, Debug)]
pub enum PartOf {
    Upload {
        bucket: BucketId,
        key: Bytes,
        upload: UploadId,
        /// The request is signed with version 4.
        is_sigv4: bool,
    },
    /// The object that it is appended to, if it exists.
    Object {
        bucket: Arc<Bucket>,
        key: Bytes,
        /// The request says itself how it is encrypted.
        asked: bool,
        /// As of an upload.
        is_sigv4: bool,
    },
}

const REQUESTED_ENCRYPTION: &str = "The multipart upload initiate requested encryption. Subsequent part requests must \
                                    include the appropriate encryption parameters.";

/// How a body is treated.
#[derive(Clone, Debug, Default)]
pub struct StoragePlan {
    /// The algorithm in which the server computes the checksum of the body, whichever the client declares. `None` if that
    /// is up to the client: of a composite checksum, S3 computes no part by itself.
    pub algorithm: Option<ChecksumAlgorithm>,
    /// The upload was created with an algorithm, so the answer to a copy of a part shows its checksum.
    pub shows_checksum: bool,
    pub sealing: Sealing,
    /// In the place of its MD5, if that is to be hidden.
    md5: Option<[u8; 16]>,
}

impl StoragePlan {
    /// The plan for a body that is sealed as its request says, unless it becomes a part of an upload; then this may
    /// block. `body`: as the request declares it, if it has one.
    pub fn of(
        engine: &Handle,
        part: Option<&PartOf>,
        own: Sealing,
        body: Option<&DeclaredBody>,
    ) -> Result<Self, Problem> {
        let storage_plan = match part {
            None => Self { sealing: own, ..Self::default() },
            Some(part) => part.found(engine, own, body)?,
        };
        let md5 = engine.keys().hidden_md5(storage_plan.sealing.encryption.as_ref())?;
        Ok(Self { md5, ..storage_plan })
    }

    /// The digests that may be stored.
    pub fn storable(&self, digests: Digests) -> Digests {
        match self.md5 {
            None => digests,
            Some(md5) => Digests { md5, sha256: None, ..digests },
        }
    }
}

impl PartOf {
    fn found(&self, engine: &Handle, own: Sealing, body: Option<&DeclaredBody>) -> Result<StoragePlan, Problem> {
        match self {
            Self::Upload { bucket, key, upload, is_sigv4 } => {
                let upload = engine.upload(*bucket, key, *upload)?.ok_or(ErrorCode::NoSuchUpload)?;
                if let Some(body) = body {
                    if !body.has_integrity_header() {
                        check_part_vouched(&upload.attributes)?;
                    }
                    check_algorithm(&upload, body)?;
                }
                let sealing = part_sealing(engine, &upload, own, *is_sigv4)?;
                let algorithm = match upload.checksum {
                    None => Some(ChecksumAlgorithm::DEFAULT),
                    Some((algorithm, ChecksumType::FullObject)) => Some(algorithm),
                    Some((_, ChecksumType::Composite)) => None,
                };
                Ok(StoragePlan { algorithm, shows_checksum: upload.checksum.is_some(), sealing, md5: None })
            }
            Self::Object { bucket, key, asked, is_sigv4 } => {
                let Some(found) = engine.object_in(bucket, key)? else {
                    return Ok(StoragePlan { sealing: own, ..StoragePlan::default() });
                };
                let version = &found.object.version;
                let whole = version.checksum.map(|whole| whole.checksum.algorithm());
                let of_object = version.attributes.encryption.clone();
                if matches!(of_object, Some(Encryption::Named(_))) && !is_sigv4 {
                    return Err(needs_version_four().into());
                }
                let sealing = if *asked { own } else { Sealing::from(of_object) };
                let algorithm = whole.filter(|algorithm| algorithm.joins());
                Ok(StoragePlan { algorithm, sealing, ..StoragePlan::default() })
            }
        }
    }
}

/// Refuses a part that nobody vouches for if its upload was created with a lock. A default of the bucket alone asks for
/// nothing here.
///
/// Errors: `InvalidRequest`.
fn check_part_vouched(upload: &Attributes) -> Result<(), S3Error> {
    if upload.retention.is_none() && upload.legal_hold.is_none() {
        return Ok(());
    }
    let message = "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Part requests with Object Lock \
                   parameters";
    Err(S3Error::with(ErrorCode::InvalidRequest, message))
}

/// Refuses a part with a checksum in another algorithm than that of its upload, before the body is received.
fn check_algorithm(upload: &Upload, body: &DeclaredBody) -> Result<(), Problem> {
    let (expected, actual) = (upload.checksum.map(|(algorithm, _)| algorithm), body.checksum_algorithm());
    match (expected, actual) {
        (Some(expected), Some(_)) if actual != Some(expected) => {
            Err(Refusal::Checksum(ChecksumRefusal::Algorithm { expected, actual }).into())
        }
        _ => Ok(()),
    }
}

/// Refuses a request about an upload as a whole that brings another key than its parts have. One that brings none is
/// refused if the upload has a checksum: S3 tells nothing of that without the key.
pub fn check_upload_key(engine: &Handle, upload: &Upload, own: Option<Sealing>, is_sigv4: bool) -> Result<(), Problem> {
    let has_key = matches!(upload.attributes.encryption, Some(Encryption::Customer(_)));
    match own {
        None if !has_key || upload.checksum.is_none() => Ok(()),
        own => part_sealing(engine, upload, own.unwrap_or_default(), is_sigv4).map(drop),
    }
}

/// How a part of this upload is sealed, if `own` brings the key that it takes.
pub fn part_sealing(engine: &Handle, upload: &Upload, own: Sealing, is_sigv4: bool) -> Result<Sealing, Problem> {
    let encryption = upload.attributes.encryption.clone();
    let refused = |message: &'static str| Err(S3Error::with(ErrorCode::InvalidRequest, message).into());
    match (&encryption, &own.key) {
        (Some(Encryption::Customer(_)), None) => refused(REQUESTED_ENCRYPTION),
        (Some(Encryption::Customer(check)), Some(key)) if !engine.keys().is_key_of(key, check)? => {
            refused("The provided encryption parameters did not match the ones used originally.")
        }
        (Some(Encryption::Managed | Encryption::Named(_)), Some(_)) => refused(REQUESTED_ENCRYPTION),
        (None, Some(_)) => refused(
            "The multipart upload initiate did not request encryption. Please resend the request without sending \
             encryption parameters.",
        ),
        (Some(Encryption::Named(_)), None) if !is_sigv4 => Err(needs_version_four().into()),
        _ => Ok(Sealing { encryption, key: own.key }),
    }
}
