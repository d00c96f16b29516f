//! The parameters of listings and multipart requests, typed, and the continuation token.
//!
//! Numbers are clamped to the page limits of S3. Text parameters are UTF-8, as names and keys are.

use super::operations::subresource;
use super::range::{PART_NUMBER_MAX, part_number};
use crate::errors::{ErrorCode, S3Error};
use crate::objects::versions::VersionName;
use orcas_checksum::{Checksum, ChecksumAlgorithm, Hasher, base64_decode, base64_encode};
use orcas_http::{Headers, Query};

/// Entries of one listing page: the limit of S3, which bounds an answer's memory.
pub const PAGE_LEN_MAX: u16 = 1000;

/// Buckets of one page of ListBuckets.
pub const BUCKETS_LEN_MAX: u16 = 10_000;

/// Bytes of the longest name of an annotation.
pub const ANNOTATION_NAME_LEN_MAX: usize = 512;

/// Bytes of an upload id; longer ones name nothing here.
pub const UPLOAD_ID_LEN_MAX: usize = 256;

/// The `x-amz-` headers that a presigned address carries in its query, names in lower case: several SDKs move there
/// what the sender will not send. `also` names further headers that are moved. A header that was sent stands before a
/// parameter.
///
/// A checksum in the query is signed but means nothing, as in S3: whoever made the address did not know the body. Since
/// version 3.729 the JavaScript SDK puts the CRC32 of an empty body there. The S3 user guide (Sharing objects with
/// presigned URLs) says that presigned URLs do not support checksums; that S3 ignores them in the query is seen in
/// github.com/aws/aws-sdk/issues/480 and github.com/aws/aws-sdk-go-v2/issues/2610, and since
/// github.com/aws/aws-sdk-go-v2/pull/3522 that SDK sends them as signed headers, which are verified.
pub fn hoisted_headers(query: &Query, headers: &Headers<'_>, also: &[&str]) -> Vec<(Vec<u8>, Vec<u8>)> {
    const OF_THE_SIGNATURE: [&[u8]; 8] = [
        b"x-amz-algorithm",
        b"x-amz-credential",
        b"x-amz-date",
        b"x-amz-expires",
        b"x-amz-signedheaders",
        b"x-amz-signature",
        b"x-amz-security-token",
        b"x-amz-content-sha256",
    ];
    let moved = |name: &[u8]| {
        name.get(..6).is_some_and(|prefix| prefix.eq_ignore_ascii_case(b"x-amz-"))
            || also.iter().any(|also| name.eq_ignore_ascii_case(also.as_bytes()))
    };
    let signs = |name: &[u8]| OF_THE_SIGNATURE.iter().any(|of| name.eq_ignore_ascii_case(of));
    query
        .iter()
        // Most addresses have no others, and nothing is copied for them.
        .filter(|(name, _)| moved(name) && !signs(name))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec()))
        .filter(|(name, _)| !is_checksum(name))
        .filter(|(name, _)| !headers.iter().any(|(sent, _)| sent == name.as_slice()))
        .collect()
}

/// Whether a header says what checksum the body has.
fn is_checksum(name: &[u8]) -> bool {
    let value =
        name.strip_prefix(b"x-amz-checksum-").is_some_and(|rest| !matches!(rest, b"mode" | b"type" | b"algorithm"));
    value || name == b"x-amz-sdk-checksum-algorithm"
}

/// Whether a signature of version 2 covers the query parameter `name`: sub-resources, what addresses a part or a version,
/// and the overrides of response headers.
///
/// It covers every parameter that decides what a request does, also sub-resources that AWS's list lacks. Otherwise anyone
/// who has a presigned URL could add such a parameter.
pub fn is_resource_parameter(name: &[u8]) -> bool {
    // Each by its full name: a prefix such as `response-` would let one name hold the parameters behind it.
    const OTHERS: [&str; 14] = [
        "partNumber",
        "uploadId",
        "versionId",
        "select-type",
        "annotationName",
        "id",
        "defaultObjectAcl",
        "storageClass",
        "response-content-type",
        "response-content-encoding",
        "response-content-disposition",
        "response-content-language",
        "response-cache-control",
        "response-expires",
    ];
    OTHERS.iter().any(|other| other.as_bytes() == name) || subresource(name).is_some()
}

/// The parameters that all listings of keys share. Empty values count as absent, except that a prefix is then empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySelection {
    pub prefix: Vec<u8>,
    pub delimiter: Option<Vec<u8>>,
    /// 0 to 1,000.
    pub max: u16,
    /// Keys are percent-encoded in the answer.
    pub url_encoded: bool,
}

