//! RenameObject: an object gets another name within its bucket. With a client token, it is renamed only once.

use std::sync::Arc;

use crate::resources::conditions::of_rename;
use crate::resources::sources::{Moving, Source};
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_decide::{Intent, Outcome, RequestToken, SourceKind};
use orcas_requests::request::{Operation, Progress, TypedRequest, wrong_outcome};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::S3Error;
use orcas_s3::conditions::{OF_A_RENAME, ReadConditions, RenameCondition};
use orcas_s3::extensions::single;
use orcas_s3::support::Understood;

const CLIENT_TOKEN: &str = "x-amz-client-token";
/// Characters of a token.
const TOKEN_LEN_MAX: usize = 64;

pub struct RenameObject {
    moving: Moving,
    token: Option<RequestToken>,
}

impl Operation for RenameObject {
    const UNDERSTOOD: Understood = Understood {
        refused: &[
            "x-amz-copy-source",
            "x-amz-copy-source-range",
            "x-amz-move-source",
            "x-amz-metadata-directive",
            "x-amz-tagging-directive",
            "x-amz-checksum-algorithm",
        ],
        ..Understood::NOTHING
    };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let source = Source::new(context, ReadConditions::of_rename_source(context.headers()))?;
        let precondition = of_rename(&RenameCondition::parse(context.headers())?);
        let moving = Moving::of(context, source, precondition)?;
        let token = request_token(context, &moving)?;
        Ok(Self { moving, token })
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        let Self { moving, token } = &request.input;
        let moved = moving.decided(&request.services.access, SourceKind::Rename)?;
        let intent = match *token {
            Some(token) => Intent::MoveOnce { moved, token },
            None => Intent::MoveObject(moved),
        };
        Ok(request.submit(intent))
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        // Done: it was renamed by an earlier request with the same token.
        let (Outcome::Put(_) | Outcome::Done) = outcome else { return Err(wrong_outcome()) };
        Ok(request.succeeded(HeaderBlock::new()))
    }
}

/// The token of a request, which counts for its sender and its bucket, and the digest of what it asks for.
fn request_token(context: &RequestContext<'_>, moving: &Moving) -> Result<Option<RequestToken>, S3Error> {
    let Some(token) = single(context.headers(), CLIENT_TOKEN)? else { return Ok(None) };
    if token.is_empty() || token.len() > TOKEN_LEN_MAX || !token.iter().all(u8::is_ascii_graphic) {
        let message = "A client token has 1 to 64 printable ASCII characters";
        return Err(S3Error::argument(message, CLIENT_TOKEN, token));
    }
    let bucket = moving.bucket.id.0.to_le_bytes();
    let token = digest([&context.requester.id[..], &bucket, token]);
    let conditions = OF_A_RENAME.iter().flat_map(|name| {
        let values = context.headers().get_all(name);
        std::iter::once(name.as_bytes()).chain(values)
    });
    let names = [&moving.key[..], moving.source.name.bucket.as_bytes(), &moving.source.name.key];
    Ok(Some(RequestToken { token, request: digest(names.into_iter().chain(conditions)) }))
}

/// The digest of the values and their lengths, so that no two lists have the same bytes.
fn digest<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for value in values {
        hasher.update(&(value.len() as u64).to_le_bytes()).update(value);
    }
    hasher.finalize().into()
}
