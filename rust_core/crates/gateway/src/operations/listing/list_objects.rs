//! ListObjects and ListObjectsV2, which differ in the names of query and document: a page read from the engine and written
//! as it is read, on a worker.

use std::sync::Arc;

use bytes::Bytes;

use crate::admission::request_context::RequestContext;
use crate::buckets::pages::{name_of, owner_of, time};
use crate::requests::request::{Operation, PendingRequest, Step};
use crate::requests::response::{HeaderBlock, Response};
use orcas_bodies::problem::Problem;
use orcas_catalog::{self as catalog, Listed, PageSink};
use orcas_record::Bucket;
use orcas_s3::query::{KeySelection, ListObjectsQuery, ListObjectsV2Query};
use orcas_s3::xml::lists::{ObjectEntry, ObjectList, page_room};

pub struct ListObjects {
    bucket: Arc<Bucket>,
    query: ListObjectsQuery,
}

pub struct ListObjectsV2 {
    bucket: Arc<Bucket>,
    query: ListObjectsV2Query,
}

impl Operation for ListObjects {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        Ok(Self { bucket: context.bucket()?, query: ListObjectsQuery::parse(&context.query)? })
    }

    fn begin(pending: &Arc<PendingRequest<Self>>, slot: u32) -> Result<Step, Problem> {
        Ok(pending.later(slot, |pending| pending.make_list(|| pending.list_objects())))
    }
}

impl Operation for ListObjectsV2 {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        Ok(Self { bucket: context.bucket()?, query: ListObjectsV2Query::parse(&context.query)? })
    }

    fn begin(pending: &Arc<PendingRequest<Self>>, slot: u32) -> Result<Step, Problem> {
        Ok(pending.later(slot, |pending| pending.make_list(|| pending.list_objects())))
    }
}

/// One of the two.
pub trait Listing: Operation {
    fn bucket(&self) -> &Bucket;

    /// Which keys, and behind which one they begin.
    fn selection(&self) -> (&KeySelection, Option<&[u8]>);

    /// Begins the document in `out`.
    fn document(&self, out: Vec<u8>) -> ObjectList<'_>;
}

impl Listing for ListObjects {
    fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    fn selection(&self) -> (&KeySelection, Option<&[u8]>) {
        let keys = &self.query.keys;
        (keys, self.query.marker.as_deref().map(|marker| keys.behind(marker)))
    }

    fn document(&self, out: Vec<u8>) -> ObjectList<'_> {
        ObjectList::v1(out, name_of(&self.bucket), &self.query, owner_of(&self.bucket))
    }
}

impl Listing for ListObjectsV2 {
    fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    fn selection(&self) -> (&KeySelection, Option<&[u8]>) {
        (&self.query.keys, self.query.after())
    }

    fn document(&self, out: Vec<u8>) -> ObjectList<'_> {
        ObjectList::v2(out, name_of(&self.bucket), &self.query, owner_of(&self.bucket))
    }
}

/// A page on its way into its document.
struct PageDocument<'a, L> {
    input: &'a L,
    document: ObjectList<'a>,
}

impl<L: Listing> PageSink for PageDocument<'_, L> {
    fn entry(&mut self, key: &[u8], listed: &Listed) {
        self.document.entry(&ObjectEntry {
            key,
            modified_ms: time(listed.modified_ms),
            etag: listed.etag,
            size: listed.size,
            checksum: listed.checksum,
            storage_class: listed.class.map(|class| class.name().as_bytes()),
        });
    }

    fn prefix(&mut self, prefix: &[u8]) {
        self.document.prefix(prefix);
    }

    fn restart(&mut self) {
        self.document = self.input.document(Vec::new());
    }
}

impl<L: Listing> PendingRequest<L> {
    fn list_objects(&self) -> Result<Response, Problem> {
        let input = &self.input;
        let (keys, after) = input.selection();
        let list = catalog::ListObjects {
            bucket: input.bucket().id,
            prefix: Bytes::copy_from_slice(&keys.prefix),
            delimiter: keys.delimiter.as_deref().map(Bytes::copy_from_slice),
            after: after.map(Bytes::copy_from_slice),
            max_keys: usize::from(keys.max),
        };
        let mut buffer = self.gateway.buffers.take(page_room(keys.max));
        let mut page = PageDocument { input, document: input.document(std::mem::take(&mut *buffer)) };
        let next = self.gateway.engine.list_objects_in(input.bucket(), &list, &mut page)?;
        *buffer = page.document.end(next.as_deref(), keys.delimiter.is_some());
        Ok(self.envelope.document(200, HeaderBlock::new(), buffer))
    }
}
