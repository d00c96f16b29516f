//! The logging configuration of a bucket: reading and writing its document, and the keys of the objects that are
//! delivered.
//!
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/ServerLogs.html>

use super::configurations::document as written;
use crate::errors::{ErrorCode, S3Error};
use crate::requests::target::KEY_LEN_MAX;
use crate::xml::XmlWriter;
use crate::xml::parse::{Element, document, malformed};
use orcas_http::timestamp::iso_time;

const ROOT: &str = "BucketLoggingStatus";
/// Bytes that a key adds to its prefix, at most: account, region, bucket, date, time and a unique string.
const ADDED_LEN_MAX: usize = 64 + 1 + 64 + 1 + 63 + 1 + 11 + 20 + 17;

/// The configuration of access logs: where records of requests to a bucket are delivered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BucketLogging {
    pub bucket: String,
    pub prefix: String,
    /// The format of keys; `None` if the document names none, which means `Simple`.
    pub format: Option<KeyFormat>,
    /// Grants to others.
    pub grants: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyFormat {
    Simple,
    /// Keys by day, of the event or of the delivery.
    ByEvent,
    ByDelivery,
}

/// The parts of the key of a delivered object, besides the configuration.
pub struct Delivered<'a> {
    pub account: &'a str,
    pub region: &'a str,
    pub bucket: &'a str,
    /// Milliseconds since 1970: of the delivery, or the day of the events if that decides.
    pub time_ms: i64,
    /// 16 hexadecimal digits in upper case.
    pub unique: &'a str,
}

impl BucketLogging {
    /// Reads a BucketLoggingStatus document. `None`: nothing is logged.
    ///
    /// # Errors
    /// `MalformedXML`, and `InvalidArgument` for a prefix that leaves no room for a key.
    pub fn parse(body: &[u8]) -> Result<Option<Self>, S3Error> {
        let root = document(body, ROOT)?;
        let enabled = match &root.children[..] {
            [] => return Ok(None),
            [child] if child.name == "LoggingEnabled" => child,
            _ => return Err(malformed()),
        };
        let (mut bucket, mut prefix, mut format, mut grants) = (None, None, None, None);
        for child in &enabled.children {
            let first = match child.name.as_str() {
                "TargetBucket" => bucket.replace(child.leaf()?.trim().to_owned()).is_none(),
                "TargetPrefix" => prefix.replace(child.leaf()?.to_owned()).is_none(),
                "TargetObjectKeyFormat" => format.replace(key_format(child)?).is_none(),
                "TargetGrants" => grants.replace(!child.children.is_empty()).is_none(),
                _ => false,
            };
            if !first {
                return Err(malformed());
            }
        }
        let bucket = bucket.filter(|name: &String| !name.is_empty()).ok_or_else(malformed)?;
        let prefix = prefix.ok_or_else(malformed)?;
        if prefix.len() + ADDED_LEN_MAX > KEY_LEN_MAX {
            let message = "The prefix leaves no room for the names of log objects";
            return Err(S3Error::argument(message, "TargetPrefix", prefix.as_bytes()));
        }
        Ok(Some(Self { bucket, prefix, format, grants: grants.unwrap_or(false) }))
    }

    /// The document, as it is stored and read.
    pub fn document(&self) -> Vec<u8> {
        written(ROOT, |xml: &mut XmlWriter| {
            xml.open("LoggingEnabled");
            xml.text("TargetBucket", self.bucket.as_bytes());
            xml.text("TargetPrefix", self.prefix.as_bytes());
            if let Some(format) = self.format {
                xml.open("TargetObjectKeyFormat");
                match format {
                    KeyFormat::Simple => xml.empty("SimplePrefix"),
                    KeyFormat::ByEvent | KeyFormat::ByDelivery => {
                        xml.open("PartitionedPrefix");
                        let source = if format == KeyFormat::ByEvent { "EventTime" } else { "DeliveryTime" };
                        xml.plain("PartitionDateSource", source);
                        xml.close("PartitionedPrefix");
                    }
                }
                xml.close("TargetObjectKeyFormat");
            }
            xml.close("LoggingEnabled");
        })
    }

    /// Whether records of one day are kept apart from those of another.
    pub fn by_event(&self) -> bool {
        self.format == Some(KeyFormat::ByEvent)
    }

    /// The key of an object of records.
    pub fn key(&self, delivered: &Delivered<'_>) -> String {
        let Delivered { account, region, bucket, time_ms, unique } = delivered;
        let iso = iso_time(*time_ms);
        let text = String::from_utf8_lossy(&iso);
        let (date, time) = (&text[..10], &text[11..19]);
        // The names of a day of events do not say when they were delivered.
        let time = if self.by_event() { "00-00-00".to_owned() } else { time.replace(':', "-") };
        let prefix = &self.prefix;
        match self.format {
            None | Some(KeyFormat::Simple) => format!("{prefix}{date}-{time}-{unique}"),
            Some(KeyFormat::ByEvent | KeyFormat::ByDelivery) => {
                let day = date.replace('-', "/");
                format!("{prefix}{account}/{region}/{bucket}/{day}/{date}-{time}-{unique}")
            }
        }
    }
}

