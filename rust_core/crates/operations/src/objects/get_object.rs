//! GetObject and HeadObject, which differ in whether the body is sent: conditions, ranges and parts, and where the bytes come from.
//!
//! What memory or the page cache holds is answered at once; the rest goes through a worker. Large bodies leave in
//! pieces, so no more than two of them are in memory.

use std::sync::Arc;
use std::time::Instant;

use crate::resources::attributes::shown_lock;
use crate::resources::encryption::{SentKey, check_readable, opened, sent_key, show_encryption_of};
use crate::resources::expiration::{Expiring, show_expiration};
use crate::resources::metadata::shown;
use crate::resources::replication::show_replication;
use crate::resources::versions::{VersionAddress, shows_versions};
use orcas_admission::ingress::now_ms;
use orcas_admission::request_context::RequestContext;
use orcas_base::buffers::Buffer;
use orcas_bodies::download::{Download, Source};
use orcas_bodies::problem::Problem;
use orcas_catalog::PinnedObject;
use orcas_checksum::{ChecksumType, ObjectChecksum};
use orcas_engine::ObjectReader;
use orcas_http::Headers;
use orcas_record::Version;
use orcas_requests::request::{Operation, Progress, TypedRequest};
use orcas_requests::services::Services;
use orcas_responses::response::{Envelope, HeaderBlock, Response, ResponseBody};
use orcas_s3::checksums::wants_checksum;
use orcas_s3::conditions::{PreconditionResult, ReadConditions, if_range_holds};
use orcas_s3::headers::{ObjectAnswer, Overrides};
use orcas_s3::object_lock::LockHeaders;
use orcas_s3::range::{Span, check_range_or_part, no_such_part, part_number, span};
use orcas_s3::support::{OF_A_PART, Understood};
use orcas_s3::{ErrorCode, Named, S3Error, Target};
use orcas_telemetry::stopwatch::{Stopwatch, reading};

/// Bodies up to this size leave in one piece.
const WHOLE_MAX: u64 = 64 * 1024;

pub struct GetObject {
    address: VersionAddress,
    conditions: ReadConditions,
    range: Option<Vec<u8>>,
    if_range: Option<Vec<u8>>,
    part: Option<u16>,
    overrides: Overrides,
    wants_checksum: bool,
    key: Option<SentKey>,
    /// Signed with version 4.
    is_sigv4: bool,
    /// Whoever asks may know what the object contains, but neither its tags nor its lock.
    public: bool,
    /// Whether the URL has the origin of the server, and not one of its bucket.
    shares_origin: bool,
}

impl GetObject {
    /// The read of a page by anybody. `headers` are those of the request if they are to have a meaning.
    pub fn of_page(address: VersionAddress, headers: &PageHeaders) -> Self {
        let PageHeaders { conditions, range, if_range } = headers.clone();
        Self {
            address,
            conditions,
            range,
            if_range,
            part: None,
            overrides: Overrides::default(),
            wants_checksum: false,
            key: None,
            is_sigv4: false,
            public: true,
            shares_origin: false,
        }
    }

    /// The answer about `found`. Blocks.
    pub fn answer_page(
        &self,
        services: &Services,
        envelope: &Envelope,
        found: &PinnedObject,
        stopwatch: Option<&Arc<Stopwatch>>,
    ) -> Result<Response, Problem> {
        let reader = Reader { input: self, services, envelope, stopwatch };
        reader.on_found(found, |found, first, length| reader.read_whole(found, first, length))
    }
}

/// The headers of a request for a page that S3 gives a meaning.
#[derive(Clone, Default)]
pub struct PageHeaders {
    conditions: ReadConditions,
    range: Option<Vec<u8>>,
    if_range: Option<Vec<u8>>,
}

impl PageHeaders {
    pub fn parse(headers: &Headers<'_>) -> Self {
        Self {
            conditions: ReadConditions::of_read(headers).at(now_ms),
            range: headers.get("range").map(<[u8]>::to_vec),
            if_range: headers.get("if-range").map(<[u8]>::to_vec),
        }
    }
}

