//! The only map from errors of signatures, decisions and the engine to S3 errors. The matches have no wildcard, so a new
//! variant without an S3 code does not compile.
//!
//! The messages of the engine's failures go to the log, never to the client.

use orcas_base::error::{Error, KeyFault};
use orcas_checksum::{ChecksumAlgorithm, ChecksumType};
use orcas_decide::{ChecksumRefusal, Failure, OBJECT_PARTS_MAX, OBJECT_SIZE_MAX, PUT_SIZE_MAX, QuotaOf, Refusal};
use orcas_http::timestamp::iso_time;
use orcas_s3::form::missing_field;
use orcas_s3::metadata::UPLOAD_LEN_MAX;
use orcas_s3::range::PART_NUMBER_MAX;
use orcas_s3::{ErrorCode, S3Error};
use orcas_sigv4::{FormError, SignatureError};

// Requests are checked against the limits of `s3`, what is stored against those of `decide`; neither knows the other.
const _: () = assert!(UPLOAD_LEN_MAX == PUT_SIZE_MAX && PART_NUMBER_MAX == OBJECT_PARTS_MAX);

/// An S3 error, and what the log says about it.
#[derive(Clone, Debug)]
pub struct Problem {
    pub error: S3Error,
    /// The fault, for the log. Set only when the server is at fault.
    pub fault: Option<String>,
}

impl Problem {
    /// `InternalError`, with the reason for the log.
    pub fn internal(fault: impl Into<String>) -> Self {
        Self { error: ErrorCode::InternalError.into(), fault: Some(fault.into()) }
    }
}

impl From<S3Error> for Problem {
    fn from(error: S3Error) -> Self {
        Self { error, fault: None }
    }
}

impl From<ErrorCode> for Problem {
    fn from(code: ErrorCode) -> Self {
        S3Error::new(code).into()
    }
}

impl From<SignatureError> for Problem {
    fn from(error: SignatureError) -> Self {
        signature_error(&error).into()
    }
}

impl From<FormError> for Problem {
    fn from(error: FormError) -> Self {
        match error {
            FormError::Missing(name) => missing_field(name).into(),
            FormError::Field { name, value, message } => S3Error::argument(message, name, &value).into(),
            FormError::WrongRegion { credential, given, expected } => {
                let message = format!("the region '{given}' is wrong; expecting '{expected}'");
                S3Error::argument(message, "X-Amz-Credential", &credential).field("Region", expected).into()
            }
            FormError::Signature(error) => error.into(),
        }
    }
}

pub fn wrong_customer_key() -> S3Error {
    let message = "Requests specifying Server Side Encryption with Customer provided keys must provide the correct secret \
                   key.";
    S3Error::with(ErrorCode::AccessDenied, message)
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        refused(&refusal).into()
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let unavailable = |message| S3Error::with(ErrorCode::ServiceUnavailable, message);
        let answer = match &error {
            // What a client asks for, or what somebody has done to its key: no fault of the server.
            Error::NamedKeyUnusable { reason, fault: KeyFault::Missing } => {
                return S3Error::with(ErrorCode::KmsNotFound, reason.to_string()).into();
            }
            Error::NamedKeyUnusable { reason, fault: KeyFault::Disabled } => {
                return S3Error::with(ErrorCode::KmsDisabled, reason.to_string()).into();
            }
            Error::NamedKeyUnusable { reason, fault: KeyFault::PendingDestruction } => {
                return S3Error::with(ErrorCode::KmsInvalidState, reason.to_string()).into();
            }
            Error::NoCustomerKey => {
                let message = "The object was stored using a form of Server Side Encryption. The correct parameters must \
                               be provided to retrieve the object.";
                return S3Error::with(ErrorCode::InvalidRequest, message).into();
            }
            Error::NoKeyring | Error::KeyUnusable { .. } | Error::NamedKeyUnusable { fault: KeyFault::Damaged, .. } => {
                let message = "The content is encrypted, or is to be, and this server cannot use the key for it.";
                S3Error::with(ErrorCode::AccessDenied, message)
            }
            Error::NoNewKey { .. } => unavailable(
                "The content is to be encrypted, and the server cannot give it a key at present. Reads go on."
                    .to_owned(),
            ),
            Error::Busy { .. } | Error::ManyDeleted => ErrorCode::SlowDown.into(),
            Error::StorageFull => unavailable(
                "The server's disk is full. Reads and, if there is room, deletions still work; no content is stored."
                    .to_owned(),
            ),
            Error::UnderReserve { reserve } => unavailable(format!(
                "The server's disk has less than {reserve} bytes free, the reserve that ORCAS_DISK_RESERVE sets. Reads and \
                 deletions still work; no content is stored until there is more room."
            )),
            Error::ReadOnly { cause } => unavailable(format!("The server is read-only: {}.", cause.reason)),
            Error::IndexDamaged { .. } => unavailable(
                "The server's index is damaged and is being rebuilt. This request needs the damaged part; repeat it \
                 in a moment."
                    .to_owned(),
            ),
            Error::Closed => ErrorCode::ServiceUnavailable.into(),
            Error::Io { .. }
            | Error::Corrupt { .. }
            | Error::Missing { .. }
            | Error::Foreign { .. }
            | Error::Version { .. }
            | Error::Locked { .. }
            | Error::Index { .. }
            | Error::Record { .. } => ErrorCode::InternalError.into(),
        };
        Self { error: answer, fault: Some(error.to_string()) }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(refusal) => refusal.into(),
            Failure::Engine(error) => error.into(),
        }
    }
}

