//! Documents in tables: what is accepted comes back, and what is refused.

use super::*;
use crate::errors::ErrorCode;
use orcas_lifecycle::{EntryFacts, EntryState, Expiration, Filter, Noncurrent, Rule};

const ENABLED: &str = "<Status>Enabled</Status>";
const DAYS: &str = "<Expiration><Days>1</Days></Expiration>";

fn rule(content: &str) -> String {
    format!("<LifecycleConfiguration><Rule>{content}</Rule></LifecycleConfiguration>")
}

/// A rule with an ID, this filter and this action.
fn filtered(filter: &str, action: &str) -> String {
    rule(&format!("<ID>r</ID><Filter>{filter}</Filter>{ENABLED}{action}"))
}

fn read(body: &str) -> Result<Rule, (ErrorCode, String)> {
    let parsed = Configuration::parse(body.as_bytes());
    let rules = parsed.map(Configuration::into_rules).map_err(|error| (error.code, error.message.into_owned()))?;
    Ok(rules.all()[0].clone())
}

fn refused(body: &str) -> ErrorCode {
    read(body).map(|rule| panic!("{body} was read as {rule:?}")).unwrap_err().0
}

#[test]
fn every_form_of_a_rule_is_read_and_shown_as_it_was_sent() {
    let tag = "<Tag><Key>a</Key><Value>1</Value></Tag>";
    for content in [
        format!("<ID>r</ID><Prefix>a&amp;b/</Prefix>{ENABLED}{DAYS}"),
        format!("<ID>r</ID><Filter></Filter><Status>Disabled</Status>{DAYS}"),
        format!("<ID>r</ID><Filter><Prefix/></Filter>{ENABLED}{DAYS}"),
        format!("<ID>r</ID><Filter>{tag}</Filter>{ENABLED}{DAYS}"),
        format!("<ID>r</ID><Filter><ObjectSizeLessThan>9</ObjectSizeLessThan></Filter>{ENABLED}{DAYS}"),
        format!(
            "<ID>r</ID><Filter><And><Prefix>p</Prefix>{tag}<Tag><Key>b</Key><Value/></Tag>\
             <ObjectSizeGreaterThan>0</ObjectSizeGreaterThan><ObjectSizeLessThan>1</ObjectSizeLessThan></And></Filter>\
             {ENABLED}<Expiration><Date>2017-09-27T00:00:00.000Z</Date></Expiration>"
        ),
        format!(
            "<ID>r</ID><Filter></Filter>{ENABLED}<Expiration><ExpiredObjectDeleteMarker>true\
             </ExpiredObjectDeleteMarker></Expiration><NoncurrentVersionExpiration><NoncurrentDays>3</NoncurrentDays>\
             <NewerNoncurrentVersions>100</NewerNoncurrentVersions></NoncurrentVersionExpiration>\
             <AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation>\
             </AbortIncompleteMultipartUpload>"
        ),
    ] {
        let parsed = Configuration::parse(rule(&content).as_bytes()).unwrap();
        let shown = String::from_utf8(parsed.shown()).unwrap();
        assert!(shown.contains(&format!("<Rule>{content}</Rule>")), "{content}\n{shown}");
        for default_size in [DefaultSize::All128K, DefaultSize::Varies] {
            let sent = Configuration { default_size, ..Configuration::parse(shown.as_bytes()).unwrap() };
            assert_eq!(Configuration::load(&sent.stored()), Some(sent));
        }
    }
}

#[test]
fn what_a_rule_says_is_what_it_means() {
    let full = rule(&format!(
        "<ID>r</ID><Filter><And><Prefix>p/</Prefix><Tag><Key>a</Key><Value>1</Value></Tag></And></Filter>{ENABLED}\
         <Expiration><Date>1970-01-03</Date></Expiration><NoncurrentVersionExpiration>\
         <NoncurrentDays>3</NoncurrentDays></NoncurrentVersionExpiration>"
    ));
    let filter = Filter { prefix: b"p/".to_vec(), tags: vec![(b"a".to_vec(), b"1".to_vec())], ..Filter::default() };
    let expected = Rule {
        id: "r".into(),
        enabled: true,
        filter,
        expiration: Some(Expiration::Date(2 * 86_400_000)),
        noncurrent: Some(Noncurrent { days: 3, newer: 0 }),
        abort_days: None,
    };
    assert_eq!(read(&full), Ok(expected));
}

