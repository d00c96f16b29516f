//! The operations on buckets themselves.

use std::sync::Arc;

use bytes::Bytes;

use super::answer::{Answer, Envelope, HeaderBlock};
use super::lane::Lane;
use super::problem::Problem;
use super::request::Request;
use super::settings::show;
use orcas_decide::Intent;
use orcas_record::{Bucket, BucketSettings};
use orcas_s3::xml::requests::create_bucket_region;
use orcas_s3::xml::results::location_constraint;
use orcas_s3::{ErrorCode, S3Error};

pub struct CreateBucket {
    pub name: String,
    pub owner: String,
    pub settings: BucketSettings,
}

impl CreateBucket {
    /// `document` is the body, empty when there was none.
    pub fn intent(&self, lane: &Lane, document: &[u8]) -> Result<Intent, Problem> {
        let region = create_bucket_region(document)?.unwrap_or_else(|| lane.options.region.clone());
        check_region(lane, &region)?;
        Ok(Intent::CreateBucket {
            name: Bytes::copy_from_slice(self.name.as_bytes()),
            owner: Bytes::copy_from_slice(self.owner.as_bytes()),
            location: Bytes::from(region),
            settings: self.settings,
        })
    }

    pub fn answer(&self, envelope: &Envelope) -> Answer {
        let mut headers = HeaderBlock::new();
        headers.push("location", format!("/{}", self.name).as_bytes());
        envelope.empty(200, headers)
    }
}

/// A strict store has one region; another accepts any name that could be one, since clients make them up.
fn check_region(lane: &Lane, region: &str) -> Result<(), S3Error> {
    const REGION_LEN_MAX: usize = 64;
    let plausible = region.len() <= REGION_LEN_MAX
        && region.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if !plausible {
        return Err(S3Error::new(ErrorCode::InvalidLocationConstraint).field("LocationConstraint", region));
    }
    if lane.options.strict_region && region != lane.options.region {
        let message = format!(
            "The {region} location constraint is incompatible for the region specific endpoint this request was sent to."
        );
        return Err(S3Error::with(ErrorCode::IllegalLocationConstraintException, message));
    }
    Ok(())
}

/// The region that answers show for a bucket.
pub fn region_of<'a>(lane: &'a Lane, bucket: &'a Bucket) -> &'a str {
    match std::str::from_utf8(&bucket.location) {
        Ok(region) if !region.is_empty() => region,
        _ => &lane.options.region,
    }
}

impl Request {
    pub(super) fn head_bucket(&self, bucket: &Arc<Bucket>) -> Answer {
        let mut headers = HeaderBlock::new();
        headers.push("x-amz-bucket-region", region_of(&self.lane, bucket).as_bytes());
        headers.push("content-type", b"application/xml");
        show(&bucket.settings, &mut headers);
        self.envelope.empty(200, headers)
    }

    pub(super) fn bucket_location(&self, bucket: &Arc<Bucket>) -> Answer {
        let document = location_constraint(region_of(&self.lane, bucket));
        self.envelope.document(200, HeaderBlock::new(), document)
    }
}
