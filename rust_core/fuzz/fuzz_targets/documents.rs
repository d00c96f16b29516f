//! The XML documents of requests. What was read comes back when it is written as XML and read again, within the limits
//! of the API and of memory.
#![cfg_attr(fuzzing, no_main)]

use orcas_fuzz::{bounded, fuzz_target};
use orcas_record::{DOCUMENT_MAX, DocumentKind};
use orcas_s3::acl::{Acl, AskedAcl};
use orcas_s3::bucket_logging::{BucketLogging, Delivered};
use orcas_s3::documents::{CONFIGURATION_LEN_MAX, stored, stored_lifecycle, stored_replication};
use orcas_s3::encryption::BucketDefault;
use orcas_s3::event_targets::{EventTarget, Targets};
use orcas_s3::lifecycle::{Configuration, DefaultSize, rules};
use orcas_s3::notification::notifications;
use orcas_s3::replication::Replication;
use orcas_s3::target::KEY_LEN_MAX;
use orcas_s3::website::Website;
use orcas_s3::xml::requests::{DeleteRequest, complete_multipart_upload, create_bucket};
use orcas_s3::xml::{XmlWriter, versioning};
use orcas_s3::{object_lock, tags};

const TAGS_MAX: usize = 10;

/// Objects of one Delete document, and parts of one CompleteMultipartUpload.
const DELETE_MAX: usize = 1000;
const PARTS_MAX: usize = 10_000;
/// Grants of one access control list.
const GRANTS_MAX: usize = 100;

/// Allocated bytes for each byte of a document: the shortest element, `<a/>`, becomes a node in vectors that double.
const GROWTH_MAX: usize = 128;
const ANY_MAX: usize = 16 * 1024;

/// Whether every client can read it: the writer makes such references for nothing but what XML 1.0 forbids.
fn is_readable(document: &[u8]) -> bool {
    !document.windows(3).any(|text| text == b"&#x")
}

fn delete(body: &[u8]) {
    let Ok(request) = DeleteRequest::parse(body) else { return };
    assert!((1..=DELETE_MAX).contains(&request.entries.len()));
    let mut out = XmlWriter::document(body.len());
    out.open_root("Delete");
    out.boolean("Quiet", request.quiet);
    for entry in &request.entries {
        assert!(!entry.key.is_empty() && std::str::from_utf8(&entry.key).is_ok());
        out.open("Object");
        out.text("Key", &entry.key);
        if let Some(version) = &entry.version_id {
            out.text("VersionId", version);
        }
        out.close("Object");
    }
    out.close("Delete");
    let written = out.finish();
    assert!(is_readable(&written));
    let again = DeleteRequest::parse(&written).expect("what was written can be read");
    assert_eq!(again.quiet, request.quiet);
    assert_eq!(again.entries.len(), request.entries.len());
    for (again, entry) in again.entries.iter().zip(&request.entries) {
        assert_eq!((&again.key, &again.version_id), (&entry.key, &entry.version_id));
    }
}

fn complete(body: &[u8]) {
    let Ok(parts) = complete_multipart_upload(body) else { return };
    assert!((1..=PARTS_MAX).contains(&parts.len()));
    assert!(parts.iter().all(|part| (1..=PARTS_MAX).contains(&usize::from(part.number))));
    assert!(parts.windows(2).all(|two| two[0].number < two[1].number));
}

fn region(body: &[u8]) {
    let Ok(Some(region)) = create_bucket(body).map(|new| new.region) else { return };
    let mut out = XmlWriter::document(body.len());
    out.open_root("CreateBucketConfiguration");
    out.text("LocationConstraint", region.as_bytes());
    out.close("CreateBucketConfiguration");
    assert_eq!(create_bucket(&out.finish()).map(|new| new.region), Ok(Some(region)));
}

/// Tags, locks and versioning.
fn attributes(body: &[u8]) {
    if let Ok(tags) = tags::read_document(body) {
        assert!(tags.len() <= TAGS_MAX);
        let written = tags::write_document(tags.iter().map(|(key, value)| (&key[..], &value[..])));
        assert_eq!(tags::read_document(&written), Ok(tags));
    }
    if let Ok(Some(retention)) = object_lock::read_retention(body) {
        assert_eq!(object_lock::read_retention(&object_lock::write_retention(&retention)), Ok(Some(retention)));
    }
    if let Ok(on) = object_lock::read_legal_hold(body) {
        assert_eq!(object_lock::read_legal_hold(&object_lock::write_legal_hold(on)), Ok(on));
    }
    if let Ok(default) = object_lock::read_configuration(body) {
        let written = object_lock::write_configuration(default.as_ref());
        assert_eq!(object_lock::read_configuration(&written), Ok(default));
    }
    if let Ok(status) = versioning::read(body) {
        assert_eq!(versioning::read(&versioning::write(Some(status))), Ok(status));
    }
}

