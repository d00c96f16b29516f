//! What a request says about checksums: values in headers, values announced as trailers, algorithms and types of
//! uploads. Decides which combinations are legal; `orcas_checksum` computes.

use crate::errors::{ErrorCode, S3Error};
use orcas_checksum::{Checksum, ChecksumAlgorithm, ChecksumType};
use orcas_http::Headers;

const VALUE_PREFIX: &[u8] = b"x-amz-checksum-";

/// Headers that begin like a value but carry none.
const NOT_VALUES: [&str; 3] = ["x-amz-checksum-algorithm", "x-amz-checksum-type", "x-amz-checksum-mode"];

/// The checksum that an upload is verified against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeclaredChecksum {
    None,
    /// The value is in a header.
    Value(Checksum),
    /// The value follows the body as a trailer.
    Trailer(ChecksumAlgorithm),
}

impl DeclaredChecksum {
    /// Reads a value header, `x-amz-trailer` and `x-amz-sdk-checksum-algorithm` of an upload or of a request with a
    /// checked document. At most one value or trailer is allowed. If an algorithm is named, there must be one that
    /// agrees with it.
    pub fn parse(headers: &Headers<'_>) -> Result<Self, S3Error> {
        let value = value_header(headers)?;
        let trailer = trailer_header(headers)?;
        let named = algorithm_header(headers, "x-amz-sdk-checksum-algorithm")?;
        let declared = match (value, trailer, named) {
            (Some(_), Some(_), _) => return Err(more_than_one()),
            (Some(value), None, _) => Self::Value(value),
            (None, Some(trailer), _) => Self::Trailer(trailer),
            (None, None, Some(_)) => {
                let message = "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or \
                               x-amz-trailer headers were found.";
                return Err(S3Error::with(ErrorCode::InvalidRequest, message));
            }
            (None, None, None) => Self::None,
        };
        match (declared.algorithm(), named) {
            (Some(own), Some(named)) if own != named => {
                let message = "Value for x-amz-sdk-checksum-algorithm header is invalid.";
                Err(S3Error::with(ErrorCode::InvalidRequest, message))
            }
            _ => Ok(declared),
        }
    }

    pub fn algorithm(&self) -> Option<ChecksumAlgorithm> {
        match self {
            Self::None => None,
            Self::Value(value) => Some(value.algorithm()),
            Self::Trailer(algorithm) => Some(*algorithm),
        }
    }
}

/// Reads the value of the trailer that `expected` announced.
pub fn trailer_value(expected: ChecksumAlgorithm, name: &[u8], value: &[u8]) -> Result<Checksum, S3Error> {
    if ChecksumAlgorithm::from_header(name) != Some(expected) {
        return Err(ErrorCode::MalformedTrailerError.into());
    }
    Checksum::from_base64(expected, value.trim_ascii()).ok_or_else(|| invalid_trailer(expected))
}

/// The error for a trailer with a value that is no digest.
fn invalid_trailer(algorithm: ChecksumAlgorithm) -> S3Error {
    let message = format!("Value for {} trailing header is invalid.", algorithm.header());
    S3Error::with(ErrorCode::InvalidRequest, message)
}

/// `BadDigest` for a checksum that did not match, naming its algorithm.
pub fn mismatch(algorithm: ChecksumAlgorithm) -> S3Error {
    let message = format!("The {} you specified did not match the calculated checksum.", algorithm.name());
    S3Error::with(ErrorCode::BadDigest, message)
}

/// The algorithm and type that all parts of an upload must use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadChecksum {
    pub algorithm: ChecksumAlgorithm,
    pub kind: ChecksumType,
}

impl UploadChecksum {
    /// Reads `x-amz-checksum-algorithm` and `x-amz-checksum-type` of CreateMultipartUpload; `None` when neither
    /// is there.
    pub fn parse(headers: &Headers<'_>) -> Result<Option<Self>, S3Error> {
        let algorithm = algorithm_header(headers, "x-amz-checksum-algorithm")?;
        let kind = type_header(headers)?;
        let Some(algorithm) = algorithm else {
            return match kind {
                None => Ok(None),
                Some(_) => {
                    let message = "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm \
                                   header.";
                    Err(S3Error::with(ErrorCode::InvalidRequest, message))
                }
            };
        };
        let kind = kind.unwrap_or(algorithm.default_type());
        if !algorithm.allows(kind) {
            let message = format!(
                "The {} checksum type cannot be used with the {} checksum algorithm.",
                kind.name(),
                algorithm.name().to_ascii_lowercase()
            );
            return Err(S3Error::with(ErrorCode::InvalidRequest, message));
        }
        Ok(Some(Self { algorithm, kind }))
    }
}

