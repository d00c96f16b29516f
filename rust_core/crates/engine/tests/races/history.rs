//! What clients ask about the versions of one key, and what they may be answered.

use orcas_decide::{Expired, ExpiredPlace};
use orcas_record::{Retention, RetentionMode, Sequence, VersionId, Versioning};

use crate::order;

/// What an operation that names a version is about; the current version if it is `None`.
pub type Name = Option<VersionId>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes {
    pub tag: Option<u64>,
    pub hold: Option<bool>,
    pub retention: Option<Retained>,
}

/// How long the default retention of a bucket lasts. No test outlives it, and clients can extend it.
pub const DEFAULT_DAYS: u32 = 20_000;
const DAY_MS: u64 = 86_400_000;

/// A retention that no test outlives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Retained {
    pub compliance: bool,
    pub until_ms: u64,
}

impl From<Retention> for Retained {
    fn from(retention: Retention) -> Self {
        Self { compliance: retention.mode == RetentionMode::Compliance, until_ms: retention.until_ms }
    }
}

impl From<Retained> for Retention {
    fn from(retained: Retained) -> Self {
        Self { mode: mode(retained.compliance), until_ms: retained.until_ms }
    }
}

pub fn mode(compliance: bool) -> RetentionMode {
    if compliance { RetentionMode::Compliance } else { RetentionMode::Governance }
}

/// A condition on the current version, or on the one that is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    None,
    /// `If-None-Match: *`
    Absent,
    /// `If-Match` with the entity tag of this content.
    Holds(usize),
}

#[derive(Clone, Debug)]
pub enum Asked {
    Put {
        content: usize,
        condition: Condition,
        /// Of the new version. It has no tags.
        attributes: Attributes,
    },
    /// A deletion that names no version.
    Delete {
        condition: Condition,
    },
    DeleteVersion {
        id: VersionId,
        bypass: bool,
        condition: Condition,
    },
    Tag {
        name: Name,
        tag: u64,
    },
    Hold {
        name: Name,
        on: bool,
    },
    Retain {
        name: Name,
        /// `None` to remove it.
        retained: Option<Retained>,
        bypass: bool,
    },
    Versioning(Versioning),
    /// Enables Object Lock, with this default retention: whether it is in compliance mode.
    ObjectLock {
        default: Option<bool>,
    },
    /// Gives the bucket the lifecycle document with this number.
    Rules(u64),
    /// Lets this expire, by the lifecycle document with this number.
    Expire {
        rules: u64,
        found: Vec<Found>,
    },
    Current,
    Version(VersionId),
    List,
}

/// A version that was found to expire.
#[derive(Clone, Debug)]
pub struct Found {
    pub id: VersionId,
    pub sequence: Sequence,
    pub place: ExpiredPlace,
    /// The tag that it had, if that matters.
    pub tag: Option<Option<u64>>,
}

/// A version as a read shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shown {
    pub id: VersionId,
    pub sequence: Sequence,
    /// `None` for a delete marker.
    pub content: Option<usize>,
    pub modified_ms: u64,
    pub attributes: Attributes,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A version was made, at this time if it is known: an object or a marker.
    Made(VersionId, Option<u64>),
    /// The attributes of this version were changed.
    Changed(VersionId),
    Done,
    Refused(&'static str),
    Shown(Option<Shown>),
    /// Ids, newest first, and which of them are delete markers.
    Listed(Vec<(VersionId, bool)>),
    Expired(Expired),
}

/// A version of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// `None` for the marker of an expiration until somebody is told its id.
    id: Option<VersionId>,
    /// `None` until a read shows it. A null version that no read has shown is not what an expiration found.
    sequence: Option<Sequence>,
    content: Option<usize>,
    modified_ms: u64,
    attributes: Attributes,
}

/// The versions of the key, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyState {
    pub lock: bool,
    /// The mode of the default retention, as in [`Asked::ObjectLock`].
    pub default: Option<bool>,
    pub suspended: bool,
    /// The number of the lifecycle document.
    pub rules: u64,
    pub versions: Vec<Held>,
}

pub const LOCKED: &str = "locked";
pub const PRECONDITION: &str = "precondition";
pub const NO_KEY: &str = "no such key";
pub const NO_VERSION: &str = "no such version";
pub const MARKER: &str = "delete marker";
pub const STATE: &str = "bucket state";
pub const INVALID: &str = "invalid";

impl KeyState {
    fn current(&self) -> Option<&Held> {
        self.versions.last().filter(|version| version.content.is_some())
    }

    fn find(&self, id: VersionId) -> Option<usize> {
        self.versions.iter().position(|version| version.id == Some(id))
    }

