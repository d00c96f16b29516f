//! The access decision on one action, whichever way its request came: by the policies of the sender, the policy of the
//! bucket, its public access block and its access control lists, and by whether it is a website. Root may do everything in the store; nothing is looked up for it.
//!
//! A refusal names what was asked and what would have to allow it. It says the same whether or not bucket, object and
//! version exist, unless the sender's own policies allow the action.

use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::access_control::AccessControl;
use crate::acls::ByAcl;
use crate::circumstances::Circumstances;
use crate::decision_log::{LoggedDecision, kind_of};
use crate::documents::{disables_acls, document};
use crate::options::PublicAccess;
use crate::senders::identities::{Identities, Requester};
use orcas_access::{AccessDecision, Context, Missing, Policies, Policy, Reason, Request, Source, evaluate_within};
use orcas_bodies::problem::Problem;
use orcas_record::{Bucket, Version};
use orcas_s3::documents::{BucketPolicy, PublicAccessBlock};
use orcas_s3::headers::bucket_arn;
use orcas_s3::versions::{VersionName, version_id};
use orcas_s3::{ErrorCode, Operation, S3Error};

/// What an action is to be done to, by name: it need not exist.
#[derive(Clone, Copy, Debug)]
pub enum Resource<'a> {
    /// The buckets of the requester.
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

    /// The resource as an Amazon Resource Name.
    fn arn(&self) -> Vec<u8> {
        match self {
            Self::Service => b"arn:aws:s3:::*".to_vec(),
            Self::Bucket(bucket) => bucket_arn(bucket).into_bytes(),
            Self::Object { bucket, key } => [bucket_arn(bucket).as_bytes(), b"/", key].concat(),
        }
    }
}

/// The resource as an Amazon Resource Name.
impl fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.arn()))
    }
}

/// What the store says of a resource, as far as an access decision may depend on it. Without them, nothing was looked
/// at yet.
#[derive(Clone, Copy, Debug)]
pub struct ResourceFacts {
    /// The resource is read as a page of a website that is open to everybody.
    pub is_published: bool,
}

impl ResourceFacts {
    pub const UNKNOWN: Self = Self { is_published: false };
}

/// A question: who wants to do what to what.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    pub requester: &'a Requester,
    pub action: &'static str,
    pub resource: Resource<'a>,
    pub facts: ResourceFacts,
}

/// The circumstances of a request, and what the store has of its resource, which is looked up if a policy or an access
/// control list depends on it. Where memory does not have it, a worker reads the index; any other thread postpones the
/// decision, and what it decides is a denial.
struct Found<'a> {
    access: &'a AccessControl,
    bucket: Option<&'a Bucket>,
    resource: Resource<'a>,
    circumstances: &'a Circumstances<'a>,
    version: OnceCell<Result<Option<Version>, S3Error>>,
}

impl Found<'_> {
    /// The version that the request is about, unless it is a delete marker.
    fn version(&self) -> Result<Option<&Version>, S3Error> {
        let find = || {
            let (Some(bucket), Resource::Object { key, .. }) = (self.bucket, self.resource) else { return Ok(None) };
            let name =
                self.circumstances.version.map(|id| VersionName::parse("versionId", id.as_bytes())).transpose()?;
            let key = Bytes::copy_from_slice(key);
            let (engine, circumstances) = (&self.access.engine, self.circumstances);
            let at_hand = if name.is_none() { engine.try_object_in(bucket, &key) } else { None };
            let found = match (at_hand, name) {
                (Some(found), _) => Ok(found),
                (None, _) if circumstances.supposed.is_none() && !self.access.pool.runs_this_thread() => {
                    circumstances.is_postponed.set(true);
                    return Err(ErrorCode::AccessDenied.into());
                }
                (None, None) => engine.object_in(bucket, &key),
                (None, Some(name)) => engine.version_in(bucket, &key, version_id(name)),
            };
            let found = found.map_err(|error| Problem::from(error).error)?;
            Ok(found.map(|found| found.object.version.clone()).filter(|version| !version.delete_marker))
        };
        self.version.get_or_init(find).as_ref().map(Option::as_ref).map_err(Clone::clone)
    }
}