impl Operation for GetObject {
    const UNDERSTOOD: Understood =
        Understood { version_id: true, attributes: OF_A_PART, reads_clear: true, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let address = VersionAddress::parse(context)?;
        let headers = context.headers();
        let range = headers.get("range").map(<[u8]>::to_vec);
        let part = part_number(&context.query)?;
        check_range_or_part(range.as_deref(), part)?;
        let overrides = Overrides::parse(&context.query)?;
        if context.requester.is_anonymous() && overrides != Overrides::default() {
            let message = "Request specific response headers cannot be used for anonymous GET requests.";
            return Err(S3Error::with(ErrorCode::InvalidRequest, message).into());
        }
        Ok(Self {
            address,
            conditions: ReadConditions::of_read(headers).at(now_ms),
            range,
            if_range: headers.get("if-range").map(<[u8]>::to_vec),
            part,
            overrides,
            wants_checksum: wants_checksum(headers)?,
            key: sent_key(context)?,
            is_sigv4: context.is_sigv4(),
            public: false,
            shares_origin: matches!(context.target, Target::Object { hosted: false, .. }),
        })
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        let address = &request.input.address;
        let since = request.now_if_timed();
        let at_hand = match address.version {
            None => request.services.engine.try_object_in(&address.bucket, &address.key),
            Some(_) => None,
        };
        match at_hand {
            Some(Some(found)) => {
                Self::note_found(request, since);
                Self::found(request, found)
            }
            // Whether there is a delete marker has to be looked up.
            Some(None) if !shows_versions(&address.bucket) => {
                Ok(address.missing(&request.services.engine, &request.envelope)?.into())
            }
            Some(None) | None => request.on_worker(|request| {
                let since = request.now_if_timed();
                request.input.address.find(&request.services.engine, &request.envelope, |found| {
                    Self::note_found(request, since);
                    let reader = Self::reader(request);
                    reader.on_found(&found, |found, first, length| reader.read_whole(found, first, length))
                })
            }),
        }
    }

    fn named(&self) -> Named<'_> {
        self.address.named()
    }
}

/// The part of an object that is sent.
struct Selection {
    /// First and last byte of a 206.
    range: Option<(u64, u64)>,
    /// The checksum of exactly what is sent.
    checksum: Option<ObjectChecksum>,
    parts_count: Option<u16>,
}

impl GetObject {
    /// Answers at once if the bytes are at hand.
    fn found(request: &Arc<TypedRequest<Self>>, found: PinnedObject) -> Result<Progress, Problem> {
        let mut absent = None;
        let answer = Self::reader(request).on_found(&found, |found, first, length| {
            let mut content = request.services.bodies.buffers.take(length);
            content.resize(length, 0);
            if reading(request.tally.stopwatch.as_deref(), || {
                request.services.engine.content().try_read(found, first, &mut content)
            })? {
                return Ok(content);
            }
            absent = Some((found.clone(), first, length));
            Ok(Vec::new().into())
        })?;
        let Some((found, first, length)) = absent else { return Ok(answer.into()) };
        request.on_worker(move |request| {
            let content = Self::reader(request).read_whole(&found, first, length)?;
            Ok(Response { body: ResponseBody::Bytes(content), ..answer })
        })
    }

    fn reader(request: &TypedRequest<Self>) -> Reader<'_> {
        Reader {
            input: &request.input,
            services: &request.services,
            envelope: &request.envelope,
            stopwatch: request.tally.stopwatch.as_ref(),
        }
    }

    fn note_found(request: &TypedRequest<Self>, since: Option<Instant>) {
        if let (Some(stopwatch), Some(since)) = (&request.tally.stopwatch, since) {
            stopwatch.found(since);
        }
    }
}

/// The circumstances on which the answer depends beside the object.
struct Reader<'a> {
    input: &'a GetObject,
    services: &'a Services,
    envelope: &'a Envelope,
    stopwatch: Option<&'a Arc<Stopwatch>>,
}