fn signature_error(error: &SignatureError) -> S3Error {
    use SignatureError as E;
    let code = match error {
        E::UnsignedHeaders { .. }
        | E::RequestExpired { .. }
        | E::RequestNotYetValid
        | E::QueryAuthIncomplete
        | E::InvalidExpires(_)
        | E::MissingDate => ErrorCode::AccessDenied,
        E::SignatureDoesNotMatch => ErrorCode::SignatureDoesNotMatch,
        E::InvalidAccessKeyId => ErrorCode::InvalidAccessKeyId,
        E::RequestTimeTooSkewed { .. } => ErrorCode::RequestTimeTooSkewed,
        E::AuthorizationHeaderMalformed(_) | E::WrongRegionInHeader { .. } => ErrorCode::AuthorizationHeaderMalformed,
        E::AuthorizationQueryParameters(_) | E::InvalidQueryCredential(_) | E::WrongRegionInQuery { .. } => {
            ErrorCode::AuthorizationQueryParametersError
        }
        E::InvalidArgument(_) | E::InvalidAuthorization { .. } | E::InvalidContentSha256 { .. } => {
            ErrorCode::InvalidArgument
        }
        E::UnsupportedMechanism | E::MissingContentSha256 | E::AnonymousStream => ErrorCode::InvalidRequest,
        E::InvalidToken => ErrorCode::InvalidToken,
        E::ExpiredToken => ErrorCode::ExpiredToken,
        E::AsymmetricNotImplemented => ErrorCode::NotImplemented,
        E::InvalidUri => ErrorCode::InvalidURI,
        E::ContentSha256Mismatch { .. } => ErrorCode::XAmzContentSHA256Mismatch,
        E::MissingDecodedLength => ErrorCode::MissingContentLength,
        E::IncompleteBody | E::MalformedChunk => ErrorCode::IncompleteBody,
        E::MalformedTrailer => ErrorCode::MalformedTrailerError,
        E::InvalidChunkSize { .. } => ErrorCode::InvalidChunkSizeError,
    };
    let answer = S3Error::with(code, error.to_string());
    match error {
        E::InvalidAuthorization { value, .. } => {
            answer.field("ArgumentName", "Authorization").field("ArgumentValue", value.as_bytes())
        }
        E::InvalidContentSha256 { value } => {
            answer.field("ArgumentName", "x-amz-content-sha256").field("ArgumentValue", value.as_bytes())
        }
        E::ContentSha256Mismatch { announced, computed } => answer
            .field("ClientComputedContentSHA256", announced.as_bytes())
            .field("S3ComputedContentSHA256", computed.as_bytes()),
        E::InvalidChunkSize { chunk, size } => {
            answer.field("Chunk", chunk.to_string()).field("BadChunkSize", size.to_string())
        }
        E::UnsignedHeaders { names } => answer.field("HeadersNotSigned", names.as_bytes()),
        E::RequestExpired { expired_ms, now_ms, lifetime_s } => {
            let answer = match lifetime_s {
                Some(seconds) => answer.field("X-Amz-Expires", seconds.to_string()),
                None => answer,
            };
            answer.field("Expires", second(*expired_ms)).field("ServerTime", second(*now_ms))
        }
        E::RequestTimeTooSkewed { signed_at, now_ms, skew_max_ms } => answer
            .field("RequestTime", signed_at.as_bytes())
            .field("ServerTime", second(*now_ms))
            .field("MaxAllowedSkewMilliseconds", skew_max_ms.to_string()),
        E::WrongRegionInHeader { expected, .. } | E::WrongRegionInQuery { expected, .. } => {
            answer.field("Region", expected.as_bytes())
        }
        _ => answer,
    }
}

