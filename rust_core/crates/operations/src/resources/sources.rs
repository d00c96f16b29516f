//! The sources of copies and moves. The source and its conditions are checked here, to answer with the right error, and
//! again when the engine decides.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::conditions::source_conditions;
use crate::resources::versions::shows_versions;
use orcas_admission::access_control::AccessControl;
use orcas_admission::ingress::now_ms;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::intake::refuse_body;
use orcas_bodies::problem::Problem;
use orcas_catalog::PinnedObject;
use orcas_decide::{self as decide, Move, Precondition, Put, SourceConditions, SourceKind, Withheld};
use orcas_record::{Bucket, VersionId};
use orcas_s3::conditions::ReadConditions;
use orcas_s3::metadata::refuse_object_headers;
use orcas_s3::target::CopySource;
use orcas_s3::versions::{VersionName, version_id, version_name};
use orcas_s3::{ErrorCode, S3Error};

pub struct Source {
    pub name: CopySource,
    conditions: ReadConditions,
    /// The parts of the source that the sender may not hand over.
    withheld: Withheld,
    /// `x-amz-source-expected-bucket-owner`
    expected_owner: Option<Vec<u8>>,
}

impl Source {
    pub fn new(context: &RequestContext<'_>, conditions: ReadConditions) -> Result<Self, Problem> {
        let name = context.source.clone();
        let name = name.ok_or_else(|| Problem::internal("an operation has a source that was not authorized"))?;
        let expected_owner = context.headers().get("x-amz-source-expected-bucket-owner").map(<[u8]>::to_vec);
        Ok(Self { name, conditions: conditions.at(now_ms), withheld: context.withheld, expected_owner })
    }

    /// With the conditions of copies.
    pub fn of_copy(context: &RequestContext<'_>) -> Result<Self, Problem> {
        Self::new(context, ReadConditions::of_copy_source(context.headers()))
    }

    fn bucket(&self, access: &AccessControl) -> Result<Arc<Bucket>, Problem> {
        let bucket = access.engine.bucket(self.name.bucket.as_bytes());
        let bucket = bucket
            .ok_or_else(|| S3Error::new(ErrorCode::NoSuchBucket).field("BucketName", self.name.bucket.as_bytes()))?;
        match &self.expected_owner {
            Some(expected) if *expected != bucket.owner => {
                let owner = std::str::from_utf8(&bucket.owner).unwrap_or_default();
                let is_account = access.identities().account(owner).as_bytes() == expected.as_slice();
                if is_account { Ok(bucket) } else { Err(ErrorCode::AccessDenied.into()) }
            }
            _ => Ok(bucket),
        }
    }

    /// The conditions for the engine.
    pub fn decided(&self, kind: SourceKind) -> SourceConditions {
        SourceConditions { kind, withheld: self.withheld, ..source_conditions(&self.conditions) }
    }

    pub fn key(&self) -> Bytes {
        Bytes::copy_from_slice(&self.name.key)
    }

    /// The source as it is now; its conditions are judged here and again when the copy is decided.
    pub fn find(&self, access: &AccessControl) -> Result<(Arc<Bucket>, PinnedObject), Problem> {
        let bucket = self.bucket(access)?;
        let missing = |code| S3Error::new(code).field("Key", self.name.key.clone());
        let found = match self.name.version {
            None => access.engine.object_in(&bucket, &self.key())?.ok_or_else(|| missing(ErrorCode::NoSuchKey))?,
            Some(name) => {
                let found = access.engine.version_in(&bucket, &self.key(), version_id(name))?;
                found.ok_or_else(|| missing(ErrorCode::NoSuchVersion).field("VersionId", name.to_string()))?
            }
        };
        let version = &found.object.version;
        if version.delete_marker {
            let message = "The source of a copy request may not specifically refer to a delete marker by version id.";
            return Err(S3Error::with(ErrorCode::InvalidRequest, message).into());
        }
        self.withheld.check(&version.attributes)?;
        self.conditions.judge_source(&version.etag, i64::try_from(version.modified_ms).unwrap_or(i64::MAX))?;
        Ok((bucket, found))
    }
}

/// The version of a source that was looked up. Where there are versions, it is copied even if another becomes current.
pub struct Pinned {
    pub source: decide::Source,
    /// The version for `x-amz-copy-source-version-id`.
    pub shown: Option<VersionName>,
}

impl Source {
    pub fn pinned(&self, bucket: &Bucket, found: &PinnedObject) -> Pinned {
        let id = found.object.version.version_id;
        let pinned = (self.name.version.is_some() || shows_versions(bucket)).then(|| version_name(id));
        // The null version has no name unless the request gives it one.
        let shown = pinned.filter(|_| self.name.version.is_some() || id != VersionId::Null);
        Pinned { source: (bucket.id, self.key(), pinned.map(version_id)), shown }
    }
}

/// The rename or move of an object.
pub struct Moving {
    pub source: Source,
    pub bucket: Arc<Bucket>,
    pub key: Bytes,
    precondition: Precondition,
}

impl Moving {
    /// To the object that the request names, on conditions for it.
    pub fn of(context: &RequestContext<'_>, source: Source, precondition: Precondition) -> Result<Self, Problem> {
        let (bucket, key) = context.object()?;
        refuse_body(context.headers(), "A rename or a move has no body")?;
        refuse_object_headers(context.headers())?;
        if source.name.version.is_some() {
            let message = "A move takes the object as it is; its source cannot be a version.";
            return Err(S3Error::with(ErrorCode::InvalidRequest, message).into());
        }
        Ok(Self { source, bucket, key, precondition })
    }

    pub fn decided(&self, access: &AccessControl, kind: SourceKind) -> Result<Box<Move>, Problem> {
        let from = self.source.bucket(access)?;
        Ok(Box::new(Move {
            from_bucket: from.id,
            from_key: self.source.key(),
            from_conditions: self.source.decided(kind),
            bucket: self.bucket.id,
            key: self.key.clone(),
            precondition: self.precondition.clone(),
        }))
    }
}

/// When a copy was made, in milliseconds since the epoch.
pub fn modified(put: &Put) -> i64 {
    i64::try_from(put.modified_ms).unwrap_or(i64::MAX)
}