impl KeySelection {
    fn parse(query: &Query, max_name: &'static str) -> Result<Self, S3Error> {
        Ok(Self {
            prefix: text(query, "prefix")?.unwrap_or_default(),
            delimiter: text(query, "delimiter")?,
            max: limit(query, max_name, PAGE_LEN_MAX)?,
            url_encoded: url_encoded(query)?,
        })
    }
}

impl KeySelection {
    /// The key after which a page begins for this marker. If a common prefix includes the key that it names, that is
    /// behind the prefix.
    pub fn behind<'a>(&self, marker: &'a [u8]) -> &'a [u8] {
        let included = self.delimiter.as_ref().and_then(|delimiter| {
            let rest = marker.strip_prefix(&self.prefix[..])?;
            let at = rest.windows(delimiter.len()).position(|window| window == &delimiter[..])?;
            marker.get(..self.prefix.len() + at + delimiter.len())
        });
        included.unwrap_or(marker)
    }
}

/// ListObjects, the first version. The listing starts after `marker`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListObjectsQuery {
    pub keys: KeySelection,
    pub marker: Option<Vec<u8>>,
}

impl ListObjectsQuery {
    pub fn parse(query: &Query) -> Result<Self, S3Error> {
        Ok(Self { keys: KeySelection::parse(query, "max-keys")?, marker: text(query, "marker")? })
    }
}

/// ListObjectsV2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListObjectsV2Query {
    pub keys: KeySelection,
    pub start_after: Option<Vec<u8>>,
    pub continuation: Option<Continuation>,
    pub fetch_owner: bool,
}

impl ListObjectsV2Query {
    pub fn parse(query: &Query) -> Result<Self, S3Error> {
        let fetch_owner = query.get("fetch-owner").is_some_and(|value| value.eq_ignore_ascii_case(b"true"));
        Ok(Self {
            keys: KeySelection::parse(query, "max-keys")?,
            start_after: text(query, "start-after")?,
            continuation: Continuation::parse(query)?,
            fetch_owner,
        })
    }

    /// The key after which the page starts. A token takes precedence over `start-after`, unless it is empty.
    pub fn after(&self) -> Option<&[u8]> {
        let token = self.continuation.as_ref().map(|token| token.after.as_slice());
        token.filter(|after| !after.is_empty()).or(self.start_after.as_deref())
    }
}

/// ListObjectVersions. The page starts after the version `version_id_marker` of `key_marker`, without it after all
/// versions of that key or after that common prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListVersionsQuery {
    pub keys: KeySelection,
    pub key_marker: Option<Vec<u8>>,
    pub version_id_marker: Option<VersionName>,
}

impl ListVersionsQuery {
    pub fn parse(query: &Query) -> Result<Self, S3Error> {
        let key_marker = text(query, "key-marker")?;
        if query.get("version-id-marker").is_some_and(<[u8]>::is_empty) {
            let message = "A version-id marker cannot be empty.";
            return Err(S3Error::argument(message, "version-id-marker", b""));
        }
        let version_id_marker = match text(query, "version-id-marker")? {
            Some(marker) if key_marker.is_none() => {
                let message = "A version-id marker cannot be specified without a key marker.";
                return Err(S3Error::argument(message, "version-id-marker", &marker));
            }
            Some(marker) => Some(VersionName::parse("version-id-marker", &marker)?),
            None => None,
        };
        Ok(Self { keys: KeySelection::parse(query, "max-keys")?, key_marker, version_id_marker })
    }
}

/// ListMultipartUploads. The upload id marker counts only with a key marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListUploadsQuery {
    pub keys: KeySelection,
    pub key_marker: Option<Vec<u8>>,
    pub upload_id_marker: Option<Vec<u8>>,
}

impl ListUploadsQuery {
    pub fn parse(query: &Query) -> Result<Self, S3Error> {
        let key_marker = text(query, "key-marker")?;
        let upload_id_marker = text(query, "upload-id-marker")?.filter(|_| key_marker.is_some());
        Ok(Self { keys: KeySelection::parse(query, "max-uploads")?, key_marker, upload_id_marker })
    }
}

/// ListParts. The page starts after part `marker`, 0 for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPartsQuery {
    pub upload_id: Vec<u8>,
    pub marker: u16,
    pub max: u16,
}

impl ListPartsQuery {
    pub fn parse(query: &Query) -> Result<Self, S3Error> {
        Ok(Self {
            upload_id: upload_id(query)?,
            marker: limit_or(query, "part-number-marker", PART_NUMBER_MAX, 0)?,
            max: limit(query, "max-parts", PAGE_LEN_MAX)?,
        })
    }
}

/// ListBuckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListBucketsQuery {
    pub prefix: Vec<u8>,
    /// 1 to 10,000; absent when the caller did not ask for pages.
    pub max: Option<u16>,
    pub continuation: Option<Continuation>,
    pub region: Option<Vec<u8>>,
}

impl ListBucketsQuery {
    pub fn parse(query: &Query) -> Result<Self, S3Error> {
        let max = query.get("max-buckets").filter(|value| !value.is_empty()).map(|value| {
            let max = integer("max-buckets", value).ok().and_then(|max| u16::try_from(max).ok());
            max.filter(|max| (1..=BUCKETS_LEN_MAX).contains(max)).ok_or_else(|| {
                let message = "Argument max-buckets must be an integer between 1 and 10000.";
                S3Error::argument(message, "max-buckets", value)
            })
        });
        let max = max.transpose()?;
        if let Some(value) = query.get("max-directory-buckets") {
            return Err(S3Error::argument("There are no directory buckets", "max-directory-buckets", value));
        }
        Ok(Self {
            prefix: text(query, "prefix")?.unwrap_or_default(),
            max,
            continuation: Continuation::parse(query)?,
            region: text(query, "bucket-region")?,
        })
    }
}

/// ListObjectAnnotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListAnnotationsQuery {
    pub prefix: Option<Vec<u8>>,
    /// 1 to 1,000.
    pub max: u16,
    pub continuation: Option<Continuation>,
}

impl ListAnnotationsQuery {
    /// Errors: `InvalidPrefix` for a prefix that is longer than any name, else `InvalidArgument`.
    pub fn parse(query: &Query) -> Result<Self, S3Error> {
        const MAX: &str = "max-annotation-results";
        let max = limit(query, MAX, PAGE_LEN_MAX)?;
        if max == 0 {
            let message = format!("Argument {MAX} must be an integer between 1 and {PAGE_LEN_MAX}.");
            return Err(S3Error::argument(message, MAX, b"0"));
        }
        let prefix = text(query, "annotation-prefix")?;
        if prefix.as_ref().is_some_and(|prefix| prefix.len() > ANNOTATION_NAME_LEN_MAX) {
            return Err(ErrorCode::InvalidPrefix.into());
        }
        Ok(Self { prefix, max, continuation: Continuation::parse(query)? })
    }
}

/// Refuses a continuation token, which a list that has one page never gives out.
pub fn no_continuation(query: &Query) -> Result<(), S3Error> {
    let message = "The continuation token provided is incorrect";
    match query.get("continuation-token") {
        Some(token) => Err(S3Error::argument(message, "continuation-token", token)),
        None => Ok(()),
    }
}

/// The address of a part: number and upload.
pub fn part_address(query: &Query) -> Result<(u16, Vec<u8>), S3Error> {
    let number = part_number(query)?.ok_or_else(|| S3Error::argument("A part number is needed", "partNumber", b""))?;
    Ok((number, upload_id(query)?))
}

/// The upload id. One that this server cannot have given out is `NoSuchUpload`.
pub fn upload_id(query: &Query) -> Result<Vec<u8>, S3Error> {
    match query.get("uploadId") {
        Some(id) if !id.is_empty() && id.len() <= UPLOAD_ID_LEN_MAX && id.iter().all(u8::is_ascii_graphic) => {
            Ok(id.to_vec())
        }
        _ => Err(ErrorCode::NoSuchUpload.into()),
    }
}

/// A continuation token: opaque to clients, holds the last key or common prefix of the page before; empty for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The page starts after this.
    pub after: Vec<u8>,
    /// The token as sent, which the answer repeats.
    pub token: Vec<u8>,
}

/// Tells tokens of this form from later ones.
const TOKEN_FORM: u8 = 1;

fn token_crc(last: &[u8]) -> Checksum {
    Hasher::digest(ChecksumAlgorithm::Crc32c, last)
}

impl Continuation {
    /// The token of a page that ends with `last`: form, CRC32C, bytes, in base64. The CRC catches tokens that were
    /// cut or made up; it is no secret, since a token grants nothing that `start-after` does not.
    pub fn token_after(last: &[u8]) -> String {
        let mut raw = Vec::with_capacity(last.len() + 5);
        raw.push(TOKEN_FORM);
        raw.extend_from_slice(token_crc(last).as_bytes());
        raw.extend_from_slice(last);
        base64_encode(&raw)
    }

