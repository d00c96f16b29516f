//! The declaration of a body in the head of its request (framing, lengths, digests), and the check that the body
//! agrees.
//!
//! The checks run in this order: framing, length, payload hash, Content-MD5, checksum. Content that is passed on before
//! `finish` has succeeded is unverified, and none of it may become visible.

use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::body_md5::BodyMd5;
use super::hashes::{Hashes, Md5Hashing};
use super::prefixes::Prefixes;
use super::problem::Problem;
use orcas_base::buffers::Buffers;
use orcas_checksum::{Checksum, ChecksumAlgorithm, Hasher, Md5Hasher, base64_encode};
use orcas_engine::BodyObserver as _;
use orcas_http::Headers;
use orcas_http::hex;
use orcas_s3::checksums::{DeclaredChecksum, mismatch, trailer_value};
use orcas_s3::metadata::{BodyLength, content_md5, unknown_length};
use orcas_s3::{ErrorCode, S3Error};
use orcas_sigv4::{AnnouncedHash, ChunkMode, ChunkedDecoder, PayloadMode, Trailers};

/// The body of a request as its head declares it: framing, length and digests.
#[derive(Clone, Debug)]
pub struct DeclaredBody {
    /// Bytes of content, without framing.
    pub length: u64,
    /// Bytes on the wire, when declared.
    pub wire: Option<u64>,
    framing: Option<ChunkMode>,
    /// The value of `x-amz-trailer`.
    announced: Vec<u8>,
    sha256: Option<AnnouncedHash>,
    md5: Option<[u8; 16]>,
    checksum: DeclaredChecksum,
    /// The algorithm of the checksum that is stored with the content; `None` for a document.
    stores: Option<ChecksumAlgorithm>,
    /// The SHA-256 is computed even if none is declared.
    keep_sha256: bool,
}

/// The digests of a body that agrees with what was declared.
#[derive(Clone, Copy, Debug)]
pub struct Digests {
    pub md5: [u8; 16],
    /// If the client declared it or chose SHA-256 as the checksum, or if it is to be kept.
    pub sha256: Option<[u8; 32]>,
    /// The checksum in the algorithm that the client chose; `None` when it chose none.
    pub declared: Option<Checksum>,
    /// The checksum in the algorithm of the one that is stored; `None` for a document.
    pub stored: Option<Checksum>,
}

impl DeclaredBody {
    /// Reads the head of a request whose body is stored. The length must be declared.
    pub fn parse(headers: &Headers<'_>, payload: &PayloadMode) -> Result<Self, S3Error> {
        let framing = ChunkMode::of(payload);
        let lengths = BodyLength::parse(headers)?;
        let length = lengths.of_content(headers, framing.is_some())?;
        let checksum = DeclaredChecksum::parse(headers)?;
        Ok(Self::read(headers, payload, checksum, length, lengths.wire)?.storing_any())
    }

    /// Reads the head of a request whose body is a document; a missing length means that there is none.
    pub fn of_document(headers: &Headers<'_>, payload: &PayloadMode) -> Result<Self, S3Error> {
        Self::with_checksum(headers, payload, DeclaredChecksum::parse(headers)?)
    }

    /// The declaration of the body of CompleteMultipartUpload, whose checksum headers are about the object and not
    /// about the document.
    pub fn of_part_list(headers: &Headers<'_>, payload: &PayloadMode) -> Result<Self, S3Error> {
        Self::with_checksum(headers, payload, DeclaredChecksum::None)
    }

    /// Reads the headers that the fields of a form stand for. `length` in bytes, of the file and what follows it.
    pub fn of_file(headers: &Headers<'_>, length: u64) -> Result<Self, S3Error> {
        let checksum = DeclaredChecksum::parse(headers)?;
        Ok(Self::read(headers, &PayloadMode::Unsigned, checksum, length, Some(length))?.storing_any())
    }

