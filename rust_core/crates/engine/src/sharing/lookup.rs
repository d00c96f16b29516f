//! Which content the store has already, asked by fingerprint.

use super::super::state::EngineState;
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_decide::Pin;
use orcas_record::{Bucket, CONTENT_MAX, Fingerprint, RefLevel, Sequence, head_of};

/// Times a lookup is repeated because condemnations were forgotten meanwhile.
const LOOKUPS_MAX: usize = 8;

impl EngineState {
    /// Whether new content of the bucket is looked up.
    pub fn ref_level(&self, bucket: &Bucket) -> RefLevel {
        bucket.settings.ref_level.unwrap_or(self.options.ref_level)
    }

    /// A published blob with this fingerprint, `length` bytes long, that is not condemned, neither by what is published
    /// nor as `condemned` has it. `head` is that of the blob, if it is known.
    pub fn published_blob(
        &self,
        fingerprint: &Fingerprint,
        length: u32,
        head: Option<u64>,
        condemned: &dyn Fn(Sequence) -> bool,
    ) -> Result<Option<Sequence>> {
        for _ in 0..LOOKUPS_MAX {
            let forgotten = self.pins.forgotten();
            let Some(found) = self.find_blob(fingerprint, length, head, condemned)? else { return Ok(None) };
            if self.pins.forgotten() == forgotten {
                return Ok(Some(found));
            }
        }
        // To take it for unknown costs space, never content.
        Ok(None)
    }

    fn find_blob(
        &self,
        fingerprint: &Fingerprint,
        length: u32,
        head: Option<u64>,
        condemned: &dyn Fn(Sequence) -> bool,
    ) -> Result<Option<Sequence>> {
        let counts = |(blob, found): (Sequence, u32)| {
            let gone =
                condemned(blob) || self.pins.is_out_of_use(blob) || self.catalog.overlay.read().is_condemned(blob);
            (found == length && (!gone || planted::is(Bug::HitOnCondemned))).then_some(blob)
        };
        // The overlay first: what it loses meanwhile is in the index by then.
        let recent = self.catalog.overlay.read().shared_blob(fingerprint);
        if let Some(blob) = recent.and_then(counts) {
            return Ok(Some(blob));
        }
        // The head of a content is that of its fingerprint, however long it is.
        let as_content = length as usize <= CONTENT_MAX && self.heads.maybe_known(head_of(&fingerprint.0));
        if !as_content && head.is_some_and(|head| !self.heads.maybe_known(head)) {
            return Ok(None);
        }
        Ok(self.catalog.index.read()?.shared_blob(fingerprint)?.and_then(counts))
    }

    /// A blob with this fingerprint, if there is one, with a pin on it.
    pub fn pin_known(&self, fingerprint: Fingerprint, length: u32, head: u64) -> Result<Option<(Sequence, Pin)>> {
        let pin = self.pins.hold(fingerprint);
        Ok(self.published_blob(&fingerprint, length, Some(head), &|_| false)?.map(|blob| (blob, pin)))
    }
}

/// Fills the filter from the overlay and the index, while the store is in use. To be called once after opening and when
/// [`super::super::state::UpkeepTask::Heads`] asks for it; by one thread.
///
/// # Errors
/// When the index cannot be read. What was ready stays in use.
pub(crate) fn fill_head_filter(shared: &EngineState) -> Result<()> {
    // In this order: what is published from now on is taken in, what was published before is in the overlay, and what
    // has left the overlay is in the index.
    shared.heads.refill(|insert| {
        let recent: Vec<u64> = shared.catalog.overlay.read().shared_heads().collect();
        recent.into_iter().for_each(&mut *insert);
        shared.catalog.index.read()?.scan_heads_of_shared(insert)
    })
}