/// A time as these errors write it, without milliseconds.
fn second(unix_ms: i64) -> Vec<u8> {
    let mut text = iso_time(unix_ms).to_vec();
    text.truncate(b"2026-01-02T03:04:05".len());
    text.push(b'Z');
    text
}

/// The S3 error of a refusal.
pub fn refused(refusal: &Refusal) -> S3Error {
    match refusal {
        Refusal::NoSuchBucket => ErrorCode::NoSuchBucket.into(),
        Refusal::BucketAlreadyOwnedByYou => ErrorCode::BucketAlreadyOwnedByYou.into(),
        Refusal::BucketAlreadyExists => ErrorCode::BucketAlreadyExists.into(),
        Refusal::BucketNotEmpty => ErrorCode::BucketNotEmpty.into(),
        Refusal::TooManyBuckets => ErrorCode::TooManyBuckets.into(),
        // No S3 operation names a snapshot.
        Refusal::NoSuchSnapshot => S3Error::with(
            ErrorCode::InvalidRequest,
            "There is no snapshot of this name: `orcas snapshot list` shows those of a bucket.",
        ),
        Refusal::SnapshotAlreadyExists => {
            S3Error::with(ErrorCode::InvalidRequest, "There is a snapshot of this name already.")
        }
        Refusal::TooManyDocuments => {
            let limit = orcas_decide::DOCUMENTS_LEN_MAX;
            let message = format!("The configurations of all buckets together may have at most {limit} bytes");
            S3Error::with(ErrorCode::InvalidRequest, message)
        }
        Refusal::QuotaExceeded { of, limit } => {
            let (whose, what) = match of {
                QuotaOf::BucketBytes => ("the bucket", "bytes"),
                QuotaOf::BucketVersions => ("the bucket", "objects"),
                QuotaOf::OwnerBytes => ("the owner of the bucket", "bytes"),
                QuotaOf::OwnerVersions => ("the owner of the bucket", "objects"),
            };
            let message = format!("The quota of {whose} is {limit} {what}, and this request would exceed it.");
            S3Error::with(ErrorCode::QuotaExceeded, message)
        }
        Refusal::NoSuchKey => ErrorCode::NoSuchKey.into(),
        Refusal::NoSuchVersion => ErrorCode::NoSuchVersion.into(),
        Refusal::DeleteMarker => S3Error::new(ErrorCode::MethodNotAllowed).field("ResourceType", "DeleteMarker"),
        Refusal::ObjectLocked => {
            S3Error::with(ErrorCode::AccessDenied, "Access Denied because object protected by object lock.")
        }
        Refusal::RetentionInPast => {
            S3Error::with(ErrorCode::InvalidArgument, "The retain until date must be in the future!")
                .field("ArgumentName", "RetainUntilDate")
        }
        Refusal::InvalidBucketState { reason } => S3Error::with(ErrorCode::InvalidBucketState, *reason),
        Refusal::TooManyAnnotations => ErrorCode::AnnotationLimitExceeded.into(),
        Refusal::AnnotationsNotCopied => S3Error::with(
            ErrorCode::InvalidRequest,
            "An object that is encrypted with a customer provided key takes no annotations. Exclude them with \
             x-amz-object-annotation-directive.",
        ),
        Refusal::NoSuchUpload => ErrorCode::NoSuchUpload.into(),
        Refusal::PreconditionFailed { condition } => S3Error::precondition(condition),
        Refusal::InvalidPart { number } => S3Error::new(ErrorCode::InvalidPart).field("PartNumber", number.to_string()),
        Refusal::InvalidPartOrder => ErrorCode::InvalidPartOrder.into(),
        Refusal::EntityTooSmall { number, size } => S3Error::new(ErrorCode::EntityTooSmall)
            .field("ProposedSize", size.to_string())
            .field("MinSizeAllowed", orcas_decide::PART_SIZE_MIN.to_string())
            .field("PartNumber", number.to_string()),
        Refusal::EntityTooLarge { size } => {
            let max = [PUT_SIZE_MAX, OBJECT_SIZE_MAX].into_iter().rfind(|max| size > max).unwrap_or(PUT_SIZE_MAX);
            S3Error::new(ErrorCode::EntityTooLarge)
                .field("ProposedSize", size.to_string())
                .field("MaxSizeAllowed", max.to_string())
        }
        Refusal::Checksum(refusal) => checksum_refused(refusal),
        Refusal::ObjectSize { expected, computed } => S3Error::with(
            ErrorCode::InvalidRequest,
            format!(
                "The provided 'x-amz-mp-object-size' header value {expected} does not match what was computed: {computed}"
            ),
        ),
        Refusal::InvalidRequest { reason } => S3Error::with(ErrorCode::InvalidRequest, *reason),
        Refusal::InvalidRange { size } => S3Error::with(
            ErrorCode::InvalidArgument,
            format!("Range specified is not valid for source object of size: {size}"),
        )
        .field("ArgumentName", "x-amz-copy-source-range"),
        Refusal::InvalidWriteOffset { size } => {
            S3Error::new(ErrorCode::InvalidWriteOffset).field("ActualObjectSize", size.to_string())
        }
        Refusal::TooManyParts => {
            let limit = OBJECT_PARTS_MAX;
            let message = format!(
                "You have attempted to add more parts than the maximum of {limit} that are allowed for this object. You can \
                 use the CopyObject operation to copy this object to another and then add more data to the newly copied \
                 object."
            );
            S3Error::with(ErrorCode::TooManyParts, message)
        }
        Refusal::TooManyObjects { limit } => {
            let message =
                format!("There are more than {limit} objects, or their metadata is too much for one operation.");
            S3Error::with(ErrorCode::InvalidRequest, message)
        }
        Refusal::DestinationNotEmpty => {
            let message = "There are keys with the new prefix already.";
            S3Error::with(ErrorCode::OperationAborted, message)
        }
        Refusal::KeyTooLong => ErrorCode::KeyTooLongError.into(),
        Refusal::MoveUnderWay => {
            S3Error::with(ErrorCode::OperationAborted, "Another prefix is being moved. Try again.")
        }
        Refusal::TokenReused => ErrorCode::IdempotencyParameterMismatch.into(),
        // Only after several attempts: the source changes faster than it can be read.
        Refusal::SourceChanged => ErrorCode::OperationAborted.into(),
        Refusal::Withheld { tags } => {
            let message = match tags {
                true => {
                    "The source has tags: to copy or move them takes s3:GetObjectTagging of the source and \
                     s3:PutObjectTagging of the new object"
                }
                false => {
                    "The source has annotations: to copy or move them takes s3:GetObjectAnnotation of the source and \
                     s3:PutObjectAnnotation of the new object"
                }
            };
            S3Error::with(ErrorCode::AccessDenied, message)
        }
        // Clients send the part again.
        Refusal::UploadSealed => {
            S3Error::with(ErrorCode::ServiceUnavailable, "The upload was just encrypted. Please send the part again.")
        }
        // Without a keyring, or only after several attempts.
        Refusal::EncryptionDiffers => {
            let message = "The object is encrypted and this server has no master key, or it is just being encrypted.";
            S3Error::with(ErrorCode::OperationAborted, message)
        }
        // Only if the source changed after its key was compared.
        Refusal::SourceKeyDiffers => wrong_customer_key(),
    }
}

