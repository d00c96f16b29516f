//! A rule of a replication configuration: its element, read and written in the form in which it was sent.

use std::borrow::Cow;

use crate::errors::{ErrorCode, S3Error};
use crate::objects::metadata::OTHER_STORAGE_CLASSES;
use crate::objects::tags;
use crate::xml::XmlWriter;
use crate::xml::parse::{Element, malformed};

/// Characters of an ID, and bytes of a prefix.
const ID_LEN_MAX: usize = 255;
const PREFIX_LEN_MAX: usize = 1_024;
/// Where the stored document keeps the place in the journal. S3 does not have this element.
const BEGINS_AFTER: &str = "BeginsAfter";
const ARN: &str = "arn:aws:s3:::";
const SCHEMA: &str = "for this version of Cross Region Replication configuration schema. Please refer to S3 Developer \
                      Guide for more information.";

/// How a rule says which objects it applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// By a prefix outside of a filter, as in the first version of the document; or by nothing.
    Prefix,
    /// By a filter with one condition or none. `Single(true)`: with a prefix.
    Single(bool),
    /// By a filter with several conditions. `And(true)`: a prefix is among them.
    And(bool),
}

/// Which objects are copied, where to, and what else of them. Switches that are not set are off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub id: String,
    /// `None` in the first version of the document.
    pub priority: Option<u32>,
    pub enabled: bool,
    pub prefix: Vec<u8>,
    pub tags: Vec<(Vec<u8>, Vec<u8>)>,
    form: Form,
    /// Delete markers are copied.
    pub markers: Option<bool>,
    /// What existed before the rule is copied.
    pub existing: Option<bool>,
    /// Objects that are encrypted with a named key are copied.
    pub of_named_keys: Option<bool>,
    /// Replicas are copied: it can only be off.
    of_replicas: Option<bool>,
    /// Removals of versions are copied: it can only be off. Clients of MinIO always say it; S3 does not have it.
    removals: Option<bool>,
    /// `TARGET/BUCKET`
    pub destination: String,
    pub storage_class: Option<String>,
    /// The key with which copies of what is encrypted with a named key are encrypted.
    pub key_id: Option<String>,
    metrics: Option<bool>,
    /// The sequence in the log behind which the rule begins.
    pub begins_after: u64,
}

/// What an element of a rule says, before it is known whether all is there.
#[derive(Default)]
struct Destination {
    place: Option<String>,
    storage_class: Option<String>,
    key_id: Option<String>,
    metrics: Option<bool>,
}

impl Rule {
    pub(super) fn parse(element: &Element) -> Result<Self, S3Error> {
        let (mut id, mut priority, mut enabled, mut filter) = (None, None, None, None);
        let (mut markers, mut removals, mut existing, mut criteria) = (None, None, None, None);
        let (mut to, mut begins_after) = (None, None);
        for child in &element.children {
            match child.name.as_str() {
                "ID" if id.is_none() => id = Some(child.leaf()?.to_owned()),
                "Priority" if priority.is_none() => priority = Some(number(child)?),
                "Status" if enabled.is_none() => enabled = Some(switch(child)?),
                "Prefix" if filter.is_none() => filter = Some((child.leaf()?.into(), Vec::new(), Form::Prefix)),
                "Filter" if filter.is_none() => filter = Some(read_filter(child)?),
                "DeleteMarkerReplication" if markers.is_none() => markers = status_of(child)?,
                "DeleteReplication" if removals.is_none() => removals = status_of(child)?,
                "ExistingObjectReplication" if existing.is_none() => existing = status_of(child)?,
                "SourceSelectionCriteria" if criteria.is_none() => criteria = Some(read_criteria(child)?),
                "Destination" if to.is_none() => to = Some(read_destination(child)?),
                BEGINS_AFTER if begins_after.is_none() => begins_after = Some(number(child)?),
                _ => return Err(malformed()),
            }
        }
        let (Some(enabled), Some(to)) = (enabled, to) else { return Err(malformed()) };
        let Destination { place: Some(destination), storage_class, key_id, metrics } = to else {
            return Err(malformed());
        };
        let (prefix, tags, form) = filter.unwrap_or((Vec::new(), Vec::new(), Form::Prefix));
        let [of_named_keys, of_replicas] = criteria.unwrap_or_default();
        Ok(Self {
            id: id.unwrap_or_default(),
            priority: priority.map(|value: u64| u32::try_from(value).map_err(|_| malformed())).transpose()?,
            enabled,
            prefix,
            tags,
            form,
            markers,
            existing,
            of_named_keys,
            of_replicas,
            removals,
            destination,
            storage_class,
            key_id,
            metrics,
            begins_after: begins_after.unwrap_or_default(),
        })
    }

