//! Deletions: what becomes of an object depends on the versioning of its bucket.
//!
//! Without versioning the object goes. Where versioning is enabled, a deletion that names no version adds a delete
//! marker; where it is suspended, the marker takes the place of the null version. A deletion that names a version
//! removes it, unless it is locked.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::buckets::creation::live_bucket;
use crate::buckets::layers::{self, delete_marker};
use crate::decision::{Context, Decision};
use crate::intent::DeleteEntry;
use crate::objects::conditions::Precondition;
use crate::objects::locks;
use crate::objects::writes::evaluate;
use crate::outcome::{Deleted, Failure, Outcome};
use crate::view::View;
use orcas_base::planted::{self, Bug};
use orcas_record::{Bucket, BucketId, Object, Record, Sequence, VersionId, Versioning};

pub(crate) fn one(
    view: &dyn View,
    context: &Context,
    bucket: BucketId,
    entry: DeleteEntry,
) -> Result<Decision, Failure> {
    let bucket = live_bucket(view, bucket)?;
    let mut deletion =
        Deletion { view, context, bucket: &bucket, touched: HashMap::new(), current: None, records: Vec::new() };
    let deleted = deletion.decide(entry)?;
    Ok(Decision { outcome: Outcome::DeletedOne(deleted), records: deletion.records })
}

pub(crate) fn many(
    view: &dyn View,
    context: &Context,
    bucket: BucketId,
    entries: Vec<DeleteEntry>,
) -> Result<Decision, Failure> {
    let bucket = live_bucket(view, bucket)?;
    let mut deletion =
        Deletion { view, context, bucket: &bucket, touched: HashMap::new(), current: None, records: Vec::new() };
    let mut outcomes = Vec::with_capacity(entries.len());
    for entry in entries {
        outcomes.push(match deletion.decide(entry) {
            Ok(deleted) => Ok(deleted),
            Err(Failure::Refused(refusal)) => Err(refusal),
            Err(failure) => return Err(failure),
        });
    }
    Ok(Decision { outcome: Outcome::Deleted(outcomes), records: deletion.records })
}

/// The deletions of one decision. The view does not show what earlier entries did.
struct Deletion<'a> {
    view: &'a dyn View,
    context: &'a Context,
    bucket: &'a Bucket,
    /// What earlier entries left, by key and version: nothing, or a delete marker.
    touched: HashMap<(Bytes, VersionId), Left>,
    /// The key of the last condition and its object. One that is behind many that are gone is not looked for again.
    current: Option<(Bytes, Option<Arc<Object>>)>,
    records: Vec<Record>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    Marker,
}

impl Deletion<'_> {
    fn decide(&mut self, entry: DeleteEntry) -> Result<Deleted, Failure> {
        match (entry.version, self.bucket.versioning) {
            (Some(id), _) => self.version(entry, id),
            (None, Versioning::Unversioned) => self.unversioned(entry),
            (None, Versioning::Enabled | Versioning::Suspended) => self.marker(entry),
        }
    }

    /// Deleting what is not there is a success without a record, unless a precondition names it.
    fn unversioned(&mut self, entry: DeleteEntry) -> Result<Deleted, Failure> {
        let gone = !self.touched.is_empty() && self.touched.contains_key(&(entry.key.clone(), VersionId::Null));
        let current = if gone { None } else { layers::object(self.view, self.bucket, &entry.key)? };
        evaluate(current.as_deref(), &entry.precondition)?;
        if let Some(current) = current {
            locks::check_removal(&current.version, entry.bypass, self.context.now_ms)?;
            self.remove(entry.key, VersionId::Null, false)?;
        }
        Ok(Deleted::default())
    }

    fn version(&mut self, entry: DeleteEntry, id: VersionId) -> Result<Deleted, Failure> {
        let found = match self.touched.get(&(entry.key.clone(), id)) {
            Some(Left::Nothing) => None,
            Some(Left::Marker) => {
                // Made by an earlier entry.
                evaluate(None, &entry.precondition)?;
                self.remove(entry.key, id, true)?;
                return Ok(Deleted { version_id: Some(id), delete_marker: true });
            }
            None => layers::version(self.view, self.bucket, &entry.key, id)?,
        };
        let delete_marker = found.as_ref().is_some_and(|found| found.version.delete_marker);
        if !(delete_marker && planted::is(Bug::MarkerWithoutCondition)) {
            evaluate(found.as_deref().filter(|_| !delete_marker), &entry.precondition)?;
        }
        if let Some(found) = found {
            locks::check_removal(&found.version, entry.bypass, self.context.now_ms)?;
            self.remove(entry.key, id, false)?;
        }
        Ok(Deleted { version_id: Some(id), delete_marker })
    }

    /// Adds a delete marker, also for a key that does not exist.
    fn marker(&mut self, entry: DeleteEntry) -> Result<Deleted, Failure> {
        self.check_current(&entry.key, &entry.precondition)?;
        let version_id = match self.bucket.versioning {
            Versioning::Enabled => self.context.version_id(self.next_sequence()),
            Versioning::Unversioned | Versioning::Suspended => VersionId::Null,
        };
        if version_id == VersionId::Null
            && let Some(replaced) = layers::version(self.view, self.bucket, &entry.key, version_id)?
        {
            locks::check_removal(&replaced.version, entry.bypass, self.context.now_ms)?;
        }
        self.touched.insert((entry.key.clone(), version_id), Left::Marker);
        let marker = delete_marker(self.bucket.top(), entry.key, version_id, self.context.now_ms);
        self.records.push(Record::PutVersion(marker));
        Ok(Deleted { version_id: Some(version_id), delete_marker: true })
    }

    fn check_current(&mut self, key: &Bytes, precondition: &Precondition) -> Result<(), Failure> {
        if precondition.is_none() {
            return Ok(());
        }
        let current = match self.current.take() {
            Some((of, current)) if of == *key => current,
            _ => layers::object(self.view, self.bucket, key)?,
        };
        self.current = Some((key.clone(), current.clone()));
        Ok(evaluate(current.as_deref().filter(|current| !self.has_changed(key, current)), precondition)?)
    }

    /// Whether an earlier entry made another version than `current` the current one: a delete marker, or one that was
    /// behind it. In either case no condition that names `current` holds.
    fn has_changed(&self, key: &Bytes, current: &Object) -> bool {
        let mut touched = self.touched.iter().filter(|((touched, _), _)| touched == key);
        touched.any(|((_, id), left)| *left == Left::Marker || *id == current.version.version_id)
    }

    /// `new`: an earlier entry has put it there.
    fn remove(&mut self, key: Bytes, version_id: VersionId, new: bool) -> Result<(), Failure> {
        self.touched.insert((key.clone(), version_id), Left::Nothing);
        let of = (key, version_id);
        layers::remove(self.view, self.bucket, of, (new, self.context.now_ms), &mut self.records)
    }

    fn next_sequence(&self) -> Sequence {
        self.context.next_sequence + self.records.len() as u64
    }
}
