//! What a request claims about its signature: who signed what, and when. Parsed strictly from the `Authorization` header
//! or the `X-Amz-*` query parameters. Nothing here is trusted until the signature is verified.

use std::borrow::Cow;

use super::PRESIGN_EXPIRES_S_MAX;
use super::authentication::Authentication;
use super::canonical::{CanonicalQuery, SERVICE, is_graphic, parse_hex, parts};
use super::date::Timestamp;
use super::error::SignatureError;
use super::payload::invalid;
use orcas_http::{Headers, Query};

pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const CONTENT_SHA256: &str = "x-amz-content-sha256";
/// The SHA-256 of no bytes.
const EMPTY_PAYLOAD: &[u8] = b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// The payload hash of a presigned request to S3.
const UNSIGNED_PAYLOAD: &[u8] = b"UNSIGNED-PAYLOAD";
const ASYMMETRIC_ALGORITHM: &str = "AWS4-ECDSA-P256-SHA256";

/// Bounds of what is compared, cached and searched later, against quadratic work on hostile heads.
pub(super) const ACCESS_KEY_BYTES_MAX: usize = 128;
const REGION_BYTES_MAX: usize = 64;
const SIGNED_HEADERS_MAX: usize = 128;

#[derive(Clone)]
pub(super) struct Claim<'a> {
    pub(super) how: Authentication,
    pub(super) access_key: &'a str,
    pub(super) region: &'a str,
    pub(super) timestamp: Timestamp,
    /// Lower-case names, strictly ascending, joined with `;`.
    pub(super) signed: &'a str,
    pub(super) query: CanonicalQuery,
    pub(super) signature: [u8; 32],
    /// The text that stands for the payload in the canonical request; the hash of an empty one if none was sent.
    pub(super) payload: &'a [u8],
    pub(super) payload_sent: bool,
    /// Seconds that a presigned request lives.
    pub(super) expires_s: Option<i64>,
}

/// How a request claims to be signed.
pub(super) enum Claimed<'a> {
    Nobody,
    VersionFour(Claim<'a>),
    /// A claim in the query; `version_two` parses it.
    VersionTwo,
}

impl<'a> Claimed<'a> {
    /// `service`: the one that a signature of version 4 must be for.
    pub(super) fn parse(headers: &Headers<'a>, query: &'a Query, service: &str) -> Result<Self, SignatureError> {
        let presigned = ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature"].iter().any(|n| query.has(n));
        let version_two = ["AWSAccessKeyId", "Signature"].iter().any(|n| query.has(n));
        let mut authorizations = headers.get_all("authorization");
        let authorization = authorizations.next();
        if authorizations.next().is_some()
            || (authorization.is_some() || presigned) && version_two
            || (authorization.is_some() && presigned)
        {
            return Err(SignatureError::InvalidArgument(
                "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string \
                 parameter or the Authorization header should be specified",
            ));
        }
        match authorization {
            Some(value) => Claim::from_header(value, headers, query, service).map(Self::VersionFour),
            None if presigned => Claim::from_query(headers, query, service).map(Self::VersionFour),
            None if version_two => Ok(Self::VersionTwo),
            None => Ok(Self::Nobody),
        }
    }
}

impl<'a> Claim<'a> {
    /// What a request to the store that is signed with version 4 claims; `Ok(None)` for any other.
    pub(super) fn parse(headers: &Headers<'a>, query: &'a Query) -> Result<Option<Self>, SignatureError> {
        match Claimed::parse(headers, query, SERVICE)? {
            Claimed::VersionFour(claim) => Ok(Some(claim)),
            Claimed::Nobody | Claimed::VersionTwo => Ok(None),
        }
    }

    fn from_header(
        value: &'a [u8],
        headers: &Headers<'a>,
        query: &Query,
        service: &str,
    ) -> Result<Self, SignatureError> {
        let query = canonical_query(query)?;
        let fields = AuthorizationHeader::parse(value)?;
        let scope = Scope::parse(fields.credential, service).map_err(SignatureError::AuthorizationHeaderMalformed)?;
        let timestamp = header_date(headers)?;
        scope.check_day(&timestamp).map_err(SignatureError::AuthorizationHeaderMalformed)?;
        check_signed_names(fields.signed)
            .map_err(|message| SignatureError::AuthorizationHeaderMalformed(message.into()))?;
        let payload = single(headers, CONTENT_SHA256).map_err(|()| twice(headers))?;
        Ok(Self {
            how: Authentication::Header,
            access_key: scope.access_key,
            region: scope.region,
            timestamp,
            signed: fields.signed,
            query,
            signature: parse_hex(fields.signature.as_bytes()).ok_or(SignatureError::SignatureDoesNotMatch)?,
            payload: payload.unwrap_or(EMPTY_PAYLOAD),
            payload_sent: payload.is_some(),
            expires_s: None,
        })
    }

