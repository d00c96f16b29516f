//! What requests ask for beyond what is built: headers and versions that must be refused, never ignored.
//!
//! A header whose meaning is not built and that changes what is stored answers `NotImplemented` by name.

use super::errors::{ErrorCode, S3Error};
use super::extensions;
use super::operations::Operation;
use orcas_http::{Headers, Query};

/// Headers that no operation here gives a meaning to, by exact name.
const UNBUILT: [&str; 3] = ["x-amz-website-redirect-location", "x-amz-write-offset-bytes", "x-amz-object-if-match"];

/// Headers that no operation here gives a meaning to, by prefix.
const UNBUILT_PREFIXES: [&str; 4] =
    ["x-amz-server-side-encryption", "x-amz-copy-source-server-side-encryption", "x-amz-object-lock-", "x-amz-grant-"];

const ACLS: [&str; 7] = [
    "private",
    "public-read",
    "public-read-write",
    "aws-exec-read",
    "authenticated-read",
    "bucket-owner-read",
    "bucket-owner-full-control",
];

const STORAGE_CLASSES: [&str; 15] = [
    "STANDARD",
    "REDUCED_REDUNDANCY",
    "STANDARD_IA",
    "ONEZONE_IA",
    "INTELLIGENT_TIERING",
    "GLACIER",
    "DEEP_ARCHIVE",
    "OUTPOSTS",
    "GLACIER_IR",
    "SNOW",
    "EXPRESS_ONEZONE",
    "FSX_OPENZFS",
    "FSX_ONTAP",
    "AWS_BACKUP_WARM",
    "AWS_BACKUP_LOW_COST_WARM",
];

/// Refuses operations, headers and versions that are not built. Call it once the request is authenticated.
pub fn check_supported(operation: Operation, query: &Query, headers: &Headers<'_>) -> Result<(), S3Error> {
    if !operation.implemented() {
        return Err(operation.unbuilt());
    }
    if let Some(version) = query.get("versionId") {
        match operation {
            Operation::GetObject | Operation::HeadObject | Operation::DeleteObject => check_version_id(version)?,
            _ => return Err(S3Error::argument("This operation does not accept a version-id.", "versionId", version)),
        }
    }
    headers.iter().try_for_each(|(name, value)| check_header(operation, name, value.trim_ascii()))
}

/// Accepts the only version that exists without versioning, `null`.
pub fn check_version_id(version: &[u8]) -> Result<(), S3Error> {
    const VERSION_ID_LEN_MAX: usize = 1024;
    let plausible = !version.is_empty()
        && version.len() <= VERSION_ID_LEN_MAX
        && version.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    match version {
        b"null" => Ok(()),
        _ if plausible => Err(S3Error::new(ErrorCode::NoSuchVersion).field("VersionId", version)),
        _ => Err(S3Error::argument("Invalid version id specified", "versionId", version)),
    }
}

/// Compares the owner that the header `name` expects with the real one, if the header is there.
pub fn check_expected_owner(headers: &Headers<'_>, name: &str, owner: &str) -> Result<(), S3Error> {
    match headers.get(name) {
        Some(expected) if expected != owner.as_bytes() => Err(ErrorCode::AccessDenied.into()),
        _ => Ok(()),
    }
}