    /// An empty token stands for the beginning, so that a client can page with one loop.
    fn parse(query: &Query) -> Result<Option<Self>, S3Error> {
        let Some(token) = query.get("continuation-token") else { return Ok(None) };
        if token.is_empty() {
            return Ok(Some(Self { after: Vec::new(), token: Vec::new() }));
        }
        // A plus that a client left unencoded arrives as a space.
        let token: Vec<u8> = token.iter().map(|&b| if b == b' ' { b'+' } else { b }).collect();
        let after = base64_decode(&token).and_then(|raw| {
            let (crc, last) = raw.strip_prefix(&[TOKEN_FORM])?.split_first_chunk::<4>()?;
            (token_crc(last).as_bytes() == crc && std::str::from_utf8(last).is_ok()).then(|| last.to_vec())
        });
        match after {
            Some(after) => Ok(Some(Self { after, token })),
            None => {
                let message = "The continuation token provided is incorrect";
                Err(S3Error::argument(message, "continuation-token", &token))
            }
        }
    }
}

/// A text parameter; empty counts as absent.
fn text(query: &Query, name: &'static str) -> Result<Option<Vec<u8>>, S3Error> {
    match query.get(name) {
        Some(value) if std::str::from_utf8(value).is_err() => {
            Err(S3Error::argument("The parameter is not valid UTF-8", name, value))
        }
        value => Ok(value.filter(|value| !value.is_empty()).map(<[u8]>::to_vec)),
    }
}

/// A page limit: absent means `max`, larger is clamped, anything but an integer from 0 to 2³¹ − 1 is refused.
fn limit(query: &Query, name: &'static str, max: u16) -> Result<u16, S3Error> {
    limit_or(query, name, max, max)
}

fn limit_or(query: &Query, name: &'static str, max: u16, default: u16) -> Result<u16, S3Error> {
    match query.get(name).filter(|value| !value.is_empty()) {
        Some(value) => Ok(u16::try_from(integer(name, value)?).unwrap_or(max).min(max)),
        None => Ok(default),
    }
}

/// The argument `name` as a number from 0 to 2,147,483,647.
pub(crate) fn integer(name: &'static str, value: &[u8]) -> Result<i32, S3Error> {
    let digits = |text: &[u8]| {
        let text = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        text.and_then(|text| text.parse::<i32>().ok())
    };
    digits(value).ok_or_else(|| {
        // S3 tells numbers below the range from what is no number, and calls this one otherwise then.
        let negative = value.strip_prefix(b"-").and_then(digits).is_some();
        let shown = if negative && name == "max-keys" { "maxKeys" } else { name };
        let message = match negative {
            true => format!("Argument {shown} must be an integer between 0 and 2147483647"),
            false => format!("Provided {shown} not an integer or within integer range"),
        };
        S3Error::argument(message, shown, value)
    })
}

