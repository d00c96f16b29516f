//! GetBucketAcl, PutBucketAcl, GetObjectAcl and PutObjectAcl.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::pages::name_of;
use crate::resources::versions::{VersionAddress, updated};
use orcas_admission::access_control::AccessControl;
use orcas_admission::access_decision::{Question, Resource, ResourceFacts};
use orcas_admission::acls::owner_of;
use orcas_admission::circumstances::KeptCircumstances;
use orcas_admission::documents::disables_acls;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::intake::Digests;
use orcas_bodies::problem::Problem;
use orcas_decide::{AttributeChange, Intent, Outcome, UpdateVersion};
use orcas_record::{Bucket, DocumentKind};
use orcas_requests::request::{Operation, Progress, Request as _, TypedRequest, wrong_outcome};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::acl::{Acl, AskedAcl};
use orcas_s3::support::{OF_AN_ACL, Understood};
use orcas_s3::{ErrorCode, Named, S3Error};

pub struct GetBucketAcl(Arc<Bucket>);

impl Operation for GetBucketAcl {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        context.bucket().map(Self)
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        let document = shown_acl(&request.services.access, &request.services.access.acl_of_bucket(&request.input.0));
        Ok(request.envelope.document(200, HeaderBlock::new(), document).into())
    }
}

pub struct GetObjectAcl(VersionAddress);

impl Operation for GetObjectAcl {
    const UNDERSTOOD: Understood = Understood { version_id: true, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        VersionAddress::parse(context).map(Self)
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        request.on_worker(|request| {
            let address = &request.input.0;
            address.find(&request.services.engine, &request.envelope, |found| {
                let version = &found.object.version;
                let mut headers = HeaderBlock::new();
                if let Some(shown) = address.shown(version) {
                    headers.set_version_id(&shown);
                }
                let document = shown_acl(
                    &request.services.access,
                    &request.services.access.acl_of(&address.bucket, &version.attributes),
                );
                Ok(request.envelope.document(200, headers, document))
            })
        })
    }
}

pub struct PutBucketAcl {
    bucket: Arc<Bucket>,
    asked: Option<AskedAcl>,
}

impl Operation for PutBucketAcl {
    const UNDERSTOOD: Understood = Understood { attributes: OF_AN_ACL, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        Ok(Self { bucket: context.bucket()?, asked: named_acl(context)? })
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        Self::put(request, &[])
    }

    fn take(request: &Arc<TypedRequest<Self>>, content: Bytes, _: &Digests) -> Result<Progress, Problem> {
        Self::put(request, &content)
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Done = outcome else { return Err(wrong_outcome()) };
        Ok(request.succeeded(HeaderBlock::new()))
    }
}

impl PutBucketAcl {
    fn put(request: &Arc<TypedRequest<Self>>, content: &[u8]) -> Result<Progress, Problem> {
        let PutBucketAcl { bucket, asked } = &request.input;
        let asked = request.read_document(|| asked_acl(&request.services.access, asked.clone(), content, bucket))?;
        let acl = asked.map(|asked| asked.resolved(owner_of(bucket), owner_of(bucket))).transpose()?;
        // Where lists are disabled, this one says what is so anyway.
        let Some(acl) = acl else { return Ok(request.succeeded(HeaderBlock::new()).into()) };
        request.services.access.check_public(bucket, &acl)?;
        let document = acl.stored(owner_of(bucket)).unwrap_or_default().into();
        Ok(request.submit(Intent::PutDocument { bucket: bucket.id, kind: DocumentKind::Acl, document }))
    }
}

pub struct PutObjectAcl {
    address: VersionAddress,
    asked: Option<AskedAcl>,
    /// To authorize once more when the body has come: the object may be another one by then. Root needs nothing.
    kept: Option<Box<KeptCircumstances>>,
}

impl Operation for PutObjectAcl {
    const UNDERSTOOD: Understood = Understood { version_id: true, attributes: OF_AN_ACL, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let kept = (!context.requester.is_root).then(|| Box::new(KeptCircumstances::of(context)));
        Ok(Self { address: VersionAddress::parse(context)?, asked: named_acl(context)?, kept })
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        request.on_worker(move |request| Self::change(request, &[]))
    }