impl Context for Found<'_> {
    fn visit(&self, key: &str, each: &mut dyn FnMut(&str)) {
        let Some(name) = key.strip_prefix("s3:existingobjecttag/") else { return self.circumstances.visit(key, each) };
        match self.version() {
            Ok(version) => {
                for (tag, value) in version.into_iter().flat_map(|version| &version.attributes.tags) {
                    if tag.eq_ignore_ascii_case(name.as_bytes()) {
                        each(&String::from_utf8_lossy(value));
                    }
                }
            }
            // What cannot be read must not be authorized.
            Err(_) => self.circumstances.is_uncertain.set(true),
        }
    }
}

/// What decides beside the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    AccessControlList,
    PublicAccessBlock,
    Website,
}

/// An access decision, and what it follows from.
pub struct Decided {
    pub decision: AccessDecision,
    /// If no policy alone decides.
    pub beside: Option<Beside>,
    pub bucket_policy: Option<Arc<BucketPolicy>>,
    /// The decision of the sender's own policies alone, if it is a denial.
    pub own: Option<AccessDecision>,
    /// The bucket belongs to the account of the sender, or there is none.
    pub is_own: bool,
}

impl Requester {
    /// The sender's own policies.
    pub(super) fn policies(&self) -> Policies<'_> {
        Policies {
            identity: &self.identity.policies,
            boundary: self.identity.boundary.as_deref(),
            session: self.session.as_deref(),
            resource: None,
        }
    }

    /// The decision of its own policies on what belongs to its own account.
    fn own_decision(&self, action: &str, resource: &[u8], found: &Found<'_>) -> AccessDecision {
        let principal = &self.identity.principal;
        let request = Request { principal, action, resource, resource_account: &principal.account, context: found };
        evaluate_within(&request, &self.policies(), found.circumstances.steps)
    }
}

/// An action on which access control lists have a say.
struct AskedOfAcl<'a> {
    bucket: &'a Arc<Bucket>,
    question: &'a Question<'a>,
    found: &'a Found<'a>,
    /// The bucket belongs to the account of the sender.
    is_own: bool,
    /// The decision of the policies.
    decision: &'a AccessDecision,
}

impl<'a> Question<'a> {
    /// The bucket of its resource.
    fn of_bucket(&self) -> Resource<'a> {
        self.resource.bucket().map_or(Resource::Service, Resource::Bucket)
    }
}

impl AccessControl {
    /// Whether an action is allowed.
    ///
    /// # Errors
    /// `AccessDenied`
    pub fn authorize_action(
        &self,
        identities: &Identities,
        question: &Question<'_>,
        circumstances: &Circumstances<'_>,
    ) -> Result<(), S3Error> {
        if question.requester.is_root { Ok(()) } else { self.judge(identities, question, circumstances) }
    }

    /// The decision on whoever is not root.
    ///
    /// # Errors
    /// `AccessDenied` if it cannot be made; `NoSuchKey` or `NoSuchVersion` for whoever may know what is missing.
    pub fn decide(
        &self,
        identities: &Identities,
        question: &Question<'_>,
        circumstances: &Circumstances<'_>,
    ) -> Result<Decided, S3Error> {
        let Question { requester, action, resource, facts } = *question;
        let identity = &*requester.identity;
        // What does not exist, and what is to be made, is as if it were the sender's own, without a policy.
        let creates = circumstances.operation == Operation::CreateBucket;
        let bucket = resource.bucket().filter(|_| !creates).and_then(|name| self.engine.bucket(name.as_bytes()));
        let owner = bucket.as_ref().and_then(|bucket| std::str::from_utf8(&bucket.owner).ok());
        let resource_account = owner.map_or(&*identity.principal.account, |owner| identities.account(owner));
        let document = match circumstances.supposed.filter(|supposed| supposed.replaces_policy) {
            Some(supposed) => supposed.bucket_policy.clone(),
            None => bucket.as_ref().and_then(|bucket| document::<BucketPolicy>(&self.engine, bucket.id)),
        };
        let is_own = resource_account == identity.principal.account;
        let restricted = !is_own
            && document.as_ref().is_some_and(|it| it.is_public)
            && bucket.as_ref().is_none_or(|bucket| self.public_access_block(bucket.id).restricts_public_buckets);
        let arn = resource.arn();
        let found =
            Found { access: self, bucket: bucket.as_deref(), resource, circumstances, version: OnceCell::new() };
        let request =
            Request { principal: &identity.principal, action, resource: &arn, resource_account, context: &found };
        let of_sender = requester.policies();
        let policies = Policies { resource: document.as_ref().map(|it| &it.policy), ..of_sender };
        let mut decision = evaluate_within(&request, &policies, circumstances.steps);
        let mut beside = None;
        if restricted && decision.is_allowed() {
            decision = AccessDecision::ImplicitDeny(Missing::Resource);
            beside = Some(Beside::PublicAccessBlock);
        }
        if circumstances.is_uncertain.get() {
            let message = "A policy depends on what the body of the request asks for, which is not supported";
            return Err(S3Error::with(ErrorCode::AccessDenied, message));
        }
        let own_allows = || requester.own_decision(action, &arn, &found).is_allowed();
        // Nor do lists let another account into what is restricted to its own.
        if let (Some(bucket), false) = (&bucket, restricted || decision.is_final()) {
            let asked = AskedOfAcl { bucket, question, is_own, decision: &decision, found: &found };
            let by_list = self.ask_acl(identities, &asked, circumstances, &own_allows)?;
            if let Some(allows) = by_list {
                let denied = AccessDecision::ImplicitDeny(Missing::Resource);
                decision = if allows { AccessDecision::Allowed(None) } else { denied };
                beside = Some(Beside::AccessControlList);
            }
        }
        let is_read = facts.is_published && action == "s3:GetObject";
        if is_read && matches!(decision, AccessDecision::ImplicitDeny(_)) {
            // By the website of the bucket.
            decision = AccessDecision::Allowed(None);
            beside = Some(Beside::Website);
        }
        let own = (!decision.is_allowed()).then(|| requester.own_decision(action, &arn, &found));
        Ok(Decided { decision, beside, bucket_policy: document, own, is_own })
    }

