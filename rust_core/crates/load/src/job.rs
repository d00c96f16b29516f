//! Operations: the requests that each consists of, and the judgement of the responses.
//!
//! Invariant: an operation counts as done only if its responses are right. Must not know sockets.

use std::sync::atomic::{AtomicU32, Ordering};

use super::client::{Kind, Response, key_of, number_of, page};
use super::objects::{Claim, ObjectTable, Observation, ReadCheck};
use super::pattern::{Checker, Content, Pattern, Wrong};
use super::plan::{Operation, Workload};
use super::tally::{Failure, Outcome};
use orcas_http::{hex_value, percent_encode_into};

/// The model of the server's content, against which responses are judged. Shared by all threads.
pub struct Model {
    pub workload: Workload,
    pub bucket: String,
    pub pattern: Pattern,
    pub objects: ObjectTable,
    copies: AtomicU32,
    uploads: AtomicU32,
    /// `order_of` the keys of all objects, sorted, if no operation creates or deletes one.
    listed: Option<Box<[u64]>>,
}

impl Model {
    pub fn new(workload: Workload, bucket: String) -> Self {
        let changes = (workload.has(Operation::Put) && !workload.overwrite) || workload.has(Operation::Delete);
        let listed = (workload.has(Operation::List) && !changes).then(|| {
            let key = |number| key_of(workload.seed, Kind::Object, number);
            let mut keys: Vec<u64> = (0..workload.keys).map(|number| order_of(key(number).as_bytes())).collect();
            keys.sort_unstable();
            keys.into_boxed_slice()
        });
        Self {
            pattern: Pattern::new(workload.seed, workload.identical),
            objects: ObjectTable::new(workload.has(Operation::Delete)),
            bucket,
            copies: AtomicU32::new(0),
            uploads: AtomicU32::new(0),
            listed,
            workload,
        }
    }

    fn key(&self, kind: Kind, number: u32) -> String {
        key_of(self.workload.seed, kind, number)
    }

    fn content_of(&self, claim: &Claim) -> Content {
        let length = self.workload.size_of(claim.number);
        Content { object: Kind::Object.identity(claim.number), generation: claim.generation, length }
    }
}

/// The hexadecimal digits of a key as a number. Such numbers sort like the keys; the letter is no hexadecimal digit.
fn order_of(key: &[u8]) -> u64 {
    key.iter().filter_map(|&byte| hex_value(byte)).fold(0, |order, digit| order << 4 | u64::from(digit))
}

/// Something that was written, to be read back after the measurement.
#[derive(Clone, Copy, Debug)]
pub enum Written {
    Object(u32),
    /// A copy of `source` in a generation from `oldest` to `newest`.
    Copy {
        number: u32,
        source: u32,
        oldest: u32,
        newest: u32,
    },
    Multipart(u32),
}

/// A multipart upload in progress.
pub struct Upload {
    number: u32,
    /// Percent-encoded.
    id: Option<String>,
    etags: Vec<String>,
}

/// One operation.
pub enum Job {
    Put(Claim),
    Get(Observation),
    Head(Observation),
    /// The keys after this one.
    List(String),
    Delete(Claim),
    Copy {
        source: Observation,
        number: u32,
    },
    Multipart(Upload),
    ReadCopy {
        number: u32,
        source: u32,
        oldest: u32,
        newest: u32,
    },
    ReadMultipart(u32),
}

/// The body of a request.
pub enum Body {
    None,
    Bytes(Vec<u8>),
    /// `length` bytes of `content`, from `offset` on.
    Content {
        content: Content,
        offset: u64,
        length: u64,
    },
}

