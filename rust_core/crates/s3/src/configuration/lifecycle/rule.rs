//! A rule of a lifecycle configuration: its element, read and written in the form in which it was sent.

use std::borrow::Cow;

use crate::errors::{ErrorCode, S3Error};
use crate::objects::tags;
use crate::xml::XmlWriter;
use crate::xml::parse::{Element, malformed};
use orcas_http::timestamp::{self, iso_time};
use orcas_lifecycle::{DAY_MS, Expiration, Filter, Noncurrent, Rule};

/// Characters of an ID.
const ID_LEN_MAX: usize = 255;
/// Bytes of a prefix: those of the longest key.
const PREFIX_LEN_MAX: usize = 1_024;
/// Newer noncurrent versions that a rule can keep.
const NEWER_MAX: u32 = 100;

/// The storage classes to which S3 has transitions.
const TRANSITION_CLASSES: [&str; 6] =
    ["GLACIER", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "DEEP_ARCHIVE", "GLACIER_IR"];

/// How a rule says which objects it applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A prefix outside of a filter, as in the first version of the document.
    Prefix,
    /// A filter with one condition or none. `Single(true)`: with a prefix.
    Single(bool),
    /// A filter with several conditions. `And(true)`: a prefix is among them.
    And(bool),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuleDocument {
    pub rule: Rule,
    form: Form,
}

impl RuleDocument {
    pub fn is_old(&self) -> bool {
        self.form == Form::Prefix
    }

    pub fn parse(element: &Element) -> Result<Self, S3Error> {
        if element.name != "Rule" {
            return Err(malformed());
        }
        let (mut id, mut enabled, mut scope) = (None, None, None);
        let (mut expiration, mut noncurrent, mut abort_days) = (None, None, None);
        for child in &element.children {
            match child.name.as_str() {
                "ID" if id.is_none() => id = Some(checked_id(child.leaf()?)?),
                "Status" if enabled.is_none() => enabled = Some(status(child.leaf()?)?),
                // One of the two.
                "Prefix" if scope.is_none() => scope = Some((prefixed(child)?, Form::Prefix)),
                "Filter" if scope.is_none() => scope = Some(filter(child)?),
                "Expiration" if expiration.is_none() => expiration = Some(read_expiration(child)?),
                "NoncurrentVersionExpiration" if noncurrent.is_none() => noncurrent = Some(read_noncurrent(child)?),
                "AbortIncompleteMultipartUpload" if abort_days.is_none() => abort_days = Some(read_abort(child)?),
                "Transition" | "NoncurrentVersionTransition" => return Err(refused_transition(child)),
                _ => return Err(malformed()),
            }
        }
        let (Some(enabled), Some((filter, form))) = (enabled, scope) else { return Err(malformed()) };
        let rule = Rule { id: id.unwrap_or_default(), enabled, filter, expiration, noncurrent, abort_days };
        check_actions(&rule)?;
        Ok(Self { rule, form })
    }

    pub fn write(&self, xml: &mut XmlWriter) {
        let Self { rule, form } = self;
        xml.open("Rule");
        if !rule.id.is_empty() {
            xml.text("ID", rule.id.as_bytes());
        }
        match form {
            Form::Prefix => xml.text("Prefix", &rule.filter.prefix),
            Form::Single(prefix) => {
                xml.open("Filter");
                write_conditions(xml, &rule.filter, *prefix);
                xml.close("Filter");
            }
            Form::And(prefix) => {
                xml.open("Filter");
                xml.open("And");
                write_conditions(xml, &rule.filter, *prefix);
                xml.close("And");
                xml.close("Filter");
            }
        }
        xml.plain("Status", if rule.enabled { "Enabled" } else { "Disabled" });
        if let Some(expiration) = rule.expiration {
            xml.open("Expiration");
            match expiration {
                Expiration::Days(days) => xml.number("Days", u64::from(days)),
                Expiration::Date(at_ms) => {
                    let text = iso_time(i64::try_from(at_ms).unwrap_or(i64::MAX));
                    xml.text("Date", &text);
                }
                Expiration::Markers(expire) => xml.boolean("ExpiredObjectDeleteMarker", expire),
            }
            xml.close("Expiration");
        }
        if let Some(Noncurrent { days, newer }) = rule.noncurrent {
            xml.open("NoncurrentVersionExpiration");
            xml.number("NoncurrentDays", u64::from(days));
            if newer > 0 {
                xml.number("NewerNoncurrentVersions", u64::from(newer));
            }
            xml.close("NoncurrentVersionExpiration");
        }
        if let Some(days) = rule.abort_days {
            xml.open("AbortIncompleteMultipartUpload");
            xml.number("DaysAfterInitiation", u64::from(days));
            xml.close("AbortIncompleteMultipartUpload");
        }
        xml.close("Rule");
    }
}

