//! Clients that change the versions of one key together: puts, delete markers, deletions of versions, tags, holds,
//! retention and expirations, with conditions, beside reclamation. Some order of the operations must explain every answer, also those given
//! after reclamation and after a start without the index; and no version is gone while it is locked (`gone.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use orcas_checksum::{Etag, Md5Hasher};
use orcas_decide::{
    AttributeChange, BucketChange, EtagMatch, Expire, Failure, Intent, Outcome, Precondition, PutObject, Refusal,
    UpdateVersion,
};
use orcas_engine::Handle;
use orcas_engine::scheduled::{Scheduled, leftovers};
use orcas_fs_testing::{SimDisk, SimRng};
use orcas_record::{
    Bucket, BucketSettings, DefaultRetention, DocumentKind, ObjectHeaders, ObjectLock, Period, Retention, VersionId,
    Versioning,
};
use parking_lot::Mutex;
use shuttle::thread;

use crate::client::body;
use crate::expirations::{RULES, Tally, document};
use crate::gone::{nothing_is_gone_by_itself, nothing_locked_is_gone};
use crate::history::{
    Answer, Asked, Attributes, Condition, DEFAULT_DAYS, Found, INVALID, KeyState, LOCKED, MARKER, NO_KEY, NO_VERSION,
    Name, PRECONDITION, Retained, STATE, Shown, mode,
};
use crate::order::Calls;
use crate::world::{Manifests, World, contents, environment};
use crate::{REBUILD_EVERY, asked_or, begin_to_reclaim, explore, reclaim_all, reclaim_beside};
use orcas_catalog::{ListVersions, ListedVersion, PinnedObject, VersionSink};

const SCHEDULES: u64 = 6_000;
pub const KEY: &str = "key";
/// Far behind every test.
const UNTIL_MS: u64 = 4_000_000_000_000;
const CONTENTS: u64 = 2;

/// What clients share without meeting at it: nothing here is a point at which the scheduler looks.
#[derive(Default)]
pub struct SharedByClients {
    calls: Calls<KeyState>,
    /// Ids of versions that somebody was told.
    known: Mutex<Vec<VersionId>>,
    /// The number of the last lifecycle document that somebody gave the bucket.
    pub rules: AtomicU64,
}

impl SharedByClients {
    pub fn knows(&self, id: VersionId) -> bool {
        self.known.lock().contains(&id)
    }

    fn learn(&self, id: VersionId) {
        let mut known = self.known.lock();
        if !known.contains(&id) {
            known.push(id);
        }
    }
}

pub struct Client {
    pub handle: Handle,
    pub bucket: Arc<Bucket>,
    pub shared: Arc<SharedByClients>,
    pub rng: SimRng,
}

#[derive(Default)]
struct Listed(Vec<(VersionId, bool)>);

impl VersionSink for Listed {
    fn version(&mut self, version: &ListedVersion<'_>) {
        assert_eq!(version.is_latest, self.0.is_empty(), "the first one is the latest");
        self.0.push((version.id, version.delete_marker));
    }

    fn prefix(&mut self, _: &[u8]) {
        unreachable!("no delimiter was given");
    }

    fn restart(&mut self) {
        self.0.clear();
    }
}

fn etag(content: usize) -> Etag {
    Etag::simple(Md5Hasher::digest(&contents()[content]))
}

fn precondition(condition: Condition) -> Precondition {
    match condition {
        Condition::None => Precondition::default(),
        Condition::Absent => Precondition { if_none_match_any: true, ..Precondition::default() },
        Condition::Holds(content) => {
            Precondition { if_match: Some(EtagMatch::List(vec![etag(content)])), ..Precondition::default() }
        }
    }
}

pub fn shown(found: &PinnedObject) -> Shown {
    let version = &found.object.version;
    let content = (0..contents().len()).find(|content| etag(*content) == version.etag);
    assert!(content.is_some() || version.delete_marker, "it holds what nobody wrote");
    let tag = |(_, tag): &(Bytes, Bytes)| String::from_utf8_lossy(tag).parse().unwrap();
    let attributes = &version.attributes;
    Shown {
        id: version.version_id,
        sequence: found.object.sequence,
        content: content.filter(|_| !version.delete_marker),
        modified_ms: if version.delete_marker { 0 } else { version.modified_ms },
        attributes: Attributes {
            tag: attributes.tags.first().map(tag),
            hold: attributes.legal_hold,
            retention: attributes.retention.map(Retained::from),
        },
    }
}

