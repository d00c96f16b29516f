//! PostObject: a browser uploads a file with a form. Its fields stand for the headers of PutObject.

use super::put_object::{PutObject, stored_headers};
use crate::attributes::{check_vouched, sent, stored_tags};
use crate::body_plan::BodyPlan;
use crate::form_file::FileFrame;
use crate::intake::DeclaredBody;
use crate::metadata::stored;
use crate::pages::name_of;
use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Upload, wrong_outcome};
use crate::response::Response;
use orcas_decide::Outcome;
use orcas_http::percent_encode_into;
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
        attributes: OF_AN_OBJECT,
        refused: &[
            "x-amz-content-sha256",
            "x-amz-copy-source",
            "x-amz-decoded-content-length",
            "x-amz-move-source",
            "x-amz-rename-source",
            "x-amz-trailer",
        ],
        ..Understood::NOTHING
    };

    /// Reads a form whose policy allows it. The headers of `reading` are those that the fields stand for; `host` is the
    /// host of the request.
    pub fn read(reading: &Reading<'_>, form: &Form, frame: FileFrame, host: &[u8]) -> Result<Self, Problem> {
        let (bucket, key) = reading.object()?;
        let headers = stored(Sent::of_form(reading.headers())?);
        let (mut attributes, chosen) = (sent(reading.headers())?, reading.chosen_encryption(bucket.id)?);
        if let Some(tags) = form.tags()? {
            attributes.tags = stored_tags(tags);
        }
        let path = reading.head.path;
        let mut address = [b"http://", host, path.strip_suffix(b"/").unwrap_or(path), b"/"].concat();
        percent_encode_into(&mut address, &key, false);
        let location = String::from_utf8_lossy(&address).into_owned();
        let action = SuccessAction::of(form);
        let condition = WriteCondition::Always;
        let (offset, four) = (None, reading.is_version_four());
        let put = PutObject { bucket, key, condition, headers, attributes, chosen, offset, four };
        Ok(Self { put, frame, action, location })
    }
}

impl Operation for PostObject {
    /// The signature of a form is in the form.
    fn parse(_: &Reading<'_>) -> Result<Self, Problem> {
        let message = "Only one auth mechanism allowed; a form is signed in its fields";
        Err(S3Error::argument(message, "Authorization", b"").into())
    }

    fn body(&self, reading: &Reading<'_>) -> Result<BodyPlan, Problem> {
        let declared = DeclaredBody::of_file(reading.headers(), self.frame.length)?;
        let declared = Box::new(declared.keeping_sha256(self.put.bucket.settings.keep_sha256));
        check_vouched(&self.put.attributes, &self.put.bucket, &declared)?;
        let whole = self.frame.length <= reading.lane.options.whole_body_max;
        Ok(if whole { BodyPlan::Whole(declared) } else { BodyPlan::Stream(declared) })
    }

    fn frame(&self) -> Option<&FileFrame> {
        Some(&self.frame)
    }

    fn upload(&self) -> Option<&dyn Upload> {
        Some(&self.put)
    }

    fn answer(call: &Call<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Put(put) = outcome else { return Err(wrong_outcome()) };
        let Self { put: input @ PutObject { bucket, key, .. }, action, location, .. } = &call.input;
        let mut headers = stored_headers(&call.lane, &put, input.chosen.key.as_ref());
        call.lane.show_expiration(&mut headers, || input.expiring(&put));
        match action {
            SuccessAction::Redirect(url) => {
                let mut etag = Vec::new();
                put.etag.write_hex(&mut etag);
                headers.push("location", &redirection(url, name_of(bucket), key, &etag));
                Ok(call.envelope.empty(303, headers))
            }
            SuccessAction::Empty(status) => {
                headers.push("location", location.as_bytes());
                Ok(call.envelope.empty(*status, headers))
            }
            SuccessAction::Document => {
                headers.push("location", location.as_bytes());
                let document = results::post_response(location, name_of(bucket), key, &put.etag);
                Ok(call.envelope.document(201, headers, document))
            }
        }
    }
}
