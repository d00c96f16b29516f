//! Versions that requests name: their ids in the two forms, and the answers when there is no such version.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::pages::time;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_catalog::PinnedObject;
use orcas_decide::Outcome;
use orcas_engine::Handle;
use orcas_record::{Bucket, Version, VersionId, Versioning};
use orcas_requests::request::{Operation, TypedRequest, wrong_outcome};
use orcas_responses::response::{Envelope, HeaderBlock, Response};
use orcas_s3::versions::{VersionName, version_id, version_name};
use orcas_s3::{ErrorCode, Named, Operation as Name, S3Error};

/// Whether answers about objects of this bucket name versions.
pub fn shows_versions(bucket: &Bucket) -> bool {
    bucket.versioning != Versioning::Unversioned
}

/// An object of a request, or one version of it.
pub struct VersionAddress {
    pub bucket: Arc<Bucket>,
    pub key: Bytes,
    /// `versionId`; the current version if `None`.
    pub version: Option<VersionName>,
    /// The method of the request, for errors.
    method: &'static str,
    /// The operation refuses the current version if it is a delete marker; others find no object then.
    refuses_markers: bool,
}

/// The answer of an operation that has changed what is kept with a version.
pub fn updated<O: Operation>(request: &TypedRequest<O>, outcome: Outcome) -> Result<Response, Problem> {
    let Outcome::Updated(version) = outcome else { return Err(wrong_outcome()) };
    let mut headers = HeaderBlock::new();
    if let Some(version) = version {
        headers.set_version_id(&version_name(version));
    }
    Ok(request.succeeded(headers))
}

/// The error for anything but the deletion of a delete marker.
pub fn marker_refused(method: &'static str) -> S3Error {
    let error = S3Error::new(ErrorCode::MethodNotAllowed).field("Method", method);
    S3Error { allowed: Some("DELETE".into()), ..error.field("ResourceType", "DeleteMarker") }
}

impl VersionAddress {
    pub fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let (bucket, key) = context.object()?;
        let method = match context.head.method {
            b"PUT" => "PUT",
            b"DELETE" => "DELETE",
            b"HEAD" => "HEAD",
            b"POST" => "POST",
            _ => "GET",
        };
        let refuses_markers = matches!(
            context.operation,
            Name::GetObjectLegalHold | Name::GetObjectRetention | Name::GetObjectTagging | Name::PutObjectAcl
        );
        Ok(Self { bucket, key, version: VersionName::in_query(&context.query)?, method, refuses_markers })
    }

    /// Of the current version, whatever a request says.
    pub fn current(method: &'static str, bucket: Arc<Bucket>, key: Bytes) -> Self {
        Self { bucket, key, version: None, method, refuses_markers: false }
    }

    /// The names in errors.
    pub fn named(&self) -> Named<'_> {
        Named { bucket: Some(&self.bucket.name), key: Some(&self.key), upload: None }
    }

    /// An error of the engine with what it says about the version.
    pub fn detailed(&self, error: S3Error) -> S3Error {
        match (error.code, &self.version) {
            (ErrorCode::MethodNotAllowed, _) => marker_refused(self.method),
            (ErrorCode::NoSuchVersion, Some(version)) => error.field("VersionId", version.to_string()),
            _ => error,
        }
    }

    /// The version id for the engine.
    pub fn version_id(&self) -> Option<VersionId> {
        self.version.map(version_id)
    }

    /// The name of `version` as answers show it, where they do.
    pub fn shown(&self, version: &Version) -> Option<VersionName> {
        shows_versions(&self.bucket).then(|| version_name(version.version_id))
    }

    /// Looks the version up, which may block, and answers with it, or says that there is none.
    pub fn find<T: From<Response>>(
        &self,
        engine: &Handle,
        envelope: &Envelope,
        answer: impl FnOnce(PinnedObject) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let found = match self.version {
            None => engine.object_in(&self.bucket, &self.key)?,
            Some(name) => engine.version_in(&self.bucket, &self.key, version_id(name))?,
        };
        match found {
            Some(found) if found.object.version.delete_marker => {
                Ok(self.is_marker(&found.object.version, envelope).into())
            }
            Some(found) => answer(found),
            None => self.missing(engine, envelope).map(T::from),
        }
    }

    /// The answer when there is no version. Behind a delete marker, its headers say so.
    pub fn missing(&self, engine: &Handle, envelope: &Envelope) -> Result<Response, Problem> {
        let mut headers = HeaderBlock::new();
        let error = match &self.version {
            Some(name) => S3Error::new(ErrorCode::NoSuchVersion)
                .field("Key", self.key.to_vec())
                .field("VersionId", name.to_string()),
            None => {
                if shows_versions(&self.bucket)
                    && let Some(marker) = engine.newest_marker_in(&self.bucket, &self.key)?
                {
                    if self.refuses_markers {
                        return Ok(self.is_marker(&marker.object.version, envelope));
                    }
                    headers.set_delete_marker();
                    headers.set_version_id(&version_name(marker.object.version.version_id));
                }
                S3Error::new(ErrorCode::NoSuchKey).field("Key", self.key.to_vec())
            }
        };
        Ok(envelope.problem_with(error.into(), headers))
    }

    /// A delete marker can only be deleted.
    fn is_marker(&self, marker: &Version, envelope: &Envelope) -> Response {
        let mut headers = HeaderBlock::new();
        headers.set_delete_marker();
        headers.set_version_id(&version_name(marker.version_id));
        headers.set_last_modified(time(marker.modified_ms));
        envelope.problem_with(marker_refused(self.method).into(), headers)
    }
}
