//! What would be decided on a request that nobody has sent: by the function that decides on requests, with the policies, the
//! boundary, the bucket's policy, its lists and its public access block as they are.
//!
//! Everybody may ask what it may do itself. Whoever asks about others needs an action for that, and learns of a bucket of
//! another account no more than a refusal would tell.

use std::collections::HashMap;
use std::sync::Arc;

use crate::access_control::AccessControl;
use crate::access_decision::{Beside, Decided, Question, Resource, ResourceFacts};
use crate::circumstances::{Circumstances, Supposed};
use crate::control::admin::{AdminCaller, account_of, decide_by_own};
use crate::decision_log::{LoggedDecision, kind_of};
use crate::documents::document;
use crate::senders::identities::{Identities, Identity, Requester};
use orcas_access::{AccessDecision, Kind, Missing, Policy, PolicyKind, Principal, ResourceType, S3_ACTIONS};
use orcas_base::sync::Loaded;
use orcas_http::{Headers, Query, timestamp};
use orcas_s3::documents::BucketPolicy;
use orcas_s3::website::Website;
use orcas_s3::{ErrorCode, Operation, S3Error};

/// The action of whoever asks what others may do.
const ASK: &str = "orcas:SimulateAccess";
/// Actions of requests to S3 beside those of AWS.
const MORE_ACTIONS: &[(&str, ResourceType)] =
    &[("orcas:InstantUpload", ResourceType::Object), ("orcas:PutBucketSettings", ResourceType::Bucket)];
/// The name of senders that sign nothing.
const ANONYMOUS: &str = "anonymous";
/// Identities that one answer has looked at.
const LOOKED_MAX: usize = 500;

/// A question: an action, and a resource as an ARN, `BUCKET` or `BUCKET/KEY`.
pub struct AccessQuestion {
    pub action: String,
    pub resource: String,
    /// Keys of conditions.
    pub context: HashMap<String, Vec<String>>,
    /// The policy in place of that of the bucket. Empty: as if it had none.
    pub bucket_policy: Option<String>,
}

/// An access decision, for people.
#[derive(Debug)]
pub struct Explained {
    pub is_allowed: bool,
    /// A statement denies.
    pub is_explicit: bool,
    /// The reason for the decision, if no statement decides.
    pub why: String,
    /// The id of the policy that decides, with the number of the statement from 1, and its name.
    pub statement: Option<(String, usize, Option<String>)>,
    /// Keys of conditions that policies have asked for, and that the question did not give: they are those of whoever asks,
    /// or none.
    pub missing: Vec<String>,
}

/// Senders that may do something, by name, and the name after which the next answer begins.
pub type WhoMay = (Vec<(String, Explained)>, Option<String>);

/// A caller with questions, and the identities and the access control that answer them.
pub struct Asking<'a> {
    caller: &'a AdminCaller,
    access: &'a AccessControl,
    identities: Loaded<Identities>,
}

impl AdminCaller {
    /// A question that the policies of this moment answer.
    pub fn asks<'a>(&'a self, access: &'a AccessControl) -> Asking<'a> {
        Asking { caller: self, access, identities: access.identities() }
    }
}