fn refused(refusal: &Refusal) -> Answer {
    Answer::Refused(match refusal {
        Refusal::ObjectLocked => LOCKED,
        Refusal::PreconditionFailed { .. } => PRECONDITION,
        Refusal::NoSuchKey => NO_KEY,
        Refusal::NoSuchVersion => NO_VERSION,
        Refusal::DeleteMarker => MARKER,
        Refusal::InvalidBucketState { .. } => STATE,
        Refusal::InvalidRequest { .. } => INVALID,
        other => panic!("{other:?}"),
    })
}

impl Client {
    fn new(handle: &Handle, bucket: &Arc<Bucket>, shared: &Arc<SharedByClients>, seed: u64) -> Self {
        let (handle, bucket, shared) = (handle.clone(), Arc::clone(bucket), Arc::clone(shared));
        Self { handle, bucket, shared, rng: SimRng::new(seed) }
    }

    fn run(mut self, operations: u64) {
        for _ in 0..operations {
            if self.rng.below(5) == 0 {
                self.expire();
            } else {
                let asked = self.choose();
                self.ask(asked);
            }
            if self.rng.below(3) == 0 {
                let read = self.read();
                self.ask(read);
            }
        }
    }

    fn id(&mut self) -> VersionId {
        let known = self.shared.known.lock();
        match known.len() {
            0 => VersionId::Null,
            // The last ones are those that others are most likely to ask for too.
            length => known[length - 1 - (self.rng.below(length.min(3) as u64) as usize)],
        }
    }

    fn name(&mut self) -> Name {
        let id = self.id();
        (self.rng.below(3) > 0).then_some(id)
    }

    fn choose(&mut self) -> Asked {
        let content = self.rng.below(CONTENTS) as usize;
        let condition = match self.rng.below(6) {
            0 => Condition::Absent,
            1 => Condition::Holds(content),
            _ => Condition::None,
        };
        let bypass = self.rng.below(2) == 0;
        match self.rng.below(22) {
            0..=4 => Asked::Put { content, condition, attributes: self.locks() },
            5..=7 => Asked::Delete { condition },
            8..=11 => {
                let condition = if condition == Condition::Absent { Condition::None } else { condition };
                Asked::DeleteVersion { id: self.id(), bypass, condition }
            }
            12..=13 => Asked::Tag { name: self.name(), tag: self.rng.below(100) },
            14..=15 => Asked::Hold { name: self.name(), on: self.rng.below(3) > 0 },
            16..=17 => {
                let retained = (self.rng.below(4) > 0).then(|| self.retained());
                Asked::Retain { name: self.name(), retained, bypass }
            }
            18 => Asked::ObjectLock { default: self.default() },
            19 => Asked::Rules(self.rng.below(RULES)),
            20 => Asked::Versioning(Versioning::Suspended),
            _ => Asked::Versioning(Versioning::Enabled),
        }
    }

    fn retained(&mut self) -> Retained {
        Retained { compliance: self.rng.below(2) == 0, until_ms: UNTIL_MS + self.rng.below(3) }
    }

    fn default(&mut self) -> Option<bool> {
        (self.rng.below(2) == 0).then(|| self.rng.below(2) == 0)
    }

    /// What a new version is locked by: mostly nothing.
    fn locks(&mut self) -> Attributes {
        match self.rng.below(8) {
            0 => Attributes { retention: Some(self.retained()), ..Attributes::default() },
            1 => Attributes { hold: Some(true), ..Attributes::default() },
            _ => Attributes::default(),
        }
    }

    fn read(&mut self) -> Asked {
        match self.rng.below(3) {
            0 => Asked::Current,
            1 => Asked::Version(self.id()),
            _ => Asked::List,
        }
    }

    pub fn ask(&self, asked: Asked) -> Answer {
        let mut told = Answer::Done;
        self.shared.calls.ask(asked, |asked| {
            told = self.answer(asked);
            told.clone()
        });
        // Only now, so that whoever names a version began after somebody had been told of it.
        match &told {
            Answer::Made(id, _) => self.shared.learn(*id),
            Answer::Listed(listed) => listed.iter().for_each(|(id, _)| self.shared.learn(*id)),
            _ => {}
        }
        told
    }

