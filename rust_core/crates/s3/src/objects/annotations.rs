//! Annotations of objects: what their names may be, whether a copy takes them, and the documents about them.
//!
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/annotations-overview.html>

use crate::errors::{ErrorCode, S3Error};
use crate::requests::conditions::WriteCondition;
use crate::requests::extensions::single;
use crate::requests::query::{ANNOTATION_NAME_LEN_MAX, Continuation, ListAnnotationsQuery};
use crate::xml::XmlWriter;
use orcas_checksum::{ChecksumAlgorithm, Etag};
use orcas_http::{Headers, Query};

/// Bytes of the longest text.
pub const TEXT_LEN_MAX: u64 = 1024 * 1024;
const DIRECTIVE: &str = "x-amz-object-annotation-directive";
/// The condition on the entity tag of the object.
pub const OBJECT_IF_MATCH: &str = "x-amz-object-if-match";

/// The annotation that a request is about, as it is named. It need not be a name that an annotation can have.
pub fn name_in(query: &Query) -> &[u8] {
    query.get("annotationName").unwrap_or_default()
}

/// Checks the name of an annotation that is written or removed: Unicode letters and digits, `_`, `.` and `-`, and not a prefix that
/// S3 keeps for itself.
///
/// Errors: `AnnotationNameTooLong`, `InvalidAnnotationName`.
pub fn check_name(name: &[u8]) -> Result<(), S3Error> {
    if name.len() > ANNOTATION_NAME_LEN_MAX {
        return Err(ErrorCode::AnnotationNameTooLong.into());
    }
    let allowed = |character: char| character.is_alphanumeric() || matches!(character, '_' | '.' | '-');
    let begins = |prefix: &[u8]| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    match std::str::from_utf8(name) {
        Ok(text) if !text.is_empty() && text.chars().all(allowed) && !begins(b"aws") && !begins(b"s3") => Ok(()),
        _ => Err(S3Error::new(ErrorCode::InvalidAnnotationName).field("AnnotationName", name.to_vec())),
    }
}

/// The condition of `x-amz-object-if-match` on the entity tag of the object.
pub fn object_condition(headers: &Headers<'_>) -> Result<WriteCondition, S3Error> {
    Ok(match single(headers, OBJECT_IF_MATCH)? {
        None => WriteCondition::Always,
        Some(b"*") => WriteCondition::Present,
        Some(tag) => WriteCondition::of_tag(tag),
    })
}

/// Whether a copy takes the annotations of its source.
pub fn copies_annotations(headers: &Headers<'_>) -> Result<bool, S3Error> {
    match headers.get(DIRECTIVE).map(<[u8]>::trim_ascii) {
        None | Some(b"COPY") => Ok(true),
        Some(b"EXCLUDE") => Ok(false),
        Some(other) => Err(S3Error::argument("Unknown annotation directive.", DIRECTIVE, other)),
    }
}

/// The document that PutObjectAnnotation answers.
pub fn written(key: &[u8], name: &[u8]) -> Vec<u8> {
    const ROOT: &str = "PutObjectAnnotationOutput";
    let mut xml = XmlWriter::document(256 + key.len() + name.len());
    xml.open_root(ROOT);
    xml.text("Key", key);
    xml.text("AnnotationName", name);
    xml.close(ROOT);
    xml.finish()
}

/// An annotation of a list. Time in milliseconds since the epoch, size in bytes.
pub struct AnnotationEntry<'a> {
    pub name: &'a [u8],
    pub modified_ms: i64,
    pub etag: Etag,
    pub size: u64,
    pub algorithm: Option<ChecksumAlgorithm>,
}