    fn with_checksum(
        headers: &Headers<'_>,
        payload: &PayloadMode,
        checksum: DeclaredChecksum,
    ) -> Result<Self, S3Error> {
        if matches!(payload, PayloadMode::StreamingUnsignedTrailer) {
            let message = "The value of x-amz-content-sha256 header is invalid.";
            return Err(S3Error::with(ErrorCode::InvalidRequest, message));
        }
        let lengths = BodyLength::parse(headers)?;
        let framed = ChunkMode::of(payload).is_some();
        let length = match (if framed { lengths.decoded } else { lengths.wire }, transfer_encoded(headers)) {
            (Some(length), _) => length,
            (None, false) => 0,
            (None, true) => return Err(unknown_length(headers, framed)),
        };
        Self::read(headers, payload, checksum, length, lengths.wire)
    }

    fn read(
        headers: &Headers<'_>,
        payload: &PayloadMode,
        checksum: DeclaredChecksum,
        length: u64,
        wire: Option<u64>,
    ) -> Result<Self, S3Error> {
        let framing = ChunkMode::of(payload);
        if matches!(checksum, DeclaredChecksum::Trailer(_)) && framing.is_none() {
            let message = "x-amz-trailer needs an aws-chunked body";
            return Err(S3Error::with(ErrorCode::InvalidRequest, message));
        }
        let sha256 = AnnouncedHash::of(payload);
        let announced = headers.get_all("x-amz-trailer").collect::<Vec<_>>().join(&b","[..]);
        let md5 = content_md5(headers)?;
        Ok(Self { length, wire, framing, announced, sha256, md5, checksum, stores: None, keep_sha256: false })
    }

    /// Stores a checksum in the algorithm that the client declares, or in the default one.
    fn storing_any(self) -> Self {
        let algorithm = self.checksum.algorithm().unwrap_or(ChecksumAlgorithm::DEFAULT);
        self.storing(algorithm)
    }

    /// Stores a checksum in this algorithm, whichever the client declares.
    #[must_use]
    pub fn storing(self, algorithm: ChecksumAlgorithm) -> Self {
        Self { stores: Some(algorithm), ..self }
    }

    /// Also computes the SHA-256 of the content if `keep`.
    #[must_use]
    pub fn keeping_sha256(self, keep: bool) -> Self {
        Self { keep_sha256: keep, ..self }
    }

    /// The declaration for content of another length, in bytes.
    #[must_use]
    pub fn with_length(self, length: u64) -> Self {
        Self { length, ..self }
    }

    /// Whether a SHA-256 of the content is computed. It is computed once for all its uses.
    pub fn hashes_sha256(&self) -> bool {
        self.keep_sha256 || self.sha256.is_some() || self.checksum.algorithm() == Some(ChecksumAlgorithm::Sha256)
    }

    /// The algorithms of the declared and the stored checksum that need a hash function of their own: not those of MD5
    /// and SHA-256, which are computed anyway.
    fn others(&self) -> [Option<ChecksumAlgorithm>; 2] {
        let own =
            |algorithm: &ChecksumAlgorithm| !matches!(algorithm, ChecksumAlgorithm::Md5 | ChecksumAlgorithm::Sha256);
        let declared = self.checksum.algorithm();
        [declared.filter(own), self.stores.filter(own).filter(|stores| declared != Some(*stores))]
    }

    /// Combines the computed digests; `others` are the checksums in the algorithms of `others`.
    fn digests(&self, md5: [u8; 16], sha256: Option<[u8; 32]>, others: [Option<Checksum>; 2]) -> Digests {
        let of = |algorithm: ChecksumAlgorithm| match algorithm {
            ChecksumAlgorithm::Md5 => Checksum::from_bytes(algorithm, &md5),
            ChecksumAlgorithm::Sha256 => Checksum::from_bytes(algorithm, &sha256?),
            _ => others.into_iter().flatten().find(|checksum| checksum.algorithm() == algorithm),
        };
        Digests { md5, sha256, declared: self.checksum.algorithm().and_then(of), stored: self.stores.and_then(of) }
    }

