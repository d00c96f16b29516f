//! The notification configuration of a bucket: reading and writing its document, and which events go to which target.
//!
//! A target is what the server calls it. An ARN names it, in the form of AWS or of MinIO; the event bus has none. Codes and
//! messages are those of S3, as far as they are known. Knows nothing of targets but their names.
//!
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketNotificationConfiguration.html>

use std::borrow::Cow;

use super::configurations::{document as written, generated_id};
use super::event_targets::{EVENT_BUS, Named, Targets};
use crate::errors::{ErrorCode, S3Error};
use crate::xml::XmlWriter;
use crate::xml::parse::{Element, document, malformed};
use orcas_events::{Event, EventNames};

pub const ROOT: &str = "NotificationConfiguration";
const BUS: &str = "EventBridgeConfiguration";
/// The events that S3 sends to the event bus, as far as there are such events here.
const BUS_EVENTS: [&str; 5] =
    ["s3:ObjectCreated:*", "s3:ObjectRemoved:*", "s3:LifecycleExpiration:*", "s3:ObjectTagging:*", "s3:ObjectAcl:Put"];
const RULES_MAX: usize = 100;
/// Characters of an ID.
const ID_LEN_MAX: usize = 255;
/// Bytes of a prefix or suffix, as sent.
const VALUE_LEN_MAX: usize = 1_024;

/// Which events of a bucket go where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    pub id: String,
    /// The name of the target, and the ARN that has it.
    pub target: String,
    pub arn: String,
    pub names: EventNames,
    pub prefix: Vec<u8>,
    pub suffix: Vec<u8>,
    /// S3 sends a test message to topics and queues, and none to functions.
    pub is_tested: bool,
}

impl Notification {
    /// Whether the target is the one that is called so.
    pub fn goes_to(&self, name: &str) -> bool {
        self.target == name || self.arn == name
    }

    pub fn matches(&self, event: &Event) -> bool {
        let Some(object) = &event.object else { return false };
        self.names.contains(event.name) && object.key.starts_with(&self.prefix) && object.key.ends_with(&self.suffix)
    }

    fn overlaps(&self, other: &Self) -> bool {
        let starts = self.prefix.starts_with(&other.prefix) || other.prefix.starts_with(&self.prefix);
        starts && (self.suffix.ends_with(&other.suffix) || other.suffix.ends_with(&self.suffix))
    }
}

/// The notifications of a stored document; `None` for one that cannot be read.
pub fn notifications(stored: &[u8]) -> Option<Vec<Notification>> {
    let root = document(stored, ROOT).ok()?;
    let read = |child: &Element| match child.name.as_str() {
        BUS => Some(to_bus()),
        _ => Rule::parse(child).ok()?.notification().ok(),
    };
    root.children.iter().map(read).collect()
}

/// The document that a write stores. Empty: no notifications. Notifications without an ID get one, the same for the same
/// document.
///
/// # Errors
/// `MalformedXML`, and `InvalidArgument` for values that S3 does not allow and for ARNs that name no target.
/// `NotImplemented` for EventBridge without a target.
pub fn stored(body: &[u8], targets: Targets<'_>) -> Result<Vec<u8>, S3Error> {
    let root = document(body, ROOT)?;
    if root.children.is_empty() {
        return Ok(Vec::new());
    }
    let (buses, children): (Vec<_>, Vec<_>) = root.children.iter().partition(|child| child.name == BUS);
    if buses.len() > 1 || buses.iter().any(|bus| !bus.leaf().is_ok_and(|text| text.trim().is_empty())) {
        return Err(malformed());
    }
    if !buses.is_empty() && targets.known.is_some_and(|known| known.iter().all(|target| target.name != EVENT_BUS)) {
        let message =
            "Notifications to Amazon EventBridge need a target of the type eventbridge, and this server has none.";
        return Err(S3Error::with(ErrorCode::NotImplemented, message));
    }
    if children.len() > RULES_MAX {
        let message = format!("Too many configurations submitted. The maximum number of configurations is {RULES_MAX}");
        return Err(S3Error::with(ErrorCode::InvalidRequest, message));
    }
    let mut rules = children.into_iter().map(Rule::parse).collect::<Result<Vec<_>, _>>()?;
    for (at, rule) in rules.iter_mut().enumerate().filter(|(_, rule)| rule.id.is_empty()) {
        rule.id = generated_id(&written(ROOT, |xml| rule.write(xml)), at);
    }
    check(&rules, targets)?;
    Ok(written(ROOT, |xml| {
        rules.iter().for_each(|rule| rule.write(xml));
        buses.iter().for_each(|_| xml.empty(BUS));
    }))
}

