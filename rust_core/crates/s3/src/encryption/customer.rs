//! Keys that customers send with their requests (SSE-C): three headers for the object of the request, three more for the
//! source of a copy. What is kept of a key overwrites itself, and no text shows any of it.

use std::fmt;

use super::super::errors::{ErrorCode, S3Error};
use super::names::{AES256, ENCRYPTION};
use crate::responses::header_block::HeaderBlock;
use orcas_checksum::{Md5Hasher, base64_decode, base64_encode};
use orcas_http::Headers;
use zeroize::Zeroizing;

const ALGORITHM: &str = "x-amz-server-side-encryption-customer-algorithm";
const KEY_MD5: &str = "x-amz-server-side-encryption-customer-key-md5";
/// The headers of a key: its algorithm, the key, and its MD5.
pub const OF_CUSTOMERS: [&str; 3] = [ALGORITHM, "x-amz-server-side-encryption-customer-key", KEY_MD5];
/// The headers of the key of a source.
pub const OF_A_SOURCE: [&str; 3] = [
    "x-amz-copy-source-server-side-encryption-customer-algorithm",
    "x-amz-copy-source-server-side-encryption-customer-key",
    "x-amz-copy-source-server-side-encryption-customer-key-md5",
];

/// The key of a request.
#[derive(Clone, PartialEq, Eq)]
pub struct CustomerKey {
    bytes: Zeroizing<[u8; 32]>,
    shown: ShownKey,
}

/// The facts about a key that answers show.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ShownKey {
    md5: [u8; 16],
}

impl ShownKey {
    /// The lines of an answer about an object that the key encrypts.
    pub fn show(&self, block: &mut HeaderBlock) {
        block.push(ALGORITHM, AES256.as_bytes());
        block.push(KEY_MD5, base64_encode(&self.md5).as_bytes());
    }
}

impl fmt::Debug for CustomerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomerKey(..)")
    }
}

impl CustomerKey {
    /// The key of the object.
    ///
    /// Errors: `InvalidArgument` for a missing header and for a key that is none, or not the one of its MD5;
    /// `InvalidEncryptionAlgorithmError`.
    pub fn parse(headers: &Headers<'_>) -> Result<Option<Self>, S3Error> {
        Self::of(headers, &OF_CUSTOMERS)
    }

    /// The key of the source. Errors: as of `parse`.
    pub fn of_source(headers: &Headers<'_>) -> Result<Option<Self>, S3Error> {
        Self::of(headers, &OF_A_SOURCE)
    }