    fn answer(&self, asked: &Asked) -> Answer {
        let (bucket, key) = (self.bucket.id, Bytes::from(KEY));
        match asked {
            Asked::Current => Answer::Shown(self.current().as_ref().map(shown)),
            Asked::Version(id) => Answer::Shown(self.handle.version(bucket, &key, *id).unwrap().as_ref().map(shown)),
            Asked::List => {
                let list = ListVersions { bucket, prefix: key, delimiter: None, after: None, max_keys: 1_000 };
                let mut listed = Listed::default();
                assert!(self.handle.list_versions_to(&list, &mut listed).unwrap().is_none());
                Answer::Listed(listed.0)
            }
            _ => match self.handle.execute(self.intent(asked)) {
                Ok(Outcome::Put(put)) => Answer::Made(put.version_id.unwrap_or(VersionId::Null), Some(put.modified_ms)),
                Ok(Outcome::DeletedOne(deleted)) if matches!(asked, Asked::Delete { .. }) => {
                    Answer::Made(deleted.version_id.expect("a marker"), None)
                }
                Ok(Outcome::Updated(id)) => Answer::Changed(id.expect("there is versioning")),
                Ok(Outcome::Expired(expired)) => Answer::Expired(expired),
                Ok(_) => {
                    if let Asked::Rules(rules) = asked {
                        self.shared.rules.store(*rules, Ordering::Relaxed);
                    }
                    Answer::Done
                }
                Err(Failure::Refused(refusal)) => refused(&refusal),
                Err(other) => panic!("{other:?}"),
            },
        }
    }

    fn current(&self) -> Option<PinnedObject> {
        let key = Bytes::from(KEY);
        let found = match self.handle.try_object(self.bucket.id, &key) {
            Some(found) => found,
            None => self.handle.object(self.bucket.id, &key).unwrap(),
        }?;
        // To its end: what it holds stays, whatever becomes of the version.
        let mut reader = self.handle.content().reader(&found, 0, found.object.version.size - 1);
        let (mut bytes, mut piece) = (Vec::new(), vec![0; 2_000]);
        while let read @ 1.. = reader.read(&mut piece).unwrap() {
            bytes.extend_from_slice(&piece[..read]);
        }
        assert_eq!(Etag::simple(Md5Hasher::digest(&bytes)), found.object.version.etag);
        Some(found)
    }

    fn intent(&self, asked: &Asked) -> Intent {
        let (bucket, key) = (self.bucket.id, Bytes::from(KEY));
        let update = |name: &Name, change| {
            Intent::UpdateVersion(Box::new(UpdateVersion { bucket, key: key.clone(), version: *name, change }))
        };
        match asked {
            Asked::Put { content, condition, attributes } => {
                let bytes = &contents()[*content];
                Intent::PutObject(Box::new(PutObject {
                    bucket,
                    key,
                    modified_ms: None,
                    precondition: precondition(*condition),
                    size: bytes.len() as u64,
                    md5: Md5Hasher::digest(bytes),
                    sha256: None,
                    checksum: None,
                    headers: ObjectHeaders::default(),
                    attributes: orcas_record::Attributes {
                        legal_hold: attributes.hold,
                        retention: attributes.retention.map(Retention::from),
                        ..Default::default()
                    },
                    body: body(&self.handle, &self.bucket, bytes),
                }))
            }
            Asked::Delete { condition } => {
                let precondition = precondition(*condition);
                Intent::DeleteObject { bucket, key, version: None, precondition, bypass: false }
            }
            Asked::DeleteVersion { id, bypass, condition } => {
                let precondition = precondition(*condition);
                Intent::DeleteObject { bucket, key, version: Some(*id), precondition, bypass: *bypass }
            }
            Asked::Tag { name, tag } => {
                update(name, AttributeChange::Tags(vec![("tag".into(), tag.to_string().into())]))
            }
            Asked::Hold { name, on } => update(name, AttributeChange::LegalHold(*on)),
            Asked::Retain { name, retained, bypass } => {
                let retention = retained.map(Retention::from);
                update(name, AttributeChange::Retention { retention, bypass: *bypass })
            }
            Asked::Versioning(versioning) => {
                Intent::UpdateBucket { bucket, change: BucketChange::Versioning(*versioning) }
            }
            Asked::ObjectLock { default } => {
                let period = Period::Days(DEFAULT_DAYS);
                let default = default.map(|compliance| DefaultRetention { mode: mode(compliance), period });
                Intent::UpdateBucket { bucket, change: BucketChange::ObjectLock(ObjectLock { default }) }
            }
            Asked::Rules(rules) => {
                Intent::PutDocument { bucket, kind: DocumentKind::Lifecycle, document: document(*rules) }
            }
            Asked::Expire { rules, found } => {
                let entries = found.iter().map(Found::entry).collect();
                Intent::Expire(Box::new(Expire { bucket, document: document(*rules), top: None, entries }))
            }
            Asked::Current | Asked::Version(_) | Asked::List => unreachable!("a read"),
        }
    }

