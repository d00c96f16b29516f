//! Tests of the index: every kind of record, exact counts, order, batching, pools, damage.

mod damage;
mod history;
mod listing;
mod model;
mod rebuild;
mod reclaim;
mod records;
mod state;
mod store;

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use super::*;
use orcas_base::error::{Error, Result};
use orcas_checksum::Etag;
use orcas_record::placement::codec;
use orcas_record::*;

const STORE: [u8; 16] = [7; 16];

fn memory_options() -> IndexOptions {
    IndexOptions { path: None, max_open: 4, max_idle: 2, lifetime: Duration::from_secs(3600), synchronous_off: true }
}

fn file_options(path: &Path) -> IndexOptions {
    IndexOptions { path: Some(path.to_owned()), ..memory_options() }
}

fn memory() -> Index {
    Index::open(memory_options(), STORE).expect("an index in memory")
}

/// A record as the engine passes it.
#[derive(Clone, Debug)]
struct Owned {
    sequence: Sequence,
    kind: u8,
    record: Record,
    payload: Bytes,
    location: Option<BlobLocation>,
}

impl Owned {
    fn new(sequence: Sequence, record: Record) -> Self {
        let location = match &record {
            Record::Content { bytes, .. } => {
                Some(BlobLocation::Log { at: codec::in_log(3, sequence * 8), length: bytes.len() as u32 })
            }
            _ => None,
        };
        let mut payload = Vec::new();
        let kind = encode(&record, &mut payload);
        Self { sequence, kind, payload: payload.into(), record, location }
    }

    fn applied(&self) -> Applied<'_> {
        Applied {
            sequence: self.sequence,
            kind: self.kind,
            record: &self.record,
            payload: &self.payload,
            location: self.location,
        }
    }
}

/// Assigns sequences from 1 on.
fn sequenced(records: impl IntoIterator<Item = Record>) -> Vec<Owned> {
    records.into_iter().zip(1..).map(|(record, sequence)| Owned::new(sequence, record)).collect()
}

fn position_of(records: &[Owned]) -> Vec<u8> {
    records.last().map_or(0, |last| last.sequence).to_le_bytes().to_vec()
}

fn apply(writer: &mut Writer, records: &[Owned]) -> Result<()> {
    let applied: Vec<_> = records.iter().map(Owned::applied).collect();
    writer.apply(&applied, &position_of(records))
}

fn applied(records: &[Owned]) -> Index {
    let index = memory();
    apply(&mut index.writer().expect("the writer"), records).expect("applied");
    index
}

fn bucket(id: u64) -> Record {
    Record::CreateBucket(Bucket {
        id: BucketId(id),
        name: Bytes::from(format!("bucket-{id}")),
        owner: Bytes::from_static(b"root"),
        created_ms: 1,
        location: Bytes::new(),
        versioning: Versioning::Unversioned,
        object_lock: None,
        settings: BucketSettings::default(),
        role: BucketRole::Bucket,
        layers: Vec::new(),
    })
}

fn version(bucket: u64, key: &[u8], size: u64) -> Version {
    Version {
        bucket: BucketId(bucket),
        key: Bytes::copy_from_slice(key),
        version_id: VersionId::Null,
        delete_marker: false,
        modified_ms: 1_700_000_000_000 + size % 1000,
        size,
        etag: Etag { md5: [size as u8; 16], parts: 0 },
        sha256: None,
        checksum: None,
        headers: ObjectHeaders::default(),
        attributes: Attributes::default(),
        parts: Vec::new(),
        manifest: Vec::new(),
    }
}

fn put(bucket: u64, key: &[u8], size: u64) -> Record {
    Record::PutVersion(version(bucket, key, size))
}

fn delete(bucket: u64, key: &[u8]) -> Record {
    Record::DeleteVersion { bucket: BucketId(bucket), key: Bytes::copy_from_slice(key), version_id: VersionId::Null }
}

fn keys(index: &Index, bucket: u64, from: &[u8], inclusive: bool, until: Option<&[u8]>, limit: usize) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let reader = index.read().expect("a reader");
    reader
        .scan_current(BucketId(bucket), from, inclusive, until, limit, &mut |row| {
            keys.push(row.key.to_vec());
            true
        })
        .expect("a page");
    keys
}