/// The document of a page of annotations. `more`: others follow the last entry.
pub fn list<'a>(
    bucket: &str,
    key: &[u8],
    query: &ListAnnotationsQuery,
    entries: &[AnnotationEntry<'a>],
    more: bool,
) -> Vec<u8> {
    const ROOT: &str = "ListObjectAnnotationsOutput";
    let mut xml = XmlWriter::document(512 + 320 * entries.len());
    xml.open_root(ROOT);
    xml.open("Annotations");
    for entry in entries {
        xml.open("AnnotationEntry");
        xml.text("AnnotationName", entry.name);
        xml.time("LastModified", entry.modified_ms);
        xml.etag(&entry.etag);
        if let Some(algorithm) = entry.algorithm {
            xml.plain("ChecksumAlgorithm", algorithm.name());
        }
        xml.number("Size", entry.size);
        xml.close("AnnotationEntry");
    }
    xml.close("Annotations");
    xml.text("Bucket", bucket.as_bytes());
    xml.text("Key", key);
    query.prefix.iter().for_each(|prefix| xml.text("AnnotationPrefix", prefix));
    xml.number("MaxAnnotationResults", u64::from(query.max));
    xml.number("AnnotationCount", entries.len() as u64);
    query.continuation.iter().for_each(|from| xml.text("ContinuationToken", &from.token));
    if let Some(last) = entries.last().filter(|_| more) {
        xml.plain("NextContinuationToken", &Continuation::token_after(last.name));
    }
    xml.close(ROOT);
    xml.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_letters_digits_and_a_few_signs() {
        for name in ["a", "0", "ml.sentiment", "_", "-.-", "état", "标签", "as3", "aw.s", "x-amz"] {
            assert_eq!(check_name(name.as_bytes()), Ok(()), "{name}");
        }
        for name in ["", "a b", "a/b", "a:b", "aws", "AWS.x", "aWsome", "s3", "S3.x", "a\0", "é\u{301}!"] {
            assert_eq!(check_name(name.as_bytes()).unwrap_err().code, ErrorCode::InvalidAnnotationName, "{name}");
        }
        assert_eq!(check_name(b"\xff").unwrap_err().code, ErrorCode::InvalidAnnotationName);
        assert_eq!(check_name(&[b'n'; ANNOTATION_NAME_LEN_MAX]), Ok(()));
        assert_eq!(
            check_name(&[b'n'; ANNOTATION_NAME_LEN_MAX + 1]).unwrap_err().code,
            ErrorCode::AnnotationNameTooLong
        );
    }

    #[test]
    fn a_copy_takes_annotations_unless_it_says_otherwise() {
        let parse = |value: &str| copies_annotations(&Headers::new(&[(DIRECTIVE.as_bytes(), value.as_bytes())]));
        assert_eq!(copies_annotations(&Headers::new(&[])), Ok(true));
        assert_eq!((parse("COPY"), parse("EXCLUDE")), (Ok(true), Ok(false)));
        assert!(parse("REPLACE").is_err() && parse("").is_err());
    }

    #[test]
    fn the_condition_on_the_object_is_a_tag_or_a_star() {
        let parse = |value: &str| object_condition(&Headers::new(&[(OBJECT_IF_MATCH.as_bytes(), value.as_bytes())]));
        let etag = Etag { md5: [0xab; 16], parts: 0 };
        assert_eq!(object_condition(&Headers::new(&[])), Ok(WriteCondition::Always));
        assert_eq!(parse("*"), Ok(WriteCondition::Present));
        assert_eq!(parse(&format!("\"{etag}\"")), Ok(WriteCondition::Matches(etag)));
        assert_eq!(parse("other"), Ok(WriteCondition::MatchesNothing));
    }

    #[test]
    fn a_page_says_what_follows_it() {
        let entry = |name| AnnotationEntry {
            name,
            modified_ms: 0,
            etag: Etag { md5: [0; 16], parts: 0 },
            size: 3,
            algorithm: Some(ChecksumAlgorithm::Crc32c),
        };
        let query =
            ListAnnotationsQuery::parse(&Query::parse(b"annotation-prefix=a&max-annotation-results=2").unwrap());
        let query = query.unwrap();
        let page = |more| String::from_utf8(list("b", b"k", &query, &[entry(b"a"), entry(b"ab")], more)).unwrap();
        let entry = "<AnnotationEntry><AnnotationName>ab</AnnotationName><LastModified>1970-01-01T00:00:00.000Z\
                     </LastModified><ETag>&quot;00000000000000000000000000000000&quot;</ETag><ChecksumAlgorithm>CRC32C\
                     </ChecksumAlgorithm><Size>3</Size></AnnotationEntry></Annotations>";
        assert!(page(true).contains(entry), "{}", page(true));
        assert!(page(true).contains("<MaxAnnotationResults>2</MaxAnnotationResults><AnnotationCount>2<"));
        let token = format!("<NextContinuationToken>{}<", Continuation::token_after(b"ab"));
        assert!(page(true).contains(&token) && !page(false).contains("Token"));
    }
}
