//! Versions of objects as clients name them: `null`, or 32 lower-case hexadecimal digits that this server gave out.

use crate::errors::S3Error;
use orcas_http::Query;
use orcas_record::VersionId;

/// The name of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionName {
    /// Stored while the bucket was not versioned, or while versioning was suspended.
    Null,
    Given([u8; 16]),
}

impl VersionName {
    /// Reads the value of the parameter `name`.
    ///
    /// Errors: `InvalidArgument` for what this server cannot have given out.
    pub fn parse(name: &'static str, text: &[u8]) -> Result<Self, S3Error> {
        match text {
            b"null" => return Ok(Self::Null),
            b"" => return Err(S3Error::argument("Version id cannot be the empty string", name, text)),
            _ => {}
        }
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let (pairs, rest) = text.as_chunks::<2>();
        let id: Option<Vec<u8>> = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
        match id.filter(|_| rest.is_empty()).and_then(|id| id.try_into().ok()) {
            Some(id) => Ok(Self::Given(id)),
            None => Err(S3Error::argument("Invalid version id specified", name, text)),
        }
    }

    /// `versionId` of the query.
    pub fn in_query(query: &Query) -> Result<Option<Self>, S3Error> {
        query.get("versionId").map(|text| Self::parse("versionId", text)).transpose()
    }

    /// Appends the name as clients see it.
    pub fn write(&self, out: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Given(id) => {
                for byte in id {
                    out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
                }
            }
        }
    }
}

impl std::fmt::Display for VersionName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = Vec::with_capacity(32);
        self.write(&mut text);
        out.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

/// The version id as the log has it.
pub fn version_id(name: VersionName) -> VersionId {
    match name {
        VersionName::Null => VersionId::Null,
        VersionName::Given(id) => VersionId::Named(id),
    }
}

/// The name of a version as clients see it.
pub fn version_name(id: VersionId) -> VersionName {
    match id {
        VersionId::Null => VersionName::Null,
        VersionId::Named(id) => VersionName::Given(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::ErrorCode;
    use proptest::prelude::*;

    #[test]
    fn only_names_that_were_given_out_are_read() {
        let parse = |text: &str| VersionName::parse("versionId", text.as_bytes()).map_err(|error| error.code);
        assert_eq!(parse("null"), Ok(VersionName::Null));
        assert_eq!(parse(&"0f".repeat(16)), Ok(VersionName::Given([15; 16])));
        for bad in ["", "Null", "abc", &"0F".repeat(16), &"0f".repeat(15), &"0f".repeat(17), &"g0".repeat(16)] {
            assert_eq!(parse(bad), Err(ErrorCode::InvalidArgument), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn written_names_are_read(id in any::<[u8; 16]>()) {
            let name = VersionName::Given(id);
            prop_assert_eq!(VersionName::parse("versionId", name.to_string().as_bytes()), Ok(name));
        }
    }
}
