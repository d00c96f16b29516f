//! The headers of a response in one buffer, as they go on the wire: `name: value\r\n` each, names in lower case.
//!
//! A value with a line end is never added; the block is then flawed instead. A block also knows the value of its
//! Content-Length. The caller decides which headers there are.

use super::format::{
    format_content_length, format_content_range, format_decimal, format_etag, format_last_modified,
    format_unsatisfied_range,
};
use crate::objects::versions::VersionName;
use orcas_checksum::{ChecksumType, Etag, ObjectChecksum};

/// Bytes of room that a new block has: the headers of most objects, and what every answer adds to them.
const ROOM: usize = 512;

/// Says that an answer is about a delete marker.
pub const DELETE_MARKER: &str = "x-amz-delete-marker";

/// The header lines of one response.
#[derive(Debug)]
pub struct HeaderBlock {
    lines: Vec<u8>,
    content_length: Option<u64>,
    flawed: bool,
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

    /// A block with room for `more` bytes in addition to the usual headers.
    pub fn with_room(more: usize) -> Self {
        Self { lines: Vec::with_capacity(ROOM + more), content_length: None, flawed: false }
    }

    /// Empties the block and keeps its memory.
    pub fn clear(&mut self) {
        self.lines.clear();
        (self.content_length, self.flawed) = (None, false);
    }

    /// The lines of an object of the default type: ETag, Last-Modified, Accept-Ranges, Content-Length, Content-Type.
    /// `length` in bytes of what is sent, `modified_ms` in milliseconds since 1970.
    pub fn set_object_headers(&mut self, etag: &Etag, length: u64, modified_ms: i64) {
        self.object_lines(etag, length, modified_ms);
        self.lines.extend_from_slice(b"content-type: binary/octet-stream\r\n");
    }

    /// As `set_object_headers`, with the type that the object was given.
    pub fn set_object_headers_with_content_type(
        &mut self,
        etag: &Etag,
        length: u64,
        modified_ms: i64,
        content_type: &[u8],
    ) {
        self.object_lines(etag, length, modified_ms);
        self.push("content-type", content_type);
    }

    fn object_lines(&mut self, etag: &Etag, length: u64, modified_ms: i64) {
        self.set_validators(etag, modified_ms);
        self.lines.extend_from_slice(b"accept-ranges: bytes\r\n");
        self.set_content_length(length);
    }

    /// ETag and Last-Modified, all that a 304 says about an object.
    pub fn set_validators(&mut self, etag: &Etag, modified_ms: i64) {
        self.set_etag(etag);
        self.set_last_modified(modified_ms);
    }

    pub fn set_etag(&mut self, etag: &Etag) {
        self.lines.extend_from_slice(b"etag: ");
        format_etag(&mut self.lines, etag);
        self.lines.extend_from_slice(b"\r\n");
    }

    /// `modified_ms` in milliseconds since 1970.
    pub fn set_last_modified(&mut self, modified_ms: i64) {
        self.lines.extend_from_slice(b"last-modified: ");
        format_last_modified(&mut self.lines, modified_ms);
        self.lines.extend_from_slice(b"\r\n");
    }

    /// Sets Content-Length, in bytes.
    pub fn set_content_length(&mut self, length: u64) {
        self.lines.extend_from_slice(b"content-length: ");
        format_content_length(&mut self.lines, length);
        self.lines.extend_from_slice(b"\r\n");
        self.content_length = Some(length);
    }

    /// The Content-Range of a 206: first and last byte of an object of `size` bytes.
    pub fn set_content_range(&mut self, first: u64, last: u64, size: u64) {
        self.lines.extend_from_slice(b"content-range: ");
        format_content_range(&mut self.lines, first, last, size);
        self.lines.extend_from_slice(b"\r\n");
    }

    /// The Content-Range of a 416.
    pub fn set_unsatisfied_range(&mut self, size: u64) {
        self.lines.extend_from_slice(b"content-range: ");
        format_unsatisfied_range(&mut self.lines, size);
        self.lines.extend_from_slice(b"\r\n");
    }

