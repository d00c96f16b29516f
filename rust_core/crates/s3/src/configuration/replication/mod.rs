//! The replication configuration of a bucket: its rules, which of them an object falls under, and which destinations
//! they name.
//!
//! What a rule may say on S3 and nothing here carries out is refused. Codes and messages are those of S3, as far as they
//! are known. Knows nothing of targets but their names.
//!
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketReplication.html>

mod rule;
#[cfg(test)]
mod tests;

use super::configurations::{document as written, generated_id};
use crate::errors::S3Error;
use crate::xml::parse::{document, malformed};
use orcas_checksum::Md5Hasher;
use orcas_http::hex;
pub use rule::Rule;
use rule::{invalid, twice};

const ROOT: &str = "ReplicationConfiguration";
const RULES_MAX: usize = 1_000;
/// The name of the metadata that marks a replica: from where it was copied, and the place that the mark is for.
pub const MARK: &str = "orcas-replica";

/// The rules of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replication {
    /// Kept and shown. Copies are made with the key of the target.
    role: String,
    pub rules: Vec<Rule>,
}

impl Replication {
    /// Reads the document of a request. Rules without an ID get one, the same for the same document.
    ///
    /// # Errors
    /// `MalformedXML`, `InvalidRequest` and `InvalidArgument` for what S3 does not allow; `NotImplemented` for what it
    /// allows and nothing here carries out.
    pub fn parse(body: &[u8]) -> Result<Self, S3Error> {
        let replication = Self::read(body)?;
        replication.check()?;
        Ok(replication)
    }

    /// Reads what [`Replication::stored`] wrote. `None` for anything else.
    pub fn load(stored: &[u8]) -> Option<Self> {
        Self::read(stored).ok()
    }

    fn read(body: &[u8]) -> Result<Self, S3Error> {
        let root = document(body, ROOT)?;
        let (mut role, mut rules) = (None, Vec::new());
        for child in &root.children {
            match child.name.as_str() {
                "Role" if role.is_none() => role = Some(child.leaf()?.trim().to_owned()),
                "Rule" => rules.push(Rule::parse(child)?),
                _ => return Err(malformed()),
            }
        }
        let role = role.filter(|_| !rules.is_empty()).ok_or_else(malformed)?;
        for (at, rule) in rules.iter_mut().enumerate().filter(|(_, rule)| rule.id.is_empty()) {
            rule.id = generated_id(&written(ROOT, |xml| rule.write(xml, false)), at);
        }
        Ok(Self { role, rules })
    }

    fn check(&self) -> Result<(), S3Error> {
        if self.rules.len() > RULES_MAX {
            return Err(invalid(format!("The number of replication rules must not exceed {RULES_MAX}.")));
        }
        self.rules.iter().try_for_each(Rule::check)?;
        let old = |rule: &&Rule| rule.priority.is_none();
        if self.rules.iter().any(|rule| old(&rule)) && !self.rules.iter().all(|rule| old(&rule)) {
            return Err(invalid("Rules with a Filter and rules without one cannot be in one configuration."));
        }
        if twice(self.rules.iter().map(|rule| &rule.id)) {
            return Err(invalid("Rule Id must be unique. Found same Id for one or more rules."));
        }
        if twice(self.rules.iter().filter_map(|rule| rule.priority)) {
            return Err(invalid("Priority must be unique. Found same Priority for one or more rules."));
        }
        let mut prefixes: Vec<&[u8]> = self.rules.iter().filter(old).map(|rule| &rule.prefix[..]).collect();
        prefixes.sort_unstable();
        if let Some(pair) = prefixes.windows(2).find(|pair| pair[1].starts_with(pair[0])) {
            let [one, other] = [pair[0], pair[1]].map(String::from_utf8_lossy);
            return Err(invalid(format!("Found overlapping prefixes '{one}' and '{other}'")));
        }
        Ok(())
    }

    /// Sets where each rule begins: where the enabled rules of `former` with its destination began, or `now`.
    pub fn begin(&mut self, former: Option<&Self>, now: u64) {
        for rule in &mut self.rules {
            let former = former.into_iter().flat_map(|former| &former.rules);
            let begun = former.filter(|other| other.enabled && other.destination == rule.destination);
            rule.begins_after = begun.map(|other| other.begins_after).min().unwrap_or(now);
        }
    }

    /// The document that is stored, which says where rules begin.
    pub fn stored(&self) -> Vec<u8> {
        self.document(true)
    }

    /// The document that reading it answers.
    pub fn shown(&self) -> Vec<u8> {
        self.document(false)
    }

    fn document(&self, stored: bool) -> Vec<u8> {
        written(ROOT, |xml| {
            xml.text("Role", self.role.as_bytes());
            self.rules.iter().for_each(|rule| rule.write(xml, stored));
        })
    }

    /// Whether an object with this key may fall under an enabled rule, whatever its tags are.
    pub fn may_apply(&self, key: &[u8]) -> bool {
        self.rules.iter().any(|rule| rule.enabled && key.starts_with(&rule.prefix))
    }

    /// The rules that an object falls under: of each destination, the enabled one with the greatest priority.
    pub fn applying<'a>(&'a self, key: &'a [u8], tags: &'a [(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> Vec<&'a Rule> {
        let mut found: Vec<&Rule> = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.enabled && rule.matches(key, tags)) {
            match found.iter_mut().find(|other| other.destination == rule.destination) {
                Some(other) if other.priority < rule.priority => *other = rule,
                Some(_) => {}
                None => found.push(rule),
            }
        }
        found
    }
}

/// Whether a mark says that the object with this key, in a bucket of this name, is a replica. Copies of a replica under
/// another name have its metadata, and are none.
pub fn is_replica(mark: &[u8], bucket: &[u8], key: &[u8]) -> bool {
    let place = hex(&Md5Hasher::digest(&[bucket, b"/", key].concat()));
    mark.rsplit(|byte| *byte == b' ').next() == Some(place.as_bytes())
}
