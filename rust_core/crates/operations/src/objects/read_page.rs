//! A page of a website: an object of a bucket, found as the website document of the bucket says, for whoever asks.
//!
//! It is no operation of the API and has no row in the table. Parameters of the query have no meaning, as on S3.

use std::sync::Arc;

use bytes::Bytes;

use crate::objects::get_object::{GetObject, PageHeaders};
use crate::resources::versions::VersionAddress;
use orcas_admission::access_decision::{Question, Resource, ResourceFacts};
use orcas_admission::documents::document;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_catalog::PinnedObject;
use orcas_record::Bucket;
use orcas_requests::request::{Operation, Progress, TypedRequest};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::target::KEY_LEN_MAX;
use orcas_s3::website::{Asked, Pages, Redirection, Website, error_headers, no_page};
use orcas_s3::{ErrorCode, S3Error};

pub struct ReadPage {
    bucket: Arc<Bucket>,
    site: Arc<Website>,
    /// Empty for the start page.
    key: Vec<u8>,
    host: Vec<u8>,
    mount: Vec<u8>,
    headers: PageHeaders,
}

impl Operation for ReadPage {
    const FOR_BROWSERS: bool = true;

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let (bucket, site) = website_of(context)?;
        Ok(Self {
            bucket,
            site,
            key: context.target.key().unwrap_or_default().to_vec(),
            host: context.headers().get("host").unwrap_or_default().to_vec(),
            mount: context.mount().to_vec(),
            headers: PageHeaders::parse(context.headers()),
        })
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        request.on_worker(|request| Self::page(request))
    }
}

/// The bucket of a page, and its website.
///
/// # Errors
/// `NoSuchWebsiteConfiguration`, also for a bucket that does not exist, because visitors must not learn which do;
/// `AccessDenied` if the public access block of the bucket forbids that everybody reads it.
fn website_of(context: &RequestContext<'_>) -> Result<(Arc<Bucket>, Arc<Website>), S3Error> {
    let RequestContext { access, target, .. } = context;
    let name = target.bucket().unwrap_or_default();
    let found = access.engine.bucket(name.as_bytes()).and_then(|bucket| {
        let website = document(&access.engine, bucket.id)?;
        Some((bucket, website))
    });
    let Some((bucket, website)) = found else {
        return Err(S3Error::new(ErrorCode::NoSuchWebsiteConfiguration).field("BucketName", name));
    };
    let facts = ResourceFacts { is_published: !access.public_access_block(bucket.id).blocks_reads() };
    let resource = Resource::Object { bucket: name, key: target.key().unwrap_or_default() };
    let question = Question { requester: &context.requester, action: "s3:GetObject", resource, facts };
    access.authorize_action(&access.identities(), &question, &context.circumstances(None))?;
    let _ = context.found.set(Arc::clone(&bucket));
    Ok((bucket, website))
}

impl ReadPage {
    fn page(request: &TypedRequest<Self>) -> Result<Response, Problem> {
        let ReadPage { key, host, mount, headers, .. } = &request.input;
        let asked = Asked { key, host, mount };
        let pages = match &*request.input.site {
            Website::Elsewhere(elsewhere) => return Ok(Self::redirect(request, elsewhere.redirection(&asked))),
            Website::Pages(pages) => pages,
        };
        if let Some(redirection) = pages.redirection(&asked, None) {
            return Ok(Self::redirect(request, redirection));
        }
        let page = pages.page(key);
        if let Some(found) = Self::find(request, &page)? {
            return match &found.object.version.headers.website_redirect {
                Some(location) => Ok(Self::redirect(request, Redirection::of_object(&asked, location))),
                None => Self::read(request, &page, headers, &found),
            };
        }
        if let Some(page) = pages.page_of_directory(key)
            && Self::find(request, &page)?.is_some()
        {
            return Ok(Self::redirect(request, Redirection::to_directory(&asked)));
        }
        Self::missing(request, pages, &asked)
    }

    /// The answer where there is no page.
    fn missing(request: &TypedRequest<Self>, pages: &Pages, asked: &Asked<'_>) -> Result<Response, Problem> {
        let code = ErrorCode::NoSuchKey;
        if let Some(redirection) = pages.redirection(asked, Some(code.status())) {
            return Ok(Self::redirect(request, redirection));
        }
        let (page, document) = (pages.page(asked.key), pages.error_document());
        if let Some(key) = document
            && let Some(found) = Self::find(request, key)?
        {
            if let Some(location) = &found.object.version.headers.website_redirect {
                return Ok(Self::redirect(request, Redirection::of_object(asked, location)));
            }
            let mut answer = Self::read(request, key, &PageHeaders::default(), &found)?;
            let headers = error_headers(&no_page(&page, None));
            headers.iter().for_each(|(name, value)| answer.headers.push(name, value));
            return Ok(Response { status: code.status(), code: Some(code), ..answer });
        }
        Err(no_page(&page, document).into())
    }

    fn find(request: &TypedRequest<Self>, key: &[u8]) -> Result<Option<PinnedObject>, Problem> {
        // The name of a page may be too long for a key.
        if key.len() > KEY_LEN_MAX {
            return Ok(None);
        }
        Ok(request.services.engine.object_in(&request.input.bucket, &Bytes::copy_from_slice(key))?)
    }

    fn read(
        request: &TypedRequest<Self>,
        key: &[u8],
        headers: &PageHeaders,
        found: &PinnedObject,
    ) -> Result<Response, Problem> {
        let (bucket, key) = (Arc::clone(&request.input.bucket), Bytes::copy_from_slice(key));
        let address = VersionAddress::current("GET", bucket, key);
        GetObject::of_page(address, headers).answer_page(
            &request.services,
            &request.envelope,
            found,
            request.tally.stopwatch.as_ref(),
        )
    }

    fn redirect(request: &TypedRequest<Self>, to: Redirection) -> Response {
        let mut headers = HeaderBlock::new();
        headers.push("location", &to.location);
        request.envelope.empty(to.status, headers)
    }
}
