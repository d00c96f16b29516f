//! The policy of a form: until when it may be used, and what its fields and its file must be.
//!
//! Names of fields are compared without regard to case, values byte by byte. Every field must be named by a condition.

use super::fields::Form;
use super::json::{self, Json};
use super::{ErrorCode, S3Error};
use crate::objects::metadata::UPLOAD_LEN_MAX;
use orcas_checksum::base64_decode;
use orcas_http::calendar::days_from_civil;
use orcas_http::timestamp::iso_time;

/// Fields that no condition has to name, besides those that begin with `x-ignore-`.
const NEED_NO_CONDITION: [&str; 4] = ["awsaccesskeyid", "policy", "signature", "x-amz-signature"];

/// The sizes that a file may have, in bytes, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeRange {
    pub min: u64,
    pub max: u64,
}

impl SizeRange {
    /// Any size of one upload.
    pub const ANY: Self = Self { min: 0, max: UPLOAD_LEN_MAX };
}

/// A policy document.
#[derive(Debug)]
pub struct Policy {
    /// Milliseconds since 1970.
    expires_ms: i64,
    conditions: Vec<Condition>,
}

#[derive(Debug)]
struct Condition {
    kind: Kind,
    /// The condition as a list of JSON, for messages.
    text: String,
}

#[derive(Debug)]
enum Kind {
    /// The field, in lower case, has this value.
    Equals {
        field: String,
        value: String,
    },
    StartsWith {
        field: String,
        prefix: String,
    },
    Size(SizeRange),
    /// No form can fulfil it.
    Never,
}

impl Policy {
    /// Reads the value of the field `policy`. Call it once the signature is verified.
    ///
    /// Errors: `InvalidPolicyDocument`.
    pub fn parse(encoded: &[u8]) -> Result<Self, S3Error> {
        let decoded = base64_decode(encoded).ok_or_else(|| invalid("invalid Base64 encoding."))?;
        let text = String::from_utf8(decoded).map_err(|_| invalid("Invalid JSON."))?;
        let Some(Json::Object(members)) = json::parse(&text) else { return Err(invalid("Invalid JSON.")) };
        let (mut expiration, mut conditions) = (None, None);
        for (name, value) in members {
            let place = match &name[..] {
                "expiration" => &mut expiration,
                "conditions" => &mut conditions,
                _ => return Err(invalid(format!("Unexpected: '{}'", name.to_lowercase()))),
            };
            if place.replace(value).is_some() {
                return Err(invalid("Invalid JSON."));
            }
        }
        let expiration = expiration.ok_or_else(|| invalid("Policy missing expiration."))?;
        let conditions = conditions.ok_or_else(|| invalid("Policy missing conditions."))?;
        let Json::String(expiration) = expiration else { return Err(invalid("Invalid JSON.")) };
        let Json::List(conditions) = conditions else {
            return Err(invalid("Invalid 'conditions' value: must be a List."));
        };
        let expires_ms = parse_time(expiration.as_bytes())
            .ok_or_else(|| invalid(format!("Invalid 'expiration' value: '{expiration}'")))?;
        let conditions = conditions.into_iter().map(Condition::parse).collect::<Result<_, _>>()?;
        Ok(Self { expires_ms, conditions })
    }

