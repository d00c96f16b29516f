//! Events as S3 writes them, version 2.3 of its structure, and reading them back.
//!
//! The same structures serve both directions. Fields that S3 has and Orcas does not are skipped when they are read.

use std::borrow::Cow;

use orcas_http::percent_encode_into;
use orcas_http::timestamp::{iso_time, parse as parse_time};
use serde::{Deserialize, Serialize};

use super::event::{Bucket, Event, FailedCopy, Object};
use super::names::EventName;

const VERSION: &str = "2.3";
/// The service that expires and copies objects, as S3 names it.
const SERVICE: &str = "s3.amazonaws.com";
/// The address that means none.
const NO_ADDRESS: &str = "0.0.0.0";
const ARN: &str = "arn:aws:s3:::";

/// The facts of a message beside the events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    pub region: &'a str,
    /// The value of `x-amz-id-2` in answers.
    pub host_id: &'a str,
    /// The ID of the notification by which the events are sent, or empty.
    pub configuration_id: &'a str,
    /// The prefix of the names of events: nothing, or `s3:` for MinIO's clients.
    pub name_prefix: &'a str,
}

/// An event that was read. What JSON does not say is empty: the id of the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub event: Event,
    pub region: String,
    pub configuration_id: String,
}

/// Text that is no message of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRecords;

/// Appends a message: an object whose `Records` are the events.
pub fn write_records<'e>(out: &mut Vec<u8>, context: Context<'_>, events: impl IntoIterator<Item = &'e Event>) {
    out.extend_from_slice(b"{\"Records\":[");
    for (at, event) in events.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_record(out, context, event);
    }
    out.extend_from_slice(b"]}");
}

/// Appends a message of one event: that a copy of the object failed.
pub fn write_failed_copy(out: &mut Vec<u8>, context: Context<'_>, event: &Event, failed: &FailedCopy) {
    out.extend_from_slice(b"{\"Records\":[");
    write(out, context, event, Some(failed));
    out.extend_from_slice(b"]}");
}

/// Appends one event.
pub fn write_record(out: &mut Vec<u8>, context: Context<'_>, event: &Event) {
    write(out, context, event, None);
}

fn write(out: &mut Vec<u8>, context: Context<'_>, event: &Event, failed: Option<&FailedCopy>) {
    let time = iso_time(i64::try_from(event.time_ms).unwrap_or(i64::MAX));
    let sequencer = event.place.digits();
    let (principal, address) = match (event.name.is_of_service(), event.source_address.as_str()) {
        (true, _) => (SERVICE, SERVICE),
        (false, "") => (event.principal.as_str(), NO_ADDRESS),
        (false, address) => (event.principal.as_str(), address),
    };
    let object = event.object.as_ref();
    let record = Record {
        event_version: VERSION.into(),
        event_source: "aws:s3".into(),
        aws_region: context.region.into(),
        event_time: text(&time),
        event_name: match context.name_prefix {
            "" => event.name.as_str().into(),
            prefix => format!("{prefix}{}", event.name.as_str()).into(),
        },
        user_identity: Identity { principal_id: principal.into() },
        request_parameters: Request { source_ip_address: address.into() },
        response_elements: Response { request_id: event.request_id.as_str().into(), host_id: context.host_id.into() },
        s3: Subject {
            s3_schema_version: "1.0".into(),
            configuration_id: context.configuration_id.into(),
            bucket: BucketPart {
                name: event.bucket.name.as_str().into(),
                owner_identity: Identity { principal_id: event.bucket.owner.as_str().into() },
                arn: [ARN, &event.bucket.name].concat().into(),
            },
            object: ObjectPart {
                key: object.map_or_else(Cow::default, |object| encoded(&object.key)),
                size: object.and_then(|object| object.size),
                etag: object.map(|object| object.etag.as_str().into()).unwrap_or_default(),
                version_id: object.map(|object| object.version_id.as_str().into()).unwrap_or_default(),
                sequencer: text(&sequencer),
            },
        },
        replication_event_data: failed.map(|failed| ReplicationPart {
            replication_rule_id: &failed.rule,
            destination_bucket: [ARN, &failed.destination].concat(),
            s3_operation: failed.operation,
            request_time: text(&iso_time(i64::try_from(failed.requested_ms).unwrap_or(i64::MAX))).into_owned(),
            failure_reason: &failed.reason,
        }),
    };
    serde_json::to_writer(out, &record).expect("text and numbers, written to memory");
}

