//! Which versions and parts cannot be read whole any more: those whose manifests lead to something damaged.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Loss;
use super::collect::{Collector, Damage};
use crate::reads::{part_of, version_of};
use orcas_base::error::Result;
use orcas_index::Index;
use orcas_record::{self as record, BucketId, Extent, Record, Sequence, VersionId};

/// Rows read at a time.
const PAGE: usize = 2_048;

struct Search<'a> {
    collector: &'a Collector<'a>,
    index: &'a Index,
    damage: Damage,
    /// Segments that lead to something damaged.
    segments: BTreeMap<Sequence, &'static str>,
    names: BTreeMap<BucketId, String>,
    losses: Vec<Loss>,
    total: u64,
    listed_max: usize,
}

/// The first `listed_max` losses and the number of all.
///
/// # Errors
/// When the index cannot be read.
pub(super) fn find(collector: &Collector<'_>, index: &Index, listed_max: usize) -> Result<(Vec<Loss>, u64)> {
    let damage = collector.damage();
    if damage.is_empty() {
        return Ok((Vec::new(), 0));
    }
    let (segments, names) = (BTreeMap::new(), BTreeMap::new());
    let mut search = Search { collector, index, damage, segments, names, losses: Vec::new(), total: 0, listed_max };
    search.names()?;
    search.segments()?;
    search.versions()?;
    search.parts()?;
    Ok((search.losses, search.total))
}

impl Search<'_> {
    fn names(&mut self) -> Result<()> {
        for stored in self.index.read()?.buckets()? {
            if let Ok(Record::CreateBucket(bucket) | Record::UpdateBucket(bucket)) =
                record::decode(stored.kind, &stored.record)
            {
                self.names.insert(bucket.id, String::from_utf8_lossy(&bucket.name).into_owned());
            }
        }
        Ok(())
    }

    fn segments(&mut self) -> Result<()> {
        let mut after = 0;
        loop {
            self.collector.go_on()?;
            let page = self.index.read()?.segments_after(after, 16)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = *last;
            for (segment, payload) in page {
                let reason = match (self.damage.blob(segment), record::decode_extents(&payload)) {
                    (Some(reason), _) => Some(reason),
                    (None, Ok(extents)) => self.reason(&extents),
                    (None, Err(_)) => Some("a segment of its manifest cannot be read"),
                };
                if let Some(reason) = reason {
                    self.segments.insert(segment, reason);
                }
            }
        }
    }

    fn versions(&mut self) -> Result<()> {
        let mut after = 0;
        loop {
            self.collector.go_on()?;
            let page = self.index.read()?.versions_after(after, PAGE)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.sequence;
            for stored in &page {
                let Ok(version) = version_of(stored) else { continue };
                let own =
                    self.damage.record(stored.sequence).map(|_| "its record is gone from the log; the index has it");
                let Some(reason) = own.or_else(|| self.reason(&version.manifest)) else { continue };
                let version_id = match version.version_id {
                    VersionId::Null => None,
                    VersionId::Named(id) => Some(hexadecimal(&id)),
                };
                self.lose(version.bucket, version.key, (version_id, None), version.size, reason);
            }
        }
    }

    fn parts(&mut self) -> Result<()> {
        let mut after = None;
        loop {
            self.collector.go_on()?;
            let page = self.index.read()?.parts_after(after, PAGE)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some((last.upload, last.part.number));
            for found in page {
                let Ok(part) = part_of(&found.part.part) else { continue };
                let own = self.damage.record(found.part.part.sequence);
                let own = own.map(|_| "its record is gone from the log; the index has it");
                let Some(reason) = own.or_else(|| self.reason(&part.manifest)) else { continue };
                let upload = format!("{}/{}", hexadecimal(&found.upload.0), part.number);
                self.lose(found.bucket, found.key, (None, Some(upload)), part.size, reason);
            }
        }
    }

    /// Why a manifest cannot be read whole, if it cannot.
    fn reason(&self, manifest: &[Extent]) -> Option<&'static str> {
        manifest.iter().find_map(|extent| match extent {
            Extent::Inline(_) => None,
            Extent::Blob { blob, .. } => self.damage.blob(*blob),
            Extent::Segment { segment, .. } => {
                self.segments.get(segment).copied().or_else(|| self.damage.blob(*segment))
            }
        })
    }

    fn lose(
        &mut self,
        bucket: BucketId,
        key: Bytes,
        (version_id, upload): (Option<String>, Option<String>),
        bytes: u64,
        reason: &str,
    ) {
        self.total += 1;
        if self.losses.len() < self.listed_max {
            let bucket = self.names.get(&bucket).cloned().unwrap_or_else(|| format!("bucket {}", bucket.0));
            let reason = reason.to_owned();
            self.losses.push(Loss { bucket, key: Bytes::copy_from_slice(&key), version_id, upload, bytes, reason });
        }
    }
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        use std::fmt::Write as _;
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}