#[test]
fn what_is_not_of_the_schema_is_malformed() {
    for bad in [
        "<Foreign/>",
        "<LifecycleConfiguration/>",
        "<LifecycleConfiguration><Other/></LifecycleConfiguration>",
        // The status, the filter and the action of a rule.
        &rule(&format!("<Prefix/>{DAYS}")),
        &rule(&format!("<Prefix/><Status>enabled</Status>{DAYS}")),
        &rule(&format!("{ENABLED}{DAYS}")),
        &rule(&format!("<Prefix/><Filter/>{ENABLED}{DAYS}")),
        &rule(&format!("<Prefix/>{ENABLED}{DAYS}<Other/>")),
        // Several conditions without an And, an And of one, a condition twice.
        &filtered("<Prefix/><ObjectSizeLessThan>1</ObjectSizeLessThan>", DAYS),
        &filtered("<And><Prefix/></And>", DAYS),
        &filtered("<And><Prefix/><Prefix/></And>", DAYS),
        &filtered("<ObjectSizeLessThan>-1</ObjectSizeLessThan>", DAYS),
        &filtered("<Tag><Key>a</Key></Tag>", DAYS),
        // Not exactly one of days, a date and delete markers.
        &filtered("", "<Expiration/>"),
        &filtered("", "<Expiration><Days>1</Days><Date>2017-09-27T00:00:00Z</Date></Expiration>"),
        &filtered(
            "",
            "<Expiration><Days>1</Days><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>",
        ),
        &filtered("", "<Expiration><Days>1.5</Days></Expiration>"),
        &filtered("", "<Expiration><Days>2147483648</Days></Expiration>"),
        &filtered("", "<Expiration><Date>20200101</Date></Expiration>"),
        &filtered("", "<NoncurrentVersionExpiration/>"),
        &filtered(
            "",
            "<NoncurrentVersionExpiration><NewerNoncurrentVersions>1</NewerNoncurrentVersions>\
                       </NoncurrentVersionExpiration>",
        ),
        &filtered("", "<AbortIncompleteMultipartUpload/>"),
    ] {
        assert_eq!(refused(bad), ErrorCode::MalformedXML, "{bad}");
    }
}

#[test]
fn values_out_of_range_are_named() {
    let noncurrent = |name: &str, value: &str| {
        let days = if name == "NoncurrentDays" { "" } else { "<NoncurrentDays>1</NoncurrentDays>" };
        filtered(
            "",
            &format!("<NoncurrentVersionExpiration>{days}<{name}>{value}</{name}></NoncurrentVersionExpiration>"),
        )
    };
    for (body, message) in [
        (
            filtered("", "<Expiration><Days>0</Days></Expiration>"),
            "'Days' for Expiration action must be a positive integer",
        ),
        (
            filtered("", "<Expiration><Days>-1</Days></Expiration>"),
            "'Days' for Expiration action must be a positive integer",
        ),
        (filtered("", "<Expiration><Date>2017-09-27T00:00:01Z</Date></Expiration>"), "'Date' must be at midnight GMT"),
        (
            noncurrent("NoncurrentDays", "0"),
            "'NoncurrentDays' for NoncurrentVersionExpiration action must be a positive integer",
        ),
        (
            noncurrent("NewerNoncurrentVersions", "0"),
            "'NewerNoncurrentVersions' for NoncurrentVersionExpiration action must be a positive integer",
        ),
        (
            noncurrent("NewerNoncurrentVersions", "101"),
            "'NewerNoncurrentVersions' for NoncurrentVersionExpiration action must not exceed 100",
        ),
        (
            filtered(
                "",
                "<AbortIncompleteMultipartUpload><DaysAfterInitiation>0</DaysAfterInitiation>\
                 </AbortIncompleteMultipartUpload>",
            ),
            "'DaysAfterInitiation' for AbortIncompleteMultipartUpload action must be a positive integer",
        ),
        (
            rule(&format!("<ID>{}</ID><Prefix/>{ENABLED}{DAYS}", "é".repeat(256))),
            "ID length should not exceed allowed limit of 255",
        ),
        (
            format!(
                "<LifecycleConfiguration>{}</LifecycleConfiguration>",
                format!("<Rule><ID>r</ID><Prefix/>{ENABLED}{DAYS}</Rule>").repeat(2)
            ),
            "Rule ID must be unique. Found same ID for more than one rule",
        ),
    ] {
        assert_eq!(read(&body), Err((ErrorCode::InvalidArgument, message.to_owned())), "{body}");
    }
    assert!(read(&rule(&format!("<ID>{}</ID><Prefix/>{ENABLED}{DAYS}", "é".repeat(255)))).is_ok());
}

