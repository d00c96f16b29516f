//! A policy, read and prepared once. A policy that cannot be read as a whole is refused; none is read in part.
//!
//! Of each statement, a `Filter` says for which actions of S3 and which buckets it can match at all. It is a hint that never
//! rules out too much: what it lets through is compared in full. So an access decision on a thousand statements
//! compares few.

use crate::actions::{self, ActionText, Actions, ResourceType};
use crate::conditions::{self, Condition};
use crate::context::{Asked, Request};
use crate::context::{POLICY_STEPS_MAX, TEXT_LEN_MAX};
use crate::error::{Fault, PolicyError, PolicyKind};
use crate::json::Json;
use crate::keys::{self, is_key_of_s3};
use crate::pattern::{ArnFault, ArnPattern, Pattern};
use crate::principals::{Named, Principals};

/// Bytes of a bucket's policy.
pub const RESOURCE_POLICY_LEN_MAX: usize = 20 * 1024;

/// Bytes of the policy that narrows a session.
pub const SESSION_POLICY_LEN_MAX: usize = 2048;

const S3_ARN: &str = "arn:aws:s3:::";

#[derive(Debug)]
pub struct Policy {
    pub kind: PolicyKind,
    /// One for each statement.
    filters: Vec<Filter>,
    /// One of them denies.
    denies: bool,
    pub(crate) statements: Vec<Statement>,
}

#[derive(Debug)]
pub(crate) struct Statement {
    pub sid: Option<String>,
    pub allows: bool,
    pub principals: Option<Principals>,
    pub actions: Actions,
    pub resources: Resources,
    pub conditions: Vec<Condition>,
}

/// The element Resource or NotResource. A policy of a role has none: all resources, which is the role.
#[derive(Debug)]
pub(crate) struct Resources {
    pub negated: bool,
    pub patterns: Vec<ArnPattern>,
}

/// What a statement can match at all, and what a request is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    actions: u128,
    /// A bit for each bucket, of which many have the same.
    buckets: u64,
    /// A bit for each beginning of keys, likewise.
    keys: u64,
}

/// The filter that lets a request through whose bucket or action has no bit.
const EVERYTHING: Filter = Filter { actions: u128::MAX, buckets: u64::MAX, keys: u64::MAX };
/// Bytes of a key that have a bit. A shorter beginning has all.
const KEY_START: usize = 4;

impl Filter {
    fn of_statement(statement: &Statement) -> Self {
        let actions = statement.actions.bits;
        if statement.resources.negated {
            return Self { actions, ..EVERYTHING };
        }
        let nothing = Self { actions, buckets: 0, keys: 0 };
        statement.resources.patterns.iter().map(bits_of_pattern).fold(nothing, |filter, (buckets, keys)| Self {
            buckets: filter.buckets | buckets,
            keys: filter.keys | keys,
            actions,
        })
    }

    pub fn of_request(request: &Request<'_>) -> Self {
        let bit = actions::bit(request.action);
        let actions = if bit == 0 { EVERYTHING.actions } else { bit };
        let Some(name) = request.resource.strip_prefix(S3_ARN.as_bytes()) else {
            return Self { actions, ..EVERYTHING };
        };
        let (bucket, key) = split(name);
        Self { actions, buckets: hash_bit(bucket), keys: key_bits(key) }
    }

    fn meets(&self, request: &Filter) -> bool {
        // An action without a bit is compared, also with statements that mean no action of S3.
        let action = request.actions == EVERYTHING.actions || self.actions & request.actions != 0;
        action && self.buckets & request.buckets != 0 && self.keys & request.keys != 0
    }
}

/// The bucket of a name, and the key, if it has one.
fn split(name: &[u8]) -> (&[u8], Option<&[u8]>) {
    match name.iter().position(|&byte| byte == b'/') {
        Some(slash) => (&name[..slash], Some(&name[slash + 1..])),
        None => (name, None),
    }
}

fn hash_bit(text: &[u8]) -> u64 {
    // FNV-1a.
    let hash = text
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    1 << (hash >> 58)
}

/// One bit for how a key begins; all if it is shorter, or there is none.
fn key_bits(key: Option<&[u8]>) -> u64 {
    key.and_then(|key| key.get(..KEY_START)).map_or(u64::MAX, hash_bit)
}

