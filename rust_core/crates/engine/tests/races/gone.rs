//! What is gone, and whether it may be. This looks at the answers alone, without the model: a version is there until a
//! deletion names it, or an expiration that had found it. If somebody was told that it is locked, the deletion is one that
//! the lock permits, or the lock had ended.
//!
//! Of operations that overlap, each may have been the first.

use orcas_decide::ExpiredPlace;
use orcas_record::VersionId;

use crate::history::{Answer, Asked, Attributes, KeyState, NO_VERSION, Retained};
use crate::order;

type Call = order::Call<KeyState>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lock {
    Hold,
    Governance,
    Compliance,
}

/// That a version was locked at some moment of a call.
struct Locked<'a> {
    call: &'a Call,
    id: VersionId,
    by: Lock,
}

impl Lock {
    fn of(retained: Retained) -> Self {
        if retained.compliance { Self::Compliance } else { Self::Governance }
    }

    fn all(attributes: &Attributes) -> impl Iterator<Item = Self> {
        let hold = attributes.hold.filter(|on| *on).map(|_| Self::Hold);
        hold.into_iter().chain(attributes.retention.map(Self::of))
    }
}

impl Locked<'_> {
    /// Whether the call ended this lock. Only the removal of a retention does: nothing replaces it by a weaker one.
    fn ends_with(&self, call: &Call) -> bool {
        let ends = match &call.asked {
            Asked::Hold { on: false, .. } => self.by == Lock::Hold,
            Asked::Retain { retained: None, bypass: true, .. } => self.by == Lock::Governance,
            _ => false,
        };
        ends && call.answer == Answer::Changed(self.id)
    }

    /// Whether this removal is one that the lock permits, or that may have come after the end of the lock.
    fn permits(&self, removal: &Call, calls: &[Call]) -> bool {
        let bypasses = matches!(removal.asked, Asked::DeleteVersion { bypass: true, .. });
        let mut ends = calls.iter().filter(|call| self.ends_with(call));
        bypasses && self.by == Lock::Governance || ends.any(|end| !end.is_before(self.call) && !removal.is_before(end))
    }

    /// Whether the call shows that the version is gone after it was locked.
    fn is_gone_by(&self, call: &Call) -> bool {
        // Whoever names a version knows that it was there before. But there can have been several null versions.
        let names = !matches!(call.asked, Asked::List) && self.id != VersionId::Null;
        let after = if names { !call.is_before(self.call) } else { self.call.is_before(call) };
        after && (shows_gone(call, self.id) || self.id == VersionId::Null && replaces_null(call))
    }
}

fn deletes(call: &Call, id: VersionId) -> bool {
    matches!(&call.asked, Asked::DeleteVersion { id: deleted, .. } if *deleted == id) && call.answer == Answer::Done
}

/// Whether the version may have gone by this call.
fn removes(call: &Call, id: VersionId) -> bool {
    match (&call.asked, &call.answer) {
        // That of a current version adds a marker.
        (Asked::Expire { found, .. }, Answer::Expired(expired)) if expired.versions > 0 => {
            found.iter().any(|entry| entry.id == id && entry.place != ExpiredPlace::Current)
        }
        _ => deletes(call, id),
    }
}

fn replaces_null(call: &Call) -> bool {
    matches!((&call.asked, &call.answer), (Asked::Put { .. } | Asked::Delete { .. }, Answer::Made(VersionId::Null, _)))
}

/// Whether the call shows that there is no such version.
fn shows_gone(call: &Call, id: VersionId) -> bool {
    match (&call.asked, &call.answer) {
        (Asked::List, Answer::Listed(listed)) => listed.iter().all(|(there, _)| *there != id),
        (Asked::Version(named), Answer::Shown(None)) => *named == id,
        (Asked::Tag { name, .. } | Asked::Hold { name, .. } | Asked::Retain { name, .. }, Answer::Refused(why)) => {
            *name == Some(id) && *why == NO_VERSION
        }
        _ => deletes(call, id),
    }
}

