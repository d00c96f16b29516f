//! The CORS configuration of a bucket: reading and writing its document, and which rule applies to a request.
//!
//! A rule applies if it allows the origin, the method and every header asked for. Patterns have at most one `*`. Values
//! of a request are repeated in the answer only if they are printable.
//!
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/ManageCorsUsing.html>

use super::configurations::document as written;
use crate::errors::{ErrorCode, S3Error};
use crate::xml::parse::{Element, document, malformed};
use orcas_http::{Headers, is_token};

const RULES_MAX: usize = 100;
/// Characters of the ID of a rule.
const ID_LEN_MAX: usize = 255;
/// Headers that a preflight may ask for. A limit, because each is compared with every pattern of every rule.
const ASKED_HEADERS_MAX: usize = 100;
/// The methods that a rule can allow.
const METHODS: [&str; 5] = ["GET", "PUT", "HEAD", "POST", "DELETE"];
/// The headers on which an answer depends when the bucket has rules.
pub const VARY: &str = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method";

#[derive(Debug, PartialEq, Eq)]
pub struct CorsConfiguration {
    rules: Vec<Rule>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Rule {
    id: Option<String>,
    origins: Vec<String>,
    methods: Vec<String>,
    headers: Vec<String>,
    exposed: Vec<String>,
    /// Seconds.
    /// S3 takes negative numbers too.
    max_age: Option<i32>,
}

/// The origin, method and headers of a cross-origin request.
#[derive(Clone, Copy, Debug)]
pub struct CrossOrigin<'a> {
    pub origin: &'a [u8],
    pub method: &'a [u8],
    /// The value of `Access-Control-Request-Headers`.
    pub headers: Option<&'a [u8]>,
}

/// Header lines: names and values.
pub type Lines = Vec<(&'static str, Vec<u8>)>;

impl<'a> CrossOrigin<'a> {
    /// `method` is that of the request. What a preflight would ask for takes its place.
    pub fn of_request(origin: &'a [u8], method: &'a [u8], headers: &Headers<'a>) -> Self {
        Self {
            origin,
            method: headers.get("access-control-request-method").unwrap_or(method),
            headers: headers.get("access-control-request-headers"),
        }
    }

    /// What a preflight asks.
    ///
    /// # Errors
    /// `BadRequest` without an origin, for a method that no rule can allow, and for what is no name of a header.
    pub fn of_preflight(headers: &Headers<'a>) -> Result<Self, S3Error> {
        let bad = |message: String| S3Error::with(ErrorCode::BadRequest, message);
        let origin = headers.get("origin").filter(|origin| !origin.trim_ascii().is_empty());
        let origin = origin.ok_or_else(|| bad("Insufficient information. Origin request header needed.".into()))?;
        let method = headers.get("access-control-request-method");
        let known = method.filter(|method| METHODS.iter().any(|known| known.as_bytes() == *method));
        let method = known.ok_or_else(|| {
            let shown = method.map_or("null".into(), String::from_utf8_lossy);
            bad(format!("Invalid Access-Control-Request-Method: {shown}"))
        })?;
        let asked = Self { origin, method, headers: headers.get("access-control-request-headers") };
        match asked.header_names().find(|name| !is_token(name.trim_ascii())) {
            None => Ok(asked),
            Some(name) => {
                let shown = String::from_utf8_lossy(name);
                Err(bad(format!("Access-Control-Request-Headers \"{shown}\" contains invalid character.")))
            }
        }
    }

    /// The names of the headers asked for, as they were sent, blanks included.
    fn header_names(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let list = self.headers.unwrap_or_default();
        list.split(|byte| *byte == b',').filter(|name| !name.trim_ascii().is_empty())
    }

    /// The headers asked for, in lower case; `None` for a list that no rule allows.
    fn asked_headers(&self) -> Option<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        for name in self.header_names().map(<[u8]>::trim_ascii) {
            if names.len() == ASKED_HEADERS_MAX || !is_token(name) {
                return None;
            }
            names.push(name.to_ascii_lowercase());
        }
        Some(names)
    }
}

impl CorsConfiguration {
    /// Reads a CORSConfiguration document.
    ///
    /// # Errors
    /// `MalformedXML`, and `InvalidRequest` for more than 100 rules and for values that S3 does not support.
    pub fn parse(body: &[u8]) -> Result<Self, S3Error> {
        let root = document(body, "CORSConfiguration")?;
        if root.children.is_empty() {
            return Err(malformed());
        }
        if root.children.len() > RULES_MAX {
            return Err(invalid(format!(
                "The number of CORS rules should not exceed allowed limit of {RULES_MAX} rules."
            )));
        }
        Ok(Self { rules: root.children.iter().map(Rule::parse).collect::<Result<_, _>>()? })
    }

    /// The document, as it is stored and read.
    pub fn document(&self) -> Vec<u8> {
        written("CORSConfiguration", |xml| {
            for rule in &self.rules {
                xml.open("CORSRule");
                rule.id.iter().for_each(|id| xml.text("ID", id.as_bytes()));
                for (name, values) in [
                    ("AllowedHeader", &rule.headers),
                    ("AllowedMethod", &rule.methods),
                    ("AllowedOrigin", &rule.origins),
                    ("ExposeHeader", &rule.exposed),
                ] {
                    values.iter().for_each(|value| xml.text(name, value.as_bytes()));
                }
                rule.max_age.iter().for_each(|seconds| xml.text("MaxAgeSeconds", seconds.to_string().as_bytes()));
                xml.close("CORSRule");
            }
        })
    }

