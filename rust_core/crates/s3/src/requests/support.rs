//! Which `x-amz-*` headers and versions a request may name.
//!
//! A header that S3 defines and Orcas does not implement answers `NotImplemented` with its name, and so does a header
//! that nobody defines. Passing over it would store or allow something else than the client asked for.

use crate::encryption::{BUCKET_KEY, CONTEXT, ENCRYPTION, KEY_ID, OF_A_SOURCE, OF_CUSTOMERS};
use crate::errors::{ErrorCode, S3Error};
use crate::objects::annotations::OBJECT_IF_MATCH;
use crate::objects::checksums::unknown_algorithm;
use crate::objects::versions::VersionName;
use orcas_http::{Headers, Query};

/// Whether the header `x-amz-{name}` is implemented: the operations that it concerns read it.
fn is_implemented(name: &[u8]) -> bool {
    matches!(
        name,
        // The signature and the body.
        b"date" | b"content-sha256" | b"security-token" | b"decoded-content-length" | b"trailer"
        // Checksums.
        | b"checksum-mode" | b"checksum-crc32" | b"checksum-crc32c" | b"checksum-crc64nvme" | b"checksum-sha1"
        | b"checksum-sha256" | b"checksum-sha512" | b"checksum-md5" | b"checksum-xxhash64" | b"checksum-xxhash3"
        | b"checksum-xxhash128" | b"sdk-checksum-algorithm" | b"checksum-algorithm" | b"checksum-type"
        | b"mp-object-size"
        // GetObjectAttributes.
        | b"object-attributes" | b"max-parts" | b"part-number-marker"
        // Owners.
        | b"expected-bucket-owner" | b"source-expected-bucket-owner"
        // Copies, moves and renames.
        | b"metadata-directive" | b"tagging-directive" | b"copy-source" | b"copy-source-range" | b"copy-source-if-match"
        | b"copy-source-if-none-match" | b"copy-source-if-modified-since" | b"copy-source-if-unmodified-since"
        | b"move-source" | b"rename-source" | b"rename-source-if-match" | b"rename-source-if-none-match"
        | b"rename-source-if-modified-since" | b"rename-source-if-unmodified-since"
    )
}

/// Whether the header `x-amz-{name}` changes neither what is stored nor what is allowed.
///
/// These are headers with which clients and proxies describe themselves and number their requests; `api-version`, which
/// the SDK for C++ sends with every request and of which S3 has only one; `te`, which offers to read a body followed by
/// its MD5; `request-payer`, because requests cost nothing; `optional-object-attributes`, because no object is archived;
/// `client-token`, which only RenameObject reads; and `confirm-remove-self-bucket-access`, because root always has access.
pub(crate) fn has_no_effect(name: &[u8]) -> bool {
    matches!(
        name,
        b"user-agent"
            | b"api-version"
            | b"te"
            | b"request-payer"
            | b"optional-object-attributes"
            | b"client-token"
            | b"confirm-remove-self-bucket-access"
            | b"id-2"
            | b"request-id"
    ) || name.starts_with(b"sdk-")
        || name.starts_with(b"cf-")
}

const ACLS: [&str; 8] = [
    "log-delivery-write",
    "private",
    "public-read",
    "public-read-write",
    "aws-exec-read",
    "authenticated-read",
    "bucket-owner-read",
    "bucket-owner-full-control",
];

/// The headers of an ACL.
const ACL: [&str; 6] = [
    "x-amz-acl",
    "x-amz-grant-full-control",
    "x-amz-grant-read",
    "x-amz-grant-read-acp",
    "x-amz-grant-write",
    "x-amz-grant-write-acp",
];
pub const OF_AN_ACL: &[&str] = &ACL;

/// Whether the headers name a list that may give others something.
pub(crate) fn may_give_by_acl(headers: &Headers<'_>) -> bool {
    ACL.iter().any(|name| {
        headers.get(name).is_some_and(|value| {
            let gives_nothing = matches!(value.trim_ascii(), b"private" | b"bucket-owner-full-control");
            *name != ACL[0] || !gives_nothing
        })
    })
}

