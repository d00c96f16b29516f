//! What a request says about checksums: values in headers, values announced as trailers, algorithms and types of
//! uploads. Decides which combinations are legal; `orcas_checksum` computes.

use super::errors::{ErrorCode, S3Error};
use orcas_checksum::{Checksum, ChecksumAlgorithm, ChecksumType};
use orcas_http::Headers;

/// Algorithms of the API that are not implemented, by the ending of their header.
const UNIMPLEMENTED: [&str; 5] = ["sha512", "md5", "xxhash64", "xxhash3", "xxhash128"];

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
    /// Only the algorithm is named: compute and store, there is nothing to compare.
    Algorithm(ChecksumAlgorithm),
}

impl DeclaredChecksum {
    /// Reads a value header, `x-amz-trailer` and `x-amz-sdk-checksum-algorithm` of an upload or of a request with a
    /// checked document. At most one value or trailer is allowed, and the algorithm must agree with it.
    pub fn parse(headers: &Headers<'_>) -> Result<Self, S3Error> {
        let value = value_header(headers)?;
        let trailer = trailer_header(headers)?;
        let named = algorithm_header(headers, "x-amz-sdk-checksum-algorithm")?;
        let declared = match (value, trailer, named) {
            (Some(_), Some(_), _) => return Err(more_than_one()),
            (Some(value), None, _) => Self::Value(value),
            (None, Some(trailer), _) => Self::Trailer(trailer),
            (None, None, Some(algorithm)) => Self::Algorithm(algorithm),
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
            Self::Trailer(algorithm) | Self::Algorithm(algorithm) => Some(*algorithm),
        }
    }
}

