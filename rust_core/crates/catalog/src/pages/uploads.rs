//! Pages of multipart uploads and of their parts: index and overlay merged.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::objects::successor;
use crate::Catalog;
use orcas_base::error::Result;
use orcas_index::UploadFrom;
use orcas_record::{BucketId, Part, Upload, UploadId};
use orcas_store::{part_of, upload_of};

/// The parameters of a page of ListMultipartUploads.
#[derive(Clone, Debug)]
pub struct ListUploads {
    pub bucket: BucketId,
    pub prefix: Bytes,
    pub delimiter: Option<Bytes>,
    /// Uploads of later keys; with `after_upload` also later uploads of this key.
    pub after_key: Option<Bytes>,
    pub after_upload: Option<UploadId>,
    /// Uploads and prefixes together, at most 1,000.
    pub max_uploads: usize,
}

#[derive(Clone, Debug, Default)]
pub struct UploadPage {
    pub entries: Vec<UploadEntry>,
    pub prefixes: Vec<Bytes>,
    pub truncated: bool,
    /// The last key or common prefix of the page, and the upload if it was one.
    pub last: Option<(Bytes, Option<UploadId>)>,
}

pub type UploadEntry = Arc<Upload>;

/// The parameters of a page of ListParts.
#[derive(Clone, Copy, Debug)]
pub struct ListParts {
    pub upload: UploadId,
    pub after: u16,
    /// Most parts of a page: 1,000 or fewer.
    pub max_parts: usize,
}

#[derive(Clone, Debug, Default)]
pub struct PartPage {
    pub entries: Vec<PartEntry>,
    pub truncated: bool,
}

pub type PartEntry = Arc<Part>;

/// Uploads asked of the index after a seek; twice as many each time that the page goes on where they end, since a seek
/// is often followed by the next one.
const FETCH_FIRST: usize = 16;
const FETCH_MAX: usize = 1_024;

type Order = (Bytes, UploadId);

/// Parts in the order of their numbers. Blocking.
///
/// # Errors
/// When the index cannot be read.
pub fn list_parts(catalog: &Catalog, list: ListParts) -> Result<PartPage> {
    // The overlay first: what it loses meanwhile is in the index by then.
    let wanted = list.max_parts + 1;
    let recent: Vec<_> = catalog.overlay.read().parts(list.upload, list.after).take(wanted).cloned().collect();
    let stored = catalog.index.read()?.parts(list.upload, list.after, wanted)?;
    let mut parts = BTreeMap::new();
    for row in &stored {
        parts.insert(row.number, Arc::new(part_of(&row.part)?));
    }
    parts.extend(recent.into_iter().map(|part| (part.number, part)));
    let truncated = parts.len() > list.max_parts;
    Ok(PartPage { entries: parts.into_values().take(list.max_parts).collect(), truncated })
}

/// Uploads in the order of their keys, those of one key in the order of their initiation. Blocking.
///
/// # Errors
/// When the index cannot be read.
pub fn list_uploads(catalog: &Catalog, list: &ListUploads) -> Result<UploadPage> {
    let mut page = UploadPage::default();
    if list.max_uploads == 0 {
        return Ok(page);
    }
    let mut recent = recent_uploads(catalog, list.bucket)?;
    let mut from = first_upload(list);
    let mut fetch = FETCH_FIRST;
    loop {
        let (stored, more) = stored_uploads(catalog, list.bucket, &from, fetch)?;
        // Without a further page of the index, everything recent takes part; else only what comes before its end.
        let end = if more { stored.last_key_value().map(|(at, _)| at.clone()) } else { None };
        let later = end.as_ref().map(|end| recent.split_off(&after(end))).unwrap_or_default();
        let mut merged = stored.into_iter().map(|(at, upload)| (at, Some(upload))).collect::<BTreeMap<_, _>>();
        for (at, change) in std::mem::replace(&mut recent, later) {
            merged.insert(at, change);
        }
        // Behind all uploads of the common prefix that was met last.
        let mut beyond: Option<Bytes> = None;
        for (at, upload) in merged.range(start(&from)..) {
            let Some(upload) = upload else { continue };
            if beyond.as_ref().is_some_and(|beyond| upload.key < *beyond) {
                continue;
            }
            if !upload.key.starts_with(&list.prefix) {
                if upload.key > list.prefix {
                    return Ok(page);
                }
                continue;
            }
            let rolled = list.common_prefix(&upload.key);
            beyond = rolled.as_ref().and_then(|prefix| successor(prefix));
            if !list.take(&mut page, at, upload, rolled) {
                return Ok(page);
            }
        }
        (from, fetch) = match (end, beyond) {
            (None, _) => return Ok(page),
            (Some((key, _)), Some(beyond)) if key < beyond => (From::Key(beyond), FETCH_FIRST),
            (Some((key, id)), _) => (From::After(key, id), (2 * fetch).min(FETCH_MAX)),
        };
    }
}

