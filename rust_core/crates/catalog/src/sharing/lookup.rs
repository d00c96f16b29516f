//! Which content the store has already, asked by fingerprint.

use crate::Catalog;
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_decide::UploadPin;
use orcas_record::{CONTENT_MAX, Fingerprint, Sequence, short_hash};

/// Times a lookup is repeated because condemnations were forgotten meanwhile.
const LOOKUPS_MAX: usize = 8;

/// A published blob with this fingerprint, `length` bytes long, that is not condemned, neither by what is published nor
/// as `condemned` has it. `prefix_hash` is that of the blob, if it is known. Blocking.
///
/// # Errors
/// When the index cannot be read.
pub fn published_blob(
    catalog: &Catalog,
    fingerprint: &Fingerprint,
    length: u32,
    prefix_hash: Option<u64>,
    condemned: &dyn Fn(Sequence) -> bool,
) -> Result<Option<Sequence>> {
    for _ in 0..LOOKUPS_MAX {
        let forgotten = catalog.pins.forgotten();
        let Some(found) = find_blob(catalog, fingerprint, length, prefix_hash, condemned)? else { return Ok(None) };
        if catalog.pins.forgotten() == forgotten {
            return Ok(Some(found));
        }
    }
    // To take it for unknown costs space, never content.
    Ok(None)
}

fn find_blob(
    catalog: &Catalog,
    fingerprint: &Fingerprint,
    length: u32,
    prefix_hash: Option<u64>,
    condemned: &dyn Fn(Sequence) -> bool,
) -> Result<Option<Sequence>> {
    let counts = |(blob, found): (Sequence, u32)| {
        let gone = condemned(blob) || catalog.pins.is_out_of_use(blob) || catalog.overlay.read().is_condemned(blob);
        (found == length && (!gone || planted::is(Bug::HitOnCondemned))).then_some(blob)
    };
    // The overlay first: what it loses meanwhile is in the index by then.
    let recent = catalog.overlay.read().shared_blob(fingerprint);
    if let Some(blob) = recent.and_then(counts) {
        return Ok(Some(blob));
    }
    // The prefix hash of a content is that of its fingerprint, however long it is.
    let as_content = length as usize <= CONTENT_MAX && catalog.prefix_hashes.maybe_known(short_hash(&fingerprint.0));
    if !as_content && prefix_hash.is_some_and(|prefix_hash| !catalog.prefix_hashes.maybe_known(prefix_hash)) {
        return Ok(None);
    }
    Ok(catalog.index.read()?.shared_blob(fingerprint)?.and_then(counts))
}

/// A blob with this fingerprint, if there is one, with a pin on it. Blocking.
///
/// # Errors
/// When the index cannot be read.
pub fn pin_known(
    catalog: &Catalog,
    fingerprint: Fingerprint,
    length: u32,
    prefix_hash: u64,
) -> Result<Option<(Sequence, UploadPin)>> {
    let pin = catalog.pins.hold(fingerprint);
    Ok(published_blob(catalog, &fingerprint, length, Some(prefix_hash), &|_| false)?.map(|blob| (blob, pin)))
}

/// Fills the filter from the overlay and the index, while the store is in use. To be called once after opening and when
/// `Catalog::publish` asks for it; by one thread.
///
/// # Errors
/// When the index cannot be read. What was ready stays in use.
pub fn fill_prefix_hash_filter(catalog: &Catalog) -> Result<()> {
    // In this order: what is published from now on is taken in, what was published before is in the overlay, and what
    // has left the overlay is in the index.
    catalog.prefix_hashes.refill(|insert| {
        let recent: Vec<u64> = catalog.overlay.read().shared_prefix_hashes().collect();
        recent.into_iter().for_each(&mut *insert);
        catalog.index.read()?.scan_prefix_hashes(insert)
    })
}
