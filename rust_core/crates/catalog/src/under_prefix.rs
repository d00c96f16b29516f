//! The objects that move with a prefix. They are looked up before the move is decided.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::Catalog;
use super::recent::key_changes::Current;
use orcas_base::error::Result;
use orcas_base::sync::atomic::Ordering;
use orcas_decide::{MOVE_RECORDS_LEN_MAX, MovePrefix, UnderPrefix, record_len};
use orcas_record::{BucketId, Object};
use orcas_store::version_of;

/// Objects looked up at a time.
const PAGE: usize = 1_000;

/// Looks the objects up that are to be moved. Blocking.
///
/// # Errors
/// When the index cannot be read.
pub fn under_prefix(catalog: &Catalog, request: &MovePrefix) -> Result<UnderPrefix> {
    // First: what is published after this is either seen by the lookup or counted.
    let updates = catalog.updates.load(Ordering::Acquire);
    let found = objects_under(catalog, request.from_bucket, &request.from_prefix, request.limit)?;
    Ok(UnderPrefix { found, updates })
}

/// The objects of a bucket without versioning whose keys begin with `prefix`, by key, at most `limit`, and no more
/// than one move takes. Those of which only the attributes have changed lately are left out.
fn objects_under(catalog: &Catalog, bucket: BucketId, prefix: &Bytes, limit: usize) -> Result<Vec<Arc<Object>>> {
    // The overlay first: what it loses meanwhile is in the index by then.
    let mut recent = recent_under(catalog, bucket, prefix).into_iter().peekable();
    let mut found = Vec::new();
    let mut from = Bound::Included(prefix.clone());
    let mut records_len = 0;
    loop {
        let page = catalog.index.read()?.objects(bucket, from.as_ref().map(|key| &key[..]), PAGE)?;
        let is_last = page.len() < PAGE;
        for stored in &page {
            let version = version_of(stored)?;
            records_len += record_len(&version);
            let is_enough = found.len() >= limit || records_len > MOVE_RECORDS_LEN_MAX;
            if !version.key.starts_with(prefix) || is_enough {
                found.extend(recent.filter_map(|(_, object)| object));
                return Ok(found);
            }
            while let Some((_, object)) = recent.next_if(|(key, _)| *key < version.key) {
                found.extend(object);
            }
            from = Bound::Excluded(version.key.clone());
            match recent.next_if(|(key, _)| *key == version.key) {
                Some((_, object)) => found.extend(object),
                None => found.push(Arc::new(Object { sequence: stored.sequence, version })),
            }
        }
        if is_last {
            found.extend(recent.filter_map(|(_, object)| object));
            return Ok(found);
        }
    }
}

/// The keys under a prefix that the overlay has: the object, or `None` where the index must not be believed.
fn recent_under(catalog: &Catalog, bucket: BucketId, prefix: &Bytes) -> BTreeMap<Bytes, Option<Arc<Object>>> {
    let overlay = catalog.overlay.read();
    let changes = overlay.range(bucket, Bound::Included(&prefix[..]));
    let changes = changes.take_while(|(key, _)| key.starts_with(prefix));
    let object = |current| match current {
        Current::Object(object) => Some(Arc::clone(object)),
        Current::None | Current::Below => None,
    };
    changes.map(|(key, changes)| (key.clone(), object(changes.current()))).collect()
}
