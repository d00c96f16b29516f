//! Which requests the application answers: those that are not S3's, and those of S3 for which it has to do something.
//!
//! What is unsure goes to the application, which serves all of S3 as well. Must not know operations by their names.

use http::Method;
use memchr::memmem;
use std::net::IpAddr;

use crate::context::Shared;
use crate::head::Head;
use orcas_http::raw_pairs;
use orcas_s3::target::{hosted_bucket, hosted_website};

const FORM: &[u8] = b"application/x-www-form-urlencoded";

/// Whether the application answers this.
pub fn is_for_application(shared: &Shared, head: &Head, is_held: bool) -> bool {
    is_held && is_known(head.method()) || is_of_application(shared, head)
}

/// Whether this is about the node that has got it, whoever is the owner of the log.
pub fn is_of_node(shared: &Shared, head: &Head) -> bool {
    is_below(head.path(), &shared.options.of_node) && !names_bucket(shared, head.host())
}

/// Whether only the application can answer this.
pub fn is_of_application(shared: &Shared, head: &Head) -> bool {
    let options = &shared.options;
    if !is_known(head.method()) {
        return false;
    }
    let query = head.query().as_bytes();
    let is_reserved = || is_below(head.path(), &options.reserved) && !names_bucket(shared, head.host());
    let is_query = || head.path() == "/" && is_query(head, query) && !names_bucket(shared, head.host());
    let is_visit = || head.path() == "/" && query.is_empty() && is_browser(head);
    let listens = || {
        head.method() == Method::GET
            && memmem::find(query, b"events").is_some()
            && raw_pairs(query).any(|(name, _)| name == b"events")
    };
    let is_foreign =
        || options.own_names.as_ref().is_some_and(|names| !is_own(head.host(), names, options.website_host.as_deref()));
    is_reserved() || is_query() || is_visit() || listens() || is_foreign()
}

/// Whether a path is below one of these, or one of those that end without a slash.
fn is_below(path: &str, reserved: &[String]) -> bool {
    reserved.iter().any(|it| {
        let rest = path.strip_prefix(it.as_str());
        rest.is_some_and(|rest| it.ends_with('/') || rest.is_empty() || rest.starts_with('/'))
    })
}

/// Whether the request is for a service that is neither S3 nor one of the application: it says so in a form that the
/// clients of that service understand.
pub fn is_for_another_service(head: &Head) -> bool {
    if !is_known(head.method()) {
        return false;
    }
    match head.header("authorization") {
        Some(value) if value.starts_with(b"AWS4-") => {
            let scope = value[..memchr::memchr(b',', value).unwrap_or(value.len())].trim_ascii_end();
            let service =
                scope.strip_suffix(b"/aws4_request").and_then(|rest| rest.rsplit(|&byte| byte == b'/').next());
            service.is_some_and(|service| service != b"s3")
        }
        Some(_) => false,
        None => head.header("x-amz-target").is_some(),
    }
}

/// Whether the parser of the application knows a method: those of HTTP. It answers others with a text that is not an
/// error document, and nothing there has them; the gateway refuses them.
fn is_known(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET
            | Method::HEAD
            | Method::POST
            | Method::PUT
            | Method::DELETE
            | Method::OPTIONS
            | Method::PATCH
            | Method::TRACE
    )
}

/// Whether Host names a bucket or its website, so that what is reserved elsewhere is a key of it.
fn names_bucket(shared: &Shared, host: &[u8]) -> bool {
    let website = shared.options.website_host.as_deref();
    website.is_some_and(|website| hosted_website(host, website).is_some())
        || hosted_bucket(host, &shared.options.domains).is_some()
}

/// Whether a request to `/` is one of the query protocol, of IAM or STS. It may change something, whatever its method.
pub fn is_query(head: &Head, query: &[u8]) -> bool {
    if !query.is_empty() {
        return matches!(*head.method(), Method::GET | Method::POST)
            && query.split(|&byte| byte == b'&').any(|part| part.starts_with(b"Action="));
    }
    head.method() == Method::POST
        && head.parts().headers.get_all("content-type").iter().any(|value| {
            let kind = value.as_bytes().split(|&byte| byte == b';').next().unwrap_or_default();
            kind.trim_ascii().eq_ignore_ascii_case(FORM)
        })
}

/// Whether somebody just opened the address in a browser.
fn is_browser(head: &Head) -> bool {
    head.method() == Method::GET
        && head.header("authorization").is_none()
        && head
            .parts()
            .headers
            .get_all("accept")
            .iter()
            .any(|value| memmem::find(value.as_bytes(), b"text/html").is_some())
}

/// Whether a host is of this machine or one of `names`, or below one.
fn is_own(host: &[u8], names: &[String], website: Option<&str>) -> bool {
    let Ok(host) = std::str::from_utf8(host.trim_ascii()) else { return false };
    let mut name = host;
    if let Some((before, port)) = host.rsplit_once(':')
        && port.bytes().all(|byte| byte.is_ascii_digit())
        && !host.ends_with(']')
    {
        name = before;
    }
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return address.is_loopback();
    }
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let mut own = names.iter().map(String::as_str).chain(["localhost"]).chain(website);
    own.any(|own| name.strip_suffix(own).is_some_and(|before| before.is_empty() || before.ends_with('.')))
}
