//! Object Lock: its headers and documents. What a lock permits is decided elsewhere.
//!
//! Codes and messages are those that S3 has been observed to answer:
//! <https://github.com/localstack/localstack/blob/main/tests/aws/services/s3/test_s3_api.py>,
//! <https://github.com/versity/versitygw/issues/1733>, <https://github.com/versity/versitygw/issues/1738>.

use crate::errors::{ErrorCode, S3Error};
use crate::xml::XmlWriter;
use crate::xml::parse::{Element, document, malformed};
use orcas_http::{Headers, timestamp};

pub(crate) const MODE: &str = "x-amz-object-lock-mode";
pub(crate) const UNTIL: &str = "x-amz-object-lock-retain-until-date";
pub(crate) const HOLD: &str = "x-amz-object-lock-legal-hold";
const BYPASS: &str = "x-amz-bypass-governance-retention";

/// Longest default retention: 100 years.
const DAYS_MAX: u32 = 36_500;
const YEARS_MAX: u32 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Governance,
    Compliance,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Self::Governance => "GOVERNANCE",
            Self::Compliance => "COMPLIANCE",
        }
    }

    fn parse(text: &[u8]) -> Option<Self> {
        [Self::Governance, Self::Compliance].into_iter().find(|mode| mode.name().as_bytes() == text)
    }
}

/// `until_ms` in milliseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub mode: Mode,
    pub until_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    Days(u32),
    Years(u32),
}

/// The retention of new objects that bring none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultRetention {
    pub mode: Mode,
    pub period: Period,
}

/// The lock that an upload or copy sets on its object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockHeaders {
    pub retention: Option<Retention>,
    pub legal_hold: Option<bool>,
}

