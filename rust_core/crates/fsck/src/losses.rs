//! Which versions and parts cannot be read whole any more, because their manifests lead to something damaged, and which
//! versions, uploads and parts have lost their records.

use std::collections::BTreeMap;

use super::Loss;
use super::collect::{Collector, Damage};
use super::manifests::{Losses, each_part, each_upload, each_version};
use orcas_base::error::Result;
use orcas_index::Index;
use orcas_record::{self as record, Attributes, Extent, Sequence};

/// The reason for a record that the log has lost.
const RECORD_GONE: &str = "its record is gone from the log; the index has it";
/// The reason for an object whose own content is whole.
pub const ANNOTATION_DAMAGED: &str = "an annotation of it is damaged; the object itself is not";
const METADATA_DAMAGED: &str = "its metadata does not match its authentication tag";
const UPLOAD_GONE: &str = "the record of this upload is gone from the log; the index has it";

struct Search<'a> {
    collector: &'a Collector<'a>,
    index: &'a Index,
    damage: Damage,
    /// Segments that lead to something damaged.
    segments: BTreeMap<Sequence, &'static str>,
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
    let mut search = Search { collector, index, damage, segments: BTreeMap::new() };
    search.segments()?;
    let mut losses = Losses::new(index, listed_max)?;
    let go_on = || collector.go_on();
    each_version(index, &go_on, &mut |sequence, version| {
        if let Ok(version) = version
            && let Some(reason) = search
                .reason(sequence, &version.manifest)
                .or_else(|| search.damage.in_headers(sequence).then_some(METADATA_DAMAGED))
                .or_else(|| search.in_annotations(&version.attributes))
        {
            losses.version(&version, reason);
        }
        Ok(())
    })?;
    each_upload(index, &go_on, &mut |upload| {
        if search.damage.record(upload.sequence).is_some() {
            losses.upload(upload, UPLOAD_GONE);
        } else if search.damage.in_headers(upload.sequence) {
            losses.upload(upload, METADATA_DAMAGED);
        }
    })?;
    each_part(index, &go_on, &mut |found, part| {
        if let Ok(part) = part
            && let Some(reason) = search.reason(found.part.part.sequence, &part.manifest)
        {
            losses.part(found, &part, reason);
        }
        Ok(())
    })?;
    Ok((losses.listed, losses.total))
}

impl Search<'_> {
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
                    (None, Ok(extents)) => self.in_manifest(&extents),
                    (None, Err(_)) => Some("a segment of its manifest cannot be read"),
                };
                if let Some(reason) = reason {
                    self.segments.insert(segment, reason);
                }
            }
        }
    }

    /// Why what this record brought cannot be read whole, if it cannot.
    fn reason(&self, sequence: Sequence, manifest: &[Extent]) -> Option<&'static str> {
        self.damage.record(sequence).map(|_| RECORD_GONE).or_else(|| self.in_manifest(manifest))
    }

    fn in_annotations(&self, attributes: &Attributes) -> Option<&'static str> {
        let damaged =
            |extent: &Extent| matches!(extent, Extent::Blob { blob, .. } if self.damage.blob(*blob).is_some());
        attributes.annotations.extents().any(damaged).then_some(ANNOTATION_DAMAGED)
    }

    fn in_manifest(&self, manifest: &[Extent]) -> Option<&'static str> {
        manifest.iter().find_map(|extent| match extent {
            Extent::Inline(_) => None,
            Extent::Blob { blob, .. } => self.damage.blob(*blob),
            Extent::Segment { segment, .. } => {
                self.segments.get(segment).copied().or_else(|| self.damage.blob(*segment))
            }
        })
    }
}