/// The bits of the buckets, and of the beginnings of keys, that a pattern can match: one if it has them in full, or all.
fn bits_of_pattern(pattern: &ArnPattern) -> (u64, u64) {
    let ArnPattern::Whole(pattern) = pattern else { return (u64::MAX, u64::MAX) };
    let Some(name) = pattern.literal_start().strip_prefix(S3_ARN.as_bytes()) else { return (u64::MAX, u64::MAX) };
    let (bucket, key) = split(name);
    let buckets = if key.is_some() || pattern.is_literal() { hash_bit(bucket) } else { u64::MAX };
    (buckets, key_bits(key))
}

impl Statement {
    /// How it means the request; `None` if it does not.
    fn names(&self, request: &Request<'_>, asked: &Asked<'_>, has_boundary: bool) -> Option<Named> {
        let named = match &self.principals {
            Some(principals) => principals.names(request.principal, has_boundary)?,
            None => Named::Itself,
        };
        let applies = self.resources.contain(request.resource, asked)
            && self.conditions.iter().all(|condition| condition.holds(asked));
        applies.then_some(named)
    }
}

impl Resources {
    fn contain(&self, resource: &[u8], asked: &Asked<'_>) -> bool {
        asked.steps.take(self.patterns.len());
        self.patterns.iter().any(|pattern| pattern.matches(resource, asked)) != self.negated
    }
}

/// What a policy says about a request: places of statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DecidingStatements {
    pub denies: Option<usize>,
    /// The statement with which the steps of the decision were taken up.
    pub is_cut: Option<usize>,
    /// The statement that allows, with how it names the principal: the closest.
    pub allows: Option<(usize, Named)>,
}

impl Policy {
    /// Reads a policy. `bucket`: the one whose policy it is, if it is a bucket's.
    ///
    /// # Errors
    /// What is wrong with it, in the words of AWS.
    pub fn parse(text: &str, kind: PolicyKind, bucket: Option<&str>) -> Result<Self, PolicyError> {
        read(text, kind, bucket).map_err(|fault| PolicyError { kind, fault })
    }