fn url_encoded(query: &Query) -> Result<bool, S3Error> {
    match query.get("encoding-type") {
        None => Ok(false),
        Some(b"url") => Ok(true),
        Some(other) => Err(S3Error::argument("Invalid Encoding Method specified in Request", "encoding-type", other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::operations::Operation;
    use proptest::prelude::*;

    fn query(raw: &str) -> Query {
        Query::parse(raw.as_bytes()).unwrap()
    }

    #[test]
    fn object_listings() {
        let read = |raw: &str| ListObjectsQuery::parse(&query(raw));
        let plain = read("").unwrap();
        assert_eq!((plain.keys.max, plain.marker, plain.keys.delimiter), (1000, None, None));
        let full = read("prefix=a%2F&delimiter=/&marker=a+b&max-keys=2000&encoding-type=url").unwrap();
        assert_eq!((full.keys.prefix.as_slice(), full.keys.max), (b"a/".as_slice(), 1000));
        assert_eq!((full.marker.as_deref(), full.keys.url_encoded), (Some(b"a b".as_slice()), true));
        assert_eq!(read("max-keys=0").unwrap().keys.max, 0);
        assert_eq!(read("delimiter=&prefix=&max-keys="), read(""));
        assert_eq!(read("encoding-type=").unwrap_err().code, ErrorCode::InvalidArgument);
        let refused = |raw| read(raw).unwrap_err().message;
        assert_eq!(refused("max-keys=-1"), "Argument maxKeys must be an integer between 0 and 2147483647");
        assert_eq!(refused("max-keys=x"), "Provided max-keys not an integer or within integer range");
        for bad in ["max-keys=-1", "max-keys=x", "max-keys=2147483648", "encoding-type=x", "prefix=%ff", "marker=%ff"] {
            assert_eq!(read(bad).unwrap_err().code, ErrorCode::InvalidArgument, "{bad}");
        }
    }

    #[test]
    fn tokens_stand_before_start_after_and_cannot_be_made_up() {
        let token = Continuation::token_after("é>?".as_bytes());
        let encoded = token.replace('+', "%2B");
        let page = ListObjectsV2Query::parse(&query(&format!("start-after=x&continuation-token={encoded}"))).unwrap();
        assert_eq!(page.after(), Some("é>?".as_bytes()));
        let first = |raw: &str| ListObjectsV2Query::parse(&query(raw)).unwrap().after().map(<[u8]>::to_vec);
        assert_eq!(first("continuation-token="), None);
        assert_eq!(first("continuation-token=&start-after=x"), Some(b"x".to_vec()));
        for bad in ["x", "AAAA", &token[4..], "AQAAAABh"] {
            let read = ListObjectsV2Query::parse(&query(&format!("continuation-token={bad}")));
            assert_eq!(read.unwrap_err().code, ErrorCode::InvalidArgument, "{bad}");
        }
    }

    #[test]
    fn multipart_parameters() {
        let parts = ListPartsQuery::parse(&query("uploadId=u&part-number-marker=7&max-parts=2")).unwrap();
        assert_eq!((parts.marker, parts.max, parts.upload_id.as_slice()), (7, 2, b"u".as_slice()));
        assert_eq!(part_address(&query("uploadId=u&partNumber=3")), Ok((3, b"u".to_vec())));
        let long = format!("uploadId={}", "u".repeat(257));
        for bad in ["uploadId=", "a=b", "uploadId=a%00b", &long] {
            assert_eq!(upload_id(&query(bad)).unwrap_err().code, ErrorCode::NoSuchUpload, "{bad}");
        }
        let uploads = ListUploadsQuery::parse(&query("upload-id-marker=u")).unwrap();
        assert_eq!(uploads.upload_id_marker, None);
        for bad in ["0", "-1", "10001", "99999999999", "x"] {
            assert!(ListBucketsQuery::parse(&query(&format!("max-buckets={bad}"))).is_err(), "{bad}");
        }
        assert_eq!(ListBucketsQuery::parse(&query("")).unwrap().max, None);
    }

    #[test]
    fn headers_in_the_query_count_but_for_checksums() {
        let list: [(&[u8], &[u8]); 1] = [(b"x-amz-meta-sent", b"header")];
        let raw = "x-amz-meta-a=1&X-Amz-Meta-Sent=query&X-Amz-Signature=s&x-amz-checksum-crc32=AAAAAA==&Content-Type=t\
                   &x-amz-sdk-checksum-algorithm=CRC32&X-Amz-Checksum-Sha256=x&x-amz-checksum-mode=ENABLED&prefix=p";
        let moved = |also: &[&str]| {
            let moved = hoisted_headers(&query(raw), &Headers::new(&list), also);
            moved.into_iter().map(|(name, _)| String::from_utf8(name).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(moved(&[]), ["x-amz-meta-a", "x-amz-checksum-mode"]);
        assert_eq!(moved(&["content-type"]), ["x-amz-meta-a", "content-type", "x-amz-checksum-mode"]);
    }

    #[test]
    fn every_sub_resource_belongs_to_the_resource_that_version_two_signs() {
        for name in ["uploads", "instant", "renameObject", "orcas-settings", "uploadId", "response-expires"] {
            assert!(is_resource_parameter(name.as_bytes()), "{name}");
        }
        let mut named = Operation::ALL.iter().filter_map(|operation| operation.spec().subresource);
        assert!(named.all(|name| is_resource_parameter(name.as_bytes())));
        assert!(!is_resource_parameter(b"prefix") && !is_resource_parameter(b"x-amz-acl"));
        assert!(!is_resource_parameter(b"response-expires=x&uploadId"), "it would be two parameters to the signature");
    }

    proptest! {
        #[test]
        fn tokens_round_trip(key in "\\PC{1,60}") {
            let token = Continuation::token_after(key.as_bytes());
            let page = ListObjectsV2Query::parse(&query(&format!("continuation-token={token}"))).unwrap();
            prop_assert_eq!(page.after(), Some(key.as_bytes()));
        }

        #[test]
        fn no_parameters_panic(raw in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(query) = Query::parse(&raw) {
                let _ = ListObjectsV2Query::parse(&query);
                let _ = ListPartsQuery::parse(&query);
            }
        }
    }
}