/// The message by which S3 tells a destination that the notifications of a bucket name it.
pub fn test_message(time_ms: u64, bucket: &str, request_id: &str, host_id: &str) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct Test<'a> {
        service: &'a str,
        event: &'a str,
        time: &'a str,
        bucket: &'a str,
        request_id: &'a str,
        host_id: &'a str,
    }
    let time = iso_time(i64::try_from(time_ms).unwrap_or(i64::MAX));
    let (service, event, time) = ("Amazon S3", "s3:TestEvent", &*text(&time));
    let test = Test { service, event, time, bucket, request_id, host_id };
    serde_json::to_vec(&test).expect("text, written to memory")
}

/// Reads a message. `Records` may hold any number of events.
///
/// # Errors
/// If it is not what S3 writes, or an event is of a name that Orcas does not know.
pub fn parse_records(json: &[u8]) -> Result<Vec<Read>, NoRecords> {
    // To check all bytes at once is faster than to check each text in them.
    let json = str::from_utf8(json).map_err(|_| NoRecords)?;
    let message: Message<'_> = serde_json::from_str(json).map_err(|_| NoRecords)?;
    message.records.into_iter().map(|record| record.read().ok_or(NoRecords)).collect()
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, rename = "Records")]
    records: Vec<Record<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    #[serde(borrow)]
    event_version: Cow<'a, str>,
    #[serde(borrow)]
    event_source: Cow<'a, str>,
    #[serde(borrow)]
    aws_region: Cow<'a, str>,
    #[serde(borrow)]
    event_time: Cow<'a, str>,
    #[serde(borrow)]
    event_name: Cow<'a, str>,
    #[serde(borrow)]
    user_identity: Identity<'a>,
    #[serde(borrow)]
    request_parameters: Request<'a>,
    #[serde(borrow)]
    response_elements: Response<'a>,
    #[serde(borrow)]
    s3: Subject<'a>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    replication_event_data: Option<ReplicationPart<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplicationPart<'a> {
    replication_rule_id: &'a str,
    destination_bucket: String,
    s3_operation: &'a str,
    request_time: String,
    failure_reason: &'a str,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity<'a> {
    #[serde(borrow)]
    principal_id: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
struct Request<'a> {
    #[serde(borrow, rename = "sourceIPAddress")]
    source_ip_address: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
struct Response<'a> {
    #[serde(borrow, rename = "x-amz-request-id")]
    request_id: Cow<'a, str>,
    #[serde(borrow, rename = "x-amz-id-2")]
    host_id: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subject<'a> {
    #[serde(borrow)]
    s3_schema_version: Cow<'a, str>,
    #[serde(borrow)]
    configuration_id: Cow<'a, str>,
    #[serde(borrow)]
    bucket: BucketPart<'a>,
    #[serde(borrow)]
    object: ObjectPart<'a>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BucketPart<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    owner_identity: Identity<'a>,
    #[serde(borrow)]
    arn: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectPart<'a> {
    /// The key as in the query of a URL; empty in events of buckets, as MinIO has them.
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(borrow, default, rename = "eTag", skip_serializing_if = "is_empty")]
    etag: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "is_empty")]
    version_id: Cow<'a, str>,
    #[serde(borrow)]
    sequencer: Cow<'a, str>,
}

