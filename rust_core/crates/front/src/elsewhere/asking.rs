//! Reads that a node answers itself while another one owns the log: which they are, and the question to the owner before.
//!
//! Invariants. An owner answers questions as long as it answers requests. Question and answer are authenticated with the
//! keys of the store, and an answer is to its question alone.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use http::header::CONTENT_LENGTH;
use http::{HeaderName, HeaderValue, Method, Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use rustls::crypto::ring;
use tokio::time::timeout;

use crate::answer::{AnswerBody, Content};
use crate::elsewhere::owner::{Place, Remote};
use crate::elsewhere::reads::{Index, PATIENCE, Wanted};
use crate::exchange::Exchange;
use crate::head::Head;
use crate::receiving::Receiving;
use crate::route;
use orcas_gateway::Request as Accepted;
use orcas_http::{hex, parse_hex};

/// The path of questions. Others who ask for it find nothing there.
const PATH: &str = "/_orcas/cluster/shown";
const QUESTION: HeaderName = HeaderName::from_static("orcas-question");
const NONCE: usize = 16;
const CODE: usize = 32;
const NUMBERS: usize = 40;

impl Exchange {
    /// Whether this is a read that this node may answer now, though the owner of the log is elsewhere.
    pub async fn may_read(&self, place: &Place, head: &Head, is_held: bool) -> bool {
        let shared = &self.context.shared;
        let Some(cluster) = shared.options.cluster.as_ref().filter(|cluster| cluster.reads_here) else { return false };
        let is_read = !head.has_body && matches!(*head.method(), Method::GET | Method::HEAD);
        if !is_read || route::is_for_application(shared, head, is_held) {
            return false;
        }
        let ask = |number| async move {
            match place {
                // Without an answer, the log may say what was acknowledged.
                Place::At(remote) => match timeout(PATIENCE, self.ask_for_index(remote)).await {
                    Ok(Some(index)) => Some(Wanted::Index(index)),
                    _ => Some(Wanted::End(number)),
                },
                Place::Nobody => Some(Wanted::End(number)),
                Place::Here => None,
            }
        };
        cluster.reads.admit(ask).await
    }

    /// What the owner shows.
    async fn ask_for_index(&self, remote: &Remote) -> Option<Index> {
        let gateway = &self.context.shared.gateway;
        let mut nonce = [0; NONCE];
        ring::default_provider().secure_random.fill(&mut nonce).ok()?;
        let question = hex(&[&nonce[..], &gateway.engine.authenticate(&message(b"question", &nonce, &[]))].concat());
        let mut request = Request::new(Receiving::nothing(Arc::clone(&self.conn)));
        *request.uri_mut() = PATH.parse().ok()?;
        request.headers_mut().insert(QUESTION, HeaderValue::try_from(question).ok()?);
        let answer = remote.send(self.context.thread, request).await.ok()?;
        let answer = read::<{ NUMBERS + CODE }>(answer.into_body()).await?;
        let (numbers, code) = answer.split_at(NUMBERS);
        if !gateway.engine.is_authentic(&message(b"answer", &nonce, numbers), code) {
            return None;
        }
        let number = |at: usize| numbers[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        let last = numbers[24..].try_into().map(u128::from_le_bytes).ok()?;
        Some(Index { term: number(0)?, sequence: number(8)?, position: number(16)?, last })
    }

    /// The answer to the question of another node, if this is one and this node owns the log.
    pub fn tell_index(&self, head: &Head) -> Option<Response<AnswerBody>> {
        let shared = &self.context.shared;
        if head.path() != PATH {
            return None;
        }
        let question: [u8; NONCE + CODE] = parse_hex(head.header(QUESTION.as_str())?)?;
        let (nonce, code) = question.split_at(NONCE);
        if !shared.gateway.engine.is_authentic(&message(b"question", nonce, &[]), code) {
            return None;
        }
        let sequence = shared.gateway.engine.published_sequence();
        // After that: what everybody sees is in the log before this position.
        let (term, position, last) = (shared.options.cluster.as_ref()?.end)()?;
        // After both: what an owner has seen whose time was over says nothing.
        if shared.is_overdue(shared.detours()) {
            return None;
        }
        let mut answer = [term, sequence, position].map(u64::to_le_bytes).concat();
        answer.extend_from_slice(&last.to_le_bytes());
        answer.extend_from_slice(&shared.gateway.engine.authenticate(&message(b"answer", nonce, &answer)));
        let length = answer.len();
        let mut response = Response::new(AnswerBody::new(Content::Whole(answer.into()), None, &self.conn));
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        Some(response)
    }

    /// Whether an accepted request is answered here while another node owns the log: it reads, and nothing that it does has
    /// to be known to the owner.
    pub fn is_read_here(&self, request: &dyn Accepted, head: &Head) -> bool {
        !request.operation().changes()
            && request.audited().is_none()
            && request.requester().limits.is_none()
            && !self.is_logged(head)
    }

    /// Whether the owner writes down requests like this one, in a bucket.
    pub fn is_logged(&self, head: &Head) -> bool {
        let gateway = &self.context.shared.gateway;
        if !gateway.engine.logs_buckets() {
            return false;
        }
        let pairs = head.pairs();
        gateway.describe(&head.as_request(&pairs), 0).bucket.is_none_or(|bucket| gateway.is_logged(&bucket))
    }
}

/// What is authenticated of the question with this nonce, or of its answer.
fn message(kind: &[u8], nonce: &[u8], numbers: &[u8]) -> Vec<u8> {
    [kind, nonce, numbers].concat()
}

/// A body of exactly so many bytes.
async fn read<const N: usize>(mut body: Incoming) -> Option<Vec<u8>> {
    let mut found = Vec::with_capacity(N);
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let piece = frame.ok()?.into_data().unwrap_or_default();
        if found.len() + piece.len() > N {
            return None;
        }
        found.extend_from_slice(&piece);
    }
    (found.len() == N).then_some(found)
}
