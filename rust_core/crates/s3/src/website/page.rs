//! The page that a browser gets for an error of a website.

use crate::errors::S3Error;

/// Bytes of a value that the page repeats.
const VALUE_LEN_MAX: usize = 1024;

/// The HTML document about `error`.
pub fn error_page(error: &S3Error, request_id: &str, host_id: &str) -> Vec<u8> {
    let title = format!("{} {}", error.code.status(), reason(error.code.status()));
    let mut page = format!("<html>\n<head><title>{title}</title></head>\n<body>\n<h1>{title}</h1>\n<ul>\n");
    item(&mut page, "Code", error.code.as_str().as_bytes());
    item(&mut page, "Message", error.message.as_bytes());
    error.extra.iter().for_each(|(name, value)| item(&mut page, name, value));
    item(&mut page, "RequestId", request_id.as_bytes());
    item(&mut page, "HostId", host_id.as_bytes());
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