    /// The header lines of the answer to a request; `None` if no rule applies to it.
    pub fn lines(&self, asked: &CrossOrigin<'_>) -> Option<Lines> {
        let headers = asked.asked_headers()?;
        if !asked.origin.iter().all(|byte| matches!(byte, b'!'..=b'~')) {
            return None;
        }
        let (rule, pattern) = self.rules.iter().find_map(|rule| Some((rule, rule.allows(asked, &headers)?)))?;
        let mut lines: Lines = Vec::with_capacity(7);
        if pattern == "*" {
            lines.push(("access-control-allow-origin", b"*".to_vec()));
        } else {
            lines.push(("access-control-allow-origin", asked.origin.to_vec()));
            lines.push(("access-control-allow-credentials", b"true".to_vec()));
        }
        lines.push(("access-control-allow-methods", rule.methods.join(", ").into_bytes()));
        if !headers.is_empty() {
            lines.push(("access-control-allow-headers", headers.join(&b", "[..])));
        }
        if !rule.exposed.is_empty() {
            lines.push(("access-control-expose-headers", rule.exposed.join(", ").into_bytes()));
        }
        lines.extend(rule.max_age.map(|seconds| ("access-control-max-age", seconds.to_string().into_bytes())));
        lines.push(("vary", VARY.as_bytes().to_vec()));
        Some(lines)
    }
}

impl Rule {
    fn parse(element: &Element) -> Result<Self, S3Error> {
        if element.name != "CORSRule" {
            return Err(malformed());
        }
        let mut rule = Self::default();
        for child in &element.children {
            let value = child.leaf()?.trim();
            match child.name.as_str() {
                "ID" if rule.id.is_none() => rule.id = Some(checked_id(value)?),
                "AllowedOrigin" => rule.origins.push(checked_pattern("AllowedOrigin", value)?),
                "AllowedMethod" => rule.methods.push(checked_method(value)?),
                "AllowedHeader" => rule.headers.push(checked_pattern("AllowedHeader", value)?),
                "ExposeHeader" => rule.exposed.push(checked_exposed(value)?),
                "MaxAgeSeconds" if rule.max_age.is_none() => {
                    rule.max_age = Some(value.parse().map_err(|_| malformed())?);
                }
                _ => return Err(malformed()),
            }
        }
        if rule.origins.is_empty() || rule.methods.is_empty() {
            return Err(malformed());
        }
        Ok(rule)
    }

    /// The pattern that fits the origin, if the rule applies.
    fn allows(&self, asked: &CrossOrigin<'_>, headers: &[Vec<u8>]) -> Option<&str> {
        let origin = self.origins.iter().find(|pattern| fits(pattern, asked.origin, <[u8]>::eq))?;
        let method = self.methods.iter().any(|method| method.as_bytes() == asked.method);
        let allowed =
            |name: &Vec<u8>| self.headers.iter().any(|pattern| fits(pattern, name, <[u8]>::eq_ignore_ascii_case));
        (method && headers.iter().all(allowed)).then_some(origin)
    }
}

/// Whether `text` is `pattern`, in which one `*` stands for any characters.
fn fits(pattern: &str, text: &[u8], same: fn(&[u8], &[u8]) -> bool) -> bool {
    let Some((start, end)) = pattern.split_once('*') else { return same(pattern.as_bytes(), text) };
    let (start, end) = (start.as_bytes(), end.as_bytes());
    text.len() >= start.len() + end.len()
        && same(start, &text[..start.len()])
        && same(end, &text[text.len() - end.len()..])
}

fn invalid(message: String) -> S3Error {
    S3Error::with(ErrorCode::InvalidRequest, message)
}

fn checked_id(id: &str) -> Result<String, S3Error> {
    if id.chars().count() > ID_LEN_MAX {
        let message = format!("The ID value can be up to {ID_LEN_MAX} characters long. Invalid ID is \"{id}\"");
        return Err(invalid(message));
    }
    Ok(id.to_owned())
}

fn checked_pattern(name: &str, value: &str) -> Result<String, S3Error> {
    // S3 takes an origin that no request has.
    if value.is_empty() && name != "AllowedOrigin" {
        return Err(malformed());
    }
    if value.matches('*').count() > 1 {
        return Err(invalid(format!("{name} \"{value}\" can not have more than one wildcard.")));
    }
    Ok(value.to_owned())
}

fn checked_method(value: &str) -> Result<String, S3Error> {
    if !METHODS.contains(&value) {
        let message = format!("Found unsupported HTTP method in CORS config. Unsupported method is {value}");
        return Err(invalid(message));
    }
    Ok(value.to_owned())
}

fn checked_exposed(value: &str) -> Result<String, S3Error> {
    if value.is_empty() {
        return Err(malformed());
    }
    if value.contains('*') {
        let message = format!(
            "ExposeHeader \"{value}\" contains wildcard. We currently do not support wildcard for ExposeHeader."
        );
        return Err(invalid(message));
    }
    if !is_token(value.as_bytes()) {
        return Err(invalid(format!("ExposeHeader \"{value}\" contains invalid character.")));
    }
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests;