/// A request of an operation.
pub struct Step {
    pub method: &'static str,
    pub key: String,
    pub query: String,
    pub header: Option<(&'static str, String)>,
    pub body: Body,
    pub checker: Option<Checker>,
}

impl Step {
    fn new(method: &'static str, key: String) -> Self {
        Self { method, key, query: String::new(), header: None, body: Body::None, checker: None }
    }
}

/// What follows a response.
pub enum Next {
    /// Another request.
    Step,
    Finished(Outcome),
}

impl Job {
    /// An operation on an object that `random` selects. `None` if there is no suitable object.
    pub fn pick(operation: Operation, model: &Model, random: u64) -> Option<Self> {
        let (objects, start) = (&model.objects, (random >> 32) as u32);
        match operation {
            Operation::Put if model.workload.overwrite => {
                objects.claim_written(model.workload.keys, start).map(Self::Put)
            }
            Operation::Put => objects.claim_new().map(Self::Put),
            Operation::Get => objects.find_live(start).map(Self::Get),
            Operation::Head => objects.find_live(start).map(Self::Head),
            Operation::List => Some(Self::List(model.key(Kind::Object, start % objects.len().max(1)))),
            Operation::Delete => objects.claim_live(start).map(Self::Delete),
            Operation::Copy => {
                let source = objects.find_live(start)?;
                Some(Self::Copy { source, number: model.copies.fetch_add(1, Ordering::Relaxed) })
            }
            Operation::Multipart => {
                let number = model.uploads.fetch_add(1, Ordering::Relaxed);
                Some(Self::Multipart(Upload { number, id: None, etags: Vec::new() }))
            }
        }
    }

    /// Reads what was written. `None` if it was deleted since.
    pub fn read_back(written: Written, model: &Model) -> Option<Self> {
        match written {
            Written::Object(number) => model.objects.observe(number).map(Self::Get),
            Written::Copy { number, source, oldest, newest } => Some(Self::ReadCopy { number, source, oldest, newest }),
            Written::Multipart(number) => Some(Self::ReadMultipart(number)),
        }
    }

    /// Length of the response, in bytes, for reads of what was written.
    pub fn length(&self, model: &Model) -> u64 {
        match self {
            Self::Get(seen) => model.workload.size_of(seen.number),
            Self::ReadCopy { source, .. } => model.workload.size_of(*source),
            Self::ReadMultipart(_) => model.workload.multipart_size(),
            _ => 0,
        }
    }

    /// The next request.
    pub fn step(&self, model: &Model) -> Step {
        match self {
            Self::Put(claim) => {
                let content = model.content_of(claim);
                let body = Body::Content { content, offset: 0, length: content.length };
                Step { body, ..Step::new("PUT", model.key(Kind::Object, claim.number)) }
            }
            Self::Get(seen) => self.read(model, Kind::Object, seen.number, Kind::Object.identity(seen.number)),
            Self::ReadCopy { number, source, .. } => {
                self.read(model, Kind::Copy, *number, Kind::Object.identity(*source))
            }
            Self::ReadMultipart(number) => {
                self.read(model, Kind::Multipart, *number, Kind::Multipart.identity(*number))
            }
            Self::Head(seen) => Step::new("HEAD", model.key(Kind::Object, seen.number)),
            Self::List(after) => {
                let mut query = format!("list-type=2&max-keys={}&prefix=o%2F&start-after=", model.workload.list_page);
                query.push_str(&encoded(after));
                Step { query, ..Step::new("GET", String::new()) }
            }
            Self::Delete(claim) => Step::new("DELETE", model.key(Kind::Object, claim.number)),
            Self::Copy { source, number } => {
                let from = format!("/{}/{}", model.bucket, model.key(Kind::Object, source.number));
                let header = Some(("x-amz-copy-source", from));
                Step { header, body: Body::Bytes(Vec::new()), ..Step::new("PUT", model.key(Kind::Copy, *number)) }
            }
            Self::Multipart(upload) => upload.step(model),
        }
    }

    fn read(&self, model: &Model, kind: Kind, number: u32, content: u64) -> Step {
        let checker = model.workload.verify.then(|| Checker::new(&model.pattern, content, self.length(model)));
        Step { checker, ..Step::new("GET", model.key(kind, number)) }
    }

