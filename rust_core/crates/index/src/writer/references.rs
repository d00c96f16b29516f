//! Reference counts of blobs and segments. A blob has one reference for each extent that names it: in manifests and
//! present annotations of versions, in manifests of parts of open uploads, and in segments, once for each bucket that
//! holds the segment. A bucket holds a segment while its manifests name it. A segment that no bucket holds is removed.
//! The home of a blob, the smallest bucket that refers to it, has no row in `holdings`: its references are what the other
//! buckets leave of `refs`. So a blob of one bucket takes one row. A transaction adds up changes in memory and writes
//! them at its end, or earlier between two records. The rows do not depend on when, because the changes are sums. A new
//! blob is inserted with its final count.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension};

use super::counters::Counters;
use super::deltas::{BucketDeltas, add_delta};
use super::id_map::IdMap;
use crate::error::{Result, failure};
use crate::tables::blobs::{self, BlobKeys, BlobRow, BlobRows, StoredLocation};
use crate::tables::{loaded_int, stored_int};
use orcas_base::planted::{self, Bug};
use orcas_record::{Extent, Sequence, decode_extents};

/// Changes in memory above which they are written before the transaction ends. About 8 MiB.
pub(crate) const CHANGES_MAX: usize = 65_536;

/// A blob whose row is not inserted yet.
struct NewBlob {
    sequence: i64,
    at: StoredLocation,
    keys: BlobKeys,
    holders: BucketDeltas,
}

/// Changes of reference counts that are not written yet.
#[derive(Default)]
pub(crate) struct ReferenceChanges {
    /// Ascending by sequence.
    new_blobs: Vec<NewBlob>,
    /// Keyed by blob; of blobs that have a row.
    blobs: IdMap<BucketDeltas>,
    /// Keyed by segment.
    segments: IdMap<BucketDeltas>,
    on_segment_removal: Option<OnSegmentRemoval>,
}

/// Called with the sequence and the record of a segment before it is removed.
pub type OnSegmentRemoval = Box<dyn FnMut(Sequence, &[u8]) + Send>;

impl ReferenceChanges {
    /// Adds a new blob, which has no references yet.
    pub(crate) fn add_blob(&mut self, sequence: i64, at: StoredLocation, keys: BlobKeys) -> Result<()> {
        if self.new_blobs.last().is_some_and(|last| last.sequence >= sequence) {
            return Err(failure("the sequences of new blobs do not ascend"));
        }
        self.new_blobs.push(NewBlob { sequence, at, keys, holders: BucketDeltas::default() });
        Ok(())
    }