/// The headers of a new bucket.
pub const OF_A_NEW_BUCKET: &[&str] =
    &[ACL[0], ACL[1], ACL[2], ACL[3], ACL[4], ACL[5], "x-amz-bucket-object-lock-enabled", "x-amz-object-ownership"];

/// The headers that an upload stores with its object.
pub const OF_AN_OBJECT: &[&str] = &[
    ACL[0],
    ACL[1],
    ACL[2],
    ACL[3],
    ACL[4],
    ACL[5],
    ENCRYPTION,
    KEY_ID,
    CONTEXT,
    BUCKET_KEY,
    OF_CUSTOMERS[0],
    OF_CUSTOMERS[1],
    OF_CUSTOMERS[2],
    "x-amz-storage-class",
    "x-amz-website-redirect-location",
    "x-amz-tagging",
    "x-amz-object-lock-mode",
    "x-amz-object-lock-retain-until-date",
    "x-amz-object-lock-legal-hold",
];

/// The headers that a copy stores with its object, or that say what it takes from its source.
pub const OF_A_COPY: &[&str] = &[
    ACL[0],
    ACL[1],
    ACL[2],
    ACL[3],
    ACL[4],
    ACL[5],
    ENCRYPTION,
    KEY_ID,
    CONTEXT,
    BUCKET_KEY,
    OF_CUSTOMERS[0],
    OF_CUSTOMERS[1],
    OF_CUSTOMERS[2],
    OF_A_SOURCE[0],
    OF_A_SOURCE[1],
    OF_A_SOURCE[2],
    "x-amz-storage-class",
    "x-amz-website-redirect-location",
    "x-amz-tagging",
    "x-amz-object-lock-mode",
    "x-amz-object-lock-retain-until-date",
    "x-amz-object-lock-legal-hold",
    "x-amz-object-annotation-directive",
];

/// The headers of a part, or of a read, that name the key of a customer.
pub const OF_A_PART: &[&str] = &OF_CUSTOMERS;
/// The headers of a part that is copied.
pub const OF_A_PART_COPY: &[&str] =
    &[OF_CUSTOMERS[0], OF_CUSTOMERS[1], OF_CUSTOMERS[2], OF_A_SOURCE[0], OF_A_SOURCE[1], OF_A_SOURCE[2]];
/// The headers of a request that writes an annotation.
pub const OF_AN_ANNOTATION: &[&str] = &[OBJECT_IF_MATCH];
/// The headers of a request that removes an annotation.
pub const OF_AN_ANNOTATION_REMOVAL: &[&str] = &[OBJECT_IF_MATCH, "x-amz-bypass-governance-retention"];

/// The header of PutBucketNotificationConfiguration by which destinations need not exist.
pub const SKIP_VALIDATION: &str = "x-amz-skip-destination-validation";
pub const OF_A_NOTIFICATION: &[&str] = &[SKIP_VALIDATION];

/// Whether destinations of notifications are not checked.
///
/// # Errors
/// `InvalidArgument` for what is neither true nor false.
pub fn skips_validation(headers: &Headers<'_>) -> Result<bool, S3Error> {
    match headers.get(SKIP_VALIDATION).map(<[u8]>::trim_ascii) {
        None => Ok(false),
        Some(value) if value.eq_ignore_ascii_case(b"true") => Ok(true),
        Some(value) if value.eq_ignore_ascii_case(b"false") => Ok(false),
        Some(value) => Err(S3Error::argument("The value must be true or false", SKIP_VALIDATION, value)),
    }
}

/// The header by which a deletion or a change of retention passes over governance mode.
pub const OF_A_LOCK: &[&str] = &["x-amz-bypass-governance-retention"];