    /// What S3 refuses in a rule that has its schema, and what nothing here carries out.
    pub(super) fn check(&self) -> Result<(), S3Error> {
        if self.id.chars().count() > ID_LEN_MAX {
            let message = format!("ID length should not exceed allowed limit of {ID_LEN_MAX}");
            return Err(S3Error::argument(message, "ID", self.id.as_bytes()));
        }
        if self.prefix.len() > PREFIX_LEN_MAX {
            return Err(invalid(format!("The maximum size of a prefix is {PREFIX_LEN_MAX}.")));
        }
        match self.form {
            Form::Prefix if self.priority.is_some() => {
                return Err(invalid(format!("Priority cannot be used {SCHEMA}")));
            }
            Form::Prefix if self.markers.is_some() => {
                return Err(invalid(format!("DeleteMarkerReplication cannot be used {SCHEMA}")));
            }
            Form::Prefix => {}
            _ if self.priority.is_none() => return Err(invalid(format!("Priority must be specified {SCHEMA}"))),
            _ if self.markers.is_none() => {
                return Err(invalid(format!("DeleteMarkerReplication must be specified {SCHEMA}")));
            }
            _ => {}
        }
        if self.markers == Some(true) && !self.tags.is_empty() {
            let message = "Delete marker replication is not supported if any Tag filter is specified. Please refer to S3 \
                           Developer Guide for more information.";
            return Err(invalid(message));
        }
        if self.of_replicas == Some(true) {
            return Err(refused("Replicas are not copied on: leave out ReplicaModifications"));
        }
        if self.removals == Some(true) {
            return Err(refused("Removals of versions are never copied: leave out DeleteReplication"));
        }
        if self.of_named_keys == Some(true) && self.key_id.is_none() {
            return Err(invalid("SseKmsEncryptedObjects must be specified with EncryptionConfiguration."));
        }
        let (target, bucket) = self.place();
        if target.is_empty() || bucket.is_empty() || bucket.contains('/') {
            let message = "The destination must be arn:aws:s3:::TARGET/BUCKET, with a target of this server";
            return Err(S3Error::argument(message, "Bucket", format!("{ARN}{}", self.destination).as_bytes()));
        }
        match self.storage_class.as_deref() {
            Some(class) if class != "STANDARD" && !OTHER_STORAGE_CLASSES.contains(&class) => {
                Err(S3Error::new(ErrorCode::InvalidStorageClass).field("StorageClassRequested", class))
            }
            _ => Ok(()),
        }
    }

    /// The name of the target, and that of the bucket there.
    pub fn place(&self) -> (&str, &str) {
        self.destination.split_once('/').unwrap_or((&self.destination, ""))
    }

    pub fn matches(&self, key: &[u8], tags: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> bool {
        let has = |(name, value): &(Vec<u8>, Vec<u8>)| {
            tags.iter().any(|(other, its)| other.as_ref() == name.as_slice() && its.as_ref() == value.as_slice())
        };
        key.starts_with(&self.prefix) && self.tags.iter().all(has)
    }

    pub(super) fn write(&self, xml: &mut XmlWriter, stored: bool) {
        xml.open("Rule");
        if !self.id.is_empty() {
            xml.text("ID", self.id.as_bytes());
        }
        self.priority.iter().for_each(|priority| xml.number("Priority", u64::from(*priority)));
        match self.form {
            Form::Prefix => xml.text("Prefix", &self.prefix),
            Form::Single(prefix) => {
                xml.open("Filter");
                self.write_conditions(xml, prefix);
                xml.close("Filter");
            }
            Form::And(prefix) => {
                xml.open("Filter");
                xml.open("And");
                self.write_conditions(xml, prefix);
                xml.close("And");
                xml.close("Filter");
            }
        }
        xml.plain("Status", word(self.enabled));
        write_status(xml, "ExistingObjectReplication", self.existing);
        if self.of_named_keys.is_some() || self.of_replicas.is_some() {
            xml.open("SourceSelectionCriteria");
            write_status(xml, "SseKmsEncryptedObjects", self.of_named_keys);
            write_status(xml, "ReplicaModifications", self.of_replicas);
            xml.close("SourceSelectionCriteria");
        }
        xml.open("Destination");
        xml.text("Bucket", format!("{ARN}{}", self.destination).as_bytes());
        self.storage_class.iter().for_each(|class| xml.plain("StorageClass", class));
        if let Some(key_id) = &self.key_id {
            xml.open("EncryptionConfiguration");
            xml.text("ReplicaKmsKeyID", key_id.as_bytes());
            xml.close("EncryptionConfiguration");
        }
        write_status(xml, "Metrics", self.metrics);
        xml.close("Destination");
        write_status(xml, "DeleteMarkerReplication", self.markers);
        write_status(xml, "DeleteReplication", self.removals);
        if stored {
            xml.number(BEGINS_AFTER, self.begins_after);
        }
        xml.close("Rule");
    }

    fn write_conditions(&self, xml: &mut XmlWriter, prefix: bool) {
        if prefix {
            xml.text("Prefix", &self.prefix);
        }
        for (key, value) in &self.tags {
            xml.open("Tag");
            xml.text("Key", key);
            xml.text("Value", value);
            xml.close("Tag");
        }
    }
}

pub(super) fn twice<T: Ord>(values: impl Iterator<Item = T>) -> bool {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.windows(2).any(|pair| pair[0] == pair[1])
}

pub(super) fn invalid(message: impl Into<Cow<'static, str>>) -> S3Error {
    S3Error::with(ErrorCode::InvalidRequest, message)
}

fn refused(message: &'static str) -> S3Error {
    S3Error::with(ErrorCode::NotImplemented, message)
}

fn word(enabled: bool) -> &'static str {
    if enabled { "Enabled" } else { "Disabled" }
}

