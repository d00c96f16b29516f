//! The name that S3 has for a change: decided by what was changed and by the operation that did it.

use orcas_engine::{Change, ChangeKind};
use orcas_events::{Bucket, Event, EventName, Object};
use orcas_http::hex_pairs;
use orcas_record::{Cause, VersionId};
use orcas_s3::Operation;
use orcas_s3::versions::VersionName;

/// The event of a change. `None` if S3 has none for it, or only a message of another form.
pub fn event_of(change: &Change) -> Option<Event> {
    let name = name_of(change)?;
    let principal = match &change.cause {
        Cause::Request(request) if request.principal != [0; 32] => hex(&request.principal),
        Cause::Request(_) | Cause::Engine | Cause::Lifecycle | Cause::Sealing => String::new(),
    };
    let object = (!name.is_of_bucket()).then(|| Object {
        key: change.key.to_vec(),
        size: change.content.map(|(size, _)| size),
        etag: change.content.map(|(_, etag)| etag.to_string()).unwrap_or_default(),
        version_id: change.version.map(version).unwrap_or_default(),
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(Event {
        name,
        place: change.place,
        time_ms: change.time_ms,
        bucket: Bucket { name: text(&change.bucket_name), owner: text(&change.owner), id: change.bucket.0 },
        object,
        principal,
        request_id: request_id(&change.cause),
        source_address: String::new(),
    })
}

fn name_of(change: &Change) -> Option<EventName> {
    let by_rule = change.cause == Cause::Lifecycle;
    Some(match change.kind {
        ChangeKind::BucketCreated => EventName::BucketCreated,
        ChangeKind::BucketRemoved => EventName::BucketRemoved,
        ChangeKind::Stored => match event_of_operation(&change.cause) {
            Some(name @ (EventName::ObjectCreatedPost | EventName::ObjectCreatedCopy)) => name,
            _ => EventName::ObjectCreatedPut,
        },
        ChangeKind::Completed => EventName::ObjectCreatedCompleteMultipartUpload,
        ChangeKind::Renamed => EventName::ObjectCreatedCopy,
        ChangeKind::Removed if by_rule => EventName::LifecycleExpirationDelete,
        ChangeKind::Removed => EventName::ObjectRemovedDelete,
        ChangeKind::Marked if by_rule => EventName::LifecycleExpirationDeleteMarkerCreated,
        ChangeKind::Marked => EventName::ObjectRemovedDeleteMarkerCreated,
        ChangeKind::Updated => event_of_operation(&change.cause)?,
        ChangeKind::Configured => return None,
    })
}

fn event_of_operation(cause: &Cause) -> Option<EventName> {
    match cause {
        Cause::Request(request) => Operation::from_code(request.operation)?.spec().event,
        Cause::Engine | Cause::Lifecycle | Cause::Sealing => None,
    }
}

/// Empty if it was no request.
pub(super) fn request_id(cause: &Cause) -> String {
    match cause {
        Cause::Request(request) => format!("{:016X}", request.request),
        Cause::Engine | Cause::Lifecycle | Cause::Sealing => String::new(),
    }
}

fn hex(bytes: &[u8; 32]) -> String {
    String::from_utf8_lossy(hex_pairs(bytes).as_flattened()).into_owned()
}

fn version(id: VersionId) -> String {
    match id {
        VersionId::Null => VersionName::Null.to_string(),
        VersionId::Named(id) => VersionName::Given(id).to_string(),
    }
}