impl Record<'_> {
    fn read(self) -> Option<Read> {
        let Self { user_identity, request_parameters, response_elements, s3, .. } = self;
        let key = orcas_http::form_decode(s3.object.key.as_bytes())?;
        let object = Object {
            key,
            size: s3.object.size,
            etag: s3.object.etag.into_owned(),
            version_id: s3.object.version_id.into_owned(),
        };
        let name = s3.bucket.name.into_owned();
        let event_name = EventName::parse(&self.event_name)?;
        let known = |text: Cow<'_, str>, none: &[&str]| match none.contains(&&*text) {
            true => String::new(),
            false => text.into_owned(),
        };
        let event = Event {
            name: event_name,
            place: s3.object.sequencer.parse().ok()?,
            time_ms: parse_time(self.event_time.as_bytes())?,
            bucket: Bucket { name, owner: s3.bucket.owner_identity.principal_id.into_owned(), id: 0 },
            object: (!event_name.is_of_bucket()).then_some(object),
            principal: known(user_identity.principal_id, &[SERVICE]),
            request_id: response_elements.request_id.into_owned(),
            source_address: known(request_parameters.source_ip_address, &[SERVICE, NO_ADDRESS]),
        };
        Some(Read { event, region: self.aws_region.into_owned(), configuration_id: s3.configuration_id.into_owned() })
    }
}

fn is_empty(text: &str) -> bool {
    text.is_empty()
}

/// A key as S3 has it in events: percent-encoded but for slashes, with `+` for a space.
fn encoded(key: &[u8]) -> Cow<'_, str> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/');
    if key.iter().all(plain) {
        return text(key);
    }
    let mut out = Vec::with_capacity(key.len() + 16);
    for (at, word) in key.split(|byte| *byte == b' ').enumerate() {
        if at > 0 {
            out.push(b'+');
        }
        percent_encode_into(&mut out, word, true);
    }
    Cow::Owned(text(&out).into_owned())
}