    /// The line of a checksum, under the name of its algorithm.
    pub fn set_checksum(&mut self, checksum: &ObjectChecksum) {
        self.lines.extend_from_slice(checksum.checksum.algorithm().header().as_bytes());
        self.lines.extend_from_slice(b": ");
        checksum.write_text(&mut self.lines);
        self.lines.extend_from_slice(b"\r\n");
    }

    /// What a checksum covers.
    pub fn set_checksum_type(&mut self, kind: ChecksumType) {
        self.push("x-amz-checksum-type", kind.name().as_bytes());
    }

    /// The version that an answer is about.
    pub fn set_version_id(&mut self, version: &VersionName) {
        self.version_line(b"x-amz-version-id: ", version);
    }

    /// The version that was copied.
    pub fn set_copy_source_version_id(&mut self, version: &VersionName) {
        self.version_line(b"x-amz-copy-source-version-id: ", version);
    }

    /// The version whose annotation an answer is about.
    pub fn set_object_version_id(&mut self, version: &VersionName) {
        self.version_line(b"x-amz-object-version-id: ", version);
    }

    fn version_line(&mut self, name: &[u8], version: &VersionName) {
        self.lines.extend_from_slice(name);
        version.write(&mut self.lines);
        self.lines.extend_from_slice(b"\r\n");
    }

    /// The answer is about a delete marker.
    pub fn set_delete_marker(&mut self) {
        self.push(DELETE_MARKER, b"true");
    }

    pub fn push_number(&mut self, name: &'static str, number: u64) {
        self.lines.extend_from_slice(name.as_bytes());
        self.lines.extend_from_slice(b": ");
        format_decimal(&mut self.lines, number);
        self.lines.extend_from_slice(b"\r\n");
    }

    /// A line with any value. One that holds CR, LF or NUL is left out, and the block is flawed.
    #[inline]
    pub fn push(&mut self, name: &'static str, value: &[u8]) {
        if self.admits(value) {
            self.lines.extend_from_slice(name.as_bytes());
            self.lines.extend_from_slice(b": ");
            self.lines.extend_from_slice(value);
            self.lines.extend_from_slice(b"\r\n");
        }
    }

    /// A line whose name ends in bytes that a client chose; they are checked like the value.
    pub fn push_prefixed(&mut self, prefix: &'static str, name: &[u8], value: &[u8]) {
        if self.admits(name) && self.admits(value) {
            for piece in [prefix.as_bytes(), name, b": ", value, b"\r\n"] {
                self.lines.extend_from_slice(piece);
            }
        }
    }

    /// Whether a line may contain these bytes.
    fn admits(&mut self, bytes: &[u8]) -> bool {
        let admitted = !has_controls(bytes) || !bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
        self.flawed |= !admitted;
        admitted
    }

    /// All lines, each with its end.
    pub fn as_bytes(&self) -> &[u8] {
        &self.lines
    }

    /// The value of Content-Length, in bytes.
    pub fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// Whether a line was left out.
    pub fn is_flawed(&self) -> bool {
        self.flawed
    }

    /// Names and values, in the order of the lines.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let lines = self.lines.split_inclusive(|&byte| byte == b'\n');
        lines.map(|line| {
            let line = line.strip_suffix(b"\r\n").expect("every line ends with CR LF");
            let colon = line.windows(2).position(|pair| pair == b": ").expect("every line has a name");
            (std::str::from_utf8(&line[..colon]).expect("names are ASCII"), &line[colon + 2..])
        })
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

    fn text(block: &HeaderBlock) -> String {
        String::from_utf8(block.as_bytes().to_vec()).unwrap()
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
            let mut entered = 0;
            for (at, value) in values.iter().enumerate() {
                let clean = !value.iter().any(|byte| b"\r\n\0".contains(byte));
                entered += usize::from(clean);
                if at % 2 == 0 { block.push("x-a", value) } else { block.push_prefixed("x-a-", value, b"v") }
            }
            let count = |wanted| block.as_bytes().iter().filter(|&&byte| byte == wanted).count();
            prop_assert_eq!((count(b'\r'), count(b'\n'), count(0)), (entered, entered, 0));
            prop_assert_eq!(block.is_flawed(), entered < values.len());
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
                    assert_eq!((block.is_flawed(), block.as_bytes().is_empty()), (!admitted, !admitted));
                }
            }
        }
    }
}