/// The event bus gets everything, and no test message.
fn to_bus() -> Notification {
    let names =
        BUS_EVENTS.iter().filter_map(|name| EventNames::parse_s3(name)).fold(EventNames::NONE, EventNames::union);
    Notification {
        id: String::new(),
        target: String::new(),
        arn: EVENT_BUS.to_owned(),
        names,
        prefix: Vec::new(),
        suffix: Vec::new(),
        is_tested: false,
    }
}

fn check(rules: &[Rule], targets: Targets<'_>) -> Result<(), S3Error> {
    let mut ids: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(invalid("Same ID used for multiple configurations. IDs must be unique."));
    }
    let mut known: Vec<(Notification, bool)> = Vec::with_capacity(rules.len());
    for rule in rules {
        let notification = rule.notification()?;
        for (other, other_names) in known.iter().zip(rules.iter().map(|rule| &rule.events)) {
            let common = rule.events.iter().any(|name| other_names.iter().any(|other| share(name, other)));
            if common && notification.overlaps(&other.0) {
                return Err(invalid(match rule.filter.is_some() || other.1 {
                    true => AMBIGUOUS,
                    false => SHARED,
                }));
            }
        }
        known.push((notification, rule.filter.is_some()));
    }
    rules.iter().try_for_each(|rule| rule.check_target(targets))
}

const SHARED: &str = "Configurations overlap. Configurations on the same bucket cannot share a common event type.";
const AMBIGUOUS: &str = "Configuration is ambiguously defined. Cannot have overlapping suffixes in two rules if the \
                         prefixes are overlapping for the same event type.";

fn invalid(message: impl Into<Cow<'static, str>>) -> S3Error {
    S3Error::with(ErrorCode::InvalidArgument, message)
}

/// Whether two names or patterns have an event in common.
fn share(one: &str, other: &str) -> bool {
    let includes = |pattern: &str, name: &str| pattern.strip_suffix('*').is_some_and(|group| name.starts_with(group));
    one == other || includes(one, other) || includes(other, one)
}

/// For what AWS has one service each. The server does not tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Topic,
    Queue,
    Function,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Topic, Self::Queue, Self::Function];

    /// The element of a notification, that of its ARN, the service in it, and what AWS calls the destination.
    fn names(self) -> [&'static str; 4] {
        match self {
            Self::Topic => ["TopicConfiguration", "Topic", "sns", "topic"],
            Self::Queue => ["QueueConfiguration", "Queue", "sqs", "queue"],
            Self::Function => ["CloudFunctionConfiguration", "CloudFunction", "lambda", "Lambda function"],
        }
    }
}

/// A notification, as it is sent and shown.
#[derive(Debug)]
struct Rule {
    kind: Kind,
    id: String,
    arn: String,
    events: Vec<String>,
    filter: Option<Filter>,
}

/// Values as sent: percent-encoded where their sender thought it necessary.
#[derive(Debug, Default)]
struct Filter {
    prefix: Option<String>,
    suffix: Option<String>,
}

impl Rule {
    fn parse(element: &Element) -> Result<Self, S3Error> {
        let kind = Kind::ALL.into_iter().find(|kind| kind.names()[0] == element.name).ok_or_else(malformed)?;
        let (mut id, mut arn, mut events, mut filter) = (None, None, Vec::new(), None);
        for child in &element.children {
            match child.name.as_str() {
                "Id" if id.is_none() => id = Some(checked_id(child.leaf()?)?),
                "Event" => events.push(child.leaf()?.trim().to_owned()),
                "Filter" if filter.is_none() => filter = Some(Filter::parse(child)?),
                name if name == kind.names()[1] && arn.is_none() => arn = Some(child.leaf()?.trim().to_owned()),
                _ => return Err(malformed()),
            }
        }
        let Some(arn) = arn.filter(|_| !events.is_empty()) else { return Err(malformed()) };
        Ok(Self { kind, id: id.unwrap_or_default(), arn, events, filter })
    }