/// Three rules, of which the first and the last overlap and have the same action. Each prefix is in an `element`.
fn overlapping(element: &str, action: &str) -> String {
    let noncurrent = "<NoncurrentVersionExpiration><NoncurrentDays>3</NoncurrentDays></NoncurrentVersionExpiration>";
    let rules = [("logs/2/", action), ("logs/2", noncurrent), ("logs/", action)].map(|(prefix, action)| {
        let prefix = format!("<Prefix>{prefix}</Prefix>");
        let scope = if element == "Prefix" { prefix } else { format!("<{element}>{prefix}</{element}>") };
        format!("<Rule>{scope}{ENABLED}{action}</Rule>")
    });
    format!("<LifecycleConfiguration>{}</LifecycleConfiguration>", rules.concat())
}

#[test]
fn how_many_noncurrent_versions_stay_needs_a_filter() {
    let newer = "<NewerNoncurrentVersions>1</NewerNoncurrentVersions>";
    let rule = |scope: &str, newer: &str| {
        let action = format!("<NoncurrentDays>1</NoncurrentDays>{newer}");
        rule(&format!("{scope}{ENABLED}<NoncurrentVersionExpiration>{action}</NoncurrentVersionExpiration>"))
    };
    assert_eq!(refused(&rule("<Prefix/>", newer)), ErrorCode::InvalidRequest);
    assert!(read(&rule("<Prefix/>", "")).is_ok());
    assert!(read(&rule("<Filter/>", newer)).is_ok());
}

#[test]
fn filters_may_overlap() {
    assert!(read(&overlapping("Filter", DAYS)).is_ok());
}

