//! Reads a store whole, through its own interface, and holds every answer against what it should be: an error is an
//! answer, another state is not.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use orcas_base::error::Result;
use orcas_checksum::Etag;
use orcas_engine::{Condition, Handle};
use orcas_record::{Attributes, Bucket, BucketId, Encryption, Extent, Object, Part, Version, VersionId};

use crate::versions::{self, Versions};
use orcas_catalog::{ListObjects, ListPage, ListParts, ListUploads, Listed, PinnedObject};

/// Small, so that pages end in many places.
const PAGE: usize = 17;
/// Bytes that a read asks for.
const PIECE: usize = 64 << 10;

/// One object or part: what lists and heads say of it, and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub listed: String,
    pub head: String,
    pub bytes: Arc<Vec<u8>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    pub buckets: Vec<String>,
    /// By bucket and key; parts by bucket, key and number.
    pub items: BTreeMap<(BucketId, Bytes, u16), Item>,
    /// Keys, and what is told of each.
    pub uploads: Vec<(Bytes, String)>,
    /// Of buckets with versioning.
    pub versions: Versions,
    pub documents: Vec<String>,
}

/// What a store showed.
#[derive(Debug, Default)]
pub struct Seen {
    /// Answers that were errors.
    pub errors: u64,
    /// Whether the store said that it is damaged before anything was asked.
    pub told: bool,
    /// Of these, the first.
    pub first_error: Option<String>,
    /// Items that should be there and are not, without an error.
    pub absent: Vec<String>,
    /// Versions that were locked and are less so.
    pub unlocked: Vec<String>,
    /// Versions with a legal hold that nobody asked for.
    pub held: u64,
    /// Answers that were wrong in any other way.
    pub wrong: Vec<String>,
}

impl Seen {
    fn error(&mut self, error: &orcas_base::error::Error) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| error.to_string());
    }

    pub fn wrong(&mut self, what: impl FnOnce() -> String) {
        if self.wrong.len() < 8 {
            self.wrong.push(what());
        }
    }

    pub fn take<T>(&mut self, answer: Result<T>) -> Option<T> {
        answer.inspect_err(|error| self.error(error)).ok()
    }
}

/// The whole state of a store that is in order.
pub fn observe(handle: &Handle) -> Observed {
    let mut state = Observed { buckets: bucket_lines(handle), ..Observed::default() };
    for bucket in handle.buckets() {
        state.versions.extend(versions::observe(handle, &bucket));
        state.documents.extend(versions::documents(handle, &bucket));
        for (key, listed) in list(handle, &bucket).unwrap() {
            let found = handle.object_in(&bucket, &key).unwrap().unwrap();
            let bytes = Arc::new(read(handle, &found).unwrap());
            let item = Item { listed, head: head(&found.object), bytes };
            state.items.insert((bucket.id, key, 0), item);
        }
        let (lines, parts) = uploads(handle, &bucket).unwrap();
        state.uploads.extend(lines);
        for part in parts {
            let bytes = Arc::new(read(handle, &as_found(handle, &bucket, &part.1)).unwrap());
            let line = part_line(&part.1.0);
            state.items.insert((bucket.id, part.0, part.1.0.number), Item { listed: line.clone(), head: line, bytes });
        }
    }
    state
}