/// What is stored of a configuration is stored again as it is. Notifications can be read when an event comes.
fn configurations(body: &[u8]) {
    let known = [EventTarget { name: "hook".to_owned(), kind: "webhook".to_owned() }];
    let targets = Targets { region: "us-east-1", known: Some(&known) };
    for kind in DocumentKind::ALL {
        let Ok(written) = stored(kind, body, "b", targets) else { continue };
        assert!(written.len() <= CONFIGURATION_LEN_MAX && is_readable(&written));
        if written.is_empty() {
            continue;
        }
        assert_eq!(stored(kind, &written, "b", targets).as_ref(), Ok(&written));
        if kind == DocumentKind::Notification {
            assert!(notifications(&written).is_some_and(|list| list.iter().all(|one| one.target == "hook")));
        }
    }
}

/// What is stored of a lifecycle configuration is read again, as rules too, and shown as it can be sent.
fn lifecycle(body: &[u8]) {
    for size in [DefaultSize::All128K, DefaultSize::Varies] {
        let Ok(written) = stored_lifecycle(body, size) else { return };
        assert!(written.len() <= DOCUMENT_MAX && is_readable(&written));
        let loaded = Configuration::load(&written).expect("what was written can be read");
        assert_eq!((loaded.default_size, loaded.stored()), (size, written.clone()));
        assert!(rules(&written).is_some());
        assert_eq!(stored_lifecycle(&loaded.shown(), size), Ok(written));
    }
}

/// What a stored document has effects by.
fn effects(body: &[u8]) {
    if let Ok(Some(logging)) = BucketLogging::parse(body) {
        let delivered = Delivered {
            account: &"0".repeat(64),
            region: "us-east-1",
            bucket: &"b".repeat(63),
            time_ms: 1_700_000_000_000,
            unique: "0123456789ABCDEF",
        };
        let key = logging.key(&delivered);
        assert!(key.starts_with(&logging.prefix) && key.len() <= KEY_LEN_MAX);
        assert_eq!(
            BucketLogging::parse(&logging.document()).map(|again| again.map(|again| again.document())),
            Ok(Some(logging.document()))
        );
    }
    if let Ok(default) = BucketDefault::read(body) {
        assert_eq!(BucketDefault::read(&default.document()), Ok(default));
    }
    if let Ok(website) = Website::parse(body) {
        assert_eq!(Website::parse(&website.document()), Ok(website));
    }
}

/// What is stored of the rules of a replication is read again, and shown as it can be sent.
fn replication(body: &[u8]) {
    let Ok((rules, written)) = stored_replication(body, None, 7) else { return };
    assert!(written.len() <= DOCUMENT_MAX && is_readable(&written));
    assert_eq!(Replication::load(&written).as_ref(), Some(&rules));
    let mut again = Replication::parse(&rules.shown()).expect("what is shown can be sent");
    again.begin(None, 7);
    assert_eq!(again, rules);
}

/// An access control list. Groups come first when it is written.
fn acl(body: &[u8]) {
    let Ok(AskedAcl::List(acl)) = AskedAcl::of_document(body, &|_| true) else { return };
    assert!(acl.grants.len() <= GRANTS_MAX);
    let written = acl.document(&|_| None);
    let again = Acl::load(&written).expect("what was written can be read");
    assert_eq!((&again.owner, again.grants.len()), (&acl.owner, acl.grants.len()));
    assert!(acl.grants.iter().all(|grant| again.grants.contains(grant)));
    assert_eq!((again.is_public(), again.document(&|_| None)), (acl.is_public(), written));
}

fuzz_target!(|body: &[u8]| {
    bounded(30 * (GROWTH_MAX * body.len() + ANY_MAX) + 8 * ANY_MAX, || {
        attributes(body);
        delete(body);
        complete(body);
        region(body);
        configurations(body);
        lifecycle(body);
        replication(body);
        effects(body);
        acl(body);
    });
});
