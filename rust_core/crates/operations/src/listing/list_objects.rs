//! ListObjects and ListObjectsV2, which differ in the names of query and document: a page read from the engine and written
//! as it is read, on a worker.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::pages::{owner, owner_of, shown_name, time};
use orcas_admission::documents::disables_acls;
use orcas_admission::request_context::RequestContext;
use orcas_admission::senders::identities::Identities;
use orcas_bodies::problem::Problem;
use orcas_catalog::{self as catalog, Listed, PageSink};
use orcas_record::Bucket;
use orcas_requests::request::{Operation, Progress, TypedRequest};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::query::{KeySelection, ListObjectsQuery, ListObjectsV2Query};
use orcas_s3::xml::lists::{ObjectEntry, ObjectList, Owner, page_room};

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

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        request.on_worker(|request| request.make_list(|| list_objects(request)))
    }
}

impl Operation for ListObjectsV2 {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        Ok(Self { bucket: context.bucket()?, query: ListObjectsV2Query::parse(&context.query)? })
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        request.on_worker(|request| request.make_list(|| list_objects(request)))
    }
}

/// One of the two.
pub trait Listing: Operation {
    fn bucket(&self) -> &Bucket;

    /// Which keys, and behind which one they begin.
    fn selection(&self) -> (&KeySelection, Option<&[u8]>);

    /// Whether entries show their owner.
    fn shows_owners(&self) -> bool;

    /// Begins the document in `out`. `name`: of the bucket.
    fn document<'a>(&'a self, out: Vec<u8>, name: &'a str, identities: &'a Identities) -> ObjectList<'a>;
}

impl Listing for ListObjects {
    fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    fn selection(&self) -> (&KeySelection, Option<&[u8]>) {
        let keys = &self.query.keys;
        (keys, self.query.marker.as_deref().map(|marker| keys.behind(marker)))
    }

    fn shows_owners(&self) -> bool {
        true
    }

    fn document<'a>(&'a self, out: Vec<u8>, name: &'a str, identities: &'a Identities) -> ObjectList<'a> {
        ObjectList::v1(out, name, &self.query, owner_of(&self.bucket, identities))
    }
}

impl Listing for ListObjectsV2 {
    fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    fn selection(&self) -> (&KeySelection, Option<&[u8]>) {
        (&self.query.keys, self.query.after())
    }

    fn shows_owners(&self) -> bool {
        self.query.fetch_owner
    }

    fn document<'a>(&'a self, out: Vec<u8>, name: &'a str, identities: &'a Identities) -> ObjectList<'a> {
        ObjectList::v2(out, name, &self.query, owner_of(&self.bucket, identities))
    }
}

/// A page on its way into its document.
struct PageDocument<'a, L> {
    input: &'a L,
    name: &'a str,
    identities: &'a Identities,
    document: ObjectList<'a>,
}

/// A page that waits until the owners of its objects have been looked up: each may have its own. Prefixes have `None`.
#[derive(Default)]
struct Waiting(Vec<(Bytes, Option<Listed>)>);

impl PageSink for Waiting {
    fn entry(&mut self, key: &[u8], listed: &Listed) {
        self.0.push((Bytes::copy_from_slice(key), Some(*listed)));
    }

    fn prefix(&mut self, prefix: &[u8]) {
        self.0.push((Bytes::copy_from_slice(prefix), None));
    }

    fn restart(&mut self) {
        self.0.clear();
    }
}

impl<L: Listing> PageDocument<'_, L> {
    fn owned(&mut self, key: &[u8], listed: &Listed, owner: Option<Owner<'_>>) {
        self.document.entry(&ObjectEntry {
            key,
            modified_ms: time(listed.modified_ms),
            etag: listed.etag,
            size: listed.size,
            checksum: listed.checksum,
            storage_class: listed.class.map(|class| class.name().as_bytes()),
            owner,
        });
    }
}

impl<L: Listing> PageSink for PageDocument<'_, L> {
    fn entry(&mut self, key: &[u8], listed: &Listed) {
        self.owned(key, listed, None);
    }

    fn prefix(&mut self, prefix: &[u8]) {
        self.document.prefix(prefix);
    }

    fn restart(&mut self) {
        self.document = self.input.document(Vec::new(), self.name, self.identities);
    }
}

fn list_objects<L: Listing>(request: &TypedRequest<L>) -> Result<Response, Problem> {
    let input = &request.input;
    let (keys, after) = input.selection();
    let list = catalog::ListObjects {
        bucket: input.bucket().id,
        prefix: Bytes::copy_from_slice(&keys.prefix),
        delimiter: keys.delimiter.as_deref().map(Bytes::copy_from_slice),
        after: after.map(Bytes::copy_from_slice),
        max_keys: usize::from(keys.max),
    };
    let mut buffer = request.services.bodies.buffers.take(page_room(keys.max));
    let identities = request.services.access.identities();
    let (services, bucket) = (&request.services, input.bucket());
    let name = shown_name(bucket, &request.requester);
    let document = input.document(std::mem::take(&mut *buffer), name, &identities);
    let mut page = PageDocument { input, name, identities: &identities, document };
    let next = if input.shows_owners() && !disables_acls(&services.engine, bucket.id) {
        let mut waiting = Waiting::default();
        let next = services.engine.list_objects_in(bucket, &list, &mut waiting)?;
        for (key, listed) in &waiting.0 {
            match listed {
                None => page.prefix(key),
                Some(listed) => {
                    let id = services.access.owner_in(bucket, key, None)?;
                    page.owned(key, listed, Some(owner(&id, &identities)));
                }
            }
        }
        next
    } else {
        services.engine.list_objects_in(bucket, &list, &mut page)?
    };
    *buffer = page.document.end(next.as_deref(), keys.delimiter.is_some());
    let mut headers = HeaderBlock::new();
    headers.push("x-amz-bucket-region", services.access.options.region_of(bucket).as_bytes());
    Ok(request.envelope.document(200, headers, buffer))
}