/// The headers and parameters that only some operations accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Understood {
    /// `versionId` in the query.
    pub version_id: bool,
    /// Headers of extensions, and of S3 that only this operation has, also where S3 itself has them in directory buckets only.
    pub extensions: &'static [&'static str],
    /// Headers of S3 that only some operations implement: other operations refuse them, unless they ask for nothing.
    pub attributes: &'static [&'static str],
    /// The operation reads what is stored. It needs no header of encryption but those of a customer's key. So others are
    /// an error of their own.
    pub reads_clear: bool,
    /// Headers that other operations implement and that would change what this one stores.
    pub refused: &'static [&'static str],
}

impl Understood {
    /// Nothing but what all operations accept.
    pub const NOTHING: Self =
        Self { version_id: false, extensions: &[], attributes: &[], reads_clear: false, refused: &[] };

    /// Whether it has a header that some other operations refuse or pass over.
    pub fn takes(&self, header: &[u8]) -> bool {
        self.attributes.iter().chain(self.extensions).any(|name| name.as_bytes() == header)
    }
}

/// Refuses headers and versions that are not implemented. Call it once the request is authenticated.
pub fn check_supported(understood: &Understood, query: &Query, headers: &Headers<'_>) -> Result<(), S3Error> {
    if let Some(version) = query.get("versionId") {
        if !understood.version_id {
            return Err(S3Error::argument("This operation does not accept a version-id.", "versionId", version));
        }
        VersionName::parse("versionId", version)?;
    }
    headers.iter().try_for_each(|(name, value)| check_header(understood, name, value.trim_ascii()))
}

/// Compares the owner that the header `name` expects with the real one, if the header is there.
pub fn check_expected_owner(headers: &Headers<'_>, name: &str, owner: &str) -> Result<(), S3Error> {
    match headers.get(name) {
        Some(expected) if expected != owner.as_bytes() => Err(ErrorCode::AccessDenied.into()),
        _ => Ok(()),
    }
}

