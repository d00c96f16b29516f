//! What a policy may ask about a request.
//!
//! What it asks about the principal, and whose the resource is, is answered from the request itself and never from the
//! context, which may have it from a client.
//!
//! Patterns and conditions count what they cost in steps, so that a decision ends in time, whatever policies apply
//! together, and however long the values of a request are. Once all steps are taken, what is compared does not count.

use std::cell::Cell;

use crate::principals::{Kind, Principal};

/// The other keys of a request. Asked only for keys that a statement names whose principal, action and resource match.
pub trait Context {
    /// Passes each value of `key` to `each`; none if the request has no such key. `key` is in lower case, also the name of a
    /// tag after its slash; names of tags are compared without regard to case.
    fn visit(&self, key: &str, each: &mut dyn FnMut(&str));
}

/// A context without keys.
impl Context for () {
    fn visit(&self, _: &str, _: &mut dyn FnMut(&str)) {}
}

/// The request to be authorized.
pub struct Request<'a> {
    pub principal: &'a Principal,
    /// Such as `s3:GetObject`.
    pub action: &'a str,
    /// The resource as an ARN.
    pub resource: &'a [u8],
    /// The account that owns the resource.
    pub resource_account: &'a str,
    pub context: &'a dyn Context,
}

/// A request while a decision on it is made, and the steps that are left for that.
pub(crate) struct Asked<'a> {
    pub context: &'a dyn Context,
    pub steps: &'a Steps,
}

impl Asked<'_> {
    pub fn visit(&self, key: &str, each: &mut dyn FnMut(&str)) {
        if self.steps.take(VISIT) {
            self.context.visit(key, each);
        }
    }
}

impl Context for Request<'_> {
    fn visit(&self, key: &str, each: &mut dyn FnMut(&str)) {
        let principal = self.principal;
        let value = match key {
            "aws:principalarn" if principal.kind == Kind::Role => &principal.identity_arn,
            "aws:principalarn" => &principal.arn,
            "aws:tokenissuetime" => &principal.issued,
            // As on AWS, only temporary credentials have it. Nobody gets them with a second factor here.
            "aws:multifactorauthpresent" if !principal.issued.is_empty() => "false",
            "aws:federatedprovider" => &principal.provider,
            "aws:principalaccount" => &principal.account,
            "aws:principaltype" if principal.kind != Kind::Role && principal.is_session() => Kind::Federated.name(),
            "aws:principaltype" => principal.kind.name(),
            "aws:userid" if principal.kind == Kind::Anonymous => "anonymous",
            "aws:userid" => &principal.unique_id,
            "aws:username" if principal.kind == Kind::User && !principal.is_session() => &principal.name,
            "aws:username" => "",
            "aws:principalisawsservice" | "aws:viaawsservice" => "false",
            "aws:resourceaccount" | "s3:resourceaccount" => self.resource_account,
            _ => match key.strip_prefix("aws:principaltag/") {
                Some(name) => {
                    let tag = principal.tags.iter().find(|(tag, _)| tag.eq_ignore_ascii_case(name));
                    return tag.iter().for_each(|(_, value)| each(value));
                }
                None => return self.context.visit(key, each),
            },
        };
        if !value.is_empty() {
            each(value);
        }
    }
}

/// Steps of one access decision. A step is at most some 5 ns.
pub(crate) const STEPS_MAX: u32 = 400_000;

/// Steps of all access decisions on a request before it goes on, and of those on each entry of a deletion. Copies with many
/// headers need some ten; together, they must not take the listener's thread for long.
pub const REQUEST_STEPS_MAX: u32 = 4 * STEPS_MAX;

/// Steps of one policy, with the longest name of an object and values as long, that may be put.
pub const POLICY_STEPS_MAX: u32 = 300_000;

/// The longest resource: a bucket's name of 63 bytes, and a key of 1,024.
pub(crate) const TEXT_LEN_MAX: usize = 1_101;

/// To ask for the values of a key.
pub(crate) const VISIT: usize = 32;

/// The steps that are left.
#[derive(Debug)]
pub struct Steps(Cell<u32>);

impl Steps {
    pub fn new(most: u32) -> Self {
        Self(Cell::new(most))
    }

    /// Takes some. False if there are none left: what is compared then does not count.
    pub fn take(&self, count: usize) -> bool {
        let left = self.0.get().saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
        self.0.set(left);
        left > 0
    }

    pub fn left(&self) -> u32 {
        self.0.get()
    }

    pub fn are_spent(&self) -> bool {
        self.0.get() == 0
    }
}

/// Steps to look for a text in so many bytes of another one.
pub(crate) fn of_search(len: usize) -> usize {
    8 + len / 16
}
