//! The documents of listings, written entry by entry so that a page is never held twice.
//!
//! Common prefixes are gathered apart and follow the entries: some clients cannot read the two interleaved.

use super::XmlWriter;
use crate::requests::query::{
    Continuation, KeySelection, ListBucketsQuery, ListObjectsQuery, ListObjectsV2Query, ListPartsQuery,
    ListUploadsQuery,
};
use crate::responses::headers::bucket_arn;
use orcas_checksum::{ChecksumAlgorithm, ChecksumType, Etag, ObjectChecksum};
use orcas_http::percent_encode_into;
use orcas_http::timestamp::iso_time;

/// The canonical user id and the name shown with it.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    pub id: &'a str,
    pub display_name: &'a str,
}

/// An object of a listing. Time in milliseconds since the epoch, size in bytes.
pub struct ObjectEntry<'a> {
    pub key: &'a [u8],
    pub modified_ms: i64,
    pub etag: Etag,
    pub size: u64,
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
    /// The storage class; `None` for `STANDARD`.
    pub storage_class: Option<&'a [u8]>,
    /// If it may be another than that of the bucket.
    pub owner: Option<Owner<'a>>,
}

/// Room for one entry of a listing in bytes, to size the document once.
const ENTRY_LEN: usize = 320;

/// Bytes of room for the document of a page of at most `entries`.
pub fn page_room(entries: u16) -> usize {
    512 + usize::from(entries) * ENTRY_LEN
}

/// Appends an owner as the element `element`.
pub fn write_owner(xml: &mut XmlWriter, element: &str, owner: &Owner<'_>) {
    xml.open(element);
    xml.text("ID", owner.id.as_bytes());
    xml.text("DisplayName", owner.display_name.as_bytes());
    xml.close(element);
}

/// Writes names as the request wants them: escaped, or percent-encoded with slashes kept. A space becomes `%20`
/// rather than `+`: every decoder in use reads it alike.
#[derive(Clone, Copy)]
struct Names {
    url_encoded: bool,
}

impl Names {
    fn write(self, xml: &mut XmlWriter, element: &str, name: &[u8]) {
        if !self.url_encoded || name.is_empty() {
            return xml.text(element, name);
        }
        xml.open(element);
        self.write_text(xml, name);
        xml.close(element);
    }

    /// The text of the element that is open.
    fn write_text(self, xml: &mut XmlWriter, name: &[u8]) {
        if self.url_encoded {
            // What it leaves as it is needs no escape.
            percent_encode_into(&mut xml.out, name, true);
        } else {
            xml.content(name);
        }
    }
}

const UPLOADS: &str = "ListMultipartUploadsResult";

/// The part that all listings of keys share.
pub(super) struct Listing {
    pub xml: XmlWriter,
    prefixes: XmlWriter,
    names: Names,
    root: &'static str,
    count: u64,
}

impl Listing {
    pub fn begin(out: Vec<u8>, root: &'static str, bucket: (&str, &str), keys: &KeySelection) -> Self {
        let mut xml = XmlWriter::document_in(out);
        let names = Names { url_encoded: keys.url_encoded };
        xml.open_root(root);
        xml.text(bucket.0, bucket.1.as_bytes());
        // As S3: the list of uploads leaves an empty one out.
        if root != UPLOADS || !keys.prefix.is_empty() {
            names.write(&mut xml, "Prefix", &keys.prefix);
        }
        if let Some(delimiter) = &keys.delimiter {
            names.write(&mut xml, "Delimiter", delimiter);
        }
        if keys.url_encoded {
            xml.plain("EncodingType", "url");
        }
        Self { xml, prefixes: XmlWriter::fragment(), names, root, count: 0 }
    }

    pub fn name(&mut self, element: &str, name: &[u8]) {
        self.names.write(&mut self.xml, element, name);
    }