pub(super) fn invalid(message: impl Into<Cow<'static, str>>) -> S3Error {
    S3Error::with(ErrorCode::InvalidRequest, message)
}

fn write_conditions(xml: &mut XmlWriter, filter: &Filter, prefix: bool) {
    if prefix {
        xml.text("Prefix", &filter.prefix);
    }
    for (key, value) in &filter.tags {
        xml.open("Tag");
        xml.text("Key", key);
        xml.text("Value", value);
        xml.close("Tag");
    }
    filter.greater_than.iter().for_each(|bytes| xml.number("ObjectSizeGreaterThan", *bytes));
    filter.less_than.iter().for_each(|bytes| xml.number("ObjectSizeLessThan", *bytes));
}

fn checked_id(id: &str) -> Result<String, S3Error> {
    if id.chars().count() > ID_LEN_MAX {
        let message = format!("ID length should not exceed allowed limit of {ID_LEN_MAX}");
        return Err(S3Error::argument(message, "ID", id.as_bytes()));
    }
    Ok(id.to_owned())
}

fn status(text: &str) -> Result<bool, S3Error> {
    match text.trim() {
        "Enabled" => Ok(true),
        "Disabled" => Ok(false),
        _ => Err(malformed()),
    }
}

fn prefix(element: &Element) -> Result<Vec<u8>, S3Error> {
    let prefix = element.leaf()?;
    if prefix.len() > PREFIX_LEN_MAX {
        return Err(invalid(format!("The maximum size of a prefix is {PREFIX_LEN_MAX}.")));
    }
    Ok(prefix.as_bytes().to_vec())
}

fn prefixed(element: &Element) -> Result<Filter, S3Error> {
    Ok(Filter { prefix: prefix(element)?, ..Filter::default() })
}

/// A filter has one condition or an And of at least two.
fn filter(element: &Element) -> Result<(Filter, Form), S3Error> {
    match element.children.as_slice() {
        [and] if and.name == "And" && and.children.len() >= 2 => {
            let (filter, prefix) = conditions(&and.children)?;
            Ok((filter, Form::And(prefix)))
        }
        single @ ([] | [_]) => {
            let (filter, prefix) = conditions(single)?;
            Ok((filter, Form::Single(prefix)))
        }
        _ => Err(malformed()),
    }
}

/// The conditions, and whether a prefix is among them.
fn conditions(elements: &[Element]) -> Result<(Filter, bool), S3Error> {
    let (mut filter, mut has_prefix) = (Filter::default(), false);
    for child in elements {
        match child.name.as_str() {
            "Prefix" if !has_prefix => (filter.prefix, has_prefix) = (prefix(child)?, true),
            "Tag" => filter.tags.push(tags::of_rule(child)?),
            "ObjectSizeGreaterThan" if filter.greater_than.is_none() => filter.greater_than = Some(size(child)?),
            "ObjectSizeLessThan" if filter.less_than.is_none() => filter.less_than = Some(size(child)?),
            _ => return Err(malformed()),
        }
    }
    let mut keys: Vec<&[u8]> = filter.tags.iter().map(|(key, _)| &key[..]).collect();
    keys.sort_unstable();
    if keys.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(invalid("Duplicate Tag Keys are not allowed."));
    }
    if let (Some(above), Some(below)) = (filter.greater_than, filter.less_than)
        && below <= above
    {
        return Err(invalid("'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'."));
    }
    Ok((filter, has_prefix))
}

fn size(element: &Element) -> Result<u64, S3Error> {
    element.leaf()?.trim().parse().map_err(|_| malformed())
}

/// A number of days or versions of an action, which must be positive.
fn positive(element: &Element, action: &str) -> Result<u32, S3Error> {
    let text = element.leaf()?.trim();
    let number: i32 = text.parse().map_err(|_| malformed())?;
    u32::try_from(number).ok().filter(|number| *number > 0).ok_or_else(|| {
        let message = format!("'{}' for {action} action must be a positive integer", element.name);
        S3Error::with(ErrorCode::InvalidArgument, message)
            .field("ArgumentName", element.name.as_bytes())
            .field("ArgumentValue", text)
    })
}

