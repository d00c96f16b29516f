//! A run of lifecycle rules: every bucket that has some, every version that they may concern, newest first within its
//! key.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::super::handle::Handle;
use super::super::state::EngineState;
use super::options::LifecycleOptions;
use super::pace::Pace;
use super::requests::LifecycleReport;
use crate::commit::queue::Submitted;
use crate::commit::waiter::{ChannelSink, Waiter};
use orcas_base::error::{Error, Result};
use orcas_base::sync::Receiver;
use orcas_catalog::{Document, ListUploads, NewerChanges, ScanStart, VersionScanRow, VersionStart};
use orcas_decide::{Expire, ExpireEntry, ExpiredPlace, Failure, Intent, Outcome, Refusal};
use orcas_lifecycle::{EntryFacts, EntryState, Rules};
use orcas_record::{Bucket, BucketId, Cause, DocumentKind};

/// See [`Walk::page`].
const PAGE: usize = 1_000;

type Tags = Vec<(Bytes, Bytes)>;

pub(crate) struct Walk<'a> {
    shared: &'a Arc<EngineState>,
    options: &'a LifecycleOptions,
    /// The time of the run: versions and uploads that are due by then expire.
    now_ms: u64,
    /// Versions or uploads that are read at a time.
    pub page: usize,
    report: LifecycleReport,
    pace: Pace,
    /// A batch whose answer is awaited, and when it was submitted.
    in_flight: Option<(Receiver<Result<Outcome, Failure>>, Duration)>,
    /// How long the last batch took.
    took: Duration,
}

/// A bucket in hand.
struct InHand {
    id: BucketId,
    /// The layers that have its versions. In a bucket with several layers, an upper one may hide versions of a lower
    /// one.
    layers: Vec<BucketId>,
    document: Bytes,
    rules: Arc<Rules>,
    entries: Vec<ExpireEntry>,
    /// The top layer of the bucket when these were found, if it has layers and versioning.
    top: Option<BucketId>,
    /// The rules of the bucket have changed, or the bucket is gone.
    void: bool,
}

/// The place from which the versions in hand were read.
#[derive(Clone, Copy)]
enum ReadFrom<'b> {
    /// In a bucket without layers, or in a layer from before versioning.
    Layer(BucketId),
    /// In all layers of a bucket with versioning.
    Histories(&'b Bucket),
}

/// The facts about a key, some of whose versions were seen.
#[derive(Default)]
struct KeySeen {
    key: Option<Bytes>,
    /// When the version that was seen last came.
    newer_ms: u64,
    /// Noncurrent versions that were seen and stay.
    kept: u64,
    /// A delete marker that expires if nothing follows it.
    marker: Option<ExpireEntry>,
}

impl<'a> Walk<'a> {
    pub fn new(shared: &'a Arc<EngineState>, options: &'a LifecycleOptions, now_ms: u64) -> Self {
        let (report, pace) = (LifecycleReport::default(), Pace::default());
        Self { shared, options, now_ms, page: PAGE, report, pace, in_flight: None, took: Duration::ZERO }
    }

    /// Walks all buckets. What was done, and the first error; what one bucket ran into does not keep the others.
    pub fn run(mut self) -> (LifecycleReport, Result<()>) {
        let mut ended = Ok(());
        for (bucket, document) in self.buckets() {
            self.report.buckets += 1;
            let done = self.bucket(&bucket, &document);
            match done {
                Err(Error::Closed) => return (self.report, Err(Error::Closed)),
                Err(error) if ended.is_ok() => ended = Err(error),
                _ => {}
            }
        }
        (self.report, ended)
    }

    fn buckets(&self) -> Vec<(Arc<Bucket>, Arc<Document>)> {
        let table = Arc::clone(&self.shared.catalog.buckets.load());
        let documents = table.documents();
        let of = |id| documents.get(id, DocumentKind::Lifecycle).filter(|document| !document.bytes.is_empty());
        table.all().filter_map(|bucket| Some((Arc::clone(bucket), Arc::clone(of(bucket.id)?)))).collect()
    }

    fn bucket(&mut self, bucket: &Bucket, document: &Document) -> Result<()> {
        let unreadable = Error::Record { reason: "a lifecycle document cannot be read" };
        let rules = document.parsed(self.options.read).ok_or(unreadable)?;
        let (id, layers, document) = (bucket.id, bucket.stack().to_vec(), document.bytes.clone());
        let mut bucket = InHand { id, layers, document, rules, entries: Vec::new(), top: None, void: false };
        let walked = self.versions(&mut bucket).and_then(|()| self.uploads(&mut bucket));
        let submitted = walked.and_then(|()| self.submit(&mut bucket));
        // Also after an error: its answer must not be taken for that of another bucket.
        let answered = self.wait(&mut bucket);
        submitted.and(answered)
    }

    fn versions(&mut self, bucket: &mut InHand) -> Result<()> {
        for layer in bucket.layers.clone() {
            if self.with_histories(bucket.id).is_none() {
                self.versions_in(bucket, layer)?;
            }
        }
        // It may have got its first layers, or its versioning, meanwhile: then it is walked anew.
        match self.with_histories(bucket.id) {
            Some(layered) => self.histories(bucket, &layered),
            None => Ok(()),
        }
    }

