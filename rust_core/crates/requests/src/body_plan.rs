//! How the body of a request is received.

use orcas_admission::request_context::RequestContext;
use orcas_bodies::intake::DeclaredBody;
use orcas_bodies::problem::Problem;
use orcas_http::Headers;
use orcas_s3::operations::RequestBody;
use orcas_s3::xml::DOCUMENT_LEN_MAX;
use orcas_s3::{ErrorCode, Operation};
use orcas_sigv4::PayloadMode;

pub enum BodyPlan {
    /// The operation has none; what the client sends nevertheless stays unread.
    None,
    /// Collected in memory: small objects and documents.
    Whole(Box<DeclaredBody>),
    /// Checked and stored piece by piece.
    Stream(Box<DeclaredBody>),
}

impl BodyPlan {
    /// The document of a request, if its operation has one.
    pub fn of_operation(operation: Operation, headers: &Headers<'_>, payload: &PayloadMode) -> Result<Self, Problem> {
        let digested = match operation.spec().body {
            Some(RequestBody::Document) => false,
            Some(RequestBody::DigestedDocument) => true,
            Some(RequestBody::Content) | None => return Ok(Self::None),
        };
        let plan = Self::document(DeclaredBody::of_document(headers, payload)?)?;
        if let (true, Self::Whole(declared)) = (digested, &plan) {
            declared.require_integrity_header()?;
        }
        Ok(plan)
    }

    /// A body that becomes content of the store.
    pub fn of_content(context: &RequestContext<'_>, keep_sha256: bool) -> Result<Self, Problem> {
        let declared = DeclaredBody::parse(context.headers(), context.payload)?.keeping_sha256(keep_sha256);
        let whole = declared.length <= context.access.options.max_batch_write_file_size;
        let declared = Box::new(declared);
        Ok(if whole { Self::Whole(declared) } else { Self::Stream(declared) })
    }

    /// A document, which is collected.
    pub fn document(declared: DeclaredBody) -> Result<Self, Problem> {
        if declared.length > DOCUMENT_LEN_MAX as u64 {
            return Err(ErrorCode::MaxMessageLengthExceeded.into());
        }
        Ok(Self::Whole(Box::new(declared)))
    }

    /// Bytes on the wire that a collected body may have; 0 for the others.
    pub fn whole_max(&self) -> u64 {
        match self {
            Self::Whole(declared) => declared.wire_max(),
            Self::None | Self::Stream(_) => 0,
        }
    }
}
