//! How fast the index applies, lists and finds. Prints one line a figure; every load is bounded by `OBJECTS`.
//!
//! `cargo bench --bench index`, or `cargo test --bench index` for the optimisation level of the tests.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "files of databases are removed again")]

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use orcas_checksum::Etag;
use orcas_index::{Applied, Index, IndexOptions, ListedRow, Reader, Writer};
use orcas_record::placement::codec;
use orcas_record::{
    Attributes, BlobLocation, Bucket, BucketId, BucketRole, BucketSettings, Extent, Fingerprint, ObjectHeaders, Record,
    Version, VersionId, Versioning, encode,
};

const OBJECTS: u64 = 1_000_000;
const SMALL: u64 = 2_000;
/// A checkpoint for each 64 MiB of WAL, as the engine does.
const WAL_PAGES: u64 = 16_384;
const CONTENT_KIND: u8 = 4;
const VERSION_KIND: u8 = 7;

fn main() {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, order) in [("ordered keys", false), ("random keys", true)] {
        let index = open(&dir.path().join(format!("bulk-{order}.db")));
        let mut load = Load::new(&index, order);
        load.writer.begin_bulk().expect("begun");
        let took = load.put(1, OBJECTS, 4096);
        let ended = timed(|| load.writer.end_bulk().expect("ended"));
        rate(&format!("bulk apply, {name}"), OBJECTS, took + ended);
        drop(load);
        std::fs::remove_file(dir.path().join(format!("bulk-{order}.db"))).expect("removed");
    }
    for group in [64, 512, 4096] {
        let path = dir.path().join(format!("batches-{group}.db"));
        let index = open(&path);
        let mut load = Load::new(&index, true);
        let took = load.put(1, 200_000, group);
        rate(&format!("apply, random keys, {group} puts a transaction, empty index"), 200_000, took);
        drop(load);
    }
    let index = open(&dir.path().join("index.db"));
    let mut load = Load::new(&index, true);
    load.put(2, SMALL, 4096);
    rate("apply, random keys, 4096 puts a transaction", OBJECTS, load.put(1, OBJECTS, 4096));
    rate("the same, every key replaced", 200_000, load.put(1, 200_000, 4096));
    println!("{:<64} {:?}", "checkpoints meanwhile", load.checkpoints);
    let rest = timed(|| assert_eq!(index.checkpoint().expect("moved").pending, 0));
    println!("{:<64} {rest:?}", "checkpoint of what is left");
    reads(&index, &load);
    pages(&index);

    let took = timed(|| load.delete(1, OBJECTS - SMALL, 4096));
    rate("deletes, 4096 a transaction", OBJECTS - SMALL, took);
    index.checkpoint().expect("moved");
    let reader = index.read().expect("a reader");
    let page = best(|| page(&reader, 1, b""));
    println!("{:<64} {page:?}", "page of 1,000 after 998,000 deletes");
}

fn open(path: &Path) -> Index {
    let options = IndexOptions {
        path: Some(path.to_owned()),
        max_open: 25,
        max_idle: 10,
        lifetime: Duration::from_secs(3600),
        synchronous_off: false,
    };
    Index::open(options, [1; 16]).expect("an index")
}

fn timed(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

/// The shortest of some runs: the cost of the work without the machine's other guests.
fn best(mut run: impl FnMut()) -> Duration {
    (0..100).map(|_| timed(&mut run)).min().unwrap_or_default()
}

fn rate(name: &str, count: u64, took: Duration) {
    println!("{name:<64} {:.0}/s ({took:?})", count as f64 / took.as_secs_f64());
}

/// Four keys a directory, so that 1,000,000 objects are 250,000 common prefixes.
fn key(number: u64, random: bool) -> Bytes {
    let dir = if random { (number / 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) } else { number / 4 };
    Bytes::from(format!("data/{dir:016x}/{:03}", number % 4))
}

struct Load<'i> {
    index: &'i Index,
    writer: Writer,
    /// What checkpoints took, which the engine runs beside the writer.
    checkpoints: Duration,
    sequence: u64,
    random: bool,
}

impl<'i> Load<'i> {
    fn new(index: &'i Index, random: bool) -> Self {
        let writer = index.writer().expect("the writer");
        let mut load = Self { index, writer, checkpoints: Duration::ZERO, sequence: 0, random };
        for id in [1, 2] {
            let bucket = Bucket {
                id: BucketId(id),
                name: Bytes::from(format!("bucket-{id}")),
                owner: Bytes::new(),
                created_ms: 0,
                location: Bytes::new(),
                versioning: Versioning::Unversioned,
                object_lock: None,
                settings: BucketSettings::default(),
                role: BucketRole::Bucket,
                layers: Vec::new(),
            };
            load.apply(&[(1, Record::CreateBucket(bucket))]);
        }
        load
    }

    fn apply(&mut self, records: &[(u8, Record)]) -> Duration {
        let payload = |record| {
            let mut payload = Vec::new();
            encode(record, &mut payload);
            Bytes::from(payload)
        };
        let payloads: Vec<_> = records.iter().map(|(_, record)| payload(record)).collect();
        let mut applied = Vec::with_capacity(records.len());
        for ((kind, record), payload) in records.iter().zip(&payloads) {
            self.sequence += 1;
            let at = BlobLocation::Log { at: codec::in_log(1, self.sequence * 1400), length: 1024 };
            let location = (*kind == CONTENT_KIND).then_some(at);
            applied.push(Applied { sequence: self.sequence, kind: *kind, record, payload, location });
        }
        timed(|| self.writer.apply(&applied, &self.sequence.to_le_bytes()).expect("applied"))
    }

