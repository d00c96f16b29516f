//! XML as S3 writes and reads it: one small writer, the documents of answers, the parsers of request bodies.
//!
//! Keys and names are bytes that are known to be UTF-8; other bytes are written lossily. Knows nothing of the engine:
//! callers pass plain values.

pub mod configurations;
pub mod lists;
pub(crate) mod parse;
pub mod requests;
pub mod results;
pub mod version_list;
pub mod versioning;

use std::borrow::Cow;

use orcas_http::timestamp::iso_time;

/// The namespace of every answer of the S3 API.
pub const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// Bytes of a request document: 1,000 keys of a Delete or 10,000 parts with SHA-512 checksums fit, and what one body can
/// make the server hold is bounded.
pub const DOCUMENT_LEN_MAX: usize = 3 << 20;

/// How characters that XML 1.0 cannot hold are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Illegal {
    /// A numeric reference: what AWS does in listings, so that keys survive lenient parsers.
    Reference,
    /// U+FFFD: for text that must stay readable by every parser.
    Replace,
}

/// Appends elements to one growing document.
pub struct XmlWriter {
    out: Vec<u8>,
}

impl XmlWriter {
    /// Starts a document with the XML declaration and room for `capacity` bytes.
    pub fn document(capacity: usize) -> Self {
        Self::document_in(Vec::with_capacity(capacity + 64))
    }

    /// Starts a document with the XML declaration in memory that is empty.
    pub fn document_in(mut out: Vec<u8>) -> Self {
        out.extend_from_slice(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        Self { out }
    }

    /// Starts a piece that `append` joins to a document later.
    pub fn fragment() -> Self {
        Self { out: Vec::new() }
    }

    /// Markup as it stands, for documents of a thousand entries: written whole, it costs one copy of a known length.
    #[inline]
    pub(crate) fn markup(&mut self, markup: &str) {
        self.out.extend_from_slice(markup.as_bytes());
    }

    pub fn open(&mut self, name: &str) {
        self.out.push(b'<');
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b'>');
    }

    /// Opens the root of an S3 answer, in the S3 namespace.
    pub fn open_root(&mut self, name: &str) {
        self.out.push(b'<');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b" xmlns=\"");
        self.out.extend_from_slice(NAMESPACE.as_bytes());
        self.out.extend_from_slice(b"\">");
    }

    /// Opens the Grantee of an ACL. `kind` is its `xsi:type`.
    pub fn open_grantee(&mut self, kind: &str) {
        self.out.extend_from_slice(b"<Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"");
        self.out.extend_from_slice(kind.as_bytes());
        self.out.extend_from_slice(b"\">");
    }

    pub fn close(&mut self, name: &str) {
        self.out.extend_from_slice(b"</");
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b'>');
    }

    /// `<name/>`, as S3 writes an empty but present value.
    pub fn empty(&mut self, name: &str) {
        self.out.push(b'<');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"/>");
    }

    /// An empty element with attributes that are numbers.
    pub fn numbers(&mut self, name: &str, attributes: &[(&str, u64)]) {
        self.out.push(b'<');
        self.out.extend_from_slice(name.as_bytes());
        for (attribute, value) in attributes {
            self.out.push(b' ');
            self.out.extend_from_slice(attribute.as_bytes());
            self.out.extend_from_slice(b"=\"");
            self.out.extend_from_slice(itoa::Buffer::new().format(*value).as_bytes());
            self.out.push(b'"');
        }
        self.out.extend_from_slice(b"/>");
    }

    /// An element whose text may be anything; forbidden characters become numeric references.
    pub fn text(&mut self, name: &str, value: &[u8]) {
        self.element(name, value, Illegal::Reference);
    }

    /// An element of an error, whose text may be anything; forbidden characters become U+FFFD. Quotes stand as they are, as
    /// in the errors of S3.
    pub fn lossy(&mut self, name: &str, value: &[u8]) {
        self.element(name, value, Illegal::Replace);
    }

    /// An element whose text is known to need no escaping.
    pub fn plain(&mut self, name: &str, value: &str) {
        self.open(name);
        self.out.extend_from_slice(value.as_bytes());
        self.close(name);
    }

    pub fn number(&mut self, name: &str, value: u64) {
        self.plain(name, itoa::Buffer::new().format(value));
    }

    pub fn boolean(&mut self, name: &str, value: bool) {
        self.plain(name, if value { "true" } else { "false" });
    }

    /// A time as S3 lists it, `2026-01-02T03:04:05.678Z`. `ms` is milliseconds since the epoch.
    pub fn time(&mut self, name: &str, ms: i64) {
        self.open(name);
        self.out.extend_from_slice(&iso_time(ms));
        self.close(name);
    }

    /// An entity tag with its quotes.
    pub fn etag(&mut self, etag: &orcas_checksum::Etag) {
        self.open("ETag");
        self.out.extend_from_slice(b"&quot;");
        etag.write_hex(&mut self.out);
        self.out.extend_from_slice(b"&quot;");
        self.close("ETag");
    }

    /// Text of the element that is open.
    pub fn content(&mut self, value: &[u8]) {
        escape_into(&mut self.out, value, Illegal::Reference);
    }

    pub fn append(&mut self, fragment: XmlWriter) {
        self.out.extend_from_slice(&fragment.out);
    }

    pub fn finish(self) -> Vec<u8> {
        self.out
    }

    fn element(&mut self, name: &str, value: &[u8], illegal: Illegal) {
        if value.is_empty() {
            return self.empty(name);
        }
        self.open(name);
        escape_into(&mut self.out, value, illegal);
        self.close(name);
    }
}

/// Whether XML 1.0 allows a character (`Char`, section 2.2).
fn is_allowed(character: char) -> bool {
    !matches!(character, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

/// Appends `value` escaped. Runs of harmless ASCII are copied whole; CR and LF become references because parsers
/// normalise line ends.
fn escape_into(out: &mut Vec<u8>, value: &[u8], illegal: Illegal) {
    let special = |b: u8| !b.is_ascii_graphic() & (b != b' ') | matches!(b, b'<' | b'>' | b'&' | b'"' | b'\'');
    // Without an early exit, so that the compiler can vectorise it.
    if !value.iter().fold(false, |found, &b| found | special(b)) {
        return out.extend_from_slice(value);
    }
    let text: Cow<'_, str> = String::from_utf8_lossy(value);
    for character in text.chars() {
        match character {
            '<' => out.extend_from_slice(b"&lt;"),
            '>' => out.extend_from_slice(b"&gt;"),
            '&' => out.extend_from_slice(b"&amp;"),
            '"' if illegal == Illegal::Reference => out.extend_from_slice(b"&quot;"),
            '\'' if illegal == Illegal::Reference => out.extend_from_slice(b"&apos;"),
            '\r' => out.extend_from_slice(b"&#13;"),
            '\n' => out.extend_from_slice(b"&#10;"),
            character if !is_allowed(character) => match illegal {
                Illegal::Reference => out.extend_from_slice(format!("&#x{:x};", u32::from(character)).as_bytes()),
                Illegal::Replace => out.extend_from_slice("\u{fffd}".as_bytes()),
            },
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_reference_what_xml_cannot_hold() {
        let mut xml = XmlWriter::fragment();
        xml.text("Key", "a\u{1}\r\n\u{ffff}<é".as_bytes());
        assert_eq!(xml.finish(), "<Key>a&#x1;&#13;&#10;&#xffff;&lt;é</Key>".as_bytes());
    }
}