    /// What is shown of an object behind its key.
    pub fn object(&mut self, entry: &ObjectEntry<'_>, owner: Option<&Owner<'_>>) {
        let Self { xml, count, .. } = self;
        *count += 1;
        xml.markup("<LastModified>");
        xml.out.extend_from_slice(&iso_time(entry.modified_ms));
        xml.markup("</LastModified><ETag>&quot;");
        entry.etag.write_hex(&mut xml.out);
        xml.markup("&quot;</ETag>");
        if let Some((algorithm, kind)) = entry.checksum {
            xml.markup("<ChecksumAlgorithm>");
            xml.markup(algorithm.name());
            xml.markup("</ChecksumAlgorithm><ChecksumType>");
            xml.markup(kind.name());
            xml.markup("</ChecksumType>");
        }
        xml.markup("<Size>");
        xml.markup(itoa::Buffer::new().format(entry.size));
        xml.markup("</Size>");
        if let Some(shown) = owner {
            write_owner(xml, "Owner", entry.owner.as_ref().unwrap_or(shown));
        }
        match entry.storage_class {
            None => xml.markup("<StorageClass>STANDARD</StorageClass>"),
            Some(class) => xml.text("StorageClass", class),
        }
    }

    pub fn prefix(&mut self, prefix: &[u8]) {
        self.prefixes.open("CommonPrefixes");
        self.names.write(&mut self.prefixes, "Prefix", prefix);
        self.prefixes.close("CommonPrefixes");
        self.count += 1;
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.xml.append(self.prefixes);
        self.xml.close(self.root);
        self.xml.finish()
    }
}

/// Which of the two object listings is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    One,
    Two,
}

/// ListBucketResult of both versions: `v1` or `v2` with the memory to write in, then entries and prefixes in order, then
/// `end`.
pub struct ObjectList<'a> {
    listing: Listing,
    kind: Kind,
    owner: Option<Owner<'a>>,
}

impl<'a> ObjectList<'a> {
    /// The first version shows the owner with every entry.
    pub fn v1(out: Vec<u8>, bucket: &str, query: &ListObjectsQuery, owner: Owner<'a>) -> Self {
        let mut listing = Listing::begin(out, "ListBucketResult", ("Name", bucket), &query.keys);
        listing.name("Marker", query.marker.as_deref().unwrap_or_default());
        listing.xml.number("MaxKeys", u64::from(query.keys.max));
        Self { listing, kind: Kind::One, owner: Some(owner) }
    }

    /// The second version shows the owner only when asked.
    pub fn v2(out: Vec<u8>, bucket: &str, query: &ListObjectsV2Query, owner: Owner<'a>) -> Self {
        let mut listing = Listing::begin(out, "ListBucketResult", ("Name", bucket), &query.keys);
        if let Some(continuation) = &query.continuation {
            listing.xml.text("ContinuationToken", &continuation.token);
        }
        if let (Some(start_after), None) = (&query.start_after, &query.continuation) {
            listing.name("StartAfter", start_after);
        }
        listing.xml.number("MaxKeys", u64::from(query.keys.max));
        Self { listing, kind: Kind::Two, owner: query.fetch_owner.then_some(owner) }
    }

    pub fn entry(&mut self, entry: &ObjectEntry<'_>) {
        let Listing { xml, names, .. } = &mut self.listing;
        // No key is empty.
        xml.markup("<Contents><Key>");
        names.write_text(xml, entry.key);
        xml.markup("</Key>");
        self.listing.object(entry, self.owner.as_ref());
        self.listing.xml.markup("</Contents>");
    }

    pub fn prefix(&mut self, prefix: &[u8]) {
        self.listing.prefix(prefix);
    }

    /// Ends the page. `next` is the last key or prefix of a page that was cut; the first version names it to the
    /// client only when `delimited`, as S3 does.
    pub fn end(mut self, next: Option<&[u8]>, delimited: bool) -> Vec<u8> {
        match (self.kind, next) {
            (Kind::One, Some(last)) if delimited => self.listing.name("NextMarker", last),
            (Kind::One, _) => {}
            (Kind::Two, next) => {
                self.listing.xml.number("KeyCount", self.listing.count);
                if let Some(last) = next {
                    self.listing.xml.plain("NextContinuationToken", &Continuation::token_after(last));
                }
            }
        }
        self.listing.xml.boolean("IsTruncated", next.is_some());
        self.listing.finish()
    }
}