    /// Judges the response to the last request.
    pub fn judge(&mut self, model: &Model, response: &Response) -> Next {
        let outcome = match self {
            Self::Multipart(upload) => match upload.judge(model, response) {
                Some(outcome) => outcome,
                None => return Next::Step,
            },
            Self::Delete(_) if matches!(response.head.status, 200 | 204) => Outcome::Done(0),
            Self::Get(seen) | Self::Head(seen) | Self::Copy { source: seen, .. }
                if response.head.status == 404 && model.workload.verify =>
            {
                match model.objects.judge_missing(seen) {
                    ReadCheck::Raced => Outcome::Raced,
                    _ => Outcome::Wrong(format!("{} is missing", model.key(Kind::Object, seen.number))),
                }
            }
            _ if response.head.status != 200 => refused(response),
            Self::Put(claim) => Outcome::Done(model.workload.size_of(claim.number)),
            Self::Get(seen) => {
                let seen = *seen;
                judge_read(model, Kind::Object, seen.number, response, |found| model.objects.judge_found(&seen, found))
            }
            Self::ReadCopy { number, oldest, newest, .. } => {
                let span = *oldest..=*newest;
                let fits = |found: Option<u32>| found.is_none_or(|found| span.contains(&found) && found % 2 == 1);
                let judge = |found| if fits(found) { ReadCheck::Right } else { ReadCheck::Unknown };
                judge_read(model, Kind::Copy, *number, response, judge)
            }
            Self::ReadMultipart(number) => {
                let fits = |found: Option<u32>| found.is_none_or(|found| found == 1);
                let judge = |found| if fits(found) { ReadCheck::Right } else { ReadCheck::Unknown };
                judge_read(model, Kind::Multipart, *number, response, judge)
            }
            Self::Head(seen) => judge_head(model, seen.number, response),
            Self::List(after) => judge_list(model, after, response),
            Self::Copy { .. } => finished_document(response, b"CopyObjectResult", 0),
            Self::Delete(_) => refused(response),
        };
        Next::Finished(outcome)
    }

    /// Updates the model after the operation has ended. Returns what can be read back.
    pub fn settle(self, model: &Model, outcome: &Outcome) -> Option<Written> {
        let done = matches!(outcome, Outcome::Done(_));
        match self {
            Self::Put(claim) | Self::Delete(claim) => {
                let written = (done && claim.generation % 2 == 1).then_some(Written::Object(claim.number));
                match outcome {
                    Outcome::Done(_) => model.objects.settle(claim),
                    Outcome::Failed(failure) if failure.is_refusal() => model.objects.release(claim),
                    _ => model.objects.abandon(claim),
                }
                written
            }
            Self::Copy { source, number } if done => {
                let (oldest, newest) = model.objects.span(&source);
                Some(Written::Copy { number, source: source.number, oldest, newest })
            }
            Self::Multipart(upload) if done => Some(Written::Multipart(upload.number)),
            _ => None,
        }
    }
}

fn encoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 8);
    percent_encode_into(&mut out, text.as_bytes(), false);
    String::from_utf8_lossy(&out).into_owned()
}

/// The failure that an error response reports.
fn refused(response: &Response) -> Outcome {
    let code = page::error_code(&response.document).map(str::to_owned);
    Outcome::Failed(Failure::Refused { status: response.head.status, code })
}

/// A long operation may fail after the status 200 was sent. Then only the document shows it.
fn finished_document(response: &Response, element: &[u8], bytes: u64) -> Outcome {
    match memchr::memmem::find(&response.document, element) {
        Some(_) => Outcome::Done(bytes),
        None => refused(response),
    }
}

fn judge_read(
    model: &Model,
    kind: Kind,
    number: u32,
    response: &Response,
    judge: impl FnOnce(Option<u32>) -> ReadCheck,
) -> Outcome {
    let wrong = |what: String| Outcome::Wrong(format!("{} {what}", model.key(kind, number)));
    match response.checked {
        None => Outcome::Done(response.length),
        Some(Err(Wrong::Byte(at))) => wrong(format!("has another byte at {at}")),
        Some(Err(Wrong::Length(length))) => wrong(format!("has {length} bytes")),
        Some(Ok(generation)) => match judge(generation) {
            ReadCheck::Right | ReadCheck::Raced => Outcome::Done(response.length),
            ReadCheck::Stale => wrong("is older than an acknowledged write".to_owned()),
            ReadCheck::Unknown | ReadCheck::Missing => wrong("is a write that was never sent".to_owned()),
        },
    }
}