/// Reads `x-amz-checksum-algorithm` of a copy: the algorithm to compute for the new object.
pub fn copy_algorithm(headers: &Headers<'_>) -> Result<Option<ChecksumAlgorithm>, S3Error> {
    algorithm_header(headers, "x-amz-checksum-algorithm")
}

/// The checksum that CompleteMultipartUpload states of the whole object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompleteChecksum {
    /// The algorithm and value as sent, a composite one with or without its `-N`.
    pub value: Option<(Checksum, Option<u16>)>,
    pub kind: Option<ChecksumType>,
}

impl CompleteChecksum {
    pub fn parse(headers: &Headers<'_>) -> Result<Self, S3Error> {
        let kind = type_header(headers)?;
        let mut value = None;
        if let Some((name, text)) = only_value(headers)? {
            let (algorithm, text) = (known_algorithm(name)?, text.trim_ascii());
            let (base64, parts) = match memchr::memrchr(b'-', text) {
                Some(at) => {
                    let count = std::str::from_utf8(&text[at + 1..]).ok().and_then(|digits| digits.parse().ok());
                    (&text[..at], Some(count.ok_or_else(|| invalid_value(name))?))
                }
                None => (text, None),
            };
            value = Some((Checksum::from_base64(algorithm, base64).ok_or_else(|| invalid_value(name))?, parts));
        }
        Ok(Self { value, kind })
    }
}

/// Whether `x-amz-checksum-mode: ENABLED` asks for the checksum in the answer. Any other value is an error.
pub fn wants_checksum(headers: &Headers<'_>) -> Result<bool, S3Error> {
    const NAME: &str = "x-amz-checksum-mode";
    match headers.get(NAME).map(<[u8]>::trim_ascii) {
        None => Ok(false),
        Some(mode) if mode.eq_ignore_ascii_case(b"ENABLED") => Ok(true),
        Some(_) => Err(invalid_value(NAME.as_bytes())),
    }
}

fn value_headers<'a>(headers: &Headers<'a>) -> impl Iterator<Item = Header<'a>> {
    headers
        .iter()
        .filter(|(name, _)| name.starts_with(VALUE_PREFIX) && !NOT_VALUES.iter().any(|other| other.as_bytes() == *name))
}

fn value_header(headers: &Headers<'_>) -> Result<Option<Checksum>, S3Error> {
    let Some((name, text)) = only_value(headers)? else { return Ok(None) };
    let value = Checksum::from_base64(known_algorithm(name)?, text.trim_ascii());
    value.map(Some).ok_or_else(|| invalid_value(name))
}

/// Name and text of a header.
type Header<'a> = (&'a [u8], &'a [u8]);

/// The only header with a checksum. Two are refused whatever they hold.
fn only_value<'a>(headers: &Headers<'a>) -> Result<Option<Header<'a>>, S3Error> {
    let mut values = value_headers(headers);
    let first = values.next();
    if values.next().is_some() { Err(more_than_one()) } else { Ok(first) }
}

fn trailer_header(headers: &Headers<'_>) -> Result<Option<ChecksumAlgorithm>, S3Error> {
    let values = headers.get_all("x-amz-trailer").flat_map(|value| value.split(|&b| b == b','));
    let mut names = values.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty());
    let Some(name) = names.next() else { return Ok(None) };
    if names.next().is_some() {
        return Err(more_than_one());
    }
    ChecksumAlgorithm::from_header(name).map(Some).ok_or_else(|| {
        let message = "The value specified in the x-amz-trailer header is not supported";
        S3Error::with(ErrorCode::InvalidRequest, message)
    })
}

/// The algorithm of the value header `name`.
fn known_algorithm(name: &[u8]) -> Result<ChecksumAlgorithm, S3Error> {
    ChecksumAlgorithm::from_header(name).ok_or_else(unknown_algorithm)
}

/// The error for a header `x-amz-checksum-…` of no algorithm.
pub(crate) fn unknown_algorithm() -> S3Error {
    let message = "The algorithm type you specified in x-amz-checksum- header is invalid.";
    S3Error::with(ErrorCode::InvalidRequest, message)
}