fn key_format(element: &Element) -> Result<KeyFormat, S3Error> {
    let [kind] = &element.children[..] else { return Err(malformed()) };
    match (kind.name.as_str(), &kind.children[..]) {
        ("SimplePrefix", []) => Ok(KeyFormat::Simple),
        ("PartitionedPrefix", [source]) if source.name == "PartitionDateSource" => match source.leaf()?.trim() {
            "EventTime" => Ok(KeyFormat::ByEvent),
            "DeliveryTime" => Ok(KeyFormat::ByDelivery),
            _ => Err(malformed()),
        },
        _ => Err(malformed()),
    }
}

/// The error for a target that cannot take records.
pub fn invalid_target(message: &'static str, bucket: &str) -> S3Error {
    S3Error::with(ErrorCode::InvalidTargetBucketForLogging, message).field("TargetBucket", bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(inner: &str) -> Result<Option<BucketLogging>, ErrorCode> {
        let body = format!("<BucketLoggingStatus>{inner}</BucketLoggingStatus>");
        BucketLogging::parse(body.as_bytes()).map_err(|error| error.code)
    }

    const TARGET: &str = "<TargetBucket>logs</TargetBucket><TargetPrefix>a/&amp;</TargetPrefix>";

    fn with(more: &str) -> BucketLogging {
        parse(&format!("<LoggingEnabled>{TARGET}{more}</LoggingEnabled>")).unwrap().unwrap()
    }

    fn format_of(kind: &str) -> BucketLogging {
        with(&format!("<TargetObjectKeyFormat>{kind}</TargetObjectKeyFormat>"))
    }

    #[test]
    fn what_is_read_is_written() {
        let partitioned = |source: &str| {
            format!("<PartitionedPrefix><PartitionDateSource>{source}</PartitionDateSource></PartitionedPrefix>")
        };
        for logging in [
            with(""),
            format_of("<SimplePrefix/>"),
            format_of(&partitioned("EventTime")),
            format_of(&partitioned("DeliveryTime")),
        ] {
            assert_eq!(BucketLogging::parse(&logging.document()).unwrap(), Some(logging));
        }
        assert_eq!(parse(""), Ok(None));
        assert!(with("<TargetGrants><Grant/></TargetGrants>").grants && !with("<TargetGrants/>").grants);
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        for inner in [
            "<LoggingEnabled/>",
            "<LoggingEnabled><TargetBucket>b</TargetBucket></LoggingEnabled>",
            "<LoggingEnabled><TargetPrefix>b</TargetPrefix></LoggingEnabled>",
            "<LoggingEnabled><TargetBucket/><TargetPrefix/></LoggingEnabled>",
            "<Other/>",
            &format!("<LoggingEnabled>{TARGET}{TARGET}</LoggingEnabled>"),
            &format!("<LoggingEnabled>{TARGET}<Other/></LoggingEnabled>"),
            &format!("<LoggingEnabled>{TARGET}<TargetObjectKeyFormat/></LoggingEnabled>"),
        ] {
            assert_eq!(parse(inner), Err(ErrorCode::MalformedXML), "{inner}");
        }
        let long = format!(
            "<LoggingEnabled><TargetBucket>b</TargetBucket><TargetPrefix>{}</TargetPrefix></LoggingEnabled>",
            "x".repeat(1000)
        );
        assert_eq!(parse(&long), Err(ErrorCode::InvalidArgument));
    }

    #[test]
    fn keys_are_those_of_s3() {
        let delivered = Delivered {
            account: "0123",
            region: "eu-west-1",
            bucket: "source",
            time_ms: 1_700_000_000_000,
            unique: "0123456789ABCDEF",
        };
        let partitioned = |source: &str| {
            format_of(&format!(
                "<PartitionedPrefix><PartitionDateSource>{source}</PartitionDateSource></PartitionedPrefix>"
            ))
        };
        assert_eq!(with("").key(&delivered), "a/&2023-11-14-22-13-20-0123456789ABCDEF");
        assert_eq!(format_of("<SimplePrefix/>").key(&delivered), with("").key(&delivered));
        assert_eq!(
            partitioned("DeliveryTime").key(&delivered),
            "a/&0123/eu-west-1/source/2023/11/14/2023-11-14-22-13-20-0123456789ABCDEF"
        );
        assert_eq!(
            partitioned("EventTime").key(&delivered),
            "a/&0123/eu-west-1/source/2023/11/14/2023-11-14-00-00-00-0123456789ABCDEF"
        );
    }
}
