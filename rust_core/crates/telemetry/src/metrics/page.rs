//! The page of all metrics. Its numbers are collected when it is made. That may wait for the disk, so it must not
//! happen on the event loop.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::families as of;
use super::process::{Process, ProcessMetrics};
use super::requests::RequestMetrics;
use super::tasks::add_tasks;
use crate::access_log::batches::Deliveries;
use crate::access_log::queue::LineQueue;
use orcas_base::per_thread::PerThread;
use orcas_bodies::budget::Budget;
use orcas_engine::{BucketUsage, Condition, Handle, Usage};
use orcas_metrics::{Format, Page, Value};
use orcas_sigv4::SigningKeys;
use parking_lot::Mutex;

/// How old the numbers of buckets, contents and files may be.
const USAGE_AGE_MAX: Duration = Duration::from_secs(1);
/// The bucket that stands for those that are not shown. No bucket can have this name.
pub(super) const OTHER_BUCKETS: &str = "_other";
/// What became of spans, and of attempts to deliver an event; and whose requests were not traced.
pub(super) const SPAN_RESULTS: [&str; 2] = ["sent", "dropped"];
pub(super) const DELIVERY_RESULTS: [&str; 3] = ["ok", "retried", "dead"];
pub(super) const SENDERS: [&str; 2] = ["verified", "other"];

/// Where the page reads its numbers.
pub struct Sources<'a> {
    pub engine: &'a Handle,
    pub metrics: &'a RequestMetrics,
    /// Read a moment ago.
    pub usage: &'a Mutex<Option<(Instant, Arc<Usage>)>>,
    pub access_lines: &'a LineQueue,
    /// Addresses that were locked out.
    pub lockouts: u64,
    pub deliveries: &'a Deliveries,
    pub budget: &'a Budget,
    pub signing_keys: &'a PerThread<SigningKeys>,
    /// Streams of events.
    pub listeners: usize,
    /// Milliseconds since 1970.
    pub now_ms: i64,
}

