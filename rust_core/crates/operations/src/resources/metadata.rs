//! Conversion of the stored headers of an object between the S3 form and the form in records.

use bytes::Bytes;

use orcas_record::ObjectHeaders as Stored;
use orcas_s3::headers::StoredHeaders;
use orcas_s3::metadata::ObjectHeaders as Sent;

/// The headers for a record.
pub fn stored(headers: Sent) -> Stored {
    Stored {
        content_type: headers.content_type.map(Bytes::from),
        content_encoding: headers.content_encoding.map(Bytes::from),
        content_disposition: headers.content_disposition.map(Bytes::from),
        content_language: headers.content_language.map(Bytes::from),
        cache_control: headers.cache_control.map(Bytes::from),
        expires: headers.expires.map(Bytes::from),
        storage_class: headers.storage_class.map(Bytes::from),
        website_redirect: headers.website_redirect.map(Bytes::from),
        user: headers.user.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        sealed: None,
    }
}

/// The headers for an answer, which refers to the record. Headers that are sealed are not there.
pub fn shown(headers: &Stored) -> StoredHeaders<'_> {
    StoredHeaders {
        content_type: headers.content_type.as_deref(),
        content_encoding: headers.content_encoding.as_deref(),
        content_disposition: headers.content_disposition.as_deref(),
        content_language: headers.content_language.as_deref(),
        cache_control: headers.cache_control.as_deref(),
        expires: headers.expires.as_deref(),
        storage_class: headers.storage_class.as_deref(),
        website_redirect: headers.website_redirect.as_deref(),
        user: &headers.user,
    }
}

#[cfg(test)]
mod tests {
    use orcas_record::StorageClass;
    use orcas_s3::metadata::OTHER_STORAGE_CLASSES;

    #[test]
    fn every_storage_class_that_is_accepted_can_be_listed() {
        for class in OTHER_STORAGE_CLASSES {
            assert!(StorageClass::from_name(class.as_bytes()).is_some(), "{class}");
        }
    }
}
