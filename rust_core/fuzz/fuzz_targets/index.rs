//! The pages of the index. In a file, a change of any byte is noticed or has no effect, because pages have checksums. In
//! memory, pages have none: whatever they hold, reading ends with rows or an error.
#![cfg_attr(fuzzing, no_main)]

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use orcas_checksum::{Checksum, ChecksumAlgorithm, ChecksumType, Etag, ObjectChecksum};
use orcas_fuzz::{Input, fuzz_target};
use orcas_index::{Applied, Index, IndexOptions, PAGE_BYTES};
use orcas_record::placement::codec;
use orcas_record::*;

#[allow(dead_code, reason = "tests use more of it")]
#[path = "../../crates/record/src/tests/samples.rs"]
mod samples;

const STORE: [u8; 16] = [7; 16];
const BUCKET: BucketId = BucketId(7);
const CHANGES_MAX: usize = 16;
/// SQLite takes a shorter file for an empty one, which becomes a new index.
const SMALLEST_PAGE: usize = 512;
/// Rows of one page of results.
const ROWS: usize = 1000;
/// Bucket ids that are asked for: those below this one.
const BUCKETS: u64 = 12;

/// An index with everything that the sample records leave in it: its pages in memory and in a file, and its rows.
struct Base {
    memory: Vec<u8>,
    file: Vec<u8>,
    rows: String,
}

fn options(path: Option<&Path>) -> IndexOptions {
    let path = path.map(Path::to_owned);
    IndexOptions { path, max_open: 1, max_idle: 1, lifetime: Duration::MAX, synchronous_off: true }
}

/// Where the file stands.
fn place() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        parent.join(format!("orcas-fuzz-index-{}", std::process::id()))
    })
}

/// The sample record number `at`, made one that goes with those before it: in the first bucket, with content of its own.
/// `None` if less would be left after it.
fn fitting(mut record: Record, at: u64, upload: &mut UploadId) -> Option<Record> {
    let name = |part: u64| Bytes::from(format!("key-{part}"));
    let inline = || vec![Extent::Inline(Bytes::from_static(b"content"))];
    let id = |part: u64| [part as u8; 16];
    match &mut record {
        Record::PutVersion(version) => {
            // Three versions of a key.
            (version.bucket, version.key, version.version_id) = (BUCKET, name(at / 3), VersionId::Named(id(at)));
            version.manifest = if version.delete_marker { Vec::new() } else { inline() };
            version.attributes = Attributes::default();
        }
        Record::CreateUpload(created) => {
            *upload = UploadId(id(at));
            (created.id, created.bucket, created.key) = (*upload, BUCKET, name(at));
        }
        Record::PutPart(part) => (part.upload, part.number, part.manifest) = (*upload, at as u16, inline()),
        Record::CreatePack { pack } => *pack = codec::pack(1),
        Record::Segment { .. } | Record::Content { .. } | Record::Chunk { .. } => {}
        Record::PutDocument { bucket, .. } => *bucket = BUCKET,
        _ => return None,
    }
    Some(record)
}

fn fill(index: &Index) {
    let samples = samples::samples();
    let is_first = |record: &&Record| match record {
        Record::CreateBucket(bucket) => bucket.id == BUCKET && bucket.layers.is_empty(),
        _ => false,
    };
    let bucket = samples.iter().find(is_first).cloned();
    let mut upload = UploadId([0; 16]);
    let rest = samples.into_iter().zip(2..).filter_map(|(record, at)| fitting(record, at, &mut upload));
    for (record, sequence) in bucket.into_iter().chain(rest).zip(1..) {
        let mut payload = Vec::new();
        let kind = encode(&record, &mut payload);
        let location = match &record {
            Record::Content { bytes, .. } => {
                Some(BlobLocation::Log { at: codec::in_log(3, sequence * 8), length: bytes.len() as u32 })
            }
            _ => None,
        };
        let applied = Applied { sequence, kind, record: &record, payload: &Bytes::from(payload), location };
        let mut writer = index.writer().expect("there is no other");
        writer.apply(&[applied], &sequence.to_le_bytes()).expect("it fits");
    }
}

fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let memory = Index::open(options(None), STORE).expect("an index in memory");
        fill(&memory);
        let file = Index::open(options(Some(place())), STORE).expect("there is room");
        fill(&file);
        file.truncate_wal().expect("nobody reads");
        let rows = file.dump().expect("it was written");
        assert_eq!(memory.dump().expect("it was written"), rows);
        drop(file);
        let bytes = std::fs::read(place()).expect("it was written");
        Index::destroy(place()).expect("it was written");
        Base { memory: memory.serialize().expect("it is in memory"), file: bytes, rows }
    })
}

/// Changes bytes, writes some over, puts a page in the place of another, or cuts the end off.
fn change(pages: &mut Vec<u8>, input: &mut Input<'_>) {
    for _ in 0..CHANGES_MAX {
        if input.is_empty() {
            return;
        }
        let how = input.u8() % 8;
        let at = input.u32() as usize % pages.len().max(1);
        let length = usize::from(input.u8());
        match how {
            0..=3 => {
                if let Some(byte) = pages.get_mut(at) {
                    *byte ^= input.u8().max(1);
                }
            }
            4 | 5 => {
                for (byte, new) in pages.iter_mut().skip(at).zip(input.take(length)) {
                    *byte = *new;
                }
            }
            6 => {
                let page = PAGE_BYTES as usize;
                let (from, to) = (at / page * page, length * page);
                if pages.len() >= page && from + page <= pages.len() && to + page <= pages.len() {
                    pages.copy_within(from..from + page, to);
                }
            }
            _ => pages.truncate(at),
        }
    }
}

/// Asks for everything that readers return. Records may be any bytes; whether they decode is not of the index.
fn read(index: &Index) -> orcas_base::error::Result<()> {
    let reader = index.read()?;
    let mut stored = reader.buckets()?;
    stored.extend(reader.documents()?);
    stored.extend(reader.versions_after(Sequence::MIN, ROWS)?);
    for id in (0..BUCKETS).map(BucketId) {
        stored.extend(reader.objects(id, Bound::Unbounded, ROWS)?);
        reader.scan_current(id, b"", true, None, ROWS, &mut |_| true)?;
        reader.every_version(id, &mut |_| true)?;
        reader.counts(id)?;
        reader.bucket_is_empty(id)?;
    }
    stored.iter().for_each(|stored| drop(decode(stored.kind, &stored.record)));
    for blob in reader.blobs_after(Sequence::MIN, ROWS)? {
        reader.sealed_blob(blob.sequence)?;
        reader.blob_refs(blob.sequence)?;
        reader.blob_fingerprint(blob.sequence)?;
    }
    reader.dead_blobs(Sequence::MIN, ROWS)?;
    reader.updates_after(Sequence::MIN, ROWS)?;
    reader.parts_after(None, ROWS)?;
    reader.segments_after(Sequence::MIN, ROWS)?;
    for pack in reader.packs()? {
        reader.blobs_in_pack(pack, None, ROWS)?;
        reader.last_chunk(pack)?;
    }
    reader.pack_usage()?;
    reader.log_files()?;
    reader.totals()?;
    reader.all_counts()?;
    reader.row_counts()?;
    reader.position()?;
    Ok(())
}

fn in_memory(mut input: Input<'_>) {
    let mut pages = base().memory.clone();
    change(&mut pages, &mut input);
    let Ok(index) = Index::open_serialized(&pages, STORE) else { return };
    let _ = read(&index);
    let _ = index.dump();
    let _ = index.quick_check();
}

fn in_a_file(mut input: Input<'_>) {
    let base = base();
    let mut pages = base.file.clone();
    change(&mut pages, &mut input);
    std::fs::write(place(), &pages).expect("there is room for a few pages");
    let opened = Index::open(options(Some(place())), STORE);
    if let Ok(index) = opened
        && let Ok(rows) = index.dump()
        && pages.len() >= SMALLEST_PAGE
    {
        assert_eq!(rows, base.rows, "a page that has changed was used");
        read(&index).expect("as sound as its rows");
    }
    Index::destroy(place()).expect("it was written");
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    if input.u8() & 1 == 0 { in_memory(input) } else { in_a_file(input) }
});
