//! Tags of objects and buckets, in the header `x-amz-tagging` and in documents, with the limits of S3.
//!
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-tagging.html>

use crate::errors::{ErrorCode, S3Error};
use crate::xml::XmlWriter;
use crate::xml::parse::{Element, document, malformed};
use orcas_http::{Headers, form_decode, percent_encode_into};

/// Tags of one object.
const TAGS_MAX: usize = 10;
/// Tags of one bucket.
const BUCKET_TAGS_MAX: usize = 50;
/// Most UTF-16 code units of a key, as S3 counts.
const KEY_UNITS_MAX: usize = 128;
/// Most UTF-16 code units of a value, as S3 counts.
const VALUE_UNITS_MAX: usize = 256;
pub const HEADER: &str = "x-amz-tagging";
const RESERVED_OF_OBJECTS: &str = "Your TagKey cannot be prefixed with aws:";

/// Keys and values, which are UTF-8; each key once, in ascending order.
pub type Tags = Vec<(Vec<u8>, Vec<u8>)>;

/// The tags that `x-amz-tagging` gives, which is encoded like a query.
///
/// Errors: `InvalidArgument` for another form, for no key and for one that comes twice, else as [`read_document`].
pub fn of_header(headers: &Headers<'_>) -> Result<Tags, S3Error> {
    let Some(value) = headers.get(HEADER).map(<[u8]>::trim_ascii) else { return Ok(Tags::new()) };
    let malformed = || {
        let message = "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters \
                       without tag name duplicates.";
        S3Error::argument(message, HEADER, value)
    };
    let decoded = |raw: &[u8]| form_decode(raw).and_then(|raw| String::from_utf8(raw).ok()).ok_or_else(malformed);
    let mut tags = Vec::new();
    for pair in value.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty()) {
        let mut sides = pair.split(|&byte| byte == b'=');
        let (key, value) = (sides.next().unwrap_or_default(), sides.next().unwrap_or_default());
        if sides.next().is_some() || key.is_empty() {
            return Err(malformed());
        }
        tags.push((decoded(key)?, decoded(value)?));
    }
    check_object_count(&tags)?;
    checked(tags, RESERVED_OF_OBJECTS, |_| malformed())
}

/// The value of `x-amz-tagging` that gives these tags.
pub fn header(tags: &Tags) -> Vec<u8> {
    let mut value = Vec::new();
    for (key, text) in tags {
        if !value.is_empty() {
            value.push(b'&');
        }
        percent_encode_into(&mut value, key, true);
        value.push(b'=');
        percent_encode_into(&mut value, text, true);
    }
    value
}

/// Whether a copy takes the tags of its source or those of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaggingDirective {
    Copy,
    Replace,
}

impl TaggingDirective {
    pub fn parse(headers: &Headers<'_>) -> Result<Self, S3Error> {
        const NAME: &str = "x-amz-tagging-directive";
        match headers.get(NAME).map(<[u8]>::trim_ascii) {
            None | Some(b"COPY") => Ok(Self::Copy),
            Some(b"REPLACE") => Ok(Self::Replace),
            Some(other) => Err(S3Error::argument("Unknown tagging directive.", NAME, other)),
        }
    }
}

/// The tags of a Tagging document.
///
/// Errors: `MalformedXML`, `BadRequest` for more than ten tags, `InvalidTag` for keys and values that are too long,
/// have other characters than S3 allows, or are reserved, and for a key that comes twice.
pub fn read_document(body: &[u8]) -> Result<Tags, S3Error> {
    let tags = in_document(body)?;
    check_object_count(&tags)?;
    without_duplicates(tags, RESERVED_OF_OBJECTS)
}

/// The tags of the Tagging document of a bucket, which may have fifty. Errors as [`read_document`].
pub fn read_bucket_document(body: &[u8]) -> Result<Tags, S3Error> {
    bucket_tags(in_document(body)?)
}

/// The tags of a bucket in the element `set`. Errors as [`read_bucket_document`].
pub fn of_bucket(set: &Element) -> Result<Tags, S3Error> {
    bucket_tags(set.children.iter().map(tag).collect::<Result<_, _>>()?)
}

fn bucket_tags(tags: Vec<(String, String)>) -> Result<Tags, S3Error> {
    if tags.len() > BUCKET_TAGS_MAX {
        return Err(S3Error::with(ErrorCode::BadRequest, "Bucket tag count cannot be greater than 50"));
    }
    without_duplicates(tags, "System tags cannot be added/updated by requester")
}

