//! Expirations: what lifecycle rules remove, as far as it is still what was found when the rules were applied.
//!
//! An entry has an effect only if its version is as it was, at the same place among those of its key, and not locked;
//! none has if the rules have changed, or a restore has replaced what was found. So whatever a client does first has its
//! effect, and no expiration undoes it.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use crate::buckets::creation::live_bucket;
use crate::buckets::layers::{self, delete_marker};
use crate::decision::{Context, Decision};
use crate::objects::locks;
use crate::outcome::{Expired, Failure, Outcome};
use crate::upkeep::expired::{Expire, ExpireEntry, ExpiredPlace};
use crate::view::View;
use orcas_base::planted::{self, Bug};
use orcas_record::{Bucket, DocumentKind, Object, Record, VersionId, Versioning};

pub(crate) fn expire(view: &dyn View, context: &Context, expire: Expire) -> Result<Decision, Failure> {
    let bucket = live_bucket(view, expire.bucket)?;
    let void = view.document(bucket.id, DocumentKind::Lifecycle).as_ref() != Some(&expire.document);
    if void || expire.top.is_some_and(|top| !bucket.layers.contains(&top)) {
        let changed = expire.entries.len() as u64;
        return Ok(Decision::without_records(Outcome::Expired(Expired { changed, void, ..Expired::default() })));
    }
    let (records, marked) = (Vec::with_capacity(expire.entries.len()), HashSet::new());
    let (newest, counts) = (None, Expired::default());
    let mut expiry = Expiry { view, context, bucket: &bucket, records, marked, newest, counts };
    for entry in expire.entries {
        expiry.decide(entry)?;
    }
    Ok(Decision { outcome: Outcome::Expired(expiry.counts), records: expiry.records })
}

/// The expirations of one decision. The view does not show what earlier entries did.
struct Expiry<'a> {
    view: &'a dyn View,
    context: &'a Context,
    bucket: &'a Bucket,
    records: Vec<Record>,
    /// Keys whose null version an earlier entry replaced with a delete marker.
    marked: HashSet<Bytes>,
    /// The key of the last entry and its newest version. One that is behind many that are gone is not looked for again.
    newest: Option<(Bytes, Option<Arc<Object>>)>,
    counts: Expired,
}

impl Expiry<'_> {
    fn decide(&mut self, entry: ExpireEntry) -> Result<(), Failure> {
        match entry.place {
            ExpiredPlace::Upload(id) => {
                let open = self.view.upload(id)?;
                if open.is_some_and(|upload| upload.bucket == self.bucket.id && upload.key == entry.key) {
                    self.records.push(Record::AbortUpload { upload: id });
                    self.counts.uploads += 1;
                } else {
                    self.counts.changed += 1;
                }
                Ok(())
            }
            ExpiredPlace::Current => match self.newest(&entry)?.filter(|newest| !newest.version.delete_marker) {
                Some(current) => self.current(entry.key, &current),
                None => self.passed_over(),
            },
            ExpiredPlace::LoneMarker => match self.newest(&entry)?.filter(|newest| newest.version.delete_marker) {
                Some(marker) => self.remove(entry.key, &marker),
                None => self.passed_over(),
            },
            ExpiredPlace::Noncurrent(id) => {
                // Nothing is older than a version that was found, so it is the newest or it is not current.
                let newest = self.newest_of(&entry.key)?;
                let is_newest = newest.is_none_or(|it| entry.is(&it));
                let replaced = id == VersionId::Null && self.marked.contains(&entry.key);
                let found = layers::version(self.view, self.bucket, &entry.key, id)?;
                match found.filter(|found| !is_newest && !replaced && entry.matches(found)) {
                    Some(found) => self.remove(entry.key, &found),
                    None => self.passed_over(),
                }
            }
        }
    }

    /// The version of an entry, if it is the newest of its key and as it was.
    fn newest(&mut self, entry: &ExpireEntry) -> Result<Option<Arc<Object>>, Failure> {
        let newest = match self.bucket.versioning {
            // Its only version, which need not be looked for.
            Versioning::Unversioned => layers::object(self.view, self.bucket, &entry.key)?,
            Versioning::Enabled | Versioning::Suspended => self.newest_of(&entry.key)?,
        };
        Ok(newest.filter(|newest| entry.matches(newest)))
    }

    fn newest_of(&mut self, key: &Bytes) -> Result<Option<Arc<Object>>, Failure> {
        match &self.newest {
            Some((of, newest)) if of == key => Ok(newest.clone()),
            _ => {
                let newest = layers::newest(self.view, self.bucket, key)?;
                self.newest = Some((key.clone(), newest.clone()));
                Ok(newest)
            }
        }
    }

    /// What becomes of a current version depends on the versioning of its bucket, as for a deletion.
    fn current(&mut self, key: Bytes, current: &Object) -> Result<(), Failure> {
        let version_id = match self.bucket.versioning {
            Versioning::Unversioned => return self.remove(key, current),
            Versioning::Enabled => self.context.version_id(self.context.next_sequence + self.records.len() as u64),
            Versioning::Suspended => VersionId::Null,
        };
        if version_id == VersionId::Null {
            let replaced = layers::version(self.view, self.bucket, &key, version_id)?;
            if replaced.is_some_and(|it| locks::check_removal(&it.version, false, self.context.now_ms).is_err()) {
                self.counts.locked += 1;
                return Ok(());
            }
            self.marked.insert(key.clone());
        }
        let marker = delete_marker(self.bucket.top(), key, version_id, self.context.now_ms);
        self.records.push(Record::PutVersion(marker));
        self.counts.markers += 1;
        Ok(())
    }

    fn remove(&mut self, key: Bytes, found: &Object) -> Result<(), Failure> {
        if locks::check_removal(&found.version, false, self.context.now_ms).is_err() {
            self.counts.locked += 1;
            return Ok(());
        }
        let of = (key, found.version.version_id);
        layers::remove(self.view, self.bucket, of, (false, self.context.now_ms), &mut self.records)?;
        self.counts.versions += 1;
        Ok(())
    }

    fn passed_over(&mut self) -> Result<(), Failure> {
        self.counts.changed += 1;
        Ok(())
    }
}

impl ExpireEntry {
    fn is(&self, object: &Object) -> bool {
        object.sequence == self.sequence
    }

    /// Whether the version is the one that was found, with the tags that it had, if those mattered.
    fn matches(&self, object: &Object) -> bool {
        planted::is(Bug::ExpireWithoutCheck)
            || planted::is(Bug::OtherMarkerExpires) && self.place == ExpiredPlace::LoneMarker
            || self.is(object) && self.tags.as_ref().is_none_or(|tags| *tags == object.version.attributes.tags)
    }
}
