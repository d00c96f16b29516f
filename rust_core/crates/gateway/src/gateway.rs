//! What all requests share: the engine, the workers, the memory budget, and who may sign. One per process; knows
//! nothing of front ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::accounting::causes::Causes;
use crate::accounting::metering::UsageMeter;
use crate::accounting::tally::Watch;
use crate::accounting::traced::TracedQueue;
use crate::admission::bounds::lockouts::{LockoutOptions, Lockouts};
use crate::admission::bounds::replays::Replays;
use crate::admission::identities::{Identities, IdentityTables};
use crate::objects::challenge::Challenger;
use crate::objects::upload_ids::Aborted;
use crate::requests::response::Envelope;
use crate::requests::store_body::StoreBody;
use orcas_base::buffers::Buffers;
use orcas_base::error::{Error, Result};
use orcas_base::per_thread::PerThread;
use orcas_base::sync::{Loaded, Snapshot};
use orcas_bodies::budget::Budget;
use orcas_bodies::download::Downloads;
use orcas_bodies::pool::Pool;
use orcas_bodies::prefixes::Prefixes;
use orcas_bodies::worker_group::WorkerGroup;
use orcas_engine::{Change, EventSink, Handle, Place, Usage};
use orcas_event_streams::EventStreams;
use orcas_metrics::Format;
use orcas_record::Bucket;
use orcas_s3::event_targets::EventTarget;
use orcas_seal::Secret;
use orcas_sigv4::SigningKeys;
use orcas_telemetry::access_log::parcels::Deliveries;
use orcas_telemetry::access_log::queue::LineQueue;
use orcas_telemetry::metrics::page::Sources;
use orcas_telemetry::metrics::process::ProcessMetrics;
use orcas_telemetry::metrics::requests::RequestMetrics;

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
    /// Streamed bodies without a SHA-256. A pool of their own, so that hashing and syncs do not delay reads. Fewer
    /// workers than processors, because the event loop needs one and because fewer workers have more bodies per turn.
    pub intake: Arc<WorkerGroup<StoreBody>>,
    /// Streamed bodies with a SHA-256, which gains little from several bodies per turn: one worker per processor.
    pub intake_sha256: Arc<WorkerGroup<StoreBody>>,
    /// The threads of both. Those that are left run the ends of bodies, and pieces of requests that take long.
    pub(crate) intake_pool: Arc<Pool>,
    pub budget: Arc<Budget>,
    pub downloads: Arc<Downloads>,
    /// The engine's.
    pub buffers: Arc<Buffers>,
    pub events: Arc<EventStreams>,
    pub options: GatewayOptions,
    identities: Snapshot<Identities>,
    changing_identities: Mutex<()>,
    /// Each group of threads derives its own.
    pub signing_keys: PerThread<SigningKeys>,
    pub host_id: Arc<str>,
    pub challenger: Challenger,
    /// Requests to the admin API that were accepted before.
    pub replays: Replays,
    /// Addresses that have sent many wrong signatures.
    pub lockouts: Lockouts,
    pub aborted: Aborted,
    /// Streams of lines of those who are not root, by account.
    pub(crate) listening: Mutex<HashMap<String, usize>>,
    pub prefixes: Arc<Prefixes>,
    pub metrics: RequestMetrics,
    pub watch: Watch,
    /// What requests cost whom.
    pub meter: UsageMeter,
    /// Read a moment ago, for the page of metrics.
    pub usage: Mutex<Option<(Instant, Arc<Usage>)>>,
    /// Lines of the access log.
    pub access_lines: LineQueue,
    /// Why requests were refused.
    pub causes: Causes,
    /// Traced requests that are done.
    pub traced: TracedQueue,
    /// Records for the buckets that want them.
    pub deliveries: Deliveries,
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
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        // At most a third of the threads for each group, the others for the ends of bodies.
        let intake_threads = options.workers.max(3);
        let group =
            |pool: &Arc<Pool>, workers: usize| WorkerGroup::new(Arc::clone(pool), workers.clamp(1, intake_threads / 3));
        let intake_pool = Arc::new(Pool::yielding(intake_threads).map_err(failed)?);
        let pool = Arc::new(Pool::new(options.workers).map_err(failed)?);
        let buffers = Arc::clone(engine.buffers());
        let host_id: Arc<str> = orcas_checksum::base64_encode(host).into();
        let gateway = Arc::new(Self {
            downloads: Downloads::new(Arc::clone(&pool), Arc::clone(&buffers), options.body_budget),
            pool,
            intake: group(&intake_pool, processors - 1),
            intake_sha256: group(&intake_pool, processors),
            intake_pool,
            budget: Budget::new(options.body_budget),
            buffers,
            events: EventStreams::new(
                engine.clone(),
                options.region.clone(),
                Arc::clone(&host_id),
                options.events_listeners_max,
            ),
            engine,
            meter: UsageMeter::new(options.meters_usage, now_ms),
            lockouts: Lockouts::new(&options.lockout),
            aborted: Aborted::default(),
            listening: Mutex::default(),
            watch: Watch::new(options.slow_request, options.metrics, options.traces),
            options,
            identities: Snapshot::new(Arc::new(identities)),
            changing_identities: Mutex::new(()),
            signing_keys: PerThread::default(),
            host_id,
            challenger: Challenger::new(&challenges),
            replays: Replays::new(now_ms()),
            prefixes: Arc::default(),
            metrics: RequestMetrics::default(),
            usage: Mutex::new(None),
            access_lines: LineQueue::default(),
            causes: Causes::default(),
            traced: TracedQueue::default(),
            deliveries: Deliveries::default(),
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

    /// Who may sign, and who may do what, at this moment.
    pub fn identities(&self) -> Loaded<Identities> {
        self.identities.load()
    }

    /// Requests that arrive from now on are verified and authorized with these identities alone.
    ///
    /// # Errors
    /// As of [`Identities::new`]; then nothing changes.
    pub fn replace_identities(&self, rows: IdentityTables) -> Result<(), String> {
        self.next_identities(|current| current.replaced(rows))
    }

    /// Requests that arrive from now on are verified and authorized with these rows too, and without what has an id of
    /// `removed`.
    ///
    /// # Errors
    /// As of [`Identities::new`]; then nothing changes.
    pub fn change_identities(&self, rows: IdentityTables, removed: &[String]) -> Result<(), String> {
        self.next_identities(|current| current.changed(rows, removed))
    }

    /// Tokens of sessions are opened with these keys from now on, each of which has an id.
    pub fn use_session_keys(&self, keys: Vec<([u8; 8], Secret)>) {
        let changed = self.next_identities(|current| Ok(current.with_session_keys(keys)));
        debug_assert!(changed.is_ok(), "nothing of it is refused");
    }

    /// The next identity snapshot is made while requests are authorized with the one before.
    fn next_identities(&self, make: impl FnOnce(&Identities) -> Result<Identities, String>) -> Result<(), String> {
        let _changing = self.changing_identities.lock();
        let next = Arc::new(make(&self.identities())?);
        let former = self.identities.replace(next);
        // To free an identity snapshot of many rows takes milliseconds. So that happens here, and not in a request that
        // still uses it, unless that takes long.
        for _ in 0..IDENTITIES_WAITS_MAX {
            if Arc::strong_count(&former) == 1 {
                break;
            }
            std::thread::sleep(SNAPSHOT_WAIT);
        }
        Ok(())
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
            metrics: &self.metrics,
            usage: &self.usage,
            access_lines: &self.access_lines,
            lockouts: self.lockouts.total(),
            deliveries: &self.deliveries,
            budget: &self.budget,
            signing_keys: &self.signing_keys,
            listeners: self.events.hub.listeners(),
            now_ms: now_ms(),
        };
        sources.page(format, around)
    }

    /// Runs what the workers have queued, then ends them. To be called before the engine is closed.
    pub fn close(&self) {
        self.intake_pool.close();
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

/// A change of identities waits this often, and this long each time, for requests that use the former ones.
const IDENTITIES_WAITS_MAX: usize = 1000;
const SNAPSHOT_WAIT: Duration = Duration::from_micros(100);

/// Milliseconds since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "where requests get their time")]
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
