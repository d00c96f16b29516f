//! Copies that need a digest that is not stored: the source is read and hashed first, then the copy is submitted with
//! the sequence of what was read. If the source has changed meanwhile, it is read again. Each piece blocks.
//!
//! A copy is a future, because reading may take many seconds: it is pending after each piece, so that others can use its
//! thread, and ends when it is dropped. Nothing wakes it.
//!
//! No blob is shared between owners: a copy into another owner's bucket is a new body with the bytes that were read.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::annotations_again::texts_size;
use crate::content::body::BodyWriter;
use crate::handle::Handle;
use crate::quotas::Addition;
use orcas_base::error::Error;
use orcas_catalog::PinnedObject;
use orcas_checksum::{Checksum, ChecksumAlgorithm, Hasher, Md5Hasher};
use orcas_decide::{
    self as decide, Body, Copy, CopyAttributes, CopyEntry, CopyHeaders, CopyPart, Failure, Intent, Outcome,
    PUT_SIZE_MAX, PutObject, PutPart, Refusal, Source, SourceConditions, StoredAnnotations, StoredCopy, StoredInto,
};
use orcas_record::{Attributes, Bucket, BucketId, Cause, Encryption, ObjectHeaders, UploadId, Version};
use orcas_store::{RequestKey, Sealing};

/// Times a source that keeps changing is read again.
const ATTEMPTS_MAX: usize = 8;
const READ_SIZE: usize = 256 * 1024;
/// Bytes between two pauses: a few milliseconds.
const PIECE_SIZE: usize = 1 << 20;
/// Bytes up to which a copied body is one content.
const SMALL_MAX: u64 = 64 * 1024;

/// UploadPartCopy as the client asked for it.
#[derive(Clone, Debug)]
pub struct CopyPartRequest {
    pub source: Source,
    pub source_conditions: SourceConditions,
    /// First and last byte, both included.
    pub range: Option<(u64, u64)>,
    pub bucket: BucketId,
    pub key: Bytes,
    pub upload: UploadId,
    pub number: u16,
    pub keys: CopyKeys,
}

/// The keys of customers that a copy needs: of what it reads, and of what it writes.
#[derive(Clone, Debug, Default)]
pub struct CopyKeys {
    pub source: Option<RequestKey>,
    pub copy: Option<RequestKey>,
    /// Whether the request may read what named keys encrypt.
    pub named: bool,
}

/// CopyObject as the client asked for it. `copy.checksum` is computed here.
#[derive(Clone, Debug)]
pub struct CopyRequest {
    pub copy: Copy,
    /// The algorithm the copy's checksum shall have.
    pub algorithm: Option<ChecksumAlgorithm>,
    pub keys: CopyKeys,
    pub cause: Cause,
}

impl Handle {
    /// # Errors
    /// As [`orcas_decide::decide`]; [`Refusal::SourceChanged`] when the source never stood still.
    pub async fn copy_part(&self, request: &CopyPartRequest) -> Result<Outcome, Failure> {
        retry(move || self.try_copy_part(request)).await
    }

    async fn try_copy_part(&self, request: &CopyPartRequest) -> Result<Outcome, Failure> {
        // It may have been sealed since.
        let upload = self.shared.catalog.open_upload(request.upload)?.ok_or(Refusal::NoSuchUpload)?;
        let algorithm = upload.checksum.map_or(ChecksumAlgorithm::DEFAULT, |(algorithm, _)| algorithm);
        let source = self.source(&request.source, &request.keys)?;
        let size = source.object.version.size;
        let (first, last) = request.range.unwrap_or((0, size.saturating_sub(1)));
        if request.range.is_some() && (first > last || last >= size) {
            return Err(Refusal::InvalidRange { size }.into());
        }
        let sealing = Sealing { encryption: upload.attributes.encryption.clone(), key: request.keys.copy.clone() };
        self.keys().check_named_key(sealing.encryption.as_ref())?;
        let across = self.across_owners(request.source.0, request.bucket);
        if let Some(bucket) = across.or_else(|| self.sealed_anew(&source, &sealing, request.bucket)) {
            let range = (first, last);
            return self.copy_part_across(request, (&bucket, &sealing), &source, range, algorithm).await;
        }
        let (md5, checksum) = self.digests(&source, (first, last), algorithm).await?;
        let md5 = self.keys().hidden_md5(sealing.encryption.as_ref())?.unwrap_or(md5);
        self.execute(Intent::CopyPart(Box::new(CopyPart {
            source: request.source.clone(),
            source_sequence: source.object.sequence,
            source_conditions: request.source_conditions.clone(),
            range: request.range,
            bucket: request.bucket,
            key: request.key.clone(),
            upload: request.upload,
            number: request.number,
            md5,
            checksum: Some(checksum),
        })))
    }

