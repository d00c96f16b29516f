//! What an upload says about its object: the headers that are stored and given back, lengths and Content-MD5.
//!
//! Values are bytes as sent, but for user metadata, which is text, and for those of forms. No value has CR, LF or NUL,
//! since it is reflected in a response later; user metadata may hold them in encoded words.

use std::borrow::Cow;

use crate::encoded_words;
use crate::errors::{ErrorCode, S3Error};
use crate::requests::conditions::parse_size;
use crate::requests::extensions::single;
use orcas_checksum::base64_decode;
use orcas_http::{Headers, is_token};

/// Bytes of all user metadata names and values together: the limit of S3.
pub const USER_METADATA_LEN_MAX: usize = 2048;

/// Bytes of all stored system headers together. It bounds the size of a version record.
pub const SYSTEM_METADATA_LEN_MAX: usize = 8192;

/// Bytes of the largest body of one PutObject or UploadPart.
pub const UPLOAD_LEN_MAX: u64 = 5 << 30;

/// The prefix of headers with user metadata.
pub const USER_PREFIX: &str = "x-amz-meta-";

/// The headers of an object that a copy may change although it keeps the metadata.
pub const STORAGE_CLASS: &str = "x-amz-storage-class";
pub const WEBSITE_REDIRECT: &str = "x-amz-website-redirect-location";

/// Bytes of a website redirect location: the limit of S3.
const REDIRECT_LEN_MAX: usize = 2048;

/// The storage classes of a general purpose bucket, but for `STANDARD`. All are stored alike.
pub const OTHER_STORAGE_CLASSES: [&str; 7] =
    ["REDUCED_REDUNDANCY", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER", "DEEP_ARCHIVE", "GLACIER_IR"];

/// The header that makes a PutObject an object append.
pub const WRITE_OFFSET: &str = "x-amz-write-offset-bytes";

/// User metadata: names as bytes, and values as text in UTF-8.
pub type UserMetadata = Vec<(Vec<u8>, Vec<u8>)>;

/// How values are read.
#[derive(Clone, Copy)]
enum Reading {
    /// Values of headers are shown as they were sent.
    Headers,
    /// Values of the fields of a form are text. Encoded words have no meaning there, and what a header cannot hold
    /// becomes a space, as on S3.
    Fields,
}

impl Reading {
    /// The text of user metadata.
    fn text(self, value: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Headers => encoded_words::decode(value),
            Self::Fields => encoded_words::literal(value),
        }
    }

    /// Another value, as responses will show it.
    fn shown<'v>(self, value: &'v [u8], name: &'static str) -> Result<Cow<'v, [u8]>, S3Error> {
        match self {
            Self::Headers => reflectable(value, name).map(Cow::Borrowed),
            Self::Fields => Ok(encoded_words::spaced_latin(value)),
        }
    }
}

/// The stored headers of an object. User metadata names are lower case, without prefix, in the order sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectHeaders {
    pub content_type: Option<Vec<u8>>,
    pub content_encoding: Option<Vec<u8>>,
    pub content_disposition: Option<Vec<u8>>,
    pub content_language: Option<Vec<u8>>,
    pub cache_control: Option<Vec<u8>>,
    pub expires: Option<Vec<u8>>,
    /// The storage class; `None` for `STANDARD`.
    pub storage_class: Option<Vec<u8>>,
    pub website_redirect: Option<Vec<u8>>,
    pub user: UserMetadata,
}

impl ObjectHeaders {
    /// Reads the headers of PutObject, CreateMultipartUpload, or a copy that replaces metadata.
    pub fn parse(headers: &Headers<'_>) -> Result<Self, S3Error> {
        Self::read(headers, Reading::Headers)
    }

    /// Reads the headers for which the fields of a form stand.
    pub fn of_form(headers: &Headers<'_>) -> Result<Self, S3Error> {
        Self::read(headers, Reading::Fields)
    }

