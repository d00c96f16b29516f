//! The configurations that a bucket or an object does not have: what reading them answers, and which writes of those
//! that cannot be stored agree with what is so anyway.
//!
//! What is answered stands in the rows of the operations. A write that would change anything else than `documents` stores
//! is not implemented, and never answered as if it were.

use crate::errors::S3Error;
use crate::requests::operations::{Absent, Method, Operation, OperationSpec};
use crate::xml::{XmlWriter, configurations as documents};
use orcas_checksum::Md5Hasher;
use orcas_http::hex;

/// The document that reading a configuration of a bucket answers where there is none. `is_removed`: there was one.
///
/// Errors: the code that S3 has for the missing configuration, and `NotImplemented` for an operation that does not read
/// the configuration of a bucket.
pub fn absent(operation: Operation, bucket: &str, is_removed: bool) -> Result<Vec<u8>, S3Error> {
    let OperationSpec { absent, removed, .. } = *operation.spec();
    match (absent, removed.filter(|_| is_removed)) {
        (_, Some(code)) | (Some(Absent::Refused(code)), None) => Err(S3Error::new(code).field("BucketName", bucket)),
        (Some(Absent::Shown(root, content)), None) => Ok(document(root, |xml| xml.markup(content))),
        (Some(Absent::Pulled) | None, None) => Err(operation.not_implemented()),
    }
}

/// Checks that what a write asks for is so already: nothing that is never stored can be removed.
///
/// Errors: that of the row of a removal, `MalformedXML` for what is no document of the operation, `NotImplemented` for
/// every other change.
pub fn check_unchanged(operation: Operation, body: &[u8]) -> Result<(), S3Error> {
    let OperationSpec { method, document, absent, .. } = *operation.spec();
    match (method, absent) {
        (Method::Delete, Some(Absent::Refused(code))) => Err(code.into()),
        (Method::Delete, _) if document.is_none() => Ok(()),
        _ if operation == Operation::PutBucketAbac && documents::abac_status(body)? == "Disabled" => Ok(()),
        _ => Err(operation.not_implemented()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::ErrorCode;

    fn read(operation: Operation) -> Result<String, ErrorCode> {
        absent(operation, "b-1", false).map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|error| error.code)
    }

    fn write(operation: Operation, body: &str) -> Result<(), ErrorCode> {
        check_unchanged(operation, body.as_bytes()).map_err(|error| error.code)
    }

    #[test]
    fn a_configuration_that_is_missing_has_its_own_code_and_names_the_bucket() {
        let error = absent(Operation::GetBucketTagging, "b-1", false).unwrap_err();
        assert_eq!((error.code, error.code.status()), (ErrorCode::NoSuchTagSet, 404));
        assert_eq!(error.extra, [("BucketName", b"b-1".to_vec())]);
        assert_eq!(read(Operation::GetBucketCors), Err(ErrorCode::NoSuchCORSConfiguration));
        assert_eq!(read(Operation::PutBucketCors), Err(ErrorCode::NotImplemented));
    }

    #[test]
    fn what_is_read_can_be_written_back() {
        assert_eq!(write(Operation::PutBucketAbac, &read(Operation::GetBucketAbac).unwrap()), Ok(()));
        assert_eq!(write(Operation::PutBucketAbac, "<Foreign/>"), Err(ErrorCode::MalformedXML));
        let of_new_buckets = |operation| read(operation).unwrap().into_bytes();
        let block = of_new_buckets(Operation::GetPublicAccessBlock);
        assert_eq!(documents::public_access_block(&block, &PUBLIC_ACCESS_BLOCKS), Ok(vec![true; 4]));
        let ownership = of_new_buckets(Operation::GetBucketOwnershipControls);
        assert_eq!(documents::ownership(&ownership).as_deref(), Ok("BucketOwnerEnforced"));
    }

    #[test]
    fn a_configuration_that_was_removed_may_have_another_code_than_one_that_never_was() {
        let removed = |operation| absent(operation, "b-1", true).unwrap_err().code;
        assert_eq!(removed(Operation::GetPublicAccessBlock), ErrorCode::NoSuchPublicAccessBlockConfiguration);
        assert_eq!(removed(Operation::GetBucketCors), ErrorCode::NoSuchCORSConfiguration);
    }

    #[test]
    fn what_would_change_something_is_refused() {
        let refused = Err(ErrorCode::NotImplemented);
        assert_eq!(write(Operation::PutBucketAbac, "<AbacStatus><Status>Enabled</Status></AbacStatus>"), refused);
        assert_eq!(write(Operation::PutBucketEncryption, "<ServerSideEncryptionConfiguration/>"), refused);
    }
}
