//! The incremental decoder of `aws-chunked` bodies, signed or not, with or without trailers. It checks the
//! framing, the chain of chunk signatures and the declared length. The caller compares checksums in trailers.
//!
//! Invariants: memory is bounded whatever arrives; the result does not depend on how the input is cut; a failure is
//! final. Decoded bytes of a signed chunk are passed on before its signature is verified: the caller must not make
//! them visible until `finish` has succeeded.

use sha2::{Digest, Sha256};

use super::canonical::{parse_hex, push_trimmed};
use super::error::SignatureError;
use super::keys::ChunkContext;
use super::payload::PayloadMode;
use orcas_http::{Headers, hex_value};

/// A chunk header is at most 16 digits and 82 bytes of signature: a longer line is no header.
const CHUNK_LINE_BYTES_MAX: usize = 256;

/// Bounds the memory that trailers take. Clients send one checksum and one signature.
const TRAILER_BYTES_MAX: usize = 4096;
const TRAILERS_MAX: usize = 16;

/// Bytes of a chunk after which another one with content may follow.
const CHUNK_SIZE_MIN: u64 = 8192;

/// Headers that arrived after the body: lower-case names, trimmed values, in the order sent, without the signature.
pub type Trailers = Vec<(Vec<u8>, Vec<u8>)>;

/// Which framing a body uses.
#[derive(Clone, Debug)]
pub enum ChunkMode {
    Signed(ChunkContext),
    SignedTrailer(ChunkContext),
    /// Without signatures; trailers only if announced.
    Unsigned,
}

impl ChunkMode {
    /// `None` for a body that is not chunked.
    pub fn of(payload: &PayloadMode) -> Option<Self> {
        match payload {
            PayloadMode::StreamingSigned(context) => Some(Self::Signed(context.clone())),
            PayloadMode::StreamingSignedTrailer(context) => Some(Self::SignedTrailer(context.clone())),
            PayloadMode::StreamingUnsignedTrailer => Some(Self::Unsigned),
            PayloadMode::Hash(_) | PayloadMode::Mistaken(_) | PayloadMode::Unsigned => None,
        }
    }

    fn context(&self) -> Option<&ChunkContext> {
        match self {
            Self::Signed(context) | Self::SignedTrailer(context) => Some(context),
            Self::Unsigned => None,
        }
    }
}

/// Reads `x-amz-decoded-content-length`, in bytes. It must stand once, in digits only.
pub fn decoded_length(headers: &Headers<'_>) -> Result<u64, SignatureError> {
    let mut values = headers.get_all("x-amz-decoded-content-length");
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(SignatureError::MissingDecodedLength);
    };
    let text = std::str::from_utf8(value.trim_ascii()).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    text.and_then(|text| text.parse().ok()).ok_or(SignatureError::MissingDecodedLength)
}

#[derive(Clone, Debug)]
enum DecoderState {
    /// Collecting `size[;chunk-signature=…]` up to its CR LF.
    ChunkLine,
    /// Bytes of the current chunk still to come.
    Data(u64),
    /// The CR LF after a chunk's data; how many of its bytes came.
    AfterData(usize),
    /// The CR LF after the last chunk of a body without trailers.
    Last(usize),
    /// Collecting trailer lines.
    TrailerLine,
    /// Complete; how many bytes of one tolerated CR LF came.
    End(usize),
    Failed(SignatureError),
}

/// Decodes one body. Feed it with `push`, then ask `finish`.
pub struct ChunkedDecoder {
    mode: ChunkMode,
    state: DecoderState,
    line: Vec<u8>,
    /// Decoded bytes that the request declared and that no chunk has claimed yet.
    unclaimed: u64,
    /// Chunks that have begun.
    chunks: u64,
    /// Bytes that the chunk in progress lacks to be followed by another one.
    lacks: u64,
    chunk_size_min: u64,
    hash: Sha256,
    /// The signature of the chunk in progress, and of the one before it.
    claimed: [u8; 32],
    previous: [u8; 32],
    announced: Vec<Vec<u8>>,
    trailers: Trailers,
    trailer_bytes: usize,
    trailer_signature: Option<[u8; 32]>,
}

impl ChunkedDecoder {
    /// `decoded_length` in bytes. `announced` is the value of `x-amz-trailer`, names separated by commas, or empty: the
    /// body must bring exactly these trailers.
    pub fn new(mode: ChunkMode, decoded_length: u64, announced: &[u8]) -> Self {
        let names = announced.split(|&byte| byte == b',').map(|name| name.trim_ascii().to_ascii_lowercase());
        Self {
            previous: mode.context().map_or([0; 32], |context| context.seed),
            mode,
            state: DecoderState::ChunkLine,
            line: Vec::new(),
            unclaimed: decoded_length,
            chunks: 0,
            lacks: 0,
            chunk_size_min: CHUNK_SIZE_MIN,
            hash: Sha256::new(),
            claimed: [0; 32],
            announced: names.filter(|name| !name.is_empty()).collect(),
            trailers: Vec::new(),
            trailer_bytes: 0,
            trailer_signature: None,
        }
    }

