//! Who sends a request, and whom a statement of a bucket's policy means.

use crate::error::{Fault, PolicyKind};
use crate::json::Json;

/// How the sender of a request is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Anonymous,
    /// The root user of an account.
    Root,
    User,
    /// A session of a role.
    Role,
    /// A service, or an identity of a provider: in policies of roles.
    Service,
    Federated,
}

impl Kind {
    /// The name as `aws:PrincipalType` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "Anonymous",
            Self::Root => "Account",
            Self::User => "User",
            Self::Role => "AssumedRole",
            Self::Service => "Service",
            Self::Federated => "FederatedUser",
        }
    }
}

/// The sender of a request. What is unknown, or does not exist, is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub kind: Kind,
    /// Twelve digits.
    pub account: String,
    /// The account as S3 names it: 64 hexadecimal digits.
    pub canonical_id: String,
    /// The ARN of the sender: of a session that of the session. The name of a service or a provider.
    pub arn: String,
    /// The user or role whose policies count. The same as `arn` but for sessions.
    pub identity_arn: String,
    pub unique_id: String,
    pub name: String,
    pub tags: Vec<(String, String)>,
    /// When its temporary credentials were issued, as of ISO 8601.
    pub issued: String,
    /// The provider that knows who it is.
    pub provider: String,
}

impl Principal {
    pub fn anonymous() -> Self {
        let empty = String::new;
        Self {
            kind: Kind::Anonymous,
            account: empty(),
            canonical_id: empty(),
            arn: empty(),
            identity_arn: empty(),
            unique_id: empty(),
            name: empty(),
            tags: Vec::new(),
            issued: empty(),
            provider: empty(),
        }
    }

    /// One that is in no session. Nothing is taken from its ARN, in which a path may have any text.
    pub fn new(kind: Kind, account: String, arn: String, name: String) -> Self {
        Self { kind, account, identity_arn: arn.clone(), arn, name, ..Self::anonymous() }
    }

    /// Whether it is a session of a role, or of a user who has given itself to another one, which has a name of its own beside that of its role or user.
    pub(crate) fn is_session(&self) -> bool {
        self.arn != self.identity_arn
    }
}

/// How closely a statement names a principal. What it allows depends on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// By its account, which passes on what it was given.
    Account,
    /// By the role or the user that the session is of.
    Identity,
    /// By its own ARN, as a user.
    User,
    /// The principal itself: as everybody, or by the ARN of the session.
    Itself,
}

/// The element Principal or NotPrincipal.
#[derive(Debug)]
pub struct Principals {
    negated: bool,
    everybody: bool,
    /// Numbers of accounts.
    accounts: Vec<String>,
    canonical_ids: Vec<String>,
    arns: Vec<String>,
    services: Vec<String>,
    providers: Vec<String>,
}

impl Principals {
    pub fn parse(value: &Json, negated: bool, kind: PolicyKind) -> Result<Self, Fault> {
        let mut all = Self {
            negated,
            everybody: false,
            accounts: Vec::new(),
            canonical_ids: Vec::new(),
            arns: Vec::new(),
            services: Vec::new(),
            providers: Vec::new(),
        };
        let invalid = || Fault::Principal(String::new());
        match value {
            Json::String(text) if text == "*" => all.everybody = true,
            Json::Object(members) if !members.is_empty() => {
                for (name, value) in members {
                    let values = value.strings().filter(|values| !values.is_empty()).ok_or_else(invalid)?;
                    for value in values {
                        all.add(name, value, kind).ok_or_else(|| Fault::Principal(value.to_owned()))?;
                    }
                }
            }
            _ => return Err(invalid()),
        }
        Ok(all)
    }