    /// # Errors
    /// As [`orcas_decide::decide`]; [`Refusal::SourceChanged`] when the source never stood still.
    pub async fn copy_object(&self, request: &CopyRequest) -> Result<Outcome, Failure> {
        retry(move || self.try_copy_object(request)).await
    }

    /// Copies objects of a bucket into another one, or within it: all, or none. Blocks.
    ///
    /// # Errors
    /// As [`orcas_decide::decide`], and for a source under a key of a client, or under one that cannot be used.
    pub fn copy_objects(
        &self,
        source: BucketId,
        bucket: BucketId,
        entries: Vec<CopyEntry>,
    ) -> Result<Outcome, Failure> {
        let keys = CopyKeys { named: true, ..CopyKeys::default() };
        for entry in &entries {
            self.source(&(source, entry.from.clone(), None), &keys)?;
        }
        self.execute(Intent::CopyObjects { source, bucket, entries })
    }

    async fn try_copy_object(&self, request: &CopyRequest) -> Result<Outcome, Failure> {
        let source = self.source(&request.copy.source, &request.keys)?;
        let of_source = source.object.version.attributes.encryption.as_ref();
        let mut copy = request.copy.clone();
        let encryption = copy.attributes.encryption.clone().or_else(|| kept(of_source));
        let sealing = Sealing { encryption, key: request.keys.copy.clone() };
        self.keys().check_named_key(sealing.encryption.as_ref())?;
        let across = self.across_owners(copy.source.0, copy.bucket);
        if let Some(bucket) = across.or_else(|| self.sealed_anew(&source, &sealing, copy.bucket)) {
            return self.copy_object_across(request, (&bucket, &sealing), &source).await;
        }
        self.seal_replaced(&mut copy, &sealing)?;
        if let Some(algorithm) = Encryption::storable(sealing.encryption.as_ref(), request.algorithm) {
            let checksum = match stored_checksum(&source.object.version, algorithm) {
                Some(checksum) => checksum,
                None => self.digests(&source, (0, source.object.version.size.saturating_sub(1)), algorithm).await?.1,
            };
            copy.checksum = Some((source.object.sequence, checksum));
        }
        self.execute_for(request.cause, Intent::CopyObject(Box::new(copy)))
    }

    /// Seals the headers that a copy of encrypted content brings. Those of its source stay as they are: their seal opens
    /// them wherever they are.
    fn seal_replaced(&self, copy: &mut Copy, sealing: &Sealing) -> Result<(), Failure> {
        let (CopyHeaders::Replace(headers), Some(encryption)) = (&mut copy.headers, &sealing.encryption) else {
            return Ok(());
        };
        let bucket = self.shared.catalog.buckets.load().by_id(copy.bucket).cloned().ok_or(Refusal::NoSuchBucket)?;
        **headers = self.content().sealed_headers(&bucket, sealing, std::mem::take(&mut **headers))?;
        // The copy must not follow a source that is encrypted in another way by then.
        copy.attributes.encryption = Some(encryption.clone());
        Ok(())
    }

    fn source(&self, (bucket, key, version): &Source, keys: &CopyKeys) -> Result<PinnedObject, Failure> {
        // Not a bucket of clients but a layer, if it is the source of an instant upload.
        let bucket = self.shared.catalog.buckets.load().by_id(*bucket).cloned().ok_or(Refusal::NoSuchBucket)?;
        let found = match version {
            None => self.object_in(&bucket, key)?,
            Some(id) => self.version_in(&bucket, key, *id)?.filter(|found| !found.object.version.delete_marker),
        };
        let found = found.ok_or(Refusal::NoSuchKey)?;
        self.check_opens(found.object.version.attributes.encryption.as_ref(), keys)?;
        Ok(found.with_key(keys.source.clone()))
    }

    /// The source may be another one than the one that was looked up before, with another key.
    fn check_opens(&self, encryption: Option<&Encryption>, keys: &CopyKeys) -> Result<(), Failure> {
        match (encryption, &keys.source) {
            (Some(Encryption::Customer(_)), None) => return Err(Error::NoCustomerKey.into()),
            (Some(Encryption::Customer(check)), Some(key)) if !self.keys().is_key_of(key, check)? => {
                return Err(Refusal::SourceKeyDiffers.into());
            }
            (Some(Encryption::Named(_)), _) if !keys.named => return Err(Refusal::SourceChanged.into()),
            _ => {}
        }
        Ok(self.keys().check_named_key(encryption)?)
    }

    /// The destination, if it exists and has another owner than the source.
    fn across_owners(&self, source: BucketId, destination: BucketId) -> Option<Arc<Bucket>> {
        let buckets = self.shared.catalog.buckets.load();
        let (from, to) = (buckets.by_id(source)?, buckets.by_id(destination)?);
        (from.owner != to.owner).then(|| Arc::clone(to))
    }

