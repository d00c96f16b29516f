//! Who sends a request: signatures of every kind are verified here, and sessions opened. Senders of many wrong ones are
//! locked out.

use std::net::IpAddr;
use std::sync::Arc;

use crate::access_control::AccessControl;
use crate::ingress::now_ms;
use crate::senders::identities::{Identities, Requester};
use crate::senders::sessions::token_of;
use orcas_bodies::problem::Problem;
use orcas_http::RequestHead;
use orcas_s3::form::Form;
use orcas_s3::target::hosted_bucket;
use orcas_s3::{ErrorCode, S3Error, query};
use orcas_sigv4::{
    Authenticated, Authentication, FormError, PayloadMode, Requirements, SERVICE, SKEW_MAX_MS, SignatureError,
    SignedForm, VersionTwo, authenticate, authenticate_form,
};

/// The SHA-256 of no bytes.
pub const EMPTY_SHA256: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41,
    0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// Further apart than any two dates that a request can name, and small enough to be added to.
const ANY_SKEW_MS: i64 = i64::MAX / 4;

impl AccessControl {
    /// Refuses everything of an address that has sent many wrong signatures.
    ///
    /// # Errors
    /// `SlowDown`
    #[inline]
    pub fn check_not_locked_out(&self, client: Option<IpAddr>, now_ms: i64) -> Result<(), S3Error> {
        let Some(left_ms) = self.signers.lockouts.left_ms(client, now_ms) else { return Ok(()) };
        let retry_after = u32::try_from(left_ms.unsigned_abs().div_ceil(1000)).ok();
        let private = Some("the address is locked out after many wrong signatures".into());
        Err(S3Error { retry_after, private, ..ErrorCode::SlowDown.into() })
    }

    /// Counts a signature that is wrong, and locks its sender out if there were many.
    pub fn note_failure(&self, error: &SignatureError, client: Option<IpAddr>, now_ms: i64) {
        if !matches!(error, SignatureError::SignatureDoesNotMatch | SignatureError::InvalidAccessKeyId) {
            return;
        }
        self.count_forgery(client, now_ms);
    }

    /// Counts what its sender has forged: a signature, or a token of another issuer.
    pub fn count_forgery(&self, client: Option<IpAddr>, now_ms: i64) {
        if let (Some(lasts_ms), Some(client)) = (self.signers.lockouts.failed(client, now_ms), client) {
            let seconds = lasts_ms / 1000;
            tracing::warn!(%client, seconds, "An address is locked out after many wrong signatures");
        }
    }

    /// Verifies the signature and finds out whose it is.
    #[inline]
    pub fn authenticate(
        &self,
        identities: &Identities,
        head: &RequestHead<'_>,
        requirements: &Requirements<'_>,
        client: Option<IpAddr>,
    ) -> Result<(Authenticated, Arc<Requester>), Problem> {
        self.check_not_locked_out(client, requirements.now_unix_ms)?;
        if let Some(token) = token_of(head) {
            return self.authenticate_session(identities, head, requirements, client, &token);
        }
        let credential = |key: &str| identities.credential(key);
        let authenticated = authenticate(head, requirements, &self.signers.signing_keys.mine(), &credential)
            .inspect_err(|error| self.note_failure(error, client, requirements.now_unix_ms))?;
        let requester = signer(identities, &authenticated.access_key, requirements)?;
        Ok((authenticated, requester))
    }

    /// Authenticates a request with temporary credentials.
    fn authenticate_session(
        &self,
        identities: &Identities,
        head: &RequestHead<'_>,
        requirements: &Requirements<'_>,
        client: Option<IpAddr>,
        token: &[u8],
    ) -> Result<(Authenticated, Arc<Requester>), Problem> {
        let session = identities.session(token, requirements.now_unix_ms)?;
        let requirements = Requirements { session_token: Some(token), ..*requirements };
        let credential = |key: &str| (key == session.access_key).then(|| session.credential.clone());
        let authenticated = authenticate(head, &requirements, &self.signers.signing_keys.mine(), &credential)
            .inspect_err(|error| self.note_failure(error, client, requirements.now_unix_ms))?;
        if authenticated.how == Authentication::Anonymous {
            // A token alone proves nothing.
            return Err(ErrorCode::AccessDenied.into());
        }
        Ok((authenticated, Arc::clone(&session.requester)))
    }

    /// The access key that has signed a request for a service beside S3. `body`: the SHA-256 of its body, which was
    /// received first: requests of these services do not say it.
    pub fn authenticate_for(
        &self,
        head: &RequestHead<'_>,
        service: &'static str,
        body: [u8; 32],
        client: Option<IpAddr>,
    ) -> Result<String, Problem> {
        let requirements =
            Requirements { region: None, service, body: Some(body), version_two: None, ..self.requirements(now_ms()) };
        let (authenticated, requester) = self.authenticate(&self.identities(), head, &requirements, client)?;
        match (authenticated.how, authenticated.payload) {
            (Authentication::Anonymous | Authentication::PresignedVersionTwo, _) => Err(ErrorCode::AccessDenied.into()),
            (Authentication::Header | Authentication::Presigned, PayloadMode::Hash(signed)) if signed == body => {
                Ok(requester.access_key.clone())
            }
            (Authentication::Header | Authentication::Presigned, _) => Err(ErrorCode::XAmzContentSHA256Mismatch.into()),
        }
    }

