//! The versions of one key, as far as the records that are not in the index yet tell.
//!
//! Invariants. Of the versions of a key, one with a higher sequence is newer. Records leave in the order of their
//! sequences, so while a version is here, every later one of its key is here too: the newest one here is newer than all
//! that only the index has. If none is here, the newest one that the index has and that no record here ends is the
//! newest of the key. A record ends the versions that have its version id and a lower sequence. In a bucket that never
//! had versioning a key has one version, so its end leaves nothing in the index to ask for.

use std::collections::BTreeMap;
use std::sync::Arc;

use orcas_base::planted::{self, Bug};
use orcas_record::{Attributes, Object, Sequence, Version, VersionId};

/// The newest change to something; `None` when it is gone.
#[derive(Clone, Debug)]
pub struct Change<T> {
    pub sequence: Sequence,
    pub value: Option<T>,
}

/// Never empty.
pub enum KeyChanges {
    /// A change of a key with a single version: the version, or its end.
    Single(Change<Arc<Object>>),
    Several(Box<Versions>),
}

/// The changes of the versions of one key.
#[derive(Default)]
pub struct Versions {
    by_id: BTreeMap<VersionId, VersionChange>,
    /// The versions that records here brought and none has ended.
    live: BTreeMap<Sequence, Arc<Object>>,
}

/// The change of one version id. One of the fields is set.
#[derive(Default)]
struct VersionChange {
    /// The record that brought the newest version with this id, or ended it.
    put_or_end: Option<Sequence>,
    /// Attributes that were set since.
    update: Option<Update>,
}

#[derive(Clone)]
struct Update {
    sequence: Sequence,
    /// The sequence of the record that brought the version.
    version: Sequence,
    attributes: Attributes,
}

/// The current version of a key, by its changes.
pub enum Current<'a> {
    Object(&'a Arc<Object>),
    /// No version, or a delete marker.
    None,
    /// The index knows, once the changes are taken into account.
    Below,
}

impl KeyChanges {
    pub fn put(&mut self, object: Arc<Object>) {
        let change = Change { sequence: object.sequence, value: Some(object) };
        match self {
            Self::Single(there) if id_of(there) == id_of(&change) => *there = change,
            _ => self.several().put(change),
        }
    }

    /// Notes the end of a version of a key that may have others.
    pub fn end(&mut self, sequence: Sequence, id: VersionId) {
        self.several().end(sequence, id);
    }

    pub fn update(&mut self, sequence: Sequence, id: VersionId, version: Sequence, attributes: &Attributes) {
        self.several().update(id, Update { sequence, version, attributes: attributes.clone() });
    }

    fn several(&mut self) -> &mut Versions {
        if let Self::Single(change) = self {
            let mut versions = Versions::default();
            match &change.value {
                Some(_) => versions.put(change.clone()),
                None => versions.end(change.sequence, VersionId::Null),
            }
            *self = Self::Several(Box::new(versions));
        }
        match self {
            Self::Several(versions) => versions,
            Self::Single(_) => unreachable!("it was replaced above"),
        }
    }

    /// Removes what the record put here, unless something newer has replaced it. True when nothing is left.
    pub fn trim(&mut self, sequence: Sequence, id: VersionId) -> bool {
        match self {
            Self::Single(change) => change.sequence == sequence,
            Self::Several(versions) => {
                versions.trim(sequence, id);
                versions.by_id.is_empty()
            }
        }
    }

    pub fn current(&self) -> Current<'_> {
        let newest = match self {
            Self::Single(change) => change.value.as_ref(),
            Self::Several(versions) => match versions.live.last_key_value() {
                Some((_, object)) => Some(object),
                None => return Current::Below,
            },
        };
        match newest {
            Some(object) if !object.version.delete_marker => Current::Object(object),
            _ => Current::None,
        }
    }

    /// The sequence of the newest version here, or of the end of the only one; 0 when the index has the newest.
    pub fn newest_sequence(&self) -> Sequence {
        match self {
            Self::Single(change) => change.sequence,
            Self::Several(versions) => versions.live.last_key_value().map_or(0, |(sequence, _)| *sequence),
        }
    }

    fn version(&self, id: VersionId) -> Option<&Arc<Object>> {
        match self {
            Self::Single(change) => change.value.as_ref().filter(|object| object.version.version_id == id),
            Self::Several(versions) => versions.live.get(&versions.by_id.get(&id)?.put_or_end?),
        }
    }

    /// The version that this record brought, unless another one has ended it.
    pub fn brought_by(&self, sequence: Sequence) -> Option<&Arc<Object>> {
        match self {
            Self::Single(change) => change.value.as_ref().filter(|object| object.sequence == sequence),
            Self::Several(versions) => versions.live.get(&sequence),
        }
    }

    /// The versions here, newest first.
    pub fn live(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.live_before(Sequence::MAX)
    }

    /// The live versions with a lower sequence than `before`.
    pub fn live_before(&self, before: Sequence) -> impl Iterator<Item = &Arc<Object>> {
        let (single, several) = match self {
            Self::Single(change) => (change.value.as_ref().filter(|object| object.sequence < before), None),
            Self::Several(versions) => (None, Some(versions.live.range(..before).map(|(_, object)| object).rev())),
        };
        single.into_iter().chain(several.into_iter().flatten())
    }

    /// The record here that brought the newest version with this id, or ended it, and the attributes that were set since.
    fn of_id(&self, id: VersionId) -> (Option<Sequence>, Option<&Update>) {
        match self {
            Self::Single(change) => (Some(change.sequence).filter(|_| id_of(change) == id), None),
            Self::Several(versions) => {
                let there = versions.by_id.get(&id);
                (there.and_then(|there| there.put_or_end), there.and_then(|there| there.update.as_ref()))
            }
        }
    }

    /// As [`NewerChanges::hide`] with these changes alone.
    pub fn hide(&self, id: VersionId, sequence: Sequence) -> bool {
        self.of_id(id).0.is_some_and(|end| sequence <= end)
    }
}