    /// Whoever is not root.
    fn judge(
        &self,
        identities: &Identities,
        question: &Question<'_>,
        circumstances: &Circumstances<'_>,
    ) -> Result<(), S3Error> {
        let Question { requester, action, resource, .. } = *question;
        let decided = self.decide(identities, question, circumstances)?;
        let Decided { decision, own, bucket_policy, is_own, .. } = decided;
        let logged = || LoggedDecision { action, decision, bucket_policy: bucket_policy.clone(), count: 1 };
        if let Some(decisions) = circumstances.decisions.filter(|_| self.access_lines.is_open()) {
            decisions.add(logged());
        }
        if decision.is_allowed() {
            return Ok(());
        }
        let mut words = logged().words(requester);
        if !is_own {
            words.push_str(self.blocked_by_operator());
        }
        let private = Some(words.into());
        if requester.is_anonymous() {
            return Err(S3Error { private, ..ErrorCode::AccessDenied.into() });
        }
        // Whose own policies do not allow it does not learn what the bucket's policy says, nor that there is a bucket.
        let shown = own.filter(|own| !own.is_allowed()).unwrap_or(decision);
        let refusal = self.refusal(requester, (action, &resource), shown);
        Err(S3Error { private, ..S3Error::with(ErrorCode::AccessDenied, refusal) })
    }

    /// What access control lists make of an access decision by policies that is no explicit denial: they allow it, they do
    /// not although policies do, or they have no say.
    fn ask_acl(
        &self,
        identities: &Identities,
        asked: &AskedOfAcl<'_>,
        circumstances: &Circumstances<'_>,
        own_allows: &dyn Fn() -> bool,
    ) -> Result<Option<bool>, S3Error> {
        let AskedOfAcl { bucket, question, is_own, decision, found } = *asked;
        let Question { requester, action, resource, .. } = *question;
        let changes_list = circumstances.operation == Operation::PutObjectAcl;
        let Some(by) = ByAcl::of(action, changes_list).filter(|_| !disables_acls(&self.engine, bucket.id)) else {
            return Ok(None);
        };
        let signed = !requester.is_anonymous();
        // Whether grants to everybody count, and those to the account of the sender.
        let counts = || {
            let unblocked = !self.public_access_block(bucket.id).ignores_public_acls;
            // An account that is given something lets its users have it by their own policies.
            let passed_on = signed && own_allows();
            (unblocked && (!signed || is_own || passed_on), passed_on)
        };
        let counting = (!decision.is_allowed()).then(counts);
        if counting == Some((false, false)) {
            return Ok(None);
        }
        let (acl, wanted) = match (by, resource) {
            // The object does not matter.
            (ByAcl::Bucket(_), _) if decision.is_allowed() => return Ok(None),
            (ByAcl::Bucket(wanted), _) => (self.acl_of_bucket(bucket), wanted),
            (ByAcl::Object(wanted), Resource::Object { key, .. }) => match found.version() {
                Ok(Some(version)) => (Arc::new(self.acl_of(bucket, &version.attributes)), wanted),
                Ok(None) if decision.is_allowed() => return Ok(None),
                Err(error) if decision.is_allowed() => return Err(error),
                // Whoever may list the bucket may know that there is nothing. It is not allowed: what comes there before it
                // is carried out may be another's.
                missing => {
                    let (action, code) = match circumstances.version {
                        None => ("s3:ListBucket", ErrorCode::NoSuchKey),
                        Some(_) => ("s3:ListBucketVersions", ErrorCode::NoSuchVersion),
                    };
                    let list = Question { action, resource: question.of_bucket(), ..*question };
                    if self.judge(identities, &list, circumstances).is_err() {
                        return Ok(None);
                    }
                    let error = S3Error::new(code).field("Key", key.to_vec());
                    let version = circumstances.version;
                    let error = version.into_iter().fold(error, |error, id| error.field("VersionId", id.to_owned()));
                    return Err(missing.err().unwrap_or(error));
                }
            },
            (ByAcl::Object(_), _) => return Ok(None),
        };
        let is_bucket_owners = acl.owner.as_bytes() == bucket.owner;
        if decision.is_allowed() && is_bucket_owners {
            return Ok(None);
        }
        let (to_everybody, by_name) = counting.unwrap_or_else(counts);
        let given = to_everybody && acl.gives_everybody(wanted, signed)
            || by_name && acl.gives_account(&requester.owner, wanted);
        // The policies of the bucket's account do not reach what belongs to another one.
        Ok(if given || decision.is_allowed() { Some(given) } else { None })
    }