    /// What a signature must fulfil at this time. Clients do not know that a test has set the clock: a presigned URL
    /// expires by it, and a date that is that much off is as good as one that is not.
    #[inline]
    pub fn requirements(&self, now_unix_ms: i64) -> Requirements<'_> {
        let ahead_ms = self.engine.clock_ahead_ms();
        Requirements {
            region: self.options.strict_region.then_some(self.options.region.as_str()),
            may_lack_region: false,
            now_unix_ms: now_unix_ms + ahead_ms,
            skew_max_ms: if self.options.any_date { ANY_SKEW_MS } else { SKEW_MAX_MS + ahead_ms.abs() },
            service: SERVICE,
            body: None,
            presign_max_s: self.options.presign_max_s,
            session_token: None,
            version_two: self.options.presign_v2.then_some(VersionTwo {
                domains: &self.options.domains,
                hosted_bucket,
                is_resource: query::is_resource_parameter,
            }),
            any_signature: self.options.any_signature,
        }
    }

    /// Verifies the signature of a form. Returns whose it is, and the signed policy; neither if anybody may have sent it.
    pub fn authenticate_form<'a>(
        &self,
        identities: &Identities,
        form: &'a Form,
        now_ms: i64,
        client: Option<IpAddr>,
    ) -> Result<(Arc<Requester>, Option<&'a [u8]>), Problem> {
        let requirements = self.requirements(now_ms);
        self.check_not_locked_out(client, requirements.now_unix_ms)?;
        let signed = SignedForm {
            policy: form.get("policy"),
            algorithm: form.get("x-amz-algorithm"),
            credential: form.get("x-amz-credential"),
            date: form.get("x-amz-date"),
            signature: form.get("x-amz-signature"),
            security_token: form.get("x-amz-security-token"),
            access_key: form.get("awsaccesskeyid"),
            signature_of_version_two: form.get("signature"),
        };
        let token = signed.security_token.filter(|token| !token.is_empty());
        let session = token.map(|token| identities.session(token, requirements.now_unix_ms)).transpose()?;
        let requirements = Requirements { session_token: token, ..requirements };
        let credential = |key: &str| match &session {
            Some(session) => (key == session.access_key).then(|| session.credential.clone()),
            None => identities.credential(key),
        };
        let verified = authenticate_form(&signed, &requirements, &credential);
        if let Err(FormError::Signature(error)) = &verified {
            self.note_failure(error, client, requirements.now_unix_ms);
        }
        let verified = verified.map_err(|error| with_signer(error.into(), &signed))?;
        let Some(verified) = verified else {
            // A policy that nobody has signed says nothing, and neither does a token.
            let anonymous = identities.requester("").filter(|_| signed.policy.is_none() && token.is_none());
            return Ok((Arc::clone(anonymous.ok_or(ErrorCode::AccessDenied)?), None));
        };
        let requester = match &session {
            Some(session) => Arc::clone(&session.requester),
            None => signer(identities, &verified.access_key, &requirements)?,
        };
        Ok((requester, Some(verified.policy)))
    }
}

/// Whose access key has signed what was verified. Where any signature counts, a key that nobody has is root's.
fn signer(
    identities: &Identities,
    access_key: &str,
    requirements: &Requirements<'_>,
) -> Result<Arc<Requester>, ErrorCode> {
    let known = identities.signer(access_key, requirements.now_unix_ms);
    let any = || requirements.any_signature.then(|| identities.root_requester())?;
    known.or_else(any).cloned().ok_or(ErrorCode::AccessDenied)
}

/// Whether an error says who claims to have signed the request.
pub fn names_claim(error: &S3Error) -> bool {
    matches!(error.code, ErrorCode::SignatureDoesNotMatch | ErrorCode::InvalidAccessKeyId)
}

/// Adds what the request claims about its signature.
pub fn with_claim(error: S3Error, access_key: &[u8], signature: &[u8]) -> S3Error {
    let named = error.code == ErrorCode::SignatureDoesNotMatch;
    let error = error.field("AWSAccessKeyId", access_key);
    if named { error.field("SignatureProvided", signature) } else { error }
}

/// Adds who claims to have signed the form, where errors of requests say so too.
fn with_signer(problem: Problem, signed: &SignedForm<'_>) -> Problem {
    if !names_claim(&problem.error) {
        return problem;
    }
    let of_scope = signed.credential.and_then(|scope| scope.split(|&byte| byte == b'/').next());
    let access_key = of_scope.or(signed.access_key).unwrap_or_default();
    let signature = signed.signature.or(signed.signature_of_version_two).unwrap_or_default();
    Problem { error: with_claim(problem.error, access_key, signature), ..problem }
}
