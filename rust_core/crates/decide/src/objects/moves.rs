//! Moving all objects whose keys begin with a prefix: one decision, and so one batch of the log. Other writes are decided
//! before it or after it, and readers and crashes see all of it or nothing.

use std::iter::Peekable;
use std::slice::Iter;
use std::sync::Arc;

use bytes::Bytes;

use crate::decision::Decision;
use crate::intent::{MovePrefix, UnderPrefix};
use crate::lengths::record_len;
use crate::limits::{KEY_LEN_MAX, MOVE_RECORDS_LEN_MAX};
use crate::objects::writes::{moved_attributes, never_versioned};
use crate::outcome::{Failure, Outcome, Refusal};
use crate::view::View;
use orcas_base::error::Error;
use orcas_base::planted::{self, Bug};
use orcas_record::{Object, Record, Sequence, Version, VersionId};

/// An object may have been changed after it was looked up for this: it is taken as it is now.
pub(crate) fn move_prefix(view: &dyn View, moved: &MovePrefix, under: &UnderPrefix) -> Result<Decision, Failure> {
    let [from, to] = never_versioned(view, moved.from_bucket, moved.bucket)?;
    if from.owner != to.owner {
        let reason = "A prefix can be moved only between buckets of one owner.";
        return Err(Refusal::InvalidRequest { reason }.into());
    }
    if !from.layers.is_empty() || !to.layers.is_empty() {
        let reason = "A prefix cannot be moved in a bucket that has had snapshots or is a fork.";
        return Err(Refusal::InvalidBucketState { reason }.into());
    }
    check_apart(moved)?;
    // The sequence of a version does not tell whether its attributes have changed.
    if under.updates != view.updates() {
        return Err(Refusal::SourceChanged.into());
    }
    if !moved.overwrite && !view.each_object(moved.bucket, &moved.prefix, &mut |_, _| false)? {
        return Err(Refusal::DestinationNotEmpty.into());
    }
    let names = names(view, moved, under.found.len())?;
    let mut found = under.found.iter().peekable();
    let mut records = Vec::with_capacity(names.len());
    let (mut bytes, mut records_len) = (0u64, 0);
    for (key, sequence) in names {
        let object = match take(&mut found, &key, sequence) {
            Some(object) => object,
            None => view
                .layer_object(moved.from_bucket, &key)?
                .ok_or(Error::Record { reason: "an object is listed and does not exist" })?,
        };
        let version = Version {
            bucket: moved.bucket,
            key: new_key(moved, &key)?,
            version_id: VersionId::Null,
            attributes: moved_attributes(&object.version, moved.from_bucket == moved.bucket),
            ..object.version.clone()
        };
        bytes = bytes.saturating_add(version.size);
        records_len += record_len(&version);
        if records_len > MOVE_RECORDS_LEN_MAX {
            return Err(Refusal::TooManyObjects { limit: moved.limit }.into());
        }
        records.push(Record::MoveVersion { from_bucket: moved.from_bucket, from_key: key, version });
    }
    if planted::is(Bug::MoveLeavesOneName)
        && let Some(Record::MoveVersion { version, .. }) = records.pop()
    {
        records.push(Record::PutVersion(version));
    }
    Ok(Decision { outcome: Outcome::Moved { objects: records.len() as u64, bytes }, records })
}

/// The keys that are to be moved and the sequences of their objects, in order.
fn names(view: &dyn View, moved: &MovePrefix, expected: usize) -> Result<Vec<(Bytes, Sequence)>, Failure> {
    let mut names = Vec::with_capacity(expected);
    let all = view.each_object(moved.from_bucket, &moved.from_prefix, &mut |key, sequence| {
        if names.len() == moved.limit {
            return false;
        }
        names.push((Bytes::copy_from_slice(key), sequence));
        true
    })?;
    if !all {
        return Err(Refusal::TooManyObjects { limit: moved.limit }.into());
    }
    if names.is_empty() { Err(Refusal::NoSuchKey.into()) } else { Ok(names) }
}

/// Where one prefix is a part of the other, an object would be moved more than once, or onto another one.
fn check_apart(moved: &MovePrefix) -> Result<(), Refusal> {
    let (from, to) = (&moved.from_prefix, &moved.prefix);
    if moved.from_bucket == moved.bucket && from == to {
        return Err(Refusal::InvalidRequest { reason: "The objects have this prefix already: give another one." });
    }
    if moved.from_bucket == moved.bucket && (from.starts_with(to) || to.starts_with(from)) {
        let reason = "A prefix cannot be moved to one that begins with it, or that it begins with.";
        return Err(Refusal::InvalidRequest { reason });
    }
    Ok(())
}

/// The object as it was looked up, if it is still the same. Both lists are in order.
fn take(found: &mut Peekable<Iter<'_, Arc<Object>>>, key: &Bytes, sequence: Sequence) -> Option<Arc<Object>> {
    while found.next_if(|object| object.version.key < *key).is_some() {}
    found.next_if(|object| object.version.key == *key && object.sequence == sequence).map(Arc::clone)
}

fn new_key(moved: &MovePrefix, key: &Bytes) -> Result<Bytes, Refusal> {
    let rest = &key[moved.from_prefix.len()..];
    match moved.prefix.len() + rest.len() {
        0 => Err(Refusal::InvalidRequest { reason: "An object would have an empty key." }),
        1..=KEY_LEN_MAX => Ok([&moved.prefix, rest].concat().into()),
        _ => Err(Refusal::KeyTooLong),
    }
}
