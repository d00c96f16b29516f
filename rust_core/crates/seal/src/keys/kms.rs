//! Keys of the keyring as clients name them, like keys of AWS KMS: ids, names (aliases), ARNs and encryption contexts.
//!
//! <https://docs.aws.amazon.com/kms/latest/developerguide/concepts.html#key-id>

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::id::KeyId;

/// Bytes of the longest name.
const NAME_MAX: usize = 250;
/// Bytes of the longest encryption context, encoded.
const CONTEXT_MAX: usize = 8192;

/// The name of a key: 1 to 250 ASCII letters, digits, `/`, `_` and `-`, as in an alias of KMS without `alias/`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyName(String);

impl KeyName {
    /// # Errors
    /// [`Error::Invalid`].
    pub fn new(name: &str) -> Result<Self> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-".contains(&byte);
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(allowed) {
            return Err(Error::Invalid { reason: "a key name has 1 to 250 letters, digits, '/', '_' or '-'" });
        }
        Ok(Self(name.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of the key that clients of KMS use unless they name one. No key can have this name.
pub const KMS_DEFAULT_KEY: &str = "aws/s3";

/// How a request names a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyReference {
    Id(KeyId),
    Name(KeyName),
}

impl KeyReference {
    /// Reads a key id, `alias/NAME`, or an ARN of either; `None` for any other text. Region and account of an ARN are
    /// not compared.
    pub fn parse(text: &str) -> Option<Self> {
        let resource = match text.strip_prefix("arn:") {
            None => text,
            Some(arn) => {
                let fields: Vec<&str> = arn.splitn(5, ':').collect();
                let &[_, "kms", _, _, resource] = fields.as_slice() else { return None };
                match resource.strip_prefix("key/") {
                    Some(id) => id,
                    None if resource.starts_with("alias/") => resource,
                    None => return None,
                }
            }
        };
        match resource.strip_prefix("alias/") {
            Some(name) => KeyName::new(name).ok().map(Self::Name),
            None => KeyId::parse(resource).map(Self::Id),
        }
    }
}

/// Pairs that a wrapped data key is bound to: the same ones must be given to unwrap it. Not secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncryptionContext {
    pairs: BTreeMap<String, String>,
}

impl EncryptionContext {
    /// # Errors
    /// [`Error::Invalid`] for a repeated name, an empty name, or more than 8,192 bytes.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        let mut context = Self::default();
        for (name, value) in pairs {
            if name.is_empty() || context.pairs.insert(name, value).is_some() {
                return Err(Error::Invalid { reason: "names in an encryption context are not empty and differ" });
            }
        }
        if context.encoded().len() > CONTEXT_MAX {
            return Err(Error::Invalid { reason: "an encryption context is too long" });
        }
        Ok(context)
    }

    /// The pairs, sorted by name.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Equal for equal pairs, in whatever order they came, and different for all others.
    pub(crate) fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for text in self.pairs().flat_map(|(name, value)| [name, value]) {
            out.extend_from_slice(&(text.len() as u64).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        out
    }
}