    fn from_query(headers: &Headers<'a>, query: &'a Query, service: &str) -> Result<Self, SignatureError> {
        let fault = |message: &'static str| SignatureError::AuthorizationQueryParameters(message.into());
        let canonical = canonical_query(query)?;
        let parameter = |name: &str| {
            query.get(name).and_then(|value| std::str::from_utf8(value).ok()).ok_or_else(|| {
                fault(
                    "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, \
                 X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.",
                )
            })
        };
        match parameter("X-Amz-Algorithm")? {
            ALGORITHM => {}
            ASYMMETRIC_ALGORITHM => return Err(SignatureError::AsymmetricNotImplemented),
            _ => return Err(fault("X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"")),
        }
        let (credential, signature) = (parameter("X-Amz-Credential")?, parameter("X-Amz-Signature")?);
        let scope = Scope::parse(credential, service).map_err(SignatureError::InvalidQueryCredential)?;
        let timestamp = Timestamp::parse_iso(parameter("X-Amz-Date")?.as_bytes())
            .ok_or(fault("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\""))?;
        scope.check_day(&timestamp).map_err(SignatureError::AuthorizationQueryParameters)?;
        let expires_s = expires(parameter("X-Amz-Expires")?).map_err(fault)?;
        let signed = parameter("X-Amz-SignedHeaders")?;
        check_signed_names(signed).map_err(fault)?;
        let payload = presigned_payload(headers, query)?;
        Ok(Self {
            how: Authentication::Presigned,
            access_key: scope.access_key,
            region: scope.region,
            timestamp,
            signed,
            query: canonical,
            signature: parse_hex(signature.as_bytes()).ok_or(SignatureError::SignatureDoesNotMatch)?,
            payload: payload.unwrap_or(UNSIGNED_PAYLOAD),
            // Every other service hashes the body.
            payload_sent: payload.is_some() || service == SERVICE,
            expires_s: Some(expires_s),
        })
    }

    pub(super) fn is_signed(&self, name: &[u8]) -> bool {
        parts(self.signed, b';').any(|signed| signed.as_bytes() == name)
    }
}

struct AuthorizationHeader<'a> {
    credential: &'a str,
    signed: &'a str,
    signature: &'a str,
}

impl<'a> AuthorizationHeader<'a> {
    /// `AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…`: each once, in any order, spaces optional.
    fn parse(value: &'a [u8]) -> Result<Self, SignatureError> {
        let fault = |message: &'static str| SignatureError::AuthorizationHeaderMalformed(message.into());
        let text = std::str::from_utf8(value).map_err(|_| fault("it is not UTF-8."))?.trim();
        let invalid = |message, value: &str| SignatureError::InvalidAuthorization { message, value: value.to_owned() };
        let (algorithm, fields) = text.split_once(' ').ok_or_else(|| {
            invalid("Authorization header is invalid -- one and only one ' ' (space) required.", text)
        })?;
        match algorithm {
            ALGORITHM => {}
            ASYMMETRIC_ALGORITHM => return Err(SignatureError::AsymmetricNotImplemented),
            "AWS" => return Err(SignatureError::UnsupportedMechanism),
            _ => return Err(invalid("Unsupported Authorization Type", algorithm)),
        }
        let malformed = |field: &str| {
            let message = format!("the authorization component \"{field}\" is malformed.");
            SignatureError::AuthorizationHeaderMalformed(message.into())
        };
        let (mut credential, mut signed, mut signature) = (None, None, None);
        let (mut count, mut unknown) = (0, None);
        for field in parts(fields, b',').map(str::trim) {
            let (name, value) = field.split_once('=').ok_or_else(|| malformed(field))?;
            count += 1;
            let slot = match name {
                "Credential" => &mut credential,
                "SignedHeaders" => &mut signed,
                "Signature" => &mut signature,
                _ => &mut unknown,
            };
            if slot.replace(value).is_some() {
                return Err(fault("a field occurs twice."));
            }
        }
        if count < 3 {
            let message =
                "the authorization header requires three components: Credential, SignedHeaders, and Signature.";
            return Err(fault(message));
        }
        let fields = Self {
            credential: credential.ok_or_else(|| fault("missing Credential."))?,
            signed: signed.ok_or_else(|| fault("missing SignedHeaders."))?,
            signature: signature.ok_or_else(|| fault("missing Signature."))?,
        };
        if unknown.is_some() { Err(fault("it has an unknown field.")) } else { Ok(fields) }
    }
}

/// The message about a scope without a region.
pub(super) const NO_REGION: &str = "the region of the Credential is mal-formed.";

/// `<access key>/<yyyymmdd>/<region>/<service>/aws4_request`. The region may be empty.
pub(super) struct Scope<'a> {
    pub(super) access_key: &'a str,
    pub(super) day: [u8; 8],
    pub(super) region: &'a str,
}