/// A date, in milliseconds since the epoch.
fn midnight(element: &Element) -> Result<u64, S3Error> {
    let text = element.leaf()?.trim();
    let at_ms = timestamp::parse(text.as_bytes()).ok_or_else(malformed)?;
    match at_ms % DAY_MS {
        0 => Ok(at_ms),
        _ => Err(S3Error::argument("'Date' must be at midnight GMT", "Date", text.as_bytes())),
    }
}

/// Why a transition is refused: for what S3 refuses in it, or because there are none here.
fn refused_transition(element: &Element) -> S3Error {
    let check = |child: &Element| match child.name.as_str() {
        "Date" => midnight(child).map(drop),
        "Days" | "NoncurrentDays" | "NewerNoncurrentVersions" => {
            child.leaf()?.trim().parse::<i32>().map(drop).map_err(|_| malformed())
        }
        "StorageClass" if TRANSITION_CLASSES.contains(&child.leaf()?.trim()) => Ok(()),
        _ => Err(malformed()),
    };
    let message = "Lifecycle transitions are not implemented: there is no other storage class";
    let refused = element.children.iter().try_for_each(check);
    refused.err().unwrap_or_else(|| S3Error::with(ErrorCode::NotImplemented, message))
}

/// One of days, a date, and whether delete markers expire.
fn read_expiration(element: &Element) -> Result<Expiration, S3Error> {
    let [child] = element.children.as_slice() else { return Err(malformed()) };
    match child.name.as_str() {
        "Days" => Ok(Expiration::Days(positive(child, "Expiration")?)),
        "Date" => Ok(Expiration::Date(midnight(child)?)),
        "ExpiredObjectDeleteMarker" => match child.leaf()?.trim() {
            "true" => Ok(Expiration::Markers(true)),
            "false" => Ok(Expiration::Markers(false)),
            _ => Err(malformed()),
        },
        _ => Err(malformed()),
    }
}

fn read_noncurrent(element: &Element) -> Result<Noncurrent, S3Error> {
    const ACTION: &str = "NoncurrentVersionExpiration";
    let (mut days, mut newer) = (None, None);
    for child in &element.children {
        match child.name.as_str() {
            "NoncurrentDays" if days.is_none() => days = Some(positive(child, ACTION)?),
            "NewerNoncurrentVersions" if newer.is_none() => newer = Some(positive(child, ACTION)?),
            _ => return Err(malformed()),
        }
    }
    let newer = newer.unwrap_or(0);
    if newer > NEWER_MAX {
        let message = format!("'NewerNoncurrentVersions' for {ACTION} action must not exceed {NEWER_MAX}");
        return Err(S3Error::argument(message, "NewerNoncurrentVersions", newer.to_string().as_bytes()));
    }
    Ok(Noncurrent { days: days.ok_or_else(malformed)?, newer })
}

fn read_abort(element: &Element) -> Result<u32, S3Error> {
    match element.children.as_slice() {
        [days] if days.name == "DaysAfterInitiation" => positive(days, "AbortIncompleteMultipartUpload"),
        _ => Err(malformed()),
    }
}

/// A rule has an action, and none that its filter cannot be asked about: delete markers and uploads have neither tags
/// nor a size.
fn check_actions(rule: &Rule) -> Result<(), S3Error> {
    if rule.expiration.is_none() && rule.noncurrent.is_none() && rule.abort_days.is_none() {
        return Err(invalid("At least one action needs to be specified in a rule"));
    }
    let has_size = rule.filter.greater_than.is_some() || rule.filter.less_than.is_some();
    for (action, there) in [
        ("AbortIncompleteMultipartUpload", rule.abort_days.is_some()),
        ("ExpiredObjectDeleteMarker", matches!(rule.expiration, Some(Expiration::Markers(_)))),
    ] {
        if there && !rule.filter.tags.is_empty() {
            return Err(invalid(format!("{action} cannot be specified with Tags.")));
        }
        if there && has_size {
            return Err(invalid(format!("{action} cannot be specified with Object Size.")));
        }
    }
    Ok(())
}