    fn read(headers: &Headers<'_>, reading: Reading) -> Result<Self, S3Error> {
        let joined = |name| joined(headers, name, reading);
        let content_type = joined("content-type")?;
        let content_encoding = joined("content-encoding")?.and_then(without_aws_chunked);
        let content_disposition = joined("content-disposition")?;
        let content_language = joined("content-language")?;
        let cache_control = joined("cache-control")?;
        let expires = joined("expires")?;
        let system =
            [&content_type, &content_encoding, &content_disposition, &content_language, &cache_control, &expires];
        if system.into_iter().flatten().map(Vec::len).sum::<usize>() > SYSTEM_METADATA_LEN_MAX {
            return Err(ErrorCode::RequestHeaderSectionTooLarge.into());
        }
        let user = user_metadata(headers, reading)?;
        Ok(Self {
            content_type,
            content_encoding,
            content_disposition,
            content_language,
            cache_control,
            expires,
            storage_class: storage_class(headers)?,
            website_redirect: website_redirect(headers, reading)?,
            user,
        })
    }
}

/// Refuses the headers that an upload would store, for a request that keeps what the object has: it would succeed
/// without doing what they say. Content-Type passes, because some clients send it with every request.
///
/// Errors: `NotImplemented` with the name of the header.
pub fn refuse_object_headers(headers: &Headers<'_>) -> Result<(), S3Error> {
    const STORED: [&str; 5] =
        ["cache-control", "content-disposition", "content-encoding", "content-language", "expires"];
    let is_stored =
        |name: &[u8]| name.starts_with(USER_PREFIX.as_bytes()) || STORED.iter().any(|known| known.as_bytes() == name);
    match headers.iter().find(|(name, _)| is_stored(name)) {
        Some((name, _)) => Err(S3Error::header_not_implemented(name)),
        None => Ok(()),
    }
}

/// The offset at which the body of a PutObject begins, in bytes, if it is added to an object.
pub fn write_offset(headers: &Headers<'_>) -> Result<Option<u64>, S3Error> {
    let Some(value) = single(headers, WRITE_OFFSET)? else { return Ok(None) };
    let message = "A write offset is a number of bytes, from 0 on";
    parse_size(value).map(Some).ok_or_else(|| S3Error::argument(message, WRITE_OFFSET, value))
}

/// The storage class of the object to be; `None` for `STANDARD`, which is the default.
///
/// Errors: `InvalidStorageClass` for one that a general purpose bucket does not have.
fn storage_class(headers: &Headers<'_>) -> Result<Option<Vec<u8>>, S3Error> {
    match headers.get(STORAGE_CLASS).map(<[u8]>::trim_ascii) {
        None | Some(b"STANDARD") => Ok(None),
        Some(class) if OTHER_STORAGE_CLASSES.iter().any(|known| known.as_bytes() == class) => Ok(Some(class.to_vec())),
        Some(class) => Err(S3Error::new(ErrorCode::InvalidStorageClass).field("StorageClassRequested", class)),
    }
}

/// Where a website sends those who ask for the object.
///
/// Errors: `InvalidRedirectLocation` for what is no location, or too long.
fn website_redirect(headers: &Headers<'_>, reading: Reading) -> Result<Option<Vec<u8>>, S3Error> {
    let Some(location) = headers.get(WEBSITE_REDIRECT).map(<[u8]>::trim_ascii) else { return Ok(None) };
    if ![&b"/"[..], b"http://", b"https://"].iter().any(|start| location.starts_with(start)) {
        return Err(ErrorCode::InvalidRedirectLocation.into());
    }
    if location.len() > REDIRECT_LEN_MAX {
        let message = "The length of website redirect location cannot exceed 2,048 characters.";
        return Err(S3Error::with(ErrorCode::InvalidRedirectLocation, message));
    }
    reading.shown(location, WEBSITE_REDIRECT).map(|location| Some(location.into_owned()))
}