    fn write(&self, xml: &mut XmlWriter) {
        let [element, destination, ..] = self.kind.names();
        xml.open(element);
        if !self.id.is_empty() {
            xml.text("Id", self.id.as_bytes());
        }
        xml.text(destination, self.arn.as_bytes());
        self.events.iter().for_each(|event| xml.text("Event", event.as_bytes()));
        if let Some(filter) = &self.filter {
            xml.open("Filter");
            xml.open("S3Key");
            for (name, value) in [("Prefix", &filter.prefix), ("Suffix", &filter.suffix)] {
                if let Some(value) = value {
                    xml.open("FilterRule");
                    xml.plain("Name", name);
                    xml.text("Value", value.as_bytes());
                    xml.close("FilterRule");
                }
            }
            xml.close("S3Key");
            xml.close("Filter");
        }
        xml.close(element);
    }

    fn notification(&self) -> Result<Notification, S3Error> {
        let mut names = EventNames::NONE;
        for (at, event) in self.events.iter().enumerate() {
            let meant = EventNames::parse_s3(event).ok_or_else(|| {
                S3Error::argument(
                    format!("The event '{event}' is not supported for notifications"),
                    "Event",
                    event.as_bytes(),
                )
            })?;
            if self.events[..at].iter().any(|other| share(event, other)) {
                return Err(invalid(SHARED));
            }
            names = names.union(meant);
        }
        let decoded = |value: Option<&String>| {
            let value = value.map(String::as_bytes).unwrap_or_default();
            orcas_http::form_decode(value).unwrap_or_else(|| value.to_vec())
        };
        Ok(Notification {
            id: self.id.clone(),
            target: self.target()?.name.to_owned(),
            arn: self.arn.clone(),
            names,
            prefix: decoded(self.filter.as_ref().and_then(|filter| filter.prefix.as_ref())),
            suffix: decoded(self.filter.as_ref().and_then(|filter| filter.suffix.as_ref())),
            is_tested: self.kind != Kind::Function,
        })
    }

    fn target(&self) -> Result<Named<'_>, S3Error> {
        let [_, _, service, _] = self.kind.names();
        Named::parse(&self.arn, service).ok_or_else(|| {
            let message = if !self.arn.starts_with("arn:") || self.arn.split(':').count() < 6 {
                "The ARN could not be parsed"
            } else {
                "The ARN is not well formed"
            };
            S3Error::argument(message, "Arn", self.arn.as_bytes())
        })
    }

    fn check_target(&self, targets: Targets<'_>) -> Result<(), S3Error> {
        let named = self.target()?;
        if !named.region.is_empty() && named.region != targets.region {
            let message = "The notification destination service region is not valid for the bucket location constraint";
            return Err(S3Error::argument(message, "Arn", self.arn.as_bytes()));
        }
        if targets.known.is_none_or(|known| known.iter().any(|target| named.is(target))) {
            return Ok(());
        }
        let missing = format!("The destination {} does not exist", self.kind.names()[3]);
        Err(invalid("Unable to validate the following destination configurations")
            .field("ArgumentName", self.arn.as_bytes())
            .field("ArgumentValue", missing))
    }
}

impl Filter {
    fn parse(element: &Element) -> Result<Self, S3Error> {
        let [key] = element.children.as_slice() else { return Err(malformed()) };
        // Without rules, as mc sends it, everything is meant: the schema requires none.
        if key.name != "S3Key" {
            return Err(malformed());
        }
        let mut filter = Self::default();
        for rule in &key.children {
            let (mut name, mut value) = (None, None);
            for child in &rule.children {
                match (rule.name.as_str(), child.name.as_str()) {
                    ("FilterRule", "Name") if name.is_none() => name = Some(child.leaf()?.trim()),
                    ("FilterRule", "Value") if value.is_none() => value = Some(child.leaf()?),
                    _ => return Err(malformed()),
                }
            }
            let (Some(name), Some(value)) = (name, value) else { return Err(malformed()) };
            let (place, name) = match name.to_ascii_lowercase().as_str() {
                "prefix" => (&mut filter.prefix, "prefix"),
                "suffix" => (&mut filter.suffix, "suffix"),
                _ => {
                    let message = "filter rule name must be either prefix or suffix";
                    return Err(S3Error::argument(message, "FilterRule.Name", name.as_bytes()));
                }
            };
            if value.len() > VALUE_LEN_MAX {
                let message = "Size of filter rule value cannot exceed 1024 bytes in UTF-8 representation";
                return Err(S3Error::argument(message, "FilterRule.Value", value.as_bytes()));
            }
            if place.replace(value.to_owned()).is_some() {
                return Err(invalid(format!("Cannot specify more than one {name} rule in a filter.")));
            }
        }
        Ok(filter)
    }
}

