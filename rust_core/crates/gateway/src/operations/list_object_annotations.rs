//! ListObjectAnnotations: always empty, because no operation writes an annotation.

use std::sync::Arc;

use crate::pages::name_of;
use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Step};
use crate::response::{HeaderBlock, Response};
use crate::versions::VersionAddress;
use orcas_s3::configurations::no_annotations;
use orcas_s3::query::ListAnnotationsQuery;
use orcas_s3::support::Understood;

pub struct ListObjectAnnotations {
    address: VersionAddress,
    query: ListAnnotationsQuery,
}

impl Operation for ListObjectAnnotations {
    const UNDERSTOOD: Understood = Understood { version_id: true, ..Understood::NOTHING };

    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        Ok(Self { address: VersionAddress::parse(reading)?, query: ListAnnotationsQuery::parse(&reading.query)? })
    }

    fn begin(call: &Arc<Call<Self>>, slot: u32) -> Result<Step, Problem> {
        Ok(call.later(slot, Call::list))
    }
}

impl Call<ListObjectAnnotations> {
    fn list(&self) -> Result<Response, Problem> {
        let ListObjectAnnotations { address, query } = &self.input;
        address.find(&self.lane, &self.envelope, |found| {
            let mut headers = HeaderBlock::new();
            if let Some(shown) = address.shown(&found.object.version) {
                headers.push("x-amz-object-version-id", shown.to_string().as_bytes());
            }
            Ok(self.envelope.document(200, headers, no_annotations(name_of(&address.bucket), &address.key, query)))
        })
    }
}