    fn check(of: Option<&Held>, condition: Condition) -> Option<&'static str> {
        match (condition, of) {
            (Condition::Absent, Some(_)) => Some(PRECONDITION),
            (Condition::Holds(_), None) => Some(NO_KEY),
            (Condition::Holds(content), Some(found)) if found.content != Some(content) => Some(PRECONDITION),
            _ => None,
        }
    }

    /// Why this may not be done, if it may not.
    fn refusal(&self, asked: &Asked) -> Option<&'static str> {
        match asked {
            Asked::Put { condition, attributes, .. } => {
                let locks = attributes.hold.is_some() || attributes.retention.is_some();
                Self::check(self.current(), *condition).or_else(|| (locks && !self.lock).then_some(INVALID))
            }
            Asked::Delete { condition } => Self::check(self.current(), *condition),
            Asked::DeleteVersion { id, bypass, condition } => {
                let found = self.find(*id).map(|at| &self.versions[at]);
                let object = found.filter(|found| found.content.is_some());
                Self::check(object, *condition)
                    .or_else(|| found.filter(|found| found.is_locked(*bypass)).map(|_| LOCKED))
            }
            Asked::Tag { name, .. } => self.named(*name).err(),
            Asked::Hold { .. } | Asked::Retain { .. } if !self.lock => Some(INVALID),
            Asked::Hold { name, .. } => self.named(*name).err(),
            Asked::Retain { name, retained, bypass } => match self.named(*name) {
                Ok(at) => {
                    self.versions[at].attributes.retention.filter(|old| !old.allows(*retained, *bypass)).map(|_| LOCKED)
                }
                Err(why) => Some(why),
            },
            Asked::Versioning(Versioning::Suspended) if self.lock => Some(STATE),
            Asked::ObjectLock { .. } if self.suspended => Some(STATE),
            Asked::Versioning(_)
            | Asked::ObjectLock { .. }
            | Asked::Rules(_)
            | Asked::Expire { .. }
            | Asked::Current
            | Asked::Version(_)
            | Asked::List => None,
        }
    }

    fn named(&self, name: Name) -> Result<usize, &'static str> {
        let (at, missing) = match name {
            Some(id) => (self.find(id), NO_VERSION),
            None => {
                let missing = if self.versions.is_empty() { NO_KEY } else { MARKER };
                (self.current().map(|_| self.versions.len() - 1), missing)
            }
        };
        let at = at.ok_or(missing)?;
        if self.versions[at].content.is_none() { Err(MARKER) } else { Ok(at) }
    }

    /// Adds a version, unless one of another bucket state would have been made.
    fn make(
        &mut self,
        id: VersionId,
        content: Option<usize>,
        modified_ms: Option<u64>,
        attributes: Attributes,
    ) -> Option<()> {
        if (id == VersionId::Null) != self.suspended {
            return None;
        }
        self.versions.retain(|version| version.id != Some(id));
        // Nobody is told when a marker was made.
        let modified_ms = modified_ms.unwrap_or_default();
        self.versions.push(Held { id: Some(id), sequence: None, content, modified_ms, attributes });
        Some(())
    }

    /// The attributes that an operation changes, unless it was another version whose attributes it changed.
    fn attributes(&mut self, name: Name, changed: VersionId) -> Option<&mut Attributes> {
        let at = self.named(name).expect("it was not refused");
        let version = &mut self.versions[at];
        (version.id == Some(changed)).then_some(&mut version.attributes)
    }

    /// Whether a read shows what is at this place. What the read alone tells is known from then on.
    fn is_shown(&mut self, at: Option<usize>, shown: Option<&Shown>) -> Option<()> {
        let (at, shown) = match (at, shown) {
            (Some(at), Some(shown)) => (at, shown),
            (None, None) => return Some(()),
            _ => return None,
        };
        let Shown { id, sequence, content, modified_ms, attributes } = shown.clone();
        let held = &mut self.versions[at];
        held.sequence.get_or_insert(sequence);
        let expected = Held { id: Some(id), sequence: Some(sequence), content, modified_ms, attributes };
        (*held == expected).then_some(())
    }

    /// As [`KeyState::is_shown`], for a list.
    fn is_listed(&mut self, listed: &[(VersionId, bool)]) -> Option<()> {
        for (held, (id, _)) in self.versions.iter_mut().rev().zip(listed) {
            // The null version always has its id.
            if held.id.is_none() && *id != VersionId::Null {
                held.id = Some(*id);
            }
        }
        let lines = self.versions.iter().rev().map(|held| (held.id, held.content.is_none()));
        lines.eq(listed.iter().map(|(id, marker)| (Some(*id), *marker))).then_some(())
    }

    /// What of this expires. An entry has an effect only if its version is what was found, at the same place, and nothing
    /// locks it. An earlier entry changes nothing for a later one, except that it can replace the null version.
    fn expire(&mut self, rules: u64, found: &[Found]) -> Expired {
        let mut counts = Expired::default();
        if rules != self.rules {
            return Expired { changed: found.len() as u64, void: true, ..counts };
        }
        let before = self.clone();
        for entry in found {
            let at = before.versions.iter().position(|held| entry.is(held));
            let is_newest = at.is_some_and(|at| at + 1 == before.versions.len());
            let held = at.map(|at| &before.versions[at]).filter(|held| match entry.place {
                ExpiredPlace::Current => is_newest && held.content.is_some(),
                ExpiredPlace::LoneMarker => is_newest && held.content.is_none(),
                // If the marker of an expiration has replaced it, it is not there any more.
                ExpiredPlace::Noncurrent(_) => !is_newest && self.versions.contains(held),
                ExpiredPlace::Upload(_) => unreachable!("there are no uploads"),
            });
            let replaced = before.find(VersionId::Null).filter(|_| self.suspended).map(|at| &before.versions[at]);
            let removed = if entry.place == ExpiredPlace::Current { replaced } else { held };
            match held {
                None => counts.changed += 1,
                Some(_) if removed.is_some_and(|removed| removed.is_locked(false)) => counts.locked += 1,
                Some(_) if entry.place == ExpiredPlace::Current => {
                    self.versions.retain(|held| !self.suspended || held.id != Some(VersionId::Null));
                    let id = self.suspended.then_some(VersionId::Null);
                    let attributes = Attributes::default();
                    self.versions.push(Held { id, sequence: None, content: None, modified_ms: 0, attributes });
                    counts.markers += 1;
                }
                Some(removed) => {
                    self.versions.retain(|held| held != removed);
                    counts.versions += 1;
                }
            }
        }
        counts
    }

    /// The attributes of a new object, with the default retention if it has none of its own.
    fn with_default(&self, attributes: &Attributes, modified_ms: Option<u64>) -> Attributes {
        let until_ms = modified_ms.unwrap_or_default() + u64::from(DEFAULT_DAYS) * DAY_MS;
        let default = self.default.map(|compliance| Retained { compliance, until_ms });
        Attributes { retention: attributes.retention.or(default), ..attributes.clone() }
    }
}

