//! The short documents of answers: location, multipart, copy and delete results.

use super::XmlWriter;
use crate::errors::S3Error;
use crate::objects::versions::VersionName;
use orcas_checksum::{Etag, ObjectChecksum};

/// LocationConstraint of GetBucketLocation; `us-east-1` is the empty one.
pub fn location_constraint(region: &str) -> Vec<u8> {
    let mut xml = XmlWriter::document(128);
    xml.open_root("LocationConstraint");
    if region != "us-east-1" {
        xml.content(region.as_bytes());
    }
    xml.close("LocationConstraint");
    xml.finish()
}

/// InitiateMultipartUploadResult.
pub fn initiate_multipart_upload(bucket: &str, key: &[u8], upload_id: &str) -> Vec<u8> {
    let mut xml = XmlWriter::document(256 + key.len());
    xml.open_root("InitiateMultipartUploadResult");
    xml.text("Bucket", bucket.as_bytes());
    xml.text("Key", key);
    xml.text("UploadId", upload_id.as_bytes());
    xml.close("InitiateMultipartUploadResult");
    xml.finish()
}

/// CompleteMultipartUploadResult. `location` is the address of the object.
pub fn complete_multipart_upload(
    location: &str,
    bucket: &str,
    key: &[u8],
    etag: &Etag,
    checksum: Option<&ObjectChecksum>,
) -> Vec<u8> {
    let mut xml = XmlWriter::document(512 + key.len());
    xml.open_root("CompleteMultipartUploadResult");
    xml.text("Location", location.as_bytes());
    xml.text("Bucket", bucket.as_bytes());
    xml.text("Key", key);
    xml.etag(etag);
    write_checksum(&mut xml, checksum, true);
    xml.close("CompleteMultipartUploadResult");
    xml.finish()
}

/// PostResponse, which has no namespace. `location` is the address of the object.
pub fn post_response(location: &str, bucket: &str, key: &[u8], etag: &Etag) -> Vec<u8> {
    let mut xml = XmlWriter::document(256 + location.len() + key.len());
    xml.open("PostResponse");
    xml.text("Location", location.as_bytes());
    xml.text("Bucket", bucket.as_bytes());
    xml.text("Key", key);
    xml.etag(etag);
    xml.close("PostResponse");
    xml.finish()
}

/// InstantUpload: the client has to send the content.
pub fn instant_send() -> Vec<u8> {
    let mut xml = XmlWriter::document(96);
    xml.open_root("InstantUpload");
    xml.plain("Status", "send");
    xml.close("InstantUpload");
    xml.finish()
}

/// InstantUpload: the client has to prove that it has the content. `ranges` are first and last bytes.
pub fn instant_challenge(token: &str, nonce: &str, ranges: &[(u64, u64)]) -> Vec<u8> {
    let mut xml = XmlWriter::document(256 + token.len() + nonce.len() + 48 * ranges.len());
    xml.open_root("InstantUpload");
    xml.plain("Status", "challenge");
    xml.plain("Challenge", token);
    xml.plain("Nonce", nonce);
    for (first, last) in ranges {
        xml.numbers("Range", &[("first", *first), ("last", *last)]);
    }
    xml.close("InstantUpload");
    xml.finish()
}

/// CopyObjectResult; time in milliseconds since the epoch.
pub fn copy_object(etag: &Etag, modified_ms: i64, checksum: Option<&ObjectChecksum>) -> Vec<u8> {
    copied("CopyObjectResult", etag, modified_ms, checksum, true)
}

/// CopyPartResult; time in milliseconds since the epoch.
pub fn copy_part(etag: &Etag, modified_ms: i64, checksum: Option<&ObjectChecksum>) -> Vec<u8> {
    copied("CopyPartResult", etag, modified_ms, checksum, false)
}

fn copied(root: &str, etag: &Etag, modified_ms: i64, checksum: Option<&ObjectChecksum>, show_type: bool) -> Vec<u8> {
    let mut xml = XmlWriter::document(320);
    xml.open_root(root);
    xml.time("LastModified", modified_ms);
    xml.etag(etag);
    write_checksum(&mut xml, checksum, show_type);
    xml.close(root);
    xml.finish()
}

/// Appends the checksum of an object or part, if there is one, in an element that names its algorithm.
pub fn write_checksum(xml: &mut XmlWriter, checksum: Option<&ObjectChecksum>, show_type: bool) {
    if let Some(checksum) = checksum {
        xml.plain(checksum.checksum.algorithm().element(), &checksum.to_text());
        if show_type {
            xml.plain("ChecksumType", checksum.kind().name());
        }
    }
}

/// DeleteResult, written key by key. A quiet one shows only errors.
pub struct DeleteResult {
    xml: XmlWriter,
    quiet: bool,
}

