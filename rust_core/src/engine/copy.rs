//! Copies that need a digest which nobody has stored: the source is read and hashed first, then the copy is submitted
//! with the sequence of what was read. Should the source have changed meanwhile, it is read again. Blocking.

use bytes::Bytes;

use super::{Found, Handle};
use crate::checksum::{Checksum, ChecksumAlgorithm, Hasher, Md5Hasher};
use crate::decide::{Copy, CopyPart, Failure, Intent, Outcome, Refusal, SourceConditions};
use crate::record::{BucketId, UploadId};

/// Times a source that keeps changing is read again.
const ATTEMPTS_MAX: usize = 8;
const READ_SIZE: usize = 256 * 1024;

/// UploadPartCopy as the client asked for it.
#[derive(Clone, Debug)]
pub struct CopyPartRequest {
    pub source: (BucketId, Bytes),
    pub source_conditions: SourceConditions,
    /// First and last byte, both included.
    pub range: Option<(u64, u64)>,
    pub bucket: BucketId,
    pub key: Bytes,
    pub upload: UploadId,
    pub number: u16,
}

/// CopyObject as the client asked for it. `copy.checksum` is computed here.
#[derive(Clone, Debug)]
pub struct CopyRequest {
    pub copy: Copy,
    /// The algorithm the copy's checksum shall have.
    pub algorithm: Option<ChecksumAlgorithm>,
}

impl Handle {
    /// # Errors
    /// As [`crate::decide::decide`]; [`Refusal::SourceChanged`] when the source never stood still.
    pub fn copy_part(&self, request: &CopyPartRequest) -> Result<Outcome, Failure> {
        let upload = self.shared.upload(request.upload)?.ok_or(Refusal::NoSuchUpload)?;
        let algorithm = upload.checksum.map(|(algorithm, _)| algorithm);
        retry(|| {
            let source = self.source(&request.source)?;
            let size = source.object.version.size;
            let (first, last) = request.range.unwrap_or((0, size.saturating_sub(1)));
            if request.range.is_some() && (first > last || last >= size) {
                return Err(Refusal::InvalidRange { size }.into());
            }
            let (md5, checksum) = self.digests(&source, first, last, algorithm)?;
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
                checksum,
            })))
        })
    }

    /// # Errors
    /// As [`crate::decide::decide`]; [`Refusal::SourceChanged`] when the source never stood still.
    pub fn copy_object(&self, request: &CopyRequest) -> Result<Outcome, Failure> {
        retry(|| {
            let mut copy = request.copy.clone();
            if let Some(algorithm) = request.algorithm {
                let source = self.source(&copy.source)?;
                let stored = source.object.version.checksum.filter(|whole| whole.parts == 0);
                copy.checksum = Some(match stored.filter(|whole| whole.checksum.algorithm() == algorithm) {
                    Some(whole) => (source.object.sequence, whole.checksum),
                    None => {
                        let last = source.object.version.size.saturating_sub(1);
                        let (_, checksum) = self.digests(&source, 0, last, Some(algorithm))?;
                        (source.object.sequence, checksum.ok_or(Refusal::SourceChanged)?)
                    }
                });
            }
            self.execute(Intent::CopyObject(Box::new(copy)))
        })
    }

    fn source(&self, (bucket, key): &(BucketId, Bytes)) -> Result<Found, Failure> {
        Ok(self.object(*bucket, key)?.ok_or(Refusal::NoSuchKey)?)
    }

    /// MD5, and the checksum if one is asked for, of a range; not computed again where they are stored.
    fn digests(
        &self,
        source: &Found,
        first: u64,
        last: u64,
        algorithm: Option<ChecksumAlgorithm>,
    ) -> Result<([u8; 16], Option<Checksum>), Failure> {
        let version = &source.object.version;
        let whole = version.size == 0 || (first == 0 && last + 1 == version.size);
        if whole && algorithm.is_none() && version.etag.parts == 0 {
            return Ok((version.etag.md5, None));
        }
        let mut md5 = Md5Hasher::new();
        let mut hasher = algorithm.map(Hasher::new);
        let mut reader = self.reader(source, first, last);
        let mut buf = vec![0; READ_SIZE];
        loop {
            let read = reader.read(&mut buf)?;
            if read == 0 {
                return Ok((md5.finish(), hasher.map(Hasher::finish)));
            }
            md5.update(&buf[..read]);
            if let Some(hasher) = &mut hasher {
                hasher.update(&buf[..read]);
            }
        }
    }
}

fn retry(mut attempt: impl FnMut() -> Result<Outcome, Failure>) -> Result<Outcome, Failure> {
    for _ in 1..ATTEMPTS_MAX {
        match attempt() {
            Err(Failure::Refused(Refusal::SourceChanged)) => {}
            answer => return answer,
        }
    }
    attempt()
}