fn id_of(change: &Change<Arc<Object>>) -> VersionId {
    change.value.as_ref().map_or(VersionId::Null, |object| object.version.version_id)
}

impl Versions {
    fn put(&mut self, change: Change<Arc<Object>>) {
        let id = id_of(&change);
        self.end(change.sequence, id);
        self.live.extend(change.value.map(|object| (change.sequence, object)));
    }

    fn end(&mut self, sequence: Sequence, id: VersionId) {
        let there = self.by_id.entry(id).or_default();
        if let Some(former) = there.put_or_end {
            self.live.remove(&former);
            if planted::is(Bug::OlderVersionShown) {
                self.live.pop_last();
            }
        }
        *there = VersionChange { put_or_end: Some(sequence), update: None };
    }

    fn update(&mut self, id: VersionId, update: Update) {
        if let Some(object) = self.live.get_mut(&update.version) {
            *object = update.shown(object);
        }
        self.by_id.entry(id).or_default().update = Some(update);
    }

    fn trim(&mut self, sequence: Sequence, id: VersionId) {
        let Some(there) = self.by_id.get_mut(&id) else { return };
        if there.put_or_end == Some(sequence) {
            there.put_or_end = None;
            self.live.remove(&sequence);
        }
        there.update.take_if(|update| update.sequence == sequence);
        if there.put_or_end.is_none() && there.update.is_none() {
            self.by_id.remove(&id);
        }
    }
}

impl Update {
    fn shown(&self, object: &Arc<Object>) -> Arc<Object> {
        let version = Version { attributes: self.attributes.clone(), ..object.version.clone() };
        Arc::new(Object { sequence: object.sequence, version })
    }
}

/// Changes of a key that hide or change versions below them: in the published overlay, or in the index.
#[derive(Default)]
pub struct NewerChanges {
    ended: BTreeMap<VersionId, Sequence>,
    updates: BTreeMap<VersionId, Update>,
}

/// The state of a version, as far as it is known before the index is asked.
pub enum Known {
    Object(Arc<Object>),
    Gone,
    Below,
}

impl NewerChanges {
    pub fn of(recent: &KeyChanges) -> Self {
        let mut changes = Self::default();
        changes.add(recent);
        changes
    }

    /// Adds changes that are older. Costs as much as there are: not to be called for each version of a key.
    fn add(&mut self, recent: &KeyChanges) {
        match recent {
            KeyChanges::Single(change) => self.add_of(recent, id_of(change)),
            KeyChanges::Several(versions) => versions.by_id.keys().for_each(|id| self.add_of(recent, *id)),
        }
    }

    /// Adds those that concern one version id.
    fn add_of(&mut self, recent: &KeyChanges, id: VersionId) {
        #[cfg(debug_assertions)]
        ADDED.with(|added| added.set(added.get() + 1));
        let (end, update) = recent.of_id(id);
        if let Some(sequence) = end {
            let end = self.ended.entry(id).or_insert(sequence);
            *end = sequence.max(*end);
        }
        if let Some(update) = update {
            self.updates.entry(id).or_insert_with(|| update.clone());
        }
    }

    /// Whether a version below has been ended, or is one of those above.
    pub fn hide(&self, id: VersionId, sequence: Sequence) -> bool {
        self.ended.get(&id).is_some_and(|end| sequence <= *end)
    }

    /// A version below as it is with these changes.
    pub fn shown(&self, object: Arc<Object>) -> Arc<Object> {
        match self.updates.get(&object.version.version_id) {
            Some(update) if update.version == object.sequence => update.shown(&object),
            _ => object,
        }
    }

    /// The newest version with a lower sequence than `before`, also a delete marker, by changes that are older. They are
    /// added when the index knows.
    pub fn newest_in(&mut self, recent: &KeyChanges, before: Sequence) -> Known {
        if let Some(object) =
            recent.live_before(before).find(|object| !self.hide(object.version.version_id, object.sequence))
        {
            return Known::Object(self.shown(Arc::clone(object)));
        }
        if matches!(recent, KeyChanges::Single(Change { value: None, .. })) {
            return Known::Gone;
        }
        self.add(recent);
        Known::Below
    }

    /// The version with this id, by changes that are older. They are added when the index knows.
    pub fn version_in(&mut self, recent: &KeyChanges, id: VersionId) -> Known {
        if self.ended.contains_key(&id) {
            return Known::Gone;
        }
        if let Some(object) = recent.version(id) {
            return Known::Object(self.shown(Arc::clone(object)));
        }
        self.add_of(recent, id);
        if self.ended.contains_key(&id) { Known::Gone } else { Known::Below }
    }
}

#[cfg(debug_assertions)]
thread_local! {
    /// Changes that this thread has copied.
    pub static ADDED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}