    /// The public access block of a bucket; without a document that of a new bucket.
    pub fn public_access_block(&self, bucket: orcas_record::BucketId) -> Arc<PublicAccessBlock> {
        if self.options.public_access == PublicAccess::Blocked {
            return Arc::new(PublicAccessBlock::EVERYTHING);
        }
        document(&self.engine, bucket).unwrap_or_else(|| Arc::new(PublicAccessBlock::EVERYTHING))
    }

    /// What an operator adds to a refusal who lets nobody in from outside the account of a bucket.
    pub fn blocked_by_operator(&self) -> &'static str {
        if self.options.public_access == PublicAccess::Blocked { ", as ORCAS_PUBLIC_ACCESS is blocked" } else { "" }
    }

    /// Why an action is refused, for who wanted it: by which kind of policy.
    pub(super) fn refusal(
        &self,
        requester: &Requester,
        (action, resource): (&str, &dyn fmt::Display),
        decision: AccessDecision,
    ) -> String {
        let why = match decision {
            AccessDecision::ExplicitDeny(Reason { source, .. }) => match source {
                Source::Identity(_) => "with an explicit deny in an identity-based policy".to_owned(),
                Source::Boundary => "with an explicit deny in a permissions boundary".to_owned(),
                Source::Session(_) => "with an explicit deny in a session policy".to_owned(),
                Source::Resource => "with an explicit deny in a resource-based policy".to_owned(),
            },
            AccessDecision::ImplicitDeny(missing) => {
                format!("because no {} allows the {action} action", kind_of(missing))
            }
            AccessDecision::TooCostly(_) => "because the policies that apply take too much to compare".to_owned(),
            AccessDecision::Allowed(_) => String::new(),
        };
        let statement = self.options.dev.then(|| statement_of(requester, decision)).flatten();
        let statement = statement.map(|it| format!(" ({it})")).unwrap_or_default();
        let arn = &requester.identity.principal.arn;
        format!("User: {arn} is not authorized to perform: {action} on resource: \"{resource}\" {why}{statement}")
    }
}

/// The statement that denies, if it is in one of the sender's own policies: shown in development.
fn statement_of(requester: &Requester, decision: AccessDecision) -> Option<String> {
    let AccessDecision::ExplicitDeny(Reason { source, statement }) = decision else { return None };
    let identity = &requester.identity;
    let (name, policy): (&str, Option<&Policy>) = match source {
        Source::Identity(place) => (identity.policy_id(place)?, identity.policies.get(place).map(|it| &**it)),
        Source::Boundary => ("the boundary", identity.boundary.as_deref()),
        Source::Session(place) => ("the session policy", requester.session.as_ref()?.get(place).map(|it| &**it)),
        Source::Resource => ("the bucket policy", None),
    };
    let sid = policy.and_then(|policy| policy.sid(statement)).map(|sid| format!(" {sid}")).unwrap_or_default();
    Some(format!("statement {}{sid} of {name}", statement + 1))
}
