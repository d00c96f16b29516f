//! An access decision as JSON: what applies to a request, and what follows. For IAM, which asks about rows of the
//! control plane, for tests, and for people who ask why.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::context::{Context, Request};
use crate::context::{STEPS_MAX, Steps};
use crate::error::PolicyKind;
use crate::evaluate::{AccessDecision, Policies, Reason, Source, evaluate_within};
use crate::policy::Policy;
use crate::principals::{Kind, Principal};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    principal: AskedPrincipal,
    /// Policies are documents, or texts of documents.
    #[serde(default)]
    identity: Vec<Value>,
    #[serde(default)]
    boundary: Option<Value>,
    #[serde(default)]
    session: Option<OneOrMore<Value>>,
    #[serde(default)]
    resource_policy: Option<Value>,
    /// The policy of a role, in place of that of a resource.
    #[serde(default)]
    trust: Option<Value>,
    /// The account of the resource; that of the principal, if it is not said.
    #[serde(default)]
    resource_account: Option<String>,
    action: OneOrMore<String>,
    resource: OneOrMore<String>,
    #[serde(default)]
    context: HashMap<String, Vec<String>>,
}

/// One of them, or a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore<T> {
    More(Vec<T>),
    One(T),
}

impl<T> OneOrMore<T> {
    fn items(&self) -> &[T] {
        match self {
            Self::More(items) => items,
            Self::One(item) => std::slice::from_ref(item),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedPrincipal {
    #[serde(default)]
    arn: Option<String>,
    kind: String,
    #[serde(default)]
    account: Option<String>,
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    tags: HashMap<String, String>,
    /// The ARN of the user or role that a session is of.
    #[serde(default)]
    identity: Option<String>,
    #[serde(default)]
    issued: String,
    #[serde(default)]
    provider: String,
}

#[derive(Serialize)]
struct Verdict<'a> {
    decision: &'static str,
    policy: Option<String>,
    statement: Option<usize>,
    sid: Option<&'a str>,
}

/// The access decision on a request that is written as JSON; with lists of actions or resources, a list of the decisions
/// on each pair, those on the first action first.
///
/// # Errors
/// A sentence that says what of it cannot be read, or that it takes too much to compare.
pub fn simulate(request: &str) -> Result<String, String> {
    let asked: Asked = serde_json::from_str(request).map_err(|error| error.to_string())?;
    let applied = Applied::read(&asked)?;
    let mut principal = asked.principal.read()?;
    let mut context: HashMap<_, _> =
        asked.context.into_iter().map(|(key, values)| (key.to_ascii_lowercase(), values)).collect();
    // Whoever simulates a session may say when it began as they say the rest.
    if let Some(issued) = context.remove("aws:tokenissuetime").and_then(|values| values.into_iter().next()) {
        principal.issued = issued;
    }
    let context = Given(context);
    let steps = Steps::new(SIMULATION_STEPS_MAX);
    let mut verdicts = Vec::new();
    for action in asked.action.items() {
        for resource in asked.resource.items() {
            let request = Request {
                principal: &principal,
                action,
                resource: resource.as_bytes(),
                resource_account: asked.resource_account.as_deref().unwrap_or(&principal.account),
                context: &context,
            };
            verdicts.push(applied.verdict(evaluate_within(&request, &applied.policies(), &steps)));
            if steps.are_spent() {
                return Err(TOO_COSTLY.to_owned());
            }
        }
    }
    let json = match (&asked.action, &asked.resource, &*verdicts) {
        (OneOrMore::One(_), OneOrMore::One(_), [verdict]) => serde_json::to_string(verdict),
        _ => serde_json::to_string(&verdicts),
    };
    json.map_err(|error| error.to_string())
}

/// Steps of all decisions together.
const SIMULATION_STEPS_MAX: u32 = 20 * STEPS_MAX;
const TOO_COSTLY: &str =
    "This simulation takes too much to compare: ask about fewer actions and resources, or give simpler policies";

/// The policies of a request.
struct Applied {
    identity: Vec<Arc<Policy>>,
    boundary: Option<Arc<Policy>>,
    session: Option<Vec<Arc<Policy>>>,
    resource: Option<Arc<Policy>>,
}

impl Applied {
    fn read(asked: &Asked) -> Result<Self, String> {
        let read = |document: &Value, kind| {
            let policy = match document {
                Value::String(text) => Policy::parse(text, kind, None),
                document => Policy::parse(&document.to_string(), kind, None),
            };
            policy.map(Arc::new).map_err(|error| error.to_string())
        };
        let one = |document: &Option<Value>, kind| document.as_ref().map(|document| read(document, kind)).transpose();
        let each = |documents: &[Value], kind| documents.iter().map(|it| read(it, kind)).collect::<Result<Vec<_>, _>>();
        let session = asked.session.as_ref().map(|session| each(session.items(), PolicyKind::Session));
        Ok(Self {
            identity: each(&asked.identity, PolicyKind::Identity)?,
            boundary: one(&asked.boundary, PolicyKind::Boundary)?,
            session: session.transpose()?,
            resource: match &asked.trust {
                Some(_) => one(&asked.trust, PolicyKind::Trust)?,
                None => one(&asked.resource_policy, PolicyKind::Resource)?,
            },
        })
    }

    fn policies(&self) -> Policies<'_> {
        Policies {
            identity: &self.identity,
            boundary: self.boundary.as_deref(),
            session: self.session.as_deref(),
            resource: self.resource.as_deref(),
        }
    }

    fn verdict(&self, decision: AccessDecision) -> Verdict<'_> {
        let (decision, reason) = match decision {
            AccessDecision::Allowed(reason) => ("allowed", reason),
            AccessDecision::ExplicitDeny(reason) | AccessDecision::TooCostly(reason) => ("explicitDeny", Some(reason)),
            AccessDecision::ImplicitDeny(_) => ("implicitDeny", None),
        };
        let of = |Reason { source, statement }: Reason| {
            let (name, policy) = match source {
                Source::Identity(place) => (format!("identity:{place}"), self.identity.get(place)),
                Source::Boundary => ("boundary".to_owned(), self.boundary.as_ref()),
                Source::Session(place) => ("session".to_owned(), self.session.as_ref().and_then(|it| it.get(place))),
                Source::Resource => ("resource".to_owned(), self.resource.as_ref()),
            };
            (name, policy.and_then(|policy| policy.sid(statement)))
        };
        let (policy, sid) = reason.map(of).unzip();
        Verdict { decision, policy, statement: reason.map(|it| it.statement), sid: sid.flatten() }
    }
}

impl AskedPrincipal {
    fn read(self) -> Result<Principal, String> {
        let kind = match &*self.kind {
            "anonymous" => return Ok(Principal::anonymous()),
            "root" => Kind::Root,
            "user" => Kind::User,
            "role" => Kind::Role,
            "service" => Kind::Service,
            "federated" => Kind::Federated,
            other => return Err(format!("{other} is not a kind of principal")),
        };
        let (account, arn) = (self.account.unwrap_or_default(), self.arn.unwrap_or_default());
        Ok(Principal {
            identity_arn: self.identity.unwrap_or_else(|| arn.clone()),
            unique_id: self.id,
            tags: self.tags.into_iter().collect(),
            issued: self.issued,
            provider: self.provider,
            ..Principal::new(kind, account, arn, self.name)
        })
    }
}

/// Keys in lower case.
struct Given(HashMap<String, Vec<String>>);

impl Context for Given {
    fn visit(&self, key: &str, each: &mut dyn FnMut(&str)) {
        self.0.get(key).into_iter().flatten().for_each(|value| each(value));
    }
}
