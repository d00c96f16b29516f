//! Where a website sends a request: the rules that apply to it, and the location that they make of its key.
//!
//! A location on the same host is relative, so that it is right whatever stands between client and server.

use super::{Elsewhere, NewKey, Pages, Protocol, Rule};
use orcas_http::percent_encode_into;

const MOVED: u16 = 301;
const FOUND: u16 = 302;

/// A request to a website.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The key, decoded. Empty for the start page.
    pub key: &'a [u8],
    /// The Host header, which names a bucket.
    pub host: &'a [u8],
    /// The part of the path before the key that names nothing, as it was sent.
    pub mount: &'a [u8],
}

/// An answer that sends the client elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection {
    pub status: u16,
    pub location: Vec<u8>,
}

impl Redirection {
    /// A redirect to the location that is stored with an object.
    pub fn of_object(asked: &Asked<'_>, location: &[u8]) -> Self {
        let mount = if location.starts_with(b"/") { asked.mount } else { b"" };
        Self { status: MOVED, location: [mount, location].concat() }
    }

    /// A redirect to the same key with a slash behind it.
    pub fn to_directory(asked: &Asked<'_>) -> Self {
        let location = asked.location(None, None, "", &[asked.key, b"/"].concat());
        Self { status: FOUND, location }
    }
}

impl Elsewhere {
    pub fn redirection(&self, asked: &Asked<'_>) -> Redirection {
        Redirection { status: MOVED, location: asked.location(self.protocol, Some(&self.host), "", asked.key) }
    }
}

impl Pages {
    /// The redirection of the first rule that applies, before the object is looked for (`status` is `None`) or after
    /// that has ended in an error.
    pub fn redirection(&self, asked: &Asked<'_>, status: Option<u16>) -> Option<Redirection> {
        self.rules.iter().find(|rule| rule.applies(asked.key, status)).map(|rule| rule.redirection(asked))
    }
}

impl Rule {
    fn applies(&self, key: &[u8], status: Option<u16>) -> bool {
        self.status == status && key.starts_with(self.prefix_bytes())
    }

    fn prefix_bytes(&self) -> &[u8] {
        self.prefix.as_deref().unwrap_or_default().as_bytes()
    }

    fn redirection(&self, asked: &Asked<'_>) -> Redirection {
        let (text, key) = match &self.key {
            None => ("", asked.key),
            Some(NewKey::Whole(text)) => (&text[..], &b""[..]),
            Some(NewKey::Prefix(text)) => (&text[..], asked.key.strip_prefix(self.prefix_bytes()).unwrap_or(asked.key)),
        };
        let location = asked.location(self.protocol, self.host.as_deref(), text, key);
        Redirection { status: self.code.unwrap_or(MOVED), location }
    }
}

impl Asked<'_> {
    /// The location of `text`, which a rule says, and `key` behind it: on `host`, or else on this one. The text may have a
    /// query or a fragment, so it is taken as it is, but for what a URL must not have.
    fn location(&self, protocol: Option<Protocol>, host: Option<&str>, text: &str, key: &[u8]) -> Vec<u8> {
        let mut location = Vec::with_capacity(64 + key.len());
        if let Some(protocol) = protocol {
            location.extend_from_slice(protocol.name().as_bytes());
            location.push(b':');
        }
        match host {
            Some(host) => {
                location.extend_from_slice(b"//");
                location.extend_from_slice(host.strip_suffix('/').unwrap_or(host).as_bytes());
            }
            None => {
                if protocol.is_some() {
                    location.extend_from_slice(b"//");
                    location.extend_from_slice(self.host.trim_ascii());
                }
                location.extend_from_slice(self.mount);
            }
        }
        location.push(b'/');
        // Two slashes at the beginning of a relative location would name a host.
        let (text, key) = match (text.strip_prefix('/'), key.strip_prefix(b"/")) {
            (Some(rest), _) => (rest, key),
            (None, Some(rest)) if text.is_empty() => ("", rest),
            _ => return Self::append(location, text, key),
        };
        location.extend_from_slice(b"%2F");
        Self::append(location, text, key)
    }

    fn append(mut location: Vec<u8>, text: &str, key: &[u8]) -> Vec<u8> {
        for byte in text.bytes() {
            if byte.is_ascii_graphic() && !b"\"<>\\".contains(&byte) {
                location.push(byte);
            } else {
                percent_encode_into(&mut location, &[byte], true);
            }
        }
        percent_encode_into(&mut location, key, true);
        location
    }
}
