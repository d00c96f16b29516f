//! Reads every version of a salvaged store completely and compares it with its entity tag, before the first request.
//! Versions that turn out to have other bytes, or to have certainly been deleted, are removed from the private index.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::super::handle::Handle;
use super::super::state::EngineState;
use orcas_base::error::{Error, Result};
use orcas_base::planted::{self, Bug};
use orcas_catalog::PinnedObject;
use orcas_checksum::{Etag, Md5Hasher};
use orcas_fsck::{ANNOTATION_DAMAGED, LOSSES_MAX, Loss, ReplayOutcome, removal_of_lost, reported_names};
use orcas_index::{Applied, Stored};
use orcas_log::LogPosition;
use orcas_record::{self as record, BucketId, Encryption, Extent, Object, Sequence, Version, VersionId};
use orcas_store::version_of;

/// Rows taken at a time, and bytes read at a time.
const PAGE: usize = 256;
const PIECE: usize = 1 << 20;
const THREADS_MAX: usize = 4;

#[derive(Default)]
pub(super) struct Verified {
    pub whole: u64,
    pub whole_bytes: u64,
    pub losses: Vec<Loss>,
    pub losses_total: u64,
    pub doubtful: u64,
    pub named: Vec<(String, Bytes)>,
    pub deleted: u64,
}

/// The result of reading a version.
enum VersionCheck {
    Whole,
    /// The content is whole, but the text of an annotation cannot be read, or is another one.
    AnnotationLost,
    Lost(String),
    /// The version names content that nothing referred to any more.
    Deleted,
    /// The blocks of the version are whole, but not those that were stored under this name.
    Other,
}

#[derive(Default)]
struct Progress {
    found: Verified,
    /// Ordered by sequence in the end: threads take pages in turn.
    losses: BTreeMap<Sequence, Loss>,
    hidden: Vec<(BucketId, Bytes, VersionId)>,
}

struct Verify<'a> {
    shared: &'a Arc<EngineState>,
    handle: &'a Handle,
    outcome: &'a ReplayOutcome,
    names: BTreeMap<BucketId, String>,
    /// The layers above each layer, in any stack.
    above: BTreeMap<BucketId, Vec<BucketId>>,
    cursor: Mutex<Sequence>,
    state: Mutex<Progress>,
}

/// Reads everything.
///
/// # Errors
/// When the private index cannot be read or written; damage is no error.
pub(super) fn run(handle: &Handle, outcome: &ReplayOutcome) -> Result<Verified> {
    let buckets = Arc::clone(&handle.shared.catalog.buckets.load());
    let mut above: BTreeMap<BucketId, Vec<BucketId>> = BTreeMap::new();
    for bucket in buckets.of_any_role() {
        for (place, layer) in bucket.layers.iter().enumerate() {
            above.entry(*layer).or_default().extend(&bucket.layers[..place]);
        }
    }
    let verify = Verify {
        shared: &handle.shared,
        handle,
        outcome,
        names: reported_names(buckets.of_any_role().map(|bucket| &**bucket)),
        above,
        cursor: Mutex::new(0),
        state: Mutex::default(),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads).map(|_| scope.spawn(|| verify.read_all())).collect();
        let ended_early = Error::Record { reason: "a thread of the salvage ended early" };
        readers.into_iter().try_for_each(|reader| reader.join().unwrap_or(Err(ended_early.clone())))
    })?;
    let Progress { mut found, losses, hidden } = verify.state.into_inner();
    found.losses = losses.into_values().collect();
    hide(&handle.shared, &hidden, outcome.last)?;
    Ok(found)
}

