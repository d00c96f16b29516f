//! The description of a refused request for the log. The head is read again after the refusal, so that this costs
//! nothing for other requests. Nothing here authorizes anything.

use std::time::Instant;

use crate::accept::below;
use crate::gateway::Gateway;
use crate::website::page_target;
use orcas_admission::ingress::now_ms;
use orcas_admission::senders::sessions::token_of;
use orcas_http::{Query, RequestHead};
use orcas_responses::response::ErrorNote;
use orcas_s3::resolve::resolve;
use orcas_s3::{Operation, Target};
use orcas_sigv4::{Diagnosis, Requirements, ServerNames, authenticate, claimed_signature, diagnose};

/// The operation, bucket, key and sender of a request, as far as the head tells. The access key is the one claimed: the
/// signature may be anybody's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    pub operation: Option<Operation>,
    pub bucket: Option<String>,
    pub key: Option<String>,
    pub access_key: Option<String>,
}

impl Gateway {
    /// `mount_length` as of `Ingress`.
    pub fn describe(&self, head: &RequestHead<'_>, mount_length: usize) -> Description {
        if let Some(bucket) = self.website_bucket(head) {
            let target = page_target(bucket.clone(), below(head.path, mount_length)).ok();
            let key = target.as_ref().and_then(Target::key).map(|key| String::from_utf8_lossy(key).into_owned());
            return Description { bucket: Some(bucket), key, ..Description::default() };
        }
        let host = head.headers.get("host").unwrap_or_default();
        let access_key = claimed_signature(head).map(|(access_key, _)| access_key);
        let Ok(target) = Target::parse(below(head.path, mount_length), host, &self.access().options.domains) else {
            return Description { access_key, ..Description::default() };
        };
        let operation =
            Query::parse(head.query).and_then(|query| resolve(head.method, &target, &query, &head.headers).ok());
        let key = target.key().map(|key| String::from_utf8_lossy(key).into_owned());
        Description { operation, bucket: target.bucket().map(str::to_owned), key, access_key }
    }

    /// Why the signature of `head` is refused, if it is and that can be told.
    pub fn diagnose(&self, head: &RequestHead<'_>) -> Option<Diagnosis> {
        let access = self.access();
        let requirements = access.requirements(now_ms());
        let identities = access.identities();
        let token = token_of(head);
        let session = token.as_deref().and_then(|token| identities.session(token, requirements.now_unix_ms).ok());
        let requirements =
            Requirements { session_token: token.as_deref().filter(|_| session.is_some()), ..requirements };
        let credential = |key: &str| match &session {
            Some(session) => (key == session.access_key).then(|| session.credential.clone()),
            None => identities.credential(key),
        };
        let error = authenticate(head, &requirements, &access.signers.signing_keys.mine(), &credential).err()?;
        let names = ServerNames { region: &access.options.region, domains: &access.options.domains };
        diagnose(head, &error, &requirements, &names, &credential)
    }

    /// Keeps why a request with this head was refused, if somebody watches.
    pub fn note_cause(&self, head: &RequestHead<'_>, note: &ErrorNote) {
        let Some(diagnoses) = self.observation.causes.wants(note, Instant::now()) else { return };
        let diagnosed = diagnoses.then(|| self.diagnose(head)).flatten().and_then(|diagnosis| diagnosis.cause);
        self.observation
            .causes
            .add(ErrorNote { likely_cause: diagnosed.or_else(|| note.likely_cause.clone()), ..note.clone() });
    }
}