/// The user metadata, values of repeated names joined by commas.
fn user_metadata(headers: &Headers<'_>, reading: Reading) -> Result<UserMetadata, S3Error> {
    let mut user: UserMetadata = Vec::new();
    for (name, value) in headers.iter() {
        let Some(name) = name.strip_prefix(USER_PREFIX.as_bytes()) else { continue };
        if name.is_empty() {
            return Err(S3Error::argument("A metadata header has no name", USER_PREFIX, value));
        }
        // A presigned query or a form can bring names that no header could.
        if !is_token(name) {
            return Err(S3Error::argument(
                "The name of a metadata header cannot be that of a header",
                USER_PREFIX,
                name,
            ));
        }
        let value = reading.text(reflectable(value.trim_ascii(), USER_PREFIX)?);
        match user.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => {
                known.push(b',');
                known.extend_from_slice(&value);
            }
            None => user.push((name.to_vec(), value.into_owned())),
        }
    }
    let size: usize = user.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size > USER_METADATA_LEN_MAX {
        let (size, max) = (size.to_string(), USER_METADATA_LEN_MAX.to_string());
        return Err(S3Error::new(ErrorCode::MetadataTooLarge).field("Size", size).field("MaxSizeAllowed", max));
    }
    Ok(user)
}

/// All values of one header joined by commas; `None` when absent or empty.
fn joined(headers: &Headers<'_>, name: &'static str, reading: Reading) -> Result<Option<Vec<u8>>, S3Error> {
    let mut out = Vec::new();
    for value in headers.get_all(name).map(<[u8]>::trim_ascii).filter(|value| !value.is_empty()) {
        if !out.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(&reading.shown(value, name)?);
    }
    Ok(Some(out).filter(|value| !value.is_empty()))
}

/// Refuses a value that would end a header line when it is sent back.
pub fn reflectable<'v>(value: &'v [u8], name: &'static str) -> Result<&'v [u8], S3Error> {
    if value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
        return Err(S3Error::argument("The value contains a character that a header cannot have", name, value));
    }
    Ok(value)
}

/// Drops every `aws-chunked`: it describes the request's framing, not the object. `None` when nothing is left.
fn without_aws_chunked(value: Vec<u8>) -> Option<Vec<u8>> {
    let tokens = || value.split(|&b| b == b',').map(<[u8]>::trim_ascii);
    let framing = |token: &&[u8]| token.eq_ignore_ascii_case(b"aws-chunked");
    if !tokens().any(|token| framing(&token)) {
        return Some(value);
    }
    let kept: Vec<&[u8]> = tokens().filter(|token| !token.is_empty() && !framing(token)).collect();
    (!kept.is_empty()).then(|| kept.join(&b","[..]))
}

/// Whether a copy takes the metadata of its source or of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataDirective {
    Copy,
    Replace,
}

impl MetadataDirective {
    pub fn parse(headers: &Headers<'_>) -> Result<Self, S3Error> {
        const NAME: &str = "x-amz-metadata-directive";
        match headers.get(NAME).map(<[u8]>::trim_ascii) {
            None | Some(b"COPY") => Ok(Self::Copy),
            Some(b"REPLACE") => Ok(Self::Replace),
            Some(other) => Err(S3Error::argument("Unknown metadata directive.", NAME, other)),
        }
    }
}

/// The MD5 in Content-MD5; anything but base64 of 16 bytes is `InvalidDigest`.
pub fn content_md5(headers: &Headers<'_>) -> Result<Option<[u8; 16]>, S3Error> {
    let Some(value) = headers.get("content-md5").map(<[u8]>::trim_ascii) else { return Ok(None) };
    match base64_decode(value).and_then(|digest| digest.try_into().ok()) {
        Some(digest) => Ok(Some(digest)),
        None => Err(S3Error::new(ErrorCode::InvalidDigest).field("Content-MD5", value)),
    }
}

/// Lengths in bytes that a request declares for its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyLength {
    /// Content-Length: bytes on the wire.
    pub wire: Option<u64>,
    /// `x-amz-decoded-content-length`: bytes of content inside aws-chunked framing.
    pub decoded: Option<u64>,
}