    /// Refuses a document that comes without a digest of it.
    ///
    /// Errors: `InvalidRequest`.
    pub fn require_integrity_header(&self) -> Result<(), S3Error> {
        if self.has_integrity_header() {
            return Ok(());
        }
        let message = "Missing required header for this request: Content-MD5 OR x-amz-checksum-*";
        Err(S3Error::with(ErrorCode::InvalidRequest, message))
    }

    /// The algorithm of the checksum that the head has or announces.
    pub fn checksum_algorithm(&self) -> Option<ChecksumAlgorithm> {
        self.checksum.algorithm()
    }

    /// Whether the head has a digest of the body, or announces one: Content-MD5 or a checksum.
    pub fn has_integrity_header(&self) -> bool {
        self.md5.is_some() || self.checksum != DeclaredChecksum::None
    }

    /// Bytes that the whole body may take on the wire, for a body that is collected in memory. Framing may cost no
    /// more than this: chunks of one byte would cost a hundred for each.
    pub fn wire_max(&self) -> u64 {
        const FRAMING_MAX: u64 = 64 * 1024;
        match (&self.framing, self.wire) {
            (None, _) => self.length,
            (Some(_), Some(wire)) => wire.min(self.length + FRAMING_MAX),
            (Some(_), None) => self.length + FRAMING_MAX,
        }
    }

    /// Starts to check a body piece by piece.
    pub fn verifier(&self, prefixes: Arc<Prefixes>) -> Verifier {
        let mut verifier = Verifier {
            decoder: self.framing.clone().map(|mode| ChunkedDecoder::new(mode, self.length, &self.announced)),
            hashes: Hashes::new(prefixes, self.hashes_sha256()),
            received: 0,
            declared: self.clone(),
        };
        verifier.hashes.checksums = self.others().map(|algorithm| algorithm.map(Hasher::new));
        verifier
    }

    /// Checks a body that is all in memory and returns its content.
    pub fn verify(&self, wire: Bytes, buffers: &Arc<Buffers>) -> Result<(Bytes, Digests), Problem> {
        if self.framing.is_some() {
            let mut content = buffers.take(wire.len().min(usize::try_from(self.length).unwrap_or(usize::MAX)));
            let mut verifier = self.verifier(Arc::default());
            verifier.push(&wire, Md5Hashing::Immediate, &mut |bytes, hashes| {
                hashes.bytes(bytes);
                content.extend_from_slice(bytes);
                Ok(())
            })?;
            return Ok((content.into(), verifier.finish()?));
        }
        self.check_length(wire.len() as u64)?;
        let sha256 = self.hashes_sha256().then(|| Sha256::digest(&wire).into());
        if let (Some(announced), Some(sha256)) = (&self.sha256, &sha256) {
            announced.verify(sha256)?;
        }
        let others = self.others().map(|algorithm| algorithm.map(|algorithm| Hasher::digest(algorithm, &wire)));
        let digests = self.digests(Md5Hasher::digest(&wire), sha256, others);
        self.check_digests(&digests, None)?;
        Ok((wire, digests))
    }

    fn check_length(&self, received: u64) -> Result<(), Problem> {
        if received == self.length {
            return Ok(());
        }
        let (expected, provided) = (self.length.to_string(), received.to_string());
        let error = S3Error::new(ErrorCode::IncompleteBody);
        Err(error.field("NumberBytesExpected", expected).field("NumberBytesProvided", provided).into())
    }

    /// `trailers` are those of a framed body.
    fn check_digests(&self, computed: &Digests, trailers: Option<&Trailers>) -> Result<(), Problem> {
        if let Some(declared) = self.md5.filter(|declared| *declared != computed.md5) {
            let error = S3Error::new(ErrorCode::BadDigest).field("ExpectedDigest", hex(&declared));
            return Err(error.field("CalculatedDigest", base64_encode(&computed.md5)).into());
        }
        let declared = match self.checksum {
            DeclaredChecksum::Value(value) => value,
            DeclaredChecksum::Trailer(algorithm) => {
                let (name, value) =
                    trailers.and_then(|trailers| trailers.first()).ok_or(ErrorCode::MalformedTrailerError)?;
                trailer_value(algorithm, name, value)?
            }
            DeclaredChecksum::None => return Ok(()),
        };
        if computed.declared == Some(declared) { Ok(()) } else { Err(mismatch(declared.algorithm()).into()) }
    }
}