impl<'a> Scope<'a> {
    pub(super) fn parse(credential: &'a str, expected: &str) -> Result<Self, Cow<'static, str>> {
        const FORM: &str =
            "the Credential is mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".";
        let mut words = parts(credential, b'/');
        let mut part = || words.next().ok_or(FORM);
        let (access_key, day, region, service, terminator) = (part()?, part()?, part()?, part()?, part()?);
        if words.next().is_some() {
            return Err(FORM.into());
        }
        if access_key.is_empty()
            || access_key.len() > ACCESS_KEY_BYTES_MAX
            || !access_key.bytes().all(|b| b.is_ascii_graphic())
        {
            return Err("the access key of the Credential is mal-formed.".into());
        }
        let region_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if region.len() > REGION_BYTES_MAX || !region.bytes().all(region_byte) {
            return Err(NO_REGION.into());
        }
        if service != expected {
            return Err(format!("incorrect service \"{service}\". This endpoint belongs to \"{expected}\".").into());
        }
        if terminator != "aws4_request" {
            return Err(format!("incorrect terminal \"{terminator}\". This endpoint uses \"aws4_request\".").into());
        }
        let digits = Some(day.as_bytes()).filter(|day| day.iter().all(u8::is_ascii_digit));
        let Some(day) = digits.and_then(|day| day.try_into().ok()) else {
            let rule = "This date in the credential must be in the format \"yyyyMMdd\".";
            return Err(format!("incorrect date format \"{day}\". {rule}").into());
        };
        Ok(Self { access_key, day, region })
    }

    /// Refuses a signature made for another day than that of the request.
    fn check_day(&self, timestamp: &Timestamp) -> Result<(), Cow<'static, str>> {
        if self.day == timestamp.day() {
            return Ok(());
        }
        let [given, sent] = [self.day, timestamp.day()].map(|day| String::from_utf8_lossy(&day).into_owned());
        Err(format!("Invalid credential date \"{given}\". This date is not the same as X-Amz-Date: \"{sent}\".").into())
    }
}

/// The query as it is signed. One that repeats a name is refused: one signature would cover two interpretations of it. No
/// parameter of S3 may be repeated; those of streams of events may.
fn canonical_query(query: &Query) -> Result<CanonicalQuery, SignatureError> {
    let query = CanonicalQuery::strict(query);
    if query.has_duplicate_name() { Err(DUPLICATE_PARAMETER) } else { Ok(query) }
}

pub(super) const DUPLICATE_PARAMETER: SignatureError =
    SignatureError::InvalidArgument("A query parameter of a signed request occurs twice");

/// The only value of a header; an error if there are two.
pub(super) fn single<'a>(headers: &Headers<'a>, name: &str) -> Result<Option<&'a [u8]>, ()> {
    let mut values = headers.get_all(name);
    let first = values.next().map(<[u8]>::trim_ascii);
    if values.next().is_some() { Err(()) } else { Ok(first) }
}

/// `x-amz-date`, or in its absence `Date`.
fn header_date(headers: &Headers<'_>) -> Result<Timestamp, SignatureError> {
    let date = match single(headers, "x-amz-date") {
        Ok(Some(value)) => Timestamp::parse_iso(value),
        Ok(None) => match single(headers, "date") {
            Ok(Some(value)) => Timestamp::parse_iso(value).or_else(|| Timestamp::parse_http(value)),
            Ok(None) | Err(()) => None,
        },
        Err(()) => None,
    };
    date.ok_or(SignatureError::MissingDate)
}

/// Lower case, strictly ascending, bounded: a set of headers can be written in one way only.
fn check_signed_names(signed: &str) -> Result<(), &'static str> {
    const MALFORMED: &str = "SignedHeaders must be lower-case header names separated by semicolons.";
    let of_names = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase() && byte != b':';
    // All bytes at once, which takes vector instructions.
    if !signed.bytes().fold(true, |fits, byte| fits & of_names(byte)) {
        return Err(MALFORMED);
    }
    // An empty text in memory that exists. To compare with a literal, which has none, takes some processors 40 ns.
    let mut previous = &signed[..0];
    for (count, name) in parts(signed, b';').enumerate() {
        if name.is_empty() {
            return Err(MALFORMED);
        }
        if name <= previous || count >= SIGNED_HEADERS_MAX {
            return Err("SignedHeaders must be sorted and name each header once.");
        }
        previous = name;
    }
    Ok(())
}

fn expires(text: &str) -> Result<i64, &'static str> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("X-Amz-Expires should be a number");
    }
    match text.parse::<i64>() {
        Ok(seconds) if seconds < 0 => Err("X-Amz-Expires must be non-negative"),
        Ok(0) => Err("X-Amz-Expires must be greater than zero"),
        Ok(seconds) if seconds <= PRESIGN_EXPIRES_S_MAX => Ok(seconds),
        Ok(_) | Err(_) => Err(
            "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than 604800 seconds",
        ),
    }
}

/// What the header or the query parameter says of the payload. Two that differ are refused.
fn presigned_payload<'a>(headers: &Headers<'a>, query: &'a Query) -> Result<Option<&'a [u8]>, SignatureError> {
    let header = single(headers, CONTENT_SHA256).map_err(|()| twice(headers))?;
    let Some(parameter) = query.get("X-Amz-Content-Sha256") else {
        return Ok(header);
    };
    if header.is_some_and(|value| value != parameter) || !is_graphic(parameter) {
        return Err(invalid(parameter));
    }
    Ok(Some(parameter))
}

/// The error for a header `x-amz-content-sha256` that stands there more than once.
fn twice(headers: &Headers<'_>) -> SignatureError {
    invalid(headers.get(CONTENT_SHA256).unwrap_or_default())
}
