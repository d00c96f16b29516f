//! PutObject and the multipart operations that write: create, part, complete, abort.

use std::sync::Arc;

use bytes::Bytes;

use super::answer::{Answer, HeaderBlock};
use super::conditions::precondition;
use super::intake::Digests;
use super::problem::Problem;
use super::request::Request;
use orcas_checksum::{ChecksumAlgorithm, ChecksumType, ObjectChecksum};
use orcas_decide::{Body, Complete, CompletePart, Completed, Intent, Put, PutObject, PutPart};
use orcas_http::{hex, parse_hex};
use orcas_record::{Bucket, ObjectHeaders, UploadId};
use orcas_s3::checksums::{CompleteChecksum, UploadChecksum};
use orcas_s3::conditions::WriteCondition;
use orcas_s3::headers::uploaded;
use orcas_s3::xml::{requests, results};
use orcas_s3::{ErrorCode, S3Error};

/// PutObject and UploadPart.
pub struct Upload {
    pub bucket: Arc<Bucket>,
    pub key: Bytes,
    pub becomes: Becomes,
}

/// What a body becomes.
pub enum Becomes {
    Object { condition: WriteCondition, headers: Box<ObjectHeaders> },
    Part { upload: UploadId, number: u16 },
}

impl Upload {
    pub fn intent(&self, size: u64, digests: &Digests, body: Body) -> Intent {
        let Digests { md5, sha256, checksum } = *digests;
        let (bucket, key) = (self.bucket.id, self.key.clone());
        match &self.becomes {
            Becomes::Object { condition, headers } => {
                let (precondition, headers) = (precondition(condition), ObjectHeaders::clone(headers));
                Intent::PutObject(Box::new(PutObject {
                    bucket,
                    key,
                    precondition,
                    size,
                    md5,
                    sha256,
                    checksum,
                    headers,
                    body,
                }))
            }
            Becomes::Part { upload, number } => {
                let (upload, number) = (*upload, *number);
                Intent::PutPart(Box::new(PutPart { bucket, key, upload, number, size, md5, checksum, body }))
            }
        }
    }

    /// Whether the SHA-256 of the content is wanted whether the client sent one or not.
    pub fn keeps_sha256(&self) -> bool {
        self.bucket.settings.keep_sha256 && matches!(self.becomes, Becomes::Object { .. })
    }

    pub fn headers(&self, put: &Put) -> HeaderBlock {
        uploaded(&put.etag, put.checksum.as_ref(), matches!(self.becomes, Becomes::Part { .. }))
    }
}

pub struct CreateUpload {
    pub bucket: Arc<Bucket>,
    pub key: Bytes,
    pub headers: ObjectHeaders,
    pub checksum: Option<UploadChecksum>,
}

impl CreateUpload {
    pub fn intent(&self) -> Intent {
        Intent::CreateUpload {
            bucket: self.bucket.id,
            key: self.key.clone(),
            headers: self.headers.clone(),
            checksum: self.checksum.map(|chosen| (chosen.algorithm, chosen.kind)),
        }
    }
}

pub struct CompleteUpload {
    pub bucket: Arc<Bucket>,
    pub key: Bytes,
    pub upload: UploadId,
    pub condition: WriteCondition,
    pub checksum: CompleteChecksum,
    /// Bytes of the whole object as the client expects it.
    pub size: Option<u64>,
    /// The address of the object.
    pub location: String,
}

impl CompleteUpload {
    /// `document` is the list of parts.
    pub fn intent(&self, document: &[u8]) -> Result<Intent, Problem> {
        let mut parts = Vec::new();
        for part in requests::complete_multipart_upload(document)? {
            let WriteCondition::Matches(etag) = part.etag else { return Err(invalid_part(part.number).into()) };
            if etag.parts != 0 {
                return Err(invalid_part(part.number).into());
            }
            parts.push(CompletePart { number: part.number, md5: etag.md5, checksum: part.checksum });
        }
        let checksum = self.expected(parts.len());
        Ok(Intent::CompleteUpload(Box::new(Complete {
            bucket: self.bucket.id,
            key: self.key.clone(),
            upload: self.upload,
            parts,
            checksum_type: self.checksum.kind,
            checksum,
            size: self.size,
            precondition: precondition(&self.condition),
        })))
    }

    /// The checksum of the whole as the client expects it. Without `-N` and without a type, an algorithm that can
    /// only compose is composite.
    fn expected(&self, count: usize) -> Option<ObjectChecksum> {
        let (checksum, stated) = self.checksum.value?;
        let composes = match self.checksum.kind {
            Some(kind) => kind == ChecksumType::Composite,
            None => matches!(checksum.algorithm(), ChecksumAlgorithm::Sha1 | ChecksumAlgorithm::Sha256),
        };
        let counted = if composes { u16::try_from(count).unwrap_or(u16::MAX) } else { 0 };
        Some(ObjectChecksum { checksum, parts: stated.unwrap_or(counted) })
    }
}

fn invalid_part(number: u16) -> S3Error {
    S3Error::new(ErrorCode::InvalidPart).field("PartNumber", number.to_string())
}

pub struct AbortUpload {
    pub bucket: Arc<Bucket>,
    pub key: Bytes,
    pub upload: UploadId,
}

impl AbortUpload {
    pub fn intent(&self) -> Intent {
        Intent::AbortUpload { bucket: self.bucket.id, key: self.key.clone(), upload: self.upload }
    }
}

/// The form in which clients see an upload id: 32 hexadecimal digits.
pub fn upload_id_text(id: UploadId) -> String {
    hex(&id.0)
}

/// Anything that this server cannot have given out is `NoSuchUpload`.
pub fn parse_upload_id(text: &[u8]) -> Result<UploadId, S3Error> {
    let lower = Some(text).filter(|text| !text.iter().any(u8::is_ascii_uppercase));
    Ok(UploadId(lower.and_then(parse_hex).ok_or(ErrorCode::NoSuchUpload)?))
}

impl Request {
    pub(super) fn upload_created(&self, create: &CreateUpload, id: UploadId) -> Answer {
        let mut headers = HeaderBlock::new();
        if let Some(chosen) = create.checksum {
            headers.push("x-amz-checksum-algorithm", chosen.algorithm.name().as_bytes());
            headers.push("x-amz-checksum-type", chosen.kind.name().as_bytes());
        }
        let bucket = String::from_utf8_lossy(&create.bucket.name);
        let document = results::initiate_multipart_upload(&bucket, &create.key, &upload_id_text(id));
        self.envelope.document(200, headers, document)
    }

    pub(super) fn upload_completed(&self, complete: &CompleteUpload, completed: &Completed) -> Answer {
        let bucket = String::from_utf8_lossy(&complete.bucket.name);
        let document = results::complete_multipart_upload(
            &complete.location,
            &bucket,
            &complete.key,
            &completed.etag,
            completed.checksum.as_ref(),
        );
        self.envelope.document(200, HeaderBlock::new(), document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upload_ids_have_one_spelling() {
        let id = UploadId(std::array::from_fn(|n| n as u8 * 17));
        let text = upload_id_text(id);
        assert_eq!(parse_upload_id(text.as_bytes()), Ok(id));
        for bad in ["", "00", &text.to_uppercase(), &format!("{text}0"), &text.replace('0', "g")] {
            assert_eq!(parse_upload_id(bad.as_bytes()).unwrap_err().code, ErrorCode::NoSuchUpload, "{bad}");
        }
    }
}
