//! Digests and checksums of content: MD5 for entity tags and the checksum algorithms of S3.
//!
//! Streaming and pure. Owns the stored codes of the algorithms, their names on the wire, base64, composite checksums and
//! the combination of CRCs. Must not know requests: `s3::checksums` decides which header is valid where.

mod algorithm;
mod base64;
mod etag;
mod hasher;
mod md5;
mod value;
#[cfg(test)]
mod vectors;

pub use algorithm::{ChecksumAlgorithm, ChecksumType};
pub use base64::{base64_decode, base64_encode, base64_encode_into};
pub use etag::Etag;
pub use hasher::Hasher;
pub use md5::Md5Hasher;
pub use value::Checksum;

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
            if part.algorithm() != algorithm {
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
        let (mut whole, _) = parts.next().filter(|(first, _)| first.algorithm().joins())?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn base64_of(algorithm: ChecksumAlgorithm, data: &[u8]) -> String {
        Hasher::digest(algorithm, data).to_base64()
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
