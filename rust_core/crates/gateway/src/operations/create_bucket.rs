//! CreateBucket: its region and tags stand in a document, the settings of the bucket in headers.

use std::sync::Arc;

use bytes::Bytes;

use crate::body_plan::BodyPlan;
use crate::intake::{DeclaredBody, Digests};
use crate::lane::Lane;
use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Step, wrong_outcome};
use crate::response::{HeaderBlock, Response};
use crate::settings::SettingsChange;
use orcas_decide::{Intent, Outcome};
use orcas_record::{BucketSettings, DocumentKind};
use orcas_s3::documents::{ownership_of_new_bucket, tagging};
use orcas_s3::extensions::OF_A_BUCKET;
use orcas_s3::object_lock::enabled_for_bucket;
use orcas_s3::support::Understood;
use orcas_s3::xml::requests::create_bucket;
use orcas_s3::{ErrorCode, S3Error};

pub struct CreateBucket {
    name: String,
    owner: String,
    settings: BucketSettings,
    object_lock: bool,
    /// The document of ownership controls, if they are not those of every new bucket.
    ownership: Option<Vec<u8>>,
}

impl CreateBucket {
    /// `document` is the body, empty when there was none.
    fn intent(&self, lane: &Lane, document: &[u8]) -> Result<Intent, Problem> {
        let asked = create_bucket(document)?;
        let region = asked.region.unwrap_or_else(|| lane.options.region.clone());
        check_region(lane, &region)?;
        let ownership = self.ownership.clone();
        let tags = (!asked.tags.is_empty()).then(|| tagging(&asked.tags));
        Ok(Intent::CreateBucket {
            name: Bytes::copy_from_slice(self.name.as_bytes()),
            owner: Bytes::copy_from_slice(self.owner.as_bytes()),
            location: Bytes::from(region),
            settings: self.settings,
            object_lock: self.object_lock,
            documents: [(DocumentKind::OwnershipControls, ownership), (DocumentKind::Tagging, tags)]
                .into_iter()
                .filter_map(|(kind, document)| Some((kind, Bytes::from(document?))))
                .collect(),
        })
    }
}

impl Operation for CreateBucket {
    const UNDERSTOOD: Understood = Understood {
        extensions: OF_A_BUCKET,
        attributes: &["x-amz-bucket-object-lock-enabled", "x-amz-object-ownership"],
        ..Understood::NOTHING
    };

    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        Ok(Self {
            name: reading.bucket_name()?.to_owned(),
            owner: reading.principal.owner.clone(),
            settings: SettingsChange::parse(reading.headers())?.applied_to(BucketSettings::default()),
            object_lock: enabled_for_bucket(reading.headers())?,
            ownership: ownership_of_new_bucket(reading.headers())?,
        })
    }

    fn body(&self, reading: &Reading<'_>) -> Result<BodyPlan, Problem> {
        BodyPlan::document(DeclaredBody::of_document(reading.headers(), reading.payload)?)
    }

    fn take(call: &Arc<Call<Self>>, content: Bytes, _digests: &Digests, slot: u32) -> Result<Step, Problem> {
        Ok(call.submit(call.input.intent(&call.lane, &content)?, slot))
    }

    fn answer(call: &Call<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Bucket(_) = outcome else { return Err(wrong_outcome()) };
        let mut headers = HeaderBlock::new();
        headers.push("location", format!("/{}", call.input.name).as_bytes());
        Ok(call.envelope.empty(200, headers))
    }
}

/// A strict store has one region; another accepts any name that could be one, since clients make them up.
fn check_region(lane: &Lane, region: &str) -> Result<(), S3Error> {
    const REGION_LEN_MAX: usize = 64;
    let plausible = region.len() <= REGION_LEN_MAX
        && region.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if !plausible {
        return Err(S3Error::new(ErrorCode::InvalidLocationConstraint).field("LocationConstraint", region));
    }
    if lane.options.strict_region && region != lane.options.region {
        let message = format!(
            "The {region} location constraint is incompatible for the region specific endpoint this request was sent to."
        );
        return Err(S3Error::with(ErrorCode::IllegalLocationConstraintException, message));
    }
    Ok(())
}