impl Asking<'_> {
    /// Whether the caller may do something.
    pub fn may(&self, asked: &AccessQuestion) -> Result<bool, S3Error> {
        Ok(self.answer(&self.caller.requester, asked)?.is_allowed)
    }

    /// What is decided on somebody else, named as a user of the account of the caller, `role/NAME`, an ARN, an access key, or
    /// `anonymous`.
    ///
    /// # Errors
    /// `AccessDenied`, and `InvalidArgument` for what nobody and nothing is called.
    pub fn explain(&self, who: &str, asked: &AccessQuestion) -> Result<Explained, S3Error> {
        let found = self.find(who);
        let is_hidden = |it: &Requester| !self.sees_all() && it.identity.principal.account != self.account();
        let subject = match found.as_deref().filter(|it| !it.is_anonymous() && !is_hidden(it)) {
            Some(found) => found.identity.principal.identity_arn.clone(),
            None if who == ANONYMOUS => arn_of(&asked.resource),
            None => who.to_owned(),
        };
        self.may_ask(&subject)?;
        let found = found.filter(|it| it.is_anonymous() || !is_hidden(it));
        let message = "Nobody is called that: name a user, role/NAME, an ARN, an active access key, or anonymous";
        let found = found.ok_or_else(|| S3Error::argument(message, "who", who.as_bytes()))?;
        self.answer(&found, asked)
    }

    /// Who may do something: those whose names come after `after`, as far as `limit` are found or enough were looked at, and
    /// the name after which the next answer begins. The public comes first.
    ///
    /// # Errors
    /// As of [`Self::explain`].
    pub fn who_may(&self, asked: &AccessQuestion, after: &str, limit: usize) -> Result<WhoMay, S3Error> {
        self.may_ask(&arn_of(&asked.resource))?;
        let mut found = Vec::new();
        let mut ask = |name: &str, requester: &Requester| -> Result<bool, S3Error> {
            let answer = self.answer(requester, asked)?;
            if answer.is_allowed {
                found.push((name.to_owned(), answer));
            }
            Ok(found.len() >= limit)
        };
        if let Some(nobody) = self.identities.requester("").filter(|_| after.is_empty()) {
            ask(ANONYMOUS, nobody)?;
        }
        let all = self.sees_all();
        let mut arns: Vec<&str> = self
            .identities
            .all_identities()
            .filter(|(arn, it)| *arn > after && (all || it.principal.account == self.account()))
            .map(|(arn, _)| arn)
            .collect();
        arns.sort_unstable();
        for (place, arn) in arns.iter().enumerate() {
            let Some(requester) = self.of_arn(arn) else { continue };
            let is_full = ask(arn, &requester)? || place + 1 >= LOOKED_MAX;
            if is_full && place + 1 < arns.len() {
                return Ok((found, Some((*arn).to_owned())));
            }
        }
        Ok((found, None))
    }

    fn account(&self) -> &str {
        &self.caller.requester.identity.principal.account
    }

    /// Whether the caller is of the first account, to which the server belongs.
    fn sees_all(&self) -> bool {
        self.account() == self.identities.account(self.identities.root())
    }

    fn may_ask(&self, subject: &str) -> Result<(), S3Error> {
        let decision = self.caller.kept.with(self.access, None, None, |circumstances| {
            // In the first account, that of the server; in another one, its own identities and buckets.
            let own = || account_of(self.access, &self.identities, subject, &self.caller.requester);
            let account = if self.sees_all() { self.account().to_owned() } else { own() };
            decide_by_own(&self.caller.requester, ASK, subject, &account, circumstances)
        });
        self.access.refused_unless(decision.is_allowed(), &self.caller.requester, (ASK, subject), decision)
    }

    fn find(&self, who: &str) -> Option<Arc<Requester>> {
        if who == ANONYMOUS {
            return self.identities.requester("").cloned();
        }
        if who.starts_with("arn:") {
            return self.of_arn(who);
        }
        let (kind, name) = who.strip_prefix("role/").map_or((Kind::User, who), |name| (Kind::Role, name));
        let arn = self.identities.named(kind, self.account(), name).map(|it| it.principal.arn.clone());
        match arn {
            Some(arn) => self.of_arn(&arn),
            None => self.identities.requester(who).filter(|it| !it.is_anonymous()).cloned(),
        }
    }

    /// A user, a root user, or a session of a role, which has no policies of its own.
    fn of_arn(&self, arn: &str) -> Option<Arc<Requester>> {
        let session_of = |rest: &str| {
            let (account, rest) = rest.split_once(":assumed-role/")?;
            let (role, name) = rest.split_once('/').filter(|(_, name)| !name.is_empty())?;
            Some((self.identities.named(Kind::Role, account, role)?, name.to_owned()))
        };
        let (of, session) = match arn.strip_prefix("arn:aws:sts::") {
            Some(rest) => session_of(rest)?,
            None => (self.identities.identity_of(arn)?, "session".to_owned()),
        };
        let principal = &of.principal;
        let identity = match principal.kind {
            Kind::Role => Identity {
                principal: Principal {
                    arn: format!("arn:aws:sts::{}:assumed-role/{}/{session}", principal.account, principal.name),
                    unique_id: format!("{}:{session}", principal.unique_id),
                    issued: String::from_utf8_lossy(&timestamp::iso_time(self.access.now_ms())).into_owned(),
                    ..principal.clone()
                },
                ..of.clone()
            },
            _ => of.clone(),
        };
        let owner = principal.canonical_id.clone();
        let is_root = principal.kind == Kind::Root && owner == *self.identities.root();
        // Nobody has signed, so any access key will do.
        Some(Arc::new(Requester::new(owner, "-".to_owned(), is_root, Arc::new(identity))))
    }

    fn answer(&self, requester: &Requester, asked: &AccessQuestion) -> Result<Explained, S3Error> {
        let context = asked.context.iter().map(|(key, values)| (key.to_ascii_lowercase(), values.clone()));
        let mut supposed = Supposed { context: context.collect(), ..Supposed::default() };
        supposed.replaces_policy = asked.bucket_policy.is_some();
        if let Some(text) = asked.bucket_policy.as_ref().filter(|text| !text.trim().is_empty()) {
            let parsed = Policy::parse(text, PolicyKind::Resource, None);
            let policy = parsed.map_err(|error| S3Error::with(ErrorCode::MalformedPolicy, error.to_string()))?;
            supposed.bucket_policy = Some(Arc::new(BucketPolicy { is_public: policy.is_public(), policy }));
        }
        let mut all = S3_ACTIONS.iter().chain(MORE_ACTIONS);
        let of_s3 = all.find(|(name, _)| name.eq_ignore_ascii_case(&asked.action));
        let mut answer = if let Some(known) = of_s3 {
            self.answer_of_s3(requester, (asked, *known), &supposed)?
        } else if asked.action.starts_with("s3:") {
            return Err(S3Error::argument("S3 has no such action", "action", asked.action.as_bytes()));
        } else if asked.action.starts_with("iam:") || asked.action.starts_with("orcas:") {
            let resource = &*asked.resource;
            self.with(&supposed, Operation::ListBuckets, |circumstances| {
                let account = account_of(self.access, &self.identities, resource, requester);
                let decision = decide_by_own(requester, &asked.action, resource, &account, circumstances);
                Explained::new(requester, "", decision, None)
            })
        } else {
            let message = "Only actions of s3, iam and orcas can be asked about, such as s3:GetObject";
            return Err(S3Error::argument(message, "action", asked.action.as_bytes()));
        };
        answer.missing = supposed.missing.into_inner().into_iter().collect();
        Ok(answer)
    }

    fn answer_of_s3(
        &self,
        requester: &Requester,
        (asked, (action, of)): (&AccessQuestion, (&'static str, ResourceType)),
        supposed: &Supposed,
    ) -> Result<Explained, S3Error> {
        let name = asked.resource.strip_prefix("arn:aws:s3:::").unwrap_or(&asked.resource);
        let (bucket, key) = name.split_once('/').map_or((name, None), |(bucket, key)| (bucket, Some(key)));
        let resource = match (of, key.filter(|key| !key.is_empty())) {
            (ResourceType::Account, _) => Resource::Service,
            (ResourceType::Bucket, None) => Resource::Bucket(bucket),
            (ResourceType::Object, Some(key)) => Resource::Object { bucket, key: key.as_bytes() },
            (ResourceType::Bucket, Some(_)) | (ResourceType::Object, None) => {
                let is_object = of == ResourceType::Object;
                let wanted = if is_object { "an object: name BUCKET/KEY" } else { "a bucket: name it alone" };
                let message = format!("{action} is about {wanted}");
                return Err(S3Error::argument(message, "resource", asked.resource.as_bytes()));
            }
        };
        if requester.is_root {
            return Ok(Explained::new(requester, "", AccessDecision::Allowed(None), None));
        }
        let found = self.access.engine.bucket(bucket.as_bytes());
        let blocks = found.as_ref().map(|bucket| self.access.public_access_block(bucket.id));
        let is_website =
            found.as_ref().is_some_and(|bucket| document::<Website>(&self.access.engine, bucket.id).is_some());
        let is_published = requester.is_anonymous()
            && self.access.options.website_host.is_some()
            && is_website
            && blocks.as_ref().is_some_and(|blocks| !blocks.blocks_reads());
        let question = Question { requester, action, resource, facts: ResourceFacts { is_published } };
        let decided = self.with(supposed, operation_of(action), |circumstances| {
            self.access.decide(&self.identities, &question, circumstances)
        });
        let Decided { mut decision, beside, bucket_policy, own, is_own } = match decided {
            Ok(decided) => decided,
            Err(error) => {
                let denied = AccessDecision::ImplicitDeny(Missing::Identity);
                let why = format!("{}.", error.message.trim_end_matches('.'));
                return Ok(Explained { why, ..Explained::new(requester, action, denied, None) });
            }
        };
        // What the bucket says is for its account, and for whoever is let in.
        let owner = found.as_ref().and_then(|bucket| std::str::from_utf8(&bucket.owner).ok());
        let is_callers = owner.is_none_or(|owner| self.identities.account(owner) == self.account());
        let tells = is_callers || self.sees_all();
        if !tells {
            supposed.missing.borrow_mut().clear();
        }
        if let Some(own) = own.filter(|_| !tells) {
            decision = if own.is_allowed() { AccessDecision::ImplicitDeny(Missing::Resource) } else { own };
        }
        let mut answer = Explained::new(requester, action, decision, bucket_policy.filter(|_| tells));
        let blocked = blocks.is_some_and(|it| it.ignores_public_acls || it.restricts_public_buckets);
        answer.why = match beside.filter(|_| tells) {
            Some(Beside::AccessControlList) if answer.is_allowed => "An access control list allows it.".to_owned(),
            Some(Beside::AccessControlList) => {
                "The object belongs to another account, whose access control list does not allow it.".to_owned()
            }
            Some(Beside::Website) => "The website of the bucket lets everybody read it.".to_owned(),
            Some(Beside::PublicAccessBlock) => {
                "The bucket's policy allows it, but its public access block lets nobody in from outside its account."
                    .to_owned()
            }
            None if !answer.is_allowed && !is_own && blocked && tells => {
                format!("{} The public access block of the bucket is on.", answer.why)
            }
            None => answer.why,
        };
        Ok(answer)
    }

    fn with<T>(&self, supposed: &Supposed, operation: Operation, ask: impl FnOnce(&Circumstances<'_>) -> T) -> T {
        let version = supposed.context.get("s3:versionid").and_then(|values| values.first());
        self.caller.kept.with(self.access, version.map(String::as_str), None, |circumstances| {
            ask(&Circumstances {
                supposed: Some(supposed),
                operation,
                headers: &Headers::new(&[]),
                query: &Query::default(),
                is_body_read: true,
                is_uncertain: false.into(),
                ..*circumstances
            })
        })
    }
}

impl Explained {
    fn new(
        requester: &Requester,
        action: &'static str,
        decision: AccessDecision,
        bucket_policy: Option<Arc<BucketPolicy>>,
    ) -> Self {
        let logged = LoggedDecision { action, decision, bucket_policy, count: 1 };
        let line = logged.line(requester);
        let statement = line.policy.zip(line.statement);
        let statement = statement.map(|(policy, number)| (policy.to_owned(), number, line.sid.map(str::to_owned)));
        let why = match decision {
            AccessDecision::Allowed(None) if requester.is_root => "Root may do everything in the store.".to_owned(),
            AccessDecision::Allowed(None) => "The root user of an account may do this in its account.".to_owned(),
            AccessDecision::ImplicitDeny(missing) => format!("No {} allows it.", kind_of(missing)),
            AccessDecision::TooCostly(_) => "The policies take too much to compare, which denies it.".to_owned(),
            AccessDecision::Allowed(Some(_)) | AccessDecision::ExplicitDeny(_) => String::new(),
        };
        let is_explicit = matches!(decision, AccessDecision::ExplicitDeny(_) | AccessDecision::TooCostly(_));
        Self { is_allowed: decision.is_allowed(), is_explicit, why, statement, missing: Vec::new() }
    }
}

/// The operation that an action is named after; else the first one that needs it, or one on which no condition depends.
fn operation_of(action: &str) -> Operation {
    let named = |it: &&Operation| action.strip_prefix("s3:") == Some(it.name());
    let needs = |it: &&Operation| {
        let first = &it.spec().permissions[0];
        [first.action(false), first.action(true)].contains(&action)
    };
    let mut all = Operation::ALL.iter();
    let found = all.clone().find(named).or_else(|| all.find(needs));
    found.copied().unwrap_or(Operation::ListBuckets)
}

fn arn_of(resource: &str) -> String {
    if resource.starts_with("arn:") { resource.to_owned() } else { format!("arn:aws:s3:::{resource}") }
}
