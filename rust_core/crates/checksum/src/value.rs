//! A checksum as a value: bytes, base64, and the combination of CRCs.

use super::algorithm::ChecksumAlgorithm;
use super::base64::{base64_decode, base64_encode};

/// The longest digest in bytes.
const DIGEST_LEN_MAX: usize = 64;

/// A digest and its algorithm. Big-endian, as in S3.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Checksum {
    algorithm: ChecksumAlgorithm,
    digest: [u8; DIGEST_LEN_MAX],
}

impl Checksum {
    /// `digest` has the length of the algorithm.
    pub(super) fn of_digest(algorithm: ChecksumAlgorithm, digest: &[u8]) -> Self {
        let mut padded = [0; DIGEST_LEN_MAX];
        padded[..digest.len()].copy_from_slice(digest);
        Self { algorithm, digest: padded }
    }

    /// `None` unless `digest` has the length of the algorithm.
    pub fn from_bytes(algorithm: ChecksumAlgorithm, digest: &[u8]) -> Option<Self> {
        (digest.len() == algorithm.digest_len()).then(|| Self::of_digest(algorithm, digest))
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
        Some(Self::from_number(self.algorithm, joined))
    }

    fn crc_value(&self) -> u64 {
        self.as_bytes().iter().take(8).fold(0, |value, &byte| value << 8 | u64::from(byte))
    }

    /// The last bytes of a number, as many as the digest has.
    pub(super) fn from_number(algorithm: ChecksumAlgorithm, value: u64) -> Self {
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
