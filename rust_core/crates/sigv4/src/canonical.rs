//! The canonical request and the string to sign. S3 rules: the path is not normalised (`//`, `.` and `..` are bytes of
//! a key), and every part is decoded once and strictly encoded again.
//!
//! Invariant: two raw requests with the same canonical form decode to the same path, query and headers. No line of a
//! canonical request contains a line end.

use std::cmp::Ordering;
use std::iter;

use sha2::{Digest, Sha256};

use super::date::Timestamp;
use orcas_http::{Headers, Query, hex_pairs, hex_value, percent_encode_into, raw_pairs};

/// The service of the store itself.
pub const SERVICE: &str = "s3";

/// The canonical form of a raw path, the strict encoding of what it decodes to; the empty path is `/`. `None` if an
/// escape is malformed.
pub(super) fn canonical_path(raw: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(raw.len() + 16);
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'%', rest) {
        percent_encode_into(&mut out, &rest[..at], true);
        let digit = |index: usize| rest.get(index).copied().and_then(hex_value);
        percent_encode_into(&mut out, &[digit(at + 1)? << 4 | digit(at + 2)?], true);
        rest = &rest[at + 3..];
    }
    percent_encode_into(&mut out, rest, true);
    if out.is_empty() {
        out.push(b'/');
    }
    Some(out)
}

/// Whether the bytes can be used as sent in a canonical request, because none could be taken for a line end.
pub(super) fn is_graphic(raw: &[u8]) -> bool {
    raw.iter().all(u8::is_ascii_graphic)
}

/// The encoded pairs of a query, sorted by name, then value.
#[derive(Clone, Debug, Default)]
pub(super) struct CanonicalQuery {
    text: Vec<u8>,
    pairs: Vec<Pair>,
}

/// Name and value as ranges of the text.
#[derive(Clone, Copy, Debug)]
struct Pair {
    start: usize,
    equals: usize,
    end: usize,
}

/// Parameters of streams of events, which may be repeated: the order of their values has no meaning.
const SETS: [&str; 3] = ["bucket", "event", "events"];

impl CanonicalQuery {
    /// Each name and value strictly encoded.
    pub(super) fn strict(query: &Query) -> Self {
        Self::build(query.iter(), |out, part| percent_encode_into(out, part, false))
    }

    /// Each name and value as on the wire: botocore signs a ready URL in this form. Accepting it as well is safe, because
    /// it is accepted only for the very bytes that were signed.
    pub(super) fn as_sent(raw: &[u8]) -> Self {
        let pairs = raw_pairs(raw).map(|(name, value)| (name, value.unwrap_or_default()));
        Self::build(pairs, Vec::extend_from_slice)
    }

    fn build<'q>(
        pairs: impl Iterator<Item = (&'q [u8], &'q [u8])> + Clone,
        write: impl Fn(&mut Vec<u8>, &[u8]),
    ) -> Self {
        // Room for `=` and a few escapes.
        let count = |(pairs, bytes), (name, value): (&[u8], &[u8])| (pairs + 1, bytes + name.len() + value.len() + 8);
        let (count, bytes) = pairs.clone().fold((0, 0), count);
        let mut query = Self { text: Vec::with_capacity(bytes), pairs: Vec::with_capacity(count) };
        for (name, value) in pairs {
            let start = query.text.len();
            write(&mut query.text, name);
            let equals = query.text.len();
            query.text.push(b'=');
            write(&mut query.text, value);
            query.pairs.push(Pair { start, equals, end: query.text.len() });
        }
        let Self { text, pairs } = &mut query;
        pairs.sort_by(|a, b| match text[a.start..a.equals].cmp(&text[b.start..b.equals]) {
            Ordering::Equal => text[a.equals..a.end].cmp(&text[b.equals..b.end]),
            order => order,
        });
        query
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.text == other.text
    }

    /// The canonical request with the values of a name in the order of the request, if a name occurs twice: minio-go
    /// sorts only names.
    pub(super) fn in_request_order(&self) -> Option<Self> {
        let name = |pair: &Pair| &self.text[pair.start..pair.equals];
        self.pairs.windows(2).any(|two| name(&two[0]) == name(&two[1])).then(|| {
            let mut pairs = self.pairs.clone();
            pairs.sort_by(|a, b| name(a).cmp(name(b)).then(a.start.cmp(&b.start)));
            Self { text: self.text.clone(), pairs }
        })
    }

    /// Whether a name occurs twice. Because of the sorting, the signature does not cover the order of its values.
    pub(super) fn has_duplicate_name(&self) -> bool {
        let name = |pair: &Pair| &self.text[pair.start..pair.equals];
        let is_set = |name: &[u8]| SETS.iter().any(|set| set.as_bytes() == name);
        self.pairs.windows(2).any(|two| name(&two[0]) == name(&two[1]) && !is_set(name(&two[0])))
    }

    /// Appends all pairs but those named `X-Amz-Signature`.
    fn write(&self, out: &mut Vec<u8>) {
        let mut first = true;
        for pair in self.pairs.iter().filter(|pair| self.text[pair.start..pair.equals] != *b"X-Amz-Signature") {
            if !first {
                out.push(b'&');
            }
            first = false;
            out.extend_from_slice(&self.text[pair.start..pair.end]);
        }
    }
}

