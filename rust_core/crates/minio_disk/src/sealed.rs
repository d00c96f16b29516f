//! What MinIO has encrypted, opened with the one key of its KMS (`MINIO_KMS_SECRET_KEY`). That key opens a data key,
//! that opens the key of a version, and that opens its content and its ETag. `internal/crypto` and `internal/kms` of
//! MinIO describe the keys, and its module sio the packages of content (DARE 2.0).

use std::collections::BTreeMap;
use std::io::Read;

use orcas_checksum::base64_decode;
use ring::aead::{AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use serde::Deserialize;

use crate::meta::Metadata;

pub type Secret = [u8; 32];

const HEAD: usize = 16;
const TAG: usize = 16;
const PACKAGE: usize = 64 << 10;
const ALGORITHM: &str = "DAREv2-HMAC-SHA256";
/// Of packages.
const VERSION: u8 = 0x20;
/// In the nonce of the last package.
const FINAL: u8 = 0x80;
/// Behind a sealed data key: 16 bytes that choose the key that seals it, and a nonce.
const RANDOM: usize = 16 + NONCE_LEN;
/// Of files of MinIO's own, such as users.
const FRAGMENT: usize = 16 << 10;

fn meta(name: &str) -> Vec<u8> {
    format!("X-Minio-Internal-Server-Side-Encryption-{name}").into_bytes()
}

/// The key of MinIO's KMS, and its name there.
pub struct MasterKey {
    name: String,
    key: Secret,
}

impl MasterKey {
    /// `text`: NAME:KEY, the key in base64.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, key) = text.split_once(':')?;
        Some(Self { name: name.to_owned(), key: base64_decode(key.as_bytes())?.try_into().ok()? })
    }

    /// A data key that was sealed for `context`.
    fn data_key(&self, name: &[u8], sealed: &[u8], context: &BTreeMap<String, String>) -> Result<Secret, String> {
        if name != self.name.as_bytes() {
            return Err(format!("it is encrypted with the key {}", String::from_utf8_lossy(name)));
        }
        let sealed = Older::parse(sealed)?.unwrap_or_else(|| sealed.to_vec());
        let (sealed, random) = sealed.split_last_chunk::<RANDOM>().ok_or_else(damaged)?;
        let (chosen, nonce) = random.split_at(RANDOM - NONCE_LEN);
        let key = derived(&self.key, &[chosen]);
        let nonce: [u8; NONCE_LEN] = nonce.try_into().map_err(|_| damaged())?;
        let context = canonical(context).ok_or_else(damaged)?;
        aead(&AES_256_GCM, &key)
            .and_then(|key| open(&key, nonce, context.as_bytes(), sealed)?.try_into().ok())
            .ok_or_else(|| "its key cannot be opened with the key that was given".to_owned())
    }

    /// The key of a version of the object at `place`, which is BUCKET/KEY. `Ok(None)`: it is not encrypted.
    pub fn of_version(given: Option<&Self>, metadata: &Metadata, place: &str) -> Result<Option<Secret>, String> {
        if !metadata.keys().any(|name| name.starts_with(&meta(""))) {
            return Ok(None);
        }
        if metadata.contains_key(&meta("Sealed-Key")) {
            return Err("it is encrypted with a key that only its client has (SSE-C)".to_owned());
        }
        let given = given.ok_or("MinIO has encrypted it, and its key was not given: set MINIO_KMS_SECRET_KEY")?;
        let value = |name: &str| metadata.get(&meta(name)).ok_or_else(damaged);
        let bytes = |name: &str| base64_decode(value(name)?).ok_or_else(damaged);
        let (kind, sealed) = match bytes("S3-Sealed-Key") {
            Ok(sealed) => ("SSE-S3", sealed),
            Err(_) => ("SSE-KMS", bytes("Kms-Sealed-Key")?),
        };
        if value("Seal-Algorithm")? != ALGORITHM.as_bytes() {
            return Err("its key is sealed by an algorithm of a MinIO of before 2020".to_owned());
        }
        let mut context: BTreeMap<String, String> = match (kind, bytes("Context")) {
            ("SSE-KMS", Ok(text)) => serde_json::from_slice(&text).map_err(|_| damaged())?,
            _ => BTreeMap::new(),
        };
        let bucket = place.split('/').next().unwrap_or_default();
        context.entry(bucket.to_owned()).or_insert_with(|| place.to_owned());
        let outer = given.data_key(value("S3-Kms-Key-Id")?, &bytes("S3-Kms-Sealed-Key")?, &context)?;
        let key = derived(&outer, &[&bytes("Iv")?, kind.as_bytes(), ALGORITHM.as_bytes(), place.as_bytes()]);
        Ok(Some(opened(&key, &sealed).and_then(|key| key.try_into().ok()).ok_or_else(damaged)?))
    }

    /// A file of MinIO's own that it has encrypted. `path`: with `.minio.sys` before. `None`: it is not, or damaged.
    pub fn file(&self, path: &str, bytes: &[u8]) -> Option<Vec<u8>> {
        #[derive(Deserialize)]
        struct Head {
            keyid: String,
            kmskey: String,
            algorithm: String,
            nonce: String,
        }
        let (length, rest) = bytes.strip_prefix(&[1])?.split_first_chunk()?;
        let (head, mut rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let head: Head = serde_json::from_slice(head).ok()?;
        let context = BTreeMap::from([(".minio.sys".to_owned(), path.to_owned())]);
        let key = self.data_key(head.keyid.as_bytes(), &base64_decode(head.kmskey.as_bytes())?, &context).ok()?;
        let key = aead(if head.algorithm == "AES-256-GCM" { &AES_256_GCM } else { &CHACHA20_POLY1305 }, &key)?;
        let mut nonce = [0; NONCE_LEN];
        nonce.get_mut(..NONCE_LEN - 4)?.copy_from_slice(base64_decode(head.nonce.as_bytes())?.get(..NONCE_LEN - 4)?);
        // Each fragment is bound to the tag of nothing, and to whether it is the last one.
        let tag = key.seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut []).ok()?;
        let mut file = Vec::new();
        for number in 1_u32.. {
            let (fragment, left) = rest.split_at(rest.len().min(FRAGMENT + TAG));
            nonce[NONCE_LEN - 4..].copy_from_slice(&number.to_le_bytes());
            let last = if left.is_empty() { FINAL } else { 0 };
            let bound = [&[last][..], tag.as_ref()].concat();
            file.extend(open(&key, nonce, &bound, fragment)?);
            if left.is_empty() {
                break;
            }
            rest = left;
        }
        Some(file)
    }
}

