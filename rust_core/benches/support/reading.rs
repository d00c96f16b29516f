//! A signed GET through the lane, over a real store, without Python and without sockets: the seam between the
//! benchmarks and how a server carries requests out.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use orcas_core::engine::Engine;
use orcas_core::http::{Headers, RequestHead};
use orcas_core::record::Durability;
use orcas_core::sigv4::{Credential, Signer};
use orcas_core::transfer::lane::now_ms;
use orcas_core::transfer::{AccessKey, Answer, AnswerBody, Identities, Lane, LaneOptions, Request};

use crate::pump::{Pump, bucket, put, unique};
use crate::support::{open, options};

/// Of the bucket that `support::bucket` makes.
const OWNER: &str = "benchmark";
const ACCESS_KEY: &str = "AKIAIOSFODNN7EXAMPLE";
const SECRET: &[u8] = b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const KEY: &str = "data/2026/part-00017.parquet";

/// A lane whose store holds one object.
pub struct Reading {
    lane: Arc<Lane>,
    engine: Option<Engine>,
    path: String,
    headers: Vec<(String, String)>,
}

impl Reading {
    /// A store in `data` with an object of `length` bytes, closed and opened again, so that the index has it.
    pub fn new(data: &Path, length: usize) -> Self {
        let engine = open(options(data, Durability::Sync));
        let handle = engine.handle();
        let mut pump = Pump::new(1);
        pump.submit(&handle, put(&handle, &bucket(&handle, "benchmark"), Bytes::from(KEY), unique(1, length)));
        pump.finish();
        drop(handle);
        engine.close().expect("the store closes");

        let engine = open(options(data, Durability::Sync));
        let options = LaneOptions {
            region: "us-east-1".into(),
            strict_region: false,
            domains: Vec::new(),
            whole_body_max: 64 * 1024,
            body_budget: 64 << 20,
            workers: 1,
            instant_upload: true,
        };
        let key = AccessKey { credential: credential(), owner: OWNER.into() };
        let identities = Identities { keys: HashMap::from([(ACCESS_KEY.to_owned(), key)]), root: OWNER.into() };
        let lane = Lane::new(engine.handle(), options, identities).expect("a lane");
        let path = format!("/benchmark/{KEY}");
        Self { lane, engine: Some(engine), headers: signed(&path), path }
    }

    /// Calls `with` with the head of the GET, as an HTTP parser leaves it.
    pub fn head<T>(&self, with: impl FnOnce(&RequestHead<'_>) -> T) -> T {
        with_head(&self.path, &self.headers, with)
    }

    pub fn accept(&self, head: &RequestHead<'_>) -> Arc<Request> {
        self.lane.accept(head).map_err(|answer| answer.status).expect("the head is taken")
    }

    /// The whole answer to a GET, when memory or the page cache has the object. May be asked for again.
    pub fn answer(&self, request: &Arc<Request>) -> Option<Answer> {
        let answer = request.start(&[], 0)?;
        assert!(answer.status == 200 && matches!(answer.body, AnswerBody::Bytes(_)), "status {}", answer.status);
        Some(answer)
    }

    /// Waits for the answer of a request that had to ask a worker.
    pub fn wait(&self) {
        while self.lane.completions.drain().is_empty() {
            std::thread::yield_now();
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.lane.close();
        drop(self.engine.take());
    }
}

/// What `ACCESS_KEY` signs with.
pub fn credential() -> Credential {
    Credential { secret: SECRET.into(), generation: 0 }
}

/// The headers of a GET as boto3 sends it.
fn signed(path: &str) -> Vec<(String, String)> {
    let mut headers = [
        ("host", "localhost:9000"),
        ("accept-encoding", "identity"),
        ("user-agent", "Boto3/1.40.0 md/Botocore#1.40.0 ua/2.1 os/linux md/arch#x86_64 lang/python#3.12.0"),
        ("x-amz-checksum-mode", "ENABLED"),
        ("amz-sdk-invocation-id", "6b9d2f4e-53a5-4f2b-9d0e-0c3f7f1f5a11"),
        ("amz-sdk-request", "attempt=1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    let signer = Signer::new(ACCESS_KEY, SECRET, "us-east-1", now_ms() / 1000).expect("a signer");
    // The hash of an empty body, which is what boto3 signs.
    let payload = orcas_core::sigv4::sha256_hex(b"");
    let signature = with_head(path, &headers, |head| signer.sign_request(head, &payload).expect("signed"));
    headers.extend(signature.into_iter().map(|(name, value)| (name.to_owned(), value)));
    headers
}

fn with_head<T>(path: &str, headers: &[(String, String)], with: impl FnOnce(&RequestHead<'_>) -> T) -> T {
    let list: Vec<(&[u8], &[u8])> = headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    with(&RequestHead { method: b"GET", path: path.as_bytes(), query: b"", headers: Headers::new(&list) })
}
