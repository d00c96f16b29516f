//! The headers of a response: names in lower case and values, in the order in which they were added.
//!
//! A value with a line end is never added; the block is then flawed instead. A block also knows the value of its
//! Content-Length. The caller decides which headers there are, and each protocol how they are written.

use bytes::Bytes;

use super::format::{
    format_content_length, format_content_range, format_decimal, format_etag, format_last_modified,
    format_unsatisfied_range,
};
use crate::objects::versions::VersionName;
use orcas_checksum::{ChecksumType, Etag, ObjectChecksum};
use orcas_http::is_token;

/// Bytes of room that a new block has: the values of most objects, and what every answer adds to them.
const ROOM: usize = 320;
/// Headers that a new block has room for.
const FIELDS: usize = 16;

/// Says that an answer is about a delete marker.
pub const DELETE_MARKER: &str = "x-amz-delete-marker";

/// The headers of one response.
#[derive(Debug)]
pub struct HeaderBlock {
    /// One behind the other.
    values: Vec<u8>,
    fields: Vec<Field>,
    content_length: Option<u64>,
    /// Bytes of the object that a range is of.
    ranged: Option<u64>,
    flawed: bool,
}

#[derive(Debug)]
struct Field {
    name: Name,
    /// The offset at which the value ends.
    end: usize,
}

/// The name of a header, in lower case.
#[derive(Debug)]
pub enum Name {
    Known(&'static str),
    /// A part of it was chosen by a client.
    Given(Box<str>),
}

impl Name {
    fn as_str(&self) -> &str {
        match self {
            Self::Known(name) => name,
            Self::Given(name) => name,
        }
    }
}

impl Default for HeaderBlock {
    fn default() -> Self {
        Self::with_room(0)
    }
}

impl HeaderBlock {
    pub fn new() -> Self {
        Self::default()
    }

    /// A block with room for `more` bytes of values in addition to the usual ones.
    pub fn with_room(more: usize) -> Self {
        let (values, fields) = (Vec::with_capacity(ROOM + more), Vec::with_capacity(FIELDS));
        Self { values, fields, content_length: None, ranged: None, flawed: false }
    }

    /// Empties the block and keeps its memory.
    pub fn clear(&mut self) {
        self.values.clear();
        self.fields.clear();
        (self.content_length, self.ranged, self.flawed) = (None, None, false);
    }

    /// The headers of an object of the default type: ETag, Last-Modified, Accept-Ranges, Content-Length, Content-Type.
    /// `length` in bytes of what is sent, `modified_ms` in milliseconds since 1970.
    pub fn set_object_headers(&mut self, etag: &Etag, length: u64, modified_ms: i64) {
        self.set_object_headers_with_content_type(etag, length, modified_ms, b"binary/octet-stream");
    }

    /// As `set_object_headers`, with the type that the object was given.
    pub fn set_object_headers_with_content_type(
        &mut self,
        etag: &Etag,
        length: u64,
        modified_ms: i64,
        content_type: &[u8],
    ) {
        self.set_validators(etag, modified_ms);
        self.write("accept-ranges", |out| out.extend_from_slice(b"bytes"));
        self.set_content_length(length);
        self.push("content-type", content_type);
    }

    /// ETag and Last-Modified, all that a 304 says about an object.
    pub fn set_validators(&mut self, etag: &Etag, modified_ms: i64) {
        self.set_etag(etag);
        self.set_last_modified(modified_ms);
    }

    pub fn set_etag(&mut self, etag: &Etag) {
        self.write("etag", |out| format_etag(out, etag));
    }

    /// `modified_ms` in milliseconds since 1970.
    pub fn set_last_modified(&mut self, modified_ms: i64) {
        self.write("last-modified", |out| format_last_modified(out, modified_ms));
    }

    /// Sets Content-Length, in bytes.
    pub fn set_content_length(&mut self, length: u64) {
        self.write("content-length", |out| format_content_length(out, length));
        self.content_length = Some(length);
    }

