//! The ids of multipart uploads.

use crate::clock::Clock;
use orcas_base::error::Result;
use orcas_fs::Random;
use orcas_record::UploadId;

#[derive(Default)]
pub(crate) struct UploadIds {
    /// Ids given since the store was opened.
    given: u32,
}

impl UploadIds {
    /// Ordered by time and, within a millisecond, by number: listing uploads by id lists them by initiation.
    pub fn next(&mut self, clock: &dyn Clock, random: &dyn Random) -> Result<UploadId> {
        let mut id = [0; 16];
        id[..6].copy_from_slice(&clock.now_ms().to_be_bytes()[2..]);
        id[6..10].copy_from_slice(&self.given.to_be_bytes());
        self.given = self.given.wrapping_add(1);
        random.fill(&mut id[10..])?;
        Ok(UploadId(id))
    }
}
