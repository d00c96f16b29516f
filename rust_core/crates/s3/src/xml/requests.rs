//! The documents that requests carry: Delete, CompleteMultipartUpload, CreateBucketConfiguration.
//!
//! Anything that is not of the published schema is `MalformedXML`; what is part of it and not implemented is `NotImplemented`.

use super::parse::{Element, document, malformed};
use crate::errors::{ErrorCode, S3Error};
use crate::objects::tags::{Tags, of_bucket};
use crate::requests::conditions::{DeleteCondition, WriteCondition};
use crate::requests::range::PART_NUMBER_MAX;
use orcas_checksum::{Checksum, ChecksumAlgorithm};

/// Keys of one DeleteObjects: the limit of S3.
pub const DELETE_LEN_MAX: usize = 1000;

/// One key to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteEntry {
    pub key: Vec<u8>,
    pub version_id: Option<Vec<u8>>,
    pub condition: DeleteCondition,
}

/// The Delete document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteRequest {
    pub quiet: bool,
    pub entries: Vec<DeleteEntry>,
}

impl DeleteRequest {
    pub fn parse(body: &[u8]) -> Result<Self, S3Error> {
        let root = document(body, "Delete")?;
        let (mut quiet, mut entries) = (false, Vec::new());
        for child in &root.children {
            match child.name.as_str() {
                "Quiet" => quiet = boolean(child)?,
                "Object" if entries.len() < DELETE_LEN_MAX => entries.push(delete_entry(child)?),
                _ => return Err(malformed()),
            }
        }
        if entries.is_empty() { Err(malformed()) } else { Ok(Self { quiet, entries }) }
    }
}

fn delete_entry(element: &Element) -> Result<DeleteEntry, S3Error> {
    let (mut key, mut version_id, mut condition) = (None, None, DeleteCondition::ALWAYS);
    for child in &element.children {
        let text = child.leaf()?;
        match child.name.as_str() {
            "Key" if key.is_none() && !text.is_empty() => key = Some(text.as_bytes().to_vec()),
            "VersionId" => version_id = Some(text.trim().as_bytes().to_vec()).filter(|version| !version.is_empty()),
            "ETag" if text.trim() == "*" => condition.tag = WriteCondition::Present,
            "ETag" => condition.tag = WriteCondition::of_tag(text.trim().as_bytes()),
            "LastModifiedTime" => {
                condition.modified = Some(DeleteCondition::parse_modified(text).ok_or_else(malformed)?);
            }
            "Size" => condition.size = Some(DeleteCondition::parse_size(text.trim()).ok_or_else(malformed)?),
            _ => return Err(malformed()),
        }
    }
    Ok(DeleteEntry { key: key.ok_or_else(malformed)?, version_id, condition })
}

/// One part named by CompleteMultipartUpload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletePart {
    pub number: u16,
    /// The condition on the part's tag: one that is no tag of this server matches nothing.
    pub etag: WriteCondition,
    pub checksum: Option<Checksum>,
}

/// The CompleteMultipartUpload document: 1 to 10,000 parts in ascending order.
pub fn complete_multipart_upload(body: &[u8]) -> Result<Vec<CompletePart>, S3Error> {
    if body.is_empty() {
        return Err(S3Error::with(ErrorCode::InvalidRequest, "You must specify at least one part"));
    }
    let root = document(body, "CompleteMultipartUpload")?;
    if root.children.is_empty() || root.children.len() > usize::from(PART_NUMBER_MAX) {
        return Err(malformed());
    }
    let mut parts: Vec<CompletePart> = Vec::with_capacity(root.children.len());
    for child in &root.children {
        if child.name != "Part" {
            return Err(malformed());
        }
        let part = complete_part(child)?;
        if parts.last().is_some_and(|before| before.number >= part.number) {
            return Err(ErrorCode::InvalidPartOrder.into());
        }
        parts.push(part);
    }
    Ok(parts)
}

