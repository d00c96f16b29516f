//! Which stored object an instant upload can be made of.

use std::sync::Arc;

use bytes::Bytes;

use super::{ListObjects, Shared};
use crate::error::Result;
use crate::record::{Bucket, Object, RefLevel};

/// Smaller objects are quicker sent than looked up.
const SIZE_MIN: u64 = 65_536;
const PAGE: usize = 1_000;

impl Shared {
    /// Walks over the objects of `owner`.
    pub fn instant_source(&self, owner: &Bytes, sha256: &[u8; 32], size: u64) -> Result<Option<Arc<Object>>> {
        if size < SIZE_MIN || self.options.ref_level == RefLevel::Off {
            return Ok(None);
        }
        let buckets: Vec<Arc<Bucket>> = self.buckets.read().all().filter(|b| b.owner == *owner).cloned().collect();
        for bucket in buckets {
            let mut list =
                ListObjects { bucket: bucket.id, prefix: Bytes::new(), delimiter: None, after: None, max_keys: PAGE };
            loop {
                let page = self.list_objects(&list)?;
                for entry in page.entries.iter().filter(|entry| entry.size == size) {
                    let found = self.object(bucket.id, &entry.key)?.map(|found| found.object);
                    if let Some(object) = found.filter(|found| found.version.sha256 == Some(*sha256)) {
                        return Ok(Some(object));
                    }
                }
                list.after = page.last;
                if !page.truncated {
                    break;
                }
            }
        }
        Ok(None)
    }
}
