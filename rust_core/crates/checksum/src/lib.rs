//! Digests and checksums of content: MD5 for entity tags and the checksum algorithms of S3.
//!
//! Streaming and pure. Owns the stored codes of the algorithms, their names on the wire, base64, composite checksums and
//! the combination of CRCs. Must not know requests: `s3::checksums` decides which header is valid where.

mod base64;
mod etag;
mod md5;

pub use base64::{base64_decode, base64_encode, base64_encode_into};
pub use etag::Etag;
pub use md5::Md5Hasher;

use crc_fast::CrcAlgorithm;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// The longest digest in bytes.
const DIGEST_LEN_MAX: usize = 32;

/// A checksum algorithm of S3. The codes are stored; 6 to 10 are reserved for SHA512, MD5, XXHASH64, XXHASH3, XXHASH128.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChecksumAlgorithm {
    Crc32 = 1,
    Crc32c = 2,
    Crc64Nvme = 3,
    Sha1 = 4,
    Sha256 = 5,
}

impl ChecksumAlgorithm {
    pub const ALL: [ChecksumAlgorithm; 5] = [Self::Crc32, Self::Crc32c, Self::Crc64Nvme, Self::Sha1, Self::Sha256];

    /// The stored code.
    pub fn code(self) -> u8 {
        self as u8
    }

    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.code() == code)
    }

    /// The name in header values and XML, e.g. `CRC32C`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "CRC32",
            Self::Crc32c => "CRC32C",
            Self::Crc64Nvme => "CRC64NVME",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
        }
    }

    /// Reads a name in any case.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| name.eq_ignore_ascii_case(algorithm.name().as_bytes()))
    }

    /// The header that carries a value, in lower case.
    pub fn header(self) -> &'static str {
        match self {
            Self::Crc32 => "x-amz-checksum-crc32",
            Self::Crc32c => "x-amz-checksum-crc32c",
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Sha1 => "x-amz-checksum-sha1",
            Self::Sha256 => "x-amz-checksum-sha256",
        }
    }

    /// Reads a header name in any case.
    pub fn from_header(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| name.eq_ignore_ascii_case(algorithm.header().as_bytes()))
    }

    /// The XML element that carries a value, e.g. `ChecksumCRC32C`.
    pub fn element(self) -> &'static str {
        match self {
            Self::Crc32 => "ChecksumCRC32",
            Self::Crc32c => "ChecksumCRC32C",
            Self::Crc64Nvme => "ChecksumCRC64NVME",
            Self::Sha1 => "ChecksumSHA1",
            Self::Sha256 => "ChecksumSHA256",
        }
    }

    pub fn from_element(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| name == algorithm.element())
    }

    /// The length of a digest in bytes.
    pub fn digest_len(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64Nvme => 8,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// Whether the checksum of the whole follows from the checksums of its parts.
    pub fn joins(self) -> bool {
        self.crc().is_some()
    }

    fn crc(self) -> Option<CrcAlgorithm> {
        match self {
            Self::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
            Self::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
            Self::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
            Self::Sha1 | Self::Sha256 => None,
        }
    }
}

/// A digest and its algorithm. Big-endian, as in S3.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Checksum {
    algorithm: ChecksumAlgorithm,
    digest: [u8; DIGEST_LEN_MAX],
}

impl Checksum {
    /// `None` unless `digest` has the length of the algorithm.
    pub fn from_bytes(algorithm: ChecksumAlgorithm, digest: &[u8]) -> Option<Self> {
        if digest.len() != algorithm.digest_len() {
            return None;
        }
        let mut padded = [0; DIGEST_LEN_MAX];
        padded[..digest.len()].copy_from_slice(digest);
        Some(Self { algorithm, digest: padded })
    }

    /// Parses the base64 of a header or XML value. `None` if it is malformed or has the wrong length.
    pub fn from_base64(algorithm: ChecksumAlgorithm, text: &[u8]) -> Option<Self> {
        Self::from_bytes(algorithm, &base64_decode(text)?)
    }

    pub fn algorithm(&self) -> ChecksumAlgorithm {
        self.algorithm
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.digest[..self.algorithm.digest_len()]
    }

    pub fn to_base64(&self) -> String {
        base64_encode(self.as_bytes())
    }

