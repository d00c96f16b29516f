//! The signer, which the load generator and the tests use. It shares the canonical forms with the verifier. Therefore
//! published test vectors check both: that they agree with each other proves nothing.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::canonical::{CanonicalQuery, CanonicalRequest, SERVICE, canonical_path, push_hex, string_to_sign};
use super::date::Timestamp;
use super::error::SignatureError;
use super::keys::{ChunkContext, SigningKey};
use orcas_http::{Headers, Query, RequestHead, hex, percent_encode_into};

/// Signs the requests of one access key in one region and on one day.
pub struct Signer {
    access_key: String,
    region: String,
    timestamp: Timestamp,
    key: Arc<SigningKey>,
}

impl Signer {
    /// `now_unix_s` in seconds since 1970; `None` beyond the year 9999.
    pub fn new(access_key: &str, secret: &[u8], region: &str, now_unix_s: i64) -> Option<Self> {
        let timestamp = Timestamp::from_unix_s(now_unix_s)?;
        let key = Arc::new(SigningKey::derive(secret, &timestamp.day(), region, SERVICE));
        Some(Self { access_key: access_key.to_owned(), region: region.to_owned(), timestamp, key })
    }

    /// The headers to add to `head`, all of whose headers are signed. `payload` is what `x-amz-content-sha256` says.
    pub fn sign_request(
        &self,
        head: &RequestHead<'_>,
        payload: &str,
    ) -> Result<Vec<(&'static str, String)>, SignatureError> {
        let date = self.date();
        let mut list: Vec<(&[u8], &[u8])> = head.headers.iter().collect();
        list.push((b"x-amz-content-sha256", payload.as_bytes()));
        list.push((b"x-amz-date", date.as_bytes()));
        let signed = signed_names(&list);
        let complete = RequestHead { headers: Headers::new(&list), ..*head };
        let signature = hex(&self.signature(&complete, head.query, &signed, payload)?);
        let credential = self.credential();
        let authorization =
            format!("AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={signed}, Signature={signature}");
        Ok(vec![("x-amz-content-sha256", payload.to_owned()), ("x-amz-date", date), ("authorization", authorization)])
    }

    /// The whole query of a presigned request that lives `expires_s` seconds: that of `head`, and the signature.
    pub fn presign(&self, head: &RequestHead<'_>, expires_s: i64) -> Result<String, SignatureError> {
        let signed = signed_names(&head.headers.iter().collect::<Vec<_>>());
        let mut query = head.query.to_vec();
        let parameters = [
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", &self.credential()),
            ("X-Amz-Date", &self.date()),
            ("X-Amz-Expires", &expires_s.to_string()),
            ("X-Amz-SignedHeaders", &signed),
        ];
        for (name, value) in parameters {
            if !query.is_empty() {
                query.push(b'&');
            }
            query.extend_from_slice(name.as_bytes());
            query.push(b'=');
            percent_encode_into(&mut query, value.as_bytes(), false);
        }
        let signature = self.signature(head, &query, &signed, "UNSIGNED-PAYLOAD")?;
        query.extend_from_slice(b"&X-Amz-Signature=");
        push_hex(&mut query, &signature);
        String::from_utf8(query).map_err(|_| SignatureError::InvalidUri)
    }

    /// Signs the chunks of a body whose request got `authorization` from `sign_request`.
    pub fn chunks(&self, authorization: &str) -> Option<ChunkSigner> {
        let (_, signature) = authorization.rsplit_once("Signature=")?;
        let seed = super::canonical::parse_hex(signature.as_bytes())?;
        let context = ChunkContext::new(Arc::clone(&self.key), &self.timestamp, &self.region, SERVICE, seed);
        Some(ChunkSigner { previous: seed, context })
    }

    fn date(&self) -> String {
        String::from_utf8_lossy(self.timestamp.as_bytes()).into_owned()
    }

    fn credential(&self) -> String {
        let day = self.timestamp.day();
        format!("{}/{}/{}/{SERVICE}/aws4_request", self.access_key, String::from_utf8_lossy(&day), self.region)
    }

    fn signature(
        &self,
        head: &RequestHead<'_>,
        query: &[u8],
        signed: &str,
        payload: &str,
    ) -> Result<[u8; 32], SignatureError> {
        let path = canonical_path(head.path).ok_or(SignatureError::InvalidUri)?;
        let query = CanonicalQuery::strict(&Query::parse(query).ok_or(SignatureError::InvalidUri)?);
        let request = CanonicalRequest {
            method: head.method,
            path: &path,
            query: &query,
            headers: head.headers,
            signed,
            payload: payload.as_bytes(),
        };
        Ok(self.key.sign(&string_to_sign(&self.timestamp, &self.region, SERVICE, &request.to_bytes())))
    }
}

/// Encodes a body as signed chunks. Each call continues the chain of signatures.
pub struct ChunkSigner {
    context: ChunkContext,
    previous: [u8; 32],
}

impl ChunkSigner {
    /// The header line of a chunk of `data`, up to and including its CR LF. The data and a CR LF follow; after the
    /// empty chunk a CR LF alone, or the trailers.
    pub fn header(&mut self, data: &[u8]) -> Vec<u8> {
        self.previous = self.context.key.sign(&self.context.chunk_string(&self.previous, &Sha256::digest(data).into()));
        let mut line = format!("{:x};chunk-signature=", data.len()).into_bytes();
        push_hex(&mut line, &self.previous);
        line.extend_from_slice(b"\r\n");
        line
    }

    /// The trailer section, with its signature and the closing empty line.
    pub fn trailers(&self, trailers: &[(&str, &str)]) -> Vec<u8> {
        let (mut signed, mut sent) = (Vec::new(), Vec::new());
        for (name, value) in trailers {
            signed.extend_from_slice(format!("{name}:{value}\n").as_bytes());
            sent.extend_from_slice(format!("{name}:{value}\r\n").as_bytes());
        }
        let hash = Sha256::digest(&signed).into();
        let signature = self.context.key.sign(&self.context.trailer_string(&self.previous, &hash));
        sent.extend_from_slice(b"x-amz-trailer-signature:");
        push_hex(&mut sent, &signature);
        sent.extend_from_slice(b"\r\n\r\n");
        sent
    }
}

/// The payload hash of a body, as `x-amz-content-sha256` wants it.
pub fn sha256_hex(body: &[u8]) -> String {
    hex(&Sha256::digest(body))
}

fn signed_names(headers: &[(&[u8], &[u8])]) -> String {
    let mut names: Vec<_> = headers.iter().map(|(name, _)| String::from_utf8_lossy(name)).collect();
    names.sort_unstable();
    names.dedup();
    names.join(";")
}
