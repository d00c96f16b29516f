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
    pub root: &'a [u8],
}

/// An answer that sends the client elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection {
    pub status: u16,
    pub location: Vec<u8>,
}

impl Redirection {
    /// To the location that is stored with an object.
    pub fn of_object(asked: &Asked<'_>, location: &[u8]) -> Self {
        let root = if location.starts_with(b"/") { asked.root } else { b"" };
        Self { status: MOVED, location: [root, location].concat() }
    }

    /// To the same key with a slash behind it.
    pub fn to_directory(asked: &Asked<'_>) -> Self {
        let location = asked.location(None, None, &[asked.key, b"/"].concat());
        Self { status: FOUND, location }
    }
}

impl Elsewhere {
    pub fn redirection(&self, asked: &Asked<'_>) -> Redirection {
        Redirection { status: MOVED, location: asked.location(self.protocol, Some(&self.host), asked.key) }
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
        let key = match &self.key {
            None => asked.key.to_vec(),
            Some(NewKey::Whole(key)) => key.clone().into_bytes(),
            Some(NewKey::Prefix(prefix)) => {
                let rest = asked.key.strip_prefix(self.prefix_bytes()).unwrap_or(asked.key);
                [prefix.as_bytes(), rest].concat()
            }
        };
        let location = asked.location(self.protocol, self.host.as_deref(), &key);
        Redirection { status: self.code.unwrap_or(MOVED), location }
    }
}

impl Asked<'_> {
    /// The location of `key`: on `host`, or else on this one.
    fn location(&self, protocol: Option<Protocol>, host: Option<&str>, key: &[u8]) -> Vec<u8> {
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
                location.extend_from_slice(self.root);
            }
        }
        location.push(b'/');
        // Two slashes at the beginning of a relative location would name a host.
        let (first, rest) = if key.starts_with(b"/") { (&b"%2F"[..], &key[1..]) } else { (&b""[..], key) };
        location.extend_from_slice(first);
        percent_encode_into(&mut location, rest, true);
        location
    }
}