impl Sources<'_> {
    /// The page. Blocks.
    pub fn page(&self, format: Format, around: &ProcessMetrics) -> String {
        let mut page = Page::new(format);
        page.family(&of::BUILD).value(&[&around.version], true);
        self.add_requests(&mut page, around);
        self.add_commits(&mut page);
        let usage = self.recent_usage();
        add_content(&mut page, usage.as_deref());
        self.add_upkeep(&mut page);
        self.add_events(&mut page, around);
        self.add_sealing(&mut page, around);
        add_tasks(&mut page, &around.tasks);
        self.add_caches(&mut page, around);
        self.add_state(&mut page);
        add_buckets(&mut page, usage.as_deref(), around.buckets_max);
        self.add_common_names(&mut page, around);
        add_process(&mut page, around.process);
        page.finish()
    }

    /// Reading it opens every file of the store, so readers share it for a while.
    fn recent_usage(&self) -> Option<Arc<Usage>> {
        let mut recent = self.usage.lock();
        if let Some((read, usage)) = &*recent
            && read.elapsed() < USAGE_AGE_MAX
        {
            return Some(Arc::clone(usage));
        }
        let usage = Arc::new(self.engine.usage().ok()?);
        *recent = Some((Instant::now(), Arc::clone(&usage)));
        Some(usage)
    }

    fn add_requests(&self, page: &mut Page, around: &ProcessMetrics) {
        let metrics = &self.metrics;
        let mut samples = page.family(&of::REQUESTS);
        for operation in metrics.operations() {
            operation.results().for_each(|(result, count)| {
                samples.value(&[operation.name, result], count);
            });
        }
        let mut samples = page.family(&of::REQUEST_TIME);
        metrics.operations().for_each(|operation| {
            samples.histogram(&[operation.name], operation.times());
        });
        let mut samples = page.family(&of::FIRST_BYTE_TIME);
        metrics.operations().for_each(|operation| {
            samples.histogram(&[operation.name], operation.first_bytes());
        });
        one(page, &of::REQUESTS_IN_FLIGHT, metrics.in_flight());
        let mut samples = page.family(&of::RECEIVED);
        metrics.operations().for_each(|operation| {
            samples.value(&[operation.name], operation.received());
        });
        let mut samples = page.family(&of::SENT);
        metrics.operations().for_each(|operation| {
            samples.value(&[operation.name], operation.sent());
        });
        each(page, &of::ERRORS, metrics.codes());
        each(page, &of::REFUSED_CONNECTIONS, around.refusals.iter().map(|(code, count)| (code.as_str(), *count)));
        one(page, &of::LOCKOUTS, self.lockouts);
        one(page, &of::ACCESS_DROPPED, self.access_lines.dropped());
        one(page, &of::BUCKET_LOGS_DROPPED, self.deliveries.dropped());
        each(page, &of::TRACE_SPANS, SPAN_RESULTS.into_iter().zip([around.spans.0, around.spans.1]));
        each(page, &of::TRACES_DECLINED, SENDERS.into_iter().zip([around.declined.0, around.declined.1]));
        one(page, &of::CONNECTIONS, around.connections);
        let mut samples = page.family(&of::CERTIFICATE_END);
        if let Some((end, _)) = around.certificate {
            samples.value(&[], end);
        }
        let mut samples = page.family(&of::CERTIFICATE_FAILED);
        if let Some((_, failed)) = around.certificate {
            samples.value(&[], failed);
        }
        let budget = self.budget.counts();
        one(page, &of::BODY_BUDGET, budget.total);
        each(page, &of::BODY_BUDGET_USED, [("small", budget.small), ("stream", budget.streamed)]);
        one(page, &of::BODY_BUDGET_WAITING, budget.waiting as u64);
    }

    fn add_commits(&self, page: &mut Page) {
        let metrics = self.engine.metrics();
        page.family(&of::COMMITS).histogram(&[], &metrics.rounds);
        page.family(&of::COMMIT_QUEUE).histogram(&[], &metrics.waits);
        page.family(&of::COMMIT_RECORDS).histogram(&[], &metrics.batch_records);
        page.family(&of::COMMIT_BYTES).histogram(&[], &metrics.batch_bytes);
        one(page, &of::COMMIT_FAILURES, metrics.failures.get());
        page.family(&of::SYNCS).histogram(&[], &metrics.syncs);
        one(page, &of::OVERLAY, self.engine.overlay_keys());
    }

    fn add_upkeep(&self, page: &mut Page) {
        let reclaim = self.engine.reclaim_progress();
        let done = reclaim.total;
        let steps = [("condemned", done.condemned_bytes), ("punched", done.punched_bytes), ("moved", done.moved_bytes)];
        each(page, &of::RECLAIMED, steps);
        each(page, &of::RECLAIMED_FILES, [("log", done.log_files), ("pack", done.packs)]);
        one(page, &of::RECLAIMED_BLOBS, done.blobs);
        one(page, &of::RECLAIM_FAILED, reclaim.failed.is_some());
        let scrub = self.engine.scrub_progress();
        one(page, &of::SCRUB_PASSES, scrub.passes);
        one(page, &of::SCRUB_DONE, scrub.done_bytes);
        one(page, &of::SCRUB_TOTAL, scrub.total_bytes);
        one(page, &of::SCRUB_DAMAGED, scrub.damaged_total);
        one(page, &of::SCRUB_FAILED, scrub.failed.is_some());
        let lifecycle = self.engine.lifecycle_progress();
        one(page, &of::LIFECYCLE_RUNS, lifecycle.runs);
        let total = lifecycle.total;
        each(page, &of::EXPIRED, [("version", total.versions), ("marker", total.markers), ("upload", total.uploads)]);
    }

    fn add_caches(&self, page: &mut Page, around: &ProcessMetrics) {
        let objects = self.engine.object_cache();
        let (key_hits, key_misses, keys) = self.signing_keys.all().map(SigningKeys::counts).fold(
            (0, 0, 0),
            |(hits, misses, keys), (more_hits, more_misses, more_keys)| {
                (hits + more_hits, misses + more_misses, keys + more_keys)
            },
        );
        let (data_hits, data_misses, data_keys) = around.data_keys;
        let (blob_hits, blob_misses, blob_keys) = around.blob_keys;
        let pools = self.engine.health().pools;
        let (buffers, connections) = (pools.buffers, pools.connections);
        let hits = [
            ("objects", objects.hits),
            ("signing-keys", key_hits),
            ("data-keys", data_hits),
            ("blob-keys", blob_hits),
            ("buffers", buffers.hits),
            ("index-connections", connections.hits),
        ];
        each(page, &of::CACHE_HITS, hits);
        let misses = [
            ("objects", objects.misses),
            ("signing-keys", key_misses),
            ("data-keys", data_misses),
            ("blob-keys", blob_misses),
            ("buffers", buffers.misses),
            ("index-connections", connections.misses),
        ];
        each(page, &of::CACHE_MISSES, misses);
        let entries = [
            ("objects", objects.entries),
            ("signing-keys", keys as u64),
            ("data-keys", data_keys),
            ("blob-keys", blob_keys),
        ];
        each(page, &of::CACHE_ENTRIES, entries);
        each(page, &of::CACHE_BYTES, [("objects", objects.bytes), ("buffers", buffers.held_bytes)]);
        one(page, &of::BUFFERS_OUT, buffers.out_bytes);
        let states = [("open", u64::from(connections.open)), ("idle", u64::from(connections.idle))];
        each(page, &of::INDEX_CONNECTIONS, states);
        one(page, &of::INDEX_WAITS, connections.waits);
    }

    fn add_state(&self, page: &mut Page) {
        let health = self.engine.health();
        one(page, &of::INDEX_LAG_BYTES, health.lag_bytes);
        one(page, &of::INDEX_LAG_RECORDS, health.lag_records);
        let names = Condition::NAMES.map(|name| (name, name == health.condition.name()));
        each(page, &of::STATE, names);
        one(page, &of::WRITABLE, health.writable);
        let mut samples = page.family(&of::DISK_FREE);
        if let Ok(free) = self.engine.disk_free() {
            samples.value(&[], free);
        }
        one(page, &of::DISK_RESERVE, self.engine.disk_reserve());
    }

    fn add_sealing(&self, page: &mut Page, around: &ProcessMetrics) {
        let metrics = self.engine.metrics();
        let mut samples = page.family(&of::SEALED);
        for (operation, work) in [("encrypt", &metrics.sealed), ("decrypt", &metrics.opened)] {
            for (algorithm, bytes) in work.bytes() {
                samples.value(&[operation, algorithm], bytes);
            }
        }
        let mut samples = page.family(&of::KEY_TIME);
        for (operation, times) in &around.key_times {
            samples.histogram(&[operation], times);
        }
    }

    /// Metrics that other servers have under these names.
    fn add_common_names(&self, page: &mut Page, around: &ProcessMetrics) {
        let statuses: Vec<_> = self.metrics.statuses().collect();
        each(page, &of::HTTP_REQUESTS, statuses.iter().map(|(status, count)| (status.as_str(), *count)));
        page.family(&of::HTTP_REQUEST_TIME).histogram(&[], &self.metrics.times());
        let metrics = self.engine.metrics();
        page.family(&of::CRYPTO_TIME)
            .histogram(&["encrypt"], &metrics.sealed.times)
            .histogram(&["decrypt"], &metrics.opened.times);
        let (hits, misses, _) = around.data_keys;
        let rate = if hits + misses == 0 { 1.0 } else { hits as f64 / (hits + misses) as f64 };
        one(page, &of::CRYPTO_HIT_RATE, rate);
        let documents = &self.metrics.documents;
        let mut samples = page.family(&of::SERIALIZATION_TIME);
        samples.histogram(&["serialize"], &documents.written).histogram(&["deserialize"], &documents.parsed);
    }
}