    /// The bucket, if it has layers and versioning now.
    fn with_histories(&self, id: BucketId) -> Option<Arc<Bucket>> {
        self.shared.catalog.present_bucket(id).filter(|bucket| bucket.amendments().is_some())
    }

    /// The versions that all layers show together.
    fn histories(&mut self, bucket: &mut InHand, layered: &Bucket) -> Result<()> {
        let rules = Arc::clone(&bucket.rules);
        for prefix in rules.prefixes() {
            let mut next = Some(ScanStart::from_prefix(Bytes::copy_from_slice(prefix)));
            let mut seen = KeySeen::default();
            while let Some(from) = next.take().filter(|_| !bucket.void) {
                let page = orcas_catalog::scan_histories(&self.shared.catalog, bucket.id, &from, self.page)?;
                if page.again
                    && let Some(key) = std::mem::take(&mut seen).key
                {
                    // One decision must not have an entry twice. What was decided before changes what is read now.
                    bucket.entries.retain(|entry| entry.key != key);
                }
                if bucket.top != page.top {
                    self.submit(bucket)?;
                    bucket.top = page.top;
                }
                let inside = page.rows.iter().take_while(|row| row.key.starts_with(prefix)).count();
                next = page.next.filter(|_| inside == page.rows.len());
                for row in page.rows.into_iter().take(inside) {
                    self.report.seen += 1;
                    self.version(bucket, ReadFrom::Histories(layered), &rules, &mut seen, row)?;
                    self.submit_if_full(bucket)?;
                }
            }
            bucket.entries.extend(seen.marker);
        }
        Ok(())
    }

    fn versions_in(&mut self, bucket: &mut InHand, layer: BucketId) -> Result<()> {
        let rules = Arc::clone(&bucket.rules);
        let bucket_has_one_layer = bucket.layers.len() == 1;
        for prefix in rules.prefixes() {
            let mut next = Some(VersionStart::From(Bytes::copy_from_slice(prefix)));
            let mut seen = KeySeen::default();
            while let Some(from) = next.take().filter(|_| !bucket.void) {
                let (rows, more) = orcas_catalog::scan_versions(&self.shared.catalog, layer, &from, self.page)?;
                if self.with_histories(bucket.id).is_some() {
                    // These may have been changed in other layers.
                    return self.submit(bucket);
                }
                let inside = rows.iter().take_while(|row| row.key.starts_with(prefix)).count();
                next = more.filter(|_| inside == rows.len());
                // A delete marker between layers only hides what is below.
                let shown = |row: &VersionScanRow| bucket_has_one_layer || !row.delete_marker;
                for row in rows.into_iter().take(inside).filter(shown) {
                    self.report.seen += 1;
                    self.version(bucket, ReadFrom::Layer(layer), &rules, &mut seen, row)?;
                    self.submit_if_full(bucket)?;
                }
            }
            bucket.entries.extend(seen.marker);
        }
        Ok(())
    }

    fn version(
        &self,
        bucket: &mut InHand,
        from: ReadFrom<'_>,
        rules: &Rules,
        seen: &mut KeySeen,
        row: VersionScanRow,
    ) -> Result<()> {
        let is_newest = seen.key.as_ref() != Some(&row.key);
        if is_newest {
            bucket.entries.extend(seen.marker.take());
            *seen = KeySeen { key: Some(row.key.clone()), ..KeySeen::default() };
        }
        // A marker that another version follows is not alone.
        seen.marker = None;
        let modified_ms = row.listed.modified_ms;
        let newer_ms = std::mem::replace(&mut seen.newer_ms, modified_ms);
        let place = match (is_newest, row.delete_marker) {
            (true, false) => EntryState::Current,
            (true, true) => EntryState::LoneMarker,
            // No version is older than what it followed, whatever the clock said.
            (false, _) => EntryState::Noncurrent { since_ms: newer_ms.max(modified_ms), newer: seen.kept },
        };
        let tags = self.tags(from, rules, &row)?;
        let expires = self.expires(rules, &row, place, tags.as_ref());
        let is_hidden = expires && self.is_hidden(bucket, from, &row)?;
        let (key, sequence) = (row.key, row.sequence);
        let entry = |place| ExpireEntry { key, sequence, place, tags };
        match place {
            EntryState::Current if is_hidden => {}
            EntryState::Current if expires => bucket.entries.push(entry(ExpiredPlace::Current)),
            EntryState::LoneMarker if expires => seen.marker = Some(entry(ExpiredPlace::LoneMarker)),
            EntryState::Noncurrent { .. } if expires => bucket.entries.push(entry(ExpiredPlace::Noncurrent(row.id))),
            EntryState::Noncurrent { .. } => seen.kept += 1,
            EntryState::Current | EntryState::LoneMarker | EntryState::Upload => {}
        }
        Ok(())
    }

