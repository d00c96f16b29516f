//! PostObject: a browser uploads a file with a form. Its fields stand for the headers of PutObject.

use crate::objects::put_object::{PutObject, stored_headers};
use crate::resources::attributes::{check_vouched, sent_attributes};
use crate::resources::encryption::chosen_encryption;
use crate::resources::expiration::show_expiration;
use crate::resources::metadata::stored;
use crate::resources::pages::shown_name;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::form_file::FileFrame;
use orcas_bodies::intake::DeclaredBody;
use orcas_bodies::problem::Problem;
use orcas_decide::Outcome;
use orcas_http::percent_encode_into;
use orcas_requests::body_plan::BodyPlan;
use orcas_requests::request::{Operation, TypedRequest, Upload, wrong_outcome};
use orcas_responses::response::Response;
use orcas_s3::S3Error;
use orcas_s3::conditions::WriteCondition;
use orcas_s3::form::{Form, SuccessAction, redirection};
use orcas_s3::metadata::ObjectHeaders as Sent;
use orcas_s3::support::{OF_AN_OBJECT, Understood};
use orcas_s3::xml::results;

pub struct PostObject {
    put: PutObject,
    frame: FileFrame,
    action: SuccessAction,
    /// The address of the object.
    location: String,
}

impl PostObject {
    /// Which headers the fields of a form can stand for.
    pub const FIELDS: Understood = Understood {
        refused: &[
            "x-amz-content-sha256",
            "x-amz-copy-source",
            "x-amz-decoded-content-length",
            "x-amz-move-source",
            "x-amz-rename-source",
            "x-amz-trailer",
        ],
        ..Self::UNDERSTOOD
    };

    /// Reads a form whose policy allows it. The headers of `context` are those that the fields stand for; `host` is the
    /// host of the request.
    pub fn read(context: &RequestContext<'_>, form: &Form, frame: FileFrame, host: &[u8]) -> Result<Self, Problem> {
        let (bucket, key) = context.object()?;
        let headers = stored(Sent::of_form(context.headers())?);
        let (attributes, chosen) = (sent_attributes(context, &bucket)?, chosen_encryption(context, bucket.id)?);
        let path = context.head.path;
        let mut address =
            [context.ingress.scheme().as_bytes(), b"://", host, path.strip_suffix(b"/").unwrap_or(path), b"/"].concat();
        percent_encode_into(&mut address, &key, false);
        let location = String::from_utf8_lossy(&address).into_owned();
        let action = SuccessAction::of(form);
        let condition = WriteCondition::Always;
        let (offset, modified_ms, is_sigv4) = (None, None, context.is_sigv4());
        let put = PutObject { bucket, key, condition, headers, attributes, chosen, offset, modified_ms, is_sigv4 };
        Ok(Self { put, frame, action, location })
    }
}

impl Operation for PostObject {
    const UNDERSTOOD: Understood = Understood { attributes: OF_AN_OBJECT, ..Understood::NOTHING };

    /// The signature of a form is in the form.
    fn parse(_: &RequestContext<'_>) -> Result<Self, Problem> {
        let message = "Only one auth mechanism allowed; a form is signed in its fields";
        Err(S3Error::argument(message, "Authorization", b"").into())
    }

    fn body(&self, context: &RequestContext<'_>) -> Result<BodyPlan, Problem> {
        let declared = DeclaredBody::of_file(context.headers(), self.frame.length)?;
        let declared = Box::new(declared.keeping_sha256(self.put.bucket.settings.keep_sha256));
        check_vouched(&self.put.attributes, &self.put.bucket, &declared)?;
        let whole = self.frame.length <= context.access.options.max_batch_write_file_size;
        Ok(if whole { BodyPlan::Whole(declared) } else { BodyPlan::Stream(declared) })
    }

    fn frame(&self) -> Option<&FileFrame> {
        Some(&self.frame)
    }

    fn upload(&self) -> Option<&dyn Upload> {
        Some(&self.put)
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Put(put) = outcome else { return Err(wrong_outcome()) };
        let Self { put: input @ PutObject { bucket, key, .. }, action, location, .. } = &request.input;
        let mut headers = stored_headers(&request.services, &put, input.chosen.key.as_ref());
        show_expiration(&request.services.engine, &mut headers, || input.expiring(&put));
        match action {
            SuccessAction::Redirect(url) => {
                let mut etag = Vec::new();
                put.etag.write_hex(&mut etag);
                headers.push("location", &redirection(url, shown_name(bucket, &request.requester), key, &etag));
                Ok(request.envelope.empty(303, headers))
            }
            SuccessAction::Empty(status) => {
                headers.push("location", location.as_bytes());
                Ok(request.envelope.empty(*status, headers))
            }
            SuccessAction::Document => {
                headers.push("location", location.as_bytes());
                let document = results::post_response(location, shown_name(bucket, &request.requester), key, &put.etag);
                Ok(request.envelope.document(201, headers, document))
            }
        }
    }
}
