//! GetObjectAttributes: which attributes a request names, and the document that has them.
//!
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObjectAttributes.html>

use crate::errors::{ErrorCode, S3Error};
use crate::requests::query::integer;
use crate::xml::XmlWriter;
use crate::xml::results::write_checksum;
use orcas_checksum::{Checksum, ChecksumType, Etag, ObjectChecksum};
use orcas_http::Headers;

/// Parts of one answer.
const PARTS_LEN_MAX: u16 = 1000;

const HEADER: &str = "x-amz-object-attributes";

/// The attributes that a request names, and where its page of parts begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributesRequest {
    etag: bool,
    checksum: bool,
    parts: bool,
    storage_class: bool,
    size: bool,
    parts_max: u16,
    /// The page begins behind this part.
    part_marker: u16,
}

/// The facts about an object from which the answer is made. Sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub struct ObjectAttributes<'a> {
    pub etag: Etag,
    pub size: u64,
    pub checksum: Option<ObjectChecksum>,
    /// The storage class; `None` for `STANDARD`.
    pub storage_class: Option<&'a [u8]>,
    /// Parts in ascending order; empty unless the object was uploaded in parts.
    pub parts: &'a [PartAttributes],
}

#[derive(Clone, Copy, Debug)]
pub struct PartAttributes {
    pub number: u16,
    pub size: u64,
    pub checksum: Option<Checksum>,
}

impl AttributesRequest {
    /// Errors: `InvalidRequest` without attributes, `InvalidArgument` for an unknown one and for a marker out of range.
    pub fn parse(headers: &Headers<'_>) -> Result<Self, S3Error> {
        // As on S3, one that is no number counts as absent.
        let parts_max = number(headers, "x-amz-max-parts").ok().flatten();
        let mut request = Self {
            parts_max: parts_max.unwrap_or(PARTS_LEN_MAX).min(PARTS_LEN_MAX),
            part_marker: number(headers, "x-amz-part-number-marker")?.unwrap_or(0),
            ..Self::default()
        };
        let mut named = false;
        for value in headers.iter().filter(|(name, _)| *name == HEADER.as_bytes()).map(|(_, value)| value) {
            for name in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|name| !name.is_empty()) {
                named = true;
                match name {
                    b"ETag" => request.etag = true,
                    b"Checksum" => request.checksum = true,
                    b"ObjectParts" => request.parts = true,
                    b"StorageClass" => request.storage_class = true,
                    b"ObjectSize" => request.size = true,
                    _ => return Err(S3Error::argument("Invalid attribute name specified.", HEADER, name)),
                }
            }
        }
        if !named {
            let message = "The x-amz-object-attributes header specifying the attributes to be retrieved is either \
                           missing or empty";
            return Err(S3Error::with(ErrorCode::InvalidRequest, message));
        }
        Ok(request)
    }

    /// The document with those of the attributes that the object has.
    pub fn document(&self, object: &ObjectAttributes<'_>) -> Vec<u8> {
        let mut xml = XmlWriter::document(1024);
        xml.open_root("GetObjectAttributesResponse");
        if self.etag {
            let mut hex = Vec::with_capacity(40);
            object.etag.write_hex(&mut hex);
            xml.text("ETag", &hex);
        }
        if let Some(shown) = object.checksum.filter(|_| self.checksum) {
            // Of a composite one S3 shows the digest alone here, and not the number of parts behind it.
            xml.open("Checksum");
            xml.plain(shown.checksum.algorithm().element(), &shown.checksum.to_base64());
            xml.plain("ChecksumType", shown.kind().name());
            xml.close("Checksum");
        }
        if self.parts && !object.parts.is_empty() {
            self.write_parts(&mut xml, object);
        }
        if self.storage_class {
            xml.text("StorageClass", object.storage_class.unwrap_or(b"STANDARD"));
        }
        if self.size {
            xml.number("ObjectSize", object.size);
        }
        xml.close("GetObjectAttributesResponse");
        xml.finish()
    }

    /// As S3, the parts one by one only if the checksum of the object is made of theirs; their number always.
    fn write_parts(&self, xml: &mut XmlWriter, object: &ObjectAttributes<'_>) {
        xml.open("ObjectParts");
        xml.number("PartsCount", object.parts.len() as u64);
        if object.checksum.is_some_and(|whole| whole.kind() == ChecksumType::Composite) {
            let rest = object.parts.partition_point(|part| part.number <= self.part_marker);
            let rest = &object.parts[rest..];
            let page = &rest[..rest.len().min(usize::from(self.parts_max))];
            let last = page.last().map_or(self.part_marker, |part| part.number);
            xml.number("PartNumberMarker", u64::from(self.part_marker));
            xml.number("NextPartNumberMarker", u64::from(last));
            xml.number("MaxParts", u64::from(self.parts_max));
            xml.boolean("IsTruncated", page.len() < rest.len());
            for part in page {
                xml.open("Part");
                write_checksum(xml, part.checksum.map(ObjectChecksum::full).as_ref(), false);
                xml.number("PartNumber", u64::from(part.number));
                xml.number("Size", part.size);
                xml.close("Part");
            }
        }
        xml.close("ObjectParts");
    }
}