fn check_header(operation: Operation, name: &[u8], value: &[u8]) -> Result<(), S3Error> {
    let Some(rest) = name.strip_prefix(b"x-amz-") else { return Ok(()) };
    let refuse = || Err(S3Error::unbuilt_header(name));
    let reads = matches!(operation, Operation::GetObject | Operation::HeadObject | Operation::ListParts);
    if reads && rest.starts_with(b"server-side-encryption") {
        let message = "The encryption parameters are not applicable to this object.";
        return Err(S3Error::with(ErrorCode::InvalidRequest, message));
    }
    if UNBUILT.iter().any(|known| known.as_bytes() == name)
        || UNBUILT_PREFIXES.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
    {
        return refuse();
    }
    if name.starts_with(extensions::PREFIX.as_bytes()) && !extensions::has_meaning(operation, name) {
        return refuse();
    }
    let one_of = |known: &[&str]| known.iter().any(|known| known.as_bytes() == value);
    match rest {
        b"acl" if one_of(&["private", "bucket-owner-full-control"]) => Ok(()),
        b"acl" if one_of(&ACLS) => refuse(),
        b"acl" => Err(S3Error::argument("The canned ACL is unknown", "x-amz-acl", value)),
        b"storage-class" if one_of(&["STANDARD"]) => Ok(()),
        b"storage-class" if one_of(&STORAGE_CLASSES) => refuse(),
        b"storage-class" => Err(S3Error::new(ErrorCode::InvalidStorageClass).field("StorageClassRequested", value)),
        b"tagging" if !value.is_empty() => refuse(),
        b"tagging-directive" if !one_of(&["COPY", "REPLACE"]) => {
            Err(S3Error::argument("Unknown tagging directive.", "x-amz-tagging-directive", value))
        }
        b"bucket-object-lock-enabled" if !value.eq_ignore_ascii_case(b"false") => refuse(),
        b"object-ownership" if !one_of(&["BucketOwnerEnforced"]) => refuse(),
        b"bucket-namespace" if !one_of(&["global"]) => refuse(),
        b"if-match-size" | b"if-match-last-modified-time" | b"if-match-initiated-time" => refuse(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(operation: Operation, query: &str, name: &str, value: &str) -> Result<(), ErrorCode> {
        let list: [(&[u8], &[u8]); 1] = [(name.as_bytes(), value.as_bytes())];
        let query = Query::parse(query.as_bytes()).unwrap();
        check_supported(operation, &query, &Headers::new(&list)).map_err(|error| error.code)
    }

    #[test]
    fn unbuilt_headers_are_refused_by_name() {
        for (name, value) in [
            ("x-amz-server-side-encryption", "AES256"),
            ("x-amz-server-side-encryption-customer-key", "k"),
            ("x-amz-copy-source-server-side-encryption-customer-key", "k"),
            ("x-amz-object-lock-mode", "GOVERNANCE"),
            ("x-amz-object-lock-event-hold", "ON"),
            ("x-amz-grant-read", "id=x"),
            ("x-amz-website-redirect-location", "/x"),
            ("x-amz-write-offset-bytes", "0"),
            ("x-amz-tagging", "a=b"),
            ("x-amz-acl", "public-read"),
            ("x-amz-storage-class", "GLACIER"),
        ] {
            assert_eq!(check(Operation::PutObject, "", name, value), Err(ErrorCode::NotImplemented), "{name}");
            let list: [(&[u8], &[u8]); 1] = [(name.as_bytes(), value.as_bytes())];
            let error = check_supported(Operation::PutObject, &Query::default(), &Headers::new(&list)).unwrap_err();
            assert!(error.message.contains(name));
        }
    }

    #[test]
    fn headers_of_extensions_belong_to_their_operations() {
        for (operation, name, allowed) in [
            (Operation::CreateBucket, extensions::CHUNK_SIZE, true),
            (Operation::PutBucketSettings, extensions::KEEP_SHA256, true),
            (Operation::InstantUpload, extensions::INSTANT_SIZE, true),
            (Operation::PutObject, extensions::INSTANT_SIZE, false),
            (Operation::PutObject, extensions::DURABILITY, false),
            (Operation::InstantUpload, extensions::REF_LEVEL, false),
            (Operation::CreateBucket, "x-amz-orcas-chunksize", false),
        ] {
            let verdict = check(operation, "", name, "1");
            assert_eq!(verdict, if allowed { Ok(()) } else { Err(ErrorCode::NotImplemented) }, "{operation:?} {name}");
        }
    }

    #[test]
    fn harmless_values_pass_and_nonsense_does_not() {
        for (name, value) in [
            ("x-amz-acl", "private"),
            ("x-amz-acl", "bucket-owner-full-control"),
            ("x-amz-storage-class", "STANDARD"),
            ("x-amz-bucket-object-lock-enabled", "false"),
            ("x-amz-tagging", ""),
            ("x-amz-meta-x-amz-acl", "public-read"),
            ("x-amz-date", "20260101T000000Z"),
        ] {
            assert_eq!(check(Operation::PutObject, "", name, value), Ok(()), "{name}: {value}");
        }
        assert_eq!(check(Operation::PutObject, "", "x-amz-acl", "x"), Err(ErrorCode::InvalidArgument));
        assert_eq!(check(Operation::PutObject, "", "x-amz-storage-class", "x"), Err(ErrorCode::InvalidStorageClass));
    }

    #[test]
    fn only_the_null_version_exists() {
        let at = |operation, version: &str| check(operation, &format!("versionId={version}"), "a", "b");
        assert_eq!(at(Operation::GetObject, "null"), Ok(()));
        assert_eq!(at(Operation::HeadObject, "abc"), Err(ErrorCode::NoSuchVersion));
        assert_eq!(at(Operation::DeleteObject, "abc"), Err(ErrorCode::NoSuchVersion));
        assert_eq!(at(Operation::GetObject, ""), Err(ErrorCode::InvalidArgument));
        assert_eq!(at(Operation::GetObject, "a%20b"), Err(ErrorCode::InvalidArgument));
        assert_eq!(at(Operation::PutObject, "null"), Err(ErrorCode::InvalidArgument));
        assert_eq!(check(Operation::GetObjectAcl, "", "a", "b"), Err(ErrorCode::NotImplemented));
    }

    #[test]
    fn owners_are_compared_when_asked() {
        let list: [(&[u8], &[u8]); 1] = [(b"x-amz-expected-bucket-owner", b"alice")];
        let headers = Headers::new(&list);
        assert!(check_expected_owner(&headers, "x-amz-expected-bucket-owner", "alice").is_ok());
        assert!(check_expected_owner(&headers, "x-amz-expected-bucket-owner", "bob").is_err());
        assert!(check_expected_owner(&headers, "x-amz-source-expected-bucket-owner", "bob").is_ok());
    }
}