fn judge_head(model: &Model, number: u32, response: &Response) -> Outcome {
    let wanted = model.workload.size_of(number);
    match response.head.content_length {
        Some(length) if length == wanted || !model.workload.verify => Outcome::Done(0),
        length => Outcome::Wrong(format!(
            "{} according to HEAD has Content-Length {length:?}",
            model.key(Kind::Object, number)
        )),
    }
}

fn judge_list(model: &Model, after: &str, response: &Response) -> Outcome {
    let Some(found) = page::parse(&response.document) else { return refused(response) };
    if !model.workload.verify {
        return Outcome::Done(0);
    }
    let wrong = |what: &str| Outcome::Wrong(format!("the list after {after} {what}"));
    let page = usize::from(model.workload.list_page);
    if found.entries.len() > page || (found.truncated && found.entries.len() < page) {
        return wrong("has a wrong number of keys");
    }
    let mut last = after.as_bytes();
    for entry in &found.entries {
        match number_of(model.workload.seed, entry.key) {
            Some(number) if model.workload.size_of(number) == entry.size && number < model.objects.len() => {}
            _ => return wrong("has an object that was never written"),
        }
        if entry.key <= last {
            return wrong("is out of order");
        }
        last = entry.key;
    }
    if let Some(listed) = &model.listed {
        let from = listed.partition_point(|&order| order <= order_of(after.as_bytes()));
        let wanted = listed[from..].iter().take(page);
        if !wanted.copied().eq(found.entries.iter().map(|entry| order_of(entry.key))) {
            return wrong("lacks objects");
        }
    }
    Outcome::Done(0)
}

impl Upload {
    fn content(&self, model: &Model) -> Content {
        let object = Kind::Multipart.identity(self.number);
        Content { object, generation: 1, length: model.workload.multipart_size() }
    }

    fn is_complete(&self, model: &Model) -> bool {
        self.etags.len() == usize::from(model.workload.parts)
    }

    fn step(&self, model: &Model) -> Step {
        let key = model.key(Kind::Multipart, self.number);
        let Some(id) = &self.id else {
            return Step { query: "uploads".to_owned(), body: Body::Bytes(Vec::new()), ..Step::new("POST", key) };
        };
        if self.is_complete(model) {
            let parts = self.etags.iter().zip(1..).map(|(etag, number): (_, u32)| {
                format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
            });
            let document = format!("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", parts.collect::<String>());
            let body = Body::Bytes(document.into_bytes());
            return Step { query: format!("uploadId={id}"), body, ..Step::new("POST", key) };
        }
        let (number, length) = (self.etags.len() + 1, model.workload.part_size);
        let body = Body::Content { content: self.content(model), offset: self.etags.len() as u64 * length, length };
        Step { query: format!("partNumber={number}&uploadId={id}"), body, ..Step::new("PUT", key) }
    }

    /// `None` if another request follows.
    fn judge(&mut self, model: &Model, response: &Response) -> Option<Outcome> {
        if response.head.status != 200 {
            return Some(refused(response));
        }
        if self.id.is_none() {
            match page::text_of(&response.document, &page::UPLOAD_ID) {
                Some(id) => self.id = Some(encoded(&page::unescaped(id))),
                None => return Some(refused(response)),
            }
            return None;
        }
        if self.is_complete(model) {
            return Some(finished_document(
                response,
                b"CompleteMultipartUploadResult",
                model.workload.multipart_size(),
            ));
        }
        match response.head.etag.as_deref().map(String::from_utf8_lossy) {
            Some(etag) => self.etags.push(etag.replace('"', "&quot;")),
            None => return Some(Outcome::Wrong(format!("part {} has no ETag", self.etags.len() + 1))),
        }
        None
    }
}
