//! The stored headers of an object between their two homes: as S3 reads and shows them, and as a record keeps them.

use bytes::Bytes;

use crate::record::ObjectHeaders as Stored;
use crate::s3::metadata::ObjectHeaders as Shown;

/// For a record.
pub fn stored(headers: Shown) -> Stored {
    Stored {
        content_type: headers.content_type.map(Bytes::from),
        content_encoding: headers.content_encoding.map(Bytes::from),
        content_disposition: headers.content_disposition.map(Bytes::from),
        content_language: headers.content_language.map(Bytes::from),
        cache_control: headers.cache_control.map(Bytes::from),
        expires: headers.expires.map(Bytes::from),
        user: headers.user.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
    }
}

/// For an answer.
pub fn shown(headers: &Stored) -> Shown {
    let copy = |value: &Option<Bytes>| value.as_ref().map(|value| value.to_vec());
    Shown {
        content_type: copy(&headers.content_type),
        content_encoding: copy(&headers.content_encoding),
        content_disposition: copy(&headers.content_disposition),
        content_language: copy(&headers.content_language),
        cache_control: copy(&headers.cache_control),
        expires: copy(&headers.expires),
        user: headers.user.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect(),
    }
}
