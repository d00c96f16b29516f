//! Reads the documents of responses: list pages, upload ids and error codes. Pure.
//!
//! This is a scan for known elements and no XML parser, which suffices because the result is compared with what is
//! expected. Keys in list pages never need escaping.

use memchr::memmem;

/// An object on a page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub key: &'a [u8],
    pub size: u64,
}

/// A page of ListObjectsV2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<'a> {
    pub entries: Vec<Entry<'a>>,
    pub truncated: bool,
}

/// The tags of an element without attributes.
pub struct Element {
    open: &'static [u8],
    close: &'static [u8],
}

macro_rules! element {
    ($name:literal) => {
        Element { open: concat!("<", $name, ">").as_bytes(), close: concat!("</", $name, ">").as_bytes() }
    };
}

pub const UPLOAD_ID: Element = element!("UploadId");
const CODE: Element = element!("Code");
const CONTENTS: Element = element!("Contents");
const IS_TRUNCATED: Element = element!("IsTruncated");
const KEY: Element = element!("Key");
const SIZE: Element = element!("Size");

/// The text of the first such element.
pub fn text_of<'a>(document: &'a [u8], element: &Element) -> Option<&'a [u8]> {
    let (text, _) = element_of(document, element)?;
    Some(text)
}

/// The text of the first such element, and what follows it.
fn element_of<'a>(document: &'a [u8], element: &Element) -> Option<(&'a [u8], &'a [u8])> {
    let start = memmem::find(document, element.open)? + element.open.len();
    let rest = &document[start..];
    let end = memmem::find(rest, element.close)?;
    Some((&rest[..end], &rest[end..]))
}

/// `None` if the document is not a list page.
pub fn parse(document: &[u8]) -> Option<Page<'_>> {
    let truncated = match text_of(document, &IS_TRUNCATED)? {
        b"true" => true,
        b"false" => false,
        _ => return None,
    };
    memmem::find(document, b"<ListBucketResult")?;
    let mut entries = Vec::new();
    let mut rest = document;
    while let Some((contents, behind)) = element_of(rest, &CONTENTS) {
        let size = std::str::from_utf8(text_of(contents, &SIZE)?).ok()?.parse().ok()?;
        entries.push(Entry { key: text_of(contents, &KEY)?, size });
        rest = behind;
    }
    Some(Page { entries, truncated })
}

/// The code of an error document.
pub fn error_code(document: &[u8]) -> Option<&str> {
    memmem::find(document, b"<Error>")?;
    let code = std::str::from_utf8(text_of(document, &CODE)?).ok()?;
    (!code.is_empty() && code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric())).then_some(code)
}

/// The text of an element with its entities replaced.
pub fn unescaped(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    // The ampersand comes last, so that no entity is replaced twice.
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&#34;", "\""), ("&#39;", "'"), ("&amp;", "&")]
        .iter()
        .fold(text.into_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages() {
        let document = b"<?xml?><ListBucketResult xmlns=\"x\"><Name>b</Name><IsTruncated>true</IsTruncated><Contents><Key>\
            o/1</Key><LastModified>t</LastModified><Size>12</Size></Contents><Contents><ETag>&quot;e&quot;</ETag><Key>o/2\
            </Key><Size>0</Size></Contents></ListBucketResult>";
        let entries = vec![Entry { key: b"o/1", size: 12 }, Entry { key: b"o/2", size: 0 }];
        assert_eq!(parse(document), Some(Page { entries, truncated: true }));
        let empty = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
        assert_eq!(parse(empty), Some(Page { entries: vec![], truncated: false }));
        for other in [&b""[..], b"<html>", b"<ListBucketResult></ListBucketResult>", &document[..120]] {
            assert_eq!(parse(other).filter(|page| !page.entries.is_empty()), None);
        }
        assert_eq!(parse(b"<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>k</Key></Contents>"), None);
    }

    #[test]
    fn codes_and_ids() {
        assert_eq!(error_code(b"<?xml?>\n<Error><Code>SlowDown</Code><Message>no</Message></Error>"), Some("SlowDown"));
        assert_eq!(error_code(b"<Error><Code>a b</Code></Error>"), None);
        assert_eq!(error_code(b"<html>502</html>"), None);
        assert_eq!(unescaped(b"a&amp;lt;b&lt;&quot;"), "a&lt;b<\"");
    }
}