/// Everything that `wanted` has, asked of a store that may be damaged.
pub fn compare(handle: &Handle, wanted: &Observed) -> Seen {
    let told = matches!(handle.health().condition, Condition::Damaged(_));
    let mut seen = Seen { told, ..Seen::default() };
    let buckets = bucket_lines(handle);
    if buckets != wanted.buckets {
        seen.wrong(|| format!("buckets: {buckets:?}"));
    }
    let documents: Vec<_> = handle.buckets().iter().flat_map(|bucket| versions::documents(handle, bucket)).collect();
    if documents != wanted.documents {
        seen.wrong(|| format!("documents: {documents:?}"));
    }
    versions::compare(handle, &wanted.versions, &mut seen);
    let mut lines = Vec::new();
    let mut listed_uploads = true;
    for bucket in handle.buckets() {
        if let Some(keys) = seen.take(list(handle, &bucket)) {
            compare_list(bucket.id, keys, wanted, &mut seen);
        }
        match uploads(handle, &bucket) {
            Ok((found, parts)) => {
                lines.extend(found);
                parts.iter().for_each(|(key, part)| compare_part(handle, &bucket, key, part, wanted, &mut seen));
            }
            Err(error) => {
                listed_uploads = false;
                seen.error(&error);
            }
        }
    }
    if listed_uploads {
        compare_uploads(lines, wanted, &mut seen);
    }
    let buckets: BTreeMap<BucketId, Arc<Bucket>> =
        handle.buckets().into_iter().map(|bucket| (bucket.id, bucket)).collect();
    for ((bucket, key, _), item) in wanted.items.iter().filter(|((_, _, part), _)| *part == 0) {
        let found = buckets.get(bucket).map_or(Ok(None), |bucket| handle.object_in(bucket, key));
        let Some(found) = seen.take(found) else { continue };
        let is_older = |found: &PinnedObject| {
            let id = Some(found.object.version.version_id);
            head(&found.object) != item.head && versions::has_older(&wanted.versions, (*bucket, key), id)
        };
        let Some(found) = found.filter(|found| !is_older(found)) else {
            seen.absent.push(String::from_utf8_lossy(key).into_owned());
            continue;
        };
        if head(&found.object) != item.head {
            seen.wrong(|| format!("{key:?}: {}", head(&found.object)));
        }
        if let Some(bytes) = seen.take(read(handle, &found))
            && bytes != *item.bytes
        {
            seen.wrong(|| format!("{key:?}: other bytes"));
        }
    }
    seen
}

fn compare_list(bucket: BucketId, keys: Vec<(Bytes, String)>, wanted: &Observed, seen: &mut Seen) {
    let mut expected = wanted
        .items
        .iter()
        .filter(|((of, _, part), _)| *of == bucket && *part == 0)
        .map(|((_, key, _), item)| (key, item));
    for (key, line) in keys {
        loop {
            match expected.next() {
                Some((due, _)) if *due < key => seen.absent.push(String::from_utf8_lossy(due).into_owned()),
                Some((due, item)) if *due == key && item.listed == line => break,
                Some((due, _)) if *due == key && versions::has_older(&wanted.versions, (bucket, due), None) => {
                    // Its bytes tell whether it is an older version.
                    seen.absent.push(String::from_utf8_lossy(due).into_owned());
                    break;
                }
                _ => return seen.wrong(|| format!("listed {key:?}: {line}")),
            }
        }
    }
    seen.absent.extend(expected.map(|(due, _)| String::from_utf8_lossy(due).into_owned()));
}

fn compare_uploads(lines: Vec<(Bytes, String)>, wanted: &Observed, seen: &mut Seen) {
    let absent = wanted.uploads.iter().filter(|due| !lines.contains(due));
    seen.absent.extend(absent.map(|(key, _)| String::from_utf8_lossy(key).into_owned()));
    for upload in lines.iter().filter(|upload| !wanted.uploads.contains(upload)) {
        seen.wrong(|| format!("upload {upload:?}"));
    }
}

fn compare_part(
    handle: &Handle,
    bucket: &Bucket,
    key: &Bytes,
    stored: &StoredPart,
    wanted: &Observed,
    seen: &mut Seen,
) {
    let (part, _) = stored;
    let Some(item) = wanted.items.get(&(bucket.id, key.clone(), part.number)) else {
        return seen.wrong(|| format!("part {key:?} {}", part.number));
    };
    if part_line(part) != item.head {
        seen.wrong(|| format!("part {key:?} {}: {}", part.number, part_line(part)));
    }
    if let Some(bytes) = seen.take(read(handle, &as_found(handle, bucket, stored)))
        && bytes != *item.bytes
    {
        seen.wrong(|| format!("part {key:?} {}: other bytes", part.number));
    }
}

/// Buckets with their snapshots.
fn bucket_lines(handle: &Handle) -> Vec<String> {
    let with_snapshots = |bucket: Arc<Bucket>| {
        let snapshots = handle.snapshots(&bucket.name);
        std::iter::once(bucket).chain(snapshots)
    };
    handle.buckets().into_iter().flat_map(with_snapshots).map(|bucket| format!("{bucket:?}")).collect()
}