/// An upload of ListMultipartUploads; time in milliseconds since the epoch.
pub struct UploadEntry<'a> {
    /// The storage class; `None` for `STANDARD`.
    pub storage_class: Option<&'a [u8]>,
    pub key: &'a [u8],
    pub upload_id: &'a str,
    pub initiated_ms: i64,
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
    pub owner: Owner<'a>,
}

/// ListMultipartUploadsResult.
pub struct UploadList {
    listing: Listing,
}

impl UploadList {
    pub fn begin(bucket: &str, query: &ListUploadsQuery) -> Self {
        let out = Vec::with_capacity(page_room(query.keys.max));
        let mut listing = Listing::begin(out, UPLOADS, ("Bucket", bucket), &query.keys);
        listing.name("KeyMarker", query.key_marker.as_deref().unwrap_or_default());
        listing.xml.text("UploadIdMarker", query.upload_id_marker.as_deref().unwrap_or_default());
        listing.xml.number("MaxUploads", u64::from(query.keys.max));
        Self { listing }
    }

    pub fn entry(&mut self, entry: &UploadEntry<'_>) {
        let Listing { xml, names, .. } = &mut self.listing;
        xml.open("Upload");
        names.write(xml, "Key", entry.key);
        xml.text("UploadId", entry.upload_id.as_bytes());
        write_owner(xml, "Initiator", &entry.owner);
        write_owner(xml, "Owner", &entry.owner);
        xml.text("StorageClass", entry.storage_class.unwrap_or(b"STANDARD"));
        xml.time("Initiated", entry.initiated_ms);
        if let Some((algorithm, kind)) = entry.checksum {
            xml.plain("ChecksumAlgorithm", algorithm.name());
            xml.plain("ChecksumType", kind.name());
        }
        xml.close("Upload");
    }

    pub fn prefix(&mut self, prefix: &[u8]) {
        self.listing.prefix(prefix);
    }

    /// Ends the page, which is `truncated`; `last` is its last key (or prefix, with an empty id) and upload id, and both
    /// are empty if there is none.
    pub fn end(mut self, (key, upload_id): (&[u8], &str), truncated: bool) -> Vec<u8> {
        self.listing.name("NextKeyMarker", key);
        self.listing.xml.text("NextUploadIdMarker", upload_id.as_bytes());
        self.listing.xml.boolean("IsTruncated", truncated);
        self.listing.finish()
    }
}

/// A part of ListParts; time in milliseconds since the epoch, size in bytes.
pub struct PartEntry {
    pub number: u16,
    pub modified_ms: i64,
    pub etag: Etag,
    pub size: u64,
    pub checksum: Option<ObjectChecksum>,
}

/// ListPartsResult.
pub struct PartList {
    xml: XmlWriter,
}

impl PartList {
    pub fn begin(
        bucket: &str,
        key: &[u8],
        query: &ListPartsQuery,
        shown: &Owner<'_>,
        checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
        storage_class: Option<&[u8]>,
    ) -> Self {
        let mut xml = XmlWriter::document(page_room(query.max));
        xml.open_root("ListPartsResult");
        xml.text("Bucket", bucket.as_bytes());
        xml.text("Key", key);
        xml.text("UploadId", &query.upload_id);
        write_owner(&mut xml, "Initiator", shown);
        write_owner(&mut xml, "Owner", shown);
        xml.text("StorageClass", storage_class.unwrap_or(b"STANDARD"));
        if let Some((algorithm, kind)) = checksum {
            xml.plain("ChecksumAlgorithm", algorithm.name());
            xml.plain("ChecksumType", kind.name());
        }
        xml.number("PartNumberMarker", u64::from(query.marker));
        xml.number("MaxParts", u64::from(query.max));
        Self { xml }
    }

    pub fn entry(&mut self, part: &PartEntry) {
        self.xml.open("Part");
        self.xml.number("PartNumber", u64::from(part.number));
        self.xml.time("LastModified", part.modified_ms);
        self.xml.etag(&part.etag);
        self.xml.number("Size", part.size);
        if let Some(checksum) = &part.checksum {
            self.xml.plain(checksum.checksum.algorithm().element(), &checksum.to_text());
        }
        self.xml.close("Part");
    }