/// The parts of a canonical request, each canonical already but for the header values.
pub(super) struct CanonicalRequest<'a> {
    pub(super) method: &'a [u8],
    pub(super) path: &'a [u8],
    pub(super) query: &'a CanonicalQuery,
    pub(super) headers: Headers<'a>,
    /// Lower-case names, sorted, joined with `;`.
    pub(super) signed: &'a str,
    pub(super) payload: &'a [u8],
}

impl CanonicalRequest<'_> {
    /// A signed header that is absent gets no line, as botocore does not sign what it does not send; the caller refuses it.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(self.method);
        out.push(b'\n');
        out.extend_from_slice(self.path);
        out.push(b'\n');
        self.query.write(&mut out);
        out.push(b'\n');
        for name in parts(self.signed, b';') {
            push_header(&mut out, name, &self.headers);
        }
        out.push(b'\n');
        out.extend_from_slice(self.signed.as_bytes());
        out.push(b'\n');
        out.extend_from_slice(self.payload);
        out
    }
}

/// Appends `name:value\n`, all values of the name joined with commas.
fn push_header(out: &mut Vec<u8>, name: &str, headers: &Headers<'_>) {
    let mut separator = b':';
    for value in headers.get_all(name) {
        if separator == b':' {
            out.extend_from_slice(name.as_bytes());
        }
        out.push(separator);
        push_trimmed(out, value);
        separator = b',';
    }
    if separator == b',' {
        out.push(b'\n');
    }
}

/// Appends `value` without white space at its ends and with each inner run of it as one space.
pub(super) fn push_trimmed(out: &mut Vec<u8>, value: &[u8]) {
    // Most values have none, which takes vector instructions to see.
    if value.iter().copied().fold(u8::MAX, u8::min) > b' ' {
        return out.extend_from_slice(value);
    }
    let mut first = true;
    for word in value.split(|&byte| byte.is_ascii_whitespace() || byte == 0x0b).filter(|word| !word.is_empty()) {
        if !first {
            out.push(b' ');
        }
        first = false;
        out.extend_from_slice(word);
    }
}

/// `AWS4-HMAC-SHA256`, the timestamp, the scope and the hash of the canonical request, a line each.
pub(super) fn string_to_sign(timestamp: &Timestamp, region: &str, service: &str, canonical: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(192);
    out.extend_from_slice(b"AWS4-HMAC-SHA256\n");
    out.extend_from_slice(timestamp.as_bytes());
    out.push(b'\n');
    push_scope(&mut out, &timestamp.day(), region, service);
    out.push(b'\n');
    push_hex(&mut out, &Sha256::digest(canonical).into());
    out
}

/// Appends `20130524/us-east-1/s3/aws4_request`.
pub(super) fn push_scope(out: &mut Vec<u8>, day: &[u8; 8], region: &str, service: &str) {
    out.extend_from_slice(day);
    out.push(b'/');
    out.extend_from_slice(region.as_bytes());
    out.push(b'/');
    out.extend_from_slice(service.as_bytes());
    out.extend_from_slice(b"/aws4_request");
}

/// Appends 32 bytes as 64 lower-case hexadecimal digits.
pub(super) fn push_hex(out: &mut Vec<u8>, bytes: &[u8; 32]) {
    out.extend_from_slice(hex_pairs(bytes).as_flattened());
}

/// The value of each lower-case hexadecimal digit, and `NO_DIGIT` for any other byte.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value as usize] as usize] = value;
        value += 1;
    }
    digits
};
const NO_DIGIT: u8 = 0xff;

/// Reads 64 hexadecimal digits, lower case only: a signature has one spelling.
pub(super) fn parse_hex(text: &[u8]) -> Option<[u8; 32]> {
    let text: &[u8; 64] = text.try_into().ok()?;
    let mut bytes = [0; 32];
    let mut seen = 0;
    for (byte, two) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let (high, low) = (DIGITS[usize::from(two[0])], DIGITS[usize::from(two[1])]);
        seen |= high | low;
        *byte = high << 4 | low & 15;
    }
    (seen < 16).then_some(bytes)
}

/// The parts of `text` between ASCII characters `separator`. They are short, and `str::split`
/// spends more on beginning each search.
pub(super) fn parts(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    iter::from_fn(move || {
        let text = rest?;
        let at = memchr::memchr(separator, text.as_bytes());
        rest = at.map(|at| &text[at + 1..]);
        Some(at.map_or(text, |at| &text[..at]))
    })
}
