//! Requests that a worker accepts, because that may wait for the disk: heads whose access decisions need what only the index
//! has, and forms. Nothing of their content is received before, so nothing is stored that is not authorized.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::gateway::Gateway;
use crate::refusal::Refusal;
use orcas_admission::ingress::Ingress;
use orcas_bodies::problem::Problem;
use orcas_http::{Headers, RequestHead};
use orcas_requests::request::Request;
use orcas_responses::reply::{Completion, Responder};
use orcas_responses::response::Envelope;
use orcas_s3::Operation;

/// A verified request, or its refusal.
pub type Accepted = Result<Arc<dyn Request>, Box<Refusal>>;

/// The job that accepts the request on a worker.
type Job = Box<dyn FnOnce() -> Option<Accepted> + Send>;

/// A request that is to be accepted on a worker.
pub struct Postponed {
    gateway: Arc<Gateway>,
    responder: Arc<dyn Responder>,
    /// The envelope of the answer, if the request is refused.
    envelope: Envelope,
    pub operation: Option<Operation>,
    pub began: Instant,
    job: Mutex<Option<Job>>,
    accepted: Mutex<Option<Accepted>>,
}

impl Postponed {
    pub fn new(
        (gateway, responder): (&Arc<Gateway>, &Arc<dyn Responder>),
        (operation, began): (Option<Operation>, Instant),
        envelope: Envelope,
        job: impl FnOnce() -> Option<Accepted> + Send + 'static,
    ) -> Arc<Self> {
        let (gateway, responder, job) =
            (Arc::clone(gateway), Arc::clone(responder), Mutex::new(Some(Box::new(job) as Job)));
        Arc::new(Self { gateway, responder, envelope, operation, began, job, accepted: Mutex::default() })
    }

    /// The request with this head, which `accept` has postponed.
    pub fn of_head(
        gateway: &Arc<Gateway>,
        responder: &Arc<dyn Responder>,
        head: &RequestHead<'_>,
        ingress: &Ingress,
    ) -> Arc<Self> {
        let operation = gateway.describe(head, ingress.mount_length).operation;
        let envelope = gateway.envelope(head.method, head.path);
        let envelope = envelope.with_cors(gateway.cors_lines(head, ingress.mount_length));
        let [method, path, query] = [head.method, head.path, head.query].map(<[u8]>::to_vec);
        let headers: Vec<_> = head.headers.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        let (known, ingress) = ((Arc::clone(gateway), Arc::clone(responder)), *ingress);
        Self::new((gateway, responder), (operation, ingress.began), envelope, move || {
            let (gateway, responder) = &known;
            let list: Vec<(&[u8], &[u8])> = headers.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            let head = RequestHead { method: &method, path: &path, query: &query, headers: Headers::new(&list) };
            let accepted = gateway.accept(&head, &ingress, responder, true)?;
            Some(accepted.map_err(|refusal| refusal.observed(gateway, &head, &ingress)))
        })
    }

    /// Lets a worker accept the request. A `Resume` for `slot` follows.
    pub fn begin(self: &Arc<Self>, slot: u32) {
        let (postponed, resume) = (Arc::clone(self), ResumeLater { responder: Arc::clone(&self.responder), slot });
        self.gateway.services.pool.spawn(move || {
            // It follows also if the worker panics or never runs this.
            let _resume = resume;
            let job = postponed.job.lock().take();
            let accepted = job.and_then(|job| job());
            *postponed.accepted.lock() = accepted;
        });
    }

    /// The result, once the worker is done.
    pub fn take(&self) -> Accepted {
        let accepted = self.accepted.lock().take();
        accepted.unwrap_or_else(|| {
            let answer = self.envelope.problem(Problem::internal("a worker ended without accepting the request"));
            Err(Refusal::new(answer.closing()))
        })
    }
}

struct ResumeLater {
    responder: Arc<dyn Responder>,
    slot: u32,
}

impl Drop for ResumeLater {
    fn drop(&mut self) {
        self.responder.complete(self.slot, Completion::Resume);
    }
}