impl order::State for KeyState {
    type Asked = Asked;
    type Answer = Answer;

    fn after(&self, asked: &Asked, answer: &Answer) -> Option<Self> {
        if let Some(why) = self.refusal(asked) {
            return (*answer == Answer::Refused(why)).then(|| self.clone());
        }
        let mut next = self.clone();
        match (asked, answer) {
            (Asked::Put { content, attributes, .. }, Answer::Made(id, modified_ms)) => {
                let attributes = self.with_default(attributes, *modified_ms);
                next.make(*id, Some(*content), *modified_ms, attributes)?;
            }
            (Asked::Delete { .. }, Answer::Made(id, modified_ms)) => {
                next.make(*id, None, *modified_ms, Attributes::default())?;
            }
            (Asked::DeleteVersion { id, .. }, Answer::Done) => next.versions.retain(|version| version.id != Some(*id)),
            (Asked::Tag { name, tag }, Answer::Changed(id)) => next.attributes(*name, *id)?.tag = Some(*tag),
            (Asked::Hold { name, on }, Answer::Changed(id)) => next.attributes(*name, *id)?.hold = Some(*on),
            (Asked::Retain { name, retained, .. }, Answer::Changed(id)) => {
                next.attributes(*name, *id)?.retention = *retained;
            }
            (Asked::Versioning(versioning), Answer::Done) => next.suspended = *versioning == Versioning::Suspended,
            (Asked::ObjectLock { default }, Answer::Done) => (next.lock, next.default) = (true, *default),
            (Asked::Rules(rules), Answer::Done) => next.rules = *rules,
            (Asked::Expire { rules, found }, Answer::Expired(expired)) => {
                return (next.expire(*rules, found) == *expired).then_some(next);
            }
            (Asked::Current, Answer::Shown(shown)) => {
                let at = self.current().map(|_| self.versions.len() - 1);
                next.is_shown(at, shown.as_ref())?;
            }
            (Asked::Version(id), Answer::Shown(shown)) => next.is_shown(self.find(*id), shown.as_ref())?,
            (Asked::List, Answer::Listed(listed)) => next.is_listed(listed)?,
            _ => return None,
        }
        Some(next)
    }
}

impl Retained {
    fn allows(self, new: Option<Self>, bypass: bool) -> bool {
        let extends = new.is_some_and(|new| new.compliance == self.compliance && new.until_ms >= self.until_ms);
        extends || bypass && !self.compliance
    }
}

impl Found {
    fn is(&self, held: &Held) -> bool {
        let same = match self.id {
            VersionId::Null => held.sequence == Some(self.sequence),
            VersionId::Named(_) => held.id == Some(self.id),
        };
        same && self.tag.is_none_or(|tag| tag == held.attributes.tag)
    }
}

impl Held {
    fn is_locked(&self, bypass: bool) -> bool {
        let Attributes { hold, retention, .. } = &self.attributes;
        *hold == Some(true) || retention.is_some_and(|retained| retained.compliance || !bypass)
    }
}
