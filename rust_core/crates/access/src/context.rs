//! What a policy may ask about a request.
//!
//! What it asks about the principal, and whose the resource is, is answered from the request itself and never from the
//! context, which may have it from a client.

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

/// What is to be authorized.
pub struct Request<'a> {
    pub principal: &'a Principal,
    /// Such as `s3:GetObject`.
    pub action: &'a str,
    /// As an ARN.
    pub resource: &'a [u8],
    /// The account that owns the resource.
    pub resource_account: &'a str,
    pub context: &'a dyn Context,
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
