//! GetObjectAttributes.

use std::sync::Arc;

use bytes::Bytes;

use crate::answer::{Answer, HeaderBlock};
use crate::pages::time;
use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Step};
use orcas_record::Bucket;
use orcas_s3::attributes::{AttributesRequest, ObjectAttributes, PartAttributes};
use orcas_s3::support::Understood;
use orcas_s3::{ErrorCode, S3Error};

pub struct GetObjectAttributes {
    bucket: Arc<Bucket>,
    key: Bytes,
    request: AttributesRequest,
}

impl Operation for GetObjectAttributes {
    const UNDERSTOOD: Understood = Understood { version_id: true, reads_clear: true, ..Understood::NOTHING };

    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        let (bucket, key) = reading.object()?;
        Ok(Self { bucket, key, request: AttributesRequest::parse(reading.headers())? })
    }

    fn begin(call: &Arc<Call<Self>>, slot: u32) -> Result<Step, Problem> {
        Ok(call.later(slot, Call::attributes))
    }
}

impl Call<GetObjectAttributes> {
    fn attributes(&self) -> Result<Answer, Problem> {
        let GetObjectAttributes { bucket, key, request } = &self.input;
        let Some(found) = self.lane.engine.object(bucket.id, key)? else {
            return Err(S3Error::new(ErrorCode::NoSuchKey).field("Key", key.to_vec()).into());
        };
        let version = &found.object.version;
        let part = |part: &orcas_record::CompletedPart| PartAttributes {
            number: part.number,
            size: part.size,
            checksum: part.checksum,
        };
        let parts: Vec<PartAttributes> = version.parts.iter().map(part).collect();
        let document = request.document(&ObjectAttributes {
            etag: version.etag,
            size: version.size,
            checksum: version.checksum,
            parts: &parts,
        });
        let mut headers = HeaderBlock::new();
        headers.set_last_modified(time(version.modified_ms));
        Ok(self.envelope.document(200, headers, document))
    }
}
