//! ListObjectVersions: a page read from the engine and written as it is read, on a worker.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::pages::{owner, owner_of, shown_name, time};
use orcas_admission::documents::disables_acls;
use orcas_admission::request_context::RequestContext;
use orcas_admission::senders::identities::Identities;
use orcas_bodies::problem::Problem;
use orcas_catalog::{self as catalog, ListedVersion, VersionSink};
use orcas_record::Bucket;
use orcas_requests::request::{Operation, Progress, TypedRequest};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::query::ListVersionsQuery;
use orcas_s3::versions::{version_id, version_name};
use orcas_s3::xml::lists::{ObjectEntry, Owner, page_room};
use orcas_s3::xml::version_list::{EntryVersion, VersionList};

pub struct ListObjectVersions {
    bucket: Arc<Bucket>,
    query: ListVersionsQuery,
}

impl Operation for ListObjectVersions {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        Ok(Self { bucket: context.bucket()?, query: ListVersionsQuery::parse(&context.query)? })
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        request.on_worker(|request| request.make_list(|| Self::list_versions(request)))
    }
}

/// A page on its way into its document.
struct PageDocument<'a> {
    input: &'a ListObjectVersions,
    name: &'a str,
    identities: &'a Identities,
    document: VersionList<'a>,
}

impl ListObjectVersions {
    /// Begins the document in `out`. `name`: of the bucket.
    fn document<'a>(&'a self, out: Vec<u8>, name: &'a str, identities: &'a Identities) -> VersionList<'a> {
        VersionList::begin(out, name, &self.query, owner_of(&self.bucket, identities))
    }
}

/// A page that waits until the owners of its versions have been looked up: each may have its own. Prefixes have `None`.
#[derive(Default)]
struct Waiting(Vec<(Bytes, Option<ListedVersion<'static>>)>);

impl VersionSink for Waiting {
    fn version(&mut self, version: &ListedVersion<'_>) {
        let ListedVersion { id, is_latest, delete_marker, listed, .. } = *version;
        let kept = ListedVersion { key: &[], id, is_latest, delete_marker, listed };
        self.0.push((Bytes::copy_from_slice(version.key), Some(kept)));
    }

    fn prefix(&mut self, prefix: &[u8]) {
        self.0.push((Bytes::copy_from_slice(prefix), None));
    }

    fn restart(&mut self) {
        self.0.clear();
    }
}

impl PageDocument<'_> {
    fn owned(&mut self, key: &[u8], version: &ListedVersion<'_>, owner: Option<Owner<'_>>) {
        let listed = &version.listed;
        let which = EntryVersion { version: version_name(version.id), latest: version.is_latest };
        let modified_ms = time(listed.modified_ms);
        if version.delete_marker {
            return self.document.delete_marker(key, modified_ms, which);
        }
        let entry = ObjectEntry {
            key,
            modified_ms,
            etag: listed.etag,
            size: listed.size,
            checksum: listed.checksum,
            storage_class: listed.class.map(|class| class.name().as_bytes()),
            owner,
        };
        self.document.version(&entry, which);
    }
}

impl VersionSink for PageDocument<'_> {
    fn version(&mut self, version: &ListedVersion<'_>) {
        self.owned(version.key, version, None);
    }

    fn prefix(&mut self, prefix: &[u8]) {
        self.document.prefix(prefix);
    }

    fn restart(&mut self) {
        self.document = self.input.document(Vec::new(), self.name, self.identities);
    }
}

impl ListObjectVersions {
    fn list_versions(request: &TypedRequest<Self>) -> Result<Response, Problem> {
        let input = &request.input;
        let ListVersionsQuery { keys, key_marker, version_id_marker } = &input.query;
        let after = key_marker.as_deref().map(|marker| Bytes::copy_from_slice(keys.behind(marker)));
        let list = catalog::ListVersions {
            bucket: input.bucket.id,
            prefix: Bytes::copy_from_slice(&keys.prefix),
            delimiter: keys.delimiter.as_deref().map(Bytes::copy_from_slice),
            after: after.map(|key| (key, version_id_marker.map(version_id))),
            max_keys: usize::from(keys.max),
        };
        let mut buffer = request.services.bodies.buffers.take(page_room(keys.max));
        let identities = request.services.access.identities();
        let name = shown_name(&input.bucket, &request.requester);
        let document = input.document(std::mem::take(&mut *buffer), name, &identities);
        let mut page = PageDocument { input, name, identities: &identities, document };
        let (services, bucket) = (&request.services, &input.bucket);
        let next = if disables_acls(&services.engine, bucket.id) {
            services.engine.list_versions_in(bucket, &list, &mut page)?
        } else {
            let mut waiting = Waiting::default();
            let next = services.engine.list_versions_in(bucket, &list, &mut waiting)?;
            for (key, version) in &waiting.0 {
                match version {
                    None => page.prefix(key),
                    Some(version) => {
                        let id = services.access.owner_in(bucket, key, Some(version.id))?;
                        page.owned(key, version, Some(owner(&id, &identities)));
                    }
                }
            }
            next
        };
        let next = next.as_ref().map(|(last, version)| (&last[..], version.map(version_name)));
        *buffer = page.document.end(next);
        Ok(request.envelope.document(200, HeaderBlock::new(), buffer))
    }
}