    /// What there is when the clients begin.
    fn prepare(&mut self, start: Start) {
        let put = |content, attributes| Asked::Put { content, condition: Condition::None, attributes };
        if matches!(start, Start::NullThenLock | Start::Null) {
            self.ask(Asked::Versioning(Versioning::Suspended));
            self.ask(put(0, Attributes::default()));
            self.ask(Asked::Versioning(Versioning::Enabled));
        }
        let locks = matches!(start, Start::Lock | Start::NullThenLock);
        if locks {
            let default = self.default();
            self.ask(Asked::ObjectLock { default });
        }
        let puts = self.rng.below(4);
        if puts == 3 {
            // Without a null version, the marker is alone.
            self.ask(Asked::Delete { condition: Condition::None });
        }
        for content in 0..puts % 3 {
            let attributes = if locks { self.locks() } else { Attributes::default() };
            self.ask(put(content as usize, attributes));
        }
        if start == Start::Null && self.rng.below(2) == 0 {
            self.ask(Asked::Versioning(Versioning::Suspended));
        }
    }

    /// Everything there is to see, for the judge.
    fn look(&self) {
        self.ask(Asked::List);
        self.ask(Asked::Current);
        let known = self.shared.known.lock().clone();
        known.into_iter().for_each(|id| drop(self.ask(Asked::Version(id))));
    }
}

/// The bucket as clients find it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// With Object Lock.
    Lock,
    /// With a null version, and Object Lock, which came later.
    NullThenLock,
    /// With a null version.
    Null,
    Plain,
}

/// A bucket that keeps versions.
fn create_bucket(handle: &Handle, lock: bool) -> Arc<Bucket> {
    let (name, owner, location) = ("b".into(), "root".into(), Default::default());
    let settings = BucketSettings::default();
    let create = Intent::CreateBucket {
        name,
        owner,
        location,
        settings,
        object_lock: lock,
        documents: vec![(DocumentKind::Lifecycle, document(0))],
    };
    let Ok(Outcome::Bucket(bucket)) = handle.execute(create) else { panic!("no bucket") };
    let change = BucketChange::Versioning(Versioning::Enabled);
    handle.execute(Intent::UpdateBucket { bucket: bucket.id, change }).unwrap();
    bucket
}

fn schedule(seed: u64, tally: &Tally) {
    let mut rng = SimRng::new(seed ^ 0x7e57);
    let world = World::new(seed, Manifests::Short);
    let disk = SimDisk::new();
    let (store, mut reclamation) = Scheduled::open(world.options.clone(), environment(&disk, seed)).unwrap();
    let handle = store.handle().clone();
    let start = [Start::Lock, Start::NullThenLock, Start::Null, Start::Plain][rng.below(4) as usize];
    let first =
        KeyState { lock: start == Start::Lock, default: None, suspended: false, rules: 0, versions: Vec::new() };
    let bucket = create_bucket(&handle, first.lock);
    let shared = Arc::new(SharedByClients::default());
    let mut watcher = Client::new(&handle, &bucket, &shared, seed);
    watcher.prepare(start);
    begin_to_reclaim(&mut reclamation, &mut rng);
    let left = Arc::new(AtomicU64::new(world.clients));
    let for_reclamation = Arc::clone(&left);
    let reclaimer = thread::spawn(move || reclaim_beside(reclamation, &for_reclamation));
    let running: Vec<_> = (0..world.clients)
        .map(|number| {
            let client = Client::new(&handle, &bucket, &shared, seed ^ (number + 1) << 40);
            let (left, operations) = (Arc::clone(&left), world.operations);
            thread::spawn(move || {
                client.run(operations);
                left.fetch_sub(1, Ordering::Relaxed);
            })
        })
        .collect();
    running.into_iter().for_each(|client| client.join().unwrap());
    let mut reclamation = reclaimer.join().unwrap();
    watcher.look();
    reclamation.refresh(true);
    reclaim_all(&handle, &mut reclamation);
    let found = leftovers(&handle).unwrap();
    assert!(found.is_empty(), "{found:#?}");
    drop((reclamation, handle));
    if seed.is_multiple_of(REBUILD_EVERY) {
        drop(watcher);
        store.close().unwrap();
        let (store, _) = Scheduled::open(world.options, environment(&disk, seed)).unwrap();
        Client::new(store.handle(), &bucket, &shared, seed).look();
        store.close().unwrap();
    } else {
        watcher.look();
        drop(watcher);
        store.close().unwrap();
    }
    shared.calls.judge(&first);
    shared.calls.with(|calls| tally.add(calls));
    shared.calls.with(nothing_is_gone_by_itself);
    shared.calls.with(nothing_locked_is_gone);
}

/// One order of the operations explains every answer.
#[test]
fn versions_of_a_key_change_one_after_the_other() {
    let seeds = asked_or(SCHEDULES);
    let thousands = (seeds.end - seeds.start) / 1_000;
    let tally = Arc::new(Tally::default());
    let counted = Arc::clone(&tally);
    explore(seeds, move |seed| schedule(seed, &counted));
    tally.check(thousands);
}