fn check_object_count(tags: &[(String, String)]) -> Result<(), S3Error> {
    if tags.len() > TAGS_MAX {
        return Err(S3Error::with(ErrorCode::BadRequest, "Object tags cannot be greater than 10"));
    }
    Ok(())
}

fn without_duplicates(tags: Vec<(String, String)>, reserved: &'static str) -> Result<Tags, S3Error> {
    checked(tags, reserved, |key| {
        S3Error::with(ErrorCode::InvalidTag, "Cannot provide multiple Tags with the same key").field("TagKey", key)
    })
}

fn in_document(body: &[u8]) -> Result<Vec<(String, String)>, S3Error> {
    let root = document(body, "Tagging")?;
    let set = match root.children.as_slice() {
        [] => return Ok(Vec::new()),
        [set] => set,
        _ => return Err(malformed()),
    };
    if set.name != "TagSet" {
        return Err(malformed());
    }
    set.children.iter().map(tag).collect()
}

fn tag(element: &Element) -> Result<(String, String), S3Error> {
    let (mut key, mut value) = (None, None);
    for child in &element.children {
        match child.name.as_str() {
            "Key" if key.is_none() => key = Some(child.leaf()?.to_owned()),
            "Value" if value.is_none() => value = Some(child.leaf()?.to_owned()),
            _ => return Err(malformed()),
        }
    }
    let (Some(key), Some(value), "Tag") = (key, value, element.name.as_str()) else { return Err(malformed()) };
    Ok((key, value))
}

/// The tag of a lifecycle rule.
///
/// Errors: `MalformedXML`, `InvalidTag` as [`read_document`].
pub(crate) fn of_rule(element: &Element) -> Result<(Vec<u8>, Vec<u8>), S3Error> {
    checked(vec![tag(element)?], RESERVED_OF_OBJECTS, |_| malformed())?.pop().ok_or_else(malformed)
}

/// `reserved` is the message for keys that AWS keeps for itself, `duplicate` the error for a key that comes twice.
fn checked(
    mut tags: Vec<(String, String)>,
    reserved: &'static str,
    duplicate: impl Fn(&str) -> S3Error,
) -> Result<Tags, S3Error> {
    let invalid = |message, key: &str| S3Error::with(ErrorCode::InvalidTag, message).field("TagKey", key);
    for (key, value) in &tags {
        if key.starts_with("aws:") {
            return Err(invalid(reserved, key));
        }
        if key.is_empty() || !fits(key, KEY_UNITS_MAX) {
            return Err(invalid("The TagKey you have provided is invalid", key));
        }
        if !fits(value, VALUE_UNITS_MAX) {
            return Err(invalid("The TagValue you have provided is invalid", key).field("TagValue", value.as_str()));
        }
    }
    tags.sort_unstable();
    if let Some(pair) = tags.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(duplicate(&pair[0].0));
    }
    Ok(tags.into_iter().map(|(key, value)| (key.into_bytes(), value.into_bytes())).collect())
}

fn fits(text: &str, units_max: usize) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || (c.is_whitespace() && !c.is_control()) || "_.:/=+-@".contains(c);
    text.encode_utf16().count() <= units_max && text.chars().all(allowed)
}

