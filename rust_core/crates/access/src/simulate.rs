//! An access decision as JSON: what applies to a request, and what follows. For IAM, which asks about rows of the
//! control plane, for tests, and for people who ask why.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::authorize::{AccessDecision, Policies, Reason, Source, authorize};
use crate::context::{Context, Request};
use crate::error::PolicyKind;
use crate::policy::Policy;
use crate::principals::{Kind, Principal};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    principal: AskedPrincipal,
    #[serde(default)]
    identity: Vec<Value>,
    #[serde(default)]
    boundary: Option<Value>,
    #[serde(default)]
    session: Option<Session>,
    #[serde(default)]
    resource_policy: Option<Value>,
    /// The policy of a role, in place of that of a resource.
    #[serde(default)]
    trust: Option<Value>,
    /// That of the principal, if it is not said.
    #[serde(default)]
    resource_account: Option<String>,
    action: String,
    resource: String,
    #[serde(default)]
    context: HashMap<String, Vec<String>>,
}

/// One policy, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Session {
    Several(Vec<Value>),
    One(Value),
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
    /// Of a session: the ARN of the user or role that it is of.
    #[serde(default)]
    identity: Option<String>,
    #[serde(default)]
    issued: String,
    #[serde(default)]
    provider: String,
}

#[derive(Serialize)]
struct Told<'a> {
    decision: &'static str,
    policy: Option<String>,
    statement: Option<usize>,
    sid: Option<&'a str>,
}

/// The access decision on a request that is written as JSON.
///
/// # Errors
/// A sentence that says what of it cannot be read.
pub fn simulate(request: &str) -> Result<String, String> {
    let asked: Asked = serde_json::from_str(request).map_err(|error| error.to_string())?;
    let read = |document: &Value, kind| {
        Policy::parse(&document.to_string(), kind, None).map(Arc::new).map_err(|error| error.to_string())
    };
    let one = |document: &Option<Value>, kind| document.as_ref().map(|document| read(document, kind)).transpose();
    let identity = asked.identity.iter().map(|it| read(it, PolicyKind::Identity)).collect::<Result<Vec<_>, _>>()?;
    let boundary = one(&asked.boundary, PolicyKind::Boundary)?;
    let session = asked.session.map(|session| {
        let documents = match session {
            Session::Several(documents) => documents,
            Session::One(document) => vec![document],
        };
        documents.iter().map(|document| read(document, PolicyKind::Session)).collect::<Result<Vec<_>, _>>()
    });
    let session = session.transpose()?;
    let resource = match &asked.trust {
        Some(_) => one(&asked.trust, PolicyKind::Trust)?,
        None => one(&asked.resource_policy, PolicyKind::Resource)?,
    };
    let mut principal = asked.principal.read()?;
    let mut context: HashMap<_, _> =
        asked.context.into_iter().map(|(key, values)| (key.to_ascii_lowercase(), values)).collect();
    // Whoever simulates a session may say when it began as they say the rest.
    if let Some(issued) = context.remove("aws:tokenissuetime").and_then(|values| values.into_iter().next()) {
        principal.issued = issued;
    }
    let context = Given(context);
    let request = Request {
        principal: &principal,
        action: &asked.action,
        resource: asked.resource.as_bytes(),
        resource_account: asked.resource_account.as_deref().unwrap_or(&principal.account),
        context: &context,
    };
    let policies = Policies {
        identity: &identity,
        boundary: boundary.as_deref(),
        session: session.as_deref(),
        resource: resource.as_deref(),
    };
    let (decision, reason) = match authorize(&request, &policies) {
        AccessDecision::Allowed(reason) => ("allowed", reason),
        AccessDecision::ExplicitDeny(reason) => ("explicitDeny", Some(reason)),
        AccessDecision::ImplicitDeny(_) => ("implicitDeny", None),
    };
    let of = |Reason { source, statement }: Reason| match source {
        Source::Identity(place) => (format!("identity:{place}"), identity.get(place).and_then(|it| it.sid(statement))),
        Source::Boundary => ("boundary".to_owned(), boundary.as_ref().and_then(|it| it.sid(statement))),
        Source::Session(place) => {
            let policy = session.as_ref().and_then(|it| it.get(place));
            ("session".to_owned(), policy.and_then(|it| it.sid(statement)))
        }
        Source::Resource => ("resource".to_owned(), resource.as_ref().and_then(|it| it.sid(statement))),
    };
    let (policy, sid) = reason.map(of).unzip();
    let told = Told { decision, policy, statement: reason.map(|it| it.statement), sid: sid.flatten() };
    serde_json::to_string(&told).map_err(|error| error.to_string())
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