    fn add(&mut self, name: &str, value: &str, kind: PolicyKind) -> Option<()> {
        let list = match name {
            "AWS" if value == "*" => {
                self.everybody = true;
                return Some(());
            }
            "AWS" => {
                if let Some(account) = account_of(value) {
                    self.accounts.push(account.to_owned());
                    return Some(());
                }
                is_identity(value).then_some(&mut self.arns)?
            }
            "CanonicalUser" => {
                let is_id = value.len() == 64 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
                is_id.then_some(&mut self.canonical_ids)?
            }
            "Service" => &mut self.services,
            "Federated" if kind == PolicyKind::Trust => &mut self.providers,
            _ => return None,
        };
        list.push(value.to_owned());
        Some(())
    }

    /// How the statement names `principal`; `None` if it does not mean it. `has_boundary`: NotPrincipal excepts nobody who
    /// has a boundary, and only those that it names with their account, their role or user, and their session.
    pub fn names(&self, principal: &Principal, has_boundary: bool) -> Option<Named> {
        if !self.negated {
            return self.listed(principal);
        }
        let excepted = self.everybody
            || match principal.kind {
                Kind::Anonymous => false,
                Kind::Service | Kind::Federated => self.listed(principal).is_some(),
                Kind::Root => self.lists_account(principal),
                Kind::User | Kind::Role => {
                    self.lists_account(principal)
                        && self.arns.contains(&principal.identity_arn)
                        && self.arns.contains(&principal.arn)
                }
            };
        (!excepted || has_boundary).then_some(Named::Itself)
    }

    fn listed(&self, principal: &Principal) -> Option<Named> {
        let has = |list: &[String], value: &str| !value.is_empty() && list.iter().any(|it| it == value);
        if self.everybody {
            return Some(Named::Itself);
        }
        match principal.kind {
            Kind::Anonymous => None,
            Kind::Service => has(&self.services, &principal.arn).then_some(Named::Itself),
            Kind::Federated => has(&self.providers, &principal.arn).then_some(Named::Itself),
            Kind::Root | Kind::User | Kind::Role => {
                if has(&self.arns, &principal.arn) {
                    let session = principal.is_session();
                    return Some(match principal.kind {
                        // A role is named by the role also where no session has a name.
                        Kind::Role if !session => Named::Identity,
                        _ if session => Named::Itself,
                        _ => Named::User,
                    });
                }
                if has(&self.arns, &principal.identity_arn) {
                    return Some(Named::Identity);
                }
                self.lists_account(principal).then_some(Named::Account)
            }
        }
    }

    fn lists_account(&self, principal: &Principal) -> bool {
        let has = |list: &[String], value: &str| !value.is_empty() && list.iter().any(|it| it == value);
        has(&self.accounts, &principal.account) || has(&self.canonical_ids, &principal.canonical_id)
    }

    /// Whether everybody is meant, or everybody but a few.
    pub fn are_public(&self) -> bool {
        self.everybody || self.negated
    }

    /// The accounts, canonical ids and ARNs that it names.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.accounts.iter().chain(&self.canonical_ids).chain(&self.arns).map(String::as_str)
    }
}

/// The account that a principal names as a number or as its root user.
fn account_of(value: &str) -> Option<&str> {
    let inner = value.strip_prefix("arn:aws:iam::").and_then(|rest| rest.strip_suffix(":root"));
    let number = inner.unwrap_or(value);
    (number.len() == 12 && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(number)
}

/// Whether a principal is a user, a role or a session. Wildcards are no part of names.
fn is_identity(arn: &str) -> bool {
    let parts: Vec<&str> = arn.splitn(6, ':').collect();
    let [_, "aws", service, "", account, name] = parts[..] else { return false };
    let kinds: &[&str] = match service {
        "iam" => &["user/", "role/"],
        "sts" => &["assumed-role/", "federated-user/"],
        _ => return false,
    };
    parts[0] == "arn"
        && account_of(account) == Some(account)
        && !name.contains(['*', '?', '$'])
        && kinds.iter().any(|kind| name.strip_prefix(kind).is_some_and(|rest| !rest.is_empty()))
}