    fn take(request: &Arc<TypedRequest<Self>>, content: Bytes, _: &Digests) -> Result<Progress, Problem> {
        request.on_worker(move |request| Self::change(request, &content))
    }

    fn named(&self) -> Named<'_> {
        self.address.named()
    }

    fn detailed(&self, error: S3Error) -> S3Error {
        self.address.detailed(error)
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        updated(request, outcome)
    }
}

impl PutObjectAcl {
    /// The list depends on the owner of the version that was found, so it replaces the list of that one, and no other.
    fn change(request: &Arc<TypedRequest<Self>>, content: &[u8]) -> Result<Progress, Problem> {
        let PutObjectAcl { address, asked, .. } = &request.input;
        let (bucket, services) = (&address.bucket, &request.services);
        address.find(&services.engine, &request.envelope, |found| {
            let version = &found.object.version;
            Self::authorize_again(request)?;
            let asked = request.read_document(|| asked_acl(&services.access, asked.clone(), content, bucket))?;
            let owner = services.access.acl_of(bucket, &version.attributes).owner;
            let acl = asked.map(|asked| asked.resolved(&owner, owner_of(bucket))).transpose()?;
            let Some(acl) = acl else { return Ok(request.succeeded(HeaderBlock::new()).into()) };
            services.access.check_public(bucket, &acl)?;
            let acl = acl.stored(owner_of(bucket)).map(Bytes::from);
            let change = AttributeChange::Acl { was: version.attributes.acl.clone(), acl };
            let (key, version) = (address.key.clone(), Some(version.version_id));
            let update = UpdateVersion { bucket: bucket.id, key, version, change };
            Ok(request.submit(Intent::UpdateVersion(Box::new(update))))
        })
    }

    fn authorize_again(request: &TypedRequest<Self>) -> Result<(), S3Error> {
        let PutObjectAcl { address, kept: Some(kept), .. } = &request.input else { return Ok(()) };
        let version = address.version.map(|version| version.to_string());
        let identities = request.services.access.identities();
        let resource = Resource::Object { bucket: name_of(&address.bucket), key: &address.key };
        kept.with(&request.services.access, version.as_deref(), None, |circumstances| {
            request.operation().spec().permissions.iter().try_for_each(|permission| {
                let action = permission.action(version.is_some());
                let question =
                    Question { requester: &request.requester, action, resource, facts: ResourceFacts::UNKNOWN };
                request.services.access.authorize_action(&identities, &question, circumstances)
            })
        })
    }
}

/// What the headers ask for. Beside them, there is no body.
fn named_acl(context: &RequestContext<'_>) -> Result<Option<AskedAcl>, Problem> {
    let named = OF_AN_ACL.iter().any(|header| context.headers().get(header).is_some());
    if named && context.has_body {
        return Err(ErrorCode::UnexpectedContent.into());
    }
    Ok(context.asked_acl()?)
}

/// The ACL of a request, from its headers or its body. `None` if lists are disabled in the bucket, and what is asked for
/// is so.
fn asked_acl(
    access: &AccessControl,
    of_headers: Option<AskedAcl>,
    body: &[u8],
    bucket: &Bucket,
) -> Result<Option<AskedAcl>, S3Error> {
    let asked = match of_headers {
        Some(asked) => asked,
        None if body.is_empty() => {
            return Err(S3Error::new(ErrorCode::MissingSecurityHeader).field("MissingHeaderName", "x-amz-acl"));
        }
        None => {
            let identities = access.identities();
            AskedAcl::of_document(body, &|id| identities.knows_owner(id))?
        }
    };
    match (disables_acls(&access.engine, bucket.id), asked.is_harmless(owner_of(bucket))) {
        (false, _) => Ok(Some(asked)),
        (true, true) => Ok(None),
        (true, false) => Err(ErrorCode::AccessControlListNotSupported.into()),
    }
}

/// The list as clients see it.
fn shown_acl(access: &AccessControl, acl: &Acl) -> Vec<u8> {
    let identities = access.identities();
    acl.document(&|id| identities.owner_name(id).map(str::to_owned))
}
