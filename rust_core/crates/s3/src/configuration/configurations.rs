//! The configurations that a bucket or an object does not have: what reading them answers, and which writes of those
//! that cannot be stored agree with what is so anyway.
//!
//! Codes, messages and documents are those of S3 for a new bucket, whose owner alone may use it: ACLs are disabled
//! (BucketOwnerEnforced) and public access is blocked. A write that would change anything else than `documents` stores
//! is not implemented, and never answered as if it were.

use crate::errors::{ErrorCode, S3Error};
use crate::requests::operations::Operation;
use crate::xml::{XmlWriter, configurations as documents};
use orcas_checksum::Md5Hasher;
use orcas_http::hex;

/// The document that reading a configuration of a bucket answers where there is none.
///
/// Errors: the code that S3 has for the missing configuration, and `NotImplemented` for an operation that does not read
/// the configuration of a bucket.
pub fn of_bucket(operation: Operation, bucket: &str) -> Result<Vec<u8>, S3Error> {
    let missing = |code: ErrorCode| Err(S3Error::new(code).field("BucketName", bucket));
    match operation {
        Operation::GetBucketAbac => Ok(document("AbacStatus", |xml| xml.plain("Status", "Disabled"))),
        Operation::GetBucketAccelerateConfiguration => Ok(document("AccelerateConfiguration", |_| ())),
        Operation::GetBucketAnalyticsConfiguration
        | Operation::GetBucketIntelligentTieringConfiguration
        | Operation::GetBucketInventoryConfiguration
        | Operation::GetBucketMetricsConfiguration => missing(ErrorCode::NoSuchConfiguration),
        Operation::GetBucketCors => missing(ErrorCode::NoSuchCORSConfiguration),
        Operation::GetBucketEncryption => missing(ErrorCode::ServerSideEncryptionConfigurationNotFoundError),
        Operation::GetBucketLogging => Ok(document("BucketLoggingStatus", |_| ())),
        Operation::GetBucketMetadataConfiguration | Operation::GetBucketMetadataTableConfiguration => {
            missing(ErrorCode::MetadataConfigurationNotFound)
        }
        Operation::GetBucketNotificationConfiguration => Ok(document("NotificationConfiguration", |_| ())),
        Operation::GetBucketOwnershipControls => Ok(document("OwnershipControls", |xml| {
            xml.open("Rule");
            xml.plain("ObjectOwnership", "BucketOwnerEnforced");
            xml.close("Rule");
        })),
        Operation::GetBucketPolicy | Operation::GetBucketPolicyStatus => missing(ErrorCode::NoSuchBucketPolicy),
        Operation::GetBucketReplication => missing(ErrorCode::ReplicationConfigurationNotFoundError),
        Operation::GetBucketRequestPayment => {
            Ok(document("RequestPaymentConfiguration", |xml| xml.plain("Payer", "BucketOwner")))
        }
        Operation::GetBucketTagging => missing(ErrorCode::NoSuchTagSet),
        Operation::GetBucketWebsite => missing(ErrorCode::NoSuchWebsiteConfiguration),
        Operation::GetPublicAccessBlock => Ok(document("PublicAccessBlockConfiguration", |xml| {
            PUBLIC_ACCESS_BLOCKS.iter().for_each(|name| xml.boolean(name, true));
        })),
        Operation::ListBucketAnalyticsConfigurations => Ok(empty_list("ListBucketAnalyticsConfigurationResult")),
        Operation::ListBucketIntelligentTieringConfigurations => {
            Ok(empty_list("ListBucketIntelligentTieringConfigurationsOutput"))
        }
        Operation::ListBucketInventoryConfigurations => Ok(empty_list("ListInventoryConfigurationsResult")),
        Operation::ListBucketMetricsConfigurations => Ok(empty_list("ListMetricsConfigurationsResult")),
        other => Err(other.not_implemented()),
    }
}

