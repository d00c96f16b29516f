//! The headers that are stored with an object. Those of an encrypted object are sealed, but for the two that the store
//! needs when no key is at hand.

use bytes::Bytes;

use super::attributes::Encryption;
use super::seal::Seal;

/// The headers that are stored with an object and returned with it, without CR, LF or NUL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectHeaders {
    pub content_type: Option<Bytes>,
    pub content_encoding: Option<Bytes>,
    pub content_disposition: Option<Bytes>,
    pub content_language: Option<Bytes>,
    pub cache_control: Option<Bytes>,
    pub expires: Option<Bytes>,
    /// Never sealed: a copy drops it, and copies need no key.
    pub website_redirect: Option<Bytes>,
    /// `None` for STANDARD. Never sealed: listings and lifecycle rules need it.
    pub storage_class: Option<Bytes>,
    /// `x-amz-meta-` names without the prefix, lower case, in the order sent.
    pub user: Vec<(Bytes, Bytes)>,
    /// All other headers, if they are sealed. Then they are absent here.
    pub sealed: Option<Box<SealedHeaders>>,
}

/// Headers that are sealed under a seal of their own, as a [`Seal`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedHeaders {
    pub seal: Seal,
    /// The sealed encoding of the headers, then the authentication tag.
    pub bytes: Bytes,
}

impl ObjectHeaders {
    /// The headers that an encrypted object seals, and those that stay visible.
    pub fn split(self) -> (Self, Self) {
        let Self { website_redirect, storage_class, sealed, .. } = self;
        let visible = Self { website_redirect, storage_class, sealed, ..Self::default() };
        (Self { website_redirect: None, storage_class: None, sealed: None, ..self }, visible)
    }

    /// Whether it has headers that an encrypted object seals, in the clear.
    pub fn has_unsealed(&self) -> bool {
        let Self {
            content_type,
            content_encoding,
            content_disposition,
            content_language,
            cache_control,
            expires,
            website_redirect: _,
            storage_class: _,
            user,
            sealed: _,
        } = self;
        let single = [content_type, content_encoding, content_disposition, content_language, cache_control, expires];
        single.into_iter().any(Option::is_some) || !user.is_empty()
    }

    /// Whether they are sealed as new headers are of an object that is encrypted like this.
    pub fn fit(&self, encryption: Option<&Encryption>) -> bool {
        match encryption {
            None => self.sealed.is_none(),
            Some(_) => !self.has_unsealed(),
        }
    }

    /// Bytes of user metadata, `each` more for each of them, and of what is sealed.
    pub fn metadata_len(&self, each: usize) -> usize {
        let user = self.user.iter().map(|(name, value)| each + name.len() + value.len());
        user.sum::<usize>() + self.sealed.as_ref().map_or(0, |sealed| each + sealed.bytes.len())
    }
}