    fn of(headers: &Headers<'_>, names: &[&'static str; 3]) -> Result<Option<Self>, S3Error> {
        let values = names.map(|name| headers.get(name).map(<[u8]>::trim_ascii));
        let [algorithm, key, md5] = values;
        if values.iter().all(Option::is_none) {
            return Ok(None);
        }
        // S3 names this header whichever is wrong, also for the source of a copy.
        let refused = |message: &'static str| {
            S3Error::with(ErrorCode::InvalidArgument, message).field("ArgumentName", ENCRYPTION)
        };
        let algorithm = algorithm.filter(|value| !value.is_empty()).ok_or_else(|| {
            refused(
                "Requests specifying Server Side Encryption with Customer provided keys must provide a valid \
                        encryption algorithm.",
            )
        })?;
        if algorithm != AES256.as_bytes() {
            let error = S3Error::new(ErrorCode::InvalidEncryptionAlgorithmError);
            return Err(error.field("ArgumentName", ENCRYPTION).field("ArgumentValue", algorithm));
        }
        let key = key.filter(|value| !value.is_empty()).ok_or_else(|| {
            refused(
                "Requests specifying Server Side Encryption with Customer provided keys must provide an \
                        appropriate secret key.",
            )
        })?;
        let decoded = base64_decode(key).map(Zeroizing::new).unwrap_or_default();
        if decoded.len() != 32 {
            return Err(refused("The secret key was invalid for the specified algorithm."));
        }
        let mut bytes = Zeroizing::new([0; 32]);
        bytes.copy_from_slice(&decoded);
        let md5 = md5.filter(|value| !value.is_empty()).ok_or_else(|| {
            refused(
                "Requests specifying Server Side Encryption with Customer provided keys must provide the client \
                        calculated MD5 of the secret key.",
            )
        })?;
        let computed = Md5Hasher::digest(&*bytes);
        if base64_decode(md5).as_deref() != Some(&computed[..]) {
            return Err(refused("The calculated MD5 hash of the key did not match the hash that was provided."));
        }
        Ok(Some(Self { bytes, shown: ShownKey { md5: computed } }))
    }

    /// The key itself. Whoever copies it overwrites the copy.
    pub fn expose(&self) -> &[u8; 32] {
        &self.bytes
    }

    pub fn shown(&self) -> ShownKey {
        self.shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(values: [&str; 3]) -> Result<Option<CustomerKey>, (ErrorCode, String)> {
        let sent = OF_A_SOURCE.iter().zip(values).filter(|(_, value)| *value != "-");
        let list: Vec<(&[u8], &[u8])> = sent.map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        let headers = Headers::new(&list);
        assert_eq!(CustomerKey::parse(&headers), Ok(None), "the source has headers of its own");
        CustomerKey::of_source(&headers).map_err(|error| (error.code, error.message.into_owned()))
    }

    #[test]
    fn a_key_has_an_algorithm_and_an_md5() {
        let bytes: [u8; 32] = std::array::from_fn(|n| n as u8);
        let (key, md5) = (base64_encode(&bytes), base64_encode(&Md5Hasher::digest(&bytes)));
        let short = base64_encode(&bytes[1..]);
        assert_eq!(parse(["-", "-", "-"]), Ok(None));
        assert!(parse(["AES256", &key, &md5]).is_ok_and(|key| key.is_some_and(|key| *key.expose() == bytes)));
        for (values, code, words) in [
            (["-", &key[..], &md5[..]], ErrorCode::InvalidArgument, "valid encryption algorithm"),
            (["AES128", &key, &md5], ErrorCode::InvalidEncryptionAlgorithmError, "AES256"),
            (["AES256", "-", &md5], ErrorCode::InvalidArgument, "an appropriate secret key"),
            (["AES256", &short, &md5], ErrorCode::InvalidArgument, "The secret key was invalid"),
            (["AES256", "?", &md5], ErrorCode::InvalidArgument, "The secret key was invalid"),
            (["AES256", &key, "-"], ErrorCode::InvalidArgument, "calculated MD5 of the secret key"),
            (["AES256", &key, &key], ErrorCode::InvalidArgument, "did not match"),
        ] {
            let (refused, message) = parse(values).unwrap_err();
            assert_eq!((refused, message.contains(words)), (code, true), "{values:?}: {message}");
        }
    }

    #[test]
    fn a_key_overwrites_itself_and_is_not_shown() {
        fn overwrites_itself<T: zeroize::ZeroizeOnDrop>(_: &T) {}
        let bytes = [0xab; 32];
        let (text, md5) = (base64_encode(&bytes), base64_encode(&Md5Hasher::digest(&bytes)));
        let key = parse(["AES256", &text, &md5]).unwrap().unwrap();
        overwrites_itself(&key.bytes);
        assert_eq!(format!("{key:?}"), "CustomerKey(..)");
        let sent = OF_CUSTOMERS.map(str::as_bytes).into_iter().zip([&b"AES256"[..], text.as_bytes(), md5.as_bytes()]);
        let sent: Vec<_> = sent.collect();
        let asked = format!("{:?}", super::super::Asked::parse(&Headers::new(&sent)).unwrap());
        assert!(asked.contains("Customer(CustomerKey(..))"), "{asked}");
        // A refusal repeats nothing of a key either.
        let refused = parse(["AES256", &text, &text]).unwrap_err();
        assert!(!refused.1.contains(&text), "{refused:?}");
    }
}