    /// Ends the page. `last` is the highest part number shown, 0 if none; `truncated` that more follow.
    pub fn end(mut self, last: u16, truncated: bool) -> Vec<u8> {
        self.xml.number("NextPartNumberMarker", u64::from(last));
        self.xml.boolean("IsTruncated", truncated);
        self.xml.close("ListPartsResult");
        self.xml.finish()
    }
}

/// ListAllMyBucketsResult.
pub struct BucketList {
    xml: XmlWriter,
    prefix: Vec<u8>,
    show_region: bool,
}

impl BucketList {
    pub fn begin(query: &ListBucketsQuery, shown: &Owner<'_>) -> Self {
        let mut xml = XmlWriter::document(512);
        xml.open_root("ListAllMyBucketsResult");
        write_owner(&mut xml, "Owner", shown);
        xml.open("Buckets");
        let paged = query.max.is_some() || query.continuation.is_some() || query.region.is_some();
        let prefix = query.prefix.clone();
        Self { xml, show_region: paged || !prefix.is_empty(), prefix }
    }

    /// One bucket; its region is shown to callers that use the parameters that came with regions.
    pub fn entry(&mut self, name: &str, created_ms: i64, region: &str) {
        self.xml.open("Bucket");
        self.xml.text("Name", name.as_bytes());
        self.xml.time("CreationDate", created_ms);
        if self.show_region {
            self.xml.text("BucketRegion", region.as_bytes());
        }
        self.xml.text("BucketArn", bucket_arn(name).as_bytes());
        self.xml.close("Bucket");
    }

    /// Ends the page; `next` is the last name of one that was cut.
    pub fn end(mut self, next: Option<&str>) -> Vec<u8> {
        self.xml.close("Buckets");
        if !self.prefix.is_empty() {
            self.xml.text("Prefix", &self.prefix);
        }
        if let Some(last) = next {
            self.xml.plain("ContinuationToken", &Continuation::token_after(last.as_bytes()));
        }
        self.xml.close("ListAllMyBucketsResult");
        self.xml.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orcas_checksum::{Hasher, Md5Hasher};
    use orcas_http::Query;

    const OWNER: Owner<'_> = Owner { id: "o1", display_name: "root" };
    const OWNER_XML: &str = "<ID>o1</ID><DisplayName>root</DisplayName>";
    const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    const XMLNS: &str = "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"";

    fn query(raw: &str) -> Query {
        Query::parse(raw.as_bytes()).unwrap()
    }

    fn entry(key: &str) -> ObjectEntry<'_> {
        let checksum = Some((ChecksumAlgorithm::Crc32, ChecksumType::FullObject));
        ObjectEntry {
            key: key.as_bytes(),
            modified_ms: 0,
            etag: Etag::simple(Md5Hasher::digest(b"")),
            size: 7,
            checksum,
            storage_class: None,
            owner: None,
        }
    }

    fn text(document: Vec<u8>) -> String {
        String::from_utf8(document).unwrap()
    }

    #[test]
    fn first_version() {
        let parsed = ListObjectsQuery::parse(&query("delimiter=/&max-keys=2")).unwrap();
        let mut list = ObjectList::v1(Vec::new(), "b-1", &parsed, OWNER);
        list.prefix(b"p/");
        list.entry(&entry("q & r\u{1}"));
        assert_eq!(
            text(list.end(Some(b"q & r\x01"), true)),
            format!(
                "{HEAD}<ListBucketResult {XMLNS}><Name>b-1</Name><Prefix/><Delimiter>/</Delimiter><Marker/>\
                 <MaxKeys>2</MaxKeys><Contents><Key>q &amp; r&#x1;</Key>\
                 <LastModified>1970-01-01T00:00:00.000Z</LastModified>\
                 <ETag>&quot;d41d8cd98f00b204e9800998ecf8427e&quot;</ETag><ChecksumAlgorithm>CRC32</ChecksumAlgorithm>\
                 <ChecksumType>FULL_OBJECT</ChecksumType><Size>7</Size><Owner>{OWNER_XML}</Owner>\
                 <StorageClass>STANDARD</StorageClass></Contents><NextMarker>q &amp; r&#x1;</NextMarker>\
                 <IsTruncated>true</IsTruncated><CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes></ListBucketResult>"
            )
        );
    }