    /// The Content-Range of a 206: first and last byte of an object of `size` bytes.
    pub fn set_content_range(&mut self, first: u64, last: u64, size: u64) {
        self.write("content-range", |out| format_content_range(out, first, last, size));
        self.ranged = Some(size);
    }

    /// The Content-Range of a 416.
    pub fn set_unsatisfied_range(&mut self, size: u64) {
        self.write("content-range", |out| format_unsatisfied_range(out, size));
    }

    /// A checksum, under the name of its algorithm.
    pub fn set_checksum(&mut self, checksum: &ObjectChecksum) {
        self.write(checksum.checksum.algorithm().header(), |out| checksum.write_text(out));
    }

    /// What a checksum covers.
    pub fn set_checksum_type(&mut self, kind: ChecksumType) {
        self.push("x-amz-checksum-type", kind.name().as_bytes());
    }

    /// The version that an answer is about.
    pub fn set_version_id(&mut self, version: &VersionName) {
        self.write("x-amz-version-id", |out| version.write(out));
    }

    /// The version that was copied.
    pub fn set_copy_source_version_id(&mut self, version: &VersionName) {
        self.write("x-amz-copy-source-version-id", |out| version.write(out));
    }

    /// The version whose annotation an answer is about.
    pub fn set_object_version_id(&mut self, version: &VersionName) {
        self.write("x-amz-object-version-id", |out| version.write(out));
    }

    /// The answer is about a delete marker.
    pub fn set_delete_marker(&mut self) {
        self.push(DELETE_MARKER, b"true");
    }

    pub fn push_number(&mut self, name: &'static str, number: u64) {
        self.write(name, |out| format_decimal(out, number));
    }

    /// A header with any value. One that holds CR, LF or NUL is left out, and the block is flawed.
    #[inline]
    pub fn push(&mut self, name: &'static str, value: &[u8]) {
        if self.admits(value) {
            self.write(name, |out| out.extend_from_slice(value));
        }
    }

    /// A header whose name ends in bytes that a client chose. Whether the name can be one; without it, there is none.
    #[must_use]
    pub fn push_prefixed(&mut self, prefix: &'static str, name: &[u8], value: &[u8]) -> bool {
        let Some(name) = std::str::from_utf8(name).ok().filter(|name| is_token(name.as_bytes())) else { return false };
        if self.admits(value) {
            self.values.extend_from_slice(value);
            self.end(Name::Given([prefix, name].concat().into()));
        }
        true
    }

    /// A header whose value `format` appends.
    #[inline]
    fn write(&mut self, name: &'static str, format: impl FnOnce(&mut Vec<u8>)) {
        format(&mut self.values);
        self.end(Name::Known(name));
    }

    #[inline]
    fn end(&mut self, name: Name) {
        self.fields.push(Field { name, end: self.values.len() });
    }

    /// Whether a header may contain these bytes.
    fn admits(&mut self, bytes: &[u8]) -> bool {
        let admitted = !has_controls(bytes) || !bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
        self.flawed |= !admitted;
        admitted
    }

    /// The value of Content-Length, in bytes.
    pub fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// Bytes of the whole object that the headers of a GET or HEAD are about.
    pub fn object_size(&self) -> Option<u64> {
        self.ranged.or(self.content_length)
    }

    /// Whether a header was left out.
    pub fn is_flawed(&self) -> bool {
        self.flawed
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut start = 0;
        self.fields.iter().map(move |Field { name, end }| {
            let value = &self.values[start..*end];
            start = *end;
            (name.as_str(), value)
        })
    }

    /// Names and values, which share the memory of the block.
    pub fn into_fields(self) -> impl Iterator<Item = (Name, Bytes)> {
        let mut left = Bytes::from(self.values);
        let mut start = 0;
        self.fields.into_iter().map(move |Field { name, end }| {
            let length = end - start;
            start = end;
            (name, left.split_to(length))
        })
    }

