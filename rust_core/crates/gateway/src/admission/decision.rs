//! The decision on one action, whichever way its request came: by the policies of the sender, the policy of the bucket and
//! its public access block. Root may do everything in the store; nothing is looked up for it.
//!
//! A refusal names what was asked and what would have to allow it. It says the same whether or not bucket, object and
//! version exist, unless the sender's own policies allow the action.

use std::fmt;
use std::sync::Arc;

use crate::admission::circumstances::Circumstances;
use crate::admission::identities::{Identities, Principal};
use crate::admission::verdicts::{Verdict, kind_of};
use crate::gateway::Gateway;
use orcas_access::{Decision, Missing, Policies, Policy, Reason, Request, Source, decide};
use orcas_s3::documents::{BucketPolicy, PublicAccessBlock};
use orcas_s3::headers::bucket_arn;
use orcas_s3::{ErrorCode, Operation, S3Error};

/// What an action is to be done to, by name: it need not exist.
#[derive(Clone, Copy, Debug)]
pub enum Resource<'a> {
    /// The buckets of the principal.
    Service,
    Bucket(&'a str),
    Object {
        bucket: &'a str,
        key: &'a [u8],
    },
}

impl<'a> Resource<'a> {
    fn bucket(&self) -> Option<&'a str> {
        match self {
            Self::Service => None,
            Self::Bucket(bucket) | Self::Object { bucket, .. } => Some(bucket),
        }
    }

    /// As an Amazon Resource Name.
    fn arn(&self) -> Vec<u8> {
        match self {
            Self::Service => b"arn:aws:s3:::*".to_vec(),
            Self::Bucket(bucket) => bucket_arn(bucket).into_bytes(),
            Self::Object { bucket, key } => [bucket_arn(bucket).as_bytes(), b"/", key].concat(),
        }
    }
}

/// As an Amazon Resource Name.
impl fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.arn()))
    }
}

/// What the store says of a resource, as far as a decision may depend on it. Without them, nothing was looked at yet.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The resource is read as a page of a website that is open to everybody.
    pub is_published: bool,
}

impl Facts {
    pub const UNKNOWN: Self = Self { is_published: false };
}

/// Who wants to do what to what.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    pub principal: &'a Principal,
    pub action: &'static str,
    pub resource: Resource<'a>,
    pub facts: Facts,
}

impl Gateway {
    /// Decides on an action.
    ///
    /// # Errors
    /// `AccessDenied`
    pub fn decide(
        &self,
        identities: &Identities,
        question: &Question<'_>,
        circumstances: &Circumstances<'_>,
    ) -> Result<(), S3Error> {
        if question.principal.is_root { Ok(()) } else { self.judge(identities, question, circumstances) }
    }

