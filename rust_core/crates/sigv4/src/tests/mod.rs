//! Published vectors, requests of a real client, and hostile variations of both.

mod chunks;
mod diagnosis;
mod forms;
mod presigned;
mod requests;
mod vectors;
mod version_two;

use std::sync::Arc;

use super::{
    Authenticated, Credential, Requirements, SKEW_MAX_MS, SignatureError, Signer, SigningKeys, authenticate, sha256_hex,
};
use orcas_http::{Headers, RequestHead};

/// The example credentials and date of the S3 documentation.
const ACCESS_KEY: &str = "AKIAIOSFODNN7EXAMPLE";
const SECRET: &[u8] = b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const MAY_24_2013: i64 = 1_369_353_600;

#[derive(Clone, Debug)]
struct Request {
    method: Vec<u8>,
    path: Vec<u8>,
    query: Vec<u8>,
    headers: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Request {
    fn new(method: &str, target: &str, headers: &[(&str, &str)]) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Self {
            method: method.into(),
            path: path.into(),
            query: query.into(),
            headers: headers
                .iter()
                .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
                .collect(),
        }
    }

    fn with_head<T>(&self, use_head: impl FnOnce(&RequestHead<'_>) -> T) -> T {
        let list: Vec<(&[u8], &[u8])> = self.headers.iter().map(|(n, v)| (n.as_slice(), v.as_slice())).collect();
        let headers = Headers::new(&list);
        use_head(&RequestHead { method: &self.method, path: &self.path, query: &self.query, headers })
    }

    fn header(&self, name: &str) -> String {
        let found = self.headers.iter().find(|(n, _)| n == name.as_bytes());
        String::from_utf8(found.expect("the header is there").1.clone()).expect("text")
    }

    fn set(&mut self, name: &str, value: &str) -> &mut Self {
        self.headers.retain(|(n, _)| n != name.as_bytes());
        self.add(name, value)
    }

    fn add(&mut self, name: &str, value: &str) -> &mut Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds the headers of a signature made at `now_unix_s`.
    fn signed(mut self, payload: &str, now_unix_s: i64) -> Self {
        let added = self.with_head(|head| signer(now_unix_s).sign_request(head, payload)).expect("can be signed");
        for (name, value) in added {
            self.add(name, &value);
        }
        self
    }

    fn presigned(mut self, expires_s: i64, now_unix_s: i64) -> Self {
        self.query = self.with_head(|head| signer(now_unix_s).presign(head, expires_s)).expect("can be signed").into();
        self
    }

    fn authenticate_at(&self, now_unix_ms: i64) -> Result<Authenticated, SignatureError> {
        self.authenticate_with(&SigningKeys::new(), None, now_unix_ms)
    }

    /// Where no presigned request may be signed for longer.
    fn authenticate_within(&self, presign_max_s: i64) -> Result<Authenticated, SignatureError> {
        let requirements = Requirements {
            may_lack_region: false,
            presign_max_s,
            any_signature: false,
            region: None,
            now_unix_ms: MAY_24_2013 * 1000,
            skew_max_ms: SKEW_MAX_MS,
            service: "s3",
            body: None,
            session_token: None,
            version_two: None,
        };
        self.with_head(|head| authenticate(head, &requirements, &SigningKeys::new(), &lookup))
    }

    fn authenticate_with(
        &self,
        keys: &SigningKeys,
        region: Option<&str>,
        now_unix_ms: i64,
    ) -> Result<Authenticated, SignatureError> {
        let requirements = Requirements {
            may_lack_region: false,
            presign_max_s: crate::PRESIGN_EXPIRES_S_MAX,
            any_signature: false,
            region,
            now_unix_ms,
            skew_max_ms: SKEW_MAX_MS,
            service: "s3",
            body: None,
            session_token: None,
            version_two: None,
        };
        self.with_head(|head| authenticate(head, &requirements, keys, &lookup))
    }

    /// At the moment of the S3 documentation's examples.
    fn authenticate(&self) -> Result<Authenticated, SignatureError> {
        self.authenticate_at(MAY_24_2013 * 1000)
    }
}

fn lookup(access_key: &str) -> Option<Credential> {
    (access_key == ACCESS_KEY).then(|| Credential { secret: Arc::from(SECRET), generation: 1 })
}

fn signer(now_unix_s: i64) -> Signer {
    Signer::new(ACCESS_KEY, SECRET, "us-east-1", now_unix_s).expect("a year of four digits")
}

/// A signed `PutObject` with every kind of part that a signature covers.
fn signed_put() -> Request {
    Request::new(
        "PUT",
        "/bucket/a%20b/%C3%A9~.txt?partNumber=7&uploadId=x%2By",
        &[
            ("host", "127.0.0.1:9000"),
            ("content-type", "text/plain"),
            ("x-amz-meta-city", "Bern"),
            ("x-amz-storage-class", "STANDARD"),
        ],
    )
    .signed(&sha256_hex(b"body"), MAY_24_2013)
}
