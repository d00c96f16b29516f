//! Access control lists: what new objects and buckets get, and what lists say when policies neither allow nor deny.

use std::sync::Arc;

use bytes::Bytes;

use crate::access_control::AccessControl;
use crate::documents::{disables_acls, document};
use crate::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_record::{Attributes, Bucket, VersionId};
use orcas_s3::acl::{Acl, AskedAcl, Permission};
use orcas_s3::documents::{BucketDocument, OwnershipControls};
use orcas_s3::headers::bucket_arn;
use orcas_s3::{ErrorCode, S3Error};

/// Which list counts for an action, and what it must give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByAcl {
    Bucket(Permission),
    Object(Permission),
}

impl ByAcl {
    /// `None` for an action that no list can allow. `changes_list`: the operation is PutObjectAcl; others that need its
    /// action write an object.
    pub fn of(action: &str, changes_list: bool) -> Option<Self> {
        let found = match action.strip_prefix("s3:")? {
            "ListBucket" | "ListBucketVersions" | "ListBucketMultipartUploads" => Self::Bucket(Permission::Read),
            "PutObject" | "DeleteObject" | "AbortMultipartUpload" | "ListMultipartUploadParts" => {
                Self::Bucket(Permission::Write)
            }
            "GetBucketAcl" => Self::Bucket(Permission::ReadAcp),
            "PutBucketAcl" => Self::Bucket(Permission::WriteAcp),
            "GetObject" | "GetObjectVersion" => Self::Object(Permission::Read),
            "GetObjectAcl" | "GetObjectVersionAcl" => Self::Object(Permission::ReadAcp),
            "PutObjectAcl" | "PutObjectVersionAcl" if changes_list => Self::Object(Permission::WriteAcp),
            "PutObjectAcl" => Self::Bucket(Permission::Write),
            _ => return None,
        };
        Some(found)
    }
}

impl AccessControl {
    /// The access control list of a bucket. Where lists are disabled, everything belongs to the owner of the bucket
    /// alone.
    pub fn acl_of_bucket(&self, bucket: &Bucket) -> Arc<Acl> {
        let stored = document(&self.engine, bucket.id).filter(|_| !disables_acls(&self.engine, bucket.id));
        stored.unwrap_or_else(|| Arc::new(Acl::private(owner_of(bucket))))
    }

    /// The access control list of an object, or of one to be, as of [`Self::acl_of_bucket`]. One that cannot be read
    /// gives nobody anything.
    pub fn acl_of(&self, bucket: &Bucket, attributes: &Attributes) -> Acl {
        match attributes.acl.as_ref().filter(|_| !disables_acls(&self.engine, bucket.id)) {
            None => Acl::private(owner_of(bucket)),
            Some(stored) => {
                Acl::load(stored).unwrap_or_else(|| Acl { owner: owner_of(bucket).to_owned(), grants: Vec::new() })
            }
        }
    }

    /// The canonical id of the owner of an object, or of the version with this id. May read the index.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn owner_in(&self, bucket: &Bucket, key: &Bytes, id: Option<VersionId>) -> Result<String, Problem> {
        let found = match id {
            None => self.engine.object_in(bucket, key)?,
            Some(id) => self.engine.version_in(bucket, key, id)?,
        };
        Ok(found.map_or_else(
            || owner_of(bucket).to_owned(),
            |found| self.acl_of(bucket, &found.object.version.attributes).owner,
        ))
    }

    /// Whether the list of a bucket is public.
    pub fn is_public_by_acl(&self, bucket: &Bucket) -> bool {
        !disables_acls(&self.engine, bucket.id)
            && self.acl_of_bucket(bucket).is_public()
            && !self.public_access_block(bucket.id).ignores_public_acls
    }

    /// Refuses to disable lists where that of the bucket gives others something.
    ///
    /// # Errors
    /// `InvalidBucketAclWithObjectOwnership`
    pub fn check_ownership(&self, bucket: &Bucket, document: &[u8]) -> Result<(), S3Error> {
        let disables = OwnershipControls::load(document).is_some_and(|controls| controls.disable_acls);
        if disables && *self.acl_of_bucket(bucket) != Acl::private(owner_of(bucket)) {
            return Err(ErrorCode::InvalidBucketAclWithObjectOwnership.into());
        }
        Ok(())
    }

    /// Refuses a public list, if the public access block of the bucket forbids that.
    ///
    /// # Errors
    /// `AccessDenied`
    pub fn check_public(&self, bucket: &Bucket, acl: &Acl) -> Result<(), S3Error> {
        if acl.is_public() && self.public_access_block(bucket.id).blocks_public_acls {
            let message = format!(
                "Public access control lists are prevented by the BlockPublicAcls setting in S3 Block Public Access of {}{}.",
                bucket_arn(std::str::from_utf8(&bucket.name).unwrap_or_default()),
                self.blocked_by_operator()
            );
            return Err(S3Error::with(ErrorCode::AccessDenied, message));
        }
        Ok(())
    }
}

impl RequestContext<'_> {
    /// The list of the object that is written, as it is stored.
    ///
    /// # Errors
    /// Those of the headers, `AccessControlListNotSupported` where lists are disabled, and `AccessDenied` for a public list
    /// where those are blocked.
    pub fn sent_acl(&self, bucket: &Bucket) -> Result<Option<Bytes>, S3Error> {
        let asked = self.asked_acl()?;
        let controls = document::<OwnershipControls>(&self.access.engine, bucket.id);
        let Some(controls) = controls.filter(|controls| !controls.disable_acls) else {
            return match asked {
                Some(asked) if !asked.is_harmless(owner_of(bucket)) => {
                    Err(ErrorCode::AccessControlListNotSupported.into())
                }
                _ => Ok(None),
            };
        };
        let shares = matches!(&asked, Some(AskedAcl::Canned(name)) if name == "bucket-owner-full-control");
        let owner = match self.requester.is_anonymous() || controls.prefers_bucket_owner && shares {
            true => owner_of(bucket),
            false => &self.requester.owner,
        };
        let acl = match asked {
            Some(asked) => asked.resolved(owner, owner_of(bucket))?,
            None => Acl::private(owner),
        };
        self.access.check_public(bucket, &acl)?;
        Ok(acl.stored(owner_of(bucket)).map(Bytes::from))
    }

    /// What the headers ask for.
    ///
    /// # Errors
    /// As of [`AskedAcl::of_headers`].
    pub fn asked_acl(&self) -> Result<Option<AskedAcl>, S3Error> {
        let identities = self.access.identities();
        AskedAcl::of_headers(self.headers(), &|id| identities.knows_owner(id))
    }
}

/// The canonical id of the owner of a bucket.
pub fn owner_of(bucket: &Bucket) -> &str {
    std::str::from_utf8(&bucket.owner).unwrap_or_default()
}