impl Reader<'_> {
    /// The answer about `found`; `whole` reads a small body.
    fn on_found(
        &self,
        found: &PinnedObject,
        whole: impl FnOnce(&PinnedObject, u64, usize) -> Result<Buffer, Problem>,
    ) -> Result<Response, Problem> {
        let read = self.input;
        check_readable(&self.services.engine, &found.object.version, read.key.as_ref(), read.is_sigv4)?;
        let with_key;
        let found = match &read.key {
            None => found,
            Some(_) => {
                with_key = opened(found.clone(), read.key.as_ref());
                &with_key
            }
        };
        let version = &found.object.version;
        let opened;
        // Most headers are not sealed, and are not even moved then.
        let headers = match &version.headers.sealed {
            None => &version.headers,
            Some(_) => {
                opened = self.services.engine.content().headers(found)?;
                &*opened
            }
        };
        let user = &headers.user;
        let modified_ms = i64::try_from(version.modified_ms).unwrap_or(i64::MAX);
        let mut answer = ObjectAnswer {
            etag: version.etag,
            size: version.size,
            modified_ms,
            stored: shown(headers),
            overrides: &read.overrides,
            range: None,
            checksum: None,
            version: read.address.shown(version),
            tag_count: if read.public { 0 } else { version.attributes.tags.len() },
            lock: if read.public { LockHeaders::default() } else { shown_lock(&version.attributes) },
            parts_count: None,
            shares_origin: read.shares_origin,
        };
        match read.conditions.judge(&version.etag, modified_ms) {
            PreconditionResult::Proceed => {}
            PreconditionResult::NotModified => return Ok(self.envelope.empty(304, answer.not_modified())),
            PreconditionResult::Failed(condition) => return Err(S3Error::precondition(condition).into()),
        }
        let selection = match select(read, version, modified_ms) {
            Ok(selection) => selection,
            Err(error) => return Ok(self.unsatisfiable(error, version.size)),
        };
        answer.range = selection.range;
        let kind = version.checksum.map_or(ChecksumType::FullObject, |whole| whole.kind());
        answer.checksum = selection.checksum.as_ref().filter(|_| read.wants_checksum).map(|checksum| (checksum, kind));
        answer.parts_count = selection.parts_count;
        let mut headers = answer.headers();
        show_encryption_of(self.services, version, read.key.as_ref(), &mut headers);
        // Rules speak of the current version: one that is named need not be it.
        if read.address.version.is_none() {
            show_expiration(&self.services.engine, &mut headers, || Expiring::of(read.address.bucket.id, version));
        }
        if !read.public {
            let found = (version, read.address.version.is_none());
            show_replication(self.services, &mut headers, &read.address.bucket, found, user);
        }
        let status = if selection.range.is_some() { 206 } else { 200 };
        let (first, length) = match selection.range {
            Some((first, last)) => (first, last - first + 1),
            None => (0, version.size),
        };
        let body = if self.envelope.is_head || length == 0 {
            ResponseBody::Empty
        } else if length <= WHOLE_MAX {
            ResponseBody::Bytes(whole(found, first, length as usize)?)
        } else {
            // Once the response has begun, it is too late for an error.
            self.services.engine.keys().check_named_key(version.attributes.encryption.as_ref())?;
            let source = self.source(found, first, length);
            ResponseBody::Pieces(Download::start(&self.services.bodies.downloads, length, source))
        };
        Ok(self.envelope.complete(status, headers, body))
    }

    fn unsatisfiable(&self, error: S3Error, size: u64) -> Response {
        let mut headers = HeaderBlock::new();
        if error.code == ErrorCode::InvalidRange {
            headers.set_unsatisfied_range(size);
        }
        self.envelope.problem_with(error.into(), headers)
    }

    /// Reads a small body; blocks.
    fn read_whole(&self, found: &PinnedObject, first: u64, length: usize) -> Result<Buffer, Problem> {
        let mut content = self.services.bodies.buffers.take(length);
        content.resize(length, 0);
        let mut reader = self.services.engine.content().reader(found, first, first + length as u64 - 1);
        reading(self.stopwatch.map(|stopwatch| &**stopwatch), || fill(&mut reader, &mut content))?;
        Ok(content)
    }

    /// Reads a large body piece by piece.
    fn source(&self, found: &PinnedObject, first: u64, length: u64) -> Source {
        let mut reader = self.services.engine.content().reader(found, first, first + length - 1);
        let stopwatch = self.stopwatch.cloned();
        Box::new(move |piece, wanted| {
            let wanted = reader.remaining().min(wanted as u64) as usize;
            piece.resize(wanted, 0);
            reading(stopwatch.as_deref(), || fill(&mut reader, piece))
        })
    }
}

/// Reads the next bytes of an object; blocks.
fn fill(reader: &mut ObjectReader, out: &mut [u8]) -> Result<(), Problem> {
    let mut at = 0;
    while at < out.len() {
        match reader.read(&mut out[at..])? {
            0 => return Err(Problem::internal("an object is shorter than its record says")),
            read => at += read,
        }
    }
    Ok(())
}

/// Which bytes the request asks for.
fn select(read: &GetObject, version: &Version, modified_ms: i64) -> Result<Selection, S3Error> {
    if let Some(number) = read.part {
        return select_part(number, version);
    }
    let applies = read.if_range.as_ref().is_none_or(|value| if_range_holds(value, &version.etag, modified_ms));
    match span(read.range.as_deref().filter(|_| applies), version.size) {
        Span::Whole => Ok(Selection { range: None, checksum: version.checksum, parts_count: None }),
        Span::Part { first, last } => {
            let whole = first == 0 && last + 1 == version.size;
            let checksum = version.checksum.filter(|_| whole);
            Ok(Selection { range: Some((first, last)), checksum, parts_count: None })
        }
        Span::Unsatisfiable => Err(S3Error::unsatisfiable(read.range.as_deref().unwrap_or_default(), version.size)),
    }
}

/// The bytes of one part; an object that was not completed from parts is its own part 1.
fn select_part(number: u16, version: &Version) -> Result<Selection, S3Error> {
    if version.parts.is_empty() {
        return match number {
            1 => {
                let range = version.size.checked_sub(1).map(|last| (0, last));
                Ok(Selection { range, checksum: version.checksum, parts_count: None })
            }
            _ => Err(no_such_part(number, 1)),
        };
    }
    let mut first = 0;
    for part in &version.parts {
        if part.number == number {
            let range = part.size.checked_sub(1).map(|last| (first, first + last));
            let composite = version.checksum.is_some_and(|whole| whole.kind() == ChecksumType::Composite);
            let checksum = part.checksum.filter(|_| composite).map(ObjectChecksum::full);
            let parts_count = u16::try_from(version.parts.len()).ok();
            return Ok(Selection { range, checksum, parts_count });
        }
        first += part.size;
    }
    Err(no_such_part(number, version.parts.len()))
}
