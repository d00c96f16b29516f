//! CreateBucket: its region and tags are in a document, the settings of the bucket in headers.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::settings::read_change;
use orcas_admission::options::{EU, GatewayOptions, PublicAccess};
use orcas_admission::request_context::RequestContext;
use orcas_bodies::intake::Digests;
use orcas_bodies::problem::Problem;
use orcas_decide::{Failure, Intent, Outcome, Refusal};
use orcas_record::{BucketSettings, DocumentKind};
use orcas_requests::after_body::AskedByBody;
use orcas_requests::request::{Operation, Progress, TypedRequest, wrong_outcome};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::acl::AskedAcl;
use orcas_s3::documents::{
    BucketDocument, OwnershipControls, open_access_block, open_ownership, ownership_of_new_bucket, tagging,
};
use orcas_s3::extensions::OF_A_BUCKET;
use orcas_s3::headers::bucket_arn;
use orcas_s3::object_lock::enabled_for_bucket;
use orcas_s3::stored_headers::LOCATION;
use orcas_s3::support::{OF_A_NEW_BUCKET, Understood};
use orcas_s3::target::valid_bucket_name;
use orcas_s3::xml::requests::create_bucket;
use orcas_s3::{ErrorCode, Named, S3Error, tags};

/// The region where a bucket can be created again by its owner, which changes nothing. Everywhere else S3 refuses that.
const LENIENT_REGION: &str = "us-east-1";

pub struct CreateBucket {
    name: String,
    owner: String,
    settings: BucketSettings,
    object_lock: bool,
    /// The document of ownership controls, if the request names them.
    ownership: Option<Vec<u8>>,
    acl: Option<AskedAcl>,
}

impl CreateBucket {
    /// Whether a bucket that exists is as good as the one that is asked for, unless that gets tags.
    fn is_plain(&self) -> bool {
        self.settings == BucketSettings::default()
            && !self.object_lock
            && self.ownership.is_none()
            && self.acl.is_none()
    }
}

impl CreateBucket {
    /// `document` is the body, empty when there was none.
    fn create(request: &Arc<TypedRequest<Self>>, document: &[u8]) -> Result<Progress, Problem> {
        let input = &request.input;
        let asked = request.read_document(|| create_bucket(document))?;
        if let Some(region) = &asked.region {
            check_region(&request.services.access.options, region)?;
        }
        let region = asked.region.unwrap_or_else(|| request.services.access.options.region.clone());
        let lenient = region == LENIENT_REGION && input.is_plain() && asked.tags.is_empty();
        let tags = (!asked.tags.is_empty()).then(|| tagging(&asked.tags));
        let open = request.services.access.options.public_access == PublicAccess::Open;
        let ownership = input.ownership.clone().or_else(|| open.then(open_ownership));
        let acl = match &input.acl {
            Some(asked) => Self::acl(request, asked, ownership.as_deref(), open)?,
            None => None,
        };
        let intent = Intent::CreateBucket {
            name: Bytes::copy_from_slice(input.name.as_bytes()),
            owner: Bytes::copy_from_slice(input.owner.as_bytes()),
            location: Bytes::from(region),
            settings: input.settings,
            object_lock: input.object_lock,
            documents: [
                (DocumentKind::OwnershipControls, ownership),
                (DocumentKind::Tagging, tags),
                (DocumentKind::PublicAccessBlock, open.then(open_access_block)),
                (DocumentKind::Acl, acl),
            ]
            .into_iter()
            .filter_map(|(kind, document)| Some((kind, Bytes::from(document?))))
            .collect(),
        };
        Ok(request.submit_then(intent, move |request, decision| match decision {
            Ok(Outcome::Bucket(_)) => Ok(Self::created(request).into()),
            Ok(_) => Err(wrong_outcome()),
            Err(Failure::Refused(Refusal::BucketAlreadyOwnedByYou))
                if lenient && Self::lies_in(request, LENIENT_REGION) =>
            {
                Ok(Self::created(request).into())
            }
            Err(failure) => Err(failure.into()),
        }))
    }

