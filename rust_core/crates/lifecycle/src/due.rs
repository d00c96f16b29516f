//! When a version or an upload expires.

use bytes::Bytes;

use super::rules::{Expiration, Filter, Noncurrent, Rule, Rules, Tag};

/// What the rules need to know of a version or an upload.
#[derive(Clone, Copy)]
pub struct EntryFacts<'a> {
    pub key: &'a [u8],
    /// Bytes; 0 for a delete marker.
    pub size: u64,
    /// The time of the last modification, or of the initiation of an upload. Milliseconds since the Unix epoch.
    pub modified_ms: u64,
    /// Keys and values. Not asked for if [`Rules::needs_tags`] is false.
    pub tags: &'a [(Bytes, Bytes)],
}

/// What a version is among those of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// The current version, which is no delete marker.
    Current,
    /// A delete marker that is the only version of its key.
    LoneMarker,
    /// Not the newest; may be a delete marker.
    Noncurrent {
        /// When the next newer version came.
        since_ms: u64,
        /// Newer versions that are noncurrent and stay.
        newer: u64,
    },
    /// An upload that is not complete.
    Upload,
}

impl EntryState {
    /// Whether what is there has tags and a size.
    fn has_tags(self) -> bool {
        match self {
            Self::Current | Self::Noncurrent { .. } => true,
            Self::LoneMarker | Self::Upload => false,
        }
    }
}

/// When something expires, and by which rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due<'r> {
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    pub rule: &'r Rule,
}

impl Rules {
    /// When a version expires: the earliest time that an enabled rule gives. `None` if no rule applies to it.
    /// `day_ms` is the length of a day.
    pub fn due(&self, facts: &EntryFacts<'_>, place: EntryState, day_ms: u64) -> Option<Due<'_>> {
        let tags = if place.has_tags() { facts.tags } else { &[] };
        let tagged = tags.iter().flat_map(|(key, value)| self.asking_for(key, value));
        let due = |at: usize| {
            let rule = &self.all()[at];
            let at_ms = rule.due_ms(facts, place, day_ms)?;
            rule.filter.admits(facts, place).then_some((at_ms, at))
        };
        // Of several at the same time, the first rule of the document.
        let (at_ms, at) = self.untagged_for(facts.key).chain(tagged).filter_map(due).min()?;
        Some(Due { at_ms, rule: &self.all()[at] })
    }

    /// Whether the tags of an object of this key and size matter.
    pub fn needs_tags(&self, key: &[u8], size: u64) -> bool {
        let mut tagged = self.tagged_for(key).map(|at| &self.all()[at]);
        tagged.any(|rule| rule.expires_versions() && rule.filter.admits_all_but_tags(key, size))
    }

    /// The prefixes of all keys whose versions may expire, in ascending order; none of them begins with another.
    pub fn prefixes(&self) -> Vec<&[u8]> {
        self.prefixes_of(Rule::expires_versions)
    }

    /// The prefixes of all keys whose uploads may be aborted, likewise.
    pub fn upload_prefixes(&self) -> Vec<&[u8]> {
        self.prefixes_of(|rule| rule.abort_days.is_some())
    }

    fn prefixes_of(&self, acts: impl Fn(&Rule) -> bool) -> Vec<&[u8]> {
        let enabled = self.all().iter().filter(|rule| rule.enabled && acts(rule));
        let mut prefixes: Vec<&[u8]> = enabled.map(|rule| &rule.filter.prefix[..]).collect();
        prefixes.sort_unstable();
        // After sorting, a prefix stands directly before what begins with it.
        prefixes.dedup_by(|longer, shorter| longer.starts_with(shorter));
        prefixes
    }
}

impl Rule {
    fn expires_versions(&self) -> bool {
        self.expiration.is_some_and(|expiration| expiration != Expiration::Markers(false)) || self.noncurrent.is_some()
    }

    fn due_ms(&self, facts: &EntryFacts<'_>, place: EntryState, day_ms: u64) -> Option<u64> {
        match place {
            EntryState::Current => match self.expiration? {
                Expiration::Days(days) => Some(after_days(facts.modified_ms, days, day_ms)),
                Expiration::Date(at_ms) => Some(at_ms),
                Expiration::Markers(_) => None,
            },
            EntryState::LoneMarker => match self.expiration? {
                Expiration::Days(days) => Some(after_days(facts.modified_ms, days, day_ms)),
                Expiration::Date(at_ms) => Some(at_ms),
                Expiration::Markers(true) => Some(facts.modified_ms),
                Expiration::Markers(false) => None,
            },
            EntryState::Noncurrent { since_ms, newer } => {
                let Noncurrent { days, newer: kept } = self.noncurrent?;
                (newer >= u64::from(kept)).then(|| after_days(since_ms, days, day_ms))
            }
            EntryState::Upload => Some(after_days(facts.modified_ms, self.abort_days?, day_ms)),
        }
    }
}

impl Filter {
    fn admits(&self, facts: &EntryFacts<'_>, place: EntryState) -> bool {
        if !place.has_tags() {
            let has_no_size = self.greater_than.is_none() && self.less_than.is_none();
            return facts.key.starts_with(&self.prefix) && self.tags.is_empty() && has_no_size;
        }
        let has = |(key, value): &Tag| facts.tags.iter().any(|(there, of)| *there == key && *of == value);
        self.admits_all_but_tags(facts.key, facts.size) && self.tags.iter().all(has)
    }

    fn admits_all_but_tags(&self, key: &[u8], size: u64) -> bool {
        key.starts_with(&self.prefix)
            && self.greater_than.is_none_or(|bound| size > bound)
            && self.less_than.is_none_or(|bound| size < bound)
    }
}

/// The beginning of the day after the one that is `days` days after `from_ms`, as S3 rounds: what was stored at 10:30
/// and lives for 3 days expires at midnight 3.5 days later.
fn after_days(from_ms: u64, days: u32, day_ms: u64) -> u64 {
    let day_ms = day_ms.max(1);
    let passed = from_ms.saturating_add(u64::from(days).saturating_mul(day_ms));
    (passed / day_ms).saturating_add(1).saturating_mul(day_ms)
}