fn algorithm_header(headers: &Headers<'_>, header: &str) -> Result<Option<ChecksumAlgorithm>, S3Error> {
    let Some(name) = headers.get(header).map(<[u8]>::trim_ascii) else { return Ok(None) };
    ChecksumAlgorithm::from_name(name).map(Some).ok_or_else(|| {
        let message = "Checksum algorithm provided is unsupported. Please try again with any of the valid types: \
                       [CRC32, CRC32C, CRC64NVME, MD5, SHA1, SHA256, SHA512, XXHASH128, XXHASH3, XXHASH64]";
        S3Error::with(ErrorCode::InvalidRequest, message)
    })
}

fn type_header(headers: &Headers<'_>) -> Result<Option<ChecksumType>, S3Error> {
    let Some(name) = headers.get("x-amz-checksum-type").map(<[u8]>::trim_ascii) else { return Ok(None) };
    let refuse = || S3Error::with(ErrorCode::InvalidRequest, "Value for x-amz-checksum-type header is invalid.");
    ChecksumType::from_name(name).ok_or_else(refuse).map(Some)
}

fn more_than_one() -> S3Error {
    let message = "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.";
    S3Error::with(ErrorCode::InvalidRequest, message)
}

fn invalid_value(name: &[u8]) -> S3Error {
    let message = format!("Value for {} header is invalid.", String::from_utf8_lossy(name));
    S3Error::with(ErrorCode::InvalidRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use orcas_checksum::Hasher;

    fn with<T>(headers: &[(&str, &str)], read: impl Fn(&Headers<'_>) -> Result<T, S3Error>) -> Result<T, ErrorCode> {
        let list: Vec<(&[u8], &[u8])> = headers.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
        read(&Headers::new(&list)).map_err(|error| error.code)
    }

    #[test]
    fn one_declaration_or_an_error() {
        let read = |headers: &[(&str, &str)]| with(headers, DeclaredChecksum::parse);
        let crc = ("x-amz-checksum-crc32", "y/Q5Jg==");
        let named = |name: &'static str| ("x-amz-sdk-checksum-algorithm", name);
        let value = Hasher::digest(ChecksumAlgorithm::Crc32, b"123456789");
        assert_eq!(read(&[]), Ok(DeclaredChecksum::None));
        assert_eq!(read(&[crc]), Ok(DeclaredChecksum::Value(value)));
        assert_eq!(read(&[crc, named("crc32")]), Ok(DeclaredChecksum::Value(value)));
        let trailer = ("x-amz-trailer", "X-Amz-Checksum-CRC64NVME");
        assert_eq!(read(&[trailer]), Ok(DeclaredChecksum::Trailer(ChecksumAlgorithm::Crc64Nvme)));
        for bad in [
            vec![crc, crc],
            vec![crc, ("x-amz-checksum-sha1", "98O8HYCOBHMq32eZZczDTKeuNEE=")],
            vec![crc, trailer],
            vec![crc, named("SHA1")],
            vec![named("CRC9")],
            vec![named("SHA256")],
            vec![("x-amz-checksum-crc32", "AAAA")],
            vec![("x-amz-checksum-crc32", "")],
            vec![("x-amz-checksum-nonsense", "AAAA")],
            vec![("x-amz-trailer", "x-amz-meta-a")],
            vec![("x-amz-trailer", "x-amz-checksum-crc32,x-amz-checksum-sha1")],
        ] {
            assert_eq!(read(&bad), Err(ErrorCode::InvalidRequest), "{bad:?}");
        }
        for algorithm in ChecksumAlgorithm::ALL {
            let value = Hasher::digest(algorithm, b"123456789");
            assert_eq!(read(&[(algorithm.header(), &value.to_base64())]), Ok(DeclaredChecksum::Value(value)));
            assert_eq!(read(&[("x-amz-trailer", algorithm.header())]), Ok(DeclaredChecksum::Trailer(algorithm)));
            let both = [(algorithm.header(), &*value.to_base64()), named(algorithm.name())];
            assert_eq!(read(&both), Ok(DeclaredChecksum::Value(value)));
        }
    }

    #[test]
    fn uploads_take_only_legal_pairs() {
        let read = |algorithm: &str, kind: &str| {
            let headers = [("x-amz-checksum-algorithm", algorithm), ("x-amz-checksum-type", kind)];
            let sent: Vec<_> = headers.into_iter().filter(|(_, value)| !value.is_empty()).collect();
            with(&sent, UploadChecksum::parse).map(|upload| upload.map(|upload| upload.kind))
        };
        assert_eq!(read("", ""), Ok(None));
        assert_eq!(read("CRC32", ""), Ok(Some(ChecksumType::Composite)));
        assert_eq!(read("CRC64NVME", ""), Ok(Some(ChecksumType::FullObject)));
        assert_eq!(read("CRC32C", "FULL_OBJECT"), Ok(Some(ChecksumType::FullObject)));
        assert_eq!(read("sha512", ""), Ok(Some(ChecksumType::Composite)));
        for (algorithm, kind) in
            [("CRC64NVME", "COMPOSITE"), ("XXHASH3", "FULL_OBJECT"), ("", "COMPOSITE"), ("SHA1", "x")]
        {
            assert_eq!(read(algorithm, kind), Err(ErrorCode::InvalidRequest), "{algorithm} {kind}");
        }
    }

    #[test]
    fn completing_may_name_the_number_of_parts() {
        let read = |value: &str| with(&[("x-amz-checksum-crc32", value)], CompleteChecksum::parse).map(|c| c.value);
        let value = Hasher::digest(ChecksumAlgorithm::Crc32, b"123456789");
        assert_eq!(read("y/Q5Jg=="), Ok(Some((value, None))));
        assert_eq!(read("y/Q5Jg==-3"), Ok(Some((value, Some(3)))));
        assert_eq!(read("y/Q5Jg==-x"), Err(ErrorCode::InvalidRequest));
    }

    #[test]
    fn errors_are_worded_as_those_of_s3() {
        let text = |headers: &[(&str, &str)]| {
            let list: Vec<(&[u8], &[u8])> = headers.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
            DeclaredChecksum::parse(&Headers::new(&list)).unwrap_err().message.into_owned()
        };
        let (crc, sha1) = (("x-amz-checksum-crc32", "y/Q5Jg=="), ("x-amz-checksum-sha1", "x"));
        assert_eq!(
            text(&[crc, ("x-amz-checksum-md5", "JfnnlDI7RTiF9RgfG2JNCw==")]),
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
        );
        assert_eq!(
            text(&[sha1, crc]),
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
        );
        assert_eq!(text(&[sha1]), "Value for x-amz-checksum-sha1 header is invalid.");
        assert_eq!(
            text(&[("x-amz-checksum-crc9", "AAAA")]),
            "The algorithm type you specified in x-amz-checksum- header is invalid."
        );
        assert_eq!(
            text(&[crc, ("x-amz-sdk-checksum-algorithm", "SHA1")]),
            "Value for x-amz-sdk-checksum-algorithm header is invalid."
        );
        assert_eq!(
            text(&[("x-amz-sdk-checksum-algorithm", "SHA1")]),
            "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers \
             were found."
        );
        assert_eq!(
            text(&[("x-amz-trailer", "x-amz-meta-a")]),
            "The value specified in the x-amz-trailer header is not supported"
        );
        let trailer = trailer_value(ChecksumAlgorithm::XxHash3, b"x-amz-checksum-xxhash3", b"AAAA").unwrap_err();
        assert_eq!(trailer.message, "Value for x-amz-checksum-xxhash3 trailing header is invalid.");
        let wrong = mismatch(ChecksumAlgorithm::XxHash128);
        assert_eq!(wrong.message, "The XXHASH128 you specified did not match the calculated checksum.");
    }

    #[test]
    fn the_mode_is_enabled_or_an_error() {
        let read = |mode: &str| with(&[("x-amz-checksum-mode", mode)], wants_checksum);
        assert_eq!(with(&[], wants_checksum), Ok(false));
        assert_eq!(read("enabled"), Ok(true));
        assert_eq!(read("DISABLED"), Err(ErrorCode::InvalidRequest));
    }

    #[test]
    fn trailers_must_be_the_announced_one() {
        let read = |name: &str, value: &str| {
            trailer_value(ChecksumAlgorithm::Crc32, name.as_bytes(), value.as_bytes()).map_err(|error| error.code)
        };
        assert!(read("x-amz-checksum-crc32", "y/Q5Jg==").is_ok());
        assert_eq!(read("x-amz-checksum-sha1", "y/Q5Jg=="), Err(ErrorCode::MalformedTrailerError));
        assert_eq!(read("x-amz-checksum-crc32", "y/Q5"), Err(ErrorCode::InvalidRequest));
    }
}