    /// The ACL as it is stored. `ownership`: the controls of the bucket.
    fn acl(
        request: &TypedRequest<Self>,
        asked: &AskedAcl,
        ownership: Option<&[u8]>,
        open: bool,
    ) -> Result<Option<Vec<u8>>, S3Error> {
        let owner = &request.input.owner;
        if ownership.and_then(OwnershipControls::load).is_none_or(|controls| controls.disable_acls) {
            return match asked.is_harmless(owner) {
                true => Ok(None),
                false => Err(ErrorCode::InvalidBucketAclWithObjectOwnership.into()),
            };
        }
        let acl = asked.clone().resolved(owner, owner)?;
        if acl.is_public() && !open {
            return Err(ErrorCode::InvalidBucketAclWithBlockPublicAccessError.into());
        }
        Ok(acl.stored(owner))
    }

    fn created(request: &TypedRequest<Self>) -> Response {
        let input = &request.input;
        let mut headers = HeaderBlock::new();
        headers.push("location", format!("/{}", input.name).as_bytes());
        headers.push("x-amz-bucket-arn", bucket_arn(&input.name).as_bytes());
        request.succeeded(headers)
    }

    fn lies_in(request: &TypedRequest<Self>, region: &str) -> bool {
        let bucket = request.services.engine.bucket(request.input.name.as_bytes());
        bucket.is_some_and(|bucket| request.services.access.options.region_of(&bucket) == region)
    }
}

impl Operation for CreateBucket {
    const UNDERSTOOD: Understood =
        Understood { extensions: OF_A_BUCKET, attributes: OF_A_NEW_BUCKET, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let name = context.bucket_name()?;
        if !valid_bucket_name(name) {
            return Err(S3Error::new(ErrorCode::InvalidBucketName).field("BucketName", name).into());
        }
        Ok(Self {
            name: name.to_owned(),
            owner: context.requester.owner.clone(),
            settings: read_change(context.headers())?.applied_to(BucketSettings::default()),
            object_lock: enabled_for_bucket(context.headers())?,
            ownership: ownership_of_new_bucket(context.headers())?,
            acl: context.asked_acl()?,
        })
    }

    fn asks(_: &TypedRequest<Self>, content: &[u8]) -> Result<AskedByBody, Problem> {
        let asked = create_bucket(content)?;
        let region = asked.region.map(|region| (LOCATION, region.into_bytes()));
        let tags = (!asked.tags.is_empty()).then(|| (tags::HEADER, tags::header(&asked.tags)));
        Ok(region.into_iter().chain(tags).collect())
    }

    fn take(request: &Arc<TypedRequest<Self>>, content: Bytes, _digests: &Digests) -> Result<Progress, Problem> {
        request.on_worker(move |request| Self::create(request, &content))
    }

    fn named(&self) -> Named<'_> {
        Named { bucket: Some(self.name.as_bytes()), ..Named::default() }
    }
}

/// A strict store has one region; another accepts any name that could be one, since clients make them up. Unlike on S3, it
/// may be the server's own also where that is `us-east-1`: newer clients always name it.
fn check_region(options: &GatewayOptions, region: &str) -> Result<(), S3Error> {
    const REGION_LEN_MAX: usize = 64;
    let plausible = region.len() <= REGION_LEN_MAX
        && region.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if !plausible && region != EU {
        return Err(S3Error::new(ErrorCode::InvalidLocationConstraint).field("LocationConstraint", region));
    }
    if options.strict_region && region != options.region {
        let message = format!(
            "The {region} location constraint is incompatible for the region specific endpoint this request was sent to."
        );
        return Err(S3Error::with(ErrorCode::IllegalLocationConstraintException, message));
    }
    Ok(())
}