fn check_header(understood: &Understood, name: &[u8], value: &[u8]) -> Result<(), S3Error> {
    let Some(rest) = name.strip_prefix(b"x-amz-") else { return Ok(()) };
    let named_in = |list: &[&str]| list.iter().any(|known| known.as_bytes() == name);
    let refuse_unless = |passes: bool| if passes { Ok(()) } else { Err(S3Error::header_not_implemented(name)) };
    if rest.starts_with(b"meta-") || is_implemented(rest) {
        return refuse_unless(!named_in(understood.refused));
    }
    let one_of = |known: &[&str]| known.iter().any(|known| known.as_bytes() == value);
    if rest == b"acl" && !one_of(&ACLS) {
        return Err(S3Error::argument("The canned ACL is unknown", "x-amz-acl", value));
    }
    if named_in(understood.attributes) {
        return Ok(());
    }
    match rest {
        b"acl" if one_of(&["private", "bucket-owner-full-control"]) => Ok(()),
        b"storage-class" => refuse_unless(one_of(&["STANDARD"])),
        b"tagging" => refuse_unless(value.is_empty()),
        b"bucket-object-lock-enabled" | b"bypass-governance-retention" => {
            refuse_unless(value.eq_ignore_ascii_case(b"false"))
        }
        b"object-ownership" => refuse_unless(one_of(&["BucketOwnerEnforced"])),
        b"bucket-namespace" => refuse_unless(one_of(&["global"])),
        // Only CopyObject copies annotations.
        b"object-annotation-directive" => refuse_unless(one_of(&["EXCLUDE"])),
        b"server-side-encryption" => {
            let message = format!("{ENCRYPTION} header is not supported for this operation.");
            Err(S3Error::argument(message, ENCRYPTION, value))
        }
        _ if rest.starts_with(b"checksum-") => Err(unknown_algorithm()),
        _ if understood.reads_clear && rest.starts_with(b"server-side-encryption") => {
            let message = "The encryption parameters are not applicable to this object.";
            Err(S3Error::with(ErrorCode::InvalidRequest, message))
        }
        _ => refuse_unless(has_no_effect(rest) || named_in(understood.extensions)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::metadata::WRITE_OFFSET;
    use crate::requests::conditions::OF_A_DELETION;
    use crate::requests::extensions;
    use crate::requests::replicas::OF_A_PUT;

    const VERSIONS: Understood = Understood { version_id: true, ..Understood::NOTHING };

    fn check(understood: Understood, query: &str, name: &str, value: &str) -> Result<(), ErrorCode> {
        let list: [(&[u8], &[u8]); 1] = [(name.as_bytes(), value.as_bytes())];
        let query = Query::parse(query.as_bytes()).unwrap();
        check_supported(&understood, &query, &Headers::new(&list)).map_err(|error| error.code)
    }

    #[test]
    fn headers_that_are_not_implemented_are_refused_by_name() {
        for (name, value) in [
            ("x-amz-server-side-encryption-customer-key", "k"),
            ("x-amz-copy-source-server-side-encryption-customer-key", "k"),
            ("x-amz-object-lock-mode", "GOVERNANCE"),
            ("x-amz-object-lock-event-hold", "ON"),
            ("x-amz-website-redirect-location", "/x"),
            ("x-amz-write-offset-bytes", "0"),
            ("x-amz-bypass-governance-retention", "true"),
            ("x-amz-mfa", "serial 123456"),
            ("x-amz-if-match-size", "1"),
            ("x-amz-object-annotation-directive", "COPY"),
            ("x-amz-no-such-header", ""),
            ("x-amz-", ""),
            ("x-amz-meta", "a"),
            ("x-amz-dates", "20260101T000000Z"),
            ("x-amz-tagging", "a=b"),
            ("x-amz-storage-class", "GLACIER"),
        ] {
            assert_eq!(check(Understood::NOTHING, "", name, value), Err(ErrorCode::NotImplemented), "{name}");
            let list: [(&[u8], &[u8]); 1] = [(name.as_bytes(), value.as_bytes())];
            let error = check_supported(&Understood::NOTHING, &Query::default(), &Headers::new(&list)).unwrap_err();
            assert!(error.message.contains(name));
        }
        // S3 has another error for the checksum of an algorithm that does not exist.
        assert_eq!(check(Understood::NOTHING, "", "x-amz-checksum-xxhash9", "AAAA"), Err(ErrorCode::InvalidRequest));
    }

    #[test]
    fn headers_of_extensions_belong_to_their_operations() {
        let of = |extensions| Understood { extensions, ..Understood::NOTHING };
        for (understood, name, allowed) in [
            (of(extensions::OF_A_BUCKET), extensions::CHUNK_SIZE, true),
            (of(extensions::OF_A_BUCKET), extensions::KEEP_SHA256, true),
            (of(extensions::OF_AN_INSTANT_UPLOAD), extensions::INSTANT_SIZE, true),
            (Understood::NOTHING, extensions::INSTANT_SIZE, false),
            (Understood::NOTHING, extensions::DURABILITY, false),
            (of(extensions::OF_AN_INSTANT_UPLOAD), extensions::REF_LEVEL, false),
            (of(extensions::OF_A_BUCKET), "x-amz-orcas-chunksize", false),
            (of(OF_A_DELETION), "x-amz-if-match-size", true),
            (of(OF_A_DELETION), WRITE_OFFSET, false),
            (of(OF_A_PUT), WRITE_OFFSET, true),
            (of(extensions::OF_A_COMPLETION), extensions::REPLICA_TIME, true),
            (of(extensions::OF_A_COMPLETION), WRITE_OFFSET, false),
        ] {
            let verdict = check(understood, "", name, "1");
            assert_eq!(verdict, if allowed { Ok(()) } else { Err(ErrorCode::NotImplemented) }, "{understood:?} {name}");
        }
    }

    #[test]
    fn attributes_of_objects_are_for_operations_that_store_them() {
        let stores = Understood { attributes: OF_AN_OBJECT, ..Understood::NOTHING };
        for name in OF_AN_OBJECT {
            let value = if *name == ACL[0] { "public-read" } else { "x" };
            assert_eq!(check(stores, "", name, value), Ok(()), "{name}");
            // S3 has an error of its own for this one.
            let refused = if *name == ENCRYPTION { ErrorCode::InvalidArgument } else { ErrorCode::NotImplemented };
            assert_eq!(check(Understood::NOTHING, "", name, value), Err(refused), "{name}");
        }
        assert_eq!(check(stores, "", OF_A_LOCK[0], "true"), Err(ErrorCode::NotImplemented));
    }

    #[test]
    fn an_operation_refuses_what_only_others_implement() {
        let refused = Understood { refused: &["x-amz-copy-source-range"], ..Understood::NOTHING };
        assert_eq!(check(refused, "", "x-amz-copy-source-range", "bytes=0-1"), Err(ErrorCode::NotImplemented));
        assert_eq!(check(refused, "", "x-amz-copy-source", "/b/k"), Ok(()));
    }

    #[test]
    fn headers_of_encryption_do_not_apply_to_reads() {
        let reads = Understood { reads_clear: true, ..Understood::NOTHING };
        let of_the_source = "x-amz-copy-source-server-side-encryption-customer-key";
        assert_eq!(check(reads, "", "x-amz-server-side-encryption", "AES256"), Err(ErrorCode::InvalidArgument));
        let context = "x-amz-server-side-encryption-context";
        assert_eq!(check(reads, "", context, "e30="), Err(ErrorCode::InvalidRequest));
        assert_eq!(check(reads, "", of_the_source, "k"), Err(ErrorCode::NotImplemented));
    }

    #[test]
    fn harmless_values_pass_and_nonsense_does_not() {
        for (name, value) in [
            ("x-amz-acl", "private"),
            ("x-amz-acl", "bucket-owner-full-control"),
            ("x-amz-storage-class", "STANDARD"),
            ("x-amz-bucket-object-lock-enabled", "false"),
            ("x-amz-bypass-governance-retention", "False"),
            ("x-amz-tagging", ""),
            ("x-amz-object-annotation-directive", "EXCLUDE"),
            ("x-amz-user-agent", "aws-sdk-js/3.729.0"),
            ("x-amz-api-version", "2006-03-01"),
            ("x-amz-te", "append-md5"),
            ("x-amz-cf-id", "abc"),
            ("x-amz-sdk-request", "attempt=1"),
            ("x-amz-request-payer", "requester"),
            ("x-amz-client-token", "1"),
            ("x-amz-meta-x-amz-acl", "public-read"),
            ("x-amz-date", "20260101T000000Z"),
        ] {
            assert_eq!(check(Understood::NOTHING, "", name, value), Ok(()), "{name}: {value}");
        }
        assert_eq!(check(Understood::NOTHING, "", "x-amz-acl", "x"), Err(ErrorCode::InvalidArgument));
        for (name, value) in [("x-amz-acl", "public-read"), ("x-amz-grant-write-acp", "id=x")] {
            let verdict = check(Understood::NOTHING, "", name, value);
            assert_eq!(verdict, Err(ErrorCode::NotImplemented), "{name}");
        }
        assert_eq!(check(Understood::NOTHING, "", "x-amz-storage-class", "x"), Err(ErrorCode::NotImplemented));
    }

    #[test]
    fn versions_are_for_operations_that_take_them() {
        assert_eq!(check(VERSIONS, "versionId=null", "a", "b"), Ok(()));
        assert_eq!(check(VERSIONS, "versionId=00112233445566778899aabbccddeeff", "a", "b"), Ok(()));
        assert_eq!(check(VERSIONS, "versionId=abc", "a", "b"), Err(ErrorCode::InvalidArgument));
        assert_eq!(check(VERSIONS, "versionId=", "a", "b"), Err(ErrorCode::InvalidArgument));
        assert_eq!(check(VERSIONS, "versionId=a%20b", "a", "b"), Err(ErrorCode::InvalidArgument));
        assert_eq!(check(Understood::NOTHING, "versionId=null", "a", "b"), Err(ErrorCode::InvalidArgument));
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
