//! The lifecycle configuration of a bucket: reading and writing its document, and what answers say of it.
//!
//! What a rule means, and when something expires, is the business of `orcas_lifecycle`. Codes and messages are those that
//! S3 has been observed to answer, as far as they are known.
//!
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketLifecycleConfiguration.html>

mod rule;
#[cfg(test)]
mod tests;

use super::configurations::{document as written, generated_id};
use crate::errors::S3Error;
use crate::responses::format::{HTTP_DATE_LEN, write_http_date};
use crate::xml::parse::{document, malformed};
use orcas_http::{Headers, percent_encode_into};
use orcas_lifecycle::{Due, Rule, Rules};
use rule::{RuleDocument, invalid};

const ROOT: &str = "LifecycleConfiguration";
const RULES_MAX: usize = 1_000;
/// The header in which a client chooses a default, and in which answers show it.
pub const DEFAULT_SIZE: &str = "x-amz-transition-default-minimum-object-size";
/// Where the stored document keeps that default. S3 does not have this element.
const DEFAULT_SIZE_ELEMENT: &str = "TransitionDefaultMinimumObjectSize";

/// The size from which on objects are transitioned where no rule says. Nothing is transitioned, so it is only shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultSize {
    #[default]
    All128K,
    Varies,
}

impl DefaultSize {
    pub fn name(self) -> &'static str {
        match self {
            Self::All128K => "all_storage_classes_128K",
            Self::Varies => "varies_by_storage_class",
        }
    }

    fn parse(text: &[u8]) -> Option<Self> {
        [Self::All128K, Self::Varies].into_iter().find(|size| size.name().as_bytes() == text)
    }

    /// Errors: `InvalidRequest` for a value that S3 does not have.
    pub fn of_request(headers: &Headers<'_>) -> Result<Self, S3Error> {
        let Some(value) = headers.get(DEFAULT_SIZE).map(<[u8]>::trim_ascii) else { return Ok(Self::default()) };
        Self::parse(value).ok_or_else(|| {
            let value = String::from_utf8_lossy(value);
            invalid(format!("Invalid TransitionDefaultMinimumObjectSize found: {value}"))
        })
    }
}

/// A document, as it is sent and shown.
#[derive(Debug, PartialEq, Eq)]
pub struct Configuration {
    rules: Vec<RuleDocument>,
    pub default_size: DefaultSize,
}

impl Configuration {
    /// Reads the document of a request. Rules without an ID get one, the same for the same document.
    ///
    /// # Errors
    /// `MalformedXML`, and `InvalidRequest` and `InvalidArgument` for values that S3 does not allow. `NotImplemented`
    /// for transitions: there is no storage class to go to.
    pub fn parse(body: &[u8]) -> Result<Self, S3Error> {
        let root = document(body, ROOT)?;
        if root.children.is_empty() {
            return Err(malformed());
        }
        if root.children.len() > RULES_MAX {
            let message =
                format!("The number of lifecycle rules must not exceed the allowed limit of {RULES_MAX} rules.");
            return Err(invalid(message));
        }
        let mut rules = root.children.iter().map(RuleDocument::parse).collect::<Result<Vec<_>, _>>()?;
        if rules.iter().any(RuleDocument::is_old) && !rules.iter().all(RuleDocument::is_old) {
            let message =
                "Base level prefix cannot be used in Lifecycle V2, prefixes are only supported in the Filter.";
            return Err(invalid(message));
        }
        if rules.iter().any(|rule| rule.is_old() && rule.rule.noncurrent.is_some_and(|noncurrent| noncurrent.newer > 0))
        {
            return Err(invalid("NewerNoncurrentVersions can only be specified in a rule with a Filter."));
        }
        name(&mut rules);
        let mut ids: Vec<&str> = rules.iter().map(|rule| rule.rule.id.as_str()).collect();
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            let message = "Rule ID must be unique. Found same ID for more than one rule";
            return Err(S3Error::argument(message, "ID", pair[0].as_bytes()));
        }
        check_overlaps(&rules)?;
        Ok(Self { rules, default_size: DefaultSize::default() })
    }

    /// Reads what [`Configuration::stored`] wrote. `None` for anything else.
    pub fn load(stored: &[u8]) -> Option<Self> {
        let root = document(stored, ROOT).ok()?;
        let (mut rules, mut default_size) = (Vec::new(), DefaultSize::default());
        for child in &root.children {
            match child.name.as_str() {
                DEFAULT_SIZE_ELEMENT => default_size = DefaultSize::parse(child.text.as_bytes())?,
                _ => rules.push(RuleDocument::parse(child).ok()?),
            }
        }
        Some(Self { rules, default_size })
    }

    /// The document that reading it answers.
    pub fn shown(&self) -> Vec<u8> {
        written(ROOT, |xml| self.rules.iter().for_each(|rule| rule.write(xml)))
    }

    /// The document that is stored: with everything that `load` needs.
    pub fn stored(&self) -> Vec<u8> {
        written(ROOT, |xml| {
            if self.default_size != DefaultSize::default() {
                xml.plain(DEFAULT_SIZE_ELEMENT, self.default_size.name());
            }
            self.rules.iter().for_each(|rule| rule.write(xml));
        })
    }

    pub fn into_rules(self) -> Rules {
        Rules::new(self.rules.into_iter().map(|document| document.rule).collect())
    }
}

