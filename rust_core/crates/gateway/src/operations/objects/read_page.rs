//! A page of a website: an object of a bucket, found as the website document of the bucket says, for whoever asks.
//!
//! It is no operation of the API and has no row in the table. Parameters of the query have no meaning, as on S3.

use std::sync::Arc;

use bytes::Bytes;

use crate::admission::request_context::RequestContext;
use crate::objects::versions::VersionAddress;
use crate::operations::objects::get_object::{GetObject, PageHeaders};
use crate::requests::request::{Operation, Progress, TypedRequest};
use crate::requests::response::{HeaderBlock, Response};
use orcas_bodies::problem::Problem;
use orcas_catalog::PinnedObject;
use orcas_record::Bucket;
use orcas_s3::ErrorCode;
use orcas_s3::target::KEY_LEN_MAX;
use orcas_s3::website::{Asked, Pages, Redirection, Website, error_headers, no_page};

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
        let (bucket, site) = context.website()?;
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
        request.on_worker(|request| request.page())
    }
}

impl TypedRequest<ReadPage> {
    fn page(&self) -> Result<Response, Problem> {
        let ReadPage { key, host, mount, headers, .. } = &self.input;
        let asked = Asked { key, host, mount };
        let pages = match &*self.input.site {
            Website::Elsewhere(elsewhere) => return Ok(self.redirect(elsewhere.redirection(&asked))),
            Website::Pages(pages) => pages,
        };
        if let Some(redirection) = pages.redirection(&asked, None) {
            return Ok(self.redirect(redirection));
        }
        let page = pages.page(key);
        if let Some(found) = self.find(&page)? {
            return match &found.object.version.headers.website_redirect {
                Some(location) => Ok(self.redirect(Redirection::of_object(&asked, location))),
                None => self.read(&page, headers, &found),
            };
        }
        if let Some(page) = pages.page_of_directory(key)
            && self.find(&page)?.is_some()
        {
            return Ok(self.redirect(Redirection::to_directory(&asked)));
        }
        self.missing(pages, &asked)
    }

    /// The answer where there is no page.
    fn missing(&self, pages: &Pages, asked: &Asked<'_>) -> Result<Response, Problem> {
        let code = ErrorCode::NoSuchKey;
        if let Some(redirection) = pages.redirection(asked, Some(code.status())) {
            return Ok(self.redirect(redirection));
        }
        let (page, document) = (pages.page(asked.key), pages.error_document());
        if let Some(key) = document
            && let Some(found) = self.find(key)?
        {
            if let Some(location) = &found.object.version.headers.website_redirect {
                return Ok(self.redirect(Redirection::of_object(asked, location)));
            }
            let mut answer = self.read(key, &PageHeaders::default(), &found)?;
            let headers = error_headers(&no_page(&page, None));
            headers.iter().for_each(|(name, value)| answer.headers.push(name, value));
            return Ok(Response { status: code.status(), code: Some(code), ..answer });
        }
        Err(no_page(&page, document).into())
    }

    fn find(&self, key: &[u8]) -> Result<Option<PinnedObject>, Problem> {
        // The name of a page may be too long for a key.
        if key.len() > KEY_LEN_MAX {
            return Ok(None);
        }
        Ok(self.gateway.engine.object_in(&self.input.bucket, &Bytes::copy_from_slice(key))?)
    }

    fn read(&self, key: &[u8], headers: &PageHeaders, found: &PinnedObject) -> Result<Response, Problem> {
        let (bucket, key) = (Arc::clone(&self.input.bucket), Bytes::copy_from_slice(key));
        let address = VersionAddress::current("GET", bucket, key);
        GetObject::of_page(address, headers).answer_page(
            &self.gateway,
            &self.envelope,
            found,
            self.tally.stopwatch.as_ref(),
        )
    }

    fn redirect(&self, to: Redirection) -> Response {
        let mut headers = HeaderBlock::new();
        headers.push("location", &to.location);
        self.envelope.empty(to.status, headers)
    }
}
