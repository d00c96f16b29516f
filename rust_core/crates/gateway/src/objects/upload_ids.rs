//! Upload ids in the form in which clients see them, 32 hexadecimal digits, and those of uploads that were aborted.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;

use orcas_http::{hex, parse_hex};
use orcas_record::{Bucket, BucketId, UploadId};
use orcas_s3::{ErrorCode, Named, S3Error};

pub fn upload_id_text(id: UploadId) -> String {
    hex(&id.0)
}

/// What the errors of requests about an upload name.
pub fn named_upload<'a>(bucket: &'a Bucket, key: &'a [u8], id: UploadId) -> Named<'a> {
    let upload = Some(Cow::Owned(upload_id_text(id).into_bytes()));
    Named { bucket: Some(&bucket.name), key: Some(key), upload }
}

/// Anything that this server cannot have given out is `NoSuchUpload`.
pub fn parse_upload_id(text: &[u8]) -> Result<UploadId, S3Error> {
    let lower = Some(text).filter(|text| !text.iter().any(u8::is_ascii_uppercase));
    Ok(UploadId(lower.and_then(parse_hex).ok_or(ErrorCode::NoSuchUpload)?))
}

/// The uploads that were aborted last, in memory: after a start of the server there are none.
#[derive(Default)]
pub struct Aborted {
    /// The id, and a hash of bucket and key. Looked through only for an id that is not known otherwise.
    last: Mutex<VecDeque<(UploadId, u64)>>,
    hasher: RandomState,
}

impl Aborted {
    const MAX: usize = 4_096;

    pub fn keep(&self, bucket: BucketId, key: &[u8], id: UploadId) {
        let entry = (id, self.hasher.hash_one((bucket.0, key)));
        let mut last = self.last.lock();
        if last.len() == Self::MAX {
            last.pop_front();
        }
        last.push_back(entry);
    }

    pub fn has(&self, bucket: BucketId, key: &[u8], id: UploadId) -> bool {
        let entry = (id, self.hasher.hash_one((bucket.0, key)));
        self.last.lock().contains(&entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upload_ids_have_one_spelling() {
        let id = UploadId(std::array::from_fn(|n| n as u8 * 17));
        let text = upload_id_text(id);
        assert_eq!(parse_upload_id(text.as_bytes()), Ok(id));
        for bad in ["", "00", &text.to_uppercase(), &format!("{text}0"), &text.replace('0', "g")] {
            assert_eq!(parse_upload_id(bad.as_bytes()).unwrap_err().code, ErrorCode::NoSuchUpload, "{bad}");
        }
    }

    #[test]
    fn the_uploads_that_were_aborted_last_are_known() {
        let id = |n: usize| UploadId(std::array::from_fn(|at| (n >> (8 * (at % 8))) as u8));
        let (aborted, bucket) = (Aborted::default(), BucketId(1));
        (0..=Aborted::MAX).for_each(|n| aborted.keep(bucket, b"k", id(n)));
        assert!((1..=Aborted::MAX).all(|n| aborted.has(bucket, b"k", id(n))));
        assert_eq!(aborted.last.lock().len(), Aborted::MAX);
        for (bucket, key, n) in [(1, b"k", 0), (1, b"l", 1), (2, b"k", 1)] {
            assert!(!aborted.has(BucketId(bucket), key, id(n)));
        }
    }
}
