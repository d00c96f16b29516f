//! What the log says about requests and starts: structs that become dicts, field by field.

use orcas_s3::Operation;
use pyo3::prelude::*;

/// Who asked for what, according to the head. Nothing of it is verified.
#[derive(IntoPyObject)]
pub struct Description {
    operation: Option<&'static str>,
    bucket: Option<String>,
    key: Option<String>,
    access_key: Option<String>,
}

impl From<orcas_gateway::Description> for Description {
    fn from(described: orcas_gateway::Description) -> Self {
        let orcas_gateway::Description { operation, bucket, key, access_key } = described;
        Self { operation: operation.map(Operation::name), bucket, key, access_key }
    }
}

/// What is wrong with a signature. The texts contain bytes of the client; those that are not UTF-8 are replaced.
#[derive(IntoPyObject)]
pub struct Diagnosis {
    cause: Option<String>,
    canonical_request: Option<String>,
    string_to_sign: Option<String>,
}

impl From<orcas_sigv4::Diagnosis> for Diagnosis {
    fn from(diagnosis: orcas_sigv4::Diagnosis) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let texts = diagnosis.explanation.as_ref();
        Self {
            canonical_request: texts.and_then(|texts| texts.canonical_request.as_deref()).map(text),
            string_to_sign: texts.map(|texts| text(&texts.string_to_sign)),
            cause: diagnosis.cause,
        }
    }
}

/// What was done at a start.
#[derive(IntoPyObject)]
pub struct Recovery {
    batches: u64,
    records: u64,
    torn_bytes: u64,
    index_rebuilt: bool,
    unclean: bool,
}

impl From<orcas_engine::Replayed> for Recovery {
    fn from(replayed: orcas_engine::Replayed) -> Self {
        let orcas_engine::Replayed { batches, records, torn_bytes, index_rebuilt, unclean } = replayed;
        Self { batches, records, torn_bytes, index_rebuilt, unclean }
    }
}
