//! Copies whose bytes were stored again: what they were read from, and what was stored.

use super::attributes::CopyAttributes;
use super::intent::{Body, PutObject, PutPart, Source, SourceConditions};
use orcas_checksum::Checksum;
use orcas_record::{Annotations, Sequence};

/// A copy whose bytes were read from the source at `source_sequence` and stored again, because they cannot be shared.
#[derive(Clone, Debug)]
pub struct StoredCopy {
    pub source: Source,
    pub source_sequence: Sequence,
    pub source_conditions: SourceConditions,
    pub into: StoredInto,
}

#[derive(Clone, Debug)]
pub enum StoredInto {
    /// Its attributes are those that the source has when this is decided, changed like this.
    Object {
        put: Box<PutObject>,
        attributes: CopyAttributes,
        annotations: StoredAnnotations,
    },
    Part(Box<PutPart>),
}

/// Annotations of the source of a copy whose texts were stored again as well.
#[derive(Clone, Debug, Default)]
pub struct StoredAnnotations {
    /// As they were found.
    pub found: Annotations,
    /// One for each of them.
    pub texts: Vec<StoredText>,
}

#[derive(Clone, Debug)]
pub struct StoredText {
    pub md5: [u8; 16],
    pub checksum: Option<Checksum>,
    /// In one piece.
    pub body: Body,
}
