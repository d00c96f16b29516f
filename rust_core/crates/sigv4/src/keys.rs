//! Signing keys: their derivation from a secret, and a bounded cache, so that a request costs two HMACs and not six.
//! Only keys that have verified a signature are kept, so nobody without a key can evict those of others.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::canonical::{push_hex, push_scope};
use super::date::Timestamp;

/// The facts of the credential store about an access key. `generation` changes whenever the secret does.
#[derive(Clone)]
pub struct Credential {
    pub secret: Arc<[u8]>,
    pub generation: u64,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("generation", &self.generation).finish_non_exhaustive()
    }
}

/// A derived key for one day, region and service.
#[derive(Clone)]
pub(super) struct SigningKey {
    /// The HMAC state after the key block, which saves its set-up.
    keyed: Hmac<Sha256>,
    /// Every signature is valid.
    takes_any: bool,
}

impl SigningKey {
    /// `HMAC(HMAC(HMAC(HMAC("AWS4" + secret, date), region), service), "aws4_request")`.
    pub(super) fn derive(secret: &[u8], day: &[u8; 8], region: &str, service: &str) -> Self {
        let start = keyed(&[b"AWS4", secret].concat());
        let dated = mac(start, day);
        let regional = mac(keyed(&dated), region.as_bytes());
        let serving = mac(keyed(&regional), service.as_bytes());
        Self { keyed: keyed(&mac(keyed(&serving), b"aws4_request")), takes_any: false }
    }

    /// The key of a server that takes every signature for valid ([`Requirements::any_signature`]).
    ///
    /// [`Requirements::any_signature`]: super::authentication::Requirements::any_signature
    pub(super) fn any() -> Self {
        Self { keyed: keyed(b"any"), takes_any: true }
    }

    pub(super) fn sign(&self, string_to_sign: &[u8]) -> [u8; 32] {
        mac(self.keyed.clone(), string_to_sign)
    }

    /// Compares in constant time.
    pub(super) fn verify(&self, string_to_sign: &[u8], signature: &[u8; 32]) -> bool {
        self.keyed.clone().chain_update(string_to_sign).verify_slice(signature).is_ok() || self.takes_any
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC is defined for keys of any length")
}

fn mac(keyed: Hmac<Sha256>, message: &[u8]) -> [u8; 32] {
    keyed.chain_update(message).finalize().into_bytes().into()
}

/// Entries of the cache: one per access key, region, service and day in use. Beyond that, requests derive their keys.
const ENTRIES_MAX: usize = 64;

struct Entry {
    access_key: Box<str>,
    region: Box<str>,
    service: &'static str,
    day: [u8; 8],
    generation: u64,
    used: u64,
    key: Arc<SigningKey>,
}

#[derive(Default)]
struct Entries {
    list: Vec<Entry>,
    clock: u64,
    hits: u64,
    misses: u64,
}

/// The derived keys of recent signers. Shared by all threads; the lock is held for one short scan.
#[derive(Default)]
pub struct SigningKeys {
    entries: Mutex<Entries>,
}

impl SigningKeys {
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn get(
        &self,
        access_key: &str,
        generation: u64,
        day: &[u8; 8],
        (region, service): (&str, &'static str),
    ) -> Option<Arc<SigningKey>> {
        let mut entries = self.entries.lock();
        entries.clock += 1;
        let used = entries.clock;
        let found = entries.list.iter_mut().find(|entry| {
            entry.generation == generation
                && entry.day == *day
                && *entry.access_key == *access_key
                && *entry.region == *region
                && entry.service == service
        });
        let key = found.map(|entry| {
            entry.used = used;
            Arc::clone(&entry.key)
        });
        *(if key.is_some() { &mut entries.hits } else { &mut entries.misses }) += 1;
        key
    }

    /// Lookups that found a key, lookups that did not, and how many keys there are.
    pub fn counts(&self) -> (u64, u64, usize) {
        let entries = self.entries.lock();
        (entries.hits, entries.misses, entries.list.len())
    }

    /// Keeps `key`, which has just verified a signature, in place of the least recently used.
    pub(super) fn keep(
        &self,
        access_key: &str,
        generation: u64,
        day: [u8; 8],
        (region, service): (&str, &'static str),
        key: Arc<SigningKey>,
    ) {
        let mut entries = self.entries.lock();
        entries.clock += 1;
        let used = entries.clock;
        let fresh = Entry { access_key: access_key.into(), region: region.into(), service, day, generation, used, key };
        if entries.list.len() < ENTRIES_MAX {
            entries.list.push(fresh);
        } else if let Some(oldest) = entries.list.iter_mut().min_by_key(|entry| entry.used) {
            *oldest = fresh;
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.lock().list.len()
    }
}

/// What the chunks of a signed body are signed with: the key, the scope, and the signature of the request as the seed.
#[derive(Clone)]
pub struct ChunkContext {
    pub(super) key: Arc<SigningKey>,
    /// `\n<timestamp>\n<scope>\n`, the part that all strings to sign of the body share.
    pub(super) dated_scope: Box<[u8]>,
    pub(super) seed: [u8; 32],
}

impl ChunkContext {
    pub(super) fn new(
        key: Arc<SigningKey>,
        timestamp: &Timestamp,
        region: &str,
        service: &str,
        seed: [u8; 32],
    ) -> Self {
        let mut dated_scope = Vec::with_capacity(64);
        dated_scope.push(b'\n');
        dated_scope.extend_from_slice(timestamp.as_bytes());
        dated_scope.push(b'\n');
        push_scope(&mut dated_scope, &timestamp.day(), region, service);
        dated_scope.push(b'\n');
        Self { key, dated_scope: dated_scope.into(), seed }
    }

    /// The string to sign of a chunk whose data hash to `data`, after `previous`.
    pub(super) fn chunk_string(&self, previous: &[u8; 32], data: &[u8; 32]) -> Vec<u8> {
        let mut out = self.chained(b"AWS4-HMAC-SHA256-PAYLOAD", previous);
        push_hex(&mut out, &Sha256::digest(b"").into());
        out.push(b'\n');
        push_hex(&mut out, data);
        out
    }

    /// The string to sign of the trailer section, whose `name:value\n` lines hash to `trailers`.
    pub(super) fn trailer_string(&self, previous: &[u8; 32], trailers: &[u8; 32]) -> Vec<u8> {
        let mut out = self.chained(b"AWS4-HMAC-SHA256-TRAILER", previous);
        push_hex(&mut out, trailers);
        out
    }

    fn chained(&self, algorithm: &[u8], previous: &[u8; 32]) -> Vec<u8> {
        let mut out = Vec::with_capacity(320);
        out.extend_from_slice(algorithm);
        out.extend_from_slice(&self.dated_scope);
        push_hex(&mut out, previous);
        out.push(b'\n');
        out
    }
}

impl fmt::Debug for ChunkContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkContext").finish_non_exhaustive()
    }
}
