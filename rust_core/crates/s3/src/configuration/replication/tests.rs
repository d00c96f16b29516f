//! Documents in tables: what is accepted comes back, and what is refused.

use super::*;
use crate::errors::ErrorCode;

const TO: &str = "<Destination><Bucket>arn:aws:s3:::site/copies</Bucket></Destination>";
const ON: &str = "<Status>Enabled</Status>";
const NO_MARKERS: &str = "<DeleteMarkerReplication><Status>Disabled</Status></DeleteMarkerReplication>";

fn document_of(rules: &[String]) -> String {
    let rules: String = rules.iter().map(|rule| format!("<Rule>{rule}</Rule>")).collect();
    format!("<ReplicationConfiguration><Role>arn:aws:iam::123456789012:role/r</Role>{rules}</ReplicationConfiguration>")
}

fn read(rules: &[String]) -> Result<Replication, S3Error> {
    Replication::parse(document_of(rules).as_bytes())
}

fn refusal(rule: &str) -> (ErrorCode, String) {
    let error = read(&[rule.to_owned()]).map(|found| panic!("{rule} was read as {found:?}")).unwrap_err();
    (error.code, error.message.into_owned())
}

/// A rule with this id, priority and filter.
fn filtered(id: &str, priority: u32, filter: &str) -> String {
    format!("<ID>{id}</ID><Priority>{priority}</Priority><Filter>{filter}</Filter>{ON}{TO}{NO_MARKERS}")
}

#[test]
fn what_a_rule_says_is_shown_and_stored() {
    let tag = "<Tag><Key>a</Key><Value>1</Value></Tag>";
    for rule in [
        format!("<ID>r</ID><Prefix>a&amp;b/</Prefix>{ON}{TO}"),
        filtered("r", 0, ""),
        filtered("r", 7, "<Prefix>p/</Prefix>"),
        filtered("r", 1, tag),
        filtered("r", 1, &format!("<And><Prefix>p</Prefix>{tag}<Tag><Key>b</Key><Value/></Tag></And>")),
        format!(
            "<ID>r</ID><Priority>1</Priority><Filter></Filter><Status>Disabled</Status><ExistingObjectReplication>{ON}\
             </ExistingObjectReplication><SourceSelectionCriteria><SseKmsEncryptedObjects>{ON}</SseKmsEncryptedObjects>\
             <ReplicaModifications><Status>Disabled</Status></ReplicaModifications></SourceSelectionCriteria>\
             <Destination><Bucket>arn:aws:s3:::site/copies</Bucket><StorageClass>STANDARD_IA</StorageClass>\
             <EncryptionConfiguration><ReplicaKmsKeyID>k</ReplicaKmsKeyID></EncryptionConfiguration><Metrics>{ON}\
             </Metrics></Destination><DeleteMarkerReplication>{ON}</DeleteMarkerReplication>"
        ),
    ] {
        let mut found = read(std::slice::from_ref(&rule)).unwrap();
        let shown = String::from_utf8(found.shown()).unwrap();
        assert!(shown.contains(&format!("<Rule>{rule}</Rule>")), "{rule}\n{shown}");
        found.begin(None, 99);
        assert_eq!(Replication::load(&found.stored()), Some(found));
    }
}

#[test]
fn what_clients_of_minio_write_comes_back() {
    let rule = |filter: &str, removals: &str| {
        format!(
            "<ID>r</ID>{ON}<Priority>1</Priority>{NO_MARKERS}<DeleteReplication><Status>{removals}</Status>\
             </DeleteReplication>{TO}<Filter>{filter}</Filter><SourceSelectionCriteria><ReplicaModifications><Status>\
             Disabled</Status></ReplicaModifications></SourceSelectionCriteria>"
        )
    };
    let tag = "<Tag><Key>a</Key><Value>1</Value></Tag>";
    for (filter, shown) in [
        ("<Prefix></Prefix>".to_owned(), "<Prefix/>".to_owned()),
        ("<Prefix></Prefix><And><Prefix>p</Prefix></And>".to_owned(), "<And><Prefix>p</Prefix></And>".to_owned()),
        (format!("<Prefix></Prefix>{tag}"), tag.to_owned()),
    ] {
        let body = document_of(&[rule(&filter, "Disabled")]).replace("arn:aws:iam::123456789012:role/r", "");
        let found = Replication::parse(body.as_bytes()).unwrap();
        let document = String::from_utf8(found.shown()).unwrap();
        assert!(document.contains(&format!("<Filter>{shown}</Filter>")), "{document}");
        assert!(document.contains("<DeleteReplication><Status>Disabled</Status></DeleteReplication>"), "{document}");
        assert_eq!(Replication::parse(&found.shown()).unwrap().rules[0].prefix, found.rules[0].prefix);
    }
    assert_eq!(refusal(&rule("", "Enabled")).0, ErrorCode::NotImplemented);
}

#[test]
fn each_rule_begins_where_the_first_with_its_destination_did() {
    let other = filtered("o", 2, "").replace("copies", "others");
    let mut first = read(&[filtered("a", 1, "<Prefix>a</Prefix>")]).unwrap();
    first.begin(None, 10);
    let mut second = read(&[filtered("b", 1, "<Prefix>b</Prefix>"), other]).unwrap();
    second.begin(Some(&first), 20);
    assert_eq!(second.rules.iter().map(|rule| rule.begins_after).collect::<Vec<_>>(), [10, 20]);
    // What came while it was off is not copied.
    first.rules[0].enabled = false;
    second.begin(Some(&first), 30);
    assert_eq!(second.rules[0].begins_after, 30);
}

