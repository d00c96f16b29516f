//! PutBucketSettings, an extension: changes the bucket's own settings.

use std::sync::Arc;

use crate::resources::settings::{read_change, show};
use orcas_admission::request_context::RequestContext;
use orcas_bodies::intake::refuse_body;
use orcas_bodies::problem::Problem;
use orcas_decide::{BucketChange, Intent, Outcome, SettingsChange};
use orcas_record::Bucket;
use orcas_requests::request::{Operation, Progress, TypedRequest, wrong_outcome};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::extensions::OF_A_BUCKET;
use orcas_s3::support::Understood;
use orcas_s3::{ErrorCode, S3Error};

pub struct PutBucketSettings {
    bucket: Arc<Bucket>,
    change: SettingsChange,
}

impl Operation for PutBucketSettings {
    const UNDERSTOOD: Understood = Understood { extensions: OF_A_BUCKET, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let bucket = context.bucket()?;
        refuse_body(context.headers(), "The settings of a bucket are sent as headers; the request has no body")?;
        let change = read_change(context.headers())?;
        if change == SettingsChange::default() {
            return Err(S3Error::with(ErrorCode::InvalidRequest, "The request names no setting").into());
        }
        Ok(Self { bucket, change })
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        let PutBucketSettings { bucket, change } = &request.input;
        let change = BucketChange::Settings(*change);
        Ok(request.submit(Intent::UpdateBucket { bucket: bucket.id, change }))
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Bucket(bucket) = outcome else { return Err(wrong_outcome()) };
        let mut headers = HeaderBlock::new();
        show(&bucket.settings, &mut headers);
        Ok(request.succeeded(headers))
    }
}
