//! CopyObject: copies no bytes, unless a checksum has to be computed or the owner is another.

use std::sync::Arc;

use bytes::Bytes;

use crate::conditions::{precondition, source_conditions};
use crate::metadata::stored;
use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Step, wrong_outcome};
use crate::response::{HeaderBlock, Response};
use crate::sources::{Source, modified};
use orcas_checksum::ChecksumAlgorithm;
use orcas_decide::{Copy, Outcome};
use orcas_engine::CopyRequest;
use orcas_record::{Bucket, ObjectHeaders};
use orcas_s3::checksums::copy_algorithm;
use orcas_s3::conditions::WriteCondition;
use orcas_s3::metadata::{MetadataDirective, ObjectHeaders as Sent};
use orcas_s3::support::Understood;
use orcas_s3::xml::results;
use orcas_s3::{ErrorCode, S3Error};

pub struct CopyObject {
    source: Source,
    bucket: Arc<Bucket>,
    key: Bytes,
    condition: WriteCondition,
    /// In place of the source's, for the directive REPLACE.
    headers: Option<ObjectHeaders>,
    algorithm: Option<ChecksumAlgorithm>,
}

impl Operation for CopyObject {
    /// Only parts can be copied from a range.
    const UNDERSTOOD: Understood = Understood { refused: &["x-amz-copy-source-range"], ..Understood::NOTHING };

    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        let (bucket, key) = reading.object()?;
        let sent = reading.headers();
        let source = Source::named_by("x-amz-copy-source", reading)?;
        let headers = match MetadataDirective::parse(sent)? {
            MetadataDirective::Replace => Some(stored(Sent::parse(sent)?)),
            MetadataDirective::Copy => None,
        };
        let algorithm = copy_algorithm(sent)?;
        let itself = source.name.bucket.as_bytes() == bucket.name && source.name.key == key;
        if itself && headers.is_none() && algorithm.is_none() {
            let message = "This copy request is illegal because it is trying to copy an object to itself without \
                           changing the object's metadata, storage class, website redirect location or encryption \
                           attributes.";
            return Err(S3Error::with(ErrorCode::InvalidRequest, message).into());
        }
        Ok(Self { source, bucket, key, condition: WriteCondition::parse(sent)?, headers, algorithm })
    }

    fn begin(call: &Arc<Call<Self>>, slot: u32) -> Result<Step, Problem> {
        Ok(call.later(slot, |call| Self::answer(call, call.copy()?)))
    }

    fn answer(call: &Call<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Put(put) = outcome else { return Err(wrong_outcome()) };
        let document = results::copy_object(&put.etag, modified(&put), put.checksum.as_ref());
        Ok(call.envelope.document(200, HeaderBlock::new(), document))
    }
}

impl Call<CopyObject> {
    /// Blocks until the copy is decided: its digests may have to be computed from the source.
    fn copy(&self) -> Result<Outcome, Problem> {
        let CopyObject { source, bucket, key, condition, headers, algorithm } = &self.input;
        let (from, _) = source.find(&self.lane)?;
        let copy = Copy {
            source: (from.id, source.key(), None),
            source_conditions: source_conditions(&source.conditions),
            bucket: bucket.id,
            key: key.clone(),
            precondition: precondition(condition),
            headers: headers.clone(),
            attributes: Default::default(),
            checksum: None,
        };
        Ok(self.lane.engine.copy_object(&CopyRequest { copy, algorithm: *algorithm })?)
    }
}
