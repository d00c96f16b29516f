//! Tokens of sessions: what one says, and the keys that open it. Pure; knows nobody.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;

use orcas_checksum::base64_decode;
use orcas_seal::{Secret, open_message};

/// Bytes of a token as clients send it.
pub const TOKEN_LEN_MAX: usize = 12 * 1024;
/// The first byte of a token, and what its seal is bound to.
pub const VERSION: u8 = 1;
pub const BOUND: &[u8] = b"orcas session token";
const KEY_ID_LEN: usize = 8;
const NONCE_LEN: usize = 12;
/// Opened tokens that are kept until identities change.
const OPENED_MAX: usize = 256;

/// A name of a bucket that leads to another bucket, for one session. It is a name and no right: what the session may do is
/// decided for the bucket that it leads to. Only the server makes one, for the branch of a warehouse.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alias {
    pub name: String,
    pub bucket: String,
}

/// The claims of a token.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    pub access_key: String,
    pub secret: String,
    /// The user or role, or the root of an account.
    pub identity: String,
    /// The unique id of the identity: a later one with the same name has another.
    pub id: String,
    /// The access key that has asked for it; none for a role, or if a certificate has.
    pub by: Option<String>,
    /// ARNs and access keys of those who have asked for it, and for what they have asked with: their limits are its own.
    #[serde(default)]
    pub limited: Vec<String>,
    /// The ARN of the session, where that is not the user itself.
    pub arn: Option<String>,
    /// `aws:userid`
    pub user_id: String,
    pub issued_ms: i64,
    pub ends_ms: i64,
    pub tags: Vec<(String, String)>,
    #[serde(rename = "transitive")]
    _transitive: Vec<String>,
    /// Ids of policies and a document that narrow it.
    pub policies: Option<Vec<String>>,
    pub document: Option<String>,
    pub provider: Option<String>,
    #[serde(rename = "name")]
    _name: Option<String>,
    #[serde(default)]
    pub alias: Option<Alias>,
}

/// Keys that open tokens, and what was made of tokens that were opened.
#[derive(Debug)]
pub struct Tokens<T> {
    keys: Vec<([u8; KEY_ID_LEN], Secret)>,
    opened: Mutex<HashMap<Box<[u8]>, Arc<T>>>,
}

/// Without what was opened.
impl<T> Clone for Tokens<T> {
    fn clone(&self) -> Self {
        Self::new(self.keys.clone())
    }
}

impl<T> Tokens<T> {
    /// The result of opening this token before, if it is known.
    pub fn opened(&self, token: &[u8]) -> Option<Arc<T>> {
        self.opened.lock().get(token).cloned()
    }

    pub fn keep(&self, token: &[u8], value: &Arc<T>) {
        let mut opened = self.opened.lock();
        if opened.len() >= OPENED_MAX {
            opened.clear();
        }
        opened.insert(token.into(), Arc::clone(value));
    }

    pub fn new(keys: Vec<([u8; KEY_ID_LEN], Secret)>) -> Self {
        Self { keys, opened: Mutex::default() }
    }

    /// The claims of a token that one of the keys has sealed.
    pub fn unsealed(&self, token: &[u8]) -> Option<Claims> {
        let bytes = base64_decode(token)?;
        let (&VERSION, rest) = bytes.split_first()? else { return None };
        let (id, rest) = rest.split_first_chunk::<KEY_ID_LEN>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let (_, key) = self.keys.iter().find(|(known, _)| known == id)?;
        let message = open_message(key, *nonce, BOUND, sealed).ok()?;
        serde_json::from_slice(&message).ok()
    }
}
