//! Who may use the admin API: root, and for what has an action of its own, such as `orcas:GetLog`, whoever is allowed it by
//! policies. The access decision is that of all requests; it depends on nothing but names, and comes before anything is
//! done. What belongs to the server belongs to the first account, so policies of another one do not reach it.

use std::sync::Arc;

use crate::access_control::AccessControl;
use crate::authenticate::EMPTY_SHA256;
use crate::bounds::rates::admit;
use crate::circumstances::KeptCircumstances;
use crate::ingress::Ingress;
use crate::request_context::{announced, has_body};
use crate::senders::identities::{Identities, Requester};
use crate::senders::sessions::token_of;
use orcas_access::{AccessDecision, Context, Request, evaluate};
use orcas_bodies::problem::Problem;
use orcas_http::{Query, RequestHead};
use orcas_s3::headers::bucket_arn;
use orcas_s3::{ErrorCode, Operation, S3Error};
use orcas_sigv4::{Authenticated, Requirements, SERVICE};

/// The resource of what is about the server as a whole.
pub const SERVER: &str = "arn:aws:orcas:::server";

/// The paths of MinIO's admin API, whose clients name no region.
const ADMIN_OF_MINIO: &[u8] = b"/minio/admin/";

/// The rights that a request to the admin API needs.
#[derive(Clone, Copy, Debug)]
pub enum Needs<'a> {
    /// The root user of the first account, without temporary credentials.
    Root,
    /// A signature: it is about nobody but its sender.
    Signature,
    /// A signature for this service, over a body that was received already if its SHA-256 is there.
    SignatureFor(&'static str, Option<[u8; 32]>),
    /// Permission for an action on the server, or on a bucket.
    Action(&'a str, Option<&'a str>),
}

/// The sender of a request to the admin API.
pub struct AdminCaller {
    pub requester: Arc<Requester>,
    pub(super) kept: KeptCircumstances,
}

impl AccessControl {
    /// Verifies the signature of a request to the admin API, and whether its sender may send it. Unlike S3, it does not need
    /// `x-amz-content-sha256` without a body: curl sends this header since version 8 only.
    ///
    /// # Errors
    /// Those of the signature, `AccessDenied`, and `SlowDown` if the sender has reached its limit.
    pub fn authenticate_admin(
        &self,
        head: &RequestHead<'_>,
        ingress: &Ingress,
        needs: Needs<'_>,
    ) -> Result<(Authenticated, AdminCaller), Problem> {
        let identities = self.identities();
        let (service, received) =
            if let Needs::SignatureFor(service, body) = needs { (service, body) } else { (SERVICE, None) };
        let body = received.or_else(|| (!has_body(&head.headers)).then_some(EMPTY_SHA256));
        let may_lack_region = head.path.starts_with(ADMIN_OF_MINIO);
        let requirements = self.requirements(ingress.time_ms);
        // Tests have any keys for S3, IAM and STS; this API can also stop the server.
        let requirements = Requirements { service, body, may_lack_region, any_signature: false, ..requirements };
        let (authenticated, requester) = self.authenticate(&identities, head, &requirements, ingress.client)?;
        if requester.is_anonymous() {
            return Err(ErrorCode::AccessDenied.into());
        }
        if let Some(limits) = requester.limits.as_ref().filter(|_| !requester.is_root) {
            admit(limits, requirements.now_unix_ms, announced(&head.headers))?;
        }
        // Which one, conditions do not see.
        let (how, operation) = (authenticated.how, Operation::ListBuckets);
        let kept = KeptCircumstances::of_head(ingress, how, operation, &head.headers, Query::default());
        let caller = AdminCaller { requester, kept };
        caller.check(self, &identities, needs, token_of(head).is_some())?;
        Ok((authenticated, caller))
    }
}

impl AdminCaller {
    fn check(
        &self,
        access: &AccessControl,
        identities: &Identities,
        needs: Needs<'_>,
        is_temporary: bool,
    ) -> Result<(), S3Error> {
        let denied = |message: String| Err(S3Error::with(ErrorCode::AccessDenied, message));
        match needs {
            Needs::Signature | Needs::SignatureFor(..) => Ok(()),
            Needs::Action(action, bucket) => self.authorize((access, identities), action, bucket),
            Needs::Root if self.requester.is_root && !is_temporary => Ok(()),
            Needs::Root if is_temporary => {
                denied("This operation of the admin API cannot be used with temporary credentials".to_owned())
            }
            Needs::Root => {
                let name = self.requester.log_name();
                denied(format!("User: {name} is not root, who alone may use this operation of the admin API"))
            }
        }
    }

    /// Whether it may do something to the server, or to a bucket.
    fn authorize(
        &self,
        (access, identities): (&AccessControl, &Identities),
        action: &str,
        bucket: Option<&str>,
    ) -> Result<(), S3Error> {
        let resource = bucket.map_or_else(|| SERVER.to_owned(), bucket_arn);
        let decision = self.kept.with(access, None, None, |circumstances| {
            let account = account_of(access, identities, &resource, &self.requester);
            decide_by_own(&self.requester, action, &resource, &account, circumstances)
        });
        access.refused_unless(decision.is_allowed(), &self.requester, (action, &resource), decision)
    }
}

impl AccessControl {
    /// # Errors
    /// `AccessDenied` unless it is allowed.
    pub(super) fn refused_unless(
        &self,
        is_allowed: bool,
        requester: &Requester,
        (action, resource): (&str, &str),
        decision: AccessDecision,
    ) -> Result<(), S3Error> {
        if is_allowed {
            return Ok(());
        }
        let message = self.refusal(requester, (action, &resource), decision);
        Err(S3Error::with(ErrorCode::AccessDenied, message))
    }
}

/// The access decision on an action that no policy of a resource allows: that of another service than S3.
pub(super) fn decide_by_own(
    requester: &Requester,
    action: &str,
    resource: &str,
    account: &str,
    context: &dyn Context,
) -> AccessDecision {
    if requester.is_root {
        return AccessDecision::Allowed(None);
    }
    let principal = &requester.identity.principal;
    let request = Request { principal, action, resource: resource.as_bytes(), resource_account: account, context };
    evaluate(&request, &requester.policies())
}

/// The account of a resource: of a bucket its owner's, of the server the first one, or the one that its ARN names. What is in
/// none, and a bucket that there is not, is as if it were the requester's own.
pub(super) fn account_of(
    access: &AccessControl,
    identities: &Identities,
    resource: &str,
    requester: &Requester,
) -> String {
    let own = || requester.identity.principal.account.clone();
    if let Some(rest) = resource.strip_prefix("arn:aws:s3:::") {
        let bucket = rest.split('/').next().and_then(|name| access.engine.bucket(name.as_bytes()));
        let owner = bucket.as_ref().and_then(|bucket| std::str::from_utf8(&bucket.owner).ok());
        return owner.map_or_else(own, |owner| identities.account(owner).to_owned());
    }
    if resource.starts_with("arn:aws:orcas:") {
        return identities.account(identities.root()).to_owned();
    }
    let number = resource.split(':').nth(4).filter(|it| it.len() == 12 && it.bytes().all(|it| it.is_ascii_digit()));
    number.map_or_else(own, str::to_owned)
}
