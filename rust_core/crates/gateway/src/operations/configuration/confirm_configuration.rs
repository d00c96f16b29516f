//! The operations that write a configuration which is never stored. They accept a write that changes nothing, and
//! refuse every other.

use std::sync::Arc;

use bytes::Bytes;

use crate::admission::request_context::RequestContext;
use crate::buckets::pages::owner_of;
use crate::objects::versions::VersionAddress;
use crate::requests::request::{Operation, PendingRequest, Request as _, Step};
use crate::requests::response::{HeaderBlock, Response};
use orcas_bodies::intake::Digests;
use orcas_bodies::problem::Problem;
use orcas_record::Bucket;
use orcas_s3::ErrorCode;
use orcas_s3::configurations::check_unchanged;
use orcas_s3::support::Understood;

/// Of an object if `OBJECT`, else of a bucket.
pub struct ConfirmConfiguration<const OBJECT: bool> {
    bucket: Arc<Bucket>,
    object: Option<VersionAddress>,
    /// The value of `x-amz-acl`.
    canned_acl: Option<Vec<u8>>,
    /// A removal has no body, and answers 204.
    removes: bool,
}

impl<const OBJECT: bool> Operation for ConfirmConfiguration<OBJECT> {
    const UNDERSTOOD: Understood = Understood { version_id: OBJECT, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let object = if OBJECT { Some(VersionAddress::parse(context)?) } else { None };
        let bucket = match &object {
            Some(object) => Arc::clone(&object.bucket),
            None => context.bucket()?,
        };
        let canned_acl = context.headers().get("x-amz-acl").map(<[u8]>::to_vec);
        Ok(Self { bucket, object, canned_acl, removes: context.head.method == b"DELETE" })
    }

    fn begin(pending: &Arc<PendingRequest<Self>>, slot: u32) -> Result<Step, Problem> {
        Ok(pending.later(slot, |pending| pending.confirm(&[])))
    }

    fn take(
        pending: &Arc<PendingRequest<Self>>,
        content: Bytes,
        _digests: &Digests,
        slot: u32,
    ) -> Result<Step, Problem> {
        Ok(pending.later(slot, move |pending| pending.confirm(&content)))
    }
}

impl<const OBJECT: bool> PendingRequest<ConfirmConfiguration<OBJECT>> {
    fn confirm(&self, body: &[u8]) -> Result<Response, Problem> {
        let ConfirmConfiguration { bucket, object, canned_acl, removes } = &self.input;
        let confirmed = || {
            check_unchanged(self.operation(), body, canned_acl.as_deref(), &owner_of(bucket)).map_err(|error| {
                let disabled = error.code == ErrorCode::AccessControlListNotSupported;
                // Where the bucket would allow it, it is this server that has no other ACLs.
                if disabled && !self.gateway.disables_acls(bucket.id) {
                    self.operation().not_implemented()
                } else {
                    error
                }
            })?;
            Ok(self.envelope.empty(if *removes { 204 } else { 200 }, HeaderBlock::new()))
        };
        match object {
            Some(object) => object.find(&self.gateway, &self.envelope, |_| confirmed()),
            None => confirmed(),
        }
    }
}
