//! The operations that read a configuration of a bucket or of an object: a document of the bucket or, if there is none,
//! what S3 answers in that case.

use std::sync::Arc;

use crate::pages::{name_of, owner_of};
use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Request as _, Step};
use crate::response::{HeaderBlock, Response};
use crate::versions::VersionAddress;
use orcas_record::{Bucket, DocumentKind};
use orcas_s3::query::no_continuation;
use orcas_s3::support::Understood;
use orcas_s3::{configurations, encryption};

pub struct ReadBucketConfiguration(Arc<Bucket>);

impl Operation for ReadBucketConfiguration {
    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        no_continuation(&reading.query)?;
        reading.bucket().map(Self)
    }

    fn begin(call: &Arc<Call<Self>>, _slot: u32) -> Result<Step, Problem> {
        let bucket = &call.input.0;
        let (operation, name, owner) = (call.operation(), name_of(bucket), owner_of(bucket));
        let kind = operation.row().document;
        let stored = kind.and_then(|kind| call.lane.engine.document(bucket.id, kind));
        // What the store does by itself, no bucket can do without.
        let of_the_store = kind == Some(DocumentKind::Encryption) && call.lane.options.encrypt_by_default;
        let document = match stored.filter(|document| !of_the_store || !document.bytes.is_empty()) {
            None if of_the_store => encryption::of_the_store().document(),
            None => configurations::of_bucket(operation, name, &owner)?,
            Some(document) if document.bytes.is_empty() => configurations::removed(operation, name, &owner)?,
            Some(document) => document.bytes.to_vec(),
        };
        Ok(call.envelope.document(200, HeaderBlock::new(), document).into())
    }
}

pub struct ReadObjectConfiguration(VersionAddress);

impl Operation for ReadObjectConfiguration {
    const UNDERSTOOD: Understood = Understood { version_id: true, ..Understood::NOTHING };

    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        VersionAddress::parse(reading).map(Self)
    }

    fn begin(call: &Arc<Call<Self>>, slot: u32) -> Result<Step, Problem> {
        Ok(call.later(slot, Call::read))
    }
}

impl Call<ReadObjectConfiguration> {
    fn read(&self) -> Result<Response, Problem> {
        let address = &self.input.0;
        address.find(&self.lane, &self.envelope, |found| {
            let document = configurations::of_object(self.operation(), &owner_of(&address.bucket))?;
            let mut headers = HeaderBlock::new();
            if let Some(shown) = address.shown(&found.object.version) {
                headers.set_version_id(&shown);
            }
            Ok(self.envelope.document(200, headers, document))
        })
    }
}
