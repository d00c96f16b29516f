//! Running checksums: one hash function behind the same calls for each algorithm.

use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};
use std::hash::Hasher as _;
use twox_hash::{XxHash3_64, XxHash3_128, XxHash64};

use super::algorithm::ChecksumAlgorithm;
use super::md5::Md5Hasher;
use super::value::Checksum;

/// The seed of the XXH functions in S3.
const SEED: u64 = 0;

/// A running checksum.
#[derive(Clone)]
pub struct Hasher {
    algorithm: ChecksumAlgorithm,
    state: HashState,
}

/// States that are several times larger than the others are boxed.
#[derive(Clone)]
enum HashState {
    Crc(Box<crc_fast::Digest>),
    Sha1(Sha1),
    Sha256(Sha256),
    Sha512(Box<Sha512>),
    Md5(Md5Hasher),
    XxHash64(Box<XxHash64>),
    XxHash3(Box<XxHash3_64>),
    XxHash128(Box<XxHash3_128>),
}

impl Hasher {
    pub fn new(algorithm: ChecksumAlgorithm) -> Self {
        use ChecksumAlgorithm as A;
        let crc = |crc| HashState::Crc(Box::new(crc_fast::Digest::new(crc)));
        let state = match algorithm {
            A::Crc32 => crc(crc_fast::CrcAlgorithm::Crc32IsoHdlc),
            A::Crc32c => crc(crc_fast::CrcAlgorithm::Crc32Iscsi),
            A::Crc64Nvme => crc(crc_fast::CrcAlgorithm::Crc64Nvme),
            A::Sha1 => HashState::Sha1(Sha1::new()),
            A::Sha256 => HashState::Sha256(Sha256::new()),
            A::Sha512 => HashState::Sha512(Box::new(Sha512::new())),
            A::Md5 => HashState::Md5(Md5Hasher::new()),
            A::XxHash64 => HashState::XxHash64(Box::new(XxHash64::with_seed(SEED))),
            A::XxHash3 => HashState::XxHash3(Box::new(XxHash3_64::with_seed(SEED))),
            A::XxHash128 => HashState::XxHash128(Box::new(XxHash3_128::with_seed(SEED))),
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
            HashState::Sha512(sha) => sha.update(data),
            HashState::Md5(md5) => md5.update(data),
            HashState::XxHash64(xx) => xx.write(data),
            HashState::XxHash3(xx) => xx.write(data),
            HashState::XxHash128(xx) => xx.write(data),
        }
    }

    pub fn finish(self) -> Checksum {
        match self.state {
            HashState::Crc(crc) => Checksum::from_number(self.algorithm, crc.finalize()),
            HashState::Sha1(sha) => Checksum::of_digest(self.algorithm, &sha.finalize()),
            HashState::Sha256(sha) => Checksum::of_digest(self.algorithm, &sha.finalize()),
            HashState::Sha512(sha) => Checksum::of_digest(self.algorithm, &sha.finalize()),
            HashState::Md5(md5) => Checksum::of_digest(self.algorithm, &md5.finish()),
            HashState::XxHash64(xx) => Checksum::from_number(self.algorithm, xx.finish()),
            HashState::XxHash3(xx) => Checksum::from_number(self.algorithm, xx.finish()),
            HashState::XxHash128(xx) => Checksum::of_digest(self.algorithm, &xx.finish_128().to_be_bytes()),
        }
    }

    /// The checksum of bytes in memory. CRCs and XXH functions need no state for this.
    pub fn digest(algorithm: ChecksumAlgorithm, data: &[u8]) -> Checksum {
        use ChecksumAlgorithm as A;
        if let Some(crc) = algorithm.crc() {
            return Checksum::from_number(algorithm, crc_fast::checksum(crc, data));
        }
        match algorithm {
            A::XxHash64 => Checksum::from_number(algorithm, XxHash64::oneshot(SEED, data)),
            A::XxHash3 => Checksum::from_number(algorithm, XxHash3_64::oneshot_with_seed(SEED, data)),
            A::XxHash128 => Checksum::of_digest(algorithm, &XxHash3_128::oneshot_with_seed(SEED, data).to_be_bytes()),
            A::Crc32 | A::Crc32c | A::Crc64Nvme | A::Sha1 | A::Sha256 | A::Sha512 | A::Md5 => {
                let mut hasher = Self::new(algorithm);
                hasher.update(data);
                hasher.finish()
            }
        }
    }
}
