//! What all requests share: the engine, the workers, the memory budget, and who may sign. One per process; knows
//! nothing of front ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::accounting::observation::Observation;
use crate::admission::bounds::lockouts::LockoutOptions;
use crate::admission::identities::Identities;
use crate::admission::signers::Signers;
use crate::objects::challenge::Challenger;
use crate::objects::upload_ids::Aborted;
use crate::requests::bodies::Bodies;
use crate::requests::response::Envelope;
use orcas_base::error::{Error, Result};
use orcas_bodies::pool::Pool;
use orcas_engine::{Change, EventSink, Handle, Place};
use orcas_event_streams::EventStreams;
use orcas_metrics::Format;
use orcas_record::Bucket;
use orcas_s3::event_targets::EventTarget;
use orcas_telemetry::metrics::page::Sources;
use orcas_telemetry::metrics::process::ProcessMetrics;

/// Who but the account of a bucket may be given access to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PublicAccess {
    /// No stranger, whatever the buckets say.
    Blocked,
    /// Whom the bucket lets. A new one lets nobody, and its ACLs are disabled, as on S3.
    #[default]
    ByBucket,
    /// A new bucket blocks nothing, and its ACLs are enabled.
    Open,
}

/// What the operator chose for the HTTP side.
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
    /// The store is open for salvage: whatever would change something is refused.
    pub salvage: bool,
}

pub struct Gateway {
    pub engine: Handle,
    /// Cold reads, listings, small bodies.
    pub pool: Arc<Pool>,
    pub signers: Signers,
    pub bodies: Bodies,
    pub observation: Observation,
    pub events: Arc<EventStreams>,
    pub options: GatewayOptions,
    pub host_id: Arc<str>,
    pub challenger: Challenger,
    pub aborted: Aborted,
    /// Streams of lines of those who are not root, by account.
    pub(crate) listening: Mutex<HashMap<String, usize>>,
    /// Request ids are a counter under a random mask: unique in a process, and no two processes count alike.
    next_id: AtomicU64,
    id_mask: u64,
}

impl Gateway {
    pub fn new(engine: Handle, options: GatewayOptions, identities: Identities) -> Result<Arc<Self>> {
        let failed = |source| Error::io("start", std::path::Path::new("gateway"), source);
        let (mut random, mut challenges) = ([0; 20], [0; 32]);
        getrandom::fill(&mut random).map_err(|error| failed(std::io::Error::other(error.to_string())))?;
        getrandom::fill(&mut challenges).map_err(|error| failed(std::io::Error::other(error.to_string())))?;
        let (mask, host) = random.split_at(8);
        let pool = Arc::new(Pool::new(options.workers).map_err(failed)?);
        let host_id: Arc<str> = orcas_checksum::base64_encode(host).into();
        let gateway = Arc::new(Self {
            signers: Signers::new(identities, &options.lockout, now_ms()),
            bodies: Bodies::new(&pool, engine.buffers(), options.workers, options.body_budget)?,
            observation: Observation::new(&options),
            events: EventStreams::new(
                engine.clone(),
                options.region.clone(),
                Arc::clone(&host_id),
                options.events_listeners_max,
            ),
            engine,
            pool,
            options,
            host_id,
            challenger: Challenger::new(&challenges),
            aborted: Aborted::default(),
            listening: Mutex::default(),
            next_id: AtomicU64::new(0),
            id_mask: mask.iter().fold(0, |mask, byte| mask << 8 | u64::from(*byte)),
        });
        // What is taken from here on is heard of; what was taken before is in the journal.
        gateway.engine.on_events(Arc::new(JournalListener(Arc::downgrade(&gateway))));
        gateway.events.hub.begin(gateway.engine.events_reached());
        if !gateway.options.event_targets.is_empty() {
            // As long as the server runs, somebody listens.
            gateway.engine.add_listener();
        }
        Ok(gateway)
    }

    /// What responses to a request for `path`, as it stood in the request line, say about the request.
    pub fn envelope(&self, method: &[u8], path: &[u8]) -> Envelope {
        Envelope {
            request_id: self.next_request_id(),
            host_id: Arc::clone(&self.host_id),
            resource: path.to_vec(),
            is_head: method == b"HEAD",
            for_browsers: false,
            cors: None,
        }
    }

    /// The location constraint of a bucket, or the region of the server.
    pub fn location_of<'a>(&'a self, bucket: &'a Bucket) -> &'a str {
        match std::str::from_utf8(&bucket.location) {
            Ok(location) if !location.is_empty() => location,
            _ => &self.options.region,
        }
    }

    /// The region that answers show for a bucket.
    pub fn region_of<'a>(&'a self, bucket: &'a Bucket) -> &'a str {
        match self.location_of(bucket) {
            EU => "eu-west-1",
            region => region,
        }
    }

    /// 16 hexadecimal digits in upper case, unique in this process.
    pub fn next_request_id(&self) -> [u8; 16] {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        // An odd multiplier permutes the 64-bit numbers, so neighbours look unrelated and none repeats.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed).wrapping_mul(SPREAD) ^ self.id_mask;
        std::array::from_fn(|place| HEX[(id >> (60 - 4 * place) & 15) as usize])
    }

    /// How far the clock of the store is ahead of the time of the machine, in milliseconds; negative if it is behind.
    pub fn clock_ahead_ms(&self) -> i64 {
        self.engine.clock_ahead_ms()
    }

    /// The time by which signatures and sessions expire.
    pub fn now_ms(&self) -> i64 {
        now_ms() + self.clock_ahead_ms()
    }

    /// The page of all metrics. Blocks.
    pub fn metrics_page(&self, format: Format, around: &ProcessMetrics) -> String {
        let sources = Sources {
            engine: &self.engine,
            metrics: &self.observation.metrics,
            usage: &self.observation.usage,
            access_lines: &self.observation.access_lines,
            lockouts: self.signers.lockouts.total(),
            deliveries: &self.observation.deliveries,
            budget: &self.bodies.budget,
            signing_keys: &self.signers.signing_keys,
            listeners: self.events.hub.listeners(),
            now_ms: now_ms(),
        };
        sources.page(format, around)
    }

    /// Runs what the workers have queued, then ends them. To be called before the engine is closed.
    pub fn close(&self) {
        self.bodies.intake_pool.close();
        self.pool.close();
    }
}

/// Passes on to listeners what the journal has taken.
struct JournalListener(Weak<Gateway>);

impl EventSink for JournalListener {
    fn taken(&self, changes: Option<&[Change]>, place: Place) {
        if let Some(gateway) = self.0.upgrade() {
            gateway.events.hub.taken(changes, place).into_iter().for_each(|resume| resume());
        }
    }
}

/// What eu-west-1 was called as a location constraint, and may still be called.
pub const EU: &str = "EU";

/// Milliseconds since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "where requests get their time")]
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