fn checked_id(id: &str) -> Result<String, S3Error> {
    if id.chars().count() > ID_LEN_MAX {
        let message = format!("ID length exceeded allowed limit of {ID_LEN_MAX}");
        return Err(S3Error::argument(message, "Id", id.as_bytes()));
    }
    Ok(id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::event_targets::EventTarget;
    use super::*;
    use orcas_events::EventName;
    use proptest::prelude::*;

    const QUEUE: &str = "<Queue>arn:aws:sqs:us-east-1::hook</Queue>";
    const CREATED: &str = "<Event>s3:ObjectCreated:*</Event>";

    const JOBS: &str = "arn:aws:sqs:us-east-1:123456789012:jobs";
    const RESIZE: &str = "arn:aws:lambda:us-east-1:123456789012:function:resize:live";

    fn known() -> [EventTarget; 5] {
        [("hook", "webhook"), ("other", "kafka"), (JOBS, "sqs"), (RESIZE, "lambda"), (EVENT_BUS, "eventbridge")]
            .map(|(name, kind)| EventTarget { name: name.into(), kind: kind.into() })
    }

    fn store(content: &str) -> Result<String, S3Error> {
        let known = known();
        let targets = Targets { region: "us-east-1", known: Some(&known) };
        let body = format!("<{ROOT}>{content}</{ROOT}>");
        stored(body.as_bytes(), targets).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    fn refusal(content: &str) -> (ErrorCode, String) {
        let error = store(content).unwrap_err();
        (error.code, error.message.into_owned())
    }

    fn queue(content: &str) -> String {
        format!("<QueueConfiguration>{content}</QueueConfiguration>")
    }

    fn filtered(id: &str, filters: &[(&str, &str)]) -> String {
        let rules: String = filters
            .iter()
            .map(|(name, value)| format!("<FilterRule><Name>{name}</Name><Value>{value}</Value></FilterRule>"))
            .collect();
        queue(&format!("<Id>{id}</Id>{QUEUE}{CREATED}<Filter><S3Key>{rules}</S3Key></Filter>"))
    }

    #[test]
    fn what_is_stored_is_stored_again_as_it_is() {
        let all = "<TopicConfiguration><Event>s3:ObjectRemoved:Delete</Event><Topic>arn:aws:sns:us-east-1:123456789012:hook\
                   </Topic></TopicConfiguration><CloudFunctionConfiguration><Id>f</Id><Event>s3:ObjectTagging:*</Event>\
                   <CloudFunction>arn:aws:lambda:::function:other</CloudFunction></CloudFunctionConfiguration>";
        let written = store(&format!("{all}{}", filtered("q", &[("SUFFIX", ".jpg"), ("prefix", "a+b%2F")]))).unwrap();
        let known = known();
        let targets = Targets { region: "us-east-1", known: Some(&known) };
        assert_eq!(stored(written.as_bytes(), targets), Ok(written.clone().into_bytes()));
        let list = notifications(written.as_bytes()).unwrap();
        let shown: Vec<(&str, &str)> = list.iter().map(|one| (one.target.as_str(), one.id.as_str())).collect();
        assert_eq!((shown[1], shown[2], list[0].id.len()), (("other", "f"), ("hook", "q"), 48));
        assert_eq!((&list[2].prefix[..], &list[2].suffix[..]), (&b"a b/"[..], &b".jpg"[..]));
        assert!(list[2].names.contains(EventName::ObjectCreatedCopy));
        assert_eq!(store("").as_deref(), Ok(""));
    }

    #[test]
    fn arns_name_targets() {
        for arn in [
            "arn:aws:sqs:::hook",
            "arn:aws:sqs:::other",
            "arn:minio:sqs::hook:webhook",
            "arn:minio:sqs:us-east-1:hook:webhook",
            "arn:minio:sqs::other:kafka",
        ] {
            assert!(store(&queue(&format!("<Queue>{arn}</Queue>{CREATED}"))).is_ok(), "{arn}");
        }
        for (arn, expected) in [
            ("x", "The ARN could not be parsed"),
            ("arn:aws:sns:us-east-1::hook", "The ARN is not well formed"),
            ("arn:aws:sqs:us-east-1:12:hook", "The ARN is not well formed"),
            ("arn:aws:sqs:us-east-1::", "The ARN is not well formed"),
            (
                "arn:aws:sqs:eu-west-1::hook",
                "The notification destination service region is not valid for the bucket location constraint",
            ),
            ("arn:minio:sqs::hook:amqp", "The ARN is not well formed"),
            ("arn:minio:sqs::hook:nats", "Unable to validate the following destination configurations"),
            ("arn:aws:sqs:us-east-1::gone", "Unable to validate the following destination configurations"),
        ] {
            let (code, message) = refusal(&queue(&format!("<Queue>{arn}</Queue>{CREATED}")));
            assert_eq!((code, message.as_str()), (ErrorCode::InvalidArgument, expected), "{arn}");
        }
        let error = store(&queue(&format!("<Queue>arn:aws:sqs:::gone</Queue>{CREATED}"))).unwrap_err();
        let said = [
            ("ArgumentName", b"arn:aws:sqs:::gone".to_vec()),
            ("ArgumentValue", b"The destination queue does not exist".to_vec()),
        ];
        assert_eq!(error.extra, said);
    }

    #[test]
    fn a_target_at_aws_is_named_by_its_whole_arn() {
        for arn in ["arn:aws:sqs:us-east-1::jobs", "arn:aws:sqs:us-east-1:210987654321:jobs", "arn:aws:sqs:::jobs"] {
            let (_, message) = refusal(&queue(&format!("<Queue>{arn}</Queue>{CREATED}")));
            assert_eq!(message, "Unable to validate the following destination configurations", "{arn}");
        }
        let function = |arn: &str| {
            let function = format!("<CloudFunction>{arn}</CloudFunction>{CREATED}");
            store(&format!("<CloudFunctionConfiguration>{function}</CloudFunctionConfiguration>"))
        };
        assert!(function("arn:aws:lambda:us-east-1:123456789012:function:resize").is_err());
        assert!(function("arn:aws:lambda:us-east-1:123456789012:function:hook:live").is_err());
        for written in [store(&queue(&format!("<Queue>{JOBS}</Queue>{CREATED}"))), function(RESIZE)] {
            let list = notifications(written.unwrap().as_bytes()).unwrap();
            let names = [JOBS, RESIZE, "jobs", "resize:live", "resize", "hook"];
            assert_eq!(names.map(|name| list[0].goes_to(name)).iter().filter(|goes| **goes).count(), 2);
            assert!(list[0].goes_to(&list[0].arn) && !list[0].goes_to("resize"));
        }
    }

    #[test]
    fn the_event_bus_gets_what_s3_sends_to_it() {
        let written = store(&format!("<EventBridgeConfiguration/>{}", queue(&format!("{QUEUE}{CREATED}")))).unwrap();
        assert!(written.ends_with("</QueueConfiguration><EventBridgeConfiguration/></NotificationConfiguration>"));
        let list = notifications(written.as_bytes()).unwrap();
        let bus = list.iter().find(|one| one.goes_to(EVENT_BUS)).unwrap();
        let sent = EventName::ALL.iter().filter(|name| bus.names.contains(**name)).count();
        assert_eq!((sent, bus.is_tested), (11, false));
        assert!(!bus.names.contains(EventName::BucketCreated));
        for content in [
            "<EventBridgeConfiguration><Event/></EventBridgeConfiguration>",
            "<EventBridgeConfiguration/>\
             <EventBridgeConfiguration/>",
            "<EventBridgeConfiguration>x</EventBridgeConfiguration>",
        ] {
            assert_eq!(refusal(content).0, ErrorCode::MalformedXML, "{content}");
        }
        let body = format!("<{ROOT}><EventBridgeConfiguration/></{ROOT}>");
        let without = |known| stored(body.as_bytes(), Targets { region: "us-east-1", known });
        assert_eq!(without(Some(&[])).unwrap_err().code, ErrorCode::NotImplemented);
        assert!(without(None).is_ok());
    }

    #[test]
    fn events_are_those_of_s3_and_no_two_of_a_notification_are_the_same() {
        let of = |events: &[&str]| {
            let events: String = events.iter().map(|event| format!("<Event>{event}</Event>")).collect();
            store(&queue(&format!("{QUEUE}{events}"))).map_err(|error| error.message.into_owned())
        };
        assert!(of(&["s3:ObjectCreated:Put", "s3:ObjectCreated:Post", "s3:LifecycleTransition"]).is_ok());
        let foreign = of(&["s3:Foreign"]).unwrap_err();
        assert_eq!(foreign, "The event 's3:Foreign' is not supported for notifications");
        assert!(of(&["s3:BucketCreated:*"]).is_err());
        assert_eq!(of(&["s3:ObjectCreated:Put", "s3:ObjectCreated:*"]), Err(SHARED.to_owned()));
        assert_eq!(of(&["s3:ObjectCreated:Put"; 2]), Err(SHARED.to_owned()));
    }

    #[test]
    fn filters_are_at_most_one_prefix_and_one_suffix() {
        for (filters, expected) in [
            (&[("prefix", "a"), ("Prefix", "b")][..], "Cannot specify more than one prefix rule in a filter."),
            (&[("suffix", "a"), ("suffix", "b")], "Cannot specify more than one suffix rule in a filter."),
            (&[("infix", "a")], "filter rule name must be either prefix or suffix"),
            (
                &[("prefix", &"a".repeat(1025))],
                "Size of filter rule value cannot exceed 1024 bytes in UTF-8 representation",
            ),
        ] {
            assert_eq!(refusal(&filtered("a", filters)), (ErrorCode::InvalidArgument, expected.to_owned()));
        }
    }

    #[test]
    fn an_event_goes_to_one_place_at_most() {
        let both = |one: &[(&str, &str)], other: &[(&str, &str)]| {
            let result = store(&format!("{}{}", filtered("a", one), filtered("b", other)));
            result.map(drop).map_err(|error| error.message.into_owned())
        };
        let ambiguous = Err(AMBIGUOUS.to_owned());
        assert_eq!(both(&[("prefix", "a")], &[("prefix", "b")]), Ok(()));
        assert_eq!(both(&[("prefix", "a")], &[("prefix", "ab")]), ambiguous);
        assert_eq!(both(&[("prefix", "a")], &[("suffix", "b")]), ambiguous);
        assert_eq!(both(&[("prefix", "a"), ("suffix", "x")], &[("prefix", "ab"), ("suffix", "y")]), Ok(()));
        assert_eq!(both(&[("suffix", ".jpg")], &[("suffix", "g")]), ambiguous);
        let plain = queue(&format!("{QUEUE}{CREATED}"));
        assert_eq!(refusal(&plain.repeat(2)), (ErrorCode::InvalidArgument, SHARED.to_owned()));
        let removed = queue(&format!("{QUEUE}<Event>s3:ObjectRemoved:*</Event>"));
        assert!(store(&format!("{plain}{removed}")).is_ok());
    }

    #[test]
    fn a_filter_without_rules_is_none() {
        let stored = store(&queue(&format!("{QUEUE}{CREATED}<Filter><S3Key/></Filter>"))).unwrap();
        assert!(!stored.contains("FilterRule"), "{stored}");
    }

    #[test]
    fn documents_have_a_schema_and_at_most_100_configurations() {
        for content in [
            "<Foreign/>",
            &queue(CREATED),
            &queue(QUEUE),
            &queue(&format!("{QUEUE}{QUEUE}{CREATED}")),
            &queue(&format!("{QUEUE}{CREATED}<Topic>arn</Topic>")),
            &queue(&format!("{QUEUE}{CREATED}<Filter/>")),
            &queue(&format!("{QUEUE}{CREATED}<Filter><S3Key><FilterRule/></S3Key></Filter>")),
        ] {
            assert_eq!(refusal(content).0, ErrorCode::MalformedXML, "{content}");
        }
        let many: String = (0..101).map(|at| filtered(&format!("{at}"), &[("prefix", &format!("{at}/"))])).collect();
        assert_eq!(refusal(&many).0, ErrorCode::InvalidRequest);
        let (code, message) =
            refusal(&format!("{}{}", filtered("a", &[("prefix", "a")]), filtered("a", &[("prefix", "b")])));
        assert_eq!(code, ErrorCode::InvalidArgument);
        assert_eq!(message, "Same ID used for multiple configurations. IDs must be unique.");
        assert_eq!(refusal(&filtered(&"i".repeat(256), &[("prefix", "a")])).0, ErrorCode::InvalidArgument);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[<>/A-Za-z:* ]{0,80}") {
            let targets = Targets { region: "r", known: Some(&[]) };
            let _ = stored(text.as_bytes(), targets);
            prop_assert_eq!(notifications(text.as_bytes()), None);
        }
    }
}
