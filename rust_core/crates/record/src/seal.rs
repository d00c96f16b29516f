//! How a blob is sealed: under which data key, with which algorithm, and the id from which its key derives. Opaque here:
//! only the crate `seal` and the engine know what the values lead to. No secret.

const BLOCK: u32 = orcas_base::block::BLOCK_SIZE as u32;
const TAG: u32 = 16;
/// Bytes of the longest sealed content, so that what is stored of it fits where 64 MiB fit.
pub const SEALED_MAX: u32 = (64 << 20) - 16 * BLOCK;

/// The values that open a sealed blob, beside the data key itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seal {
    /// Id of the data key.
    pub data_key: [u8; 16],
    /// The id of this act of sealing.
    pub id: [u8; 32],
    /// The stored number of the algorithm.
    pub algorithm: u8,
}

impl Seal {
    /// Bytes of its encoding, with which what is stored of a sealed blob ends.
    pub const LENGTH: usize = 49;

    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..16].copy_from_slice(&self.data_key);
        bytes[16..48].copy_from_slice(&self.id);
        bytes[48] = self.algorithm;
        bytes
    }

    /// `None` for another number of bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (data_key, rest) = bytes.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk()?;
        let [algorithm] = *rest else { return None };
        Some(Self { data_key: *data_key, id: *id, algorithm })
    }

    /// Bytes that are stored of a sealed blob of `length` bytes: its content, an authentication tag of 16 bytes for
    /// each block, the seal.
    pub const fn stored_length(length: u32) -> u32 {
        length + blocks(length) * TAG + Self::LENGTH as u32
    }

    /// Bytes of the content of which so many are stored. `None` if no content has so many.
    pub fn content_length(stored: u32) -> Option<u32> {
        let sealed = stored.checked_sub(Self::LENGTH as u32)?;
        let length = sealed.checked_sub(sealed.div_ceil(BLOCK + TAG) * TAG)?;
        (Self::stored_length(length) == stored).then_some(length)
    }

    /// The seal with which stored bytes end.
    pub fn at_end_of(stored: &[u8]) -> Option<Self> {
        Self::decode(stored.last_chunk::<{ Self::LENGTH }>()?)
    }
}

const fn blocks(length: u32) -> u32 {
    if length == 0 { 1 } else { length.div_ceil(BLOCK) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_content_and_of_what_is_stored_belong_together() {
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 7 * BLOCK, SEALED_MAX] {
            let stored = Seal::stored_length(length);
            assert_eq!(Seal::content_length(stored), Some(length));
        }
        assert!(Seal::stored_length(SEALED_MAX) <= 64 << 20);
        assert_eq!(Seal::content_length(Seal::LENGTH as u32 + 15), None);
        // A second tag needs a byte of content.
        assert_eq!(Seal::content_length(Seal::stored_length(BLOCK) + 16), None);
    }

    #[test]
    fn a_seal_is_found_at_the_end() {
        let seal = Seal { data_key: [1; 16], id: [2; 32], algorithm: 3 };
        let stored = [&b"content"[..], &seal.encode()].concat();
        assert_eq!(Seal::at_end_of(&stored), Some(seal));
        assert_eq!(Seal::at_end_of(&stored[..40]), None);
    }
}