    /// What its statements say. After the first one that denies, the others do not count. `filter` is of the request;
    /// `is_allowed`: by another policy, so that only statements that deny count.
    pub(crate) fn judge(
        &self,
        (request, filter): (&Request<'_>, &Filter),
        asked: &Asked<'_>,
        has_boundary: bool,
        is_allowed: bool,
    ) -> DecidingStatements {
        if is_allowed && !self.denies {
            return DecidingStatements::default();
        }
        let by_name = filter.actions == EVERYTHING.actions;
        let mut allows: Option<(usize, Named)> = None;
        for (place, of_statement) in self.filters.iter().enumerate() {
            if !of_statement.meets(filter) {
                continue;
            }
            let statement = &self.statements[place];
            // Only a grant that names the principal more closely changes anything.
            let known = statement.allows && (is_allowed || allows.is_some_and(|(_, named)| named == Named::Itself));
            if known || by_name && !statement.actions.names(request.action, asked) {
                continue;
            }
            let named = statement.names(request, asked, has_boundary);
            if asked.steps.are_spent() {
                return DecidingStatements { is_cut: Some(place), ..DecidingStatements::default() };
            }
            let Some(named) = named else { continue };
            if !statement.allows {
                return DecidingStatements { denies: Some(place), ..DecidingStatements::default() };
            }
            if allows.is_none_or(|(_, known)| known < named) {
                allows = Some((place, named));
            }
        }
        // Actions are compared as well.
        let is_cut = asked.steps.are_spent().then(|| self.statements.len() - 1);
        DecidingStatements { allows, is_cut, denies: None }
    }

    /// Whether it may be put. One that was put before is read all the same: what it denies stays denied.
    ///
    /// # Errors
    /// A key of a condition of a bucket's policy does not exist, or no action of its statement has it; or the policy takes
    /// too much to compare.
    pub fn check_put(&self) -> Result<(), PolicyError> {
        let of_bucket = self.statements.iter().filter(|_| self.kind == PolicyKind::Resource);
        let faults = of_bucket.flat_map(|statement| {
            statement.conditions.iter().filter_map(|condition| match keys::actions_with(&condition.key) {
                None => Some(Fault::ConditionKey(condition.key.to_string())),
                Some(bits) if bits & statement.actions.bits == 0 => Some(Fault::ConditionNotApplicable),
                Some(_) => None,
            })
        });
        let fault = { faults }.next().or_else(|| self.is_too_costly().then_some(Fault::TooCostly));
        fault.map_or(Ok(()), |fault| Err(PolicyError { kind: self.kind, fault }))
    }

    pub(crate) fn is_too_costly(&self) -> bool {
        let of_statement = |statement: &Statement| {
            let resources = statement.resources.patterns.iter().map(|it| 1 + it.steps(TEXT_LEN_MAX));
            resources.chain(statement.conditions.iter().map(Condition::steps)).sum::<usize>()
        };
        self.statements.iter().map(of_statement).sum::<usize>() > POLICY_STEPS_MAX as usize
    }

    pub fn len(&self) -> usize {
        self.statements.len()
    }

    pub fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    pub fn sid(&self, statement: usize) -> Option<&str> {
        self.statements.get(statement)?.sid.as_deref()
    }

    /// The keys that its conditions and variables name, in lower case.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.statements.iter().flat_map(|statement| {
            let resources = statement.resources.patterns.iter().flat_map(ArnPattern::patterns);
            let conditions = &statement.conditions;
            let in_values = conditions.iter().flat_map(Condition::variables);
            conditions.iter().map(|it| &*it.key).chain(resources.flat_map(Pattern::variables)).chain(in_values)
        })
    }

    /// The accounts, canonical ids and ARNs that it names.
    pub fn principals(&self) -> impl Iterator<Item = &str> {
        self.statements.iter().filter_map(|statement| statement.principals.as_ref()).flat_map(Principals::all)
    }

    /// Whether it allows everybody something, as S3 sees it: no condition limits it to fixed values of a key that
    /// anonymous requests lack.
    /// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html>
    pub fn is_public(&self) -> bool {
        self.statements.iter().any(|statement| {
            let public = statement.principals.as_ref().is_some_and(Principals::are_public);
            let limits = |it: &Condition| PRIVATE_KEYS.contains(&&*it.key) && it.fixes_its_key();
            statement.allows && public && !statement.conditions.iter().any(limits)
        })
    }
}

const PRIVATE_KEYS: [&str; 15] = [
    "aws:principalaccount",
    "aws:principalarn",
    "aws:principalorgid",
    "aws:principalorgpaths",
    "aws:sourceaccount",
    "aws:sourcearn",
    "aws:sourceip",
    "aws:sourceorgid",
    "aws:sourceowner",
    "aws:sourcevpc",
    "aws:sourcevpce",
    "aws:userid",
    "s3:dataaccesspointaccount",
    "s3:dataaccesspointarn",
    "s3:x-amz-server-side-encryption-aws-kms-key-id",
];

fn read(text: &str, kind: PolicyKind, bucket: Option<&str>) -> Result<Policy, Fault> {
    let len_max = match kind {
        PolicyKind::Resource => RESOURCE_POLICY_LEN_MAX,
        PolicyKind::Session => SESSION_POLICY_LEN_MAX,
        PolicyKind::Identity | PolicyKind::Boundary | PolicyKind::Trust => usize::MAX,
    };
    if text.len() > len_max {
        return Err(Fault::TooLong);
    }
    if !text.trim_start().starts_with('{') {
        return Err(Fault::FirstCharacter);
    }
    let Some(Json::Object(members)) = Json::parse(text) else { return Err(Fault::NotJson) };
    let (mut statements, mut variables) = (None, false);
    for (name, value) in &members {
        match &**name {
            "Version" => {
                variables = match value.as_str() {
                    Some("2012-10-17") => true,
                    Some("2008-10-17") => false,
                    _ => return Err(Fault::Version),
                }
            }
            "Id" => value.as_str().map(drop).ok_or(Fault::Type("Id"))?,
            "Statement" => statements = Some(value.items()),
            _ => return Err(Fault::UnknownField(name.clone())),
        }
    }
    let statements = statements.ok_or(Fault::Missing("Statement"))?;
    if statements.is_empty() {
        return Err(Fault::NoStatement);
    }
    let reader = StatementReader { kind, variables, bucket };
    let statements = statements.iter().map(|it| reader.read(it)).collect::<Result<Vec<_>, _>>()?;
    let mut sids: Vec<&str> = statements.iter().filter_map(|it| it.sid.as_deref()).collect();
    sids.sort_unstable();
    if sids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Fault::SidTwice);
    }
    let filters = statements.iter().map(Filter::of_statement).collect();
    let denies = statements.iter().any(|statement| !statement.allows);
    Ok(Policy { kind, filters, denies, statements })
}

