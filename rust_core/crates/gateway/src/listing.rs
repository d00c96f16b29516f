//! ListBuckets, ListObjects (both versions), ListMultipartUploads and ListParts: pages read from the engine and written
//! as documents, on a worker.

use std::sync::Arc;

use bytes::Bytes;

use super::answer::{Answer, HeaderBlock};
use super::buckets::region_of;
use super::problem::Problem;
use super::request::{Input, Request, Step};
use super::uploads::{parse_upload_id, upload_id_text};
use orcas_base::buffers::Buffer;
use orcas_checksum::{Etag, ObjectChecksum};
use orcas_engine::{self as engine, Listed, PageSink};
use orcas_record::{Bucket, UploadId};
use orcas_s3::ErrorCode;
use orcas_s3::query::{
    KeySelection, ListBucketsQuery, ListObjectsQuery, ListObjectsV2Query, ListPartsQuery, ListUploadsQuery,
};
use orcas_s3::xml::lists::{
    BucketList, ObjectEntry, ObjectList, Owner, PartEntry, PartList, UploadEntry, UploadList, page_room,
};

pub struct ListBuckets {
    pub query: ListBucketsQuery,
    pub owner: String,
}

pub struct ListObjects {
    pub bucket: Arc<Bucket>,
    pub query: ObjectsQuery,
}

pub enum ObjectsQuery {
    V1(ListObjectsQuery),
    V2(ListObjectsV2Query),
}

pub struct ListUploads {
    pub bucket: Arc<Bucket>,
    pub query: ListUploadsQuery,
}

pub struct ListParts {
    pub bucket: Arc<Bucket>,
    pub key: Bytes,
    pub upload: UploadId,
    pub query: ListPartsQuery,
}

impl ListObjects {
    fn begin(&self, out: Vec<u8>) -> ObjectList<'_> {
        let (name, owner) = (name_of(&self.bucket), owner_of(&self.bucket));
        match &self.query {
            ObjectsQuery::V1(query) => ObjectList::v1(out, name, query, owner),
            ObjectsQuery::V2(query) => ObjectList::v2(out, name, query, owner),
        }
    }
}

/// A page on its way into its document.
struct PageDocument<'a> {
    input: &'a ListObjects,
    document: ObjectList<'a>,
}

impl PageSink for PageDocument<'_> {
    fn entry(&mut self, key: &[u8], listed: &Listed) {
        self.document.entry(&ObjectEntry {
            key,
            modified_ms: time(listed.modified_ms),
            etag: listed.etag,
            size: listed.size,
            checksum: listed.checksum,
        });
    }

    fn prefix(&mut self, prefix: &[u8]) {
        self.document.prefix(prefix);
    }

    fn restart(&mut self) {
        self.document = self.input.begin(Vec::new());
    }
}

/// The name shown with an owner's id.
const DISPLAY_NAME: &str = "root";

fn owner_of(bucket: &Bucket) -> Owner<'_> {
    Owner { id: std::str::from_utf8(&bucket.owner).unwrap_or_default(), display_name: DISPLAY_NAME }
}

fn name_of(bucket: &Bucket) -> &str {
    std::str::from_utf8(&bucket.name).unwrap_or_default()
}