    /// The destination, if it exists and the bytes of the source cannot be shared with what is encrypted like this.
    fn sealed_anew(&self, source: &PinnedObject, sealing: &Sealing, destination: BucketId) -> Option<Arc<Bucket>> {
        let of_source = source.object.version.attributes.encryption.as_ref();
        let differs = !Encryption::shares(of_source, sealing.encryption.as_ref());
        self.shared.catalog.buckets.load().by_id(destination).filter(|_| differs).map(Arc::clone)
    }

    /// The copy has the MD5 of the whole content as its ETag, also when the source was uploaded in parts.
    async fn copy_object_across(
        &self,
        request: &CopyRequest,
        (bucket, sealing): (&Bucket, &Sealing),
        source: &PinnedObject,
    ) -> Result<Outcome, Failure> {
        let copy = &request.copy;
        let version = &source.object.version;
        decide::check_copy(version, &copy.source_conditions)?;
        let annotated = Some(source).filter(|_| copy.attributes.annotations);
        let texts_size = annotated.map_or(0, |source| texts_size(&source.object.version));
        let of_source = version.checksum.map(|whole| whole.checksum.algorithm());
        let last = version.size.saturating_sub(1);
        let algorithm = request.algorithm.or(of_source).unwrap_or(ChecksumAlgorithm::DEFAULT);
        self.check_room(bucket, &Addition::Object(copy.key.clone()), version.size + texts_size)?;
        let annotations = match annotated {
            Some(source) => self.annotations_again((bucket, sealing), source)?,
            None => StoredAnnotations::default(),
        };
        let again = self.store_again((bucket, sealing), source, (0, last), algorithm).await?;
        let headers = match &copy.headers {
            CopyHeaders::Replace(headers) => ObjectHeaders::clone(headers),
            CopyHeaders::Keep { .. } => copy.headers.apply_to(&*self.content().headers(source)?),
        };
        let hides = sealing.encryption.as_ref().is_some_and(Encryption::hides_digests);
        let put = PutObject {
            bucket: copy.bucket,
            key: copy.key.clone(),
            modified_ms: None,
            precondition: copy.precondition.clone(),
            size: version.size,
            md5: again.md5,
            sha256: version.sha256.filter(|_| !hides),
            checksum: Some(again.checksum),
            headers: self.content().sealed_headers(bucket, sealing, headers)?,
            attributes: Attributes::default(),
            body: again.body,
        };
        let attributes = CopyAttributes { encryption: sealing.encryption.clone(), ..copy.attributes.clone() };
        let into = StoredInto::Object { put: Box::new(put), attributes, annotations };
        self.execute_for(request.cause, stored_copy(&copy.source, source, &copy.source_conditions, into))
    }

    async fn copy_part_across(
        &self,
        request: &CopyPartRequest,
        into: (&Bucket, &Sealing),
        source: &PinnedObject,
        (first, last): (u64, u64),
        algorithm: ChecksumAlgorithm,
    ) -> Result<Outcome, Failure> {
        decide::check_source(&source.object.version, &request.source_conditions)?;
        let size = if source.object.version.size == 0 { 0 } else { last - first + 1 };
        if size > PUT_SIZE_MAX {
            return Err(Refusal::EntityTooLarge { size }.into());
        }
        self.check_room(into.0, &Addition::Part(request.upload, request.number), size)?;
        let again = self.store_again(into, source, (first, last), algorithm).await?;
        let into = StoredInto::Part(Box::new(PutPart {
            bucket: request.bucket,
            key: request.key.clone(),
            upload: request.upload,
            number: request.number,
            size,
            md5: again.md5,
            checksum: Some(again.checksum),
            computed: None,
            body: again.body,
        }));
        self.execute(stored_copy(&request.source, source, &request.source_conditions, into))
    }

    /// Reads a range of the source into a body for `bucket`.
    async fn store_again(
        &self,
        (bucket, sealing): (&Bucket, &Sealing),
        source: &PinnedObject,
        (first, last): (u64, u64),
        algorithm: ChecksumAlgorithm,
    ) -> Result<StoredAgain, Failure> {
        let mut reader = self.content().reader(source, first, last);
        let mut body = GrowingBody::new(self, (bucket, sealing), reader.remaining())?;
        let (mut md5, mut hasher) = (Md5Hasher::new(), Hasher::new(algorithm));
        let mut buf = self.buffers().take(READ_SIZE);
        buf.resize(READ_SIZE, 0);
        let mut piece = Piece::default();
        loop {
            let read = reader.read(&mut buf)?;
            if read == 0 {
                let (md5, checksum) = (md5.finish(), hasher.finish());
                let md5 = self.keys().hidden_md5(sealing.encryption.as_ref())?.unwrap_or(md5);
                return Ok(StoredAgain { body: body.finish(self, bucket)?, md5, checksum });
            }
            md5.update(&buf[..read]);
            hasher.update(&buf[..read]);
            body.write(&buf[..read])?;
            piece.add(read).await;
        }
    }

