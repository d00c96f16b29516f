//! The decision whether a request may be performed. It depends on names alone and is made before anything in the store
//! is looked at, so a refusal tells nothing about buckets and objects.

use super::identities::{Identities, Principal, Resource};
use super::problem::Problem;
use orcas_http::{Headers, Query};
use orcas_s3::permissions::Subject;
use orcas_s3::target::CopySource;
use orcas_s3::{ErrorCode, Operation, Target};

/// What a request asks for.
pub struct Asked<'a> {
    pub operation: Operation,
    pub target: &'a Target,
    pub query: &'a Query,
    pub headers: &'a Headers<'a>,
}

/// Decides on every action of the request but those on objects that its body names. Returns the source that a copy or a
/// move names.
///
/// Errors: `AccessDenied`, and those of a malformed source.
pub fn authorize(
    identities: &Identities,
    principal: &Principal,
    asked: &Asked<'_>,
) -> Result<Option<CopySource>, Problem> {
    let mut source = None;
    for permission in asked.operation.permissions() {
        let (resource, versioned) = match permission.subject {
            Subject::Service => (Resource::Service, false),
            Subject::Bucket => (Resource::Bucket(asked.bucket()?), false),
            // Each entry is decided once the body has been read; that takes a signature.
            Subject::Entries if principal.is_anonymous() => return Err(ErrorCode::AccessDenied.into()),
            Subject::Entries => continue,
            Subject::Object => {
                let key = asked.target.key().ok_or_else(misrouted)?;
                (Resource::Object { bucket: asked.bucket()?, key }, asked.query.has("versionId"))
            }
            Subject::Source => {
                if source.is_none() {
                    source = Some(asked.source()?);
                }
                let CopySource { bucket, key, version } = source.as_ref().ok_or_else(misrouted)?;
                (Resource::Object { bucket, key }, version.is_some())
            }
        };
        identities.decide(principal, permission.action(versioned), resource)?;
    }
    Ok(source)
}

impl<'a> Asked<'a> {
    fn bucket(&self) -> Result<&'a str, Problem> {
        self.target.bucket().ok_or_else(misrouted)
    }

    /// The object that a header names.
    fn source(&self) -> Result<CopySource, Problem> {
        let header = match self.operation {
            Operation::MoveObject => "x-amz-move-source",
            Operation::RenameObject => "x-amz-rename-source",
            _ => "x-amz-copy-source",
        };
        let value = self.headers.get(header).unwrap_or_default();
        let source = match self.operation {
            Operation::RenameObject => CopySource::parse_rename(self.bucket()?, value),
            _ => CopySource::parse(header, value),
        };
        Ok(source?)
    }
}

/// An operation whose permission is about something that its address does not name.
fn misrouted() -> Problem {
    Problem::internal("an operation was routed to an address that it does not have")
}
