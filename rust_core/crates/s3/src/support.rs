//! What requests ask for beyond what is built: headers and versions that must be refused, never ignored.
//!
//! A header whose meaning is not built and that changes what is stored answers `NotImplemented` by name.

use super::errors::{ErrorCode, S3Error};
use super::extensions;
use super::target::check_version_id;
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

/// What an operation gives a meaning to, and others refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Understood {
    /// `versionId` in the query.
    pub version_id: bool,
    /// Headers of extensions.
    pub extensions: &'static [&'static str],
    /// It reads what is stored, in clear: headers of encryption do not apply to that.
    pub reads_clear: bool,
}

impl Understood {
    /// Nothing but what all operations understand.
    pub const NOTHING: Self = Self { version_id: false, extensions: &[], reads_clear: false };
}

/// Refuses headers and versions that are not built. Call it once the request is authenticated.
pub fn check_supported(understood: &Understood, query: &Query, headers: &Headers<'_>) -> Result<(), S3Error> {
    if let Some(version) = query.get("versionId") {
        if !understood.version_id {
            return Err(S3Error::argument("This operation does not accept a version-id.", "versionId", version));
        }
        check_version_id(version)?;
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
    let refuse = || Err(S3Error::unbuilt_header(name));
    if understood.reads_clear && rest.starts_with(b"server-side-encryption") {
        let message = "The encryption parameters are not applicable to this object.";
        return Err(S3Error::with(ErrorCode::InvalidRequest, message));
    }
    if UNBUILT.iter().any(|known| known.as_bytes() == name)
        || UNBUILT_PREFIXES.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
    {
        return refuse();
    }
    if name.starts_with(extensions::PREFIX.as_bytes()) {
        let known = understood.extensions.iter().any(|known| known.as_bytes() == name);
        return if known { Ok(()) } else { refuse() };
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

    const VERSIONS: Understood = Understood { version_id: true, ..Understood::NOTHING };

    fn check(understood: Understood, query: &str, name: &str, value: &str) -> Result<(), ErrorCode> {
        let list: [(&[u8], &[u8]); 1] = [(name.as_bytes(), value.as_bytes())];
        let query = Query::parse(query.as_bytes()).unwrap();
        check_supported(&understood, &query, &Headers::new(&list)).map_err(|error| error.code)
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
            assert_eq!(check(Understood::NOTHING, "", name, value), Err(ErrorCode::NotImplemented), "{name}");
            let list: [(&[u8], &[u8]); 1] = [(name.as_bytes(), value.as_bytes())];
            let error = check_supported(&Understood::NOTHING, &Query::default(), &Headers::new(&list)).unwrap_err();
            assert!(error.message.contains(name));
        }
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
        ] {
            let verdict = check(understood, "", name, "1");
            assert_eq!(verdict, if allowed { Ok(()) } else { Err(ErrorCode::NotImplemented) }, "{understood:?} {name}");
        }
    }

    #[test]
    fn headers_of_encryption_do_not_apply_to_reads() {
        let reads = Understood { reads_clear: true, ..Understood::NOTHING };
        let of_the_source = "x-amz-copy-source-server-side-encryption-customer-key";
        assert_eq!(check(reads, "", "x-amz-server-side-encryption", "AES256"), Err(ErrorCode::InvalidRequest));
        assert_eq!(check(reads, "", of_the_source, "k"), Err(ErrorCode::NotImplemented));
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
            assert_eq!(check(Understood::NOTHING, "", name, value), Ok(()), "{name}: {value}");
        }
        assert_eq!(check(Understood::NOTHING, "", "x-amz-acl", "x"), Err(ErrorCode::InvalidArgument));
        assert_eq!(check(Understood::NOTHING, "", "x-amz-storage-class", "x"), Err(ErrorCode::InvalidStorageClass));
    }

    #[test]
    fn versions_are_for_operations_that_take_them() {
        assert_eq!(check(VERSIONS, "versionId=null", "a", "b"), Ok(()));
        assert_eq!(check(VERSIONS, "versionId=abc", "a", "b"), Err(ErrorCode::NoSuchVersion));
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
