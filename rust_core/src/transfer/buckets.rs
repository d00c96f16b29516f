//! The operations on buckets themselves.

use std::sync::Arc;

use bytes::Bytes;

use super::answer::{Answer, Envelope, HeaderList, push};
use super::lane::Lane;
use super::problem::Problem;
use super::request::Request;
use crate::decide::Intent;
use crate::http::Headers;
use crate::record::{Bucket, BucketSettings, Durability};
use crate::s3::xml::requests::create_bucket_region;
use crate::s3::xml::results::location_constraint;
use crate::s3::{ErrorCode, S3Error};

pub struct CreateBucket {
    pub name: String,
    pub owner: String,
    pub settings: BucketSettings,
}

/// Extensions of CreateBucket: what a bucket has for itself instead of the store's settings. Under `x-amz-`, so that a
/// signature has to cover them.
const CHUNK_SIZE: &str = "x-amz-orcas-chunk-size";
const DURABILITY: &str = "x-amz-orcas-durability";

/// Bytes that a chunk may have: smaller ones cost more in records than they hold, larger ones more memory than a body may.
const CHUNK_SIZES: std::ops::RangeInclusive<u32> = 64 * 1024..=64 * 1024 * 1024;

/// Reads the settings that the bucket shall have for itself.
pub fn settings(headers: &Headers<'_>) -> Result<BucketSettings, S3Error> {
    Ok(BucketSettings {
        chunk_size: chunk_size(headers)?,
        durability: durability(headers)?,
        ..BucketSettings::default()
    })
}

fn chunk_size(headers: &Headers<'_>) -> Result<Option<u32>, S3Error> {
    let Some(value) = headers.get(CHUNK_SIZE) else { return Ok(None) };
    let size = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    match size.filter(|size| CHUNK_SIZES.contains(size)) {
        Some(size) => Ok(Some(size)),
        None => Err(S3Error::argument("A chunk has 65536 to 67108864 bytes", CHUNK_SIZE, value)),
    }
}

fn durability(headers: &Headers<'_>) -> Result<Option<Durability>, S3Error> {
    let Some(value) = headers.get(DURABILITY) else { return Ok(None) };
    match std::str::from_utf8(value).ok().and_then(Durability::from_name) {
        Some(durability) => Ok(Some(durability)),
        None => Err(S3Error::argument("Durability is sync, interval, buffered or unsafe-none", DURABILITY, value)),
    }
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
        let mut headers = HeaderList::new();
        push(&mut headers, "location", format!("/{}", self.name).into_bytes());
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
        let mut headers = HeaderList::new();
        push(&mut headers, "x-amz-bucket-region", region_of(&self.lane, bucket).as_bytes().to_vec());
        push(&mut headers, "content-type", b"application/xml".to_vec());
        if let Some(size) = bucket.settings.chunk_size {
            push(&mut headers, CHUNK_SIZE, size.to_string().into_bytes());
        }
        if let Some(durability) = bucket.settings.durability {
            push(&mut headers, DURABILITY, durability.name().as_bytes().to_vec());
        }
        self.envelope.empty(200, headers)
    }

    pub(super) fn bucket_location(&self, bucket: &Arc<Bucket>) -> Answer {
        let document = location_constraint(region_of(&self.lane, bucket));
        self.envelope.document(200, HeaderList::new(), document)
    }
}
