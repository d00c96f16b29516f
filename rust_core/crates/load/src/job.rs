//! Operations as they are asked and judged: which requests each one is made of, and what their answers must say.
//!
//! Invariant: nothing counts as done that was not found right. Must not know sockets.

use std::sync::atomic::{AtomicU32, Ordering};

use super::connection::Answer;
use super::page;
use super::pattern::{Checker, Content, Pattern, Wrong};
use super::plan::{Operation, Workload};
use super::requests::{Kind, key_of, number_of};
use super::space::{Claim, Sight, Space, Verdict};
use super::tally::{Failure, Outcome};
use orcas_http::{hex_value, percent_encode_into};

/// What all threads of a load know together.
pub struct Knowledge {
    pub workload: Workload,
    pub bucket: String,
    pub pattern: Pattern,
    pub space: Space,
    copies: AtomicU32,
    uploads: AtomicU32,
    /// Scatter and number of all objects in the order of their keys, if no operation makes or deletes one.
    listed: Option<Box<[u64]>>,
}

impl Knowledge {
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
            space: Space::new(workload.has(Operation::Delete)),
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

/// The key of an object as a number that is in the same order: its letter is no hexadecimal digit.
fn order_of(key: &[u8]) -> u64 {
    key.iter().filter_map(|&byte| hex_value(byte)).fold(0, |order, digit| order << 4 | u64::from(digit))
}

/// Something that was written, to be read again when the clock has stopped.
#[derive(Clone, Copy, Debug)]
pub enum Written {
    Object(u32),
    /// A copy of an object in one of its writings, from the oldest to the newest that it can be.
    Copy {
        number: u32,
        source: u32,
        oldest: u32,
        newest: u32,
    },
    Multipart(u32),
}

/// A multipart upload under way.
pub struct Upload {
    number: u32,
    /// As it stands in a query.
    id: Option<String>,
    etags: Vec<String>,
}

/// One operation.
pub enum Job {
    Put(Claim),
    Get(Sight),
    Head(Sight),
    /// After this key.
    List(String),
    Delete(Claim),
    Copy {
        source: Sight,
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
    /// `length` bytes of a content from `offset` on.
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

/// What follows an answer.
pub enum Next {
    /// Another request.
    Step,
    Finished(Outcome),
}

impl Job {
    /// An operation on whatever `random` hits. `None`: there is nothing that it could be about.
    pub fn pick(operation: Operation, know: &Knowledge, random: u64) -> Option<Self> {
        let (space, start) = (&know.space, (random >> 32) as u32);
        match operation {
            Operation::Put if know.workload.overwrite => space.claim_written(know.workload.keys, start).map(Self::Put),
            Operation::Put => space.claim_new().map(Self::Put),
            Operation::Get => space.find_live(start).map(Self::Get),
            Operation::Head => space.find_live(start).map(Self::Head),
            Operation::List => Some(Self::List(know.key(Kind::Object, start % space.len().max(1)))),
            Operation::Delete => space.claim_live(start).map(Self::Delete),
            Operation::Copy => {
                let source = space.find_live(start)?;
                Some(Self::Copy { source, number: know.copies.fetch_add(1, Ordering::Relaxed) })
            }
            Operation::Multipart => {
                let number = know.uploads.fetch_add(1, Ordering::Relaxed);
                Some(Self::Multipart(Upload { number, id: None, etags: Vec::new() }))
            }
        }
    }

    /// Reads what was written. `None`: it has been deleted since.
    pub fn read_back(written: Written, know: &Knowledge) -> Option<Self> {
        match written {
            Written::Object(number) => know.space.sight(number).map(Self::Get),
            Written::Copy { number, source, oldest, newest } => Some(Self::ReadCopy { number, source, oldest, newest }),
            Written::Multipart(number) => Some(Self::ReadMultipart(number)),
        }
    }

    /// Bytes that an answer will have, for reads of what was written.
    pub fn length(&self, know: &Knowledge) -> u64 {
        match self {
            Self::Get(sight) => know.workload.size_of(sight.number),
            Self::ReadCopy { source, .. } => know.workload.size_of(*source),
            Self::ReadMultipart(_) => know.workload.multipart_size(),
            _ => 0,
        }
    }

    /// The request that comes next.
    pub fn step(&self, know: &Knowledge) -> Step {
        match self {
            Self::Put(claim) => {
                let content = know.content_of(claim);
                let body = Body::Content { content, offset: 0, length: content.length };
                Step { body, ..Step::new("PUT", know.key(Kind::Object, claim.number)) }
            }
            Self::Get(sight) => self.read(know, Kind::Object, sight.number, Kind::Object.identity(sight.number)),
            Self::ReadCopy { number, source, .. } => {
                self.read(know, Kind::Copy, *number, Kind::Object.identity(*source))
            }
            Self::ReadMultipart(number) => self.read(know, Kind::Multipart, *number, Kind::Multipart.identity(*number)),
            Self::Head(sight) => Step::new("HEAD", know.key(Kind::Object, sight.number)),
            Self::List(after) => {
                let mut query = format!("list-type=2&max-keys={}&prefix=o%2F&start-after=", know.workload.list_page);
                query.push_str(&encoded(after));
                Step { query, ..Step::new("GET", String::new()) }
            }
            Self::Delete(claim) => Step::new("DELETE", know.key(Kind::Object, claim.number)),
            Self::Copy { source, number } => {
                let from = format!("/{}/{}", know.bucket, know.key(Kind::Object, source.number));
                let header = Some(("x-amz-copy-source", from));
                Step { header, body: Body::Bytes(Vec::new()), ..Step::new("PUT", know.key(Kind::Copy, *number)) }
            }
            Self::Multipart(upload) => upload.step(know),
        }
    }

    fn read(&self, know: &Knowledge, kind: Kind, number: u32, content: u64) -> Step {
        let checker = know.workload.verify.then(|| Checker::new(&know.pattern, content, self.length(know)));
        Step { checker, ..Step::new("GET", know.key(kind, number)) }
    }

    /// Judges the answer to the last request.
    pub fn answer(&mut self, know: &Knowledge, answer: &Answer) -> Next {
        let outcome = match self {
            Self::Multipart(upload) => match upload.answer(know, answer) {
                Some(outcome) => outcome,
                None => return Next::Step,
            },
            Self::Delete(_) if matches!(answer.head.status, 200 | 204) => Outcome::Done(0),
            Self::Get(sight) | Self::Head(sight) | Self::Copy { source: sight, .. }
                if answer.head.status == 404 && know.workload.verify =>
            {
                match know.space.judge_missing(sight) {
                    Verdict::Raced => Outcome::Raced,
                    _ => Outcome::Wrong(format!("{} is not there", know.key(Kind::Object, sight.number))),
                }
            }
            _ if answer.head.status != 200 => refused(answer),
            Self::Put(claim) => Outcome::Done(know.workload.size_of(claim.number)),
            Self::Get(sight) => {
                let sight = *sight;
                judge_read(know, Kind::Object, sight.number, answer, |found| know.space.judge_found(&sight, found))
            }
            Self::ReadCopy { number, oldest, newest, .. } => {
                let span = *oldest..=*newest;
                let fits = |found: Option<u32>| found.is_none_or(|found| span.contains(&found) && found % 2 == 1);
                let judge = |found| if fits(found) { Verdict::Right } else { Verdict::Unknown };
                judge_read(know, Kind::Copy, *number, answer, judge)
            }
            Self::ReadMultipart(number) => {
                let fits = |found: Option<u32>| found.is_none_or(|found| found == 1);
                let judge = |found| if fits(found) { Verdict::Right } else { Verdict::Unknown };
                judge_read(know, Kind::Multipart, *number, answer, judge)
            }
            Self::Head(sight) => judge_head(know, sight.number, answer),
            Self::List(after) => judge_list(know, after, answer),
            Self::Copy { .. } => finished_document(answer, b"CopyObjectResult", 0),
            Self::Delete(_) => refused(answer),
        };
        Next::Finished(outcome)
    }

    /// What is written down of an operation that has ended; what there is to read again.
    pub fn settle(self, know: &Knowledge, outcome: &Outcome) -> Option<Written> {
        let done = matches!(outcome, Outcome::Done(_));
        match self {
            Self::Put(claim) | Self::Delete(claim) => {
                let written = (done && claim.generation % 2 == 1).then_some(Written::Object(claim.number));
                match outcome {
                    Outcome::Done(_) => know.space.settle(claim),
                    Outcome::Failed(failure) if failure.is_refusal() => know.space.give_back(claim),
                    _ => know.space.doubt(claim),
                }
                written
            }
            Self::Copy { source, number } if done => {
                let (oldest, newest) = know.space.span(&source);
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

/// Status and code of an answer that is an error.
fn refused(answer: &Answer) -> Outcome {
    let code = page::error_code(&answer.document).map(str::to_owned);
    Outcome::Failed(Failure::Refused { status: answer.head.status, code })
}

/// Operations that take long may be answered with 200 before they fail: only the document tells.
fn finished_document(answer: &Answer, element: &[u8], bytes: u64) -> Outcome {
    match memchr::memmem::find(&answer.document, element) {
        Some(_) => Outcome::Done(bytes),
        None => refused(answer),
    }
}

fn judge_read(
    know: &Knowledge,
    kind: Kind,
    number: u32,
    answer: &Answer,
    judge: impl FnOnce(Option<u32>) -> Verdict,
) -> Outcome {
    let wrong = |what: String| Outcome::Wrong(format!("{} {what}", know.key(kind, number)));
    match answer.checked {
        None => Outcome::Done(answer.length),
        Some(Err(Wrong::Byte(at))) => wrong(format!("has another byte at {at}")),
        Some(Err(Wrong::Length(length))) => wrong(format!("has {length} bytes")),
        Some(Ok(generation)) => match judge(generation) {
            Verdict::Right | Verdict::Raced => Outcome::Done(answer.length),
            Verdict::Stale => wrong("is older than what was answered before".to_owned()),
            Verdict::Unknown | Verdict::Missing => wrong("is a writing that nobody sent".to_owned()),
        },
    }
}

fn judge_head(know: &Knowledge, number: u32, answer: &Answer) -> Outcome {
    let wanted = know.workload.size_of(number);
    match answer.head.content_length {
        Some(length) if length == wanted || !know.workload.verify => Outcome::Done(0),
        length => Outcome::Wrong(format!("{} has, says HEAD, {length:?} bytes", know.key(Kind::Object, number))),
    }
}

fn judge_list(know: &Knowledge, after: &str, answer: &Answer) -> Outcome {
    let Some(found) = page::parse(&answer.document) else { return refused(answer) };
    if !know.workload.verify {
        return Outcome::Done(0);
    }
    let wrong = |what: &str| Outcome::Wrong(format!("the list after {after} {what}"));
    let page = usize::from(know.workload.list_page);
    if found.entries.len() > page || (found.truncated && found.entries.len() < page) {
        return wrong("has another length than it says");
    }
    let mut last = after.as_bytes();
    for entry in &found.entries {
        match number_of(know.workload.seed, entry.key) {
            Some(number) if know.workload.size_of(number) == entry.size && number < know.space.len() => {}
            _ => return wrong("shows what nobody wrote"),
        }
        if entry.key <= last {
            return wrong("is out of order");
        }
        last = entry.key;
    }
    if let Some(listed) = &know.listed {
        let from = listed.partition_point(|&order| order <= order_of(after.as_bytes()));
        let wanted = listed[from..].iter().take(page);
        if !wanted.copied().eq(found.entries.iter().map(|entry| order_of(entry.key))) {
            return wrong("lacks objects");
        }
    }
    Outcome::Done(0)
}

impl Upload {
    fn content(&self, know: &Knowledge) -> Content {
        let object = Kind::Multipart.identity(self.number);
        Content { object, generation: 1, length: know.workload.multipart_size() }
    }

    fn is_complete(&self, know: &Knowledge) -> bool {
        self.etags.len() == usize::from(know.workload.parts)
    }

    fn step(&self, know: &Knowledge) -> Step {
        let key = know.key(Kind::Multipart, self.number);
        let Some(id) = &self.id else {
            return Step { query: "uploads".to_owned(), body: Body::Bytes(Vec::new()), ..Step::new("POST", key) };
        };
        if self.is_complete(know) {
            let parts = self.etags.iter().zip(1..).map(|(etag, number): (_, u32)| {
                format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
            });
            let document = format!("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", parts.collect::<String>());
            let body = Body::Bytes(document.into_bytes());
            return Step { query: format!("uploadId={id}"), body, ..Step::new("POST", key) };
        }
        let (number, length) = (self.etags.len() + 1, know.workload.part_size);
        let body = Body::Content { content: self.content(know), offset: self.etags.len() as u64 * length, length };
        Step { query: format!("partNumber={number}&uploadId={id}"), body, ..Step::new("PUT", key) }
    }

    /// `None`: there is another request to come.
    fn answer(&mut self, know: &Knowledge, answer: &Answer) -> Option<Outcome> {
        if answer.head.status != 200 {
            return Some(refused(answer));
        }
        if self.id.is_none() {
            match page::text_of(&answer.document, &page::UPLOAD_ID) {
                Some(id) => self.id = Some(encoded(&page::unescaped(id))),
                None => return Some(refused(answer)),
            }
            return None;
        }
        if self.is_complete(know) {
            return Some(finished_document(answer, b"CompleteMultipartUploadResult", know.workload.multipart_size()));
        }
        match answer.head.etag.as_deref().map(String::from_utf8_lossy) {
            Some(etag) => self.etags.push(etag.replace('"', "&quot;")),
            None => return Some(Outcome::Wrong(format!("part {} has no ETag", self.etags.len() + 1))),
        }
        None
    }
}
