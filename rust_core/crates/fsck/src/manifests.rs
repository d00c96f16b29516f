//! Every version, upload and part that an index has, and a list of those that cannot be read whole.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Loss;
use super::stacks::reported_names;
use orcas_base::error::Result;
use orcas_index::{Index, UploadFrom, UploadPart};
use orcas_record::{self as record, BucketId, Part, Record, Sequence, Upload, UploadId, Version, VersionId};
use orcas_store::{part_of, upload_of, version_of};

/// Rows read at a time.
const PAGE: usize = 2_048;

/// Asked before each page; an error ends the walk.
type GoOn<'a> = &'a dyn Fn() -> Result<()>;

/// Shows every version in the order of the sequences.
///
/// # Errors
/// When the index cannot be read, and what `go_on` and `visit` return.
pub(super) fn each_version(
    index: &Index,
    go_on: GoOn<'_>,
    visit: &mut dyn FnMut(Sequence, Result<Version>) -> Result<()>,
) -> Result<()> {
    let mut after = 0;
    loop {
        go_on()?;
        let page = index.read()?.versions_after(after, PAGE)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.sequence;
        page.iter().try_for_each(|stored| visit(stored.sequence, version_of(stored)))?;
    }
}

/// An upload that is not completed.
pub(super) struct OpenUpload {
    pub bucket: BucketId,
    pub key: Bytes,
    pub id: UploadId,
    initiated_ms: u64,
    /// The sequence of the CreateUpload record.
    pub sequence: Sequence,
    pub upload: Result<Upload>,
}

/// Shows every upload that is not completed.
///
/// # Errors
/// When the index cannot be read, and what `go_on` returns.
pub(super) fn each_upload(index: &Index, go_on: GoOn<'_>, visit: &mut dyn FnMut(&OpenUpload)) -> Result<()> {
    for bucket in index.read()?.buckets()? {
        let Ok(Record::CreateBucket(bucket) | Record::UpdateBucket(bucket)) =
            record::decode(bucket.kind, &bucket.record)
        else {
            continue;
        };
        let mut last: Option<OpenUpload> = None;
        loop {
            go_on()?;
            let mut page = Vec::new();
            let from = last.as_ref().map_or(UploadFrom::Key(b""), |upload| UploadFrom::AfterUpload {
                key: &upload.key,
                initiated_ms: upload.initiated_ms,
                id: upload.id,
            });
            index.read()?.scan_uploads(bucket.id, from, None, PAGE, &mut |row| {
                let key = Bytes::copy_from_slice(row.key);
                let (initiated_ms, sequence) = (row.initiated_ms, row.sequence);
                let upload = upload_of(row.kind, &Bytes::copy_from_slice(row.record));
                page.push(OpenUpload { bucket: bucket.id, key, id: row.id, initiated_ms, sequence, upload });
                true
            })?;
            page.iter().for_each(&mut *visit);
            last = page.pop();
            if last.is_none() {
                break;
            }
        }
    }
    Ok(())
}

/// Shows every part of an upload that is not completed.
///
/// # Errors
/// As [`each_version`].
pub(super) fn each_part(
    index: &Index,
    go_on: GoOn<'_>,
    visit: &mut dyn FnMut(&UploadPart, Result<Part>) -> Result<()>,
) -> Result<()> {
    let mut after = None;
    loop {
        go_on()?;
        let page = index.read()?.parts_after(after, PAGE)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some((last.upload, last.part.number));
        page.iter().try_for_each(|found| visit(found, part_of(&found.part.part)))?;
    }
}

/// What is lost, by the names that users know.
pub(super) struct Losses {
    names: BTreeMap<BucketId, String>,
    pub listed: Vec<Loss>,
    pub total: u64,
    listed_max: usize,
}

impl Losses {
    /// # Errors
    /// When the index cannot be read.
    pub fn new(index: &Index, listed_max: usize) -> Result<Self> {
        let mut buckets = Vec::new();
        for stored in index.read()?.buckets()? {
            if let Ok(Record::CreateBucket(bucket) | Record::UpdateBucket(bucket)) =
                record::decode(stored.kind, &stored.record)
            {
                buckets.push(bucket);
            }
        }
        let names = reported_names(&buckets);
        Ok(Self { names, listed: Vec::new(), total: 0, listed_max })
    }

    pub fn version(&mut self, version: &Version, reason: &str) {
        let version_id = match version.version_id {
            VersionId::Null => None,
            VersionId::Named(id) => Some(hexadecimal(&id)),
        };
        self.add((version.bucket, &version.key), (version_id, None), version.size, reason);
    }

    pub fn upload(&mut self, upload: &OpenUpload, reason: &str) {
        self.add((upload.bucket, &upload.key), (None, Some(hexadecimal(&upload.id.0))), 0, reason);
    }

    pub fn part(&mut self, found: &UploadPart, part: &Part, reason: &str) {
        let upload = format!("{}/{}", hexadecimal(&found.upload.0), part.number);
        self.add((found.bucket, &found.key), (None, Some(upload)), part.size, reason);
    }

    fn add(
        &mut self,
        (bucket, key): (BucketId, &[u8]),
        (version_id, upload): (Option<String>, Option<String>),
        bytes: u64,
        reason: &str,
    ) {
        self.total += 1;
        if self.listed.len() < self.listed_max {
            let bucket = self.names.get(&bucket).cloned().unwrap_or_else(|| format!("bucket {}", bucket.0));
            let reason = reason.to_owned();
            self.listed.push(Loss { bucket, key: Bytes::copy_from_slice(key), version_id, upload, bytes, reason });
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        use std::fmt::Write as _;
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}