fn time(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

impl Request {
    /// From memory.
    pub(super) fn list_buckets(&self, input: &ListBuckets) -> Answer {
        let query = &input.query;
        let after = query.continuation.as_ref().map(|token| token.after.as_slice());
        let owner = Owner { id: &input.owner, display_name: DISPLAY_NAME };
        let mut document = BucketList::begin(query, &owner);
        let all = self.lane.engine.buckets();
        let mut matching = all.iter().filter(|bucket| {
            bucket.owner == input.owner.as_bytes()
                && bucket.name.starts_with(&query.prefix)
                && after.is_none_or(|after| bucket.name.as_ref() > after)
                && query.region.as_ref().is_none_or(|region| region_of(&self.lane, bucket).as_bytes() == region)
        });
        let mut last = None;
        for bucket in matching.by_ref().take(query.max.map_or(usize::MAX, usize::from)) {
            document.entry(name_of(bucket), time(bucket.created_ms), region_of(&self.lane, bucket));
            last = Some(bucket);
        }
        let next = last.filter(|_| matching.next().is_some()).map(|bucket| name_of(bucket));
        self.envelope.document(200, HeaderBlock::new(), document.end(next))
    }

    /// Blocks.
    pub(super) fn list(&self) -> Result<Step, Problem> {
        let document = match &self.input {
            Input::ListObjects(input) => self.list_objects(input)?,
            Input::ListUploads(input) => self.list_uploads(input)?.into(),
            Input::ListParts(input) => self.list_parts(input)?.into(),
            _ => return Err(Problem::internal("a listing was lost")),
        };
        Ok(self.envelope.document(200, HeaderBlock::new(), document).into())
    }

    fn list_objects(&self, input: &ListObjects) -> Result<Buffer, Problem> {
        let bucket = &input.bucket;
        let (keys, after): (&KeySelection, Option<&[u8]>) = match &input.query {
            ObjectsQuery::V1(query) => (&query.keys, query.marker.as_deref()),
            ObjectsQuery::V2(query) => (&query.keys, query.after()),
        };
        let list = engine::ListObjects {
            bucket: bucket.id,
            prefix: Bytes::copy_from_slice(&keys.prefix),
            delimiter: keys.delimiter.as_deref().map(Bytes::copy_from_slice),
            after: after.map(Bytes::copy_from_slice),
            max_keys: usize::from(keys.max),
        };
        let mut buffer = self.lane.buffers.take(page_room(keys.max));
        let mut page = PageDocument { input, document: input.begin(std::mem::take(&mut *buffer)) };
        let next = self.lane.engine.list_objects_to(&list, &mut page)?;
        *buffer = page.document.end(next.as_deref(), keys.delimiter.is_some());
        Ok(buffer)
    }

    fn list_uploads(&self, input: &ListUploads) -> Result<Vec<u8>, Problem> {
        let (bucket, query) = (&input.bucket, &input.query);
        let page = self.lane.engine.list_uploads(&engine::ListUploads {
            bucket: bucket.id,
            prefix: Bytes::copy_from_slice(&query.keys.prefix),
            delimiter: query.keys.delimiter.as_deref().map(Bytes::copy_from_slice),
            after_key: query.key_marker.as_deref().map(Bytes::copy_from_slice),
            after_upload: query.upload_id_marker.as_deref().map(parse_upload_id).transpose()?,
            max_uploads: usize::from(query.keys.max),
        })?;
        let mut document = UploadList::begin(name_of(bucket), query, owner_of(bucket));
        for upload in &page.entries {
            document.entry(&UploadEntry {
                key: &upload.key,
                upload_id: &upload_id_text(upload.id),
                initiated_ms: time(upload.initiated_ms),
                checksum: upload.checksum,
            });
        }
        page.prefixes.iter().for_each(|prefix| document.prefix(prefix));
        let last = page.last.as_ref().filter(|_| page.truncated);
        let last = last.map(|(key, id)| (key.as_ref(), id.map(upload_id_text).unwrap_or_default()));
        Ok(document.end(last.as_ref().map(|(key, id)| (*key, id.as_str()))))
    }

    fn list_parts(&self, input: &ListParts) -> Result<Vec<u8>, Problem> {
        let handle = &self.lane.engine;
        let upload = handle.upload(input.bucket.id, &input.key, input.upload)?.ok_or(ErrorCode::NoSuchUpload)?;
        let query = &input.query;
        let page = handle.list_parts(engine::ListParts {
            upload: input.upload,
            after: query.marker,
            max_parts: usize::from(query.max),
        })?;
        let owner = owner_of(&input.bucket);
        let mut document = PartList::begin(name_of(&input.bucket), &input.key, query, &owner, upload.checksum);
        for part in &page.entries {
            document.entry(&PartEntry {
                number: part.number,
                modified_ms: time(part.modified_ms),
                etag: Etag::simple(part.md5),
                size: part.size,
                checksum: part.checksum.map(ObjectChecksum::full),
            });
        }
        Ok(document.end(page.entries.last().map_or(0, |part| part.number), page.truncated))
    }
}