/// Checks that what a write asks for is so already.
///
/// Errors: `NoSuchConfiguration` for the removal of one of several configurations,
/// `MalformedXML` for what is no document of the operation, `NotImplemented` for every other change.
pub fn check_unchanged(operation: Operation, body: &[u8]) -> Result<(), S3Error> {
    let agrees = match operation {
        Operation::DeleteBucketAnalyticsConfiguration
        | Operation::DeleteBucketIntelligentTieringConfiguration
        | Operation::DeleteBucketInventoryConfiguration
        | Operation::DeleteBucketMetricsConfiguration => return Err(ErrorCode::NoSuchConfiguration.into()),
        Operation::DeleteBucketMetadataConfiguration
        | Operation::DeleteBucketMetadataTableConfiguration
        | Operation::DeleteBucketReplication => true,
        Operation::PutBucketAbac => documents::abac_status(body)? == "Disabled",
        other => return Err(other.not_implemented()),
    };
    if agrees { Ok(()) } else { Err(operation.not_implemented()) }
}

/// The settings of a public access block, in the order of S3's document.
pub(crate) const PUBLIC_ACCESS_BLOCKS: [&str; 4] =
    ["BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"];

pub(crate) fn document(root: &str, content: impl FnOnce(&mut XmlWriter)) -> Vec<u8> {
    let mut xml = XmlWriter::document(320);
    xml.open_root(root);
    content(&mut xml);
    xml.close(root);
    xml.finish()
}

/// The id of a rule that was sent without one, as 48 characters: it depends on the rule as written and on its place.
pub(crate) fn generated_id(rule: &[u8], place: usize) -> String {
    let digest = |part: u8| Md5Hasher::digest(&[rule, &place.to_string().into_bytes(), &[part]].concat());
    let bytes = [digest(0), digest(1)].concat();
    hex(&bytes[..24])
}

fn empty_list(root: &str) -> Vec<u8> {
    document(root, |xml| xml.boolean("IsTruncated", false))
}

/// The error of reading a configuration of a bucket that was removed. For most this is what a new bucket answers.
pub fn removed(operation: Operation, bucket: &str) -> Result<Vec<u8>, S3Error> {
    let code = match operation {
        Operation::GetBucketOwnershipControls => ErrorCode::OwnershipControlsNotFoundError,
        Operation::GetPublicAccessBlock => ErrorCode::NoSuchPublicAccessBlockConfiguration,
        other => return of_bucket(other, bucket),
    };
    Err(S3Error::new(code).field("BucketName", bucket))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(operation: Operation) -> Result<String, ErrorCode> {
        of_bucket(operation, "b-1").map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|error| error.code)
    }

    fn write(operation: Operation, body: &str) -> Result<(), ErrorCode> {
        check_unchanged(operation, body.as_bytes()).map_err(|error| error.code)
    }

    #[test]
    fn a_configuration_that_is_missing_has_its_own_code_and_names_the_bucket() {
        let error = of_bucket(Operation::GetBucketTagging, "b-1").unwrap_err();
        assert_eq!((error.code, error.code.status()), (ErrorCode::NoSuchTagSet, 404));
        assert_eq!(error.extra, [("BucketName", b"b-1".to_vec())]);
        assert_eq!(read(Operation::GetBucketCors), Err(ErrorCode::NoSuchCORSConfiguration));
        assert_eq!(read(Operation::PutBucketCors), Err(ErrorCode::NotImplemented));
    }

    #[test]
    fn what_is_read_can_be_written_back() {
        assert_eq!(write(Operation::PutBucketAbac, &read(Operation::GetBucketAbac).unwrap()), Ok(()));
        assert_eq!(write(Operation::PutBucketAbac, "<Foreign/>"), Err(ErrorCode::MalformedXML));
    }

    #[test]
    fn what_would_change_something_is_refused() {
        let refused = Err(ErrorCode::NotImplemented);
        assert_eq!(write(Operation::PutBucketAbac, "<AbacStatus><Status>Enabled</Status></AbacStatus>"), refused);
        assert_eq!(write(Operation::PutBucketEncryption, "<ServerSideEncryptionConfiguration/>"), refused);
    }
}