impl BodyLength {
    /// As on S3, a length of the content that is no number counts as absent.
    pub fn parse(headers: &Headers<'_>) -> Result<Self, S3Error> {
        const WIRE: &str = "content-length";
        let wire = match headers.get(WIRE) {
            Some(value) => Some(single_length(headers, WIRE).ok_or_else(|| {
                S3Error::argument("The length must be a single number of bytes", WIRE, value.trim_ascii())
            })?),
            None => None,
        };
        Ok(Self { wire, decoded: single_length(headers, "x-amz-decoded-content-length") })
    }

    /// The length of the content to store. `chunked` says that the body has aws-chunked framing. S3 wants the length
    /// up front and at most 5 GiB.
    pub fn of_content(&self, headers: &Headers<'_>, chunked: bool) -> Result<u64, S3Error> {
        let length = if chunked { self.decoded } else { self.wire }.ok_or_else(|| unknown_length(headers, chunked))?;
        if length > UPLOAD_LEN_MAX {
            let (size, max) = (length.to_string(), UPLOAD_LEN_MAX.to_string());
            return Err(S3Error::new(ErrorCode::EntityTooLarge)
                .field("ProposedSize", size)
                .field("MaxSizeAllowed", max));
        }
        Ok(length)
    }
}

/// The error of a body whose length is not known. S3 takes a transfer coding only around aws-chunked framing.
pub fn unknown_length(headers: &Headers<'_>, chunked: bool) -> S3Error {
    match headers.get("transfer-encoding") {
        Some(_) if !chunked => S3Error::header_not_on_s3("Transfer-Encoding"),
        _ => ErrorCode::MissingContentLength.into(),
    }
}

/// The size in bytes that CompleteMultipartUpload expects of the whole object, if it says so.
///
/// Errors: `InvalidRequest` for what is no number of bytes.
pub fn multipart_object_size(headers: &Headers<'_>) -> Result<Option<u64>, S3Error> {
    const NAME: &str = "x-amz-mp-object-size";
    let Some(value) = headers.get(NAME).map(<[u8]>::trim_ascii) else { return Ok(None) };
    single_length(headers, NAME).map(Some).ok_or_else(|| {
        // S3 tells numbers below the range from what is no number.
        let negative = value.strip_prefix(b"-").is_some_and(|rest| parse_size(rest).is_some());
        let fault = if negative { "less than zero" } else { "invalid" };
        let message = format!("Value for {NAME} header is {fault}: '{}'", String::from_utf8_lossy(value));
        S3Error::with(ErrorCode::InvalidRequest, message)
    })
}