/// What was sealed before 2023 or so is JSON, and becomes what it would be today.
#[derive(Deserialize)]
struct Older {
    aead: String,
    iv: String,
    nonce: String,
    bytes: String,
}

impl Older {
    fn parse(sealed: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let Ok(older) = serde_json::from_slice::<Self>(sealed) else { return Ok(None) };
        if older.aead != "AES-256-GCM-HMAC-SHA-256" {
            return Err(format!("its key is sealed by {}, which is not known here", older.aead));
        }
        let parts = [&older.bytes, &older.iv, &older.nonce].map(|text| base64_decode(text.as_bytes()));
        Ok(Some(parts.into_iter().collect::<Option<Vec<_>>>().ok_or_else(damaged)?.concat()))
    }
}

pub fn is_kms(metadata: &Metadata) -> bool {
    metadata.contains_key(&meta("Kms-Sealed-Key"))
}

fn damaged() -> String {
    "its key is damaged, or of another format".to_owned()
}

fn derived(key: &Secret, parts: &[&[u8]]) -> Secret {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    parts.iter().for_each(|part| context.update(part));
    let mut secret = Secret::default();
    secret.copy_from_slice(context.sign().as_ref());
    secret
}

/// A value of the metadata of a version, such as `SSE-etag`, that was sealed with its key.
pub fn value(key: &Secret, name: &str, sealed: &[u8]) -> Option<Vec<u8>> {
    opened(&derived(key, &[name.as_bytes()]), sealed)
}

