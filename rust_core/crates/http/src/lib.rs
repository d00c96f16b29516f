//! Request heads as bytes, percent-encoding, query strings, hexadecimal digits and dates. Pure. Header names are in lower
//! case and in the order of the request. Must not know S3.
#![forbid(unsafe_code)]

pub mod calendar;
pub mod timestamp;

use std::borrow::Cow;

/// A request head. `path` and `query` are those of the request line, not decoded and without the `?`.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    pub method: &'a [u8],
    pub path: &'a [u8],
    pub query: &'a [u8],
    pub headers: Headers<'a>,
}

/// The headers of a request: names in lower case, values as sent.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    list: &'a [(&'a [u8], &'a [u8])],
    /// A bit for the length of each name. A request is asked for dozens of headers, and most of them it does not have:
    /// few of their names are as long as one that it has.
    lengths: u64,
}

impl<'a> Headers<'a> {
    pub fn new(list: &'a [(&'a [u8], &'a [u8])]) -> Self {
        let lengths = list.iter().fold(0, |lengths, (name, _)| lengths | bit_of(name.len()));
        Self { list, lengths }
    }

    /// The first value of `name` (lower case), if any.
    #[inline]
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.get_all(name).next()
    }

    /// Every value of `name`, in the order sent.
    #[inline]
    pub fn get_all<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        let list = if self.lengths & bit_of(name.len()) == 0 { &[] } else { self.list };
        list.iter().filter(move |(n, _)| *n == name.as_bytes()).map(|(_, v)| *v)
    }

    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let list = self.list;
        list.iter().map(|(name, value)| (*name, *value))
    }
}

/// The bit that stands for names of this length, and of those that are longer by a multiple of 64.
const fn bit_of(length: usize) -> u64 {
    1 << (length % 64)
}

/// Whether bytes can be a part of the name of a header (RFC 9110, section 5.6.2).
pub fn is_token(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

/// Text of bytes as of `String::from_utf8_lossy`, which looks at every byte, at a fraction of its cost if they are UTF-8.
pub fn lossy_text(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Decodes `%XX` once and leaves `+` unchanged. `None` if an escape is incomplete or not hexadecimal.
pub fn percent_decode(raw: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(raw.len());
    percent_decode_into(&mut out, raw)?;
    Some(out)
}

fn percent_decode_into(out: &mut Vec<u8>, raw: &[u8]) -> Option<()> {
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        let (high, low) = (rest.get(at + 1)?, rest.get(at + 2)?);
        out.push(hex_value(*high)? << 4 | hex_value(*low)?);
        rest = &rest[at + 3..];
    }
    out.extend_from_slice(rest);
    Some(())
}

/// Decodes `%XX` once and `+` to a space. `None` as in `percent_decode`.
pub fn form_decode(raw: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(raw.len());
    form_decode_into(&mut out, raw)?;
    Some(out)
}

fn form_decode_into(out: &mut Vec<u8>, raw: &[u8]) -> Option<()> {
    for (spaces, part) in raw.split(|&byte| byte == b'+').enumerate() {
        if spaces > 0 {
            out.push(b' ');
        }
        percent_decode_into(out, part)?;
    }
    Some(())
}

/// The value of one hexadecimal digit of either case.
pub fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]).map(char::from).collect()
}

/// Lower-case hexadecimal digits, two for each byte. Without a table, so that the compiler can vectorise it.
pub fn hex_pairs<const N: usize>(bytes: &[u8; N]) -> [[u8; 2]; N] {
    let digit = |value: u8| value + b'0' + u8::from(value > 9) * (b'a' - b'9' - 1);
    bytes.map(|byte| [digit(byte >> 4), digit(byte & 15)])
}

/// Parses exactly two hexadecimal digits of either case for each byte.
pub fn parse_hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = hex_value(pair[0])? << 4 | hex_value(pair[1])?;
    }
    Some(bytes)
}

/// Appends `raw` percent-encoded as in the signatures and listings of AWS: everything but `A-Za-z0-9-._~`, and `/` if
/// `keep_slash`, becomes `%XX` in upper case.
pub fn percent_encode_into(out: &mut Vec<u8>, raw: &[u8], keep_slash: bool) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let kept = if keep_slash { UNRESERVED | SLASH } else { UNRESERVED };
    let mut rest = raw;
    while let Some(at) = rest.iter().position(|&byte| CLASSES[usize::from(byte)] & kept == 0) {
        let byte = rest[at];
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

const UNRESERVED: u8 = 1;
const SLASH: u8 = 2;
/// What percent-encoding does with each byte: a lookup for each costs less than its comparisons.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            classes[byte as usize] = UNRESERVED;
        }
        byte += 1;
    }
    classes[b'/' as usize] = SLASH;
    classes
};

/// Names and values of a query string as sent; without `=`, there is no value.
pub fn raw_pairs(raw: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> + Clone {
    raw.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty()).map(|pair| match memchr::memchr(b'=', pair) {
        Some(at) => (&pair[..at], Some(&pair[at + 1..])),
        None => (pair, None),
    })
}

/// A decoded query string: names and values in the order of the request. A name without `=` has an empty value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// All names and values, one after the other.
    text: Vec<u8>,
    /// Where a name begins, where its value does, and where that ends.
    pairs: Vec<[usize; 3]>,
}

impl Query {
    /// Splits at `&` and `=`, then decodes names and values. A `+` is a space, as in every S3 server. `None` if an escape is
    /// malformed.
    pub fn parse(raw: &[u8]) -> Option<Self> {
        if raw.is_empty() {
            return Some(Self::default());
        }
        let (mut text, mut pairs) = (Vec::with_capacity(raw.len()), Vec::with_capacity(8));
        for (name, value) in raw_pairs(raw) {
            let begin = text.len();
            form_decode_into(&mut text, name)?;
            let middle = text.len();
            form_decode_into(&mut text, value.unwrap_or_default())?;
            pairs.push([begin, middle, text.len()]);
        }
        Some(Self { text, pairs })
    }

    /// The first value of `name`.
    #[inline]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(known, _)| *known == name.as_bytes()).map(|(_, value)| value)
    }

    #[inline]
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.pairs.iter().map(|&[begin, middle, end]| (&self.text[begin..middle], &self.text[middle..end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_found_whatever_the_length_of_their_names() {
        let names = [&b"a"[..], &[b'b'; 65], &[b'c'; 64], b"dd"];
        let list = names.map(|name| (name, name));
        let headers = Headers::new(&list);
        for name in names {
            let name = std::str::from_utf8(name).unwrap();
            assert_eq!(headers.get(name), Some(name.as_bytes()));
            // As long as one that is there, then longer than all.
            assert_eq!(headers.get(&"z".repeat(name.len())), None);
            assert_eq!(headers.get(&name.repeat(67)), None);
        }
        assert_eq!(headers.get(""), None);
    }
}
