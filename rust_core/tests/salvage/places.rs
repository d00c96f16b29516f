//! Where every object of an undamaged store stands: the frames of its records, and the chunks in packs; and what else in
//! its log says that a record ever was.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use orcas_base::block::block_count;
use orcas_fs::FileSystem;
use orcas_log::{LogSalvage, RecoveredRecord, Salvaged};
use orcas_record::placement::codec;
use orcas_record::{self as record, BucketId, BucketRole, ChunkLocation, Extent, Record, Sequence, Version, VersionId};

/// File, first byte, and the byte behind the last.
pub type Range = (String, usize, usize);

/// Bytes of a log file before its first frame, of one copy of its header, and where the second one begins.
const FILE_HEADER: usize = 4096;
const HEADER_COPY: usize = 264;
const SECOND_COPY: usize = 2048;
const FRAME_HEADER: usize = 24;
const COMMIT_FRAME: usize = 112;

/// A record of the log.
#[derive(Clone)]
pub struct Frame {
    pub sequence: Sequence,
    pub place: Range,
}

/// What one commit record covers.
pub struct Batch {
    pub commit: Range,
    pub records: Vec<Range>,
}

#[derive(Default)]
pub struct Places {
    /// Of the current version of each key.
    pub objects: BTreeMap<(BucketId, Bytes), Vec<Range>>,
    /// Of every version with the records of its attributes; a delete marker has its record only.
    pub versions: BTreeMap<(BucketId, Bytes, VersionId), Vec<Range>>,
    /// The last change of the attributes of each version.
    pub updates: BTreeMap<(BucketId, Bytes, VersionId), Frame>,
    /// To which each key owes its state: the record of its current version, or the one that ended the last.
    pub last: BTreeMap<(BucketId, Bytes), Frame>,
    /// All of them, so that it can be told whether one is left.
    pub records: Vec<Frame>,
    /// Those that create, change or delete buckets, layers and snapshots.
    pub buckets: Vec<Frame>,
    pub layer_names: BTreeMap<BucketId, String>,
    /// Copies of headers, and the last record of which each says that it was there.
    pub headers: Vec<Frame>,
    /// Of all log files, whether or not they count.
    pub batches: Vec<Batch>,
}

#[derive(Default)]
struct Reading {
    blobs: HashMap<Sequence, Vec<Range>>,
    segments: HashMap<Sequence, (Range, Vec<Extent>)>,
    versions: HashMap<(BucketId, Bytes, VersionId), (Frame, Version)>,
    updates: BTreeMap<(BucketId, Bytes, VersionId), Frame>,
    last: BTreeMap<(BucketId, Bytes), Frame>,
    records: Vec<Frame>,
    buckets: Vec<Frame>,
    layer_names: BTreeMap<BucketId, String>,
}

fn frame(record: &RecoveredRecord) -> Range {
    let (file, offset) = codec::in_log_parts(record.at);
    let from = offset as usize;
    let length = FRAME_HEADER + 4 * block_count(record.payload.len()) + record.payload.len();
    (format!("log/{file:020}.log"), from, from + length)
}

fn chunk(at: ChunkLocation, length: u32) -> Range {
    let (pack, offset) = codec::chunk_parts(at);
    let from = offset as usize;
    let front = 64 + 4 * block_count(length as usize);
    (format!("chunks/{pack:020}.pack"), from, from + front + length as usize)
}