/// The S3 error for checksums that are not as the client states.
fn checksum_refused(refusal: &ChecksumRefusal) -> S3Error {
    let lower = |algorithm: ChecksumAlgorithm| algorithm.name().to_ascii_lowercase();
    let (code, message) = match refusal {
        ChecksumRefusal::Object { algorithm } => (
            ErrorCode::BadDigest,
            format!("The {} you specified did not match the calculated checksum.", lower(*algorithm)),
        ),
        ChecksumRefusal::Part { algorithm, number } => (
            ErrorCode::BadDigest,
            format!("The {} you specified for part {number} did not match what we received.", lower(*algorithm)),
        ),
        ChecksumRefusal::Missing { algorithm, number } => (
            ErrorCode::InvalidRequest,
            format!(
                "The upload was created using a {} checksum. The complete request must include the checksum for each \
                 part. It was missing for part {number} in the request.",
                lower(*algorithm)
            ),
        ),
        ChecksumRefusal::Algorithm { expected, actual } => (
            ErrorCode::InvalidRequest,
            format!(
                "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {}",
                lower(*expected),
                actual.map_or_else(|| "null".to_owned(), lower)
            ),
        ),
        ChecksumRefusal::Type { of_upload } => (
            ErrorCode::InvalidRequest,
            format!(
                "The upload was created using the {} checksum mode. The complete request must use the same checksum mode.",
                of_upload.map_or("null", ChecksumType::name)
            ),
        ),
    };
    S3Error::with(code, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use orcas_base::error::StoreFault;

    #[test]
    fn signature_errors_keep_the_code_and_status_of_their_module() {
        for error in [
            SignatureError::UnsignedHeaders { names: "x-amz-acl".into() },
            SignatureError::RequestExpired { expired_ms: 0, now_ms: 1, lifetime_s: None },
            SignatureError::QueryAuthIncomplete,
            SignatureError::InvalidExpires("x".into()),
            SignatureError::SignatureDoesNotMatch,
            SignatureError::InvalidAccessKeyId,
            SignatureError::RequestTimeTooSkewed { signed_at: "x".into(), now_ms: 0, skew_max_ms: 1 },
            SignatureError::AuthorizationHeaderMalformed("x".into()),
            SignatureError::AuthorizationQueryParameters("x".into()),
            SignatureError::InvalidQueryCredential("x".into()),
            SignatureError::InvalidAuthorization { message: "x", value: "y".to_owned() },
            SignatureError::InvalidArgument("x"),
            SignatureError::UnsupportedMechanism,
            SignatureError::InvalidToken,
            SignatureError::ExpiredToken,
            SignatureError::AsymmetricNotImplemented,
            SignatureError::InvalidUri,
            SignatureError::InvalidContentSha256 { value: "x".into() },
            SignatureError::AnonymousStream,
            SignatureError::ContentSha256Mismatch { announced: "x".into(), computed: "y".into() },
            SignatureError::InvalidChunkSize { chunk: 1, size: 2 },
            SignatureError::MissingDecodedLength,
            SignatureError::IncompleteBody,
            SignatureError::MalformedChunk,
            SignatureError::MalformedTrailer,
        ] {
            let answer = signature_error(&error);
            assert_eq!((answer.code.as_str(), answer.code.status()), (error.code(), error.status()));
        }
    }

    #[test]
    fn want_of_space_says_what_helps_and_no_path() {
        let message = |error: Error| Problem::from(error).error.message.into_owned();
        let reserve = message(Error::UnderReserve { reserve: 1234 });
        assert!(reserve.contains("1234 bytes") && reserve.contains("ORCAS_DISK_RESERVE"), "{reserve}");
        let stopped = message(Error::ReadOnly { cause: StoreFault::new("it stopped", "on /a/path") });
        assert_eq!(stopped, "The server is read-only: it stopped.");
    }

    #[test]
    fn a_disk_that_takes_no_new_key_is_not_a_refusal_of_access() {
        let problem = Problem::from(Error::NoNewKey { reason: "/a/path is full".into() });
        assert_eq!(problem.error.code, ErrorCode::ServiceUnavailable);
        assert!(!problem.error.message.contains("/a/path"), "{}", problem.error.message);
        assert!(problem.fault.is_some_and(|fault| fault.contains("/a/path")));
        let denied = Problem::from(Error::KeyUnusable { reason: "it is disabled".into(), fault: KeyFault::Disabled });
        assert_eq!(denied.error.code, ErrorCode::AccessDenied);
    }

    #[test]
    fn what_the_engine_says_is_for_the_log_only() {
        let problem = Problem::from(Error::Index { reason: "disk image is malformed".into() });
        assert_eq!(problem.error, ErrorCode::InternalError.into());
        assert!(problem.fault.is_some_and(|fault| fault.contains("malformed")));
    }
}
