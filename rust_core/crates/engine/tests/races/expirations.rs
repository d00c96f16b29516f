//! Clients that let versions expire: they look at the key as a walk of the lifecycle does, others go on, and what was found
//! is submitted. Only what is still as it was found may go.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use orcas_decide::{ExpireEntry, ExpiredPlace};
use orcas_record::VersionId;
use shuttle::thread;

use crate::history::{Answer, Asked, Found, KeyState, Shown};
use crate::order::Call;
use crate::versions::{Client, KEY, shown};

/// Lifecycle documents that a bucket can have.
pub const RULES: u64 = 2;
/// Turns that others get at most between the search and the expiration.
const TURNS: u64 = 40;

/// What expirations have to do at least in a thousand schedules, so that a quiet suite means something.
const EXPIRED_MIN: u64 = 400;
const CHANGED_MIN: u64 = 400;
const LOCKED_MIN: u64 = 100;

/// The lifecycle document with this number. The engine only compares it.
pub fn document(rules: u64) -> Bytes {
    format!("<LifecycleConfiguration>{rules}</LifecycleConfiguration>").into()
}

impl Found {
    pub fn entry(&self) -> ExpireEntry {
        let tags = |tag: Option<u64>| tag.map(|tag| ("tag".into(), tag.to_string().into())).into_iter().collect();
        ExpireEntry { key: KEY.into(), sequence: self.sequence, place: self.place, tags: self.tag.map(tags) }
    }
}

impl Client {
    pub fn expire(&mut self) {
        let rules = self.shared.rules.load(Ordering::Relaxed);
        let found = self.find();
        (0..self.rng.below(TURNS)).for_each(|_| thread::yield_now());
        if !found.is_empty() {
            self.ask(Asked::Expire { rules, found });
        }
    }

    /// Versions that there are, at their places.
    fn find(&mut self) -> Vec<Found> {
        let null_before = self.shared.knows(VersionId::Null).then(|| self.version(VersionId::Null)).flatten();
        let Answer::Listed(listed) = self.ask(Asked::List) else { unreachable!("a list") };
        let mut found = Vec::new();
        for (newer, (id, marker)) in listed.iter().enumerate() {
            let version = match id {
                // The judge takes the null version that was found for the one that he sees here.
                VersionId::Null => match self.ask(Asked::Version(*id)) {
                    Answer::Shown(shown) => {
                        shown.filter(|shown| null_before.as_ref().is_some_and(|it| it.sequence == shown.sequence))
                    }
                    _ => unreachable!("a version"),
                },
                VersionId::Named(_) => self.version(*id),
            };
            let place = match (newer, marker) {
                (0, false) => ExpiredPlace::Current,
                (0, true) if listed.len() == 1 => ExpiredPlace::LoneMarker,
                (0, true) => continue,
                _ => ExpiredPlace::Noncurrent(*id),
            };
            let Some(version) = version.filter(|_| self.rng.below(4) > 0) else { continue };
            let tag = (!marker && self.rng.below(2) == 0).then_some(version.attributes.tag);
            found.push(Found { id: *id, sequence: version.sequence, place, tag });
        }
        found
    }

    fn version(&self, id: VersionId) -> Option<Shown> {
        self.handle.version(self.bucket.id, &KEY.into(), id).unwrap().as_ref().map(shown)
    }
}

/// What became of what clients let expire.
#[derive(Default)]
pub struct Tally {
    expired: AtomicU64,
    changed: AtomicU64,
    locked: AtomicU64,
}

impl Tally {
    pub fn add(&self, calls: &[Call<KeyState>]) {
        for call in calls {
            if let Answer::Expired(counts) = &call.answer {
                self.expired.fetch_add(counts.versions + counts.markers, Ordering::Relaxed);
                self.changed.fetch_add(counts.changed, Ordering::Relaxed);
                self.locked.fetch_add(counts.locked, Ordering::Relaxed);
            }
        }
    }

    /// Whether it was enough for so many thousands of schedules.
    pub fn check(&self, thousands: u64) {
        let [expired, changed, locked] =
            [&self.expired, &self.changed, &self.locked].map(|count| count.load(Ordering::Relaxed));
        println!("{expired} versions expired, {changed} had changed, and {locked} were locked");
        assert!(expired >= EXPIRED_MIN * thousands && changed >= CHANGED_MIN * thousands);
        assert!(locked >= LOCKED_MIN * thousands);
    }
}
