//! Uploads by HTML forms (POST Object): the framing of `multipart/form-data`, the fields before the file, and the policy
//! that allows the upload. Rules of
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-UsingHTTPPOST.html>. Signatures are verified elsewhere.
//!
//! Everything that the form holds besides its file is bounded, and every byte is looked at once or twice.

mod fields;
mod file;
pub(crate) mod json;
mod parameters;
mod policy;
mod upload;

pub use fields::{FieldsReader, Form};
pub use file::{FileDecoder, FileLimits};
pub use parameters::Boundary;
pub use policy::{Policy, SizeRange};
pub use upload::{SuccessAction, check_form_head, redirection};

use super::errors::{ErrorCode, S3Error};

/// Bytes of a form besides the content of its file: the limit of S3.
pub const FORM_DATA_LEN_MAX: usize = 20 * 1024;

/// The error for a form that lacks a field that every upload needs, or has it after the file.
pub fn missing_field(name: &'static str) -> S3Error {
    let message = format!(
        "Bucket POST must contain a field named '{name}'.  If it is specified, please check the order of the fields."
    );
    S3Error::argument(message, name, b"")
}

fn malformed() -> S3Error {
    ErrorCode::MalformedPOSTRequest.into()
}
