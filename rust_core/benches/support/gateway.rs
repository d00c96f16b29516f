//! A gateway without Python and without sockets: signed requests, carried out as a server does, over a store on the disk.
//! The seam between the benchmarks and the request path.

#[path = "../../crates/gateway/src/tests/options.rs"]
mod options;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orcas_base::completions::Completions;
use orcas_bodies::stream::Flow;
use orcas_engine::{Engine, EngineOptions};
use orcas_gateway::{
    BodyPlan, Completion, Gateway, GatewayOptions, Identities, IdentityTables, Ingress, Reply, Request, Responder,
    Response, ResponseBody, now_ms,
};
use orcas_http::{Headers, RequestHead};
use orcas_record::Durability;
use orcas_sigv4::Signer;

pub const OWNER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
pub const HOST: &str = "localhost:9000";
pub const ACCESS_KEY: &str = "ROOT";
pub const SECRET: &[u8] = b"secret";
/// What a server hands over of a large body at a time when it keeps up with its sender.
const RECEIVED: usize = 64 * 1024;

/// What an event loop waits for.
struct Arrived(Completions<Completion>);

impl Responder for Arrived {
    fn complete_quietly(&self, _slot: u32, completion: Completion) -> bool {
        self.0.push_quietly(completion)
    }

    fn wake(&self) {
        self.0.wake();
    }
}

pub struct Server {
    pub gateway: Arc<Gateway>,
    arrived: Arc<Arrived>,
    responder: Arc<dyn Responder>,
    engine: Option<Engine>,
    signer: Signer,
}

/// A signed head, ready to be parsed.
pub struct Signed {
    method: &'static str,
    path: String,
    query: &'static str,
    headers: Vec<(String, String)>,
}

impl Signed {
    /// Calls `with` with the head as an HTTP parser leaves it.
    pub fn head<T>(&self, with: impl FnOnce(&RequestHead<'_>) -> T) -> T {
        let list: Vec<(&[u8], &[u8])> = self.headers.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
        with(&RequestHead {
            method: self.method.as_bytes(),
            path: self.path.as_bytes(),
            query: self.query.as_bytes(),
            headers: Headers::new(&list),
        })
    }
}

impl Server {
    pub fn open(data: &Path, pooling_enabled: bool) -> Self {
        let options = crate::support::options(data, Durability::Sync);
        let engine = crate::support::open(EngineOptions { pooling_enabled, ..options });
        let secret = String::from_utf8(SECRET.to_vec()).expect("text");
        let identities = Identities::new(IdentityTables::of_root(OWNER, &[(ACCESS_KEY, &secret)])).expect("identities");
        let gateway = Gateway::new(engine.handle(), options::options(), identities).expect("a gateway");
        let signer = Signer::new(ACCESS_KEY, SECRET, "us-east-1", now_ms() / 1000).expect("a signer");
        let arrived = Arc::new(Arrived(Completions::new().expect("a queue")));
        let responder = Arc::clone(&arrived) as Arc<dyn Responder>;
        Self { gateway, arrived, responder, engine: Some(engine), signer }
    }

    /// A head with only the headers it needs, for a body of `length` bytes whose hash is not signed.
    pub fn sign(&self, method: &'static str, path: String, query: &'static str, length: usize) -> Signed {
        let headers = [("host", HOST), ("content-length", &length.to_string())];
        self.sign_headers(method, path, query, &headers, "UNSIGNED-PAYLOAD")
    }

    /// `payload` is what the signature says of the body: its SHA-256 in hexadecimal digits, or a mode.
    pub fn sign_headers(
        &self,
        method: &'static str,
        path: String,
        query: &'static str,
        headers: &[(&str, &str)],
        payload: &str,
    ) -> Signed {
        let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let mut signed = Signed { method, path, query, headers };
        let signature = signed.head(|head| self.signer.sign_request(head, payload).expect("signed"));
        signed.headers.extend(signature.into_iter().map(|(name, value)| (name.to_owned(), value)));
        signed
    }

    pub fn accept(&self, head: &RequestHead<'_>) -> Arc<dyn Request> {
        self.gateway
            .accept(head, &Ingress::now("127.0.0.1", false, 0), &self.responder, false)
            .expect("memory has what it needs")
            .map_err(|refusal| refusal.answer.status)
            .expect("the head is taken")
    }

    /// Carries one request out and returns how many bytes the body of its answer had.
    pub fn call(&self, signed: &Signed, body: &[u8]) -> u64 {
        let request = signed.head(|head| self.accept(head));
        let answer = match request.body() {
            BodyPlan::Stream(_) => self.stream(&request, body),
            BodyPlan::None | BodyPlan::Whole(_) => {
                request.body_read();
                Arc::clone(&request)
                    .start(self.gateway.services.bodies.buffers.copy(body), 0)
                    .unwrap_or_else(|| self.answer())
            }
        };
        assert!((200..300).contains(&answer.status), "{} {}: {}", signed.method, signed.path, answer.status);
        self.received(answer)
    }

    fn stream(&self, request: &Arc<dyn Request>, body: &[u8]) -> Response {
        let stream = request.open_body("127.0.0.1").expect("a body");
        for piece in body.chunks(RECEIVED) {
            loop {
                let responder = Arc::clone(&self.responder);
                match stream.admit(Box::new(move || responder.complete(0, Completion::Resume))) {
                    Flow::More => break,
                    Flow::Wait => drop(self.wait()),
                    Flow::Stop => panic!("the body is refused"),
                }
            }
            stream.push(piece);
        }
        request.body_read();
        stream.finish(Reply::new(request.clone(), 0));
        self.answer()
    }

    fn received(&self, answer: Response) -> u64 {
        match answer.body {
            ResponseBody::Empty => 0,
            ResponseBody::Bytes(bytes) => bytes.len() as u64,
            ResponseBody::Pieces(download) => {
                let mut received = 0;
                while received < download.length() {
                    let responder = Arc::clone(&self.responder);
                    let piece = download.next(Box::new(move |piece| responder.complete(0, Completion::Piece(piece))));
                    let piece = piece.unwrap_or_else(|| match self.wait() {
                        Completion::Piece(piece) => piece,
                        _ => panic!("a piece was expected"),
                    });
                    received += piece.map_err(|problem| problem.fault).expect("a piece").len() as u64;
                }
                received
            }
        }
    }

    fn answer(&self) -> Response {
        match self.wait() {
            Completion::Committed(request, result) => request.committed(result),
            Completion::Answered(answer) => answer,
            Completion::Piece(_) | Completion::Resume => panic!("an answer was expected"),
        }
    }

    fn wait(&self) -> Completion {
        loop {
            if let Some(completion) = self.arrived.0.drain().pop() {
                return completion;
            }
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// Until everything is durable and in the index.
    pub fn settle(&self) {
        self.gateway.engine.barrier().expect("the store takes a barrier");
        while self.gateway.engine.health().lag_records > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.gateway.close();
        drop(self.engine.take());
    }
}