fn add_process(page: &mut Page, Process { start_sec, cpu_sec, resident_bytes }: Process) {
    one(page, &of::PROCESS_START, start_sec);
    one(page, &of::PROCESS_CPU, cpu_sec);
    let mut samples = page.family(&of::PROCESS_MEMORY);
    if let Some(bytes) = resident_bytes {
        samples.value(&[], bytes);
    }
}

/// The stored content, and its files. Nothing if it could not be read.
fn add_content(page: &mut Page, usage: Option<&Usage>) {
    let files = usage.map(|usage| usage.files);
    each(page, &of::FILES, files.iter().flat_map(|files| [("log", files.log_files), ("pack", files.packs)]));
    let lengths = files.iter().flat_map(|files| {
        [
            ("log", files.log_bytes),
            ("pack", files.pack_bytes),
            ("index", files.index_bytes),
            ("index-wal", files.index_wal_bytes),
        ]
    });
    each(page, &of::FILE_BYTES, lengths);
    let allocated = files.iter().flat_map(|files| [("log", files.log_allocated), ("pack", files.pack_allocated)]);
    each(page, &of::ALLOCATED_BYTES, allocated);
    let totals = usage.map(|usage| usage.totals);
    for (family, value) in [
        (&of::LOGICAL, totals.map(|totals| totals.logical)),
        (&of::STORED, totals.map(|totals| totals.stored)),
        (&of::DEAD, totals.map(|totals| totals.dead)),
        (&of::SHARING, totals.map(|totals| totals.logical.saturating_sub(totals.stored))),
    ] {
        let mut samples = page.family(family);
        value.into_iter().for_each(|value| {
            samples.value(&[], value);
        });
    }
}

/// The buckets with the most bytes by name, and all others as one.
fn add_buckets(page: &mut Page, usage: Option<&Usage>, most: usize) {
    let mut buckets: Vec<&BucketUsage> = usage.map_or_else(Vec::new, |usage| usage.buckets.iter().collect());
    let count = buckets.len() as u64;
    if buckets.len() > most {
        buckets.sort_unstable_by_key(|bucket| (Reverse(bucket.bytes), &bucket.name));
    }
    let (shown, others) = buckets.split_at(buckets.len().min(most));
    let mut samples = page.family(&of::BUCKETS);
    if usage.is_some() {
        samples.value(&[], count);
    }
    let named = |number: fn(&BucketUsage) -> u64| {
        let rest = (!others.is_empty()).then(|| (OTHER_BUCKETS, others.iter().map(|bucket| number(bucket)).sum()));
        shown.iter().map(move |bucket| (bucket.name.as_str(), number(bucket))).chain(rest)
    };
    each(page, &of::BUCKET_OBJECTS, named(|bucket| bucket.objects));
    each(page, &of::BUCKET_BYTES, named(|bucket| bucket.bytes));
    one(page, &of::USAGE_FAILED, usage.is_none());
}

pub(super) fn one(page: &mut Page, family: &'static orcas_metrics::Family, value: impl Value) {
    page.family(family).value(&[], value);
}

/// One sample for each value of the only label.
fn each<'a>(
    page: &mut Page,
    family: &'static orcas_metrics::Family,
    values: impl IntoIterator<Item = (&'a str, impl Value)>,
) {
    let mut samples = page.family(family);
    for (label, value) in values {
        samples.value(&[label], value);
    }
}