/// Reads the value of the trailer that `expected` announced.
pub fn trailer_value(expected: ChecksumAlgorithm, name: &[u8], value: &[u8]) -> Result<Checksum, S3Error> {
    if ChecksumAlgorithm::from_header(name) != Some(expected) {
        return Err(ErrorCode::MalformedTrailerError.into());
    }
    Checksum::from_base64(expected, value.trim_ascii()).ok_or_else(|| invalid_value(name))
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
        let kind = kind.unwrap_or(default_type(algorithm));
        if !legal(algorithm, kind) {
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

/// What CompleteMultipartUpload says of the whole object.
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
        for (name, text) in value_headers(headers) {
            let algorithm = known_algorithm(name)?;
            if value.is_some() {
                return Err(more_than_one());
            }
            let text = text.trim_ascii();
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

/// Whether `x-amz-checksum-mode: ENABLED` asks for the checksum in the answer.
pub fn wants_checksum(headers: &Headers<'_>) -> bool {
    headers.get("x-amz-checksum-mode").is_some_and(|mode| mode.trim_ascii().eq_ignore_ascii_case(b"ENABLED"))
}

/// CRC64NVME covers only whole objects, SHA only composes, the 32-bit CRCs do both.
pub fn legal(algorithm: ChecksumAlgorithm, kind: ChecksumType) -> bool {
    match algorithm {
        ChecksumAlgorithm::Crc32 | ChecksumAlgorithm::Crc32c => true,
        ChecksumAlgorithm::Crc64Nvme => kind == ChecksumType::FullObject,
        ChecksumAlgorithm::Sha1 | ChecksumAlgorithm::Sha256 => kind == ChecksumType::Composite,
    }
}

fn default_type(algorithm: ChecksumAlgorithm) -> ChecksumType {
    if algorithm == ChecksumAlgorithm::Crc64Nvme { ChecksumType::FullObject } else { ChecksumType::Composite }
}

fn value_headers<'a>(headers: &Headers<'a>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    headers
        .iter()
        .filter(|(name, _)| name.starts_with(VALUE_PREFIX) && !NOT_VALUES.iter().any(|other| other.as_bytes() == *name))
}

fn value_header(headers: &Headers<'_>) -> Result<Option<Checksum>, S3Error> {
    let mut found = None;
    for (name, text) in value_headers(headers) {
        let algorithm = known_algorithm(name)?;
        if found.is_some() {
            return Err(more_than_one());
        }
        found = Some(Checksum::from_base64(algorithm, text.trim_ascii()).ok_or_else(|| invalid_value(name))?);
    }
    Ok(found)
}

fn trailer_header(headers: &Headers<'_>) -> Result<Option<ChecksumAlgorithm>, S3Error> {
    let values = headers.get_all("x-amz-trailer").flat_map(|value| value.split(|&b| b == b','));
    let mut names = values.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty());
    let Some(name) = names.next() else { return Ok(None) };
    if names.next().is_some() {
        return Err(more_than_one());
    }
    known_algorithm(&name.to_ascii_lowercase()).map(Some)
}

/// The algorithm of the value header `name`. The error for another one names it.
fn known_algorithm(name: &[u8]) -> Result<ChecksumAlgorithm, S3Error> {
    if let Some(algorithm) = ChecksumAlgorithm::from_header(name) {
        return Ok(algorithm);
    }
    let ending = name.strip_prefix(VALUE_PREFIX).unwrap_or(name);
    Err(if is_unimplemented(ending) {
        S3Error::header_not_implemented(name)
    } else {
        let shown = String::from_utf8_lossy(name);
        S3Error::with(ErrorCode::InvalidRequest, format!("The checksum header or trailer {shown} is not supported"))
    })
}

fn algorithm_header(headers: &Headers<'_>, header: &str) -> Result<Option<ChecksumAlgorithm>, S3Error> {
    let Some(name) = headers.get(header).map(<[u8]>::trim_ascii) else { return Ok(None) };
    match ChecksumAlgorithm::from_name(name) {
        Some(algorithm) => Ok(Some(algorithm)),
        None if is_unimplemented(name) => {
            let message = format!("The checksum algorithm {} is not implemented", String::from_utf8_lossy(name));
            Err(S3Error::with(ErrorCode::NotImplemented, message))
        }
        None => {
            let message = "Checksum algorithm provided is unsupported. Please try again with any of the valid types: \
                           [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]";
            Err(S3Error::with(ErrorCode::InvalidRequest, message))
        }
    }
}

fn type_header(headers: &Headers<'_>) -> Result<Option<ChecksumType>, S3Error> {
    let Some(name) = headers.get("x-amz-checksum-type").map(<[u8]>::trim_ascii) else { return Ok(None) };
    let refuse = || S3Error::with(ErrorCode::InvalidRequest, "Value for x-amz-checksum-type header is invalid.");
    ChecksumType::from_name(name).ok_or_else(refuse).map(Some)
}

fn is_unimplemented(name: &[u8]) -> bool {
    UNIMPLEMENTED.iter().any(|unimplemented| name.eq_ignore_ascii_case(unimplemented.as_bytes()))
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
        assert_eq!(read(&[named("SHA256")]), Ok(DeclaredChecksum::Algorithm(ChecksumAlgorithm::Sha256)));
        for bad in [
            vec![crc, crc],
            vec![crc, ("x-amz-checksum-sha1", "98O8HYCOBHMq32eZZczDTKeuNEE=")],
            vec![crc, trailer],
            vec![crc, named("SHA1")],
            vec![named("CRC9")],
            vec![("x-amz-checksum-crc32", "AAAA")],
            vec![("x-amz-checksum-crc32", "")],
            vec![("x-amz-checksum-nonsense", "AAAA")],
            vec![("x-amz-trailer", "x-amz-meta-a")],
            vec![("x-amz-trailer", "x-amz-checksum-crc32,x-amz-checksum-sha1")],
        ] {
            assert_eq!(read(&bad), Err(ErrorCode::InvalidRequest), "{bad:?}");
        }
        for unimplemented in
            [("x-amz-checksum-xxhash3", "AAAA"), ("x-amz-trailer", "x-amz-checksum-md5"), named("SHA512")]
        {
            assert_eq!(read(&[unimplemented]), Err(ErrorCode::NotImplemented), "{unimplemented:?}");
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
        for (algorithm, kind) in
            [("CRC64NVME", "COMPOSITE"), ("SHA256", "FULL_OBJECT"), ("", "COMPOSITE"), ("SHA1", "x")]
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
    fn trailers_must_be_the_announced_one() {
        let read = |name: &str, value: &str| {
            trailer_value(ChecksumAlgorithm::Crc32, name.as_bytes(), value.as_bytes()).map_err(|error| error.code)
        };
        assert!(read("x-amz-checksum-crc32", "y/Q5Jg==").is_ok());
        assert_eq!(read("x-amz-checksum-sha1", "y/Q5Jg=="), Err(ErrorCode::MalformedTrailerError));
        assert_eq!(read("x-amz-checksum-crc32", "y/Q5"), Err(ErrorCode::InvalidRequest));
    }
}