impl DeleteResult {
    pub fn begin(quiet: bool) -> Self {
        let mut xml = XmlWriter::document(256);
        xml.open_root("DeleteResult");
        Self { xml, quiet }
    }

    /// A key or version that is gone; `version` as the request named it. `marker` is the delete marker that was made, or
    /// that the version was.
    pub fn deleted(&mut self, key: &[u8], version: Option<&[u8]>, marker: Option<&VersionName>) {
        if self.quiet {
            return;
        }
        self.xml.open("Deleted");
        self.xml.text("Key", key);
        if let Some(version) = version {
            self.xml.text("VersionId", version);
        }
        if let Some(marker) = marker {
            self.xml.boolean("DeleteMarker", true);
            self.xml.plain("DeleteMarkerVersionId", &marker.to_string());
        }
        self.xml.close("Deleted");
    }

    pub fn failed(&mut self, key: &[u8], version: Option<&[u8]>, error: &S3Error) {
        self.xml.open("Error");
        self.xml.text("Key", key);
        if let Some(version) = version {
            self.xml.text("VersionId", version);
        }
        self.xml.plain("Code", error.code.as_str());
        self.xml.lossy("Message", error.message.as_bytes());
        self.xml.close("Error");
    }

    pub fn end(mut self) -> Vec<u8> {
        self.xml.close("DeleteResult");
        self.xml.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::ErrorCode;
    use orcas_checksum::{ChecksumAlgorithm, Hasher, Md5Hasher};

    fn body(document: Vec<u8>) -> String {
        let text = String::from_utf8(document).unwrap();
        text.lines().nth(1).unwrap().replace(" xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"", "")
    }

    #[test]
    fn short_answers() {
        assert_eq!(body(location_constraint("us-east-1")), "<LocationConstraint></LocationConstraint>");
        assert_eq!(body(location_constraint("eu-west-1")), "<LocationConstraint>eu-west-1</LocationConstraint>");
        assert_eq!(
            body(initiate_multipart_upload("b-1", "<é>".as_bytes(), "u1")),
            "<InitiateMultipartUploadResult><Bucket>b-1</Bucket><Key>&lt;é&gt;</Key><UploadId>u1</UploadId>\
             </InitiateMultipartUploadResult>"
        );
        assert_eq!(body(instant_send()), "<InstantUpload><Status>send</Status></InstantUpload>");
        assert_eq!(
            body(instant_challenge("0a", "0b", &[(0, 4095), (70_000, 74_095)])),
            "<InstantUpload><Status>challenge</Status><Challenge>0a</Challenge><Nonce>0b</Nonce>\
             <Range first=\"0\" last=\"4095\"/><Range first=\"70000\" last=\"74095\"/></InstantUpload>"
        );
        let part = Hasher::digest(ChecksumAlgorithm::Crc32, b"123456789");
        let composite = ObjectChecksum { checksum: part, parts: 2 };
        let etag = Etag { md5: Md5Hasher::digest(b""), parts: 2 };
        assert_eq!(
            body(complete_multipart_upload("/b-1/k", "b-1", b"k", &etag, Some(&composite))),
            "<CompleteMultipartUploadResult><Location>/b-1/k</Location><Bucket>b-1</Bucket><Key>k</Key>\
             <ETag>&quot;d41d8cd98f00b204e9800998ecf8427e-2&quot;</ETag><ChecksumCRC32>y/Q5Jg==-2</ChecksumCRC32>\
             <ChecksumType>COMPOSITE</ChecksumType></CompleteMultipartUploadResult>"
        );
        assert!(
            body(copy_part(&etag, 0, Some(&ObjectChecksum::full(part))))
                .ends_with("y/Q5Jg==</ChecksumCRC32></CopyPartResult>")
        );
    }

    #[test]
    fn deletes_report_keys_and_quiet_ones_only_errors() {
        let written = |quiet| {
            let mut result = DeleteResult::begin(quiet);
            result.deleted(b"a", Some(b"null"), None);
            result.deleted(b"m", None, Some(&VersionName::Given([0xab; 16])));
            result.failed(b"b", None, &S3Error::new(ErrorCode::AccessDenied));
            body(result.end())
        };
        let error = "<Error><Key>b</Key><Code>AccessDenied</Code><Message>Access Denied</Message></Error>";
        assert_eq!(written(true), format!("<DeleteResult>{error}</DeleteResult>"));
        assert_eq!(
            written(false),
            format!(
                "<DeleteResult><Deleted><Key>a</Key><VersionId>null</VersionId></Deleted><Deleted><Key>m</Key>\
                 <DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>{}</DeleteMarkerVersionId></Deleted>\
                 {error}</DeleteResult>",
                "ab".repeat(16)
            )
        );
    }
}
