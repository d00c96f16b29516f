//! What is gone, and whether it may be. This looks at the answers alone, without the model: a version is there until a
//! deletion names it, or an expiration that had found it. If somebody was told that it is locked, the deletion is one that
//! the lock permits, or the lock had ended.
//!
//! Of operations that overlap, each may have been the first.

use orcas_decide::ExpiredPlace;
use orcas_record::VersionId;

use crate::history::{Answer, Asked, Attributes, KeyState, NO_VERSION, Retained};
use crate::order;

type Event = order::Event<KeyState>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lock {
    Hold,
    Governance,
    Compliance,
}

/// That a version was locked at some moment of an event.
struct Locked<'a> {
    event: &'a Event,
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
    /// Whether the event ended this lock. Only the removal of a retention does: nothing replaces it by a weaker one.
    fn ends_with(&self, event: &Event) -> bool {
        let ends = match &event.asked {
            Asked::Hold { on: false, .. } => self.by == Lock::Hold,
            Asked::Retain { retained: None, bypass: true, .. } => self.by == Lock::Governance,
            _ => false,
        };
        ends && event.answer == Answer::Changed(self.id)
    }

    /// Whether this removal is one that the lock permits, or that may have come after the end of the lock.
    fn permits(&self, removal: &Event, events: &[Event]) -> bool {
        let bypasses = matches!(removal.asked, Asked::DeleteVersion { bypass: true, .. });
        let mut ends = events.iter().filter(|event| self.ends_with(event));
        bypasses && self.by == Lock::Governance || ends.any(|end| !end.is_before(self.event) && !removal.is_before(end))
    }

    /// Whether the event shows that the version is gone after it was locked.
    fn is_gone_by(&self, event: &Event) -> bool {
        // Whoever names a version knows that it was there before. But there can have been several null versions.
        let names = !matches!(event.asked, Asked::List) && self.id != VersionId::Null;
        let after = if names { !event.is_before(self.event) } else { self.event.is_before(event) };
        after && (shows_gone(event, self.id) || self.id == VersionId::Null && replaces_null(event))
    }
}

fn deletes(event: &Event, id: VersionId) -> bool {
    matches!(&event.asked, Asked::DeleteVersion { id: deleted, .. } if *deleted == id) && event.answer == Answer::Done
}

/// Whether the version may have gone by this event.
fn removes(event: &Event, id: VersionId) -> bool {
    match (&event.asked, &event.answer) {
        // That of a current version adds a marker.
        (Asked::Expire { found, .. }, Answer::Expired(expired)) if expired.versions > 0 => {
            found.iter().any(|entry| entry.id == id && entry.place != ExpiredPlace::Current)
        }
        _ => deletes(event, id),
    }
}

fn replaces_null(event: &Event) -> bool {
    matches!(
        (&event.asked, &event.answer),
        (Asked::Put { .. } | Asked::Delete { .. }, Answer::Made(VersionId::Null, _))
    )
}

/// Whether the event shows that there is no such version.
fn shows_gone(event: &Event, id: VersionId) -> bool {
    match (&event.asked, &event.answer) {
        (Asked::List, Answer::Listed(listed)) => listed.iter().all(|(there, _)| *there != id),
        (Asked::Version(named), Answer::Shown(None)) => *named == id,
        (Asked::Tag { name, .. } | Asked::Hold { name, .. } | Asked::Retain { name, .. }, Answer::Refused(why)) => {
            *name == Some(id) && *why == NO_VERSION
        }
        _ => deletes(event, id),
    }
}

/// Whether the event shows that the version is there.
fn shows_there(event: &Event, id: VersionId) -> bool {
    match &event.answer {
        Answer::Made(there, _) | Answer::Changed(there) => *there == id,
        Answer::Shown(Some(shown)) => shown.id == id,
        Answer::Listed(listed) => listed.iter().any(|(there, _)| *there == id),
        _ => false,
    }
}

/// The versions that somebody was told of.
fn known(events: &[Event]) -> Vec<VersionId> {
    let mut known = Vec::new();
    for event in events {
        match &event.answer {
            Answer::Made(id, _) => known.push(*id),
            Answer::Listed(listed) => known.extend(listed.iter().map(|(id, _)| *id)),
            _ => {}
        }
    }
    known.sort_unstable();
    known.dedup();
    known
}

/// The mode of the default retention at every moment of the event, if there was only one that it can have been.
fn default_during(put: &Event, events: &[Event]) -> Option<Retained> {
    let changes = || {
        events.iter().filter_map(|event| match (&event.asked, &event.answer) {
            (Asked::ObjectLock { default }, Answer::Done) => Some((event, *default)),
            _ => None,
        })
    };
    let mut in_force = changes().filter(|(event, _)| {
        let replaced = changes().any(|(later, _)| event.is_before(later) && later.is_before(put));
        !put.is_before(event) && !replaced
    });
    let (event, default) = in_force.next()?;
    let certain = in_force.next().is_none() && event.is_before(put);
    default.filter(|_| certain).map(|compliance| Retained { compliance, until_ms: 0 })
}

/// The locks that somebody was told of.
fn locks(events: &[Event]) -> Vec<Locked<'_>> {
    let mut locks = Vec::new();
    for event in events {
        let mut add = |id, attributes: &Attributes| {
            locks.extend(Lock::all(attributes).map(|by| Locked { event, id, by }));
        };
        match (&event.asked, &event.answer) {
            (Asked::Put { attributes, .. }, Answer::Made(id, _)) => {
                let retention = attributes.retention.or_else(|| default_during(event, events));
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
pub fn nothing_locked_is_gone(events: &[Event]) {
    for locked in locks(events) {
        let removals = || events.iter().filter(|event| removes(event, locked.id) && !event.is_before(locked.event));
        for gone in events.iter().filter(|event| locked.is_gone_by(event)) {
            let mut before = removals().filter(|removal| !gone.is_before(removal));
            assert!(
                before.any(|removal| locked.permits(removal, events)),
                "{:?}, locked by {:?}, is gone in {gone:?}:\n{}",
                locked.id,
                locked.by,
                order::told(events)
            );
        }
    }
}

/// No version is gone without anybody who may have removed it, since it was there last.
pub fn nothing_is_gone_by_itself(events: &[Event]) {
    for id in known(events) {
        for gone in events.iter().filter(|event| shows_gone(event, id)) {
            let there = events.iter().filter(|event| shows_there(event, id) && event.is_before(gone));
            let Some(there) = there.max_by_key(|event| event.begin()) else { continue };
            let removed = |event: &Event| !event.is_before(there) && !gone.is_before(event) && removes(event, id);
            assert!(
                events.iter().any(removed),
                "nobody removed {id:?}, which is there in {there:?} and gone in {gone:?}:\n{}",
                order::told(events)
            );
        }
    }
}