    /// The CRC of two adjacent ranges from the CRC of each; `next_len` is the length of the second in bytes. `None` for
    /// two different algorithms or one that is not a CRC.
    pub fn join(&self, next: &Checksum, next_len: u64) -> Option<Checksum> {
        let crc = self.algorithm.crc().filter(|_| self.algorithm == next.algorithm)?;
        let joined = crc_fast::checksum_combine(crc, self.crc_value(), next.crc_value(), next_len);
        Some(Self::from_crc(self.algorithm, joined))
    }

    fn crc_value(&self) -> u64 {
        self.as_bytes().iter().take(8).fold(0, |value, &byte| value << 8 | u64::from(byte))
    }

    fn from_crc(algorithm: ChecksumAlgorithm, value: u64) -> Self {
        let len = algorithm.digest_len().min(8);
        let mut digest = [0; DIGEST_LEN_MAX];
        digest[..len].copy_from_slice(&value.to_be_bytes()[8 - len..]);
        Self { algorithm, digest }
    }
}

impl std::fmt::Debug for Checksum {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}:{}", self.algorithm.name(), self.to_base64())
    }
}

/// What the checksum of an object covers.
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

/// The checksum of an object. `parts` is 0 if it covers the whole content, or else the number of parts whose digests were
/// hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectChecksum {
    pub checksum: Checksum,
    pub parts: u16,
}

impl ObjectChecksum {
    pub fn full(checksum: Checksum) -> Self {
        Self { checksum, parts: 0 }
    }

    /// The checksum of the checksums of the parts. `None` without parts, with more than 65,535, or if one has another
    /// algorithm.
    pub fn composite<'a>(algorithm: ChecksumAlgorithm, parts: impl IntoIterator<Item = &'a Checksum>) -> Option<Self> {
        let mut hasher = Hasher::new(algorithm);
        let mut count = 0u16;
        for part in parts {
            if part.algorithm != algorithm {
                return None;
            }
            hasher.update(part.as_bytes());
            count = count.checked_add(1)?;
        }
        (count > 0).then(|| Self { checksum: hasher.finish(), parts: count })
    }

    /// The checksum of the whole from the checksum and the length in bytes of each part. `None` without parts or if `join`
    /// fails.
    pub fn joined(parts: impl IntoIterator<Item = (Checksum, u64)>) -> Option<Self> {
        let mut parts = parts.into_iter();
        let (mut whole, _) = parts.next().filter(|(first, _)| first.algorithm.joins())?;
        for (part, len) in parts {
            whole = whole.join(&part, len)?;
        }
        Some(Self::full(whole))
    }

    pub fn kind(&self) -> ChecksumType {
        if self.parts == 0 { ChecksumType::FullObject } else { ChecksumType::Composite }
    }

    /// The value in headers and XML: base64, with `-N` if composite.
    pub fn to_text(&self) -> String {
        let mut text = Vec::new();
        self.write_text(&mut text);
        text.into_iter().map(char::from).collect()
    }

    /// Appends the value in headers and XML.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        base64_encode_into(out, self.checksum.as_bytes());
        if self.parts > 0 {
            out.push(b'-');
            out.extend_from_slice(itoa::Buffer::new().format(self.parts).as_bytes());
        }
    }
}

/// A running checksum.
#[derive(Clone)]
pub struct Hasher {
    algorithm: ChecksumAlgorithm,
    state: HashState,
}

#[derive(Clone)]
enum HashState {
    /// Boxed, because a CRC has tables that are several times larger than the other states.
    Crc(Box<crc_fast::Digest>),
    Sha1(Sha1),
    Sha256(Sha256),
}

impl Hasher {
    pub fn new(algorithm: ChecksumAlgorithm) -> Self {
        let state = match (algorithm.crc(), algorithm) {
            (Some(crc), _) => HashState::Crc(Box::new(crc_fast::Digest::new(crc))),
            (None, ChecksumAlgorithm::Sha1) => HashState::Sha1(Sha1::new()),
            (None, _) => HashState::Sha256(Sha256::new()),
        };
        Self { algorithm, state }
    }

    pub fn algorithm(&self) -> ChecksumAlgorithm {
        self.algorithm
    }

    pub fn update(&mut self, data: &[u8]) {
        match &mut self.state {
            HashState::Crc(crc) => crc.update(data),
            HashState::Sha1(sha) => sha.update(data),
            HashState::Sha256(sha) => sha.update(data),
        }
    }