pub fn head(object: &Object) -> String {
    let Version { size, etag, modified_ms, headers, parts, checksum, sha256, .. } = &object.version;
    format!("{size} {etag:?} {modified_ms} {headers:?} {parts:?} {checksum:?} {sha256:?}")
}

fn part_line(part: &Part) -> String {
    format!("{} {} {:?} {} {:?}", part.number, part.size, part.md5, part.modified_ms, part.checksum)
}

fn list(handle: &Handle, bucket: &Bucket) -> Result<Vec<(Bytes, String)>> {
    let mut list =
        ListObjects { bucket: bucket.id, prefix: Bytes::new(), delimiter: None, after: None, max_keys: PAGE };
    let mut keys: Vec<(Bytes, String)> = Vec::new();
    loop {
        let mut page = ListPage::default();
        list.after = handle.list_objects_in(bucket, &list, &mut page)?;
        for entry in page.entries {
            let Listed { size, etag, modified_ms, checksum, class } = entry.listed;
            let line = format!("{size} {etag:?} {modified_ms} {checksum:?} {class:?}");
            keys.push((entry.key, line));
        }
        // More pages than there can be keys are a loop.
        if list.after.is_none() || keys.len() > 10_000 {
            return Ok(keys);
        }
    }
}

/// A part, and how its upload is encrypted.
type StoredPart = (Part, Option<Encryption>);
type Uploads = (Vec<(Bytes, String)>, Vec<(Bytes, StoredPart)>);

fn uploads(handle: &Handle, bucket: &Bucket) -> Result<Uploads> {
    let list = ListUploads::first(bucket.id, Bytes::new(), 1_000);
    let (mut lines, mut parts) = (Vec::new(), Vec::new());
    for upload in handle.list_uploads(&list)?.entries {
        let found = handle.list_parts(ListParts { upload: upload.id, after: 0, max_parts: 1_000 })?.entries;
        let numbers: Vec<_> = found.iter().map(|part| part.number).collect();
        let known = handle.upload(bucket.id, &upload.key, upload.id)?.is_some();
        lines.push((upload.key.clone(), format!("{:?} {} {known} {numbers:?}", upload.id, upload.initiated_ms)));
        let encryption = &upload.attributes.encryption;
        parts.extend(found.iter().map(|part| (upload.key.clone(), ((**part).clone(), encryption.clone()))));
    }
    Ok((lines, parts))
}

/// A part as if it were an object, so that its bytes can be read.
fn as_found(handle: &Handle, bucket: &Bucket, (part, encryption): &StoredPart) -> PinnedObject {
    let version = Version {
        bucket: bucket.id,
        key: Bytes::new(),
        version_id: VersionId::Null,
        delete_marker: false,
        modified_ms: part.modified_ms,
        size: part.size,
        etag: Etag::simple(part.md5),
        sha256: None,
        checksum: None,
        headers: Default::default(),
        attributes: Attributes { encryption: encryption.clone(), ..Attributes::default() },
        parts: Vec::new(),
        manifest: part.manifest.clone(),
    };
    PinnedObject::new(Arc::new(Object { sequence: 0, version }), handle.pin_epoch())
}

/// Both ways to read, which must agree.
pub fn read(handle: &Handle, found: &PinnedObject) -> Result<Vec<u8>> {
    let version = &found.object.version;
    // As whoever serves it would: a size that a flip made huge is not allocated.
    let stored: u64 = version.manifest.iter().map(Extent::length).fold(0, u64::saturating_add);
    let size = version.size.min(stored);
    let mut reader = handle.content().reader(found, 0, version.size.saturating_sub(1));
    let mut bytes = Vec::with_capacity(size.min(8 << 20) as usize);
    let mut piece = vec![0; PIECE];
    loop {
        match reader.read(&mut piece)? {
            0 => break,
            read => bytes.extend_from_slice(&piece[..read]),
        }
    }
    if bytes.len() <= 65_536 {
        let mut again = vec![0; bytes.len()];
        if handle.content().try_read(found, 0, &mut again)? {
            assert!(again == bytes, "two ways to read differ");
        }
    }
    Ok(bytes)
}
