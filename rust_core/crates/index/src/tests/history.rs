//! Random histories of everything that refers to blobs, from a seed, with the expected state.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Seeded numbers; a failing test names its seed.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    pub(super) fn pick<T: Clone>(&mut self, of: impl IntoIterator<Item = T>) -> Option<T> {
        let all: Vec<T> = of.into_iter().collect();
        if all.is_empty() {
            return None;
        }
        Some(all[self.roll(all.len() as u64) as usize].clone())
    }
}

#[derive(Clone, Debug)]
pub(super) struct Blob {
    pub(super) at: BlobLocation,
    pub(super) shared: Option<(Fingerprint, u64)>,
}

impl Blob {
    pub(super) fn length(&self) -> u64 {
        u64::from(self.at.length())
    }
}

pub(super) type VersionName = (u64, Vec<u8>, VersionId);

#[derive(Clone)]
pub(super) struct OpenUpload {
    pub(super) upload: Upload,
    pub(super) parts: BTreeMap<u16, (Sequence, Part)>,
}

/// The expected state after a history, and the generator of its next steps.
pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) sequence: Sequence,
    /// The log file that is being written.
    pub(super) file: u64,
    /// The records of the current step.
    pub(super) step: Vec<Owned>,
    pub(super) buckets: BTreeMap<u64, Sequence>,
    /// The newest record of each document.
    pub(super) documents: BTreeMap<(u64, u8), Sequence>,
    pub(super) versions: BTreeMap<VersionName, (Sequence, Version)>,
    /// The newest update of each version that has one, by the sequence of the version.
    pub(super) updates: BTreeMap<Sequence, (Sequence, Attributes)>,
    pub(super) uploads: BTreeMap<[u8; 16], OpenUpload>,
    pub(super) answers: BTreeMap<[u8; 16], Sequence>,
    pub(super) blobs: BTreeMap<Sequence, Blob>,
    pub(super) segments: BTreeMap<Sequence, Vec<Extent>>,
    pub(super) packs: BTreeMap<PackId, Sequence>,
    pub(super) log_files: BTreeMap<LogFileId, (Sequence, Sequence)>,
    next: u64,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            sequence: 0,
            file: 1,
            step: Vec::new(),
            buckets: BTreeMap::new(),
            documents: BTreeMap::new(),
            versions: BTreeMap::new(),
            updates: BTreeMap::new(),
            uploads: BTreeMap::new(),
            answers: BTreeMap::new(),
            blobs: BTreeMap::new(),
            segments: BTreeMap::new(),
            packs: BTreeMap::new(),
            log_files: BTreeMap::new(),
            next: 1,
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn emit(&mut self, record: Record) -> Sequence {
        self.sequence += 1;
        let mut owned = Owned::new(self.sequence, record);
        if let Some(BlobLocation::Log { at, .. }) = &mut owned.location {
            *at = codec::in_log(self.file, codec::in_log_parts(*at).1);
        }
        self.step.push(owned);
        self.sequence
    }

    /// Takes one step of the history and returns its records.
    pub(super) fn step(&mut self) -> Vec<Owned> {
        match self.dice.roll(100) {
            0..3 => self.create_bucket(),
            3..5 => self.update_bucket(),
            5..6 => self.delete_bucket(),
            6..10 => self.put_document(),
            10..40 => self.put_version(),
            40..55 => self.delete_version(),
            55..59 => self.move_version(),
            59..62 => self.update_version(),
            62..66 => self.create_upload(),
            66..76 => self.put_part(),
            76..79 => self.abort_upload(),
            79..84 => self.complete_upload(),
            84..90 => self.condemn(),
            90..93 => self.create_pack(),
            93..97 => self.move_chunks(),
            _ => self.retire_pack(),
        }
        let live: BTreeSet<Sequence> = self.versions.values().map(|(sequence, _)| *sequence).collect();
        self.updates.retain(|version, _| live.contains(version));
        std::mem::take(&mut self.step)
    }

    fn create_bucket(&mut self) {
        if self.buckets.len() < 4 {
            let id = self.sequence + 1;
            self.emit(bucket(id));
            self.buckets.insert(id, id);
        }
    }

    fn update_bucket(&mut self) {
        let Some(id) = self.dice.pick(self.buckets.keys().copied()) else { return };
        let Record::CreateBucket(mut settings) = bucket(id) else { return };
        settings.settings.chunk_size = Some(self.sequence as u32);
        let sequence = self.emit(Record::UpdateBucket(settings));
        self.buckets.insert(id, sequence);
    }

    /// A document, now and then its removal.
    fn put_document(&mut self) {
        let Some(id) = self.dice.pick(self.buckets.keys().copied()) else { return };
        let Some(kind) = self.dice.pick(DocumentKind::ALL) else { return };
        let document = if self.dice.roll(3) == 0 { Bytes::new() } else { format!("<A>{}</A>", self.sequence).into() };
        let sequence = self.emit(Record::PutDocument { bucket: BucketId(id), kind, document });
        self.documents.insert((id, kind.code()), sequence);
    }

    fn delete_bucket(&mut self) {
        let Some(id) = self.dice.pick(self.buckets.keys().copied()) else { return };
        let names: Vec<_> = self.versions.keys().filter(|name| name.0 == id).cloned().collect();
        names.into_iter().for_each(|name| self.delete_named(name));
        self.emit(Record::DeleteBucket { bucket: BucketId(id) });
        self.uploads.retain(|_, open| open.upload.bucket.0 != id);
        self.buckets.remove(&id);
        self.documents.retain(|(bucket, _), _| *bucket != id);
        self.drop_unheld_segments();
    }

    fn blob(&mut self) -> Sequence {
        if self.dice.roll(3) > 0
            && let Some(hit) = self.dice.pick(self.blobs.keys().copied())
        {
            return hit;
        }
        let number = self.number();
        let fingerprint = Fingerprint(*blake3::hash(&number.to_le_bytes()).as_bytes());
        let (shared, length) = (self.dice.roll(4) > 0, 1 + self.dice.roll(9) as u32);
        let record = match self.dice.pick(self.packs.keys().copied()).filter(|_| self.dice.0 & 64 > 0) {
            Some(pack) => {
                let at = codec::chunk(codec::pack_number(pack), number * 4096);
                Record::Chunk { fingerprint, shared, prefix_hash: !number, at, length: length * 1000, seal: None }
            }
            None => Record::Content { fingerprint, shared, bytes: vec![1; length as usize].into(), seal: None },
        };
        let (at, prefix_hash) = match &record {
            Record::Chunk { at, length, prefix_hash, .. } => {
                (BlobLocation::Pack { at: *at, length: *length }, *prefix_hash)
            }
            _ => {
                let at = codec::in_log(self.file, (self.sequence + 1) * 8);
                (BlobLocation::Log { at, length }, short_hash(&fingerprint.0))
            }
        };
        let sequence = self.emit(record);
        self.blobs.insert(sequence, Blob { at, shared: shared.then_some((fingerprint, prefix_hash)) });
        sequence
    }

    fn blob_extent(&mut self) -> Extent {
        let blob = self.blob();
        Extent::Blob { blob, start: 0, length: self.blobs[&blob].length() as u32 }
    }

    fn manifest(&mut self) -> Vec<Extent> {
        let extents = self.dice.roll(4);
        (0..extents)
            .map(|_| match self.dice.roll(6) {
                0 => Extent::Inline(Bytes::from(vec![7; self.dice.roll(5) as usize])),
                1 => self.segment(),
                _ => self.blob_extent(),
            })
            .collect()
    }

    fn segment(&mut self) -> Extent {
        let length = |extents: &[Extent]| extents.iter().map(Extent::length).sum();
        if self.dice.roll(2) == 0
            && let Some((segment, extents)) = self.dice.pick(self.segments.clone())
        {
            return Extent::Segment { segment, length: length(&extents) };
        }
        let extents: Vec<_> = (0..1 + self.dice.roll(4)).map(|_| self.blob_extent()).collect();
        let segment = self.emit(Record::Segment { extents: extents.clone() });
        self.segments.insert(segment, extents.clone());
        Extent::Segment { segment, length: length(&extents) }
    }

    fn annotations(&mut self) -> Annotations {
        let mut annotations = Annotations::default();
        for _ in 0..self.dice.roll(4) {
            let text = match self.dice.roll(3) {
                0 => Extent::Inline(Bytes::from_static(b"text")),
                _ => self.blob_extent(),
            };
            let name = vec![b'a' + self.dice.roll(3) as u8].into();
            let annotation = Annotation { name, modified_ms: 1, md5: [0; 16], checksum: None, text };
            annotations = annotations.with(annotation).expect("fewer than the limit");
        }
        annotations
    }

    fn name(&mut self) -> Option<VersionName> {
        let bucket = self.dice.pick(self.buckets.keys().copied())?;
        let id = match self.dice.roll(3) {
            0 => VersionId::Named([self.dice.roll(3) as u8; 16]),
            _ => VersionId::Null,
        };
        Some((bucket, vec![b'a' + self.dice.roll(5) as u8], id))
    }

    fn version(&mut self, (bucket, key, version_id): VersionName, manifest: Vec<Extent>) -> Version {
        let size = manifest.iter().map(Extent::length).sum();
        let sha256 = [self.dice.roll(4) as u8; 32];
        let annotations = if self.dice.roll(4) == 0 { self.annotations() } else { Annotations::default() };
        Version {
            version_id,
            attributes: Attributes { annotations, ..Attributes::default() },
            sha256: (size % 2 == 0).then_some(sha256),
            // Some versions are large enough to be found by their digest.
            size: size * 40,
            manifest,
            ..version(bucket, &key, size)
        }
    }

    fn put_version(&mut self) {
        let Some(name) = self.name() else { return };
        let version = if self.dice.roll(8) == 0 {
            Version { version_id: name.2, delete_marker: true, size: 0, ..version(name.0, &name.1, 0) }
        } else {
            let manifest = self.manifest();
            self.version(name.clone(), manifest)
        };
        let sequence = self.emit(Record::PutVersion(version.clone()));
        self.versions.insert(name, (sequence, version));
        self.drop_unheld_segments();
    }

    fn update_version(&mut self) {
        let Some((name, (version, _))) = self.dice.pick(self.versions.clone()) else { return };
        let annotations = self.annotations();
        let attributes = Attributes {
            tags: vec![("tag".into(), self.sequence.to_string().into())],
            retention: None,
            legal_hold: [None, Some(false), Some(true)][self.dice.roll(3) as usize],
            annotations,
            encryption: None,
            acl: None,
        };
        let (bucket, key, version_id) = name;
        let record = Record::UpdateVersion {
            bucket: BucketId(bucket),
            key: key.into(),
            version_id,
            version,
            attributes: attributes.clone(),
        };
        let sequence = self.emit(record);
        self.updates.insert(version, (sequence, attributes));
    }

    fn delete_named(&mut self, name: VersionName) {
        self.versions.remove(&name);
        let (bucket, key, version_id) = name;
        self.emit(Record::DeleteVersion { bucket: BucketId(bucket), key: key.into(), version_id });
        self.drop_unheld_segments();
    }

    fn delete_version(&mut self) {
        let absent = self.name();
        let present = self.dice.pick(self.versions.keys().cloned());
        if let Some(name) = if self.dice.roll(8) == 0 { absent } else { present } {
            self.delete_named(name);
        }
    }

    fn move_version(&mut self) {
        let to = self.name();
        let from =
            self.dice.pick(self.versions.iter().filter(|(_, at)| !at.1.delete_marker).map(|(name, _)| name.clone()));
        let (Some(from), Some(to)) = (from, to) else { return };
        let Some(moved) = self.versions.remove(&from) else { return };
        let attributes = self.attributes(&moved).clone();
        let version = Version { bucket: BucketId(to.0), key: to.1.clone().into(), attributes, ..moved.1 };
        let record =
            Record::MoveVersion { from_bucket: BucketId(from.0), from_key: from.1.into(), version: version.clone() };
        let sequence = self.emit(record);
        self.versions.insert((to.0, to.1, from.2), (sequence, version));
        self.drop_unheld_segments();
    }

    fn create_upload(&mut self) {
        let Some((bucket, key, _)) = self.name() else { return };
        let id = UploadId(u128::from(self.number()).to_be_bytes());
        let upload = Upload {
            id,
            bucket: BucketId(bucket),
            key: key.into(),
            initiated_ms: 5,
            headers: ObjectHeaders::default(),
            attributes: Attributes::default(),
            checksum: None,
        };
        self.emit(Record::CreateUpload(upload.clone()));
        self.uploads.insert(id.0, OpenUpload { upload, parts: BTreeMap::new() });
    }

    fn put_part(&mut self) {
        let Some(id) = self.dice.pick(self.uploads.keys().copied()) else { return };
        let manifest = self.manifest();
        let number = 1 + self.dice.roll(3) as u16;
        let part = Part {
            upload: UploadId(id),
            number,
            size: manifest.iter().map(Extent::length).sum(),
            md5: [0; 16],
            modified_ms: 1,
            checksum: None,
            manifest,
        };
        let sequence = self.emit(Record::PutPart(part.clone()));
        if let Some(open) = self.uploads.get_mut(&id) {
            open.parts.insert(number, (sequence, part));
        }
        self.drop_unheld_segments();
    }

    fn abort_upload(&mut self) {
        let Some(id) = self.dice.pick(self.uploads.keys().copied()) else { return };
        self.emit(Record::AbortUpload { upload: UploadId(id) });
        self.uploads.remove(&id);
        self.drop_unheld_segments();
    }

    fn complete_upload(&mut self) {
        let Some(id) = self.dice.pick(self.uploads.keys().copied()) else { return };
        let Some(open) = self.uploads.remove(&id) else { return };
        let manifest = open.parts.values().flat_map(|(_, part)| part.manifest.clone()).collect();
        let name = (open.upload.bucket.0, open.upload.key.to_vec(), VersionId::Null);
        let version = self.version(name.clone(), manifest);
        let record = Record::CompleteUpload { upload: UploadId(id), request: [9; 32], version: version.clone() };
        let sequence = self.emit(record);
        self.answers.insert(id, sequence);
        self.versions.insert(name, (sequence, version));
        self.drop_unheld_segments();
    }

    fn condemn(&mut self) {
        let referred = self.referred();
        let dead: Vec<_> = self.blobs.keys().copied().filter(|blob| !referred.contains_key(blob)).collect();
        let dead: Vec<_> = dead.into_iter().filter(|_| self.dice.roll(3) > 0).collect();
        if !dead.is_empty() {
            self.emit(Record::CondemnBlobs { blobs: dead.clone() });
            self.blobs.retain(|blob, _| !dead.contains(blob));
        }
    }

    fn create_pack(&mut self) {
        if self.packs.len() < 4 {
            let pack = codec::pack(self.number());
            let sequence = self.emit(Record::CreatePack { pack });
            self.packs.insert(pack, sequence);
        }
    }

    fn in_pack(&self, pack: PackId) -> Vec<Sequence> {
        let stands = |at| matches!(at, BlobLocation::Pack { at, .. } if at.pack() == pack);
        self.blobs.iter().filter(|(_, blob)| stands(blob.at)).map(|(sequence, _)| *sequence).collect()
    }

    fn move_chunks(&mut self) {
        let (Some(from), Some(to)) =
            (self.dice.pick(self.packs.keys().copied()), self.dice.pick(self.packs.keys().copied()))
        else {
            return;
        };
        let mut moves = Vec::new();
        for blob in self.in_pack(from) {
            if self.dice.roll(5) > 0 {
                moves.push(ChunkMove { blob, to: codec::chunk(codec::pack_number(to), self.number() * 4096) });
            }
        }
        for moved in &moves {
            if let Some(blob) = self.blobs.get_mut(&moved.blob) {
                let length = blob.length() as u32;
                blob.at = BlobLocation::Pack { at: moved.to, length };
            }
        }
        // A blob that does not exist is skipped.
        moves.push(ChunkMove { blob: 1 << 40, to: codec::chunk(codec::pack_number(to), 4096) });
        self.emit(Record::MoveChunks { moves });
    }

    fn retire_pack(&mut self) {
        let empty: Vec<_> = self.packs.keys().copied().filter(|pack| self.in_pack(*pack).is_empty()).collect();
        if let Some(pack) = self.dice.pick(empty) {
            self.emit(Record::RetirePack { pack });
            self.packs.remove(&pack);
        }
    }
}