fn switch(element: &Element) -> Result<bool, S3Error> {
    match element.leaf()?.trim() {
        "Enabled" => Ok(true),
        "Disabled" => Ok(false),
        _ => Err(malformed()),
    }
}

/// The switch in an element that has nothing else.
fn status_of(element: &Element) -> Result<Option<bool>, S3Error> {
    match element.children.as_slice() {
        [status] if status.name == "Status" => switch(status).map(Some),
        _ => Err(malformed()),
    }
}

fn write_status(xml: &mut XmlWriter, name: &str, enabled: Option<bool>) {
    if let Some(enabled) = enabled {
        xml.open(name);
        xml.plain("Status", word(enabled));
        xml.close(name);
    }
}

fn number(element: &Element) -> Result<u64, S3Error> {
    element.leaf()?.trim().parse().map_err(|_| malformed())
}

type Conditions = (Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>, Form);

/// A filter has one condition or an And of at least two. Clients of MinIO write an empty prefix beside others, and an And
/// of a prefix alone.
fn read_filter(element: &Element) -> Result<Conditions, S3Error> {
    let is_nothing = |child: &Element| child.name == "Prefix" && child.leaf().is_ok_and(str::is_empty);
    let children = match element.children.as_slice() {
        [first, rest @ ..] if !rest.is_empty() && is_nothing(first) => rest,
        children => children,
    };
    let is_prefix = |child: &Element| child.name == "Prefix" && !is_nothing(child);
    let is_several = |and: &Element| and.children.len() >= 2 || and.children.iter().any(is_prefix);
    let (elements, is_and) = match children {
        [and] if and.name == "And" && is_several(and) => (and.children.as_slice(), true),
        single @ ([] | [_]) => (single, false),
        _ => return Err(malformed()),
    };
    let (mut prefix, mut found) = (None, Vec::new());
    for child in elements {
        match child.name.as_str() {
            "Prefix" if prefix.is_none() => prefix = Some(child.leaf()?.as_bytes().to_vec()),
            "Tag" => found.push(tags::of_rule(child)?),
            _ => return Err(malformed()),
        }
    }
    if twice(found.iter().map(|(key, _)| key)) {
        return Err(invalid("Duplicate Tag Keys are not allowed."));
    }
    let has_prefix = prefix.is_some();
    let form = if is_and { Form::And(has_prefix) } else { Form::Single(has_prefix) };
    Ok((prefix.unwrap_or_default(), found, form))
}

/// Whether objects that are encrypted with named keys are copied, and replicas.
fn read_criteria(element: &Element) -> Result<[Option<bool>; 2], S3Error> {
    let [mut of_named_keys, mut of_replicas] = [None; 2];
    for child in &element.children {
        match child.name.as_str() {
            "SseKmsEncryptedObjects" if of_named_keys.is_none() => of_named_keys = status_of(child)?,
            "ReplicaModifications" if of_replicas.is_none() => of_replicas = status_of(child)?,
            _ => return Err(malformed()),
        }
    }
    Ok([of_named_keys, of_replicas])
}

fn read_destination(element: &Element) -> Result<Destination, S3Error> {
    let mut to = Destination::default();
    for child in &element.children {
        match child.name.as_str() {
            "Bucket" if to.place.is_none() => {
                let arn = child.leaf()?.trim();
                let wrong = || S3Error::argument("Invalid bucket ARN", "Bucket", arn.as_bytes());
                to.place = Some(arn.strip_prefix(ARN).ok_or_else(wrong)?.to_owned());
            }
            "StorageClass" if to.storage_class.is_none() => to.storage_class = Some(child.leaf()?.trim().to_owned()),
            "EncryptionConfiguration" if to.key_id.is_none() => match child.children.as_slice() {
                [id] if id.name == "ReplicaKmsKeyID" => to.key_id = Some(id.leaf()?.trim().to_owned()),
                _ => return Err(malformed()),
            },
            "Metrics" if to.metrics.is_none() => match child.children.as_slice() {
                [status] if status.name == "Status" => to.metrics = Some(switch(status)?),
                [_, _] => return Err(refused("No time is promised for copies: leave out EventThreshold")),
                _ => return Err(malformed()),
            },
            "ReplicationTime" => return Err(refused("No time is promised for copies: leave out ReplicationTime")),
            "Account" | "AccessControlTranslation" => {
                return Err(refused("Replicas belong to the account of the target's key: name no other owner"));
            }
            _ => return Err(malformed()),
        }
    }
    Ok(to)
}
