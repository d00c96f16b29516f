//! Streams of events as the clients of a server read them: the parser, and the events in what it finds.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use orcas_events::json::{Read, parse_records};
use orcas_events::sse::{Limits, Parser};

/// Bytes of a line, and of the data of an event.
const LIMITS: Limits = Limits { line_len_max: 1 << 20, data_len_max: 1 << 20 };

/// The id, the type and the data of an event of a stream.
type Message = (String, String, String);

#[pyclass(module = "orcas._core")]
pub struct EventParser(Parser);

#[pymethods]
impl EventParser {
    #[new]
    fn new() -> Self {
        Self(Parser::new(LIMITS))
    }

    /// Takes the next bytes of the stream, and returns the events that they complete.
    fn push(&mut self, piece: &[u8]) -> PyResult<Vec<Message>> {
        let mut messages: Vec<Message> = Vec::new();
        let on = &mut |message: orcas_events::sse::Message<'_>| {
            messages.push((message.id.to_owned(), message.event.to_owned(), message.data.to_owned()));
        };
        match self.0.push(piece, on) {
            Ok(()) => Ok(messages),
            Err(_) => Err(PyValueError::new_err("a line or an event of the stream is too long")),
        }
    }

    #[getter]
    fn last_id(&self) -> &str {
        self.0.last_id()
    }

    #[getter]
    fn retry_ms(&self) -> Option<u64> {
        self.0.retry_ms()
    }
}

/// An event as a dict.
#[derive(IntoPyObject)]
pub struct EventRecord {
    name: &'static str,
    time_ms: u64,
    sequencer: String,
    bucket: String,
    owner: String,
    key: Option<String>,
    size: Option<u64>,
    etag: String,
    version_id: String,
    principal: String,
    request_id: String,
    source_address: String,
    region: String,
    configuration_id: String,
}

impl From<Read> for EventRecord {
    fn from(Read { event, region, configuration_id }: Read) -> Self {
        let (key, object) = match event.object {
            Some(object) => (Some(String::from_utf8_lossy(&object.key).into_owned()), object),
            None => (None, orcas_events::Object::default()),
        };
        Self {
            name: event.name.as_str(),
            time_ms: event.time_ms,
            sequencer: event.place.to_string(),
            bucket: event.bucket.name,
            owner: event.bucket.owner,
            key,
            size: object.size,
            etag: object.etag,
            version_id: object.version_id,
            principal: event.principal,
            request_id: event.request_id,
            source_address: event.source_address,
            region,
            configuration_id,
        }
    }
}

/// The events of a message in S3's structure.
#[pyfunction]
pub fn parse_event_records(json: &str) -> PyResult<Vec<EventRecord>> {
    let records = parse_records(json.as_bytes()).map_err(|_| PyValueError::new_err("this is no message of events"))?;
    Ok(records.into_iter().map(EventRecord::from).collect())
}