/// The key of a part, by its number.
pub fn of_part(key: &Secret, number: u64) -> Secret {
    derived(key, &[&(number as u32).to_le_bytes()])
}

/// How many bytes are in as many bytes of packages.
pub fn opened_size(sealed: u64) -> u64 {
    let packages = sealed.div_ceil((HEAD + PACKAGE + TAG) as u64);
    sealed.saturating_sub(packages * (HEAD + TAG) as u64)
}

/// What is in packages.
pub fn opened(key: &Secret, sealed: &[u8]) -> Option<Vec<u8>> {
    let mut packages = Packages::new(sealed, *key);
    let mut bytes = Vec::new();
    loop {
        let piece = packages.next_piece().ok()?;
        if piece.is_empty() {
            return Some(bytes);
        }
        bytes.extend(piece);
    }
}

fn aead(algorithm: &'static Algorithm, key: &Secret) -> Option<LessSafeKey> {
    UnboundKey::new(algorithm, key).ok().map(LessSafeKey::new)
}

fn open(key: &LessSafeKey, nonce: [u8; NONCE_LEN], bound: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = sealed.to_vec();
    let length = key.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(bound), &mut bytes).ok()?.len();
    bytes.truncate(length);
    Some(bytes)
}

/// As MinIO writes it, to which a data key is bound: JSON for pages of HTML.
fn canonical(context: &BTreeMap<String, String>) -> Option<String> {
    let mut text = serde_json::to_string(context).ok()?;
    for character in ['<', '>', '&', '\u{2028}', '\u{2029}'] {
        text = text.replace(character, &format!("\\u{:04x}", u32::from(character)));
    }
    Some(text)
}

/// Content, from its packages: a head, up to 64 KiB, and a tag. The nonce in the head is the same in all, but for a bit
/// in the last one, and is sealed with the number of the package, so none can be moved, left out or added.
pub struct Packages<R> {
    inner: R,
    secret: Secret,
    /// The first head, and the key for its algorithm.
    first: Option<([u8; HEAD], LessSafeKey)>,
    number: u32,
    is_whole: bool,
}

impl<R: Read> Packages<R> {
    pub fn new(inner: R, secret: Secret) -> Self {
        Self { inner, secret, first: None, number: 0, is_whole: false }
    }

    /// The content of the next package; empty at the end.
    pub fn next_piece(&mut self) -> Result<Vec<u8>, String> {
        let mut package = Vec::new();
        let part = self.inner.by_ref().take((HEAD + PACKAGE + TAG) as u64).read_to_end(&mut package);
        part.map_err(|error| error.to_string())?;
        if package.is_empty() && (self.is_whole || self.number == 0) {
            return Ok(package);
        }
        self.opened(&package).ok_or_else(|| "what MinIO has encrypted is damaged, or of another key".to_owned())
    }

    fn opened(&mut self, package: &[u8]) -> Option<Vec<u8>> {
        let (head, sealed) = package.split_first_chunk::<HEAD>()?;
        if self.first.is_none() {
            let algorithm = if head[1] == 0 { &AES_256_GCM } else { &CHACHA20_POLY1305 };
            self.first = Some((*head, aead(algorithm, &self.secret)?));
        }
        let (first, key) = self.first.as_ref()?;
        let is_last = head[4] & FINAL != 0;
        let length = usize::from(u16::from_le_bytes([head[2], head[3]])) + 1;
        let sound = !self.is_whole
            && head[0] == VERSION
            && head[1] == first[1]
            && head[4] | FINAL == first[4] | FINAL
            && head[5..] == first[5..]
            && sealed.len() == length + TAG
            && (is_last || length == PACKAGE);
        sound.then_some(())?;
        let (bound, nonce) = head.split_at(HEAD - NONCE_LEN);
        let mut nonce: [u8; NONCE_LEN] = nonce.try_into().ok()?;
        nonce[NONCE_LEN - 4..].iter_mut().zip(self.number.to_le_bytes()).for_each(|(byte, other)| *byte ^= other);
        let bytes = open(key, nonce, bound, sealed)?;
        self.is_whole = is_last;
        self.number = self.number.checked_add(1)?;
        Some(bytes)
    }
}
