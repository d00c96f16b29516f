//! Faults of policies, in the words of AWS: those of IAM for policies of identities, those of S3 for policies of
//! buckets, and those of IAM for policies that say who may assume a role.

use std::fmt;

/// The kind of a policy. It decides which elements it has, and the words of its errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// The rights of an identity.
    Identity,
    /// The most that an identity may do.
    Boundary,
    /// The most that a session may do.
    Session,
    /// The rights to a bucket, by principal.
    Resource,
    /// The principals that may assume a role.
    Trust,
}

impl PolicyKind {
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "identity" => Self::Identity,
            "boundary" => Self::Boundary,
            "session" => Self::Session,
            "resource" => Self::Resource,
            "trust" => Self::Trust,
            _ => return None,
        })
    }

    /// Whether its statements say who is meant.
    pub fn names_principals(self) -> bool {
        matches!(self, Self::Resource | Self::Trust)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    TooLong,
    /// The text does not begin as an object.
    FirstCharacter,
    NotJson,
    /// An element has a value of the wrong type.
    Type(&'static str),
    UnknownField(String),
    Version,
    Missing(&'static str),
    NoStatement,
    Effect(String),
    /// An element and its negation.
    Both(&'static str),
    SidCharacters,
    SidTwice,
    Prohibited(&'static str),
    Principal(String),
    AllowWithNotPrincipal,
    Action(String),
    ActionOfTrust,
    /// An action with two colons.
    Colons,
    Vendor(String),
    Resource(String),
    /// An ARN with too few parts.
    ShortArn(String),
    Partition(String, String),
    /// A bucket in a region or an account.
    Region(String),
    /// An action that none of the resources has.
    NotApplicable,
    Operator(String),
    ConditionKey(String),
    /// A key of a condition that no action of its statement has.
    ConditionNotApplicable,
    ConditionValue(&'static str, String),
    Date(String),
    Address(String),
    /// `${…}` that cannot be read.
    Variable(String),
    /// Patterns that take too much to compare.
    TooCostly,
}

/// A policy that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    pub kind: PolicyKind,
    pub fault: Fault,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            PolicyKind::Resource | PolicyKind::Trust => write_for_resource(&self.fault, f),
            PolicyKind::Identity | PolicyKind::Boundary | PolicyKind::Session => write_for_identity(&self.fault, f),
        }
    }
}

const TOO_COSTLY: &str = "The patterns of this policy take too much to compare: use fewer ? and * in them.";

fn write_for_resource(fault: &Fault, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match fault {
        Fault::TooLong => f.write_str("Policy exceeds the maximum allowed document size."),
        Fault::FirstCharacter => f.write_str("Policies must be valid JSON and the first byte must be '{'"),
        Fault::NotJson => f.write_str("This policy contains invalid Json"),
        Fault::UnknownField(name) => write!(f, "Unknown field {name}"),
        Fault::Version => f.write_str("The policy must contain a valid version string"),
        Fault::Missing(name) => write!(f, "Missing required field {name}"),
        Fault::NoStatement => f.write_str("Could not parse the policy: Statement is empty!"),
        Fault::Effect(value) => write!(f, "Invalid effect: {value}"),
        Fault::Both(name) => write!(f, "Statement/policy already has instance of {name}"),
        Fault::SidTwice => f.write_str("The Statement Ids in the policy are not unique"),
        Fault::Prohibited(name) => write!(f, "Has prohibited field {name}"),
        Fault::Principal(_) => f.write_str("Invalid principal in policy"),
        Fault::AllowWithNotPrincipal => f.write_str("Allow with NotPrincipal is not allowed."),
        Fault::ActionOfTrust => f.write_str("AssumeRole policy may only specify STS AssumeRole actions."),
        Fault::Action(_) | Fault::Vendor(_) | Fault::Colons => f.write_str("Policy has invalid action"),
        Fault::Resource(_) | Fault::ShortArn(_) | Fault::Partition(..) | Fault::Region(_) => {
            f.write_str("Policy has invalid resource")
        }
        Fault::NotApplicable => f.write_str("Action does not apply to any resource(s) in statement"),
        Fault::Operator(name) => write!(f, "Invalid Condition type : {name}"),
        Fault::ConditionKey(_) => f.write_str("Policy has an invalid condition key"),
        Fault::ConditionNotApplicable => {
            f.write_str("Conditions do not apply to combination of actions and resources in statement")
        }
        Fault::TooCostly => f.write_str(TOO_COSTLY),
        Fault::ConditionValue(operator, value) => write!(f, "Invalid value in Conditions for {operator}: {value}"),
        Fault::Date(value) => write!(f, "Invalid value in Conditions for a date: {value}"),
        Fault::Address(_) => f.write_str("Invalid IP address in Conditions"),
        Fault::Type(_) | Fault::SidCharacters | Fault::Variable(_) => f.write_str("Invalid policy syntax."),
    }
}

fn write_for_identity(fault: &Fault, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match fault {
        Fault::TooLong => f.write_str("Policy exceeds the maximum allowed document size."),
        Fault::TooCostly => f.write_str(TOO_COSTLY),
        Fault::Missing("Action") => f.write_str("Policy statement must contain actions."),
        Fault::Missing("Resource") => f.write_str("Policy statement must contain resources."),
        Fault::SidCharacters => f.write_str(
            "Statement IDs (SID) must be alpha-numeric. Check that your input satisfies the regular expression [0-9A-Za-z]*",
        ),
        Fault::SidTwice => f.write_str("Statement IDs (SID) in a single policy must be unique."),
        Fault::Prohibited(_) | Fault::Principal(_) | Fault::AllowWithNotPrincipal => {
            f.write_str("Policy document should not specify a principal.")
        }
        Fault::Action(_) | Fault::ActionOfTrust | Fault::ConditionKey(_) => {
            f.write_str("Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.")
        }
        Fault::Colons => f.write_str("Actions/Condition can contain only one colon."),
        Fault::Vendor(vendor) => write!(f, "Vendor {vendor} is not valid"),
        Fault::Resource(arn) => write!(f, "Resource {arn} must be in ARN format or \"*\"."),
        Fault::Region(arn) => write!(f, "Resource {arn} can not contain region information."),
        Fault::Partition(partition, arn) => write!(f, "Partition \"{partition}\" is not valid for resource \"{arn}\"."),
        Fault::ShortArn(_) | Fault::Date(_) => f.write_str("The policy failed legacy parsing"),
        Fault::Effect(value) if is_effect(value) => f.write_str("The policy failed legacy parsing"),
        Fault::FirstCharacter
        | Fault::NotJson
        | Fault::Type(_)
        | Fault::UnknownField(_)
        | Fault::Version
        | Fault::Missing(_)
        | Fault::NoStatement
        | Fault::Effect(_)
        | Fault::Both(_)
        | Fault::NotApplicable
        | Fault::ConditionNotApplicable
        | Fault::Operator(_)
        | Fault::ConditionValue(..)
        | Fault::Address(_)
        | Fault::Variable(_) => f.write_str("Syntax errors in policy."),
    }
}

/// In another case.
fn is_effect(value: &str) -> bool {
    value.eq_ignore_ascii_case("Allow") || value.eq_ignore_ascii_case("Deny")
}

impl std::error::Error for PolicyError {}
