//! XML text to a small tree, within limits: no DTD, no entities but the five of XML and numeric ones, bounded size,
//! depth and element count. Namespaces are dropped: S3 clients send documents with and without.
//!
//! Characters that XML 1.0 forbids are refused, raw and as references: an answer that repeats one could be read by no
//! client.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::{DOCUMENT_LEN_MAX, is_allowed};
use crate::errors::{ErrorCode, S3Error};

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
    if has_forbidden(body) {
        return Err(malformed());
    }
    let element = tree(text.strip_prefix('\u{feff}').unwrap_or(text))?;
    if element.name == root { Ok(element) } else { Err(malformed()) }
}

/// Whether text in UTF-8 has a character that XML 1.0 forbids.
fn has_forbidden(text: &[u8]) -> bool {
    // Without an early exit, so that the compiler can vectorise it. A surrogate has no encoding, so U+FFFE and U+FFFF
    // remain, which are rare.
    let control = |byte: u8| (byte < b' ') & !matches!(byte, b'\t' | b'\n' | b'\r');
    text.iter().fold(false, |found, &byte| found | control(byte))
        || memchr::memmem::find_iter(text, b"\xef\xbf").any(|at| text.get(at + 2).is_some_and(|&byte| byte >= 0xbe))
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
                check_attributes(&tag)?;
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

/// Nobody reads attributes, but they have to be well-formed.
fn check_attributes(tag: &BytesStart<'_>) -> Result<(), S3Error> {
    for attribute in tag.attributes() {
        let value = attribute.map_err(|_| malformed())?.value;
        for reference in value.split('&').skip(1) {
            resolve(reference.split_once(';').ok_or_else(malformed)?.0)?;
        }
    }
    Ok(())
}

/// The character of a numeric reference or of one of the five named entities.
fn resolve(name: &str) -> Result<char, S3Error> {
    let code = match name.strip_prefix('#') {
        Some(number) => {
            let (digits, radix) = number.strip_prefix('x').map_or((number, 10), |hex| (hex, 16));
            let valid = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
            return Some(digits)
                .filter(|_| valid)
                .and_then(|digits| u32::from_str_radix(digits, radix).ok())
                .and_then(char::from_u32)
                .filter(|character| is_allowed(*character))
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
        assert_eq!(root_text("<A>&lt;&#65;<![CDATA[<b>]]>&amp;amp;</A>").as_deref(), Ok("<A<b>&amp;"));
        assert_eq!(
            root_text("<A>&#x9;&#10;&#13;&#xd7ff;&#xfffd;\t\u{7f}\u{fffd}</A>").as_deref(),
            Ok("\t\n\r\u{d7ff}\u{fffd}\t\u{7f}\u{fffd}")
        );
        assert_eq!(root_text("<A><![CDATA[&#x1;]]><!-- &#x1; --></A>").as_deref(), Ok("&#x1;"));
        assert_eq!(root_text("<A x='&lt;&#x20;'>t</A>").as_deref(), Ok("t"));
        assert_eq!(
            root_text("\u{feff}<?xml version='1.0'?><!-- c -->\n<x:A xmlns:x='u'>t</x:A>\n").as_deref(),
            Ok("t")
        );
    }

    #[test]
    fn characters_that_xml_forbids_are_refused() {
        let forbidden = ('\0'..' ').filter(|c| !matches!(c, '\t' | '\n' | '\r')).chain(['\u{fffe}', '\u{ffff}']);
        for character in forbidden {
            let code = u32::from(character);
            for text in
                [character.to_string(), format!("&#{code};"), format!("&#x{code:x};"), format!("&#x{code:05X};")]
            {
                for body in
                    [format!("<A>{text}</A>"), format!("<A>a<B>b{text}</B></A>"), format!("<A><B c='{text}'/></A>")]
                {
                    assert_eq!(root_text(&body), Err(ErrorCode::MalformedXML), "{body:?}");
                }
            }
            for body in [
                format!("<A><![CDATA[{character}]]></A>"),
                format!("<A><!--{character}--></A>"),
                format!("<A/>{character}"),
            ] {
                assert_eq!(root_text(&body), Err(ErrorCode::MalformedXML), "{body:?}");
            }
        }
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