#[test]
fn of_each_destination_the_rule_with_the_greatest_priority_applies() {
    let tag = "<Tag><Key>a</Key><Value>1</Value></Tag>";
    let rules = [
        filtered("all", 1, ""),
        filtered("some", 2, "<Prefix>p</Prefix>"),
        filtered("tagged", 3, tag),
        filtered("other", 4, "").replace("copies", "others"),
        filtered("off", 5, "").replace("Enabled", "Disabled"),
    ];
    let found = read(&rules).unwrap();
    let of = |key: &str, tags: &[(&str, &str)]| {
        let ids = found.applying(key.as_bytes(), tags).into_iter().map(|rule| rule.id.clone());
        ids.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(of("x", &[]), "all other");
    assert_eq!(of("p/x", &[]), "some other");
    assert_eq!(of("p/x", &[("a", "1")]), "tagged other");
    assert_eq!(of("p/x", &[("a", "2")]), "some other");
}

#[test]
fn what_s3_refuses_is_refused() {
    use ErrorCode::{InvalidArgument, InvalidRequest, InvalidStorageClass, MalformedXML};
    let plain = filtered("r", 1, "");
    let tag = "<Tag><Key>a</Key><Value>1</Value></Tag>";
    let replaced = |from: &str, to: &str| plain.replace(from, to);
    for (rule, code, part) in [
        (replaced(TO, ""), MalformedXML, ""),
        (replaced(ON, ""), MalformedXML, ""),
        (replaced(ON, "<Status>On</Status>"), MalformedXML, ""),
        (replaced("<Filter></Filter>", "<Filter><Other/></Filter>"), MalformedXML, ""),
        (replaced("<Filter></Filter>", "<Filter><And><Prefix/></And></Filter>"), MalformedXML, ""),
        (replaced("<Priority>1</Priority>", ""), InvalidRequest, "Priority must be specified"),
        (replaced(NO_MARKERS, ""), InvalidRequest, "DeleteMarkerReplication must be specified"),
        (replaced("<Filter></Filter>", ""), InvalidRequest, "Priority cannot be used"),
        (format!("<Prefix/>{ON}{TO}{NO_MARKERS}"), InvalidRequest, "DeleteMarkerReplication cannot be used"),
        (replaced("<ID>r", &format!("<ID>{}", "r".repeat(256))), InvalidArgument, "ID length"),
        (filtered("r", 1, tag).replace("Disabled", "Enabled"), InvalidRequest, "Delete marker replication is not"),
        (filtered("r", 1, &format!("<And>{tag}{tag}</And>")), InvalidRequest, "Duplicate Tag Keys"),
        (replaced("arn:aws:s3:::", ""), InvalidArgument, "Invalid bucket ARN"),
        (replaced("site/copies", "copies"), InvalidArgument, "TARGET/BUCKET"),
        (replaced("site/copies", "site/a/b"), InvalidArgument, "TARGET/BUCKET"),
        (replaced("</Bucket>", "</Bucket><StorageClass>COLD</StorageClass>"), InvalidStorageClass, ""),
    ] {
        let (found, message) = refusal(&rule);
        assert!(found == code && message.contains(part), "{rule}\n{found:?} {message}");
    }
    let code_of = |rules: &[String]| read(rules).map_err(|error| error.code).unwrap_err();
    assert_eq!(code_of(&[]), MalformedXML);
    assert_eq!(code_of(&[plain.clone(), filtered("r", 2, "")]), InvalidRequest);
    assert_eq!(code_of(&[plain.clone(), filtered("s", 1, "")]), InvalidRequest);
    let old = |prefix: &str| format!("<Prefix>{prefix}</Prefix>{ON}{TO}");
    assert_eq!(code_of(&[plain, old("a")]), InvalidRequest);
    assert_eq!(code_of(&[old("ab"), old("a")]), InvalidRequest);
    let many: Vec<String> = (0..1001).map(|at| filtered(&at.to_string(), at, "")).collect();
    assert_eq!(code_of(&many), InvalidRequest);
    assert!(read(&many[..1000]).is_ok());
}

#[test]
fn what_nothing_carries_out_is_refused() {
    let within = |more: &str| filtered("r", 1, "").replace("</Bucket>", &format!("</Bucket>{more}"));
    for rule in [
        within("<Account>123456789012</Account>"),
        within("<AccessControlTranslation><Owner>Destination</Owner></AccessControlTranslation>"),
        within("<ReplicationTime><Status>Enabled</Status><Time><Minutes>15</Minutes></Time></ReplicationTime>"),
        within("<Metrics><Status>Enabled</Status><EventThreshold><Minutes>15</Minutes></EventThreshold></Metrics>"),
        format!(
            "{}<SourceSelectionCriteria><ReplicaModifications>{ON}</ReplicaModifications></SourceSelectionCriteria>",
            filtered("r", 1, "")
        ),
    ] {
        assert_eq!(refusal(&rule).0, ErrorCode::NotImplemented, "{rule}");
    }
}

#[test]
fn a_mark_holds_for_one_place() {
    let mark = format!("1/source 3 {}", hex(&Md5Hasher::digest(b"copies/a/key")));
    assert!(is_replica(mark.as_bytes(), b"copies", b"a/key"));
    for (bucket, key) in [(&b"copies"[..], &b"key"[..]), (b"others", b"a/key")] {
        assert!(!is_replica(mark.as_bytes(), bucket, key));
    }
    assert!(!is_replica(b"", b"copies", b"a/key"));
}
