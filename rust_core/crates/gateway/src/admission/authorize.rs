//! What a request needs permission for. It is authorized with names before its operation looks at anything in the store, so
//! a refusal tells nothing about buckets and objects.

use std::cell::Cell;

use crate::admission::access_decision::{Question, Resource, ResourceFacts};
use crate::admission::circumstances::Circumstances;
use crate::admission::identities::Identities;
use crate::admission::request_context::RequestContext;
use crate::operations::{Handler, implemented};
use orcas_bodies::problem::Problem;
use orcas_s3::operations::{Permission, Subject, manages_permissions};
use orcas_s3::support::may_give_by_acl;
use orcas_s3::target::CopySource;
use orcas_s3::{ErrorCode, Operation};

impl RequestContext<'_> {
    /// Authorizes every action of the request but those on objects that its body names. Sets the source that a copy or a
    /// move names.
    ///
    /// # Errors
    /// `AccessDenied`, and those of a malformed source.
    pub fn authorize(&mut self, identities: &Identities) -> Result<(), Problem> {
        let permissions = self.operation.spec().permissions;
        if self.source.is_none() && permissions.iter().any(|it| it.subject == Subject::Source) {
            match self.named_source() {
                Ok(source) => self.source = Some(source),
                // Who may write to the target is told first if there is none.
                Err(problem) => {
                    let of_target = |permission: &&Permission| permission.subject != Subject::Source;
                    self.authorize_each(permissions.iter().filter(of_target), identities)?;
                    return Err(self.object().err().unwrap_or(problem));
                }
            }
        }
        self.authorize_each(permissions.iter(), identities)?;
        self.authorize_headers(identities)
    }

    /// Authorizes what the headers need beside the permissions of the row.
    fn authorize_headers(&self, identities: &Identities) -> Result<(), Problem> {
        if self.requester.is_root {
            return Ok(());
        }
        let subject = self.operation.spec().permissions[0].subject;
        self.operation
            .actions_of_headers(self.headers(), |name| takes(self.operation, name))
            .try_for_each(|action| self.authorize_one(subject, |_| action, identities))
    }

    fn authorize_each<'p>(
        &self,
        permissions: impl Iterator<Item = &'p Permission>,
        identities: &Identities,
    ) -> Result<(), Problem> {
        if self.requester.is_root {
            return Ok(());
        }
        for permission in permissions {
            self.authorize_one(permission.subject, |versioned| permission.action(versioned), identities)?;
        }
        Ok(())
    }

    /// `action`: whether the request names a version of the subject says which.
    fn authorize_one(
        &self,
        subject: Subject,
        action: impl FnOnce(bool) -> &'static str,
        identities: &Identities,
    ) -> Result<(), Problem> {
        let of_query = self.query.get("versionId").map(String::from_utf8_lossy);
        let (resource, version) = match subject {
            Subject::Service => (Resource::Service, None),
            Subject::Bucket => (Resource::Bucket(self.target_bucket()?), None),
            // Each entry is authorized once the body has been read; that takes a signature.
            Subject::Entries if self.requester.is_anonymous() => return Err(ErrorCode::AccessDenied.into()),
            Subject::Entries => return Ok(()),
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
        Ok(self.gateway.authorize(identities, &question, &self.circumstances(version.as_deref()))?)
    }

    /// Whether it changes who may do what, so that the audit log has it.
    pub fn is_audited(&self) -> bool {
        let in_row = || self.operation.spec().permissions.iter().any(|it| manages_permissions(it.action(false)));
        let in_headers = || {
            let mut actions = self.operation.actions_of_headers(self.headers(), |name| takes(self.operation, name));
            actions.any(|action| manages_permissions(action) && (!names_acl(action) || may_give_by_acl(self.headers())))
        };
        self.operation.changes() && (in_row() || in_headers())
    }

    /// The request as conditions see it. `version`: what the action is about.
    pub fn circumstances<'b>(&'b self, version: Option<&'b str>) -> Circumstances<'b> {
        Circumstances {
            gateway: self.gateway,
            ingress: self.ingress,
            how: self.how,
            operation: self.operation,
            headers: self.headers(),
            query: &self.query,
            source: self.source.as_ref(),
            version,
            is_uncertain: Cell::new(false),
            decisions: Some(&self.decisions),
        }
    }

    fn target_bucket(&self) -> Result<&str, Problem> {
        self.target.bucket().ok_or_else(misrouted)
    }

    /// The object that a header names.
    fn named_source(&self) -> Result<CopySource, Problem> {
        let header = match self.operation {
            Operation::MoveObject => "x-amz-move-source",
            Operation::RenameObject => "x-amz-rename-source",
            _ => "x-amz-copy-source",
        };
        let value = self.headers().get(header).unwrap_or_default();
        let source = match self.operation {
            Operation::RenameObject => CopySource::parse_rename(self.target_bucket()?, value),
            _ => CopySource::parse(header, value),
        };
        Ok(source?)
    }
}

/// Whether an operation takes a header that some others refuse or pass over.
pub fn takes(operation: Operation, header: &[u8]) -> bool {
    let Some(Handler { understood, .. }) = implemented(operation) else { return false };
    understood.attributes.iter().chain(understood.extensions).any(|name| name.as_bytes() == header)
}

/// Whether an action is needed for the headers of an access control list.
fn names_acl(action: &str) -> bool {
    matches!(action, "s3:PutBucketAcl" | "s3:PutObjectAcl")
}

/// An operation whose permission is about something that its address does not name.
fn misrouted() -> Problem {
    Problem::internal("an operation was routed to an address that it does not have")
}
