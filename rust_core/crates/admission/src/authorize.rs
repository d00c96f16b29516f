//! What a request needs permission for. It is authorized with names before its operation looks at anything in the store, so
//! a refusal tells nothing about buckets and objects.

use std::cell::Cell;

use crate::access_decision::{Question, Resource, ResourceFacts};
use crate::circumstances::Circumstances;
use crate::request_context::RequestContext;
use crate::senders::identities::Identities;
use orcas_bodies::problem::Problem;
use orcas_s3::ErrorCode;
use orcas_s3::annotations::copies_annotations;
use orcas_s3::operations::{Part, Permission, SourceHeader, Subject};
use orcas_s3::stored_headers::OF_A_BODY;
use orcas_s3::tags::TaggingDirective;
use orcas_s3::target::CopySource;

impl RequestContext<'_> {
    /// Authorizes every action of the request but those on objects that its body names. Sets the source that a copy or a
    /// move names.
    ///
    /// # Errors
    /// `AccessDenied`, and those of a malformed source.
    pub fn authorize_request(&mut self, identities: &Identities) -> Result<(), Problem> {
        let permissions = self.operation.spec().permissions;
        let of_target = |it: &&Permission| it.part.is_none() && it.subject != Subject::Source;
        if let (None, Some(header)) = (&self.source, self.operation.spec().source) {
            // A rename may name the bucket too, as its sender knows it.
            let bucket = self.requester.shown(self.target_bucket()?);
            match CopySource::of_request(header, bucket, self.headers()) {
                Ok(source) => self.source = Some(self.requester.resolve_source(source)),
                // Who may write to the target is told first if there is none.
                Err(error) => {
                    self.authorize_each(permissions.iter().filter(of_target), identities)?;
                    return Err(self.object().err().unwrap_or(error.into()));
                }
            }
        }
        self.authorize_each(permissions.iter().filter(|it| it.part.is_none()), identities)?;
        self.authorize_headers(identities)?;
        self.withhold(identities);
        Ok(())
    }

    /// Authorizes what the headers need beside the permissions of the row.
    fn authorize_headers(&mut self, identities: &Identities) -> Result<(), Problem> {
        if self.requester.is_root {
            return Ok(());
        }
        let subject = self.operation.spec().permissions[0].subject;
        let of_body = |name: &[u8]| self.is_body_read && OF_A_BODY.iter().any(|of_body| of_body.as_bytes() == name);
        let counts = |name: &[u8]| self.understood.takes(name) || of_body(name);
        let mut deferred = false;
        for action in self.operation.actions_of_headers(self.headers(), counts) {
            deferred |= self.authorize_one((subject, None), |_| action, identities)?;
        }
        self.is_deferred |= deferred;
        Ok(())
    }

    /// Sets what of the source the sender may not hand over: nobody knows yet whether the source has it. On an untagged
    /// object it does not matter.
    fn withhold(&mut self, identities: &Identities) {
        if self.requester.is_root {
            return;
        }
        for permission in self.operation.spec().permissions {
            let Some(part) = permission.part.filter(|part| self.hands_over(*part)) else { continue };
            let action = |versioned| permission.action(versioned);
            let denied = self.authorize_one((permission.subject, Some(part)), action, identities).is_err();
            match part {
                Part::Tags => self.withheld.tags |= denied,
                Part::Annotations => self.withheld.annotations |= denied,
            }
        }
    }

    /// Whether a part of the source goes with it. A move takes everything.
    fn hands_over(&self, part: Part) -> bool {
        let is_copy = matches!(self.operation.spec().source, Some(SourceHeader::Copied(_)));
        match part {
            Part::Tags => !is_copy || TaggingDirective::parse(self.headers()) != Ok(TaggingDirective::Replace),
            Part::Annotations => !is_copy || copies_annotations(self.headers()) != Ok(false),
        }
    }

    fn authorize_each<'p>(
        &mut self,
        permissions: impl Iterator<Item = &'p Permission>,
        identities: &Identities,
    ) -> Result<(), Problem> {
        if self.requester.is_root {
            return Ok(());
        }
        for permission in permissions {
            let action = |versioned| permission.action(versioned);
            self.is_deferred |= self.authorize_one((permission.subject, None), action, identities)?;
        }
        Ok(())
    }

    /// `action`: whether the request names a version of the subject says which. Returns whether that depends on the body,
    /// with which it is decided again.
    fn authorize_one(
        &self,
        (subject, part): (Subject, Option<Part>),
        action: impl FnOnce(bool) -> &'static str,
        identities: &Identities,
    ) -> Result<bool, Problem> {
        let of_query = self.query.get("versionId").map(String::from_utf8_lossy);
        let (resource, version) = match subject {
            Subject::Service => (Resource::Service, None),
            Subject::Bucket => (Resource::Bucket(self.target_bucket()?), None),
            // Each entry is authorized once the body has been read; that takes a signature.
            Subject::Entries if self.requester.is_anonymous() => return Err(ErrorCode::AccessDenied.into()),
            Subject::Entries => return Ok(false),
            Subject::Object => {
                let key = self.target.key().ok_or_else(misrouted)?;
                (Resource::Object { bucket: self.target_bucket()?, key }, of_query)
            }
            Subject::Source => {
                let CopySource { bucket, key, version } = self.source.as_ref().ok_or_else(misrouted)?;
                (Resource::Object { bucket, key }, version.map(|version| version.to_string().into()))
            }
        };
        let action = action(version.is_some());
        let question = Question { requester: &self.requester, action, resource, facts: ResourceFacts::UNKNOWN };
        let circumstances = Circumstances { part, ..self.circumstances(version.as_deref()) };
        match self.access.authorize_action(identities, &question, &circumstances) {
            Err(_) if circumstances.is_uncertain.get() && self.operation.body_asks() && !self.is_body_read => Ok(true),
            decided => Ok(decided.map(|()| false)?),
        }
    }

    /// Whether it changes who may do what, so that the audit log has it.
    pub fn is_audited(&self) -> bool {
        self.operation.changes_permissions(self.headers(), |name: &[u8]| self.understood.takes(name))
    }

    /// Whether the sender may do something more to what the request is about, which it need not be allowed.
    pub fn is_allowed(&self, action: &'static str) -> bool {
        let subject = self.operation.spec().permissions[0].subject;
        let decided = || self.authorize_one((subject, None), |_| action, &self.access.identities());
        self.requester.is_root || matches!(decided(), Ok(false))
    }

    /// The request as conditions see it. `version`: what the action is about.
    pub fn circumstances<'b>(&'b self, version: Option<&'b str>) -> Circumstances<'b> {
        Circumstances {
            access: self.access,
            ingress: self.ingress,
            how: self.how,
            operation: self.operation,
            headers: self.headers(),
            query: &self.query,
            source: self.source.as_ref(),
            version,
            part: None,
            is_body_read: self.is_body_read,
            is_uncertain: Cell::new(false),
            is_postponed: &self.is_postponed,
            steps: &self.steps,
            decisions: Some(&self.decisions),
            supposed: None,
        }
    }

    fn target_bucket(&self) -> Result<&str, Problem> {
        self.target.bucket().ok_or_else(misrouted)
    }
}

/// An operation whose permission is about something that its address does not name.
fn misrouted() -> Problem {
    Problem::internal("an operation was routed to an address that it does not have")
}