/// In the first version of the document, objects have at most one rule for an action.
///
/// Errors: `InvalidRequest` for two rules with the same action where one prefix begins with the other.
fn check_overlaps(rules: &[RuleDocument]) -> Result<(), S3Error> {
    let old: Vec<&Rule> = rules.iter().filter(|rule| rule.is_old()).map(|rule| &rule.rule).collect();
    for action in ["Expiration", "NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload"] {
        let has = |rule: &&&Rule| match action {
            "Expiration" => rule.expiration.is_some(),
            "NoncurrentVersionExpiration" => rule.noncurrent.is_some(),
            _ => rule.abort_days.is_some(),
        };
        let mut prefixes: Vec<&[u8]> = old.iter().filter(has).map(|rule| &rule.filter.prefix[..]).collect();
        // In this order, a prefix stands right before one that begins with it.
        prefixes.sort_unstable();
        if let Some(pair) = prefixes.windows(2).find(|pair| pair[1].starts_with(pair[0])) {
            let [shorter, longer] = [pair[0], pair[1]].map(String::from_utf8_lossy);
            return Err(invalid(format!(
                "Found overlapping prefixes '{shorter}' and '{longer}' for same action type '{action}'"
            )));
        }
    }
    Ok(())
}

/// The rules of a stored document; `None` for one that cannot be read.
pub fn rules(stored: &[u8]) -> Option<Rules> {
    Configuration::load(stored).map(Configuration::into_rules)
}

/// The value of `x-amz-expiration`.
pub fn expiration(due: &Due<'_>) -> Vec<u8> {
    [&b"expiry-date=\""[..], &due_date(due), b"\", rule-id=\"", &due_rule(due), b"\""].concat()
}

/// The value of `x-amz-abort-date`.
pub fn due_date(due: &Due<'_>) -> [u8; HTTP_DATE_LEN] {
    let mut date = [0; HTTP_DATE_LEN];
    write_http_date(&mut date, i64::try_from(due.at_ms).unwrap_or(i64::MAX));
    date
}

/// The value of `x-amz-abort-rule-id`: an ID is any text, so it is percent-encoded.
pub fn due_rule(due: &Due<'_>) -> Vec<u8> {
    let mut id = Vec::new();
    percent_encode_into(&mut id, due.rule.id.as_bytes(), true);
    id
}

/// Gives rules without an ID one.
fn name(rules: &mut [RuleDocument]) {
    for (at, document) in rules.iter_mut().enumerate().filter(|(_, document)| document.rule.id.is_empty()) {
        document.rule.id = generated_id(&written("Rule", |xml| document.write(xml)), at);
    }
}