/// A header that is a number; one that is larger than any part number counts as the largest.
fn number(headers: &Headers<'_>, name: &'static str) -> Result<Option<u16>, S3Error> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    Ok(Some(u16::try_from(integer(name, value)?).unwrap_or(u16::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use orcas_checksum::{ChecksumAlgorithm, Hasher};

    fn parse(list: &[(&str, &str)]) -> Result<AttributesRequest, ErrorCode> {
        let list: Vec<(&[u8], &[u8])> = list.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        AttributesRequest::parse(&Headers::new(&list)).map_err(|error| error.code)
    }

    fn document(request: AttributesRequest, object: &ObjectAttributes<'_>) -> String {
        let text = String::from_utf8(request.document(object)).unwrap();
        text.split_once("2006-03-01/\">").unwrap().1.replace("</GetObjectAttributesResponse>", "")
    }

    #[test]
    fn attributes_may_stand_in_one_header_or_in_several() {
        let both = parse(&[(HEADER, "ETag, ObjectSize")]);
        assert_eq!(both, parse(&[(HEADER, "ETag"), (HEADER, "ObjectSize")]));
        assert!(both.is_ok_and(|request| request.etag && request.size && !request.parts));
        assert_eq!(parse(&[]), Err(ErrorCode::InvalidRequest));
        assert_eq!(parse(&[(HEADER, " , ")]), Err(ErrorCode::InvalidRequest));
        assert_eq!(parse(&[(HEADER, "ETag,Colour")]), Err(ErrorCode::InvalidArgument));
        for ignored in ["-1", "x", ""] {
            assert_eq!(parse(&[(HEADER, "ETag"), ("x-amz-max-parts", ignored)]), parse(&[(HEADER, "ETag")]));
        }
        let marker = parse(&[(HEADER, "ETag"), ("x-amz-part-number-marker", "-1")]);
        assert_eq!(marker, Err(ErrorCode::InvalidArgument));
    }

    #[test]
    fn an_object_shows_what_is_asked_for_and_what_it_has() {
        let checksum = Hasher::digest(ChecksumAlgorithm::Crc32, b"123456789");
        let plain = ObjectAttributes {
            etag: Etag { md5: [0xab; 16], parts: 0 },
            size: 9,
            checksum: None,
            storage_class: None,
            parts: &[],
        };
        let all = parse(&[(HEADER, "ETag,Checksum,ObjectParts,StorageClass,ObjectSize")]).unwrap();
        let etag = format!("<ETag>{}</ETag>", "ab".repeat(16));
        let rest = "<StorageClass>STANDARD</StorageClass><ObjectSize>9</ObjectSize>";
        assert_eq!(document(all, &plain), format!("{etag}{rest}"));
        let checked = ObjectAttributes { checksum: Some(ObjectChecksum::full(checksum)), ..plain };
        let shown =
            "<Checksum><ChecksumCRC32>y/Q5Jg==</ChecksumCRC32><ChecksumType>FULL_OBJECT</ChecksumType></Checksum>";
        assert_eq!(document(all, &checked), format!("{etag}{shown}{rest}"));
        assert_eq!(document(parse(&[(HEADER, "ObjectParts")]).unwrap(), &checked), "");
    }

    #[test]
    fn parts_come_in_pages_and_one_by_one_only_with_a_composite_checksum() {
        let of_part = Hasher::digest(ChecksumAlgorithm::Crc32, b"123456789");
        let checksum = Some(of_part);
        let parts: Vec<PartAttributes> = [2, 3, 7].map(|number| PartAttributes { number, size: 5, checksum }).into();
        let object = ObjectAttributes {
            etag: Etag { md5: [0; 16], parts: 3 },
            size: 15,
            checksum: ObjectChecksum::composite(ChecksumAlgorithm::Crc32, &[of_part; 3]),
            storage_class: None,
            parts: &parts,
        };
        let page = parse(&[(HEADER, "ObjectParts"), ("x-amz-max-parts", "1"), ("x-amz-part-number-marker", "2")]);
        assert_eq!(
            document(page.unwrap(), &object),
            "<ObjectParts><PartsCount>3</PartsCount><PartNumberMarker>2</PartNumberMarker>\
             <NextPartNumberMarker>3</NextPartNumberMarker><MaxParts>1</MaxParts><IsTruncated>true</IsTruncated>\
             <Part><ChecksumCRC32>y/Q5Jg==</ChecksumCRC32><PartNumber>3</PartNumber><Size>5</Size></Part></ObjectParts>"
        );
        for checksum in [None, Some(ObjectChecksum::full(of_part))] {
            let object = ObjectAttributes { checksum, ..object };
            assert_eq!(document(page.unwrap(), &object), "<ObjectParts><PartsCount>3</PartsCount></ObjectParts>");
        }
    }
}