/// The number in a header that is there once.
fn single_length(headers: &Headers<'_>, name: &str) -> Option<u64> {
    let mut values = headers.get_all(name);
    let value = values.next().map(<[u8]>::trim_ascii).and_then(parse_size);
    value.filter(|_| values.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(headers: &[(&str, &[u8])]) -> Result<ObjectHeaders, S3Error> {
        let list: Vec<(&[u8], &[u8])> = headers.iter().map(|(n, v)| (n.as_bytes(), *v)).collect();
        ObjectHeaders::parse(&Headers::new(&list))
    }

    #[test]
    fn stored_headers_keep_their_bytes() {
        let headers: [(&str, &[u8]); 6] = [
            ("content-type", b"text/plain; charset=\"utf-8\""),
            ("expires", b"not a date"),
            ("x-amz-meta-a", "é".as_bytes()),
            ("x-amz-meta-b", b"=?UTF-8?B?w6k=?="),
            ("x-amz-meta-a", b" two "),
            ("host", b"h"),
        ];
        let stored = parse(&headers).unwrap();
        assert_eq!(stored.content_type.as_deref(), Some(b"text/plain; charset=\"utf-8\"".as_slice()));
        assert_eq!(stored.expires.as_deref(), Some(b"not a date".as_slice()));
        assert_eq!(stored.cache_control, None);
        let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        assert_eq!(stored.user, [pair("a", "é,two"), pair("b", "é")]);
        let fields: Vec<(&[u8], &[u8])> = headers.iter().map(|(name, value)| (name.as_bytes(), *value)).collect();
        let stored = ObjectHeaders::of_form(&Headers::new(&fields)).unwrap();
        assert_eq!(stored.user, [pair("a", "é,two"), pair("b", "=?UTF-8?B?w6k=?=")]);
    }

    #[test]
    fn values_of_forms_are_text_and_headers_are_in_latin() {
        let shown = |value: &[u8]| {
            let list: [(&[u8], &[u8]); 2] =
                [(b"content-disposition", value), (b"x-amz-website-redirect-location", &[b"/", value].concat())];
            let stored = ObjectHeaders::of_form(&Headers::new(&list)).unwrap();
            let (disposition, location) = (stored.content_disposition.unwrap(), stored.website_redirect.unwrap());
            assert_eq!(location, [b"/", &disposition[..]].concat());
            disposition
        };
        assert_eq!(shown(b"a=\"b\"\tc"), b"a=\"b\"\tc");
        assert_eq!(shown("n=é–ü€👑;".as_bytes()), b"n=\xe9 \xfc   ;");
        assert_eq!(shown(b"n=\xe9"), b"n=\xe9", "what is no UTF-8 is in ISO 8859-1");
        assert_eq!(shown(b"a\r\nb: c\0\x01\x7f."), b"a  b: c   .");
    }

    #[test]
    fn what_keeps_an_object_takes_none_of_its_headers() {
        let refused = |name: &str| {
            let list: [(&[u8], &[u8]); 1] = [(name.as_bytes(), b"x")];
            refuse_object_headers(&Headers::new(&list)).map_err(|error| error.code)
        };
        for name in ["x-amz-meta-a", "x-amz-meta-", "cache-control", "content-encoding", "expires"] {
            assert_eq!(refused(name), Err(ErrorCode::NotImplemented), "{name}");
        }
        for name in ["content-type", "content-md5", "x-amz-metadata", "host"] {
            assert_eq!(refused(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn storage_classes_and_redirects() {
        let class = |value: &[u8]| parse(&[("x-amz-storage-class", value)]).map(|stored| stored.storage_class);
        assert_eq!(class(b"STANDARD"), Ok(None));
        assert_eq!(class(b"GLACIER"), Ok(Some(b"GLACIER".to_vec())));
        for bad in ["standard", "OUTPOSTS", "EXPRESS_ONEZONE", ""] {
            assert_eq!(class(bad.as_bytes()).unwrap_err().code, ErrorCode::InvalidStorageClass, "{bad}");
        }
        let redirect =
            |value: &[u8]| parse(&[("x-amz-website-redirect-location", value)]).map(|stored| stored.website_redirect);
        for good in ["/a", "http://h/", "https://h/é"] {
            assert_eq!(redirect(good.as_bytes()), Ok(Some(good.as_bytes().to_vec())));
        }
        let long = [b"/".as_slice(), &[b'a'; 2048]].concat();
        for bad in [b"".as_slice(), b"a", b"ftp://h/", &long] {
            assert_eq!(redirect(bad).unwrap_err().code, ErrorCode::InvalidRedirectLocation);
        }
    }

    #[test]
    fn framing_is_no_encoding_of_the_object() {
        for (sent, stored) in [
            ("aws-chunked", None),
            ("aws-chunked,aws-chunked", None),
            ("gzip, AWS-chunked", Some("gzip")),
            ("aws-chunked,gzip,br", Some("gzip,br")),
            ("gzip, br", Some("gzip, br")),
            ("", None),
        ] {
            let got = parse(&[("content-encoding", sent.as_bytes())]).unwrap().content_encoding;
            assert_eq!(got.as_deref(), stored.map(str::as_bytes), "{sent}");
        }
        let got = parse(&[("content-encoding", b"aws-chunked"), ("content-encoding", b"gzip")]).unwrap();
        assert_eq!(got.content_encoding.as_deref(), Some(b"gzip".as_slice()));
    }

    #[test]
    fn metadata_is_bounded_and_cannot_split_a_response() {
        let code = |headers: &[(&str, &[u8])]| parse(headers).unwrap_err().code;
        assert!(parse(&[("x-amz-meta-ab", &[b'v'; 2046])]).is_ok());
        assert_eq!(code(&[("x-amz-meta-ab", &[b'v'; 2047])]), ErrorCode::MetadataTooLarge);
        assert_eq!(code(&[("content-type", &[b'v'; 8193])]), ErrorCode::RequestHeaderSectionTooLarge);
        assert_eq!(code(&[("x-amz-meta-a", b"x\r\ny: z")]), ErrorCode::InvalidArgument);
        assert_eq!(code(&[("cache-control", b"x\0y")]), ErrorCode::InvalidArgument);
        assert_eq!(code(&[("x-amz-meta-", b"x")]), ErrorCode::InvalidArgument);
        assert_eq!(code(&[("x-amz-meta-a\r\nb", b"x")]), ErrorCode::InvalidArgument);
    }

    #[test]
    fn digests_lengths_and_directives() {
        let with = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let md5 = |value: &str| content_md5(&Headers::new(&[(b"content-md5", value.as_bytes())])).map_err(|e| e.code);
        assert_eq!(md5("1B2M2Y8AsgTpgAmY7PhCfg==").unwrap().map(|digest| digest[0]), Some(0xd4));
        for bad in ["", "1B2M2Y8AsgTpgAmY7PhCfg", "AAAA", "d41d8cd98f00b204e9800998ecf8427e"] {
            assert_eq!(md5(bad), Err(ErrorCode::InvalidDigest), "{bad}");
        }
        for (name, value) in [with("content-length", "+1"), with("content-length", ""), with("content-length", "1e3")] {
            let list = [(name.as_bytes(), value.as_bytes())];
            assert_eq!(BodyLength::parse(&Headers::new(&list)).unwrap_err().code, ErrorCode::InvalidArgument);
        }
        let twice: [(&[u8], &[u8]); 2] = [(b"content-length", b"1"), (b"content-length", b"1")];
        assert!(BodyLength::parse(&Headers::new(&twice)).is_err());
        for value in ["", "x", "-1", "5.0", "99999999999999999999"] {
            let list: [(&[u8], &[u8]); 1] = [(b"x-amz-decoded-content-length", value.as_bytes())];
            assert_eq!(BodyLength::parse(&Headers::new(&list)), Ok(BodyLength::default()), "{value}");
        }
        let size = |value: &str| {
            let size = multipart_object_size(&Headers::new(&[(b"x-amz-mp-object-size", value.as_bytes())]));
            size.map_err(|error| (error.code, error.message.into_owned()))
        };
        assert_eq!(size("12"), Ok(Some(12)));
        for (value, fault) in [("x", "invalid"), ("-1", "less than zero"), ("-", "invalid"), ("1e3", "invalid")] {
            let message = format!("Value for x-amz-mp-object-size header is {fault}: '{value}'");
            assert_eq!(size(value), Err((ErrorCode::InvalidRequest, message)));
        }
        let (none, coding): (_, [(&[u8], &[u8]); 1]) = (Headers::new(&[]), [(b"transfer-encoding", b"chunked")]);
        let coded = Headers::new(&coding);
        let lengths = BodyLength { wire: Some(100), decoded: None };
        assert_eq!(lengths.of_content(&none, false), Ok(100));
        assert_eq!(lengths.of_content(&coded, true).unwrap_err().code, ErrorCode::MissingContentLength);
        assert_eq!(BodyLength::default().of_content(&none, false).unwrap_err().code, ErrorCode::MissingContentLength);
        assert_eq!(BodyLength::default().of_content(&coded, false).unwrap_err().code, ErrorCode::NotImplemented);
        let large = BodyLength { wire: Some(UPLOAD_LEN_MAX + 1), decoded: None };
        assert_eq!(large.of_content(&none, false).unwrap_err().code, ErrorCode::EntityTooLarge);
        let directive =
            |value: &str| MetadataDirective::parse(&Headers::new(&[(b"x-amz-metadata-directive", value.as_bytes())]));
        assert_eq!(directive("REPLACE"), Ok(MetadataDirective::Replace));
        assert!(directive("replace").is_err());
    }
}