fn complete_part(element: &Element) -> Result<CompletePart, S3Error> {
    let (mut number, mut etag, mut checksums) = (None, None, Vec::new());
    for child in &element.children {
        let text = child.leaf()?.trim();
        match child.name.as_str() {
            "PartNumber" => number = Some(part_number(text)?),
            "ETag" => etag = Some(WriteCondition::of_tag(text.as_bytes())),
            name => checksums.push((ChecksumAlgorithm::from_element(name).ok_or_else(malformed)?, text)),
        }
    }
    let checksum = part_checksum(&checksums)?;
    Ok(CompletePart { number: number.ok_or_else(malformed)?, etag: etag.ok_or_else(malformed)?, checksum })
}

/// The one checksum of a part, if it has any.
fn part_checksum(named: &[(ChecksumAlgorithm, &str)]) -> Result<Option<Checksum>, S3Error> {
    let [(algorithm, text)] = named else {
        return if named.is_empty() { Ok(None) } else { Err(not_one_checksum(named)) };
    };
    let value = Checksum::from_base64(*algorithm, text.as_bytes());
    value.map(Some).ok_or_else(|| not_one_checksum(named))
}

fn not_one_checksum(named: &[(ChecksumAlgorithm, &str)]) -> S3Error {
    let shown: String = named.iter().map(|(algorithm, text)| format!("{}:{text};", algorithm.name())).collect();
    S3Error::argument("Invalid Base64 or multiple checksums present in request", "Checksum", shown.as_bytes())
}

fn part_number(text: &str) -> Result<u16, S3Error> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(malformed());
    }
    match text.parse::<u16>() {
        Ok(number @ 1..=PART_NUMBER_MAX) => Ok(number),
        number => {
            let message = if number == Ok(0) || text.starts_with('-') {
                "PartNumber must be >= 1"
            } else {
                "Part number must be an integer between 1 and 10000, inclusive"
            };
            Err(S3Error::argument(message, "PartNumber", text.as_bytes()))
        }
    }
}

/// What a CreateBucketConfiguration asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NewBucket {
    pub region: Option<String>,
    pub tags: Tags,
}

/// Reads a CreateBucketConfiguration; an empty body asks for nothing.
///
/// Errors: `MalformedXML`, `NotImplemented` for directory buckets, and those of tags.
pub fn create_bucket(body: &[u8]) -> Result<NewBucket, S3Error> {
    if body.is_empty() {
        return Ok(NewBucket::default());
    }
    let root = document(body, "CreateBucketConfiguration")?;
    let (mut region, mut tags) = (None, None);
    for child in &root.children {
        match child.name.as_str() {
            "LocationConstraint" if region.is_none() => region = Some(child.leaf()?.trim().to_owned()),
            "Tags" if tags.is_none() => tags = Some(of_bucket(child)?),
            name @ ("Location" | "Bucket") => {
                let message = format!("The element {name} of CreateBucketConfiguration is not implemented");
                return Err(S3Error::with(ErrorCode::NotImplemented, message));
            }
            _ => return Err(malformed()),
        }
    }
    Ok(NewBucket { region: region.filter(|region| !region.is_empty()), tags: tags.unwrap_or_default() })
}