    /// Judges a form that is sent to `bucket`. Returns the sizes that its file may have.
    ///
    /// Errors: `AccessDenied`, with S3's reason.
    pub fn judge(&self, form: &Form, bucket: &str, now_unix_ms: i64) -> Result<SizeRange, S3Error> {
        if now_unix_ms >= self.expires_ms {
            return Err(denied("Policy expired."));
        }
        let mut range = SizeRange::ANY;
        for Condition { kind, text } in &self.conditions {
            let value = |field: &str| if field == "bucket" { Some(bucket.as_bytes()) } else { form.get(field) };
            let holds = match kind {
                Kind::Equals { field, value: expected } => value(field) == Some(expected.as_bytes()),
                Kind::StartsWith { field, prefix } => value(field).is_some_and(|value| starts(field, value, prefix)),
                Kind::Size(SizeRange { min, max }) => {
                    range = SizeRange { min: range.min.max(*min), max: range.max.min(*max) };
                    true
                }
                Kind::Never => false,
            };
            if !holds {
                return Err(denied(format!("Policy Condition failed: {text}")));
            }
        }
        let named: Vec<&str> = self.conditions.iter().filter_map(Condition::field).collect();
        let sent = form.iter().map(|(name, sent, _)| (name, sent)).chain([("bucket", "bucket")]);
        match sent.filter(|(name, _)| !NEED_NO_CONDITION.contains(name)).find(|(name, _)| !named.contains(name)) {
            Some((_, sent)) => Err(denied(format!("Extra input fields: {sent}"))),
            None => Ok(range),
        }
    }
}

impl Condition {
    fn parse(json: Json) -> Result<Self, S3Error> {
        match json {
            Json::Object(members) => {
                let Ok([(name, value)]) = <[_; 1]>::try_from(members) else {
                    let reason =
                        "Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.";
                    return Err(invalid(reason));
                };
                let Json::String(value) = value else {
                    return Err(invalid("Invalid Simple-Condition: value must be a string."));
                };
                let text = written(&["eq", &format!("${name}"), &value]);
                Ok(Self { kind: Kind::Equals { field: name.to_lowercase(), value }, text })
            }
            Json::List(items) => Self::of_list(items),
            Json::String(_) | Json::Number(_) => Err(invalid("Invalid Condition: must be a List or Object.")),
        }
    }

    fn of_list(items: Vec<Json>) -> Result<Self, S3Error> {
        let mut items = items.into_iter();
        let operation = match items.next() {
            Some(Json::String(operation)) => operation,
            Some(_) => return Err(invalid("Invalid JSON.")),
            None => return Err(invalid("Invalid Condition: missing operation identifier.")),
        };
        let (Some(first), Some(second), None) = (items.next(), items.next(), items.next()) else {
            return Err(invalid(format!("Invalid {operation}: wrong number of arguments.")));
        };
        match &operation.to_ascii_lowercase()[..] {
            "content-length-range" => Self::of_size(&operation, first, second),
            kind @ ("eq" | "starts-with") => {
                let (Json::String(name), Json::String(value)) = (first, second) else {
                    return Err(invalid("Invalid JSON."));
                };
                let text = written(&[&operation, &name, &value]);
                let kind = match (name.strip_prefix('$').map(str::to_lowercase), kind) {
                    (Some(field), "eq") => Kind::Equals { field, value },
                    (Some(field), _) => Kind::StartsWith { field, prefix: value },
                    (None, _) => Kind::Never,
                };
                Ok(Self { kind, text })
            }
            _ => Err(invalid(format!("Invalid Condition: unknown operation '{operation}'."))),
        }
    }

    fn of_size(operation: &str, min: Json, max: Json) -> Result<Self, S3Error> {
        let bound = |json| match json {
            Json::Number(number) => Ok(number.to_string()),
            Json::String(text) => Ok(text),
            Json::Object(_) | Json::List(_) => Err(invalid("Invalid JSON.")),
        };
        let (min, max) = (bound(min)?, bound(max)?);
        let kind = match (min.parse::<i64>(), max.parse::<i64>()) {
            (Ok(min), Ok(max)) => match (u64::try_from(min), u64::try_from(max)) {
                (Ok(min), Ok(max)) => Kind::Size(SizeRange { min, max }),
                _ => return Err(invalid(format!("Invalid {operation}: a size is negative."))),
            },
            _ => Kind::Never,
        };
        Ok(Self { kind, text: written(&[operation, &min, &max]) })
    }

    /// The field that it names, in lower case.
    fn field(&self) -> Option<&str> {
        match &self.kind {
            Kind::Equals { field, .. } | Kind::StartsWith { field, .. } => Some(field),
            Kind::Size(_) | Kind::Never => None,
        }
    }
}