/// Whether the call shows that the version is there.
fn shows_there(call: &Call, id: VersionId) -> bool {
    match &call.answer {
        Answer::Made(there, _) | Answer::Changed(there) => *there == id,
        Answer::Shown(Some(shown)) => shown.id == id,
        Answer::Listed(listed) => listed.iter().any(|(there, _)| *there == id),
        _ => false,
    }
}

/// The versions that somebody was told of.
fn known(calls: &[Call]) -> Vec<VersionId> {
    let mut known = Vec::new();
    for call in calls {
        match &call.answer {
            Answer::Made(id, _) => known.push(*id),
            Answer::Listed(listed) => known.extend(listed.iter().map(|(id, _)| *id)),
            _ => {}
        }
    }
    known.sort_unstable();
    known.dedup();
    known
}

/// The mode of the default retention at every moment of the call, if there was only one that it can have been.
fn default_during(put: &Call, calls: &[Call]) -> Option<Retained> {
    let changes = || {
        calls.iter().filter_map(|call| match (&call.asked, &call.answer) {
            (Asked::ObjectLock { default }, Answer::Done) => Some((call, *default)),
            _ => None,
        })
    };
    let mut in_force = changes().filter(|(call, _)| {
        let replaced = changes().any(|(later, _)| call.is_before(later) && later.is_before(put));
        !put.is_before(call) && !replaced
    });
    let (call, default) = in_force.next()?;
    let certain = in_force.next().is_none() && call.is_before(put);
    default.filter(|_| certain).map(|compliance| Retained { compliance, until_ms: 0 })
}

/// The locks that somebody was told of.
fn locks(calls: &[Call]) -> Vec<Locked<'_>> {
    let mut locks = Vec::new();
    for call in calls {
        let mut add = |id, attributes: &Attributes| {
            locks.extend(Lock::all(attributes).map(|by| Locked { call, id, by }));
        };
        match (&call.asked, &call.answer) {
            (Asked::Put { attributes, .. }, Answer::Made(id, _)) => {
                let retention = attributes.retention.or_else(|| default_during(call, calls));
                add(*id, &Attributes { retention, ..attributes.clone() });
            }
            (Asked::Hold { on, .. }, Answer::Changed(id)) => {
                add(*id, &Attributes { hold: Some(*on), ..Attributes::default() });
            }
            (Asked::Retain { retained, .. }, Answer::Changed(id)) => {
                add(*id, &Attributes { retention: *retained, ..Attributes::default() });
            }
            (_, Answer::Shown(Some(shown))) => add(shown.id, &shown.attributes),
            _ => {}
        }
    }
    locks
}

/// No version that was locked is gone, unless something removed it that the lock permits, or after the lock had ended.
pub fn nothing_locked_is_gone(calls: &[Call]) {
    for locked in locks(calls) {
        let removals = || calls.iter().filter(|call| removes(call, locked.id) && !call.is_before(locked.call));
        for gone in calls.iter().filter(|call| locked.is_gone_by(call)) {
            let mut before = removals().filter(|removal| !gone.is_before(removal));
            assert!(
                before.any(|removal| locked.permits(removal, calls)),
                "{:?}, locked by {:?}, is gone in {gone:?}:\n{}",
                locked.id,
                locked.by,
                order::told(calls)
            );
        }
    }
}

/// No version is gone without anybody who may have removed it, since it was there last.
pub fn nothing_is_gone_by_itself(calls: &[Call]) {
    for id in known(calls) {
        for gone in calls.iter().filter(|call| shows_gone(call, id)) {
            let there = calls.iter().filter(|call| shows_there(call, id) && call.is_before(gone));
            let Some(there) = there.max_by_key(|call| call.begin()) else { continue };
            let removed = |call: &Call| !call.is_before(there) && !gone.is_before(call) && removes(call, id);
            assert!(
                calls.iter().any(removed),
                "nobody removed {id:?}, which is there in {there:?} and gone in {gone:?}:\n{}",
                order::told(calls)
            );
        }
    }
}