    /// MD5 and checksum of a range; not computed again where they are stored.
    async fn digests(
        &self,
        source: &PinnedObject,
        (first, last): (u64, u64),
        algorithm: ChecksumAlgorithm,
    ) -> Result<([u8; 16], Checksum), Failure> {
        let version = &source.object.version;
        let whole = version.size == 0 || (first == 0 && last + 1 == version.size);
        let stored = stored_checksum(version, algorithm).filter(|_| whole && version.etag.parts == 0);
        if let Some(checksum) = stored {
            return Ok((version.etag.md5, checksum));
        }
        let (mut md5, mut hasher) = (Md5Hasher::new(), Hasher::new(algorithm));
        let mut reader = self.content().reader(source, first, last);
        let mut buf = self.buffers().take(READ_SIZE);
        buf.resize(READ_SIZE, 0);
        let mut piece = Piece::default();
        loop {
            let read = reader.read(&mut buf)?;
            if read == 0 {
                return Ok((md5.finish(), hasher.finish()));
            }
            md5.update(&buf[..read]);
            hasher.update(&buf[..read]);
            piece.add(read).await;
        }
    }
}

fn stored_copy(place: &Source, read: &PinnedObject, conditions: &SourceConditions, into: StoredInto) -> Intent {
    Intent::StoredCopy(Box::new(StoredCopy {
        source: place.clone(),
        source_sequence: read.object.sequence,
        source_conditions: conditions.clone(),
        into,
    }))
}

/// The checksum of the whole content, if it is stored in this algorithm.
fn stored_checksum(version: &Version, algorithm: ChecksumAlgorithm) -> Option<Checksum> {
    let whole = version.checksum.filter(|whole| whole.parts == 0)?;
    Some(whole.checksum).filter(|checksum| checksum.algorithm() == algorithm)
}

/// Runs a copy to its end on this thread.
pub fn run_copy<T>(copy: impl Future<Output = T>) -> T {
    let mut copy = pin!(copy);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(outcome) = copy.as_mut().poll(&mut context) {
            return outcome;
        }
    }
}

/// Begins a copy anew while what is there changes.
async fn retry<A: Future<Output = Result<Outcome, Failure>>>(attempt: impl Fn() -> A) -> Result<Outcome, Failure> {
    for _ in 1..ATTEMPTS_MAX {
        match attempt().await {
            Err(Failure::Refused(Refusal::SourceChanged | Refusal::UploadSealed)) => {}
            answer => return answer,
        }
    }
    attempt().await
}

/// Bytes that were read since the last pause.
#[derive(Default)]
struct Piece(usize);

impl Piece {
    /// Pauses at the end of a piece.
    async fn add(&mut self, read: usize) {
        self.0 += read;
        if self.0 >= PIECE_SIZE {
            self.0 = 0;
            let mut polled = false;
            poll_fn(|_| if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }).await;
        }
    }
}

/// How a copy is encrypted that asks for nothing: as its source, but not with a key of a customer.
fn kept(source: Option<&Encryption>) -> Option<Encryption> {
    match source {
        Some(Encryption::Customer(_)) => Some(Encryption::Managed),
        source => source.cloned(),
    }
}

/// A body that was read from one scope and stored in another.
struct StoredAgain {
    body: Body,
    md5: [u8; 16],
    checksum: Checksum,
}

enum GrowingBody {
    Small(Vec<u8>, Sealing),
    Large(Box<BodyWriter>),
}

impl GrowingBody {
    fn new(handle: &Handle, (bucket, sealing): (&Bucket, &Sealing), length: u64) -> Result<Self, Failure> {
        if length <= SMALL_MAX {
            return Ok(Self::Small(Vec::with_capacity(length as usize), sealing.clone()));
        }
        Ok(Self::Large(Box::new(handle.content().body_writer(bucket, sealing, length)?)))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Small(held, _) => held.extend_from_slice(bytes),
            Self::Large(writer) => writer.write(bytes, &mut ())?,
        }
        Ok(())
    }

    fn finish(self, handle: &Handle, bucket: &Bucket) -> Result<Body, Failure> {
        match self {
            Self::Small(held, sealing) if sealing.encryption.is_some() => {
                Ok(handle.content().sealed_body(bucket, &sealing, &held)?)
            }
            Self::Small(held, _) => Ok(handle.content().small_body(bucket, held.into())),
            Self::Large(writer) => Ok(writer.finish()?),
        }
    }
}