/// Whether `value` begins with `prefix`. A Content-Type can be a list with commas; then each of its items must.
fn starts(field: &str, value: &[u8], prefix: &str) -> bool {
    if field == "content-type" {
        value.split(|&byte| byte == b',').all(|item| item.trim_ascii().starts_with(prefix.as_bytes()))
    } else {
        value.starts_with(prefix.as_bytes())
    }
}

/// A condition as S3 writes it in its messages.
fn written(items: &[&str]) -> String {
    let mut out = String::from("[");
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            out.push_str(", ");
        }
        json::quote_into(&mut out, item);
    }
    out.push(']');
    out
}

/// Milliseconds since 1970 of `YYYY-MM-DDThh:mm:ssZ`, with or without a fraction of up to nine digits.
fn parse_time(text: &[u8]) -> Option<i64> {
    let (whole, rest) = text.split_at_checked("YYYY-MM-DDThh:mm:ss".len())?;
    let fraction = match rest {
        b"Z" => b"",
        [b'.', digits @ .., b'Z'] if (1..=9).contains(&digits.len()) => digits,
        _ => return None,
    };
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0i64, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
    };
    let days = days_from_civil(number(&whole[..4])?, number(&whole[5..7])?, number(&whole[8..10])?);
    let seconds = number(&whole[11..13])? * 3600 + number(&whole[14..16])? * 60 + number(&whole[17..])?;
    number(fraction)?;
    let second_ms = (days * 86_400 + seconds) * 1000;
    // Writing it out again refuses the 31st of February, the 61st second and any character out of place.
    if iso_time(second_ms)[..whole.len()] != *whole {
        return None;
    }
    let millis = (0..3).fold(0, |sum, place| sum * 10 + fraction.get(place).map_or(0, |digit| i64::from(digit - b'0')));
    Some(second_ms + millis)
}

fn invalid(reason: impl AsRef<str>) -> S3Error {
    S3Error::with(ErrorCode::InvalidPolicyDocument, format!("Invalid Policy: {}", reason.as_ref()))
}

