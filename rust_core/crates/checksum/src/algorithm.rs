//! The checksum algorithms of S3: stored codes, names on the wire, lengths, and what their checksums may cover.

use crc_fast::CrcAlgorithm;

/// A checksum algorithm of S3. The codes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChecksumAlgorithm {
    Crc32 = 1,
    Crc32c = 2,
    Crc64Nvme = 3,
    Sha1 = 4,
    Sha256 = 5,
    Sha512 = 6,
    Md5 = 7,
    XxHash64 = 8,
    XxHash3 = 9,
    XxHash128 = 10,
}

/// The names of an algorithm on the wire.
struct Names {
    name: &'static str,
    header: &'static str,
    element: &'static str,
}

macro_rules! names {
    ($upper:literal, $lower:literal) => {
        &Names { name: $upper, header: concat!("x-amz-checksum-", $lower), element: concat!("Checksum", $upper) }
    };
}

impl ChecksumAlgorithm {
    pub const ALL: [ChecksumAlgorithm; 10] = [
        Self::Crc32,
        Self::Crc32c,
        Self::Crc64Nvme,
        Self::Sha1,
        Self::Sha256,
        Self::Sha512,
        Self::Md5,
        Self::XxHash64,
        Self::XxHash3,
        Self::XxHash128,
    ];

    /// The algorithm that S3 uses for content for which the client chose none.
    pub const DEFAULT: Self = Self::Crc64Nvme;

    /// The stored code.
    pub fn code(self) -> u8 {
        self as u8
    }

    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.code() == code)
    }

    fn names(self) -> &'static Names {
        match self {
            Self::Crc32 => names!("CRC32", "crc32"),
            Self::Crc32c => names!("CRC32C", "crc32c"),
            Self::Crc64Nvme => names!("CRC64NVME", "crc64nvme"),
            Self::Sha1 => names!("SHA1", "sha1"),
            Self::Sha256 => names!("SHA256", "sha256"),
            Self::Sha512 => names!("SHA512", "sha512"),
            Self::Md5 => names!("MD5", "md5"),
            Self::XxHash64 => names!("XXHASH64", "xxhash64"),
            Self::XxHash3 => names!("XXHASH3", "xxhash3"),
            Self::XxHash128 => names!("XXHASH128", "xxhash128"),
        }
    }

    /// The name in header values and XML, e.g. `CRC32C`.
    pub fn name(self) -> &'static str {
        self.names().name
    }

    /// Reads a name in any case.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| name.eq_ignore_ascii_case(algorithm.name().as_bytes()))
    }

    /// The header that carries a value, in lower case.
    pub fn header(self) -> &'static str {
        self.names().header
    }

    /// Reads a header name in any case.
    pub fn from_header(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| name.eq_ignore_ascii_case(algorithm.header().as_bytes()))
    }

    /// The XML element that carries a value, e.g. `ChecksumCRC32C`.
    pub fn element(self) -> &'static str {
        self.names().element
    }

    pub fn from_element(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| name == algorithm.element())
    }

    /// The length of a digest in bytes.
    pub fn digest_len(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64Nvme | Self::XxHash64 | Self::XxHash3 => 8,
            Self::Md5 | Self::XxHash128 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// Whether the checksum of the whole follows from the checksums of its parts.
    pub fn joins(self) -> bool {
        self.crc().is_some()
    }

    /// The type of the checksum of an object that was uploaded in parts, if the client does not say.
    pub fn default_type(self) -> ChecksumType {
        if self == Self::Crc64Nvme { ChecksumType::FullObject } else { ChecksumType::Composite }
    }

    /// Whether the checksum of an object that was uploaded in parts can cover that. Only CRCs cover whole objects, and
    /// CRC64NVME nothing else.
    pub fn allows(self, kind: ChecksumType) -> bool {
        match kind {
            ChecksumType::FullObject => self.joins(),
            ChecksumType::Composite => self != Self::Crc64Nvme,
        }
    }

    pub(super) fn crc(self) -> Option<CrcAlgorithm> {
        match self {
            Self::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
            Self::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
            Self::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
            Self::Sha1 | Self::Sha256 | Self::Sha512 | Self::Md5 | Self::XxHash64 | Self::XxHash3 | Self::XxHash128 => {
                None
            }
        }
    }
}

/// The coverage of the checksum of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumType {
    FullObject,
    Composite,
}

impl ChecksumType {
    pub fn name(self) -> &'static str {
        match self {
            Self::FullObject => "FULL_OBJECT",
            Self::Composite => "COMPOSITE",
        }
    }

    pub fn from_name(name: &[u8]) -> Option<Self> {
        [Self::FullObject, Self::Composite].into_iter().find(|kind| name.eq_ignore_ascii_case(kind.name().as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_round_trip() {
        for (place, algorithm) in ChecksumAlgorithm::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(algorithm.code()), place + 1);
            assert_eq!(ChecksumAlgorithm::from_code(algorithm.code()), Some(algorithm));
            assert_eq!(ChecksumAlgorithm::from_name(algorithm.name().as_bytes()), Some(algorithm));
            assert_eq!(ChecksumAlgorithm::from_header(algorithm.header().as_bytes()), Some(algorithm));
            assert_eq!(ChecksumAlgorithm::from_element(algorithm.element()), Some(algorithm));
            assert!(algorithm.allows(algorithm.default_type()));
        }
        assert_eq!(ChecksumAlgorithm::from_code(0), None);
        assert_eq!(ChecksumAlgorithm::from_code(11), None);
    }

    #[test]
    fn only_crcs_cover_whole_objects_made_of_parts() {
        let of = |kind| ChecksumAlgorithm::ALL.into_iter().filter(move |algorithm| algorithm.allows(kind));
        let full: Vec<_> = of(ChecksumType::FullObject).map(ChecksumAlgorithm::name).collect();
        assert_eq!(full, ["CRC32", "CRC32C", "CRC64NVME"]);
        assert_eq!(of(ChecksumType::Composite).count(), 9);
    }
}