fn boolean(element: &Element) -> Result<bool, S3Error> {
    match element.leaf()?.trim() {
        "true" | "True" | "TRUE" | "1" => Ok(true),
        "false" | "False" | "FALSE" | "0" | "" => Ok(false),
        _ => Err(malformed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orcas_checksum::Etag;

    const TAG: &str = "d41d8cd98f00b204e9800998ecf8427e";

    #[test]
    fn deletes() {
        let body = format!(
            "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Object><Key> a&amp;b </Key></Object>\
             <Object><Key>c</Key><VersionId>null</VersionId><ETag>\"{TAG}\"</ETag></Object><Quiet>true</Quiet></Delete>"
        );
        let request = DeleteRequest::parse(body.as_bytes()).unwrap();
        assert!(request.quiet);
        assert_eq!(request.entries[0].key, b" a&b ");
        assert_eq!(request.entries[1].version_id.as_deref(), Some(b"null".as_slice()));
        let etag = Etag::parse(TAG.as_bytes()).unwrap();
        let tag = WriteCondition::Matches(etag);
        assert_eq!(request.entries[0].condition, DeleteCondition::ALWAYS);
        assert_eq!(request.entries[1].condition, DeleteCondition { tag, ..DeleteCondition::ALWAYS });
    }

    #[test]
    fn deletes_on_conditions() {
        let parse = |conditions: &str| {
            let body = format!("<Delete><Object><Key>k</Key>{conditions}</Object></Delete>");
            DeleteRequest::parse(body.as_bytes())
                .map(|request| request.entries[0].condition)
                .map_err(|error| error.code)
        };
        let condition = DeleteCondition { tag: WriteCondition::Present, modified: Some(1_420_070_400), size: Some(12) };
        let time = "<LastModifiedTime>Thu, 01 Jan 2015 00:00:00 GMT</LastModifiedTime>";
        assert_eq!(parse(&format!("<ETag>*</ETag>{time}<Size> 12 </Size>")), Ok(condition));
        for bad in ["<Size>-1</Size>", "<Size/>", "<Size>x</Size>", "<LastModifiedTime>x</LastModifiedTime>"] {
            assert_eq!(parse(bad), Err(ErrorCode::MalformedXML), "{bad}");
        }
    }

    #[test]
    fn deletes_are_bounded_and_strict() {
        let code = |body: &str| DeleteRequest::parse(body.as_bytes()).unwrap_err().code;
        let object = "<Object><Key>k</Key></Object>";
        let of = |count: usize| format!("<Delete>{}</Delete>", object.repeat(count));
        assert_eq!(DeleteRequest::parse(of(1000).as_bytes()).unwrap().entries.len(), 1000);
        for bad in [
            of(1001),
            of(0),
            "<Delete><Object/></Delete>".into(),
            "<Delete><Object><Key/></Object></Delete>".into(),
            "<Delete><Object><Key><x/></Key></Object></Delete>".into(),
            "<Delete><Object><Key>a</Key><Key>b</Key></Object></Delete>".into(),
            format!("<Delete><Quiet>maybe</Quiet>{object}</Delete>"),
            format!("<Delete><Other/>{object}</Delete>"),
        ] {
            assert_eq!(code(&bad), ErrorCode::MalformedXML, "{}", &bad[..bad.len().min(80)]);
        }
    }

    fn complete(parts: &[&str]) -> Result<Vec<CompletePart>, ErrorCode> {
        let body = format!("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", parts.concat());
        complete_multipart_upload(body.as_bytes()).map_err(|error| error.code)
    }

    #[test]
    fn completes() {
        let first = format!("<Part><PartNumber>1</PartNumber><ETag>{TAG}</ETag></Part>");
        let second = format!(
            "<Part><ETag>&quot;{TAG}&quot;</ETag><PartNumber>10000</PartNumber>\
             <ChecksumCRC32>y/Q5Jg==</ChecksumCRC32></Part>"
        );
        let parts = complete(&[&first, &second]).unwrap();
        assert_eq!((parts[0].number, parts[1].number), (1, 10_000));
        assert_eq!(parts[0].etag, parts[1].etag);
        assert!(parts[1].checksum.is_some());
        assert_eq!(complete(&[&second, &first]), Err(ErrorCode::InvalidPartOrder));
        assert_eq!(complete(&[&first, &first]), Err(ErrorCode::InvalidPartOrder));
        for (bad, code) in [
            ("", ErrorCode::MalformedXML),
            ("<Part><PartNumber>1</PartNumber></Part>", ErrorCode::MalformedXML),
            ("<Part><ETag>x</ETag></Part>", ErrorCode::MalformedXML),
            ("<Part><PartNumber>x</PartNumber><ETag>x</ETag></Part>", ErrorCode::MalformedXML),
            ("<Part><PartNumber>-</PartNumber><ETag>x</ETag></Part>", ErrorCode::MalformedXML),
            ("<Part><PartNumber>0</PartNumber><ETag>x</ETag></Part>", ErrorCode::InvalidArgument),
            ("<Part><PartNumber>-4</PartNumber><ETag>x</ETag></Part>", ErrorCode::InvalidArgument),
            ("<Part><PartNumber>99999</PartNumber><ETag>x</ETag></Part>", ErrorCode::InvalidArgument),
            (
                "<Part><PartNumber>1</PartNumber><ETag>x</ETag><ChecksumCRC9>x</ChecksumCRC9></Part>",
                ErrorCode::MalformedXML,
            ),
            ("<Other/>", ErrorCode::MalformedXML),
        ] {
            assert_eq!(complete(&[bad]), Err(code), "{bad}");
        }
    }

    #[test]
    fn no_body_is_another_error_than_an_empty_list() {
        let complete = complete_multipart_upload(b"").unwrap_err();
        assert_eq!(
            (complete.code, &*complete.message),
            (ErrorCode::InvalidRequest, "You must specify at least one part",)
        );
        assert_eq!(DeleteRequest::parse(b"").unwrap_err().code, ErrorCode::MissingRequestBodyError);
    }

    #[test]
    fn a_part_has_at_most_one_checksum_and_it_is_base64() {
        let refused = |checksums: &str| {
            let part = format!("<Part><PartNumber>1</PartNumber><ETag>x</ETag>{checksums}</Part>");
            let body = format!("<CompleteMultipartUpload>{part}</CompleteMultipartUpload>");
            complete_multipart_upload(body.as_bytes()).unwrap_err()
        };
        for (checksums, shown) in [
            ("<ChecksumCRC32>y/Q5Jg</ChecksumCRC32>", "CRC32:y/Q5Jg;"),
            ("<ChecksumMD5>?</ChecksumMD5>", "MD5:?;"),
            ("<ChecksumSHA1>a</ChecksumSHA1><ChecksumCRC32>y/Q5Jg==</ChecksumCRC32>", "SHA1:a;CRC32:y/Q5Jg==;"),
        ] {
            let expected = S3Error::argument(
                "Invalid Base64 or multiple checksums present in request",
                "Checksum",
                shown.as_bytes(),
            );
            assert_eq!(refused(checksums), expected);
        }
    }

    #[test]
    fn a_complete_document_of_ten_thousand_parts_fits() {
        let part = |number| {
            format!(
                "<Part><PartNumber>{number}</PartNumber><ETag>&quot;{TAG}&quot;</ETag><ChecksumSHA512>{}==\
                     </ChecksumSHA512></Part>",
                "A".repeat(86)
            )
        };
        let parts: Vec<String> = (1..=10_000).map(part).collect();
        let refs: Vec<&str> = parts.iter().map(String::as_str).collect();
        assert_eq!(complete(&refs).map(|parts| parts.len()), Ok(10_000));
    }

    #[test]
    fn bucket_regions() {
        let read = |inner: &str| {
            let body = format!("<CreateBucketConfiguration>{inner}</CreateBucketConfiguration>");
            create_bucket(body.as_bytes()).map(|new| new.region).map_err(|error| error.code)
        };
        assert_eq!(create_bucket(b""), Ok(NewBucket::default()));
        assert_eq!(read("<LocationConstraint> eu-west-1 </LocationConstraint>"), Ok(Some("eu-west-1".into())));
        assert_eq!(read("<LocationConstraint/>"), Ok(None));
        assert_eq!(read("<Location><Name>z</Name></Location>"), Err(ErrorCode::NotImplemented));
        assert_eq!(read("<Foo/>"), Err(ErrorCode::MalformedXML));
        let tag = "<Tag><Key>k</Key><Value>v</Value></Tag>";
        let tagged = |tags: &str| {
            let body = format!("<CreateBucketConfiguration><Tags>{tags}</Tags></CreateBucketConfiguration>");
            create_bucket(body.as_bytes()).map(|new| new.tags).map_err(|error| error.code)
        };
        assert_eq!(tagged(tag), Ok(vec![(b"k".to_vec(), b"v".to_vec())]));
        assert_eq!(tagged(""), Ok(Tags::new()));
        assert_eq!(tagged(&tag.repeat(2)), Err(ErrorCode::InvalidTag));
        assert_eq!(tagged("<Foo/>"), Err(ErrorCode::MalformedXML));
    }
}
