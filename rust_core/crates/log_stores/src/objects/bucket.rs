//! The requests of S3 that a log needs. Each is made once: what its failure means, the protocol decides.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hyper::{HeaderMap, Request, StatusCode};
use orcas_http::{Headers, RequestHead, lossy_text, percent_encode_into};
use orcas_sigv4::{Signer, sha256_hex};

use super::http::{Http, Response, Whole};
use super::url::Place;
use crate::error::{Error, Fault};
use crate::format::OVERHEAD;
use crate::options::{Credentials, Options};

/// A store takes more in one request, but readers keep a whole entry in memory.
pub(crate) const LARGEST_BATCH: usize = 8 << 20;

const LONGEST_RESPONSE: usize = LARGEST_BATCH + OVERHEAD;

pub(super) struct Bucket {
    http: Http,
    region: String,
    /// As in a request line, with a slash before it.
    bucket: String,
    /// Of all keys: empty, or with a slash at its end.
    prefix: String,
    credentials: Credentials,
    timeout: Duration,
}

/// What a `put` replaces.
pub(super) enum Condition<'a> {
    Absent,
    Tag(&'a str),
}

impl Bucket {
    pub(super) fn new(place: Place, options: &Options) -> Result<Self, Error> {
        let credentials = options.credentials.clone();
        let credentials = credentials.ok_or_else(|| Error::Credentials("there are no access keys".to_owned()))?;
        Ok(Self {
            http: Http::new(place.host, place.tls, &options.authorities)?,
            region: place.region,
            bucket: format!("/{}", place.bucket),
            prefix: place.prefix,
            credentials,
            timeout: options.call_timeout,
        })
    }

    /// The object and its ETag. A 404 without the code of S3 proves nothing: a proxy may have sent it.
    pub(super) async fn get(&self, key: &str) -> Result<Option<(Bytes, String)>, Fault> {
        let response = self.call("GET", &self.path(key), "", None, Bytes::new()).await?;
        match (response.status, response.code()) {
            (StatusCode::OK, _) => {
                let tag = response.tag()?;
                Ok(Some((response.body, tag)))
            }
            (StatusCode::NOT_FOUND, "NoSuchKey") => Ok(None),
            _ => Err(response.fault()),
        }
    }

    /// The ETag of what was stored, `None` if the store says that the condition did not hold.
    pub(super) async fn put(&self, key: &str, condition: Condition<'_>, body: Bytes) -> Result<Option<String>, Fault> {
        let condition = match condition {
            Condition::Absent => ("if-none-match", "*"),
            Condition::Tag(tag) => ("if-match", tag),
        };
        let response = self.call("PUT", &self.path(key), "", Some(condition), body).await?;
        match response.status {
            StatusCode::OK => response.tag().map(Some),
            StatusCode::PRECONDITION_FAILED | StatusCode::CONFLICT => Ok(None),
            // An object that is to be replaced is gone.
            StatusCode::NOT_FOUND if response.code() == "NoSuchKey" => Ok(None),
            _ => Err(response.fault()),
        }
    }

    pub(super) async fn delete(&self, key: &str) -> Result<(), Fault> {
        let response = self.call("DELETE", &self.path(key), "", None, Bytes::new()).await?;
        if response.status.is_success() { Ok(()) } else { Err(response.fault()) }
    }

    /// At most a thousand keys of one folder, those behind the key `after`. Each is what follows the last slash.
    pub(super) async fn list(&self, folder: &str, after: &str) -> Result<Vec<String>, Fault> {
        let value = |key: &str| encoded(&format!("{}{key}", self.prefix), false);
        let query = format!("list-type=2&prefix={}&start-after={}", value(folder), value(after));
        let response = self.call("GET", &self.bucket, &query, None, Bytes::new()).await?;
        let text = std::str::from_utf8(&response.body).unwrap_or_default();
        if response.status != StatusCode::OK || !text.contains("<ListBucketResult") {
            return Err(response.fault());
        }
        let keys = text.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next()?.rsplit('/').next());
        Ok(keys.map(str::to_owned).collect())
    }

    fn path(&self, key: &str) -> String {
        format!("{}/{}", self.bucket, encoded(&format!("{}{key}", self.prefix), true))
    }

    async fn call(
        &self,
        method: &str,
        path: &str,
        query: &str,
        condition: Option<(&str, &str)>,
        body: Bytes,
    ) -> Result<Response, Fault> {
        let request = self.request(method, path, query, condition, body).map_err(Fault::Unknown)?;
        match tokio::time::timeout(self.timeout, self.http.send(request, LONGEST_RESPONSE)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(Fault::Unknown(error.to_string())),
            Err(_) => Err(Fault::Unknown(format!("{} s passed without a response", self.timeout.as_secs_f64()))),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a client signs with the system clock")]
    fn request(
        &self,
        method: &str,
        path: &str,
        query: &str,
        condition: Option<(&str, &str)>,
        body: Bytes,
    ) -> Result<Request<Whole>, String> {
        let Credentials { access_key, secret_key, session_token } = &self.credentials;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let signer = Signer::new(access_key, secret_key.as_bytes(), &self.region, now.cast_signed());
        let signer = signer.ok_or("the system clock is wrong")?;
        let token = session_token.as_deref().map(|token| ("x-amz-security-token", token));
        let headers: Vec<_> =
            [Some(("host", self.http.host.as_str())), condition, token].into_iter().flatten().collect();
        let list: Vec<_> = headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        let head = RequestHead {
            method: method.as_bytes(),
            path: path.as_bytes(),
            query: query.as_bytes(),
            headers: Headers::new(&list),
        };
        let signed = signer.sign_request(&head, &sha256_hex(&body)).map_err(|error| error.to_string())?;
        let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers.into_iter().chain(signed.iter().map(|(name, value)| (*name, value.as_str()))) {
            request = request.header(name, value);
        }
        request.body(Whole(body)).map_err(|error| error.to_string())
    }
}

fn encoded(text: &str, is_path: bool) -> String {
    let mut out = Vec::new();
    percent_encode_into(&mut out, text.as_bytes(), is_path);
    lossy_text(&out).into_owned()
}

impl Response {
    /// The code of an error document.
    fn code(&self) -> &str {
        let text = std::str::from_utf8(&self.body).unwrap_or_default();
        let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
        code.map_or("", |(code, _)| code)
    }

    fn tag(&self) -> Result<String, Fault> {
        let tag = |headers: &HeaderMap| headers.get("etag")?.to_str().ok().map(str::to_owned);
        tag(&self.headers).ok_or_else(|| Fault::Unknown("a response has no ETag".to_owned()))
    }

    /// What a response means that is none of those expected.
    fn fault(&self) -> Fault {
        let said = format!("{} {}", self.status, self.code());
        match (self.status, self.code()) {
            (StatusCode::NOT_FOUND, "NoSuchBucket") => Error::Unfit("the bucket does not exist".to_owned()).into(),
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => Fault::Denied(said),
            (StatusCode::NOT_IMPLEMENTED, _) => {
                Error::Unfit(format!("the object store does not know conditional writes: {said}")).into()
            }
            _ => Fault::Unknown(said),
        }
    }
}
