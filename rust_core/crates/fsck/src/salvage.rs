//! Puts every record that a log still has into a private index, in the order of their sequences. Nothing is refused: a
//! record that refers to lost data stays and is later found to be incomplete, a bucket whose record is lost gets a
//! made-up name, and deletions apply even if what they delete is incomplete.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bytes::Bytes;

use super::stacks::{
    KnownLayers, Traces, bare_bucket, bucket_of_lost, fresh_layers, lost_bucket_name, lost_layer_name, lost_layers,
    repaired_stacks,
};
use super::{Finding, FindingKind};
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_decide::layer_name;
use orcas_index::{Applied, Index, Writer};
use orcas_log::{Counted, LogPosition, LogSalvage, RecoveredRecord, Salvaged};
use orcas_record::{
    self as record, BlobLocation, Bucket, BucketId, BucketRole, ContentMove, LogLocation, PackId, Record, Sequence,
    UploadId, Version, Versioning,
};

/// Records, and bytes of them, that go into the index in one piece.
const PIECE_RECORDS: usize = 4_096;
const PIECE_BYTES: usize = 8 << 20;
/// Places of damage that are told, and ranges of records that are gone.
const TOLD_MAX: usize = 1_000;

/// What a replay begins with.
pub enum Base {
    Nothing,
    /// An index that is whole and has applied everything up to this place.
    Index(LogPosition),
}

/// What a replay found.
#[derive(Default)]
pub struct ReplayOutcome {
    pub counted: Counted,
    pub findings: Vec<Finding>,
    /// Records that are gone and that the index does not know either.
    pub gone: Vec<(Sequence, Sequence)>,
    /// Frames without a payload that can be read are among them.
    pub unreadable: bool,
    /// The log may have gone on.
    pub torn: bool,
    /// The last record that was read or is known to be gone.
    pub last: Sequence,
    /// Whatever was brought before this record may have been ended by one that is gone.
    pub doubt: Sequence,
    /// What such records seem to name, with their sequences.
    pub named: BTreeMap<(BucketId, Bytes), Sequence>,
    /// Ascending. What names one of these had been deleted.
    pub condemned: Vec<Sequence>,
    pub made_up: Vec<String>,
}

struct Entry {
    sequence: Sequence,
    kind: u8,
    payload: Bytes,
    record: Record,
    location: Option<BlobLocation>,
}

struct Replay<'a> {
    index: &'a Index,
    writer: Writer,
    /// Records up to here are in the index, which were in the log up to there.
    applied: Sequence,
    position: LogPosition,
    owner: &'a Bytes,
    buckets: HashMap<BucketId, Bucket>,
    names: HashMap<Bytes, BucketId>,
    deleted: HashSet<BucketId>,
    made_up: BTreeSet<BucketId>,
    /// Created as layers.
    layers: HashSet<BucketId>,
    /// Buckets and layers that objects were put into.
    filled: HashSet<BucketId>,
    /// Traces of the versions that were put into the buckets.
    traces: HashMap<BucketId, Traces>,
    packs: HashSet<PackId>,
    completed: HashSet<UploadId>,
    entries: Vec<Entry>,
    bytes: usize,
    outcome: ReplayOutcome,
}

/// Replays the log into `index`.
///
/// # Errors
/// What reading files or writing the index ran into.
pub fn replay_rest(log: &LogSalvage, index: &Index, base: Base, owner: &Bytes) -> Result<ReplayOutcome> {
    let mut writer = index.writer()?;
    writer.begin_salvage()?;
    let position = match base {
        Base::Nothing => LogPosition::ORIGIN,
        Base::Index(position) => position,
    };
    let applied = position.sequence;
    let mut replay = Replay {
        index,
        writer,
        applied,
        position,
        owner,
        buckets: HashMap::new(),
        names: HashMap::new(),
        deleted: HashSet::new(),
        made_up: BTreeSet::new(),
        layers: HashSet::new(),
        filled: HashSet::new(),
        traces: HashMap::new(),
        packs: index.read()?.packs()?.into_iter().collect(),
        completed: HashSet::new(),
        entries: Vec::new(),
        bytes: 0,
        outcome: ReplayOutcome { last: applied, ..ReplayOutcome::default() },
    };
    for stored in index.read()?.buckets()? {
        let record = record::decode(stored.kind, &stored.record)?;
        replay.see_layer(&record);
        if let Record::CreateBucket(bucket) | Record::UpdateBucket(bucket) = record {
            replay.names.insert(bucket.name.clone(), bucket.id);
            replay.buckets.insert(bucket.id, bucket);
        }
    }
    replay.outcome.counted = log.read(&mut |found| replay.take(found))?;
    replay.end()
}