    /// Whoever is not root.
    fn judge(
        &self,
        identities: &Identities,
        question: &Question<'_>,
        circumstances: &Circumstances<'_>,
    ) -> Result<(), S3Error> {
        let Question { principal, action, resource, facts } = *question;
        let identity = &*principal.identity;
        // What does not exist, and what is to be made, is as if it were the sender's own, without a policy.
        let creates = circumstances.operation == Operation::CreateBucket;
        let bucket = resource.bucket().filter(|_| !creates).and_then(|name| self.engine.bucket(name.as_bytes()));
        let owner = bucket.as_ref().and_then(|bucket| std::str::from_utf8(&bucket.owner).ok());
        let resource_account = owner.map_or(&*identity.who.account, |owner| identities.account(owner));
        let document = bucket.as_ref().and_then(|bucket| self.document::<BucketPolicy>(bucket.id));
        let is_own = resource_account == identity.who.account;
        let restricted = !is_own
            && document.as_ref().is_some_and(|it| it.is_public)
            && bucket.as_ref().is_none_or(|bucket| self.public_access_block(bucket.id).restricts_public_buckets);
        let arn = resource.arn();
        let request =
            Request { principal: &identity.who, action, resource: &arn, resource_account, context: circumstances };
        let of_sender = Policies {
            identity: &identity.policies,
            boundary: identity.boundary.as_deref(),
            session: principal.session.as_deref(),
            resource: None,
        };
        let policies = Policies { resource: document.as_ref().map(|it| &it.policy), ..of_sender };
        let mut decision = decide(&request, &policies);
        if restricted && decision.is_allowed() {
            decision = Decision::ImplicitDeny(Missing::Resource);
        }
        if circumstances.is_uncertain.get() {
            let message = "A policy depends on what the body of the request asks for, which is not supported";
            return Err(S3Error::with(ErrorCode::AccessDenied, message));
        }
        let is_read = facts.is_published && action == "s3:GetObject";
        let is_published = is_read && matches!(decision, Decision::ImplicitDeny(_));
        if is_published {
            // By the website of the bucket.
            decision = Decision::Allowed(None);
        }
        let verdict = || Verdict { action, decision, bucket_policy: document.clone(), count: 1 };
        if let Some(verdicts) = circumstances.verdicts.filter(|_| self.access_lines.is_open()) {
            verdicts.add(verdict());
        }
        if decision.is_allowed() {
            return Ok(());
        }
        let private = Some(verdict().words(principal).into());
        if principal.is_anonymous() {
            return Err(S3Error { private, ..ErrorCode::AccessDenied.into() });
        }
        // Whose own policies do not allow it does not learn what the bucket's policy says, nor that there is a bucket.
        let own = decide(&Request { resource_account: &identity.who.account, ..request }, &of_sender);
        let told = if own.is_allowed() { decision } else { own };
        Err(S3Error { private, ..S3Error::with(ErrorCode::AccessDenied, self.refusal(question, told)) })
    }

    /// The public access block of a bucket; without a document that of a new bucket.
    pub fn public_access_block(&self, bucket: orcas_record::BucketId) -> Arc<PublicAccessBlock> {
        self.document(bucket).unwrap_or_else(|| Arc::new(PublicAccessBlock::EVERYTHING))
    }

    fn refusal(&self, question: &Question<'_>, decision: Decision) -> String {
        let Question { principal, action, resource, .. } = question;
        let why = match decision {
            Decision::ExplicitDeny(Reason { source, .. }) => match source {
                Source::Identity(_) => "with an explicit deny in an identity-based policy".to_owned(),
                Source::Boundary => "with an explicit deny in a permissions boundary".to_owned(),
                Source::Session => "with an explicit deny in a session policy".to_owned(),
                Source::Resource => "with an explicit deny in a resource-based policy".to_owned(),
            },
            Decision::ImplicitDeny(missing) => {
                format!("because no {} allows the {action} action", kind_of(missing))
            }
            Decision::Allowed(_) => String::new(),
        };
        let statement = self.options.dev.then(|| statement_of(principal, decision)).flatten();
        let statement = statement.map(|it| format!(" ({it})")).unwrap_or_default();
        let arn = &principal.identity.who.arn;
        format!("User: {arn} is not authorized to perform: {action} on resource: \"{resource}\" {why}{statement}")
    }
}

/// In development: the statement that denies, if it is in one of the sender's own policies.
fn statement_of(principal: &Principal, decision: Decision) -> Option<String> {
    let Decision::ExplicitDeny(Reason { source, statement }) = decision else { return None };
    let identity = &principal.identity;
    let (name, policy): (&str, Option<&Policy>) = match source {
        Source::Identity(place) => (identity.policy_id(place)?, identity.policies.get(place).map(|it| &**it)),
        Source::Boundary => ("the boundary", identity.boundary.as_deref()),
        Source::Session => ("the session policy", principal.session.as_deref()),
        Source::Resource => ("the bucket policy", None),
    };
    let sid = policy.and_then(|policy| policy.sid(statement)).map(|sid| format!(" {sid}")).unwrap_or_default();
    Some(format!("statement {}{sid} of {name}", statement + 1))
}
