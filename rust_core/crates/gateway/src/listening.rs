//! Permission to listen to events as MinIO's clients do: root to all buckets, and whoever has the permission to one.
//!
//! Invariant: a stream lasts no longer than the permission. It is asked for again before anything is sent, since the key,
//! the policies and the bucket may be gone by then.

use std::sync::Arc;

use crate::gateway::Gateway;
use orcas_admission::access_control::AccessControl;
use orcas_admission::access_decision::{Question, Resource, ResourceFacts};
use orcas_admission::authenticate::EMPTY_SHA256;
use orcas_admission::bounds::rates::admit;
use orcas_admission::circumstances::KeptCircumstances;
use orcas_admission::ingress::{Ingress, now_ms};
use orcas_admission::request_context::has_body;
use orcas_admission::senders::identities::Requester;
use orcas_admission::senders::sessions::token_of;
use orcas_bodies::problem::Problem;
use orcas_http::RequestHead;
use orcas_record::Bucket;
use orcas_s3::{ErrorCode, Operation, S3Error};
use orcas_sigv4::Requirements;

/// The action of MinIO.
const ACTION: &str = "s3:ListenBucketNotification";
/// Streams of one account at a time, so that others have room.
const OF_ACCOUNT_MAX: usize = 64;

/// The permission of somebody who is not root to listen to a bucket.
pub struct Listening {
    gateway: Arc<Gateway>,
    access_key: String,
    token: Option<Vec<u8>>,
    account: String,
    bucket: Arc<Bucket>,
    name: String,
    circumstances: KeptCircumstances,
}

impl Gateway {
    /// Verifies a request to listen to a bucket, or to all. `None`: root has sent it.
    ///
    /// # Errors
    /// Those of the signature, `AccessDenied`, `NoSuchBucket`, and `SlowDown` for more streams than an account may have.
    pub fn authorize_listener(
        self: &Arc<Self>,
        head: &RequestHead<'_>,
        ingress: &Ingress,
        bucket: Option<&str>,
    ) -> Result<Option<Listening>, Problem> {
        // As for the admin API, `x-amz-content-sha256` is not needed without a body.
        let body = (!has_body(&head.headers)).then_some(EMPTY_SHA256);
        let access = self.access();
        let requirements = Requirements { body, ..access.requirements(ingress.time_ms) };
        let (authenticated, requester) =
            access.authenticate(&access.identities(), head, &requirements, ingress.client)?;
        let token = token_of(head);
        if requester.is_root && token.is_none() {
            return Ok(None);
        }
        if let Some(limits) = &requester.limits {
            admit(limits, requirements.now_unix_ms, 0)?;
        }
        let Some(name) = bucket else {
            let message = "Only root may listen to the events of all buckets. Name a bucket.";
            return Err(S3Error::with(ErrorCode::AccessDenied, message).into());
        };
        if requester.is_anonymous() {
            return Err(ErrorCode::AccessDenied.into());
        }
        let operation = Operation::GetBucketNotificationConfiguration;
        let circumstances =
            KeptCircumstances::of_head(ingress, authenticated.how, operation, &head.headers, authenticated.query);
        may_listen(access, &requester, name, &circumstances)?;
        let no_bucket = || S3Error::new(ErrorCode::NoSuchBucket).field("BucketName", name.as_bytes());
        let bucket = self.engine.bucket(name.as_bytes()).ok_or_else(no_bucket)?;
        let account = requester.owner.clone();
        let mut counts = self.listening.lock();
        let count = counts.entry(account.clone()).or_default();
        if *count >= OF_ACCOUNT_MAX {
            return Err(ErrorCode::SlowDown.into());
        }
        *count += 1;
        Ok(Some(Listening {
            gateway: Arc::clone(self),
            access_key: requester.access_key.clone(),
            token: token.map(|token| token.to_vec()),
            account,
            bucket,
            name: name.to_owned(),
            circumstances,
        }))
    }
}

fn may_listen(
    access: &AccessControl,
    requester: &Requester,
    bucket: &str,
    kept: &KeptCircumstances,
) -> Result<(), S3Error> {
    let (resource, facts) = (Resource::Bucket(bucket), ResourceFacts::UNKNOWN);
    let question = Question { requester, action: ACTION, resource, facts };
    kept.with(access, None, None, |circumstances| {
        access.authorize_action(&access.identities(), &question, circumstances)
    })
}

impl Listening {
    /// Whether the permission still holds.
    pub fn holds(&self) -> bool {
        let access = self.gateway.access();
        let (identities, time_ms) = (access.identities(), now_ms());
        let ahead_ms = time_ms + access.engine.clock_ahead_ms();
        let requester = match &self.token {
            Some(token) => identities.session(token, ahead_ms).ok().map(|session| Arc::clone(&session.requester)),
            None => identities.signer(&self.access_key, ahead_ms).cloned(),
        };
        // Conditions on the time are asked about now.
        let mut circumstances = self.circumstances.clone();
        circumstances.ingress.time_ms = time_ms;
        // Another bucket of the same name may be somebody else's.
        let is_same = || self.gateway.engine.bucket(self.name.as_bytes()).is_some_and(|it| it.id == self.bucket.id);
        requester.is_some_and(|it| {
            it.owner == self.account && is_same() && may_listen(access, &it, &self.name, &circumstances).is_ok()
        })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut counts = self.gateway.listening.lock();
        if let Some(count) = counts.get_mut(&self.account) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.account);
            }
        }
    }
}