/// The Tagging document with these keys and values.
pub fn write_document<'a>(tags: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    let mut xml = XmlWriter::document(256);
    xml.open_root("Tagging");
    xml.open("TagSet");
    for (key, value) in tags {
        xml.open("Tag");
        xml.text("Key", key);
        xml.text("Value", value);
        xml.close("Tag");
    }
    xml.close("TagSet");
    xml.close("Tagging");
    xml.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(value: &str) -> Result<Vec<(String, String)>, ErrorCode> {
        texts(of_header(&Headers::new(&[(HEADER.as_bytes(), value.as_bytes())])))
    }

    fn body(tags: &str) -> Result<Vec<(String, String)>, ErrorCode> {
        texts(read_document(format!("<Tagging><TagSet>{tags}</TagSet></Tagging>").as_bytes()))
    }

    fn texts(tags: Result<Tags, S3Error>) -> Result<Vec<(String, String)>, ErrorCode> {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let tags = tags.map_err(|error| error.code)?;
        Ok(tags.into_iter().map(|(key, value)| (text(key), text(value))).collect())
    }

    fn one(key: &str, value: &str) -> String {
        format!("<Tag><Key>{key}</Key><Value>{value}</Value></Tag>")
    }

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn headers_are_encoded_like_a_query() {
        assert_eq!(header(""), Ok(Vec::new()));
        assert_eq!(header("foo=bar&bar"), Ok(pairs(&[("bar", ""), ("foo", "bar")])));
        assert_eq!(header("a+b=%C3%A9%3D1"), Ok(pairs(&[("a b", "é=1")])));
        for (value, code) in [
            ("TagSet=[{Key=string,Value=string}]", ErrorCode::InvalidArgument),
            ("a=1&a=2", ErrorCode::InvalidArgument),
            ("a=%zz", ErrorCode::InvalidArgument),
            ("a=%ff", ErrorCode::InvalidArgument),
            ("TagSet%3D%5B%7BKey%3Dstring%5D", ErrorCode::InvalidTag),
            ("=", ErrorCode::InvalidArgument),
            ("=x", ErrorCode::InvalidArgument),
            ("a=b&=", ErrorCode::InvalidArgument),
            ("a=b&c=d&e=f&g=h&i=j&k=l&m=n&o=p&q=r&s=t&u=v", ErrorCode::BadRequest),
        ] {
            assert_eq!(header(value), Err(code), "{value}");
        }
    }

    #[test]
    fn documents_are_limited() {
        let many = |count: usize| (0..count).map(|at| one(&at.to_string(), "v")).collect::<String>();
        assert_eq!(body(""), Ok(Vec::new()));
        assert_eq!(body(&many(10)).map(|tags| tags.len()), Ok(10));
        assert!(body(&one(&"k".repeat(128), &"v".repeat(256))).is_ok());
        assert!(body(&one("ключ @", "значение_.:/=+-")).is_ok());
        for (tags, code) in [
            (many(11), ErrorCode::BadRequest),
            (one(&"k".repeat(129), ""), ErrorCode::InvalidTag),
            (one("k", &"v".repeat(257)), ErrorCode::InvalidTag),
            (one(&"\u{10400}".repeat(65), ""), ErrorCode::InvalidTag),
            (one("", ""), ErrorCode::InvalidTag),
            (one("k!", ""), ErrorCode::InvalidTag),
            (one("k", "a\tb"), ErrorCode::InvalidTag),
            (one("aws:k", ""), ErrorCode::InvalidTag),
            (one("k", "1") + &one("k", "2"), ErrorCode::InvalidTag),
            ("<Tag><Key>k</Key></Tag>".into(), ErrorCode::MalformedXML),
            ("<Other/>".into(), ErrorCode::MalformedXML),
            (one("<x/>", ""), ErrorCode::MalformedXML),
        ] {
            assert_eq!(body(&tags), Err(code), "{tags}");
        }
        let of_bucket =
            |count| read_bucket_document(format!("<Tagging><TagSet>{}</TagSet></Tagging>", many(count)).as_bytes());
        assert_eq!(of_bucket(50).map(|tags| tags.len()), Ok(50));
        assert_eq!(of_bucket(51).unwrap_err().message, "Bucket tag count cannot be greater than 50");
        assert_eq!(read_document(b"<Tagging/>"), Ok(Tags::new()));
    }

    #[test]
    fn what_is_written_is_read() {
        let tags: Tags = vec![(b"a<b".to_vec(), Vec::new()), (b"k".to_vec(), b"v &".to_vec())];
        let written = write_document(tags.iter().map(|(key, value)| (key.as_slice(), value.as_slice())));
        // Written as they are, and refused on their way in.
        assert_eq!(read_document(&written).unwrap_err().code, ErrorCode::InvalidTag);
        let tags: Tags = vec![(b"a".to_vec(), Vec::new()), (b"k".to_vec(), b"v".to_vec())];
        let written = write_document(tags.iter().map(|(key, value)| (key.as_slice(), value.as_slice())));
        assert_eq!(read_document(&written), Ok(tags));
    }

    #[test]
    fn directives() {
        let parse =
            |value: &str| TaggingDirective::parse(&Headers::new(&[(b"x-amz-tagging-directive", value.as_bytes())]));
        assert_eq!(parse("REPLACE"), Ok(TaggingDirective::Replace));
        assert_eq!(TaggingDirective::parse(&Headers::new(&[])), Ok(TaggingDirective::Copy));
        assert!(parse("copy").is_err());
    }
}