#[test]
fn rules_that_cannot_be_meant_are_refused() {
    let tag = "<Tag><Key>a</Key><Value>1</Value></Tag>";
    let large = "<ObjectSizeGreaterThan>5</ObjectSizeGreaterThan>";
    let abort = "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation>\
                 </AbortIncompleteMultipartUpload>";
    let markers = "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>";
    let many = format!("<Rule><Prefix/>{ENABLED}{DAYS}</Rule>").repeat(1_001);
    let mixed = format!("<Rule><Prefix/>{ENABLED}{DAYS}</Rule><Rule><Filter/>{ENABLED}{DAYS}</Rule>");
    for (body, message) in [
        (rule(&format!("<Prefix/>{ENABLED}")), "At least one action needs to be specified in a rule"),
        (filtered(tag, abort), "AbortIncompleteMultipartUpload cannot be specified with Tags."),
        (filtered(large, abort), "AbortIncompleteMultipartUpload cannot be specified with Object Size."),
        (filtered(tag, markers), "ExpiredObjectDeleteMarker cannot be specified with Tags."),
        (filtered(large, markers), "ExpiredObjectDeleteMarker cannot be specified with Object Size."),
        (filtered(&format!("<And>{tag}{tag}</And>"), DAYS), "Duplicate Tag Keys are not allowed."),
        (
            filtered(&format!("<And>{large}<ObjectSizeLessThan>5</ObjectSizeLessThan></And>"), DAYS),
            "'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'.",
        ),
        (
            rule(&format!("<Prefix>{}</Prefix>{ENABLED}{DAYS}", "p".repeat(1_025))),
            "The maximum size of a prefix is 1024.",
        ),
        (
            format!("<LifecycleConfiguration>{many}</LifecycleConfiguration>"),
            "The number of lifecycle rules must not exceed the allowed limit of 1000 rules.",
        ),
        (
            format!("<LifecycleConfiguration>{mixed}</LifecycleConfiguration>"),
            "Base level prefix cannot be used in Lifecycle V2, prefixes are only supported in the Filter.",
        ),
        (
            overlapping("Prefix", DAYS),
            "Found overlapping prefixes 'logs/' and 'logs/2/' for same action type 'Expiration'",
        ),
        (
            overlapping("Prefix", abort),
            "Found overlapping prefixes 'logs/' and 'logs/2/' for same action type 'AbortIncompleteMultipartUpload'",
        ),
    ] {
        assert_eq!(read(&body), Err((ErrorCode::InvalidRequest, message.to_owned())));
    }
    for transition in ["Transition", "NoncurrentVersionTransition"] {
        let action = format!("{DAYS}<{transition}><Days>1</Days><StorageClass>GLACIER</StorageClass></{transition}>");
        assert_eq!(refused(&filtered("", &action)), ErrorCode::NotImplemented);
        for (element, code) in [
            ("<Date>2030-01-01T00:55:27Z</Date>", ErrorCode::InvalidArgument),
            ("<Date>20300101</Date>", ErrorCode::MalformedXML),
            ("<Days>one</Days>", ErrorCode::MalformedXML),
            ("<StorageClass>STANDARD</StorageClass>", ErrorCode::MalformedXML),
            ("<Other/>", ErrorCode::MalformedXML),
        ] {
            let action = format!("<{transition}>{element}</{transition}>");
            assert_eq!(refused(&filtered("", &action)), code, "{element}");
        }
    }
}

#[test]
fn a_thousand_rules_get_ids_of_their_own_that_stay() {
    let many = format!("<Rule><Filter/>{ENABLED}{DAYS}</Rule>").repeat(1_000);
    let body = format!("<LifecycleConfiguration>{many}</LifecycleConfiguration>");
    let parsed = Configuration::parse(body.as_bytes()).unwrap();
    assert_eq!(Configuration::parse(body.as_bytes()), Ok(Configuration::load(&parsed.stored()).unwrap()));
    assert!(parsed.rules.iter().all(|rule| rule.rule.id.len() == 48));
}

#[test]
fn the_header_names_the_time_and_the_rule() {
    let rules = rules(rule(&format!("<ID>a b\"é/1</ID><Prefix/>{ENABLED}{DAYS}")).as_bytes()).unwrap();
    let facts = EntryFacts { key: b"k", size: 1, modified_ms: 1_356_000_000_000, tags: &[] };
    let due = rules.due(&facts, EntryState::Current, 86_400_000).unwrap();
    let shown = String::from_utf8(expiration(&due)).unwrap();
    assert_eq!(shown, "expiry-date=\"Sat, 22 Dec 2012 00:00:00 GMT\", rule-id=\"a%20b%22%C3%A9/1\"");
    assert_eq!(
        (due_date(&due).as_slice(), due_rule(&due)),
        (&b"Sat, 22 Dec 2012 00:00:00 GMT"[..], b"a%20b%22%C3%A9/1".to_vec())
    );
}

#[test]
fn the_default_size_is_one_of_two() {
    let of = |value: &'static [u8]| DefaultSize::of_request(&Headers::new(&[(DEFAULT_SIZE.as_bytes(), value)]));
    assert_eq!(of(b"varies_by_storage_class"), Ok(DefaultSize::Varies));
    assert_eq!(of(b"all_storage_classes_128K"), Ok(DefaultSize::All128K));
    assert_eq!(of(b"other").unwrap_err().code, ErrorCode::InvalidRequest);
    assert_eq!(DefaultSize::of_request(&Headers::new(&[])), Ok(DefaultSize::All128K));
}