    /// A manifest or annotations were added to the bucket (`by` 1) or removed from it (−1).
    pub(crate) fn count<'e>(
        &mut self,
        conn: &Connection,
        counters: &mut Counters,
        bucket: i64,
        extents: impl IntoIterator<Item = &'e Extent>,
        by: i64,
    ) -> Result<()> {
        let mut extents = extents.into_iter().peekable();
        if extents.peek().is_none() {
            return Ok(());
        }
        let (mut logical, mut inline) = (0, 0);
        for extent in extents {
            let length = stored_int(extent.length())?;
            add_delta(&mut logical, length)?;
            match extent {
                Extent::Inline(_) => add_delta(&mut inline, length)?,
                Extent::Blob { blob, .. } => self.count_blob(stored_int(*blob)?, bucket, by),
                Extent::Segment { segment, .. } => {
                    self.segments.entry(stored_int(*segment)?).or_default().add(bucket, by);
                }
            }
        }
        counters.manifest_changed(conn, bucket, (logical, inline), by)
    }

    pub(crate) fn on_segment_removal(&mut self, callback: OnSegmentRemoval) {
        self.on_segment_removal = Some(callback);
    }

    /// Drops all changes.
    pub(crate) fn discard(&mut self) {
        *self = Self { on_segment_removal: self.on_segment_removal.take(), ..Self::default() };
    }

    /// The number of changes, each of which takes memory.
    pub(crate) fn len(&self) -> usize {
        self.new_blobs.len() + self.blobs.len() + self.segments.len()
    }

    /// Writes all changes, so that the rows of blobs and segments are current.
    pub(crate) fn write(&mut self, conn: &Connection, counters: &mut Counters) -> Result<()> {
        self.write_segments(conn, counters)?;
        self.write_blobs(conn, counters)
    }

    fn count_blob(&mut self, blob: i64, bucket: i64, by: i64) {
        match find(&mut self.new_blobs, blob) {
            Some(new_blobs) => new_blobs.holders.add(bucket, by),
            None if by > 0 && planted::is(Bug::CopyWithoutReference) => {}
            None => self.blobs.entry(blob).or_default().add(bucket, by),
        }
    }

    /// Writes which buckets hold which segments. A bucket that begins or ceases to hold a segment gains or loses
    /// references to the segment's blobs.
    fn write_segments(&mut self, conn: &Connection, counters: &mut Counters) -> Result<()> {
        if self.segments.is_empty() {
            return Ok(());
        }
        let mut touched: Vec<_> = self.segments.drain().collect();
        touched.sort_unstable_by_key(|(segment, _)| *segment);
        for (segment, deltas) in touched {
            if !blobs::has_segment(conn, segment)? {
                orphan_segment(counters, segment, &deltas)?;
                continue;
            }
            let mut extents = None;
            for (bucket, delta) in deltas.iter() {
                let by = change_segment(conn, segment, bucket, delta)?;
                if by != 0 {
                    if extents.is_none() {
                        extents = Some(segment_blobs(conn, segment)?);
                    }
                    extents.iter().flatten().for_each(|blob| self.count_blob(*blob, bucket, by));
                }
            }
            // In a rebuild it may be held again later: records that held it in between may have been dropped.
            if counters.rebuild.is_none() {
                let unheld = "DELETE FROM segments WHERE sequence = ?1 \
                     AND NOT EXISTS (SELECT 1 FROM segment_holdings WHERE segment = ?1) RETURNING record";
                let mut delete = conn.prepare_cached(unheld)?;
                let gone: Option<Vec<u8>> = delete.query_row([segment], |row| row.get(0)).optional()?;
                if let (Some(callback), Some(record)) = (&mut self.on_segment_removal, gone) {
                    callback(loaded_int(segment)?, &record);
                }
            }
            if self.len() >= CHANGES_MAX {
                self.write_blobs(conn, counters)?;
            }
        }
        Ok(())
    }

    fn write_blobs(&mut self, conn: &Connection, counters: &mut Counters) -> Result<()> {
        let mut statement = conn.prepare_cached(blobs::INSERT)?;
        for blob in self.new_blobs.drain(..) {
            if let Some((bucket, refs @ 1..)) = blob.holders.only() {
                blobs::insert(&mut statement, blob.sequence, blob.at, (refs, Some(bucket)), &blob.keys)?;
                counters.holding_changed(conn, bucket, blob.at, 1)?;
                counters.blob_added(blob.at, true)?;
                continue;
            }
            let holders = Holders::of(blob.holders.iter().collect())?;
            let home = holders.home();
            blobs::insert(&mut statement, blob.sequence, blob.at, (holders.refs()?, home), &blob.keys)?;
            counters.blob_added(blob.at, home.is_some())?;
            for (bucket, refs) in &holders.0 {
                counters.holding_changed(conn, *bucket, blob.at, 1)?;
                if home != Some(*bucket) {
                    put_holding(conn, blob.sequence, *bucket, *refs)?;
                }
            }
        }
        if self.blobs.is_empty() {
            return Ok(());
        }
        let mut touched: Vec<_> = self.blobs.drain().filter(|(_, deltas)| !deltas.is_zero()).collect();
        touched.sort_unstable_by_key(|(blob, _)| *blob);
        let mut rows = BlobRows::new(conn)?;
        for (blob, deltas) in touched {
            change_blob(conn, &mut rows, counters, blob, &deltas)?;
        }
        Ok(())
    }
}

fn find(new_blobs: &mut [NewBlob], blob: i64) -> Option<&mut NewBlob> {
    let (first, last) = (new_blobs.first()?.sequence, new_blobs.last()?.sequence);
    if blob == last {
        // The common case: the version of a small body follows its content.
        return new_blobs.last_mut();
    }
    if blob < first || blob > last {
        return None;
    }
    let at = new_blobs.binary_search_by_key(&blob, |new_blobs| new_blobs.sequence).ok()?;
    new_blobs.get_mut(at)
}

/// The references that a blob has: (bucket, count) ascending by bucket, no count is 0.
pub(crate) struct Holders(pub(crate) Vec<(i64, i64)>);

impl Holders {
    fn of(mut refs: Vec<(i64, i64)>) -> Result<Self> {
        refs.retain(|(_, refs)| *refs != 0);
        if planted::is(Bug::CopyWithoutReference) {
            refs.retain(|(_, refs)| *refs > 0);
        }
        if refs.iter().any(|(_, refs)| *refs < 0) {
            return Err(failure("a blob loses a reference that it does not have"));
        }
        refs.sort_unstable();
        Ok(Self(refs))
    }