    pub fn finish(self) -> Checksum {
        let mut digest = [0; DIGEST_LEN_MAX];
        match self.state {
            HashState::Crc(crc) => return Checksum::from_crc(self.algorithm, crc.finalize()),
            HashState::Sha1(sha) => digest[..20].copy_from_slice(&sha.finalize()),
            HashState::Sha256(sha) => digest.copy_from_slice(&sha.finalize()),
        }
        Checksum { algorithm: self.algorithm, digest }
    }

    /// The checksum of bytes in memory. CRCs need no state for this.
    pub fn digest(algorithm: ChecksumAlgorithm, data: &[u8]) -> Checksum {
        if let Some(crc) = algorithm.crc() {
            return Checksum::from_crc(algorithm, crc_fast::checksum(crc, data));
        }
        let mut hasher = Self::new(algorithm);
        hasher.update(data);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn base64_of(algorithm: ChecksumAlgorithm, data: &[u8]) -> String {
        Hasher::digest(algorithm, data).to_base64()
    }

    /// Published check values of each algorithm over "123456789".
    #[test]
    fn known_answers() {
        let data = b"123456789";
        let bytes = |a| Hasher::digest(a, data).as_bytes().to_vec();
        assert_eq!(bytes(ChecksumAlgorithm::Crc32), 0xcbf4_3926_u32.to_be_bytes());
        assert_eq!(bytes(ChecksumAlgorithm::Crc32c), 0xe306_9283_u32.to_be_bytes());
        assert_eq!(bytes(ChecksumAlgorithm::Crc64Nvme), 0xae8b_1486_0a79_9888_u64.to_be_bytes());
        assert_eq!(base64_of(ChecksumAlgorithm::Sha1, data), "98O8HYCOBHMq32eZZczDTKeuNEE=");
        assert_eq!(base64_of(ChecksumAlgorithm::Sha256, data), "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=");
        assert_eq!(Etag::simple(Md5Hasher::digest(data)).to_string(), "25f9e794323b453885f5181f1b624d0b");
    }

    #[test]
    fn codes_and_names_round_trip() {
        for algorithm in ChecksumAlgorithm::ALL {
            assert_eq!(ChecksumAlgorithm::from_code(algorithm.code()), Some(algorithm));
            assert_eq!(ChecksumAlgorithm::from_name(algorithm.name().as_bytes()), Some(algorithm));
            assert_eq!(ChecksumAlgorithm::from_header(algorithm.header().as_bytes()), Some(algorithm));
            assert_eq!(ChecksumAlgorithm::from_element(algorithm.element()), Some(algorithm));
        }
        assert_eq!(ChecksumAlgorithm::from_code(6), None);
    }

    #[test]
    fn composites_hash_the_digests_of_their_parts() {
        let parts = [b"one".as_slice(), b"two"].map(|part| Hasher::digest(ChecksumAlgorithm::Sha256, part));
        let whole = ObjectChecksum::composite(ChecksumAlgorithm::Sha256, &parts).unwrap();
        let joined = [parts[0].as_bytes(), parts[1].as_bytes()].concat();
        assert_eq!(whole.to_text(), format!("{}-2", base64_of(ChecksumAlgorithm::Sha256, &joined)));
        assert_eq!(ObjectChecksum::composite(ChecksumAlgorithm::Sha1, &parts), None);
        assert_eq!(ObjectChecksum::joined(parts.map(|part| (part, 3))), None);
    }

    proptest! {
        #[test]
        fn updates_and_joined_parts_give_the_digest_of_the_whole(
            data in proptest::collection::vec(any::<u8>(), 1..3000), at in any::<prop::sample::Index>(),
        ) {
            let (left, right) = data.split_at(at.index(data.len()));
            for algorithm in ChecksumAlgorithm::ALL {
                let whole = Hasher::digest(algorithm, &data);
                let mut stream = Hasher::new(algorithm);
                stream.update(left);
                stream.update(right);
                prop_assert_eq!(stream.finish(), whole);
                if algorithm.joins() {
                    let parts = [left, right].map(|part| (Hasher::digest(algorithm, part), part.len() as u64));
                    prop_assert_eq!(ObjectChecksum::joined(parts), Some(ObjectChecksum::full(whole)));
                }
            }
        }
    }
}