    /// Whether a layer above this one hides the object.
    fn is_hidden(&self, bucket: &InHand, from: ReadFrom<'_>, row: &VersionScanRow) -> Result<bool> {
        match from {
            ReadFrom::Layer(layer) if bucket.layers.first() != Some(&layer) => {}
            ReadFrom::Layer(_) | ReadFrom::Histories(_) => return Ok(false),
        }
        let shown = self.shared.catalog.lookup_in(&bucket.layers, &row.key)?;
        Ok(shown.is_none_or(|shown| shown.object.sequence != row.sequence))
    }

    fn expires(&self, rules: &Rules, row: &VersionScanRow, place: EntryState, tags: Option<&Tags>) -> bool {
        let tags = tags.map(|tags| &tags[..]).unwrap_or_default();
        let facts = EntryFacts { key: &row.key, size: row.listed.size, modified_ms: row.listed.modified_ms, tags };
        rules.due(&facts, place, self.options.day_ms).is_some_and(|due| due.at_ms <= self.now_ms)
    }

    /// The tags of a version, if they matter. None for a version that is gone.
    fn tags(&self, from: ReadFrom<'_>, rules: &Rules, row: &VersionScanRow) -> Result<Option<Tags>> {
        if row.delete_marker || !rules.needs_tags(&row.key, row.listed.size) {
            return Ok(None);
        }
        let object = match from {
            ReadFrom::Layer(layer) => {
                let found = self.shared.catalog.version_below(layer, &row.key, row.id, NewerChanges::default())?;
                found.map(|found| found.object).filter(|object| object.sequence == row.sequence)
            }
            // It may have gone to another layer, where it has another sequence.
            ReadFrom::Histories(bucket) => {
                let engine = Handle { shared: Arc::clone(self.shared) };
                engine.version_in(bucket, &row.key, row.id)?.map(|found| found.object)
            }
        };
        Ok(Some(object.map(|object| object.version.attributes.tags.clone()).unwrap_or_default()))
    }

    fn uploads(&mut self, bucket: &mut InHand) -> Result<()> {
        let rules = Arc::clone(&bucket.rules);
        for prefix in rules.upload_prefixes() {
            let mut list = ListUploads::first(bucket.id, Bytes::copy_from_slice(prefix), self.page);
            while !bucket.void {
                let page = Handle { shared: Arc::clone(self.shared) }.list_uploads(&list)?;
                for upload in &page.entries {
                    self.report.seen += 1;
                    let (key, modified_ms) = (&upload.key[..], upload.initiated_ms);
                    let facts = EntryFacts { key, size: 0, modified_ms, tags: &[] };
                    let due = rules.due(&facts, EntryState::Upload, self.options.day_ms);
                    if due.is_some_and(|due| due.at_ms <= self.now_ms) {
                        let (key, place) = (upload.key.clone(), ExpiredPlace::Upload(upload.id));
                        bucket.entries.push(ExpireEntry { key, sequence: 0, place, tags: None });
                    }
                    self.submit_if_full(bucket)?;
                }
                if !list.advance(&page) {
                    break;
                }
            }
        }
        Ok(())
    }

    fn submit_if_full(&mut self, bucket: &mut InHand) -> Result<()> {
        if bucket.entries.len() < self.pace.batch(self.shared) {
            return Ok(());
        }
        self.submit(bucket)
    }

    /// Submits what was found, once the batch before is answered.
    fn submit(&mut self, bucket: &mut InHand) -> Result<()> {
        self.wait(bucket)?;
        let entries = std::mem::take(&mut bucket.entries);
        if entries.is_empty() || bucket.void {
            return Ok(());
        }
        self.pace.before(self.shared, self.took)?;
        let expire = Expire { bucket: bucket.id, document: bucket.document.clone(), top: bucket.top, entries };
        let (sink, answer) = ChannelSink::pair();
        let submitted = Submitted::S3(Intent::Expire(Box::new(expire)), Cause::Lifecycle, Waiter::new(sink, 0));
        if self.shared.intents.push(submitted, &*self.shared.clock).is_some() {
            return Err(self.shared.refusal());
        }
        self.in_flight = Some((answer, self.shared.clock.monotonic()));
        Ok(())
    }

    fn wait(&mut self, bucket: &mut InHand) -> Result<()> {
        let Some((answer, since)) = self.in_flight.take() else { return Ok(()) };
        let outcome = answer.recv().unwrap_or(Err(Failure::Engine(Error::Closed)));
        self.took = self.shared.clock.monotonic().saturating_sub(since);
        match outcome {
            Ok(Outcome::Expired(expired)) => {
                self.report.add(&expired);
                bucket.void |= expired.void;
                Ok(())
            }
            Err(Failure::Refused(Refusal::NoSuchBucket)) => {
                bucket.void = true;
                Ok(())
            }
            Err(Failure::Engine(error)) => Err(error),
            Ok(_) | Err(Failure::Refused(_)) => {
                Err(Error::Record { reason: "an expiration was answered as something else" })
            }
        }
    }
}