fn text(ascii: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(ascii)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{event, events};
    use proptest::prelude::*;

    const CONTEXT: Context<'_> =
        Context { region: "eu-west-1", host_id: "host", configuration_id: "my \"rule\"", name_prefix: "" };

    fn written(event: &Event) -> String {
        let mut out = Vec::new();
        write_record(&mut out, CONTEXT, event);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_test_message_is_that_of_s3() {
        assert_eq!(
            String::from_utf8(test_message(1_413_215_822_089, "bucketname", "5582815E1AEA5ADF", "host")).unwrap(),
            r#"{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2014-10-13T15:57:02.089Z","Bucket":"bucketname","#
                .to_owned()
                + r#""RequestId":"5582815E1AEA5ADF","HostId":"host"}"#
        );
    }

    #[test]
    fn a_failed_copy_reads_as_that_of_s3() {
        let mut event = Event { name: EventName::ReplicationFailed, ..event() };
        (event.principal, event.source_address) = Default::default();
        let failed = FailedCopy {
            rule: "all".into(),
            destination: "backup/photos".into(),
            operation: "OBJECT_PUT",
            requested_ms: 1_725_570_239_168,
            reason: "AccessDenied".into(),
        };
        let mut out = Vec::new();
        write_failed_copy(&mut out, CONTEXT, &event, &failed);
        let written = String::from_utf8(out).unwrap();
        for part in [
            "\"eventName\":\"Replication:OperationFailedReplication\",\
             \"userIdentity\":{\"principalId\":\"s3.amazonaws.com\"},\
             \"requestParameters\":{\"sourceIPAddress\":\"s3.amazonaws.com\"}",
            "\"sequencer\":\"000000000000002A0001\"}},\
             \"replicationEventData\":{\"replicationRuleId\":\"all\",\
             \"destinationBucket\":\"arn:aws:s3:::backup/photos\",\"s3Operation\":\"OBJECT_PUT\",\
             \"requestTime\":\"2024-09-05T21:03:59.168Z\",\"failureReason\":\"AccessDenied\"}}]}",
        ] {
            assert!(written.contains(part), "{part} is not in {written}");
        }
        assert_eq!(parse_records(written.as_bytes()).unwrap()[0].event, event);
    }

    #[test]
    fn an_event_reads_as_that_of_s3() {
        assert_eq!(
            written(&event()),
            "{\"eventVersion\":\"2.3\",\"eventSource\":\"aws:s3\",\"awsRegion\":\"eu-west-1\",\
             \"eventTime\":\"2026-01-02T03:04:05.678Z\",\"eventName\":\"ObjectCreated:Put\",\
             \"userIdentity\":{\"principalId\":\"alice\"},\"requestParameters\":{\"sourceIPAddress\":\"127.0.0.1\"},\
             \"responseElements\":{\"x-amz-request-id\":\"00000000000000AB\",\"x-amz-id-2\":\"host\"},\
             \"s3\":{\"s3SchemaVersion\":\"1.0\",\"configurationId\":\"my \\\"rule\\\"\",\
             \"bucket\":{\"name\":\"photos\",\"ownerIdentity\":{\"principalId\":\"owner\"},\"arn\":\"arn:aws:s3:::photos\"},\
             \"object\":{\"key\":\"a+b/%C3%A9.jpg\",\"size\":1024,\"eTag\":\"d41d8cd98f00b204e9800998ecf8427e\",\
             \"versionId\":\"v1\",\"sequencer\":\"000000000000002A0001\"}}}"
        );
    }

    #[test]
    fn what_an_event_does_not_have_is_left_out_or_said() {
        let mut removed = event();
        removed.name = EventName::LifecycleExpirationDelete;
        removed.object = Some(Object { key: b"k".to_vec(), ..Object::default() });
        (removed.principal, removed.source_address) = (String::new(), String::new());
        let text = written(&removed);
        assert!(text.contains("\"object\":{\"key\":\"k\",\"sequencer\""), "{text}");
        assert!(text.contains("{\"principalId\":\"s3.amazonaws.com\"}"), "{text}");
        removed.name = EventName::ObjectRemovedDelete;
        assert!(written(&removed).contains("{\"sourceIPAddress\":\"0.0.0.0\"}"));
        removed.name = EventName::BucketCreated;
        removed.object = None;
        assert!(written(&removed).contains("\"object\":{\"key\":\"\",\"sequencer\""));
    }

    #[test]
    fn other_text_is_no_message() {
        let mut out = Vec::new();
        write_records(&mut out, CONTEXT, [&event()]);
        let good = String::from_utf8(out).unwrap();
        assert_eq!(parse_records(good.as_bytes()).unwrap().len(), 1);
        assert_eq!(parse_records(b"{\"Records\":[]}"), Ok(Vec::new()));
        for (part, other) in [
            ("{\"Records\"", "{\"Rows\""),
            ("ObjectCreated:Put", "ObjectCreated:Get"),
            ("000000000000002A0001", "42"),
            ("2026-01-02", "2026-02-30"),
            ("%C3", "%C"),
            ("]}", "]"),
            ("1024", "-1"),
        ] {
            let bad = good.replace(part, other);
            assert_ne!(bad, good);
            assert_eq!(parse_records(bad.as_bytes()), Err(NoRecords), "{part}");
        }
    }

    #[test]
    fn fields_of_later_versions_are_skipped() {
        let mut out = Vec::new();
        write_records(&mut out, CONTEXT, [&event()]);
        let known = parse_records(&out).unwrap();
        let later = String::from_utf8(out).unwrap().replace("\"size\"", "\"storage\":{\"x\":[1,{}]},\"size\"");
        assert_eq!(parse_records(later.as_bytes()).unwrap(), known);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(list in proptest::collection::vec(events(), 0..4), region in ".{0,8}") {
            let mut out = b"kept".to_vec();
            write_records(&mut out, Context { region: &region, configuration_id: "c", ..Context::default() }, &list);
            let read = parse_records(&out[4..]).unwrap();
            prop_assert!(read.iter().all(|read| read.region == region && read.configuration_id == "c"));
            prop_assert_eq!(read.into_iter().map(|read| read.event).collect::<Vec<_>>(), list);
        }

        #[test]
        fn no_text_panics(text in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse_records(&text);
        }
    }
}