    /// With chunks of any size, so that tests and fuzzing can cut a body of many chunks everywhere.
    pub fn with_small_chunks(self) -> Self {
        Self { chunk_size_min: 0, ..self }
    }

    /// Decodes `input` and hands the bytes of the object to `sink`, without copying. After an error every further call
    /// gives the same error.
    pub fn push(&mut self, mut input: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<(), SignatureError> {
        while !input.is_empty() {
            match self.step(input, sink) {
                Ok(used) => input = &input[used..],
                Err(error) => {
                    self.state = DecoderState::Failed(error.clone());
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Succeeds only if the body was complete: the last chunk, its signature, the trailers, nothing missing.
    pub fn finish(self) -> Result<Trailers, SignatureError> {
        match self.state {
            DecoderState::End(0 | 2) => Ok(self.trailers),
            DecoderState::Failed(error) => Err(error),
            DecoderState::ChunkLine
            | DecoderState::Data(_)
            | DecoderState::AfterData(_)
            | DecoderState::Last(_)
            | DecoderState::TrailerLine
            | DecoderState::End(_) => Err(SignatureError::MalformedChunk),
        }
    }

    /// Consumes at least one byte of `input`, which is not empty.
    fn step(&mut self, input: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<usize, SignatureError> {
        match &self.state {
            DecoderState::ChunkLine => {
                self.collect(input, CHUNK_LINE_BYTES_MAX, SignatureError::MalformedChunk, Self::chunk_line)
            }
            DecoderState::TrailerLine => {
                let room = TRAILER_BYTES_MAX - self.trailer_bytes;
                self.collect(input, room, SignatureError::MalformedTrailer, Self::trailer_line)
            }
            &DecoderState::Data(left) => {
                let take = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                self.data(&input[..take], left - take as u64, sink);
                Ok(take)
            }
            &DecoderState::AfterData(seen) => {
                expect_crlf(seen, input[0])?;
                if seen == 1 {
                    let chunk = self.hash.finalize_reset().into();
                    self.verify_chunk(&chunk)?;
                }
                self.state = if seen == 1 { DecoderState::ChunkLine } else { DecoderState::AfterData(1) };
                Ok(1)
            }
            &DecoderState::Last(seen) => {
                expect_crlf(seen, input[0])?;
                self.state = if seen == 1 { DecoderState::End(2) } else { DecoderState::Last(1) };
                Ok(1)
            }
            &DecoderState::End(seen) => {
                expect_crlf(seen, input[0])?;
                self.state = DecoderState::End(seen + 1);
                Ok(1)
            }
            DecoderState::Failed(error) => Err(error.clone()),
        }
    }

    /// Gathers a line up to its LF and hands it to `line`, LF included.
    fn collect(
        &mut self,
        input: &[u8],
        bytes_max: usize,
        too_long: SignatureError,
        line: fn(&mut Self, &[u8]) -> Result<(), SignatureError>,
    ) -> Result<usize, SignatureError> {
        let end = memchr::memchr(b'\n', input).map(|at| at + 1);
        let used = end.unwrap_or(input.len());
        if self.line.len() + used > bytes_max {
            return Err(too_long);
        }
        self.line.extend_from_slice(&input[..used]);
        if end.is_some() {
            let mut whole = std::mem::take(&mut self.line);
            line(self, &whole)?;
            whole.clear();
            self.line = whole;
        }
        Ok(used)
    }

    fn chunk_line(&mut self, line: &[u8]) -> Result<(), SignatureError> {
        let line = line.strip_suffix(b"\r\n").ok_or(SignatureError::MalformedChunk)?;
        let size = match &self.mode {
            ChunkMode::Unsigned => chunk_size(line)?,
            ChunkMode::Signed(_) | ChunkMode::SignedTrailer(_) => {
                let at = memchr::memchr(b';', line).ok_or(SignatureError::MalformedChunk)?;
                let signature =
                    line[at + 1..].strip_prefix(b"chunk-signature=").ok_or(SignatureError::MalformedChunk)?;
                self.claimed = framed_signature(signature)?;
                chunk_size(&line[..at])?
            }
        };
        self.unclaimed = self.unclaimed.checked_sub(size).ok_or(SignatureError::IncompleteBody)?;
        self.state = if size > 0 {
            if self.lacks > 0 {
                let size = self.chunk_size_min - self.lacks;
                return Err(SignatureError::InvalidChunkSize { chunk: self.chunks + 1, size });
            }
            (self.chunks, self.lacks) = (self.chunks + 1, self.chunk_size_min.saturating_sub(size));
            DecoderState::Data(size)
        } else if self.unclaimed > 0 {
            return Err(SignatureError::IncompleteBody);
        } else {
            self.verify_chunk(&Sha256::digest(b"").into())?;
            match &self.mode {
                ChunkMode::Signed(_) => DecoderState::Last(0),
                ChunkMode::SignedTrailer(_) | ChunkMode::Unsigned => DecoderState::TrailerLine,
            }
        };
        Ok(())
    }

    fn data(&mut self, data: &[u8], left: u64, sink: &mut dyn FnMut(&[u8])) {
        if self.mode.context().is_some() {
            self.hash.update(data);
        }
        sink(data);
        self.state = if left == 0 { DecoderState::AfterData(0) } else { DecoderState::Data(left) };
    }

    /// Verifies the chunk in progress, whose data hash to `chunk`, and makes it the predecessor of the next.
    fn verify_chunk(&mut self, chunk: &[u8; 32]) -> Result<(), SignatureError> {
        let Some(context) = self.mode.context() else {
            return Ok(());
        };
        if !context.key.verify(&context.chunk_string(&self.previous, chunk), &self.claimed) {
            return Err(SignatureError::SignatureDoesNotMatch);
        }
        self.previous = self.claimed;
        Ok(())
    }

    /// One line of the trailer section. minio-go, following the text of the AWS example, ends trailers with a bare LF
    /// and sets an empty line before the signature; all clients else end them with CR LF.
    fn trailer_line(&mut self, raw: &[u8]) -> Result<(), SignatureError> {
        self.trailer_bytes += raw.len();
        let line = raw.strip_suffix(b"\r\n").or_else(|| raw.strip_suffix(b"\n")).unwrap_or(raw);
        if line.is_empty() {
            let awaits_signature = self.mode.context().is_some() && self.trailer_signature.is_none();
            return if awaits_signature { Ok(()) } else { self.end_of_trailers() };
        }
        let at = memchr::memchr(b':', line).ok_or(SignatureError::MalformedTrailer)?;
        let name = line[..at].to_ascii_lowercase();
        let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_text = |byte: &u8| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t');
        if name.is_empty() || !name.iter().all(is_token) || !line[at + 1..].iter().all(is_text) {
            return Err(self.broken_trailer(false));
        }
        let mut value = Vec::new();
        push_trimmed(&mut value, &line[at + 1..]);
        if self.trailer_signature.is_some() {
            return Err(SignatureError::MalformedTrailer);
        }
        if name == b"x-amz-trailer-signature" && self.mode.context().is_some() {
            self.trailer_signature = Some(framed_signature(&value)?);
            return Ok(());
        }
        let is_announced = self.announced.contains(&name);
        if !is_announced || self.trailers.len() == TRAILERS_MAX || self.trailers.iter().any(|(known, _)| *known == name)
        {
            return Err(self.broken_trailer(true));
        }
        self.trailers.push((name, value));
        Ok(())
    }

    /// The error for a line that cannot be there. In a signed body, S3 takes a line that is no trailer at all, or one in
    /// the place of the signature, for broken framing.
    fn broken_trailer(&self, is_trailer: bool) -> SignatureError {
        match self.mode.context() {
            Some(_) if !is_trailer || !self.trailers.is_empty() => SignatureError::MalformedChunk,
            _ => SignatureError::MalformedTrailer,
        }
    }

    fn end_of_trailers(&mut self) -> Result<(), SignatureError> {
        let arrived = |name: &Vec<u8>| self.trailers.iter().any(|(known, _)| known == name);
        if !self.announced.iter().all(arrived) {
            return Err(SignatureError::MalformedTrailer);
        }
        if let Some(context) = self.mode.context() {
            let signature = self.trailer_signature.ok_or(SignatureError::MalformedTrailer)?;
            let mut hash = Sha256::new();
            for (name, value) in &self.trailers {
                for part in [name.as_slice(), b":", value, b"\n"] {
                    hash.update(part);
                }
            }
            if !context.key.verify(&context.trailer_string(&self.previous, &hash.finalize().into()), &signature) {
                return Err(SignatureError::SignatureDoesNotMatch);
            }
        }
        self.state = DecoderState::End(0);
        Ok(())
    }
}

/// A signature in the framing. One of another length is broken framing.
fn framed_signature(text: &[u8]) -> Result<[u8; 32], SignatureError> {
    if text.len() != 64 {
        return Err(SignatureError::MalformedChunk);
    }
    parse_hex(text).ok_or(SignatureError::SignatureDoesNotMatch)
}

/// The byte that must come after `seen` bytes of a CR LF. Anything after that is more than the body may hold.
fn expect_crlf(seen: usize, byte: u8) -> Result<(), SignatureError> {
    match (seen, byte) {
        (0, b'\r') | (1, b'\n') => Ok(()),
        _ => Err(SignatureError::MalformedChunk),
    }
}

/// 1 to 16 hexadecimal digits, nothing else.
fn chunk_size(text: &[u8]) -> Result<u64, SignatureError> {
    if text.is_empty() || text.len() > 16 {
        return Err(SignatureError::MalformedChunk);
    }
    let digit = |size: u64, &byte: &u8| hex_value(byte).map(|value| size << 4 | u64::from(value));
    text.iter().try_fold(0, digit).ok_or(SignatureError::MalformedChunk)
}
