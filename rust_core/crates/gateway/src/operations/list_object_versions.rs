//! ListObjectVersions: a page read from the engine and written as it is read, on a worker.

use std::sync::Arc;

use bytes::Bytes;

use crate::pages::{name_of, owner_of, time};
use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Step};
use crate::response::{HeaderBlock, Response};
use crate::versions::{version_id, version_name};
use orcas_engine::{self as engine, ListedVersion, VersionSink};
use orcas_record::Bucket;
use orcas_s3::query::ListVersionsQuery;
use orcas_s3::xml::lists::{ObjectEntry, page_room};
use orcas_s3::xml::version_list::{Place, VersionList};

pub struct ListObjectVersions {
    bucket: Arc<Bucket>,
    query: ListVersionsQuery,
}

impl Operation for ListObjectVersions {
    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        Ok(Self { bucket: reading.bucket()?, query: ListVersionsQuery::parse(&reading.query)? })
    }

    fn begin(call: &Arc<Call<Self>>, slot: u32) -> Result<Step, Problem> {
        Ok(call.later(slot, Call::list_versions))
    }
}
