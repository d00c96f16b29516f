//! Conversion of tags, retention and legal hold between the S3 form and the form in records.

use bytes::Bytes;

use orcas_admission::request_context::RequestContext;
use orcas_bodies::intake::DeclaredBody;
use orcas_bodies::problem::Problem;
use orcas_record::{self as record, Annotations, Attributes, Bucket};
use orcas_s3::object_lock::{self, LockHeaders};
use orcas_s3::tags::{self, Tags};
use orcas_s3::{ErrorCode, S3Error};

/// What the headers of a request say of the object that it writes in this bucket, but for its encryption.
///
/// # Errors
/// Those of the headers, and of an ACL as of [`RequestContext::sent_acl`].
pub fn sent_attributes(context: &RequestContext<'_>, bucket: &Bucket) -> Result<Attributes, S3Error> {
    let (acl, headers) = (context.sent_acl(bucket)?, context.headers());
    let lock = LockHeaders::parse(headers)?;
    Ok(Attributes {
        tags: stored_tags(tags::of_header(headers)?),
        retention: lock.retention.map(stored_retention),
        legal_hold: lock.legal_hold,
        annotations: Annotations::default(),
        encryption: None,
        acl,
    })
}

/// Refuses a body that nobody vouches for if its object will be locked.
///
/// Errors: `InvalidRequest`.
pub fn check_vouched(attributes: &Attributes, bucket: &Bucket, body: &DeclaredBody) -> Result<(), Problem> {
    let by_default = bucket.object_lock.is_some_and(|lock| lock.default.is_some());
    let locked = by_default || attributes.retention.is_some() || attributes.legal_hold.is_some();
    if locked && !body.has_integrity_header() {
        let message = "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock \
                       parameters";
        return Err(S3Error::with(ErrorCode::InvalidRequest, message).into());
    }
    Ok(())
}

pub fn stored_tags(tags: Tags) -> Vec<(Bytes, Bytes)> {
    tags.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}

/// The headers about the lock that GetObject shows.
pub fn shown_lock(attributes: &Attributes) -> LockHeaders {
    LockHeaders { retention: attributes.retention.map(shown_retention), legal_hold: attributes.legal_hold }
}

fn stored_mode(mode: object_lock::Mode) -> record::RetentionMode {
    match mode {
        object_lock::Mode::Governance => record::RetentionMode::Governance,
        object_lock::Mode::Compliance => record::RetentionMode::Compliance,
    }
}

fn shown_mode(mode: record::RetentionMode) -> object_lock::Mode {
    match mode {
        record::RetentionMode::Governance => object_lock::Mode::Governance,
        record::RetentionMode::Compliance => object_lock::Mode::Compliance,
    }
}

pub fn stored_retention(retention: object_lock::Retention) -> record::Retention {
    record::Retention { mode: stored_mode(retention.mode), until_ms: retention.until_ms }
}

pub fn shown_retention(retention: record::Retention) -> object_lock::Retention {
    object_lock::Retention { mode: shown_mode(retention.mode), until_ms: retention.until_ms }
}

pub fn stored_default(default: object_lock::DefaultRetention) -> record::DefaultRetention {
    let period = match default.period {
        object_lock::Period::Days(days) => record::Period::Days(days),
        object_lock::Period::Years(years) => record::Period::Years(years),
    };
    record::DefaultRetention { mode: stored_mode(default.mode), period }
}

pub fn shown_default(default: record::DefaultRetention) -> object_lock::DefaultRetention {
    let period = match default.period {
        record::Period::Days(days) => object_lock::Period::Days(days),
        record::Period::Years(years) => object_lock::Period::Years(years),
    };
    object_lock::DefaultRetention { mode: shown_mode(default.mode), period }
}