fn denied(reason: impl AsRef<str>) -> S3Error {
    S3Error::with(ErrorCode::AccessDenied, format!("Invalid according to Policy: {}", reason.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::super::fields::tests::{body, read};
    use super::*;
    use orcas_checksum::base64_encode;

    /// 2026-01-02T03:04:05.678Z
    const NOW_MS: i64 = 1_767_323_045_678;

    fn parse(text: &str) -> Result<Policy, S3Error> {
        Policy::parse(base64_encode(text.as_bytes()).as_bytes())
    }

    /// Judges a form sent to the bucket `b` by a policy with these conditions.
    fn judge(conditions: &str, fields: &[(&str, &str)]) -> Result<SizeRange, String> {
        let (form, _) = read(&[&body(fields, "f.txt")]).unwrap();
        let policy = parse(&format!("{{\"expiration\": \"2027-01-01T00:00:00Z\", \"conditions\": [{conditions}]}}"));
        policy.and_then(|policy| policy.judge(&form, "b", NOW_MS)).map_err(|error| {
            let prefix = match error.code {
                ErrorCode::AccessDenied => "Invalid according to Policy: ",
                _ => "Invalid Policy: ",
            };
            error.message.strip_prefix(prefix).unwrap().to_owned()
        })
    }

    #[test]
    fn conditions_hold_or_fail_by_name() {
        const BUCKET: &str = "{\"bucket\": \"b\"}";
        let failed = |text: &str| Err(format!("Policy Condition failed: {text}"));
        let ok = || Ok(SizeRange::ANY);
        for (condition, field, expected) in [
            ("{\"key\": \"k\"}", ("key", "k"), ok()),
            ("{\"KEY\": \"k\"}", ("Key", "k"), ok()),
            ("[\"EQ\", \"$kEy\", \"k\"]", ("key", "k"), ok()),
            ("{\"key\": \"k\"}", ("key", "K"), failed("[\"eq\", \"$key\", \"k\"]")),
            ("[\"eq\", \"$Key\", \"k\\\"\"]", ("key", "k"), failed("[\"eq\", \"$Key\", \"k\\\"\"]")),
            ("[\"eq\", \"key\", \"k\"]", ("key", "k"), failed("[\"eq\", \"key\", \"k\"]")),
            ("[\"starts-with\", \"$key\", \"a/\"]", ("key", "a/b"), ok()),
            ("[\"StArTs-WiTh\", \"$key\", \"\"]", ("key", "a/b"), ok()),
            ("[\"starts-with\", \"$key\", \"a/\"]", ("key", "b/a/"), failed("[\"starts-with\", \"$key\", \"a/\"]")),
            ("[\"starts-with\", \"$key\", \"\\\\$foo\"]", ("key", "\\$foo.txt"), ok()),
            ("[\"starts-with\", \"$key\", \"f\"]", ("key", "${filename}"), ok()),
            ("[\"starts-with\", \"$content-type\", \"image/\"]", ("Content-Type", "image/a, image/b"), ok()),
            (
                "[\"starts-with\", \"$Content-Type\", \"image/\"]",
                ("Content-Type", "image/a,text/b"),
                failed("[\"starts-with\", \"$Content-Type\", \"image/\"]"),
            ),
            ("[\"starts-with\", \"$acl\", \"\"]", ("x-ignore-a", ""), failed("[\"starts-with\", \"$acl\", \"\"]")),
        ] {
            assert_eq!(judge(&format!("{BUCKET}, {condition}"), &[field]), expected, "{condition} {field:?}");
        }
        assert_eq!(judge("{\"bucket\": \"c\"}", &[]), failed("[\"eq\", \"$bucket\", \"c\"]"));
        assert_eq!(judge("{\"bucket\": \"c\"}", &[("bucket", "c")]), failed("[\"eq\", \"$bucket\", \"c\"]"));
    }

    #[test]
    fn every_field_is_named_by_a_condition() {
        let extra = |name: &str| Err(format!("Extra input fields: {name}"));
        assert_eq!(judge("", &[]), extra("bucket"));
        assert_eq!(judge("{\"bucket\": \"b\"}", &[("X-Amz-Meta-A", "1")]), extra("X-Amz-Meta-A"));
        assert_eq!(
            judge("{\"bucket\": \"b\"}, [\"content-length-range\", 1, 2]", &[("submit", "Go")]),
            extra("submit")
        );
        let exempt = [
            ("x-amz-signature", "s"),
            ("Policy", "p"),
            ("AWSAccessKeyId", "a"),
            ("signature", "s"),
            ("X-Ignore-anything", "x"),
        ];
        assert_eq!(judge("{\"bucket\": \"b\"}", &exempt), Ok(SizeRange::ANY));
    }

    #[test]
    fn sizes_meet_all_ranges() {
        let of = |ranges: &str| judge(&format!("{{\"bucket\": \"b\"}}, {ranges}"), &[]);
        let range = |min, max| Ok(SizeRange { min, max });
        assert_eq!(of("[\"content-length-range\", 5, 10]"), range(5, 10));
        assert_eq!(of("[\"content-length-range\", \"5\", \"10\"]"), range(5, 10));
        assert_eq!(of("[\"content-length-range\", 5, 10], [\"Content-Length-Range\", 0, 7]"), range(5, 7));
        assert_eq!(of("[\"content-length-range\", 0, 9000000000000]"), range(0, UPLOAD_LEN_MAX));
        let failed = "Policy Condition failed: [\"content-length-range\", \"test\", \"10\"]";
        assert_eq!(of("[\"content-length-range\", \"test\", \"10\"]"), Err(failed.to_owned()));
    }

    #[test]
    fn documents_that_are_none() {
        let with =
            |conditions: &str| format!("{{\"expiration\":\"2027-01-01T00:00:00Z\",\"conditions\":{conditions}}}");
        let cases = [
            ("{}".to_owned(), "Policy missing expiration."),
            ("[]".to_owned(), "Invalid JSON."),
            ("{\"conditions\": []}".to_owned(), "Policy missing expiration."),
            ("{\"expiration\": \"2027-01-01T00:00:00Z\"}".to_owned(), "Policy missing conditions."),
            ("{\"EXPIRATION\": \"x\"}".to_owned(), "Unexpected: 'expiration'"),
            ("{\"expiration\": 1, \"conditions\": []}".to_owned(), "Invalid JSON."),
            (with("{}"), "Invalid 'conditions' value: must be a List."),
            (with("[\"a\"]"), "Invalid Condition: must be a List or Object."),
            (with("[[]]"), "Invalid Condition: missing operation identifier."),
            (with("[[1, \"$a\", \"b\"]]"), "Invalid JSON."),
            (with("[[\"in\", \"$a\", \"b\"]]"), "Invalid Condition: unknown operation 'in'."),
            (with("[[\"eq\", \"$a\"]]"), "Invalid eq: wrong number of arguments."),
            (with("[[\"content-length-range\", 0]]"), "Invalid content-length-range: wrong number of arguments."),
            (with("[[\"content-length-range\", -1, 0]]"), "Invalid content-length-range: a size is negative."),
            (with("[[\"content-length-range\", 0, 1.5]]"), "Invalid JSON."),
            (with("[[\"eq\", \"$a\", 1]]"), "Invalid JSON."),
            (with("[{\"a\": 1}]"), "Invalid Simple-Condition: value must be a string."),
            (with("[{\"a\": null}]"), "Invalid JSON."),
        ];
        for (text, reason) in cases {
            let error = parse(&text).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidPolicyDocument);
            assert_eq!(error.message, format!("Invalid Policy: {reason}"), "{text}");
        }
        for simple in ["{}", "{\"a\": \"1\", \"b\": \"2\"}", "{\"a\": \"1\", \"a\": \"1\"}"] {
            let message = parse(&with(&format!("[{simple}]"))).unwrap_err().message;
            assert!(message.ends_with("must have exactly one property specified."), "{message}");
        }
        assert_eq!(Policy::parse(b"not base64").unwrap_err().message, "Invalid Policy: invalid Base64 encoding.");
    }

    #[test]
    fn policies_expire() {
        for (text, ms) in [
            ("2026-01-02T03:04:05Z", Some(NOW_MS - 678)),
            ("2026-01-02T03:04:05.6Z", Some(NOW_MS - 78)),
            ("2026-01-02T03:04:05.678Z", Some(NOW_MS)),
            ("2026-01-02T03:04:05.678999Z", Some(NOW_MS)),
            ("2026-02-31T03:04:05Z", None),
            ("2026-01-02T03:04:60Z", None),
            ("2026-01-02 03:04:05Z", None),
            ("2026-01-02T03:04:05", None),
            ("2026-01-02T03:04:05.Z", None),
            ("2026-01-02T03:04:05+00:00", None),
            ("2026-01-02T03:04:05.67aZ", None),
            ("0000-00-00T00:00:00Z", None),
            ("", None),
        ] {
            assert_eq!(parse_time(text.as_bytes()), ms, "{text}");
            let policy = parse(&format!("{{\"expiration\": \"{text}\", \"conditions\": [{{\"bucket\": \"b\"}}]}}"));
            let (form, _) = read(&[&body(&[], "f")]).unwrap();
            let message = policy.and_then(|it| it.judge(&form, "b", NOW_MS)).err().map(|it| it.message.into_owned());
            match ms {
                Some(_) => assert_eq!(message.as_deref(), Some("Invalid according to Policy: Policy expired.")),
                None => assert_eq!(message, Some(format!("Invalid Policy: Invalid 'expiration' value: '{text}'"))),
            }
        }
    }
}
