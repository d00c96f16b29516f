//! How long records are at most, estimated without encoding them.

use super::limits::KEY_LEN_MAX;
use orcas_record::{Attributes, Extent, Record, Version};

/// Bytes of a record beside those that are counted.
const RECORD_LEN: usize = 512;
/// Bytes of an extent and of a part beside those that are counted.
const ENTRY_LEN: usize = 80;

/// Bytes that the record of a moved version takes at most.
pub fn record_len(version: &Version) -> usize {
    // Both keys, of which neither is longer than that.
    let fixed = RECORD_LEN + 2 * KEY_LEN_MAX + version.parts.len() * ENTRY_LEN;
    let metadata = version.headers.metadata_len(ENTRY_LEN);
    fixed + manifest_len(&version.manifest) + metadata + attributes_len(&version.attributes)
}

/// Bytes by which the records of a decision may exceed those that every decision brings: what their manifests, headers
/// and attributes take.
pub fn records_len(records: &[Record]) -> usize {
    let len = |record: &Record| match record {
        Record::PutVersion(version) | Record::MoveVersion { version, .. } => record_len(version),
        Record::UpdateVersion { attributes, .. } => RECORD_LEN + KEY_LEN_MAX + attributes_len(attributes),
        Record::PutPart(part) => RECORD_LEN + manifest_len(&part.manifest),
        Record::Segment { extents } => RECORD_LEN + manifest_len(extents),
        _ => RECORD_LEN,
    };
    records.iter().map(len).sum()
}

fn manifest_len(manifest: &[Extent]) -> usize {
    manifest.iter().map(extent_len).sum()
}

fn extent_len(extent: &Extent) -> usize {
    match extent {
        Extent::Inline(bytes) => ENTRY_LEN + bytes.len(),
        Extent::Blob { .. } | Extent::Segment { .. } => ENTRY_LEN,
    }
}

fn text_len((name, value): &(bytes::Bytes, bytes::Bytes)) -> usize {
    ENTRY_LEN + name.len() + value.len()
}

fn attributes_len(attributes: &Attributes) -> usize {
    let annotations = attributes.annotations.as_slice().iter();
    let annotations = annotations.map(|annotation| ENTRY_LEN + annotation.name.len() + extent_len(&annotation.text));
    attributes.tags.iter().map(text_len).chain(annotations).sum()
}
