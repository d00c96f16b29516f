//! XML text to a small tree, within limits: no DTD, no entities but the five of XML and numeric ones, bounded size,
//! depth and element count. Namespaces are dropped: S3 clients send documents with and without.

use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};

use crate::errors::{ErrorCode, S3Error};

/// Bytes of a request document: bounds what one body can make the server hold.
pub const DOCUMENT_LEN_MAX: usize = 2 << 20;

/// Nested elements: bounds the walk over hostile nesting.
const DEPTH_MAX: usize = 32;

/// Elements in a document: 10,000 parts with 14 fields each fit; a body of empty elements does not.
const ELEMENTS_MAX: usize = 160_000;

/// One element: its name without prefix, its text, its children in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Element {
    pub name: String,
    pub text: String,
    pub children: Vec<Element>,
}

impl Element {
    /// The text of an element that may not have children.
    pub fn leaf(&self) -> Result<&str, S3Error> {
        if self.children.is_empty() { Ok(&self.text) } else { Err(malformed()) }
    }
}

pub fn malformed() -> S3Error {
    ErrorCode::MalformedXML.into()
}

/// Reads a whole document whose root is called `root`.
pub fn document(body: &[u8], root: &str) -> Result<Element, S3Error> {
    if body.is_empty() {
        return Err(ErrorCode::MissingRequestBodyError.into());
    }
    if body.len() > DOCUMENT_LEN_MAX {
        return Err(ErrorCode::MaxMessageLengthExceeded.into());
    }
    let text = std::str::from_utf8(body).map_err(|_| malformed())?;
    let element = tree(text.strip_prefix('\u{feff}').unwrap_or(text))?;
    if element.name == root { Ok(element) } else { Err(malformed()) }
}

fn tree(text: &str) -> Result<Element, S3Error> {
    let mut reader = Reader::from_str(text);
    let mut open: Vec<Element> = Vec::new();
    let mut root: Option<Element> = None;
    let mut elements = 0usize;
    loop {
        match reader.read_event().map_err(|_| malformed())? {
            start @ (Event::Start(_) | Event::Empty(_)) => {
                let closed = matches!(start, Event::Empty(_));
                let (Event::Start(tag) | Event::Empty(tag)) = start else { return Err(malformed()) };
                elements += 1;
                if elements > ELEMENTS_MAX || open.len() >= DEPTH_MAX || (open.is_empty() && root.is_some()) {
                    return Err(malformed());
                }
                if tag.attributes().any(|attribute| attribute.is_err()) {
                    return Err(malformed());
                }
                let name: &str = tag.local_name().into_inner();
                let element = Element { name: name.to_owned(), ..Element::default() };
                if closed { attach(element, &mut open, &mut root) } else { open.push(element) }
            }
            Event::End(_) => {
                let element = open.pop().ok_or_else(malformed)?;
                // No document of the API mixes text and elements.
                if !element.children.is_empty() && !element.text.trim_ascii().is_empty() {
                    return Err(malformed());
                }
                attach(element, &mut open, &mut root);
            }
            Event::Text(text) => append(&mut open, &text.xml10_content())?,
            Event::CData(text) => append(&mut open, &text.xml10_content())?,
            Event::GeneralRef(reference) => {
                let character = resolve(&reference)?;
                append(&mut open, character.encode_utf8(&mut [0; 4]))?;
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            Event::DocType(_) => return Err(malformed()),
            Event::Eof => break,
        }
    }
    root.filter(|_| open.is_empty()).ok_or_else(malformed)
}

fn attach(element: Element, open: &mut [Element], root: &mut Option<Element>) {
    match open.last_mut() {
        Some(parent) => parent.children.push(element),
        None => *root = Some(element),
    }
}

/// Adds text to the innermost open element; outside the root only blanks may stand.
fn append(open: &mut [Element], text: &str) -> Result<(), S3Error> {
    match open.last_mut() {
        Some(element) => element.text.push_str(text),
        None if text.trim_ascii().is_empty() => {}
        None => return Err(malformed()),
    }
    Ok(())
}

/// The character of a numeric reference or of one of the five named entities. References to characters that XML
/// 1.0 forbids are accepted, since listings give such keys out in this form.
fn resolve(reference: &BytesRef<'_>) -> Result<char, S3Error> {
    let name: &str = reference;
    let code = match name.strip_prefix('#') {
        Some(number) => {
            let (digits, radix) = number.strip_prefix('x').map_or((number, 10), |hex| (hex, 16));
            let valid = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
            return Some(digits)
                .filter(|_| valid)
                .and_then(|digits| u32::from_str_radix(digits, radix).ok())
                .and_then(char::from_u32)
                .ok_or_else(malformed);
        }
        None => name,
    };
    match code {
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "amp" => Ok('&'),
        "quot" => Ok('"'),
        "apos" => Ok('\''),
        _ => Err(malformed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn root_text(body: &str) -> Result<String, ErrorCode> {
        document(body.as_bytes(), "A").map(|root| root.text).map_err(|error| error.code)
    }

    #[test]
    fn text_is_unescaped() {
        assert_eq!(root_text("<A>&lt;&#65;&#x1;<![CDATA[<b>]]>&amp;amp;</A>").as_deref(), Ok("<A\u{1}<b>&amp;"));
        assert_eq!(
            root_text("\u{feff}<?xml version='1.0'?><!-- c -->\n<x:A xmlns:x='u'>t</x:A>\n").as_deref(),
            Ok("t")
        );
    }

    #[test]
    fn hostile_documents_are_refused() {
        let deep = format!("{}{}", "<A>".repeat(33), "</A>".repeat(33));
        let wide = format!("<A>{}</A>", "<b/>".repeat(ELEMENTS_MAX));
        for bad in [
            "text",
            "<A>",
            "<A></B>",
            "<A/><A/>",
            "<A/>x",
            "<B/>",
            "<!DOCTYPE A [<!ENTITY e 'x'>]><A>&e;</A>",
            "<A>&e;</A>",
            "<A>&#xD800;</A>",
            "<A>&#;</A>",
            "<A>&#+65;</A>",
            "<A x=1/>",
            "<A>x<b/></A>",
            &deep,
            &wide,
        ] {
            let shown: String = bad.chars().take(40).collect();
            assert_eq!(root_text(bad), Err(ErrorCode::MalformedXML), "{shown}");
        }
        assert_eq!(document(b"<A>\xff</A>", "A"), Err(malformed()));
        let large = format!("<A>{}</A>", " ".repeat(DOCUMENT_LEN_MAX));
        assert_eq!(root_text(&large), Err(ErrorCode::MaxMessageLengthExceeded));
    }

    proptest! {
        #[test]
        fn no_document_panics(body in proptest::collection::vec(any::<u8>(), 0..200), markup in "[<>/A&#;x!\\[\\]CDT '=-]{0,80}") {
            let _ = document(&body, "A");
            let _ = document(markup.as_bytes(), "A");
        }
    }
}