    /// Appends the lines that HTTP/1.1 writes: `name: value\r\n` each.
    pub fn write_lines(&self, out: &mut Vec<u8>) {
        for (name, value) in self.iter() {
            for piece in [name.as_bytes(), b": ", value, b"\r\n"] {
                out.extend_from_slice(piece);
            }
        }
    }
}

/// Whether there may be a byte below space, eight bytes at a time: almost no value has one.
fn has_controls(bytes: &[u8]) -> bool {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // The last eight once more where they are not a whole word. Fewer than eight are for the caller to look at.
    let Some(last) = bytes.last_chunk() else { return true };
    let words = bytes.as_chunks().0.iter().chain([last]).map(|word| u64::from_le_bytes(*word));
    words.fold(0, |found, word| found | (word.wrapping_sub(EACH * 0x20) & !word)) & (EACH * 0x80) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain;
    use proptest::prelude::*;

    fn bytes(block: &HeaderBlock) -> Vec<u8> {
        let mut lines = Vec::new();
        block.write_lines(&mut lines);
        lines
    }

    fn text(block: &HeaderBlock) -> String {
        String::from_utf8(bytes(block)).unwrap()
    }

    fn lines(headers: Vec<(String, String)>) -> String {
        headers.into_iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
    }

    proptest! {
        #[test]
        fn the_headers_of_an_object_are_the_straightforward_ones(
            md5 in any::<[u8; 16]>(), parts in any::<u16>(), length in any::<u64>(), ms in any::<i64>(),
            content_type in "[ -~é]{0,40}",
        ) {
            for parts in [0, parts] {
                let etag = Etag { md5, parts };
                let mut block = HeaderBlock::new();
                block.set_object_headers(&etag, length, ms);
                prop_assert_eq!(text(&block), lines(plain::object_headers(md5, parts, length, ms, "binary/octet-stream")));
                prop_assert_eq!(block.content_length(), Some(length));
                block.clear();
                block.set_object_headers_with_content_type(&etag, length, ms, content_type.as_bytes());
                prop_assert_eq!(text(&block), lines(plain::object_headers(md5, parts, length, ms, &content_type)));
                prop_assert!(!block.is_flawed());
            }
        }

        /// Whatever a value or a name holds, a block has as many lines as headers that entered it.
        #[test]
        fn no_bytes_make_a_line_of_their_own(
            values in proptest::collection::vec(
                proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(0), 32u8..], 0..40), 1..6,
            ),
        ) {
            let mut block = HeaderBlock::new();
            let (mut flawed, mut left_out) = (0, 0);
            for (at, value) in values.iter().enumerate() {
                if at % 2 == 0 {
                    block.push("x-a", value);
                    flawed += usize::from(value.iter().any(|byte| b"\r\n\0".contains(byte)));
                } else {
                    left_out += usize::from(!block.push_prefixed("x-a-", value, b"v"));
                }
            }
            let lines = bytes(&block);
            let count = |wanted| lines.iter().filter(|&&byte| byte == wanted).count();
            let entered = values.len() - flawed - left_out;
            prop_assert_eq!((count(b'\r'), count(b'\n'), count(0)), (entered, entered, 0));
            prop_assert_eq!(block.is_flawed(), flawed > 0);
            prop_assert_eq!(left_out, values.iter().skip(1).step_by(2).filter(|name| !is_token(name)).count());
            let borrowed: Vec<_> = block.iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
            let owned: Vec<_> =
                block.into_fields().map(|(name, value)| (name.as_str().to_owned(), value.to_vec())).collect();
            prop_assert_eq!(borrowed, owned);
        }
    }

    #[test]
    fn every_place_of_a_value_is_looked_at() {
        for length in 0..40 {
            for at in 0..length {
                for (byte, admitted) in [(b'\r', false), (b'\n', false), (0, false), (b'\t', true), (0xff, true)] {
                    let mut value = vec![b'a'; length];
                    value[at] = byte;
                    let mut block = HeaderBlock::new();
                    block.push("x-a", &value);
                    assert_eq!((block.is_flawed(), bytes(&block).is_empty()), (!admitted, !admitted));
                }
            }
        }
    }
}