/// Changes that the index may not have, in the order of a listing. A deletion stands at its own place.
fn recent_uploads(catalog: &Catalog, bucket: BucketId) -> Result<BTreeMap<Order, Option<Arc<Upload>>>> {
    let overlay = catalog.overlay.read();
    let mut recent = BTreeMap::new();
    let mut gone = Vec::new();
    for (id, change) in overlay.uploads(bucket) {
        match &change.value {
            Some(upload) => drop(recent.insert((upload.key.clone(), id), Some(Arc::clone(upload)))),
            None => gone.push(id),
        }
    }
    drop(overlay);
    for id in gone {
        // The index still knows the key of what was aborted or completed a moment ago.
        if let Some(stored) = catalog.index.read()?.upload(id)? {
            recent.insert((upload_of(stored.kind, &stored.record)?.key, id), None);
        }
    }
    Ok(recent)
}

fn first_upload(list: &ListUploads) -> From {
    match (&list.after_key, list.after_upload) {
        (None, _) => From::Key(list.prefix.clone()),
        (Some(key), Some(id)) => From::After(key.clone(), id),
        (Some(key), None) => {
            let rolled = list.common_prefix(key).filter(|prefix| prefix == key);
            match rolled.as_ref().and_then(|rolled| successor(rolled)) {
                Some(beyond) => From::Key(beyond),
                None => From::After(key.clone(), UploadId([0xff; 16])),
            }
        }
    }
}

/// A stretch of the index, and whether there is more behind it.
fn stored_uploads(
    catalog: &Catalog,
    bucket: BucketId,
    from: &From,
    fetch: usize,
) -> Result<(BTreeMap<Order, Arc<Upload>>, bool)> {
    let mut rows = Vec::new();
    let scan_from = match from {
        From::Key(key) => UploadFrom::Key(key),
        From::After(key, id) => UploadFrom::AfterUpload { key, initiated_ms: initiated_ms(*id), id: *id },
    };
    catalog.index.read()?.scan_uploads(bucket, scan_from, None, fetch, &mut |row| {
        rows.push((row.kind, Bytes::copy_from_slice(row.record)));
        true
    })?;
    let more = rows.len() == fetch;
    let mut uploads = BTreeMap::new();
    for (kind, record) in rows {
        let upload = upload_of(kind, &record)?;
        uploads.insert((upload.key.clone(), upload.id), Arc::new(upload));
    }
    Ok((uploads, more))
}

/// The place at which a page begins.
enum From {
    Key(Bytes),
    After(Bytes, UploadId),
}

fn start(from: &From) -> Order {
    match from {
        From::Key(key) => (key.clone(), UploadId([0; 16])),
        From::After(key, id) => after(&(key.clone(), *id)),
    }
}

/// The least order behind `order`.
fn after((key, UploadId(id)): &Order) -> Order {
    match u128::from_be_bytes(*id).checked_add(1) {
        Some(next) => (key.clone(), UploadId(next.to_be_bytes())),
        None => {
            let mut next = key.to_vec();
            next.push(0);
            (next.into(), UploadId([0; 16]))
        }
    }
}

/// An upload's id begins with the time it was initiated at.
pub fn initiated_ms(UploadId(id): UploadId) -> u64 {
    id[..6].iter().fold(0, |time, &byte| time << 8 | u64::from(byte))
}

impl ListUploads {
    /// The first page of all uploads of keys that begin with `prefix`.
    pub fn first(bucket: BucketId, prefix: Bytes, max_uploads: usize) -> Self {
        Self { bucket, prefix, delimiter: None, after_key: None, after_upload: None, max_uploads }
    }

    /// Goes on to what follows a page. `false` if that was the last one.
    pub fn advance(&mut self, page: &UploadPage) -> bool {
        let Some((key, upload)) = page.last.as_ref().filter(|_| page.truncated) else { return false };
        (self.after_key, self.after_upload) = (Some(key.clone()), *upload);
        true
    }

    fn common_prefix(&self, key: &Bytes) -> Option<Bytes> {
        let delimiter = self.delimiter.as_ref().filter(|delimiter| !delimiter.is_empty())?;
        let rest = key.strip_prefix(self.prefix.as_ref())?;
        let at = memchr::memmem::find(rest, delimiter)?;
        Some(key.slice(..self.prefix.len() + at + delimiter.len()))
    }

    /// Puts an upload on the page, or the common prefix into which it is `rolled`. False when the page is full and
    /// there is more.
    fn take(&self, page: &mut UploadPage, (key, id): &Order, upload: &Arc<Upload>, rolled: Option<Bytes>) -> bool {
        if rolled.is_some() && rolled.as_ref() == page.prefixes.last() {
            return true;
        }
        if page.entries.len() + page.prefixes.len() == self.max_uploads {
            page.truncated = true;
            return false;
        }
        match rolled {
            Some(prefix) => {
                page.last = Some((prefix.clone(), None));
                page.prefixes.push(prefix);
            }
            None => {
                page.last = Some((key.clone(), Some(*id)));
                page.entries.push(Arc::clone(upload));
            }
        }
        true
    }
}