/// Whether the request uses HTTP's own chunking, so that it has a body without a Content-Length.
pub fn transfer_encoded(headers: &Headers<'_>) -> bool {
    headers.get("transfer-encoding").is_some()
}

/// Refuses a body for an operation that has none.
pub fn refuse_body(headers: &Headers<'_>, message: &'static str) -> Result<(), S3Error> {
    let announced = headers.get_all("content-length").any(|length| length.trim_ascii() != b"0");
    if announced || transfer_encoded(headers) {
        return Err(S3Error::with(ErrorCode::InvalidRequest, message));
    }
    Ok(())
}

/// Checks one body as it arrives.
pub struct Verifier {
    declared: DeclaredBody,
    decoder: Option<ChunkedDecoder>,
    hashes: Hashes,
    /// Bytes of content.
    received: u64,
}

type Sink<'a> = &'a mut dyn FnMut(&[u8], &mut Hashes) -> Result<(), Problem>;

impl Verifier {
    /// Takes bytes as received and passes their content to `sink`, which must pass all of it to the hashes.
    pub fn push(&mut self, wire: &Bytes, md5: Md5Hashing, sink: Sink<'_>) -> Result<(), Problem> {
        self.hashes.lent = (md5 == Md5Hashing::Deferred).then(|| wire.clone());
        let pushed = self.take(wire, sink);
        self.hashes.lent = None;
        pushed
    }

    fn take(&mut self, wire: &[u8], sink: Sink<'_>) -> Result<(), Problem> {
        let (hashes, received) = (&mut self.hashes, &mut self.received);
        match &mut self.decoder {
            None => {
                *received += wire.len() as u64;
                if *received > self.declared.length {
                    return Err(ErrorCode::IncompleteBody.into());
                }
                sink(wire, hashes)
            }
            Some(decoder) => {
                let mut result = Ok(());
                decoder.push(wire, &mut |content| {
                    if result.is_ok() {
                        *received += content.len() as u64;
                        result = sink(content, hashes);
                    }
                })?;
                result
            }
        }
    }

    /// Sets the length of the content, in bytes, once it is known.
    pub fn set_length(&mut self, length: u64) {
        self.declared.length = length;
    }

    /// Stores a checksum in this algorithm. Before the first `push`.
    pub fn store(&mut self, algorithm: ChecksumAlgorithm) {
        self.declared.stores = Some(algorithm);
        self.hashes.checksums = self.declared.others().map(|algorithm| algorithm.map(Hasher::new));
    }

    pub fn declared(&self) -> &DeclaredBody {
        &self.declared
    }

    /// The MD5, for `BodyMd5::settle_all`.
    pub fn md5(&mut self) -> &mut BodyMd5 {
        &mut self.hashes.md5
    }