impl Places {
    /// Of the store in `data`, whose files are these.
    pub fn of(fs: Arc<dyn FileSystem>, data: &Path, files: &BTreeMap<String, Vec<u8>>) -> Self {
        let keys = &files["store.keys"];
        let (id, key) = (keys[12..28].try_into().unwrap(), keys[28..60].try_into().unwrap());
        let log = LogSalvage::survey(fs, &data.join("log"), id, Some(&key)).unwrap();
        let mut reading = Reading::default();
        log.read(&mut |found| {
            match found {
                Salvaged::Record(record) => reading.take(&record),
                Salvaged::Gone(..) | Salvaged::Unreadable { .. } | Salvaged::Torn { .. } => {
                    panic!("the store is damaged")
                }
            }
            Ok(())
        })
        .unwrap();
        let mut places = reading.end();
        for (name, bytes) in files.iter().filter(|(name, bytes)| name.starts_with("log/") && bytes.len() > FILE_HEADER)
        {
            places.headers.extend(headers(name, bytes));
            places.batches.extend(batches(name, bytes));
        }
        places
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// A plain file says with which record the one before it ends, a compacted one with which record its run does.
fn headers(name: &str, bytes: &[u8]) -> impl Iterator<Item = Frame> {
    let sequence = if bytes.starts_with(b"ORCASCMP") { number(bytes, 128) } else { number(bytes, 72) };
    let copy = move |at| Frame { sequence, place: (name.to_owned(), at, at + HEADER_COPY) };
    [0, SECOND_COPY].map(copy).into_iter()
}

fn batches(name: &str, bytes: &[u8]) -> Vec<Batch> {
    let (mut batches, mut records) = (Vec::new(), Vec::new());
    let mut at = FILE_HEADER;
    while at + FRAME_HEADER <= bytes.len() {
        let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        let end = match bytes[at + 5] {
            1 => at + FRAME_HEADER + 4 * block_count(length) + length,
            2 => at + COMMIT_FRAME,
            _ => break,
        };
        let place = (name.to_owned(), at, end);
        match bytes[at + 5] {
            1 => records.push(place),
            _ => batches.push(Batch { commit: place, records: std::mem::take(&mut records) }),
        }
        at = end.next_multiple_of(8);
    }
    batches
}

impl Reading {
    fn take(&mut self, found: &RecoveredRecord) {
        let place = frame(found);
        let last = Frame { sequence: found.sequence, place: place.clone() };
        self.records.push(last.clone());
        match record::decode(found.kind, &found.payload).unwrap() {
            Record::Content { .. } => drop(self.blobs.insert(found.sequence, vec![place])),
            Record::Chunk { at, length, .. } => {
                self.blobs.insert(found.sequence, vec![chunk(at, length), place]);
            }
            Record::MoveChunks { moves } => {
                for moved in moves {
                    let Some(ranges) = self.blobs.get_mut(&moved.blob) else { continue };
                    let front = ranges[0].clone();
                    let length = front.2 - front.1;
                    let (pack, offset) = codec::chunk_parts(moved.to);
                    ranges[0] = (format!("chunks/{pack:020}.pack"), offset as usize, 0);
                    ranges[0].2 = ranges[0].1 + length;
                    ranges.push(place.clone());
                }
            }
            Record::Segment { extents } => drop(self.segments.insert(found.sequence, (place, extents))),
            Record::PutVersion(version) | Record::CompleteUpload { version, .. } => {
                self.last.insert((version.bucket, version.key.clone()), last.clone());
                self.put(last, version);
            }
            Record::MoveVersion { from_bucket, from_key, version } => {
                self.versions.remove(&(from_bucket, from_key.clone(), version.version_id));
                self.last.insert((from_bucket, from_key), last.clone());
                self.last.insert((version.bucket, version.key.clone()), last.clone());
                self.put(last, version);
            }
            Record::UpdateVersion { bucket, key, version_id, .. } => {
                self.updates.insert((bucket, key, version_id), last);
            }
            Record::DeleteVersion { bucket, key, version_id } => {
                self.versions.remove(&(bucket, key.clone(), version_id));
                self.updates.remove(&(bucket, key.clone(), version_id));
                self.last.insert((bucket, key), last);
            }
            Record::CreateBucket(bucket) | Record::UpdateBucket(bucket) => {
                self.buckets.push(last);
                if matches!(bucket.role, BucketRole::Layer | BucketRole::Amendments) {
                    self.layer_names.insert(bucket.id, String::from_utf8_lossy(&bucket.name).into_owned());
                }
            }
            Record::DeleteBucket { .. } => self.buckets.push(last),
            _ => {}
        }
    }

    fn put(&mut self, frame: Frame, version: Version) {
        let name = (version.bucket, version.key.clone(), version.version_id);
        self.updates.remove(&name);
        self.versions.insert(name, (frame, version));
    }

    fn end(self) -> Places {
        let (mut objects, mut versions) = (BTreeMap::new(), BTreeMap::new());
        let mut newest: BTreeMap<(BucketId, Bytes), Sequence> = BTreeMap::new();
        for (frame, version) in self.versions.values() {
            let sequence = newest.entry((version.bucket, version.key.clone())).or_default();
            *sequence = frame.sequence.max(*sequence);
        }
        for (name, (frame, version)) in &self.versions {
            let mut ranges = vec![frame.place.clone()];
            self.add(&version.manifest, &mut ranges);
            let key = (version.bucket, version.key.clone());
            let is_current = newest[&key] == frame.sequence && !version.delete_marker;
            ranges.extend(self.updates.get(name).map(|frame| frame.place.clone()));
            if is_current {
                // Also of the record that removed what hid it.
                let last = self.last[&key].place.clone();
                objects.insert(key, ranges.iter().cloned().chain([last]).collect());
            }
            versions.insert(name.clone(), ranges);
        }
        let Self { last, records, buckets, layer_names, updates, .. } = self;
        Places { objects, versions, updates, last, records, buckets, layer_names, ..Places::default() }
    }

    fn add(&self, manifest: &[Extent], ranges: &mut Vec<Range>) {
        for extent in manifest {
            match extent {
                Extent::Inline(_) => {}
                Extent::Blob { blob, .. } => ranges.extend(self.blobs[blob].iter().cloned()),
                Extent::Segment { segment, .. } => {
                    let (place, extents) = &self.segments[segment];
                    ranges.push(place.clone());
                    self.add(extents, ranges);
                }
            }
        }
    }
}