    #[test]
    fn second_version_counts_encodes_and_continues() {
        let parsed = ListObjectsV2Query::parse(&query("encoding-type=url&start-after=a+b&prefix=%25")).unwrap();
        let mut list = ObjectList::v2(Vec::new(), "b-1", &parsed, OWNER);
        list.entry(&entry("a/b c+d~é"));
        list.prefix(b"x y/");
        let document = text(list.end(Some(b"x y/"), false));
        let token = Continuation::token_after(b"x y/");
        for part in [
            "<Prefix>%25</Prefix><EncodingType>url</EncodingType><StartAfter>a%20b</StartAfter><MaxKeys>1000</MaxKeys>",
            "<Key>a/b%20c%2Bd~%C3%A9</Key>",
            "<KeyCount>2</KeyCount>",
            &format!("<NextContinuationToken>{token}</NextContinuationToken><IsTruncated>true</IsTruncated>"),
            "<CommonPrefixes><Prefix>x%20y/</Prefix></CommonPrefixes>",
        ] {
            assert!(document.contains(part), "{part} not in {document}");
        }
        assert!(!document.contains("<Owner>"));
    }

    #[test]
    fn uploads_and_parts() {
        let parsed = ListUploadsQuery::parse(&query("key-marker=k&upload-id-marker=u0")).unwrap();
        let mut list = UploadList::begin("b-1", &parsed);
        let (checksum, storage_class) = (None, None);
        let owner = OWNER;
        list.entry(&UploadEntry { key: b"k", upload_id: "u1", initiated_ms: 0, checksum, storage_class, owner });
        let document = text(list.end((b"k", "u1"), true));
        assert!(document.contains("<KeyMarker>k</KeyMarker><UploadIdMarker>u0</UploadIdMarker>"));
        assert!(document.contains("<Upload><Key>k</Key><UploadId>u1</UploadId><Initiator>"));
        assert!(document.contains("<NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>u1</NextUploadIdMarker>"));

        let parsed = ListPartsQuery::parse(&query("uploadId=u1")).unwrap();
        let mut list = PartList::begin("b-1", b"k", &parsed, &OWNER, None, Some(b"GLACIER"));
        let checksum = Some(ObjectChecksum::full(Hasher::digest(ChecksumAlgorithm::Crc32, b"123456789")));
        let etag = Etag::simple(Md5Hasher::digest(b""));
        list.entry(&PartEntry { number: 3, modified_ms: 0, etag, size: 9, checksum });
        let document = text(list.end(3, false));
        assert!(document.contains("</Owner><StorageClass>GLACIER</StorageClass>"));
        assert!(document.contains("<Size>9</Size><ChecksumCRC32>y/Q5Jg==</ChecksumCRC32></Part>"));
        assert!(document.contains("<NextPartNumberMarker>3</NextPartNumberMarker><IsTruncated>false</IsTruncated>"));
    }

    #[test]
    fn buckets() {
        let mut list = BucketList::begin(&ListBucketsQuery::parse(&query("max-buckets=1")).unwrap(), &OWNER);
        list.entry("b-1", 0, "us-east-1");
        let token = Continuation::token_after(b"b-1");
        assert_eq!(
            text(list.end(Some("b-1"))),
            format!(
                "{HEAD}<ListAllMyBucketsResult {XMLNS}><Owner>{OWNER_XML}</Owner><Buckets><Bucket><Name>b-1</Name>\
                 <CreationDate>1970-01-01T00:00:00.000Z</CreationDate><BucketRegion>us-east-1</BucketRegion><BucketArn>arn:aws:s3:::b-1</BucketArn></Bucket>\
                 </Buckets><ContinuationToken>{token}</ContinuationToken></ListAllMyBucketsResult>"
            )
        );
    }
}
