//! ListVersionsResult: versions and delete markers in one order, common prefixes behind them.

use super::lists::{Listing, ObjectEntry, Owner, write_owner};
use crate::objects::versions::VersionName;
use crate::requests::query::ListVersionsQuery;

/// Which version of a key an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryVersion {
    pub version: VersionName,
    /// Whether it is the newest of its key.
    pub latest: bool,
}

/// `begin` with the memory to write in, then entries and prefixes in order, then `end`.
pub struct VersionList<'a> {
    listing: Listing,
    owner: Owner<'a>,
}

impl<'a> VersionList<'a> {
    pub fn begin(out: Vec<u8>, bucket: &str, query: &ListVersionsQuery, owner: Owner<'a>) -> Self {
        let mut listing = Listing::begin(out, "ListVersionsResult", ("Name", bucket), &query.keys);
        listing.name("KeyMarker", query.key_marker.as_deref().unwrap_or_default());
        match &query.version_id_marker {
            Some(marker) => listing.xml.plain("VersionIdMarker", &marker.to_string()),
            None => listing.xml.empty("VersionIdMarker"),
        }
        listing.xml.number("MaxKeys", u64::from(query.keys.max));
        Self { listing, owner }
    }

    pub fn version(&mut self, entry: &ObjectEntry<'_>, place: EntryVersion) {
        self.open("Version", entry.key, place);
        self.listing.object(entry, Some(&self.owner));
        self.listing.xml.close("Version");
    }

    /// `modified_ms` in milliseconds since the epoch.
    pub fn delete_marker(&mut self, key: &[u8], modified_ms: i64, place: EntryVersion) {
        self.open("DeleteMarker", key, place);
        self.listing.xml.time("LastModified", modified_ms);
        write_owner(&mut self.listing.xml, "Owner", &self.owner);
        self.listing.xml.close("DeleteMarker");
    }

    fn open(&mut self, element: &str, key: &[u8], place: EntryVersion) {
        self.listing.xml.open(element);
        self.listing.name("Key", key);
        let mut id = Vec::with_capacity(32);
        place.version.write(&mut id);
        self.listing.xml.text("VersionId", &id);
        self.listing.xml.boolean("IsLatest", place.latest);
    }

    pub fn prefix(&mut self, prefix: &[u8]) {
        self.listing.prefix(prefix);
    }

    /// Ends the page. `next` is the last entry of a page that was cut: a key with its version, or a common prefix.
    pub fn end(mut self, next: Option<(&[u8], Option<VersionName>)>) -> Vec<u8> {
        if let Some((last, version)) = next {
            self.listing.name("NextKeyMarker", last);
            if let Some(version) = version {
                self.listing.xml.plain("NextVersionIdMarker", &version.to_string());
            }
        }
        self.listing.xml.boolean("IsTruncated", next.is_some());
        self.listing.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orcas_checksum::{Etag, Md5Hasher};
    use orcas_http::Query;

    const OWNER: Owner<'_> = Owner { id: "o1", display_name: "root" };

    #[test]
    fn versions_and_markers_stand_in_one_order() {
        let raw = format!("key-marker=a&version-id-marker={}&max-keys=2&delimiter=/", "0f".repeat(16));
        let query = ListVersionsQuery::parse(&Query::parse(raw.as_bytes()).unwrap()).unwrap();
        let mut list = VersionList::begin(Vec::new(), "b-1", &query, OWNER);
        list.prefix(b"p/");
        list.delete_marker(b"k", 0, EntryVersion { version: VersionName::Given([0xab; 16]), latest: true });
        let etag = Etag::simple(Md5Hasher::digest(b""));
        let entry = ObjectEntry {
            key: b"k",
            modified_ms: 0,
            etag,
            size: 7,
            checksum: None,
            storage_class: Some(b"GLACIER"),
            owner: None,
        };
        list.version(&entry, EntryVersion { version: VersionName::Null, latest: false });
        let document = String::from_utf8(list.end(Some((b"k", Some(VersionName::Null))))).unwrap();
        let owner = "<Owner><ID>o1</ID><DisplayName>root</DisplayName></Owner>";
        let time = "<LastModified>1970-01-01T00:00:00.000Z</LastModified>";
        let expected = format!(
            "<KeyMarker>a</KeyMarker><VersionIdMarker>{}</VersionIdMarker><MaxKeys>2</MaxKeys><DeleteMarker><Key>k</Key>\
             <VersionId>{}</VersionId><IsLatest>true</IsLatest>{time}{owner}</DeleteMarker><Version><Key>k</Key>\
             <VersionId>null</VersionId><IsLatest>false</IsLatest>{time}\
             <ETag>&quot;d41d8cd98f00b204e9800998ecf8427e&quot;</ETag><Size>7</Size>{owner}\
             <StorageClass>GLACIER</StorageClass></Version><NextKeyMarker>k</NextKeyMarker>\
             <NextVersionIdMarker>null</NextVersionIdMarker><IsTruncated>true</IsTruncated>\
             <CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes></ListVersionsResult>",
            "0f".repeat(16),
            "ab".repeat(16),
        );
        assert!(document.ends_with(&expected), "{document}");
    }

    #[test]
    fn a_page_that_ends_with_a_prefix_names_no_version() {
        let query = ListVersionsQuery::parse(&Query::parse(b"delimiter=/").unwrap()).unwrap();
        let mut list = VersionList::begin(Vec::new(), "b-1", &query, OWNER);
        list.prefix(b"p/");
        let document = String::from_utf8(list.end(Some((b"p/", None)))).unwrap();
        assert!(document.contains("<VersionIdMarker/>"));
        assert!(document.contains("<NextKeyMarker>p/</NextKeyMarker><IsTruncated>true</IsTruncated>"));
    }
}