    /// Ends the body. Succeeds only if it agrees with everything declared.
    pub fn finish(self) -> Result<Digests, Problem> {
        let trailers = self.decoder.map(ChunkedDecoder::finish).transpose()?;
        self.declared.check_length(self.received)?;
        let sha256 = self.hashes.sha256.map(|sha256| sha256.finalize().into());
        if let (Some(announced), Some(sha256)) = (&self.declared.sha256, &sha256) {
            announced.verify(sha256)?;
        }
        let others = self.hashes.checksums.map(|checksum| checksum.map(Hasher::finish));
        let digests = self.declared.digests(self.hashes.md5.finish(), sha256, others);
        self.declared.check_digests(&digests, trailers.as_ref())?;
        Ok(digests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type List<'a> = &'a [(&'a [u8], &'a [u8])];

    /// Checks `body` both whole and byte by byte; both must agree.
    fn check(list: List<'_>, payload: &PayloadMode, body: &[u8]) -> Result<Vec<u8>, ErrorCode> {
        let declared = DeclaredBody::parse(&Headers::new(list), payload).map_err(|error| error.code)?;
        let whole = declared.verify(body.to_vec().into(), &Buffers::new(true));
        let whole = whole.map(|(content, _)| content.to_vec()).map_err(|p| p.error.code);
        let mut content = Vec::new();
        let mut verifier = declared.verifier(Arc::default());
        let piecewise = body
            .chunks(1)
            .try_for_each(|piece| {
                verifier.push(&Bytes::copy_from_slice(piece), Md5Hashing::Deferred, &mut |bytes, hashes| {
                    hashes.bytes(bytes);
                    content.extend_from_slice(bytes);
                    Ok(())
                })
            })
            .and_then(|()| verifier.finish())
            .map(|_| content)
            .map_err(|p| p.error.code);
        assert_eq!(whole, piecewise);
        whole
    }

    #[test]
    fn lengths_and_digests_must_be_kept() {
        let body = b"hello world";
        let md5 = base64_encode(&Md5Hasher::digest(body));
        let crc = Hasher::digest(ChecksumAlgorithm::Crc32, body).to_base64();
        let sha = PayloadMode::Hash(Sha256::digest(body).into());
        let good: List<'_> =
            &[(b"content-length", b"11"), (b"content-md5", md5.as_bytes()), (b"x-amz-checksum-crc32", crc.as_bytes())];
        assert_eq!(check(good, &sha, body).unwrap(), body);
        assert_eq!(check(good, &sha, b"hello worl"), Err(ErrorCode::IncompleteBody));
        assert_eq!(check(good, &sha, b"hello world!"), Err(ErrorCode::IncompleteBody));
        assert_eq!(check(good, &sha, b"hello World"), Err(ErrorCode::XAmzContentSHA256Mismatch));
        assert_eq!(check(good, &PayloadMode::Unsigned, b"hello World"), Err(ErrorCode::BadDigest));
        assert_eq!(check(&[good[0], good[2]], &PayloadMode::Unsigned, b"hello World"), Err(ErrorCode::BadDigest));
        assert_eq!(check(&good[1..], &sha, body), Err(ErrorCode::MissingContentLength));
        assert_eq!(check(&[(b"content-length", b"5368709121")], &sha, body), Err(ErrorCode::EntityTooLarge));
        assert_eq!(check(&[(b"content-length", b"0")], &PayloadMode::Unsigned, b""), Ok(Vec::new()));
    }

    #[test]
    fn trailers_are_verified() {
        let crc = Hasher::digest(ChecksumAlgorithm::Crc32, b"hello").to_base64();
        let list: List<'_> = &[(b"x-amz-decoded-content-length", b"5"), (b"x-amz-trailer", b"x-amz-checksum-crc32")];
        let mode = PayloadMode::StreamingUnsignedTrailer;
        let body = |content: &str, crc: &str| format!("5\r\n{content}\r\n0\r\nx-amz-checksum-crc32:{crc}\r\n\r\n");
        assert_eq!(check(list, &mode, body("hello", &crc).as_bytes()).unwrap(), b"hello");
        assert_eq!(check(list, &mode, body("hellO", &crc).as_bytes()), Err(ErrorCode::BadDigest));
        assert_eq!(check(list, &mode, b"5\r\nhello\r\n0\r\n\r\n"), Err(ErrorCode::MalformedTrailerError));
        assert_eq!(check(list, &mode, b"5\r\nhello\r\n"), Err(ErrorCode::IncompleteBody));
        assert_eq!(check(list, &PayloadMode::Unsigned, b"hello"), Err(ErrorCode::MissingContentLength));
        let plain: List<'_> = &[(b"content-length", b"5"), list[1]];
        assert_eq!(check(plain, &PayloadMode::Unsigned, b"hello"), Err(ErrorCode::InvalidRequest));
    }
}