impl Verify<'_> {
    fn next_page(&self) -> Result<Vec<Stored>> {
        let mut cursor = self.cursor.lock();
        let page = self.shared.catalog.index.read()?.versions_after(*cursor, PAGE)?;
        if let Some(last) = page.last() {
            *cursor = last.sequence;
        }
        Ok(page)
    }

    fn read_all(&self) -> Result<()> {
        let mut piece = vec![0; PIECE];
        loop {
            let page = self.next_page()?;
            if page.is_empty() {
                return Ok(());
            }
            for stored in &page {
                let Ok(version) = version_of(stored) else { continue };
                if !version.delete_marker {
                    let object = Arc::new(Object { sequence: stored.sequence, version });
                    let check = self.read(&object, &mut piece);
                    self.note(&object, check);
                }
            }
        }
    }

    fn read(&self, object: &Arc<Object>, piece: &mut [u8]) -> VersionCheck {
        let version = &object.version;
        let length = version.manifest.iter().map(Extent::length).fold(0, u64::saturating_add);
        if length != version.size {
            return VersionCheck::Lost("its manifest is shorter or longer than the object".to_owned());
        }
        let found = PinnedObject::new(Arc::clone(object), self.handle.pin_epoch());
        let mut reader = self.handle.content().reader(&found, 0, version.size.saturating_sub(1));
        let mut tag = EntityTag::new(version);
        loop {
            match reader.read(piece) {
                Ok(0) => {
                    return match tag.matches(version) {
                        false => VersionCheck::Other,
                        true if self.reads_annotations(&found, piece) => VersionCheck::Whole,
                        true => VersionCheck::AnnotationLost,
                    };
                }
                Ok(read) => tag.update(&piece[..read]),
                Err(_) if self.names_condemned(&version.manifest) => return VersionCheck::Deleted,
                Err(error) => return VersionCheck::Lost(error.to_string()),
            }
        }
    }

    fn reads_annotations(&self, found: &PinnedObject, piece: &mut [u8]) -> bool {
        found.object.version.attributes.annotations.as_slice().iter().all(|annotation| {
            let Some(text) = found.annotation(&annotation.name) else { return false };
            let mut reader = self.handle.content().reader(&text, 0, annotation.size().saturating_sub(1));
            let mut hasher = Md5Hasher::new();
            loop {
                match reader.read(piece) {
                    Ok(0) => return hides_digests(&found.object.version) || hasher.finish() == annotation.md5,
                    Ok(read) => hasher.update(&piece[..read]),
                    Err(_) => return false,
                }
            }
        })
    }

    /// Whether something in the manifest was condemned, which happens only when nothing refers to it.
    fn names_condemned(&self, manifest: &[Extent]) -> bool {
        let condemned = |blob: &Sequence| self.outcome.condemned.binary_search(blob).is_ok();
        manifest.iter().any(|extent| match extent {
            Extent::Inline(_) => false,
            Extent::Blob { blob, .. } => condemned(blob),
            Extent::Segment { segment, .. } => match self.shared.catalog.segment(*segment) {
                Ok(extents) => {
                    extents.iter().any(|extent| matches!(extent, Extent::Blob { blob, .. } if condemned(blob)))
                }
                Err(_) => false,
            },
        })
    }

    fn note(&self, object: &Object, check: VersionCheck) {
        let Object { sequence, version } = object;
        let state = &mut *self.state.lock();
        let key = || Bytes::copy_from_slice(&version.key);
        if let VersionCheck::Deleted | VersionCheck::Other = check {
            state.hidden.push((version.bucket, key(), version.version_id));
        }
        if let VersionCheck::Whole | VersionCheck::AnnotationLost = check {
            state.found.whole += 1;
            state.found.whole_bytes += version.size;
            self.doubt(object, &mut state.found);
        }
        let reason = match check {
            VersionCheck::Whole => return,
            VersionCheck::AnnotationLost => ANNOTATION_DAMAGED.to_owned(),
            VersionCheck::Deleted => {
                state.found.deleted += 1;
                return;
            }
            VersionCheck::Lost(reason) => reason,
            VersionCheck::Other => "what is in its place is not what was stored".to_owned(),
        };
        state.found.losses_total += 1;
        if state.losses.len() < LOSSES_MAX && !planted::is(Bug::SalvageLossNotListed) {
            let version_id = match version.version_id {
                VersionId::Null => None,
                VersionId::Named(id) => Some(id.iter().map(|byte| format!("{byte:02x}")).collect()),
            };
            let (bucket, bytes) = (self.name(version.bucket), version.size);
            state.losses.insert(*sequence, Loss { bucket, key: key(), version_id, upload: None, bytes, reason });
        }
    }

    fn name(&self, bucket: BucketId) -> String {
        self.names.get(&bucket).cloned().unwrap_or_else(|| format!("bucket {}", bucket.0))
    }

    /// Whether a record that is gone may have ended this version.
    fn doubt(&self, object: &Object, found: &mut Verified) {
        let Object { sequence, version } = object;
        if *sequence >= self.outcome.doubt || planted::is(Bug::SalvageDoubtNotSaid) {
            return;
        }
        found.doubtful += 1;
        let above = self.above.get(&version.bucket).into_iter().flatten();
        let named = |layer: &BucketId| self.outcome.named.get(&(*layer, version.key.clone()));
        if above.chain([&version.bucket]).filter_map(named).any(|later| later > sequence) {
            found.named.push((self.name(version.bucket), Bytes::copy_from_slice(&version.key)));
        }
    }
}

