//! The website configuration of a bucket: reading and writing its document, and where it sends a request.
//!
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/WebsiteHosting.html>

mod page;
mod redirect;
#[cfg(test)]
mod tests;

pub use page::{error_headers, error_page, no_page};
pub use redirect::{Asked, Redirection};

use super::configurations::document as written;
use crate::errors::{ErrorCode, S3Error};
use crate::requests::target::KEY_LEN_MAX;
use crate::xml::XmlWriter;
use crate::xml::parse::{Element, document, malformed};

const ROOT: &str = "WebsiteConfiguration";
const RULES_MAX: usize = 50;
/// Bytes of a host name, with a port and a path.
const HOST_LEN_MAX: usize = 1024;

/// The website of a bucket: pages, or a redirection of all requests.
#[derive(Debug, PartialEq, Eq)]
pub enum Website {
    /// Sends every request to another host.
    Elsewhere(Elsewhere),
    Pages(Pages),
}

#[derive(Debug, PartialEq, Eq)]
pub struct Elsewhere {
    host: String,
    protocol: Option<Protocol>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Pages {
    /// The name that completes a key that is empty or ends with `/`.
    index: String,
    /// The object that is sent where another is missing.
    error: Option<String>,
    rules: Vec<Rule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http,
    Https,
}

#[derive(Debug, PartialEq, Eq)]
struct Rule {
    /// The key begins with this.
    prefix: Option<String>,
    /// The answer would be this error.
    status: Option<u16>,
    protocol: Option<Protocol>,
    host: Option<String>,
    key: Option<NewKey>,
    /// The status code of the redirection.
    code: Option<u16>,
}

#[derive(Debug, PartialEq, Eq)]
enum NewKey {
    /// Takes the place of the prefix of the condition.
    Prefix(String),
    Whole(String),
}

impl Protocol {
    fn parse(text: &str) -> Result<Self, S3Error> {
        match text {
            "http" => Ok(Self::Http),
            "https" => Ok(Self::Https),
            _ => Err(invalid(
                "Invalid protocol, protocol can be http or https. If not defined the protocol will be selected \
                 automatically.",
            )),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

impl Website {
    /// Reads a WebsiteConfiguration document.
    ///
    /// # Errors
    /// `MalformedXML`; `InvalidArgument` and `InvalidRequest` for values that S3 does not support.
    pub fn parse(body: &[u8]) -> Result<Self, S3Error> {
        let root = document(body, ROOT)?;
        let fields = Fields::of(&root, &["IndexDocument", "ErrorDocument", "RedirectAllRequestsTo", "RoutingRules"])?;
        if let Some(element) = fields.get("RedirectAllRequestsTo") {
            if root.children.len() > 1 {
                let message = "RedirectAllRequestsTo cannot be provided in conjunction with other Routing Rules.";
                return Err(S3Error::argument(message, "RedirectAllRequestsTo", b"not null"));
            }
            return Elsewhere::parse(element).map(Self::Elsewhere);
        }
        let Some(index) = fields.get("IndexDocument") else {
            let message = "A value for IndexDocument Suffix must be provided if RedirectAllRequestsTo is empty";
            return Err(S3Error::argument(message, "IndexDocument", b"null"));
        };
        let error = fields.get("ErrorDocument").map(error_key).transpose()?;
        let rules = fields.get("RoutingRules").map(routing_rules).transpose()?.unwrap_or_default();
        Ok(Self::Pages(Pages { index: index_suffix(index)?, error, rules }))
    }

    /// The document, as it is stored and read.
    pub fn document(&self) -> Vec<u8> {
        written(ROOT, |xml| match self {
            Self::Elsewhere(Elsewhere { host, protocol }) => {
                xml.open("RedirectAllRequestsTo");
                xml.text("HostName", host.as_bytes());
                protocol.iter().for_each(|protocol| xml.plain("Protocol", protocol.name()));
                xml.close("RedirectAllRequestsTo");
            }
            Self::Pages(pages) => pages.write(xml),
        })
    }
}

impl Elsewhere {
    fn parse(element: &Element) -> Result<Self, S3Error> {
        let fields = Fields::of(element, &["HostName", "Protocol"])?;
        let host = checked_host(fields.text("HostName")?.ok_or_else(malformed)?)?;
        Ok(Self { host, protocol: fields.text("Protocol")?.map(Protocol::parse).transpose()? })
    }
}

impl Pages {
    /// The key of the page that is asked for by `key`.
    pub fn page(&self, key: &[u8]) -> Vec<u8> {
        let mut page = key.to_vec();
        if key.is_empty() || key.ends_with(b"/") {
            page.extend_from_slice(self.index.as_bytes());
        }
        page
    }

    /// The page that `key` would be, if it is a directory named without its slash.
    pub fn page_of_directory(&self, key: &[u8]) -> Option<Vec<u8>> {
        let named = !key.is_empty() && !key.ends_with(b"/");
        named.then(|| [key, b"/", self.index.as_bytes()].concat())
    }

    /// The key of the error document.
    pub fn error_document(&self) -> Option<&[u8]> {
        self.error.as_deref().map(str::as_bytes)
    }

    fn write(&self, xml: &mut XmlWriter) {
        xml.open("IndexDocument");
        xml.text("Suffix", self.index.as_bytes());
        xml.close("IndexDocument");
        if let Some(key) = &self.error {
            xml.open("ErrorDocument");
            xml.text("Key", key.as_bytes());
            xml.close("ErrorDocument");
        }
        if !self.rules.is_empty() {
            xml.open("RoutingRules");
            self.rules.iter().for_each(|rule| rule.write(xml));
            xml.close("RoutingRules");
        }
    }
}

impl Rule {
    fn parse(element: &Element) -> Result<Self, S3Error> {
        if element.name != "RoutingRule" {
            return Err(malformed());
        }
        let parts = Fields::of(element, &["Condition", "Redirect"])?;
        let (prefix, status) = parts.get("Condition").map(condition).transpose()?.unwrap_or_default();
        let redirect = parts.get("Redirect").ok_or_else(malformed)?;
        let names = ["Protocol", "HostName", "ReplaceKeyPrefixWith", "ReplaceKeyWith", "HttpRedirectCode"];
        let fields = Fields::of(redirect, &names)?;
        if redirect.children.is_empty() {
            return Err(malformed());
        }
        let key = match (fields.text("ReplaceKeyPrefixWith")?, fields.text("ReplaceKeyWith")?) {
            (Some(_), Some(_)) => {
                return Err(invalid("You can only define ReplaceKeyPrefix or ReplaceKey but not both."));
            }
            (Some(prefix), None) => Some(NewKey::Prefix(checked_key(prefix)?)),
            (None, Some(key)) => Some(NewKey::Whole(checked_key(key)?)),
            (None, None) => None,
        };
        Ok(Self {
            prefix,
            status,
            protocol: fields.text("Protocol")?.map(Protocol::parse).transpose()?,
            host: fields.text("HostName")?.map(checked_host).transpose()?,
            key,
            code: fields.text("HttpRedirectCode")?.map(redirect_code).transpose()?,
        })
    }

    fn write(&self, xml: &mut XmlWriter) {
        xml.open("RoutingRule");
        if self.prefix.is_some() || self.status.is_some() {
            xml.open("Condition");
            self.status.iter().for_each(|status| xml.number("HttpErrorCodeReturnedEquals", u64::from(*status)));
            self.prefix.iter().for_each(|prefix| xml.text("KeyPrefixEquals", prefix.as_bytes()));
            xml.close("Condition");
        }
        xml.open("Redirect");
        self.host.iter().for_each(|host| xml.text("HostName", host.as_bytes()));
        self.code.iter().for_each(|code| xml.number("HttpRedirectCode", u64::from(*code)));
        self.protocol.iter().for_each(|protocol| xml.plain("Protocol", protocol.name()));
        match &self.key {
            Some(NewKey::Prefix(prefix)) => xml.text("ReplaceKeyPrefixWith", prefix.as_bytes()),
            Some(NewKey::Whole(key)) => xml.text("ReplaceKeyWith", key.as_bytes()),
            None => {}
        }
        xml.close("Redirect");
        xml.close("RoutingRule");
    }
}

/// The children of an element, each at most once and with one of the known names.
struct Fields<'a>(&'a Element);

impl<'a> Fields<'a> {
    fn of(element: &'a Element, known: &[&str]) -> Result<Self, S3Error> {
        let names = || element.children.iter().map(|child| child.name.as_str());
        let once = |name: &str| names().filter(|other| *other == name).count() == 1;
        let fits = element.text.trim().is_empty() && names().all(|name| known.contains(&name) && once(name));
        if fits { Ok(Self(element)) } else { Err(malformed()) }
    }

    fn get(&self, name: &str) -> Option<&'a Element> {
        self.0.children.iter().find(|child| child.name == name)
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>, S3Error> {
        self.get(name).map(|child| child.leaf().map(str::trim)).transpose()
    }
}

fn index_suffix(element: &Element) -> Result<String, S3Error> {
    let suffix = Fields::of(element, &["Suffix"])?.text("Suffix")?.unwrap_or_default();
    if suffix.is_empty() || suffix.contains('/') || suffix.len() > KEY_LEN_MAX {
        let message = "The IndexDocument Suffix is not well formed";
        return Err(S3Error::argument(message, "IndexDocument", suffix.as_bytes()));
    }
    Ok(suffix.to_owned())
}

fn error_key(element: &Element) -> Result<String, S3Error> {
    let key = Fields::of(element, &["Key"])?.text("Key")?.unwrap_or_default();
    if key.is_empty() {
        return Err(S3Error::argument("The ErrorDocument Key is not well formed", "ErrorDocument", b""));
    }
    checked_key(key)
}

fn routing_rules(element: &Element) -> Result<Vec<Rule>, S3Error> {
    match element.children.len() {
        0 => Err(malformed()),
        1..=RULES_MAX => element.children.iter().map(Rule::parse).collect(),
        more => Err(invalid(format!(
            "{more} routing rules provided, the number of routing rules in a website configuration is limited to \
             {RULES_MAX}."
        ))),
    }
}

/// The prefix and the status of a condition.
fn condition(element: &Element) -> Result<(Option<String>, Option<u16>), S3Error> {
    let fields = Fields::of(element, &["HttpErrorCodeReturnedEquals", "KeyPrefixEquals"])?;
    if element.children.is_empty() {
        return Err(invalid(
            "Condition cannot be empty. To redirect all requests without a condition, the condition element shouldn't \
             be present.",
        ));
    }
    let status = |text: &str| match number(text)? {
        status @ (400..=417 | 500..=505) => Ok(status),
        _ => Err(invalid(format!("The provided HTTP error code ({text}) is not valid. Valid codes are 4XX or 5XX."))),
    };
    let prefix = fields.text("KeyPrefixEquals")?.map(checked_key).transpose()?;
    Ok((prefix, fields.text("HttpErrorCodeReturnedEquals")?.map(status).transpose()?))
}

/// S3 takes fewer codes than its messages say.
fn redirect_code(text: &str) -> Result<u16, S3Error> {
    match number(text)? {
        code @ (301..=305 | 307 | 308) => Ok(code),
        _ => Err(invalid(format!(
            "The provided HTTP redirect code ({text}) is not valid. Valid codes are 3XX except 300."
        ))),
    }
}

/// A status; one that is too large for any is `u16::MAX`.
fn number(text: &str) -> Result<u16, S3Error> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { Ok(text.parse().unwrap_or(u16::MAX)) } else { Err(malformed()) }
}

/// A host name, which may have a port and, as on S3, a path.
fn checked_host(host: &str) -> Result<String, S3Error> {
    let begins = host.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:/~%".contains(&byte);
    if begins && host.bytes().all(fits) && host.len() <= HOST_LEN_MAX {
        return Ok(host.to_owned());
    }
    Err(S3Error::argument("The HostName is not well formed", "HostName", host.as_bytes()))
}

fn checked_key(key: &str) -> Result<String, S3Error> {
    if key.len() <= KEY_LEN_MAX { Ok(key.to_owned()) } else { Err(ErrorCode::KeyTooLongError.into()) }
}

fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> S3Error {
    S3Error::with(ErrorCode::InvalidRequest, message)
}