impl LockHeaders {
    /// Errors: `InvalidArgument` for values that S3 does not have, and for a mode without a date or the reverse.
    pub fn parse(headers: &Headers<'_>) -> Result<Self, S3Error> {
        let value = |name| headers.get(name).map(<[u8]>::trim_ascii);
        let retention = match (value(MODE), value(UNTIL)) {
            (None, None) => None,
            (Some(mode), Some(until)) => Some(Retention {
                mode: Mode::parse(mode).ok_or_else(|| S3Error::argument("Unknown wormMode directive.", MODE, mode))?,
                until_ms: timestamp::parse(until).ok_or_else(|| {
                    S3Error::argument("The retain until date must be provided in ISO 8601 format", UNTIL, until)
                })?,
            }),
            (mode, _) => {
                let message = "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied";
                let missing = if mode.is_some() { UNTIL } else { MODE };
                return Err(S3Error::with(ErrorCode::InvalidArgument, message).field("ArgumentName", missing));
            }
        };
        let legal_hold = match value(HOLD) {
            None => None,
            Some(b"ON") => Some(true),
            Some(b"OFF") => Some(false),
            Some(other) => return Err(S3Error::argument("Legal Hold must be either of 'ON' or 'OFF'", HOLD, other)),
        };
        Ok(Self { retention, legal_hold })
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether the request asks to pass over retention in governance mode. `enabled`: the bucket has Object Lock.
///
/// Errors: `InvalidArgument` if the header is there and the bucket has no Object Lock, whatever it says.
pub fn bypasses_governance(headers: &Headers<'_>, enabled: bool) -> Result<bool, S3Error> {
    if !enabled && headers.get(BYPASS).is_some() {
        let message = "x-amz-bypass-governance-retention is only applicable to Object Lock enabled buckets.";
        return Err(S3Error::with(ErrorCode::InvalidArgument, message).field("ArgumentName", BYPASS));
    }
    asks_to_bypass(headers)
}

/// Whether a request asks to bypass retention, where the header is accepted in all buckets: in one without Object Lock,
/// it has nothing to pass over.
pub fn asks_to_bypass(headers: &Headers<'_>) -> Result<bool, S3Error> {
    flag(headers, BYPASS)
}

/// Whether CreateBucket enables Object Lock.
pub fn enabled_for_bucket(headers: &Headers<'_>) -> Result<bool, S3Error> {
    flag(headers, "x-amz-bucket-object-lock-enabled")
}

fn flag(headers: &Headers<'_>, name: &'static str) -> Result<bool, S3Error> {
    match headers.get(name).map(<[u8]>::trim_ascii) {
        None => Ok(false),
        Some(value) if value.eq_ignore_ascii_case(b"true") => Ok(true),
        Some(value) if value.eq_ignore_ascii_case(b"false") => Ok(false),
        Some(value) => Err(S3Error::argument("The value must be true or false", name, value)),
    }
}

/// The headers that ask for a retention.
pub fn headers_of_retention(retention: &Retention) -> [(&'static str, Vec<u8>); 2] {
    let until = timestamp::iso_time(i64::try_from(retention.until_ms).unwrap_or(i64::MAX));
    [(MODE, retention.mode.name().into()), (UNTIL, until.to_vec())]
}

/// The header that asks for a legal hold, or for none.
pub fn header_of_hold(hold: bool) -> (&'static str, Vec<u8>) {
    (HOLD, if hold { b"ON".to_vec() } else { b"OFF".to_vec() })
}

/// The retention of a Retention document; `None` for an empty one, which removes it.
///
/// Errors: `MalformedXML`; `NotImplemented` for event holds.
pub fn read_retention(body: &[u8]) -> Result<Option<Retention>, S3Error> {
    let root = document(body, "Retention")?;
    let (mut mode, mut until_ms) = (None, None);
    for child in &root.children {
        let text = child.leaf()?.trim().as_bytes();
        match child.name.as_str() {
            "Mode" if mode.is_none() => mode = Some(Mode::parse(text).ok_or_else(malformed)?),
            "RetainUntilDate" if until_ms.is_none() => {
                until_ms = Some(timestamp::parse(text).ok_or_else(malformed)?);
            }
            name => return Err(unexpected(name)),
        }
    }
    match (mode, until_ms) {
        (Some(mode), Some(until_ms)) => Ok(Some(Retention { mode, until_ms })),
        (None, None) => Ok(None),
        _ => Err(malformed()),
    }
}

/// Whether a LegalHold document switches the hold on.
pub fn read_legal_hold(body: &[u8]) -> Result<bool, S3Error> {
    if body.is_empty() {
        return Err(malformed());
    }
    let root = document(body, "LegalHold")?;
    let [status] = root.children.as_slice() else { return Err(malformed()) };
    match (status.name.as_str(), status.leaf()?.trim()) {
        ("Status", "ON") => Ok(true),
        ("Status", "OFF") => Ok(false),
        _ => Err(malformed()),
    }
}

/// The default retention of an ObjectLockConfiguration document, if it has a rule.
///
/// Errors: `MalformedXML`; `InvalidArgument` for a period that is not positive or too long; `NotImplemented` for event
/// holds.
pub fn read_configuration(body: &[u8]) -> Result<Option<DefaultRetention>, S3Error> {
    let root = document(body, "ObjectLockConfiguration")?;
    let (mut enabled, mut default) = (false, None);
    for child in &root.children {
        match child.name.as_str() {
            "ObjectLockEnabled" if child.leaf()?.trim() == "Enabled" => enabled = true,
            "Rule" if default.is_none() => {
                let [rule] = child.children.as_slice() else { return Err(malformed()) };
                if rule.name != "DefaultRetention" {
                    return Err(malformed());
                }
                default = Some(default_retention(rule)?);
            }
            _ => return Err(malformed()),
        }
    }
    if enabled { Ok(default) } else { Err(malformed()) }
}

fn default_retention(element: &Element) -> Result<DefaultRetention, S3Error> {
    let (mut mode, mut period) = (None, None);
    for child in &element.children {
        match child.name.as_str() {
            "Mode" if mode.is_none() => {
                mode = Some(Mode::parse(child.leaf()?.trim().as_bytes()).ok_or_else(malformed)?);
            }
            // One of the two, and once.
            "Days" if period.is_none() => period = Some(Period::Days(length("Days", child, DAYS_MAX)?)),
            "Years" if period.is_none() => period = Some(Period::Years(length("Years", child, YEARS_MAX)?)),
            name => return Err(unexpected(name)),
        }
    }
    let (Some(mode), Some(period)) = (mode, period) else { return Err(malformed()) };
    Ok(DefaultRetention { mode, period })
}

fn length(name: &'static str, element: &Element, max: u32) -> Result<u32, S3Error> {
    let text = element.leaf()?.trim();
    let value: i64 = text.parse().map_err(|_| malformed())?;
    match u32::try_from(value) {
        Ok(value) if (1..=max).contains(&value) => Ok(value),
        _ if value > 0 => Err(S3Error::argument("Default retention period too large.", name, text.as_bytes())),
        _ => {
            let message = "Default retention period must be a positive integer value.";
            Err(S3Error::argument(message, name, text.as_bytes()))
        }
    }
}

fn unexpected(name: &str) -> S3Error {
    match name {
        "EventHold" | "EventHoldDuration" | "DefaultEventHold" => {
            S3Error::with(ErrorCode::NotImplemented, "Event holds are not implemented")
        }
        _ => malformed(),
    }
}

pub fn write_retention(retention: &Retention) -> Vec<u8> {
    rooted("Retention", |xml| {
        xml.plain("Mode", retention.mode.name());
        xml.time("RetainUntilDate", i64::try_from(retention.until_ms).unwrap_or(i64::MAX));
    })
}

pub fn write_legal_hold(on: bool) -> Vec<u8> {
    rooted("LegalHold", |xml| xml.plain("Status", hold_name(on)))
}

pub fn write_configuration(default: Option<&DefaultRetention>) -> Vec<u8> {
    rooted("ObjectLockConfiguration", |xml| {
        xml.plain("ObjectLockEnabled", "Enabled");
        if let Some(default) = default {
            xml.open("Rule");
            xml.open("DefaultRetention");
            xml.plain("Mode", default.mode.name());
            match default.period {
                Period::Days(days) => xml.number("Days", u64::from(days)),
                Period::Years(years) => xml.number("Years", u64::from(years)),
            }
            xml.close("DefaultRetention");
            xml.close("Rule");
        }
    })
}

/// As headers and documents write a legal hold.
pub fn hold_name(on: bool) -> &'static str {
    if on { "ON" } else { "OFF" }
}

fn rooted(root: &str, content: impl FnOnce(&mut XmlWriter)) -> Vec<u8> {
    let mut xml = XmlWriter::document(320);
    xml.open_root(root);
    content(&mut xml);
    xml.close(root);
    xml.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&str, &str)]) -> Result<LockHeaders, ErrorCode> {
        let list: Vec<(&[u8], &[u8])> = list.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        LockHeaders::parse(&Headers::new(&list)).map_err(|error| error.code)
    }

    #[test]
    fn a_mode_and_a_date_come_together() {
        let until = (UNTIL, "2026-01-02T03:04:05Z");
        let retention = Retention { mode: Mode::Governance, until_ms: 1_767_323_045_000 };
        let read = headers(&[(MODE, "GOVERNANCE"), until, (HOLD, "OFF")]);
        assert_eq!(read, Ok(LockHeaders { retention: Some(retention), legal_hold: Some(false) }));
        assert!(headers(&[]).is_ok_and(|lock| lock.is_empty()));
        for bad in [
            &[(MODE, "GOVERNANCE")][..],
            &[until],
            &[(MODE, "governance"), until],
            &[(MODE, "COMPLIANCE"), (UNTIL, "abc")],
            &[(HOLD, "on")],
        ] {
            assert_eq!(headers(bad), Err(ErrorCode::InvalidArgument), "{bad:?}");
        }
    }

    #[test]
    fn flags_are_true_or_false() {
        let of = |value: &str, enabled| {
            bypasses_governance(&Headers::new(&[(BYPASS.as_bytes(), value.as_bytes())]), enabled)
        };
        let read = |value| of(value, true);
        assert_eq!(bypasses_governance(&Headers::new(&[]), false), Ok(false));
        assert_eq!(of("false", false).unwrap_err().extra, [("ArgumentName", BYPASS.into())]);
        assert_eq!((read("True"), read("false")), (Ok(true), Ok(false)));
        assert!(read("yes").is_err());
        assert_eq!(enabled_for_bucket(&Headers::new(&[])), Ok(false));
    }

    #[test]
    fn documents_of_a_version() {
        let retention = Retention { mode: Mode::Compliance, until_ms: 1_767_323_045_678 };
        assert_eq!(read_retention(&write_retention(&retention)), Ok(Some(retention)));
        assert_eq!(read_retention(b"<Retention/>"), Ok(None));
        for on in [true, false] {
            assert_eq!(read_legal_hold(&write_legal_hold(on)), Ok(on));
        }
        let date = "<RetainUntilDate>2026-01-02T03:04:05Z</RetainUntilDate>";
        for (bad, code) in [
            ("<Mode>GOVERNANCE</Mode>".to_owned(), ErrorCode::MalformedXML),
            (date.to_owned(), ErrorCode::MalformedXML),
            (format!("<Mode>abc</Mode>{date}"), ErrorCode::MalformedXML),
            ("<Mode>GOVERNANCE</Mode><RetainUntilDate>x</RetainUntilDate>".into(), ErrorCode::MalformedXML),
            ("<EventHold>ON</EventHold>".into(), ErrorCode::NotImplemented),
        ] {
            let body = format!("<Retention>{bad}</Retention>");
            assert_eq!(read_retention(body.as_bytes()).unwrap_err().code, code, "{bad}");
        }
        for bad in
            ["<LegalHold/>", "<LegalHold><Status>abc</Status></LegalHold>", "<LegalHold><Other>ON</Other></LegalHold>"]
        {
            assert_eq!(read_legal_hold(bad.as_bytes()).unwrap_err().code, ErrorCode::MalformedXML, "{bad}");
        }
    }

    #[test]
    fn configurations_have_days_or_years() {
        for period in [Period::Days(36_500), Period::Years(1)] {
            let default = DefaultRetention { mode: Mode::Governance, period };
            assert_eq!(read_configuration(&write_configuration(Some(&default))), Ok(Some(default)));
        }
        assert_eq!(read_configuration(&write_configuration(None)), Ok(None));
        let rule = |content: &str| {
            format!(
                "<ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention>{content}</DefaultRetention></Rule>"
            )
        };
        let mode = "<Mode>GOVERNANCE</Mode>";
        for (bad, code) in [
            (String::new(), ErrorCode::MalformedXML),
            ("<ObjectLockEnabled>Disabled</ObjectLockEnabled>".into(), ErrorCode::MalformedXML),
            ("<ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule/>".into(), ErrorCode::MalformedXML),
            (rule(""), ErrorCode::MalformedXML),
            (rule(mode), ErrorCode::MalformedXML),
            (rule("<Days>1</Days>"), ErrorCode::MalformedXML),
            (rule(&format!("{mode}<Days>1</Days><Years>1</Years>")), ErrorCode::MalformedXML),
            (rule("<Mode>governance</Mode><Days>1</Days>"), ErrorCode::MalformedXML),
            (rule(&format!("{mode}<Days>x</Days>")), ErrorCode::MalformedXML),
            (rule(&format!("{mode}<Days>0</Days>")), ErrorCode::InvalidArgument),
            (rule(&format!("{mode}<Years>-1</Years>")), ErrorCode::InvalidArgument),
            (rule(&format!("{mode}<Days>36501</Days>")), ErrorCode::InvalidArgument),
            (rule(&format!("{mode}<Years>101</Years>")), ErrorCode::InvalidArgument),
            (rule(&format!("{mode}<DefaultEventHold/>")), ErrorCode::NotImplemented),
        ] {
            let body = format!("<ObjectLockConfiguration>{bad}</ObjectLockConfiguration>");
            assert_eq!(read_configuration(body.as_bytes()).unwrap_err().code, code, "{bad}");
        }
    }
}