impl Replay<'_> {
    fn take(&mut self, found: Salvaged) -> Result<()> {
        match found {
            Salvaged::Gone(first, last) => {
                self.gone(first, last);
                if last > self.applied {
                    self.outcome.doubt = self.outcome.doubt.max(last);
                }
                Ok(())
            }
            Salvaged::Torn { place, end } => {
                if !self.position.is_behind(end) {
                    self.find(
                        place,
                        "what follows is not a complete record: the end of the log may be lost".to_owned(),
                    );
                    self.outcome.torn = true;
                    self.outcome.doubt = Sequence::MAX;
                }
                Ok(())
            }
            Salvaged::Unreadable { sequence, kind, hint, place } => {
                let update = kind == record::UPDATE_VERSION;
                let older = if update { "; the tags and locks of a version may be older than they were" } else { "" };
                self.find(place, format!("record {sequence} does not match its checksum{older}"));
                self.unreadable(sequence, kind, &hint);
                Ok(())
            }
            Salvaged::Record(recovered) => self.record(&recovered),
        }
    }

    fn find(&mut self, place: String, detail: String) {
        if self.outcome.findings.len() < TOLD_MAX {
            self.outcome.findings.push(Finding { kind: FindingKind::LogRecord, place, detail });
        }
    }

    fn gone(&mut self, first: Sequence, last: Sequence) {
        self.outcome.last = self.outcome.last.max(last);
        let first = first.max(self.applied + 1);
        if first > last {
            return;
        }
        let full = self.outcome.gone.len() == TOLD_MAX;
        match self.outcome.gone.last_mut() {
            // When there are very many, the last one stands for all that come behind it.
            Some((_, before)) if full || *before + 1 >= first => *before = last.max(*before),
            _ => self.outcome.gone.push((first, last)),
        }
    }

    fn unreadable(&mut self, sequence: Sequence, kind: u8, hint: &Bytes) {
        self.outcome.unreadable = true;
        self.gone(sequence, sequence);
        if sequence <= self.applied || !record::may_end(kind) {
            return;
        }
        self.outcome.doubt = self.outcome.doubt.max(sequence);
        if let Some(named) = record::named_in(kind, hint).filter(|_| self.outcome.named.len() < TOLD_MAX) {
            self.outcome.named.insert(named, sequence);
        }
    }

    fn record(&mut self, recovered: &RecoveredRecord) -> Result<()> {
        let RecoveredRecord { sequence, kind, ref payload, at } = *recovered;
        self.outcome.last = self.outcome.last.max(sequence);
        let is_content = record::is_content(kind);
        // Nothing shall hold on to the block it was read with.
        let payload = if is_content { payload.clone() } else { Bytes::copy_from_slice(payload) };
        let Ok(record) = record::decode(kind, &payload) else {
            self.find(at.to_string(), format!("record {sequence} cannot be read"));
            self.unreadable(sequence, kind, &Bytes::new());
            return Ok(());
        };
        if let Record::Content { fingerprint, shared, bytes, seal } = record {
            let length = bytes.len() as u32;
            let location = BlobLocation::Log { at, length };
            if sequence <= self.applied {
                return self.relocate(sequence, at, length);
            }
            let record = Record::Content { fingerprint, shared, bytes: Bytes::new(), seal };
            let entry = Entry { sequence, kind, payload: Bytes::new(), record, location: Some(location) };
            return self.push(entry);
        }
        if sequence <= self.applied {
            return Ok(());
        }
        self.change(Entry { sequence, kind, payload, record, location: None })
    }

    /// The content stands here, whatever the index says: of several places this one can be read.
    fn relocate(&mut self, blob: Sequence, at: LogLocation, length: u32) -> Result<()> {
        match self.index.read()?.blob(blob)? {
            Some(BlobLocation::Log { at: known, length: known_length }) if known != at && known_length == length => {
                let record = Record::MoveContents { file: at.file(), moves: vec![ContentMove { blob, to: at }] };
                self.push(Entry { sequence: blob, kind: 0, payload: Bytes::new(), record, location: None })
            }
            _ => Ok(()),
        }
    }

    fn see_layer(&mut self, record: &Record) {
        if let Record::CreateBucket(bucket) = record
            && matches!(bucket.role, BucketRole::Layer | BucketRole::Amendments)
        {
            self.layers.insert(bucket.id);
        }
    }

    fn see_version(&mut self, version: &Version) {
        self.traces.entry(version.bucket).or_default().see(version);
        if !version.delete_marker {
            self.filled.insert(version.bucket);
        }
    }

    /// A record behind what the index has.
    fn change(&mut self, mut entry: Entry) -> Result<()> {
        self.see_layer(&entry.record);
        match &entry.record {
            Record::CreateBucket(bucket) | Record::UpdateBucket(bucket) => {
                let bucket = bucket.clone();
                entry.record = self.claim(entry.sequence, bucket)?;
            }
            Record::DeleteBucket { bucket } => self.forget(*bucket),
            Record::PutVersion(version) | Record::MoveVersion { version, .. } => {
                self.see_version(version);
                self.ensure(entry.sequence, version.bucket, version.modified_ms)?;
            }
            Record::CompleteUpload { upload, version, .. } => {
                let (upload, version) = (*upload, version.clone());
                self.see_version(&version);
                self.ensure(entry.sequence, version.bucket, version.modified_ms)?;
                if !self.completed.insert(upload) {
                    entry = as_put(entry.sequence, version);
                }
            }
            Record::RememberUpload { upload, .. } if !self.completed.insert(*upload) => return Ok(()),
            Record::CreatePack { pack } if !self.packs.insert(*pack) => return Ok(()),
            Record::CondemnBlobs { blobs } => self.outcome.condemned.extend(blobs),
            // Contents are where they were found, and which files are in force is of no account.
            Record::MoveContents { .. } | Record::ReplaceLog { .. } => return Ok(()),
            _ => {}
        }
        self.push(entry)
    }

    /// The bucket has this name now: whoever had it before is gone, or a layer.
    fn claim(&mut self, sequence: Sequence, bucket: Bucket) -> Result<Record> {
        if let Some(other) = self.names.get(&bucket.name).copied().filter(|other| *other != bucket.id) {
            if self.is_layer(other) {
                self.make_layer(sequence, other, layer_name(&bucket.name, other))?;
            } else {
                self.forget(other);
                let record = Record::DeleteBucket { bucket: other };
                self.push(Entry { sequence, kind: 0, payload: Bytes::new(), record, location: None })?;
            }
        }
        for layer in bucket.layers.iter().filter(|layer| self.made_up.contains(layer)).copied().collect::<Vec<_>>() {
            self.make_layer(sequence, layer, lost_layer_name(layer))?;
        }
        self.made_up.remove(&bucket.id);
        self.names.insert(bucket.name.clone(), bucket.id);
        match self.buckets.insert(bucket.id, bucket.clone()) {
            Some(before) => {
                if before.name != bucket.name {
                    self.names.remove(&before.name);
                }
                Ok(Record::UpdateBucket(bucket))
            }
            None => Ok(Record::CreateBucket(bucket)),
        }
    }

    fn is_layer(&self, id: BucketId) -> bool {
        self.buckets.values().any(|bucket| bucket.layers.contains(&id))
    }

    /// What its objects are in is shown by other buckets alone.
    fn make_layer(&mut self, sequence: Sequence, id: BucketId, name: Bytes) -> Result<()> {
        self.made_up.remove(&id);
        let layer = bare_bucket(id, name.clone(), self.owner.clone(), BucketRole::Layer);
        if let Some(before) = self.buckets.insert(id, layer.clone()) {
            self.names.remove(&before.name);
        }
        self.names.insert(name, id);
        self.push(encoded(sequence, Record::UpdateBucket(layer)))
    }

    fn forget(&mut self, bucket: BucketId) {
        if let Some(known) = self.buckets.remove(&bucket) {
            self.names.remove(&known.name);
        }
        self.made_up.remove(&bucket);
        self.deleted.insert(bucket);
    }

    /// Makes a bucket up whose record is gone. Ids are never used again, so one that was deleted stays so.
    fn ensure(&mut self, sequence: Sequence, id: BucketId, created_ms: u64) -> Result<()> {
        let known = self.buckets.contains_key(&id) || self.deleted.contains(&id);
        if known || planted::is(Bug::SalvageWithoutBuckets) {
            return Ok(());
        }
        let (role, name) = if self.is_layer(id) {
            (BucketRole::Layer, lost_layer_name(id))
        } else {
            let base = lost_bucket_name(id);
            let names = std::iter::once(base.clone()).chain((1..).map(|n| format!("{base}-{n}")));
            let name = names.map(Bytes::from).find(|name| !self.names.contains_key(name)).unwrap_or_default();
            self.made_up.insert(id);
            (BucketRole::Bucket, name)
        };
        self.names.insert(name.clone(), id);
        let bucket = Bucket { created_ms, ..bare_bucket(id, name, self.owner.clone(), role) };
        self.buckets.insert(id, bucket.clone());
        self.push(encoded(sequence, Record::CreateBucket(bucket)))
    }

    fn push(&mut self, entry: Entry) -> Result<()> {
        self.bytes += entry.payload.len();
        self.entries.push(entry);
        if self.entries.len() >= PIECE_RECORDS || self.bytes >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.bytes = 0;
        let mut entries = std::mem::take(&mut self.entries);
        if entries.is_empty() {
            return Ok(());
        }
        if planted::is(Bug::SalvageOldestWins) {
            let mut seen = HashSet::new();
            entries.retain(|entry| match &entry.record {
                Record::PutVersion(version) => seen.insert((version.bucket, version.key.clone())),
                _ => true,
            });
        }
        if planted::is(Bug::SalvageWithoutUpdates) {
            entries.retain(|entry| !matches!(entry.record, Record::UpdateVersion { .. }));
        }
        let applied: Vec<Applied<'_>> = entries.iter().map(Entry::as_applied).collect();
        // Nobody follows this index.
        let position = LogPosition::detached(self.outcome.last);
        self.writer.apply(&applied, &position.encode())
    }

    /// What the layers are whose records are lost: that can be told only when everything was read.
    fn know_layers(&mut self) -> Result<()> {
        let is_bare = |bucket: &&Bucket| {
            let is_layer = bucket.role == BucketRole::Layer && bucket.name == lost_layer_name(bucket.id);
            is_layer || self.made_up.contains(&bucket.id)
        };
        let bare: Vec<BucketId> = self.buckets.values().filter(is_bare).map(|bucket| bucket.id).collect();
        let buckets = self.buckets.values().filter(|bucket| !bare.contains(&bucket.id));
        let known = KnownLayers {
            buckets: buckets.map(|bucket| (bucket.id, bucket)).collect(),
            created: &|layer| self.layers.contains(&layer),
        };
        let traces = |id: &BucketId| self.traces.get(id).copied().unwrap_or_default();
        let layers: Vec<Bucket> = bare.iter().filter_map(|id| known.lost_layer(*id, traces(id))).collect();
        for layer in layers {
            let layer = Bucket { owner: self.owner.clone(), ..layer };
            self.made_up.remove(&layer.id);
            self.buckets.insert(layer.id, layer.clone());
            self.push(encoded(self.outcome.last, Record::UpdateBucket(layer)))?;
        }
        Ok(())
    }

    /// Nobody writes, but what a bucket with versioning shows is looked for in a stack that has both of these layers.
    fn push_written(&mut self, bucket: &mut Bucket, next: &mut u64) -> Result<()> {
        if bucket.versioning == Versioning::Unversioned {
            return Ok(());
        }
        for layer in fresh_layers(bucket, BucketId(*next)) {
            bucket.layers.insert(0, layer.id);
            *next += 1;
            self.push(encoded(self.outcome.last, Record::CreateBucket(layer)))?;
        }
        Ok(())
    }

    /// As a repair does it.
    fn stacks(&mut self) -> Result<()> {
        self.know_layers()?;
        let repaired = repaired_stacks(self.buckets.values());
        let lost = lost_layers(self.buckets.values(), &repaired, |layer| self.filled.contains(&layer));
        let lost: Vec<Bucket> = lost.into_iter().cloned().collect();
        let mut next = self.outcome.last + 1;
        for stack in repaired {
            let Some(bucket) = self.buckets.get(&stack.bucket) else { continue };
            let mut bucket = Bucket { layers: stack.layers, versioning: stack.versioning, ..bucket.clone() };
            if stack.needs_top {
                self.push_written(&mut bucket, &mut next)?;
            }
            self.push(encoded(self.outcome.last, Record::UpdateBucket(bucket)))?;
        }
        for layer in lost {
            let mut made_up = bucket_of_lost(&layer, BucketId(next), vec![layer.id]);
            next += 1;
            self.push_written(&mut made_up, &mut next)?;
            self.made_up.insert(made_up.id);
            self.buckets.insert(made_up.id, made_up.clone());
            self.push(encoded(self.outcome.last, Record::CreateBucket(made_up)))?;
        }
        Ok(())
    }

    fn end(mut self) -> Result<ReplayOutcome> {
        self.stacks()?;
        self.flush()?;
        self.writer.end_salvage()?;
        let text = |bucket: &Bucket| String::from_utf8_lossy(&bucket.name).into_owned();
        let name = |id: &BucketId| self.buckets.get(id).map(text);
        self.outcome.made_up = self.made_up.iter().filter_map(name).collect();
        self.outcome.condemned.sort_unstable();
        Ok(self.outcome)
    }
}

impl Entry {
    fn as_applied(&self) -> Applied<'_> {
        Applied {
            sequence: self.sequence,
            kind: self.kind,
            record: &self.record,
            payload: &self.payload,
            location: self.location,
        }
    }
}

fn encoded(sequence: Sequence, record: Record) -> Entry {
    let mut payload = Vec::new();
    let kind = record::encode(&record, &mut payload);
    Entry { sequence, kind, payload: payload.into(), record, location: None }
}

/// A version that was completed twice: a batch that failed is there as well.
fn as_put(sequence: Sequence, version: Version) -> Entry {
    encoded(sequence, Record::PutVersion(version))
}
