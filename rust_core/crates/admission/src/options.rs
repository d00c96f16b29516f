//! What the operator chose for the HTTP side. Python has the defaults.

use std::time::Duration;

use crate::bounds::lockouts::LockoutOptions;
use orcas_record::Bucket;
use orcas_s3::event_targets::EventTarget;

/// The old name of eu-west-1 as a location constraint, which is still accepted.
pub const EU: &str = "EU";

/// Whom a bucket may let in, besides its own account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PublicAccess {
    /// Nobody, whatever the buckets say.
    Blocked,
    /// Whom the bucket lets. A new one lets nobody, and its ACLs are disabled, as on S3.
    #[default]
    ByBucket,
    /// A new bucket blocks nothing, and its ACLs are enabled.
    Open,
}

/// The operator's options of the HTTP side.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// The region of buckets that name none.
    pub region: String,
    /// Refuse signatures for other regions.
    pub strict_region: bool,
    pub public_access: PublicAccess,
    /// Accept presigned requests of version 2.
    pub presign_v2: bool,
    /// The longest time for which a presigned request may be signed, in seconds.
    pub presign_max_s: i64,
    /// Accept signatures of any date, for tests whose clients have clocks of their own.
    pub any_date: bool,
    /// Take every signature for valid, and an unknown access key for root's, for tests whose clients have any keys. Not for
    /// the admin API.
    pub any_signature: bool,
    pub lockout: LockoutOptions,
    /// Names under which buckets are hosts, in lower case.
    pub domains: Vec<String>,
    /// The name under which websites of buckets are hosts, in lower case. Nothing else is served there.
    pub website_host: Option<String>,
    /// Bodies up to this size, in bytes, are collected before they are stored; larger ones are chunked as they come.
    pub max_batch_write_file_size: u64,
    /// Bytes of request bodies in memory at most.
    pub body_budget: u64,
    pub workers: usize,
    /// Content that its owner has stored before need not be sent again.
    pub instant_upload_enabled: bool,
    /// New objects are encrypted whether or not requests ask for it.
    pub encrypt_by_default: bool,
    /// The targets to which notifications of buckets can send events.
    pub event_targets: Vec<EventTarget>,
    /// Tell a client the likely cause of a wrong signature: for development.
    pub dev: bool,
    /// Streams of events at a time.
    pub events_listeners_max: usize,
    /// Requests are counted for whoever pays for them.
    pub meters_usage: bool,
    /// Requests that take as long are reported.
    pub slow_request: Option<Duration>,
    pub metrics: bool,
    /// The share of requests that are traced, and how many a second because their callers ask for it. `None`: none is.
    pub traces: Option<(f64, u32)>,
    /// Why whatever would change something is refused, if the store is open for reading.
    pub read_only: Option<&'static str>,
}

impl GatewayOptions {
    /// The location constraint of a bucket, or the region of the server.
    pub fn location_of<'a>(&'a self, bucket: &'a Bucket) -> &'a str {
        match std::str::from_utf8(&bucket.location) {
            Ok(location) if !location.is_empty() => location,
            _ => &self.region,
        }
    }

    /// The region that answers show for a bucket.
    pub fn region_of<'a>(&'a self, bucket: &'a Bucket) -> &'a str {
        match self.location_of(bucket) {
            EU => "eu-west-1",
            region => region,
        }
    }
}
