//! The page that a browser gets for an error of a website.

use crate::errors::{ErrorCode, S3Error};
use orcas_http::percent_encode_into;

/// Bytes of a value that the page repeats.
const VALUE_LEN_MAX: usize = 1024;

/// The last field of an error whose page says that the error document is missing as well.
const DOCUMENT: &str = "ErrorDocument";

/// There is no page `key`. `document` is the key of the error document, if the bucket is to have one.
pub fn no_page(key: &[u8], document: Option<&[u8]>) -> S3Error {
    let error = S3Error::new(ErrorCode::NoSuchKey).field("Key", key);
    match document {
        Some(document) => error.field(DOCUMENT, document),
        None => error,
    }
}

/// The headers that tell programs what the page, or the error document of the bucket, is about.
pub fn error_headers(error: &S3Error) -> Vec<(&'static str, Vec<u8>)> {
    let mut headers = vec![
        ("x-amz-error-code", error.code.as_str().into()),
        ("x-amz-error-message", error.code.default_message().into()),
    ];
    if let Some((_, key)) = error.extra.iter().find(|(name, _)| *name == "Key") {
        let mut value = Vec::new();
        percent_encode_into(&mut value, key, true);
        headers.push(("x-amz-error-detail-key", value));
    }
    headers
}

/// The HTML document about `error`.
pub fn error_page(error: &S3Error, request_id: &str, host_id: &str) -> Vec<u8> {
    let title = format!("{} {}", error.code.status(), reason(error.code.status()));
    let mut page = format!("<html>\n<head><title>{title}</title></head>\n<body>\n<h1>{title}</h1>\n<ul>\n");
    item(&mut page, "Code", error.code.as_str().as_bytes());
    item(&mut page, "Message", error.message.as_bytes());
    let (fields, document) = error.extra.split_at(error.extra.iter().take_while(|(name, _)| *name != DOCUMENT).count());
    fields.iter().for_each(|(name, value)| item(&mut page, name, value));
    item(&mut page, "RequestId", request_id.as_bytes());
    item(&mut page, "HostId", host_id.as_bytes());
    if let [(_, key), ..] = document {
        page.push_str("</ul>\n<h3>An Error Occurred While Attempting to Retrieve a Custom Error Document</h3>\n<ul>\n");
        item(&mut page, "Code", error.code.as_str().as_bytes());
        item(&mut page, "Message", error.message.as_bytes());
        item(&mut page, "Key", key);
    }
    page.push_str("</ul>\n<hr/>\n</body>\n</html>\n");
    page.into_bytes()
}

fn item(page: &mut String, name: &str, value: &[u8]) {
    page.push_str("<li>");
    page.push_str(name);
    page.push_str(": ");
    for character in String::from_utf8_lossy(&value[..value.len().min(VALUE_LEN_MAX)]).chars() {
        match character {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            '\'' => page.push_str("&#39;"),
            other => page.push(other),
        }
    }
    page.push_str("</li>\n");
}

/// The phrase of a status that errors of a website have.
fn reason(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        412 => "Precondition Failed",
        416 => "Requested Range Not Satisfiable",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Error",
    }
}