    pub(crate) fn load(conn: &Connection, blob: i64, row: &BlobRow) -> Result<Self> {
        let Some(home) = row.home else { return Ok(Self(Vec::new())) };
        let mut select = conn.prepare_cached("SELECT bucket, refs FROM holdings WHERE blob = ?1 ORDER BY bucket")?;
        let mut rows = select.query([blob])?;
        let (mut refs, mut at_home) = (vec![(home, row.refs)], row.refs);
        while let Some(row) = rows.next()? {
            let other: (i64, i64) = (row.get(0)?, row.get(1)?);
            refs.push(other);
            at_home = at_home.checked_sub(other.1).ok_or_else(|| failure("a row holds a negative number"))?;
        }
        refs[0].1 = at_home;
        Self::of(refs)
    }

    fn home(&self) -> Option<i64> {
        self.0.first().map(|(bucket, _)| *bucket)
    }

    fn refs(&self) -> Result<i64> {
        let mut sum = 0;
        self.0.iter().try_for_each(|(_, refs)| add_delta(&mut sum, *refs))?;
        Ok(sum)
    }

    fn with(&self, deltas: &BucketDeltas) -> Result<Self> {
        let mut refs = self.0.clone();
        for (bucket, delta) in deltas.iter() {
            match refs.iter_mut().find(|(holder, _)| *holder == bucket) {
                Some((_, refs)) => add_delta(refs, delta)?,
                None => refs.push((bucket, delta)),
            }
        }
        Self::of(refs)
    }

    fn get(&self, bucket: i64) -> i64 {
        self.0.binary_search_by_key(&bucket, |(holder, _)| *holder).map_or(0, |at| self.0[at].1)
    }

    /// The count in the bucket's row of `holdings`; 0 for no row.
    fn row(&self, bucket: i64) -> i64 {
        if self.home() == Some(bucket) { 0 } else { self.get(bucket) }
    }
}

fn change_blob(
    conn: &Connection,
    rows: &mut BlobRows<'_>,
    counters: &mut Counters,
    blob: i64,
    deltas: &BucketDeltas,
) -> Result<()> {
    let Some(row) = rows.get(blob)? else { return orphan_blob(counters, blob, deltas) };
    if let Some((bucket, delta)) = deltas.only() {
        let mut refs = row.refs;
        add_delta(&mut refs, delta)?;
        let at_home = row.home == Some(bucket);
        if at_home && delta > 0 {
            return rows.set_refs(blob, refs, row.home);
        }
        if at_home && refs == 0 || row.home.is_none() && delta > 0 {
            // The blob loses its only holder, or gains its first.
            rows.set_refs(blob, refs, (refs > 0).then_some(bucket))?;
            counters.holding_changed(conn, bucket, row.at, delta.signum())?;
            return counters.blob_liveness_changed(row.at, refs > 0);
        }
        if row.home.is_some_and(|home| home < bucket) {
            // Another bucket than the home gains or loses references, however many there are.
            rows.set_refs(blob, refs, row.home)?;
            let before = holding(conn, blob, bucket)?;
            let mut after = before;
            add_delta(&mut after, delta)?;
            if after < 0 {
                return Err(failure("a blob loses a reference that it does not have"));
            }
            put_holding(conn, blob, bucket, after)?;
            let by = i64::from(after > 0) - i64::from(before > 0);
            return if by == 0 { Ok(()) } else { counters.holding_changed(conn, bucket, row.at, by) };
        }
    }
    change_holders(conn, rows, counters, blob, &row, deltas)
}

/// The general case: several buckets, or a home that may change.
fn change_holders(
    conn: &Connection,
    rows: &mut BlobRows<'_>,
    counters: &mut Counters,
    blob: i64,
    row: &BlobRow,
    deltas: &BucketDeltas,
) -> Result<()> {
    let before = Holders::load(conn, blob, row)?;
    let after = before.with(deltas)?;
    rows.set_refs(blob, after.refs()?, after.home())?;
    let mut buckets: Vec<_> = before.0.iter().chain(&after.0).map(|(bucket, _)| *bucket).collect();
    buckets.sort_unstable();
    buckets.dedup();
    for bucket in buckets {
        let by = i64::from(after.get(bucket) > 0) - i64::from(before.get(bucket) > 0);
        if by != 0 {
            counters.holding_changed(conn, bucket, row.at, by)?;
        }
        if after.row(bucket) != before.row(bucket) {
            put_holding(conn, blob, bucket, after.row(bucket))?;
        }
    }
    if before.0.is_empty() != after.0.is_empty() {
        counters.blob_liveness_changed(row.at, !after.0.is_empty())?;
    }
    Ok(())
}

