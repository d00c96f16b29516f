//! HKDF with SHA-256 (RFC 5869), with outputs of 32 bytes. All keys but random ones come from it.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroize;

use crate::secret::{Secret, Wiped};

type HmacSha256 = Hmac<Sha256>;

/// HKDF-Extract.
pub(crate) fn extract(salt: &[u8], input: &[u8]) -> Secret {
    let mut mac = HmacSha256::new_from_slice(salt).expect("HMAC takes keys of any length");
    mac.update(input);
    finish(mac, Secret::new)
}

/// A key from which others are derived with HKDF-Expand. The state after the key block is kept, so a derivation from at
/// most 54 bytes hashes two blocks.
pub(crate) struct Expander(Wiped<HmacSha256>);

impl Expander {
    pub fn new(key: &[u8; 32]) -> Self {
        Self(Wiped::new(HmacSha256::new_from_slice(key).expect("HMAC takes keys of any length")))
    }

    /// The first 32 bytes of HKDF-Expand for the concatenated parts, for `take` only.
    pub fn expand<T>(&self, info: &[&[u8]], take: impl FnOnce(&[u8; 32]) -> T) -> T {
        let mut mac = HmacSha256::clone(&self.0);
        info.iter().for_each(|part| mac.update(part));
        mac.update(&[1]);
        finish(mac, take)
    }
}

/// HMAC-SHA-256 of concatenated parts.
pub(crate) fn mac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    started(key, parts).finalize().into_bytes().into()
}

/// Whether `expected` is that HMAC; takes the same time for any difference.
pub(crate) fn mac_is(key: &[u8; 32], parts: &[&[u8]], expected: &[u8; 32]) -> bool {
    started(key, parts).verify_slice(expected).is_ok()
}

fn started(key: &[u8; 32], parts: &[&[u8]]) -> HmacSha256 {
    let mut mac = HmacSha256::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac
}

fn finish<T>(mac: HmacSha256, take: impl FnOnce(&[u8; 32]) -> T) -> T {
    let mut bytes: [u8; 32] = mac.finalize().into_bytes().into();
    let taken = take(&bytes);
    bytes.zeroize();
    taken
}
