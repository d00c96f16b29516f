//! Rows of the index, decoded into what their records bring.

use bytes::Bytes;

use orcas_base::error::{Error, Result};
use orcas_index::Stored;
use orcas_record::{self as record, Part, Record, Upload, Version};

/// The version in any record that brings one, with its present attributes.
pub fn version_of(stored: &Stored) -> Result<Version> {
    let version = match record::decode(stored.kind, &stored.record)? {
        Record::PutVersion(version) | Record::MoveVersion { version, .. } | Record::CompleteUpload { version, .. } => {
            version
        }
        _ => return Err(Error::Record { reason: "the record of a version is of another type" }),
    };
    let Some(update) = &stored.update else { return Ok(version) };
    match record::decode(record::UPDATE_VERSION, update)? {
        Record::UpdateVersion { attributes, .. } => Ok(Version { attributes, ..version }),
        _ => Err(Error::Record { reason: "the record of an update is of another type" }),
    }
}

pub fn part_of(stored: &Stored) -> Result<Part> {
    match record::decode(stored.kind, &stored.record)? {
        Record::PutPart(part) => Ok(part),
        _ => Err(Error::Record { reason: "the record of a part is of another type" }),
    }
}

pub fn upload_of(kind: u8, payload: &Bytes) -> Result<Upload> {
    match record::decode(kind, payload)? {
        Record::CreateUpload(upload) => Ok(upload),
        _ => Err(Error::Record { reason: "the record of an upload is of another type" }),
    }
}