/// The count in a row of `holdings`; 0 for no row.
fn holding(conn: &Connection, blob: i64, bucket: i64) -> Result<i64> {
    let mut select = conn.prepare_cached("SELECT refs FROM holdings WHERE blob = ?1 AND bucket = ?2")?;
    let mut rows = select.query((blob, bucket))?;
    Ok(rows.next()?.map_or(Ok(0), |row| row.get(0))?)
}

/// Sets the count in a row of `holdings`; 0 removes the row.
fn put_holding(conn: &Connection, blob: i64, bucket: i64, refs: i64) -> Result<()> {
    if refs == 0 {
        conn.prepare_cached("DELETE FROM holdings WHERE blob = ?1 AND bucket = ?2")?.execute((blob, bucket))?;
        return Ok(());
    }
    let mut put = conn.prepare_cached("INSERT OR REPLACE INTO holdings (blob, bucket, refs) VALUES (?1, ?2, ?3)")?;
    put.execute((blob, bucket, refs))?;
    Ok(())
}

pub(crate) fn remove_holdings(conn: &Connection, blob: i64) -> Result<()> {
    conn.prepare_cached("DELETE FROM holdings WHERE blob = ?1")?.execute([blob])?;
    Ok(())
}

/// Changes how often a bucket's manifests name a segment. Returns 1 when the bucket begins to hold it, −1 when it
/// ceases to, otherwise 0.
fn change_segment(conn: &Connection, segment: i64, bucket: i64, delta: i64) -> Result<i64> {
    let mut select = conn.prepare_cached("SELECT refs FROM segment_holdings WHERE segment = ?1 AND bucket = ?2")?;
    let mut rows = select.query((segment, bucket))?;
    let before: i64 = rows.next()?.map_or(Ok(0), |row| row.get(0))?;
    drop(rows);
    let mut after = before;
    add_delta(&mut after, delta)?;
    if after < 0 {
        return Err(failure("a segment loses a reference that it does not have"));
    }
    if after == 0 {
        let mut delete = conn.prepare_cached("DELETE FROM segment_holdings WHERE segment = ?1 AND bucket = ?2")?;
        delete.execute((segment, bucket))?;
    } else {
        let put = "INSERT OR REPLACE INTO segment_holdings (segment, bucket, refs) VALUES (?1, ?2, ?3)";
        conn.prepare_cached(put)?.execute((segment, bucket, after))?;
    }
    Ok(i64::from(after > 0) - i64::from(before > 0))
}

/// The blob of each extent of a segment; a blob that several extents name is repeated.
fn segment_blobs(conn: &Connection, segment: i64) -> Result<Vec<i64>> {
    let record: Bytes = blobs::segment(conn, loaded_int(segment)?)?.unwrap_or_default();
    let extents = decode_extents(&record).map_err(|_| failure("the record of a segment cannot be read"))?;
    let blob = |extent: &Extent| match extent {
        Extent::Blob { blob, .. } => stored_int(*blob),
        Extent::Inline(_) | Extent::Segment { .. } => Err(failure("an extent of a segment is not a blob")),
    };
    extents.iter().map(blob).collect()
}

/// Removes segments that no bucket holds. A rebuild keeps them until its end.
pub(crate) fn drop_unheld_segments(conn: &Connection) -> Result<()> {
    conn.execute("DELETE FROM segments WHERE sequence NOT IN (SELECT segment FROM segment_holdings)", [])?;
    Ok(())
}

fn orphan_blob(counters: &mut Counters, blob: i64, deltas: &BucketDeltas) -> Result<()> {
    let Some(rebuild) = &mut counters.rebuild else {
        return Err(failure(&format!("a manifest names the blob {blob}, which does not exist")));
    };
    deltas.iter().try_for_each(|(bucket, delta)| rebuild.orphan_blob(blob, bucket, delta))
}

fn orphan_segment(counters: &mut Counters, segment: i64, deltas: &BucketDeltas) -> Result<()> {
    let Some(rebuild) = &mut counters.rebuild else {
        let reason = format!("a manifest names the segment {segment}, which does not exist");
        return Err(failure(&reason));
    };
    deltas.iter().try_for_each(|(bucket, delta)| rebuild.orphan_segment(segment, bucket, delta))
}