/// The entity tag of what is read: the MD5 of the content, or that of the MD5s of its parts.
struct EntityTag {
    hasher: Md5Hasher,
    /// Bytes of this part that are to come, and the lengths of those behind it, last first.
    left: u64,
    lengths: Vec<u64>,
    parts: Vec<[u8; 16]>,
}

impl EntityTag {
    fn new(version: &Version) -> Self {
        let mut lengths: Vec<u64> = version.parts.iter().rev().map(|part| part.size).collect();
        let left = lengths.pop().unwrap_or(u64::MAX);
        Self { hasher: Md5Hasher::new(), left, lengths, parts: Vec::new() }
    }

    fn update(&mut self, mut bytes: &[u8]) {
        while bytes.len() as u64 >= self.left {
            let (part, rest) = bytes.split_at(self.left as usize);
            self.hasher.update(part);
            self.end_part();
            bytes = rest;
        }
        self.hasher.update(bytes);
        self.left -= bytes.len() as u64;
    }

    fn end_part(&mut self) {
        self.parts.push(std::mem::replace(&mut self.hasher, Md5Hasher::new()).finish());
        self.left = self.lengths.pop().unwrap_or(u64::MAX);
    }

    fn matches(mut self, version: &Version) -> bool {
        // Parts may be empty.
        while self.left == 0 {
            self.end_part();
        }
        // Then the entity tag is random.
        let is_hidden = hides_digests(version);
        match (version.etag.parts, version.parts.is_empty()) {
            _ if is_hidden => true,
            (0, _) => self.hasher.finish() == version.etag.md5,
            // Where the parts ended is not known any more.
            (_, true) => true,
            (_, false) => Etag::multipart(&self.parts) == Some(version.etag),
        }
    }
}

fn hides_digests(version: &Version) -> bool {
    version.attributes.encryption.as_ref().is_some_and(Encryption::hides_digests)
}

/// Takes versions out of the private index, so that no other state of one passes for it. `last` is the last sequence
/// that is in use.
fn hide(shared: &EngineState, hidden: &[(BucketId, Bytes, VersionId)], last: Sequence) -> Result<()> {
    if hidden.is_empty() {
        return Ok(());
    }
    let buckets = Arc::clone(&shared.catalog.buckets.load());
    let all = || buckets.of_any_role().map(|bucket| &**bucket);
    let mut records = Vec::new();
    for (bucket, key, id) in hidden {
        records.extend(removal_of_lost(&shared.catalog.index, all(), (*bucket, key, *id))?);
    }
    let mut writer = shared.catalog.index.writer()?;
    writer.begin_salvage()?;
    for (record, sequence) in records.into_iter().zip(last + 1..) {
        let mut payload = Vec::new();
        let kind = record::encode(&record, &mut payload);
        let payload = Bytes::from(payload);
        let applied = Applied { sequence, kind, record: &record, payload: &payload, location: None };
        writer.apply(&[applied], &LogPosition::ORIGIN.encode())?;
    }
    writer.end_salvage().map(drop)
}