struct StatementReader<'a> {
    kind: PolicyKind,
    /// The version of the policy has variables.
    variables: bool,
    bucket: Option<&'a str>,
}

const ELEMENTS: [&str; 9] =
    ["Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource", "NotResource", "Condition"];

impl StatementReader<'_> {
    fn read(&self, element: &Json) -> Result<Statement, Fault> {
        let Json::Object(members) = element else { return Err(Fault::Type("Statement")) };
        if let Some((name, _)) = members.iter().find(|(name, _)| !ELEMENTS.contains(&&**name)) {
            return Err(Fault::UnknownField(name.clone()));
        }
        let get = |name: &str| members.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        // An element or its negation, and whether it is that.
        let either = |name: &'static str, not: &str| match (get(name), get(not)) {
            (Some(_), Some(_)) => Err(Fault::Both(name)),
            (Some(value), None) => Ok(Some((value, false))),
            (None, negated) => Ok(negated.map(|value| (value, true))),
        };
        let sid = get("Sid").map(|sid| sid.as_str().ok_or(Fault::Type("Sid"))).transpose()?;
        let sid = sid.filter(|sid| !sid.is_empty());
        if !self.kind.names_principals() && !sid.unwrap_or_default().bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(Fault::SidCharacters);
        }
        let allows = match get("Effect").ok_or(Fault::Missing("Effect"))? {
            Json::String(effect) if effect == "Allow" => true,
            Json::String(effect) if effect == "Deny" => false,
            Json::String(other) => return Err(Fault::Effect(other.clone())),
            _ => return Err(Fault::Type("Effect")),
        };
        let principals = self.principals(either("Principal", "NotPrincipal")?, allows)?;
        let (texts, negated) = either("Action", "NotAction")?.ok_or(Fault::Missing("Action"))?;
        let texts = texts.strings().ok_or(Fault::Type("Action"))?;
        let actions = self.actions(&texts, negated)?;
        let resources = self.resources(either("Resource", "NotResource")?)?;
        let conditions = match get("Condition") {
            Some(element) => conditions::parse(element, self.variables)?,
            None => Vec::new(),
        };
        if self.kind == PolicyKind::Resource {
            if !negated && !actions.texts().all(|text| resources.take(text)) {
                return Err(Fault::NotApplicable);
            }
            if let Some(unknown) = conditions.iter().find(|it| !is_key_of_s3(&it.key)) {
                return Err(Fault::ConditionKey(unknown.key.to_string()));
            }
        }
        Ok(Statement { sid: sid.map(str::to_owned), allows, principals, actions, resources, conditions })
    }

    fn principals(&self, element: Option<(&Json, bool)>, allows: bool) -> Result<Option<Principals>, Fault> {
        match (element, self.kind.names_principals()) {
            (None, false) => Ok(None),
            (Some(_), false) => Err(Fault::Prohibited("Principal")),
            (None, true) => Err(Fault::Missing("Principal")),
            (Some((_, true)), true) if self.kind == PolicyKind::Trust => Err(Fault::Prohibited("NotPrincipal")),
            (Some((_, true)), true) if allows => Err(Fault::AllowWithNotPrincipal),
            (Some((value, negated)), true) => Principals::parse(value, negated, self.kind).map(Some),
        }
    }

    fn actions(&self, texts: &[&str], negated: bool) -> Result<Actions, Fault> {
        if texts.is_empty() {
            return Err(Fault::Missing("Action"));
        }
        for text in texts {
            let vendor = match (*text, text.split_once(':')) {
                ("*", None) => continue,
                (_, Some((vendor, name))) if !name.is_empty() => vendor,
                _ => return Err(Fault::Action((*text).to_owned())),
            };
            if text.matches(':').count() > 1 {
                return Err(Fault::Colons);
            }
            if vendor.is_empty() || !vendor.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                return Err(Fault::Vendor(vendor.to_owned()));
            }
            if self.kind == PolicyKind::Trust && !vendor.eq_ignore_ascii_case("sts") {
                return Err(Fault::ActionOfTrust);
            }
        }
        let actions = Actions::new(texts, negated);
        let unknown = actions.texts().find(|text| text.matching().next().is_none());
        match unknown.filter(|_| self.kind == PolicyKind::Resource) {
            Some(unknown) => Err(Fault::Action(unknown.text.clone())),
            None => Ok(actions),
        }
    }

    fn resources(&self, element: Option<(&Json, bool)>) -> Result<Resources, Fault> {
        let Some((value, negated)) = element else {
            return match self.kind {
                PolicyKind::Trust => Ok(Resources { negated: false, patterns: vec![ArnPattern::All] }),
                _ => Err(Fault::Missing("Resource")),
            };
        };
        if self.kind == PolicyKind::Trust {
            return Err(Fault::Prohibited("Resource"));
        }
        let texts = value.strings().ok_or(Fault::Type("Resource"))?;
        if texts.is_empty() {
            return Err(if self.kind == PolicyKind::Resource {
                Fault::Resource(String::new())
            } else {
                Fault::Missing("Resource")
            });
        }
        let patterns = texts.iter().map(|text| self.resource(text)).collect::<Result<_, _>>()?;
        Ok(Resources { negated, patterns })
    }

    fn resource(&self, text: &str) -> Result<ArnPattern, Fault> {
        if let Some(bucket) = self.bucket {
            // The name in full, and after it nothing, a key or a wildcard.
            let rest = text.strip_prefix(S3_ARN).and_then(|name| name.strip_prefix(bucket));
            if !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '*', '?'])) {
                return Err(Fault::Resource(text.to_owned()));
            }
        }
        let pattern = ArnPattern::parse(text, self.variables).map_err(|fault| match fault {
            ArnFault::NotArn => Fault::Resource(text.to_owned()),
            ArnFault::Short => Fault::ShortArn(text.to_owned()),
            ArnFault::Variable => Fault::Variable(text.to_owned()),
        })?;
        let parts: Vec<&str> = text.splitn(6, ':').collect();
        let part = |at: usize| parts.get(at).copied().unwrap_or_default();
        let partition = part(1);
        if !matches!(partition, "" | "aws" | "aws-cn" | "aws-us-gov") && !partition.contains(['*', '?']) {
            return Err(Fault::Partition(partition.to_owned(), text.to_owned()));
        }
        if part(2) == "s3" && part(4).is_empty() && !matches!(part(3), "" | "*") {
            return Err(Fault::Region(text.to_owned()));
        }
        Ok(pattern)
    }
}

impl Resources {
    /// Whether an action, which may have wildcards, applies to one of the resources by what it is: a bucket or an object.
    /// True for actions of other services.
    pub fn take(&self, action: &ActionText) -> bool {
        if self.negated || action.text == "*" {
            return true;
        }
        let (mut buckets, mut objects) = (false, false);
        for pattern in &self.patterns {
            let start = match pattern {
                ArnPattern::Whole(pattern) => {
                    pattern.literal_start().strip_prefix(S3_ARN.as_bytes()).map(|it| (it, pattern.is_literal()))
                }
                ArnPattern::All | ArnPattern::Parts(_) => None,
            };
            match start {
                Some((name, _)) if name.contains(&b'/') => objects = true,
                Some((_, true)) => buckets = true,
                _ => (buckets, objects) = (true, true),
            }
        }
        let mut levels = action.matching().map(|(_, level)| level).peekable();
        levels.peek().is_none()
            || levels.any(|level| match level {
                ResourceType::Bucket => buckets,
                ResourceType::Object => objects,
                ResourceType::Account => self.patterns.iter().any(|it| bits_of_pattern(it).0 == u64::MAX),
            })
    }
}
