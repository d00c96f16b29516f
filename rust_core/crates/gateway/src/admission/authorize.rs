//! What a request needs permission for. It is decided with names alone before anything in the store is looked at, so a
//! refusal tells nothing about buckets and objects.

use crate::admission::identities::{Facts, Identities, Resource};
use crate::admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_s3::operations::Subject;
use orcas_s3::target::CopySource;
use orcas_s3::{ErrorCode, Operation};

impl RequestContext<'_> {
    /// Decides on every action of the request but those on objects that its body names. Sets the source that a copy or a
    /// move names.
    ///
    /// # Errors
    /// `AccessDenied`, and those of a malformed source.
    pub fn authorize(&mut self, identities: &Identities) -> Result<(), Problem> {
        for permission in self.operation.row().permissions {
            let (resource, versioned) = match permission.subject {
                Subject::Service => (Resource::Service, false),
                Subject::Bucket => (Resource::Bucket(self.target_bucket()?), false),
                // Each entry is decided once the body has been read; that takes a signature.
                Subject::Entries if self.principal.is_anonymous() => return Err(ErrorCode::AccessDenied.into()),
                Subject::Entries => continue,
                Subject::Object => {
                    let key = self.target.key().ok_or_else(misrouted)?;
                    (Resource::Object { bucket: self.target_bucket()?, key }, self.query.has("versionId"))
                }
                Subject::Source => {
                    if self.source.is_none() {
                        self.source = Some(self.named_source()?);
                    }
                    let CopySource { bucket, key, version } = self.source.as_ref().ok_or_else(misrouted)?;
                    (Resource::Object { bucket, key }, version.is_some())
                }
            };
            identities.decide(&self.principal, permission.action(versioned), resource, Facts::UNKNOWN)?;
        }
        Ok(())
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

/// An operation whose permission is about something that its address does not name.
fn misrouted() -> Problem {
    Problem::internal("an operation was routed to an address that it does not have")
}