    /// Puts objects, each a content and a version; the time is that of `apply` alone.
    fn put(&mut self, bucket: u64, objects: u64, group: u64) -> Duration {
        let mut took = Duration::ZERO;
        for start in (0..objects).step_by(group as usize) {
            let mut records = Vec::new();
            for number in start..objects.min(start + group) {
                let blob = self.sequence + records.len() as u64 + 1;
                records.push((
                    CONTENT_KIND,
                    Record::Content { fingerprint: fingerprint(blob), shared: true, bytes: Bytes::new(), seal: None },
                ));
                records.push((VERSION_KIND, Record::PutVersion(version(bucket, key(number, self.random), blob))));
            }
            took += self.apply(&records);
            if self.index.wal_state().expect("read").pages > WAL_PAGES {
                self.checkpoints += timed(|| assert_eq!(self.index.checkpoint().expect("moved").pending, 0));
            }
        }
        took
    }

    fn delete(&mut self, bucket: u64, objects: u64, group: u64) {
        for start in (0..objects).step_by(group as usize) {
            let records: Vec<_> = (start..objects.min(start + group))
                .map(|number| {
                    let (bucket, key) = (BucketId(bucket), key(number, self.random));
                    (8, Record::DeleteVersion { bucket, key, version_id: VersionId::Null })
                })
                .collect();
            self.apply(&records);
        }
    }
}

/// No two are alike, and they come in no order.
fn fingerprint(blob: u64) -> Fingerprint {
    let mut bytes = [0; 32];
    for (at, piece) in bytes.chunks_exact_mut(8).enumerate() {
        piece.copy_from_slice(&(blob + at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    }
    Fingerprint(bytes)
}

fn version(bucket: u64, key: Bytes, blob: u64) -> Version {
    Version {
        bucket: BucketId(bucket),
        key,
        version_id: VersionId::Null,
        delete_marker: false,
        modified_ms: 1_700_000_000_000,
        size: 1024,
        etag: Etag { md5: [7; 16], parts: 0 },
        sha256: None,
        checksum: None,
        headers: ObjectHeaders {
            content_type: Some(Bytes::from_static(b"application/octet-stream")),
            user: vec![(Bytes::from_static(b"made-by"), Bytes::from_static(b"a client that says so"))],
            ..ObjectHeaders::default()
        },
        attributes: Attributes::default(),
        parts: Vec::new(),
        manifest: vec![Extent::Blob { blob, start: 0, length: 1024 }],
    }
}

fn reads(index: &Index, load: &Load<'_>) {
    let reader = index.read().expect("a reader");
    let hot: Vec<_> = (0..500).map(|number| key(number, true)).collect();
    let each = |took: Duration, count: usize| took / count as u32;
    let objects = best(|| {
        for key in &hot {
            assert!(reader.object(BucketId(1), key).expect("read").is_some());
        }
    });
    println!("{:<64} {:?}", "object, 500 hot keys", each(objects, hot.len()));
    let blobs = best(|| {
        for number in 0..500 {
            assert!(reader.blob(load.sequence - 1 - 2 * number).expect("read").is_some());
        }
    });
    println!("{:<64} {:?}", "blob, 500 hot sequences", each(blobs, 500));
    let all: Vec<_> = (0..20_000).map(|number| key(number * 49 % OBJECTS, true)).collect();
    let spread = timed(|| {
        for key in &all {
            assert!(reader.object(BucketId(1), key).expect("read").is_some());
        }
    });
    println!("{:<64} {:?}", "object, 20,000 keys all over, in the kernel's cache", each(spread, all.len()));
    let taken = best(|| {
        for _ in 0..100 {
            drop(index.read().expect("a reader"));
        }
    });
    println!("{:<64} {:?}", "a reader out and back", each(taken, 100));
    let begun = timed(|| {
        for _ in 0..1000 {
            drop(index.read().expect("a reader").begin().expect("begun"));
        }
    });
    println!("{:<64} {:?}", "the same with a read transaction", each(begun, 1000));
}

fn pages(index: &Index) {
    let reader = index.read().expect("a reader");
    let small = best(|| page(&reader, 2, b""));
    let large = best(|| page(&reader, 1, b"data/8"));
    println!("{:<64} {small:?}", "page of 1,000, bucket of 2,000");
    println!("{:<64} {large:?}", "page of 1,000, bucket of 1,000,000");
    let prefixes = |bucket| {
        best(|| {
            let mut from = b"data/".to_vec();
            for _ in 0..500 {
                let mut key = Vec::new();
                let mut keep = |row: ListedRow<'_>| {
                    key = row.key.into_owned();
                    true
                };
                reader.scan_current(BucketId(bucket), &from, true, None, 1, &mut keep).expect("read");
                from = key[..b"data/".len() + 17].to_vec();
                *from.last_mut().expect("not empty") = b'/' + 1;
            }
        }) * 2
    };
    println!("{:<64} {:?}", "page of 1,000 common prefixes, bucket of 2,000", prefixes(2));
    println!("{:<64} {:?}", "page of 1,000 common prefixes, bucket of 1,000,000", prefixes(1));
}

fn page(reader: &Reader<'_>, bucket: u64, from: &[u8]) {
    let mut seen = 0;
    let visit = &mut |_: orcas_index::ListedRow<'_>| {
        seen += 1;
        true
    };
    reader.scan_current(BucketId(bucket), from, true, None, 1000, visit).expect("a page");
    assert_eq!(seen, 1000);
}
