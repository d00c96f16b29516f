//! Access control lists of buckets and objects: what requests ask for, how they are stored, and what they give.
//!
//! Source: "Access control list (ACL) overview" in the user guide of Amazon S3. Grantees by email address are refused,
//! as on S3 since October 2025.

use super::configurations::document;
use crate::errors::{ErrorCode, S3Error};
use crate::xml::lists::{Owner, write_owner};
use crate::xml::parse::{self, Element};
use orcas_http::Headers;

/// Grants of one list, as on S3.
const GRANTS_MAX: usize = 100;
const GROUPS: [(&str, Grantee); 3] = [
    ("http://acs.amazonaws.com/groups/global/AllUsers", Grantee::Everybody),
    ("http://acs.amazonaws.com/groups/global/AuthenticatedUsers", Grantee::Signers),
    ("http://acs.amazonaws.com/groups/s3/LogDelivery", Grantee::LogDelivery),
];
/// The headers that name grantees.
pub const GRANT_HEADERS: [(&str, Permission); 5] = [
    ("x-amz-grant-read", Permission::Read),
    ("x-amz-grant-write", Permission::Write),
    ("x-amz-grant-read-acp", Permission::ReadAcp),
    ("x-amz-grant-write-acp", Permission::WriteAcp),
    ("x-amz-grant-full-control", Permission::FullControl),
];
const CANNED: &str = "x-amz-acl";

/// The owner of a bucket or an object, and the grants to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    /// A canonical id.
    pub owner: String,
    pub grants: Vec<Grant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub grantee: Grantee,
    pub permission: Permission,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grantee {
    /// The account with this canonical id.
    Account(String),
    Everybody,
    /// Everybody who signs requests.
    Signers,
    /// The service that delivers access logs.
    LogDelivery,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    FullControl,
    Write,
    WriteAcp,
    Read,
    ReadAcp,
}

impl Permission {
    const ALL: [(&str, Self); 5] = [
        ("FULL_CONTROL", Self::FullControl),
        ("WRITE", Self::Write),
        ("WRITE_ACP", Self::WriteAcp),
        ("READ", Self::Read),
        ("READ_ACP", Self::ReadAcp),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, it)| *it == self).map_or("FULL_CONTROL", |(name, _)| name)
    }
}

/// The ACL that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskedAcl {
    /// A name that S3 has for a common list.
    Canned(String),
    Grants(Vec<Grant>),
    /// A whole list, from the body.
    List(Acl),
}

impl AskedAcl {
    /// What the headers ask for, if anything. `knows`: whether an account has this canonical id.
    ///
    /// Errors: `InvalidRequest` for both kinds of headers, `InvalidArgument` for unknown names and ids,
    /// `UnresolvableGrantByEmailAddress`.
    pub fn of_headers(headers: &Headers<'_>, knows: &dyn Fn(&str) -> bool) -> Result<Option<Self>, S3Error> {
        let canned = headers.get(CANNED).map(<[u8]>::trim_ascii);
        if canned.is_some() && GRANT_HEADERS.iter().any(|(name, _)| headers.get(name).is_some()) {
            let message = "Specifying both Canned ACLs and Header Grants is not allowed";
            return Err(S3Error::with(ErrorCode::InvalidRequest, message));
        }
        let mut grants = Vec::new();
        for (name, permission) in GRANT_HEADERS {
            let Some(value) = headers.get(name) else { continue };
            for part in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|part| !part.is_empty()) {
                let invalid = || S3Error::argument("Argument format not recognized", name, value);
                let text = std::str::from_utf8(part).map_err(|_| invalid())?;
                let (kind, who) = text.split_once('=').ok_or_else(invalid)?;
                let grantee = match (kind.trim().to_ascii_lowercase().as_str(), who.trim().trim_matches('"')) {
                    ("id", id) => account(id, knows, "id")?,
                    ("uri", uri) => group(uri, "uri")?,
                    ("emailaddress", _) => return Err(ErrorCode::UnresolvableGrantByEmailAddress.into()),
                    _ => return Err(invalid()),
                };
                grants.push(Grant { grantee, permission });
            }
        }
        match canned {
            Some(name) => Ok(Some(Self::Canned(String::from_utf8_lossy(name).into_owned()))),
            None if grants.is_empty() => Ok(None),
            None => limited(grants).map(|grants| Some(Self::Grants(grants))),
        }
    }

    /// What a document AccessControlPolicy asks for.
    ///
    /// Errors: `MalformedACLError`, and after it, for unknown ids and groups as [`Self::of_headers`].
    pub fn of_document(body: &[u8], knows: &dyn Fn(&str) -> bool) -> Result<Self, S3Error> {
        Acl::read(body, knows).map(Self::List).map_err(|error| match error.code {
            ErrorCode::MalformedXML => ErrorCode::MalformedACLError.into(),
            _ => error,
        })
    }

    /// Whether it gives nobody but the owner of the bucket anything, as far as its text alone says.
    pub fn is_harmless(&self, bucket_owner: &str) -> bool {
        match self {
            Self::Canned(name) => matches!(name.as_str(), "private" | "bucket-owner-full-control"),
            Self::Grants(grants) => grants.iter().all(|grant| gives_all(grant, bucket_owner)),
            Self::List(acl) => {
                acl.owner == bucket_owner
                    && !acl.grants.is_empty()
                    && acl.grants.iter().all(|grant| gives_all(grant, bucket_owner))
            }
        }
    }

    /// The list that is meant, of what `owner` owns in a bucket of `bucket_owner`.
    ///
    /// Errors: `AccessDenied` for a list that names another owner.
    pub fn resolved(self, owner: &str, bucket_owner: &str) -> Result<Acl, S3Error> {
        let name = match self {
            Self::List(acl) if acl.owner != owner => return Err(ErrorCode::AccessDenied.into()),
            Self::List(acl) => return Ok(acl),
            Self::Grants(grants) => return Ok(Acl { owner: owner.to_owned(), grants }),
            Self::Canned(name) => name,
        };
        let mut acl = Acl::private(owner);
        let mut give = |grantee, permission| acl.grants.push(Grant { grantee, permission });
        match name.as_str() {
            "public-read" => give(Grantee::Everybody, Permission::Read),
            "public-read-write" => {
                give(Grantee::Everybody, Permission::Read);
                give(Grantee::Everybody, Permission::Write);
            }
            "authenticated-read" => give(Grantee::Signers, Permission::Read),
            "bucket-owner-read" if owner != bucket_owner => {
                give(Grantee::Account(bucket_owner.to_owned()), Permission::Read);
            }
            "bucket-owner-full-control" if owner != bucket_owner => {
                give(Grantee::Account(bucket_owner.to_owned()), Permission::FullControl);
            }
            "log-delivery-write" => {
                give(Grantee::LogDelivery, Permission::Write);
                give(Grantee::LogDelivery, Permission::ReadAcp);
            }
            _ => {}
        }
        Ok(acl)
    }
}

impl Acl {
    /// Full control to the owner, and nothing to others.
    pub fn private(owner: &str) -> Self {
        let full = Grant { grantee: Grantee::Account(owner.to_owned()), permission: Permission::FullControl };
        Self { owner: owner.to_owned(), grants: vec![full] }
    }

    /// Reads a list as stored. `None` for one of an object that is not readable any more.
    pub fn load(stored: &[u8]) -> Option<Self> {
        Self::read(stored, &|_| true).ok()
    }

    /// The list for [`Self::load`]; `None` for that of most: private, and the owner's of the bucket.
    pub fn stored(&self, bucket_owner: &str) -> Option<Vec<u8>> {
        (*self != Self::private(bucket_owner)).then(|| self.document(&|_| None))
    }

    /// The list as answers show it. `name`: the name of the account with this canonical id.
    pub fn document(&self, name: &dyn Fn(&str) -> Option<String>) -> Vec<u8> {
        document("AccessControlPolicy", |xml| {
            match name(&self.owner) {
                Some(display) => write_owner(xml, "Owner", &Owner { id: &self.owner, display_name: &display }),
                None => {
                    xml.open("Owner");
                    xml.text("ID", self.owner.as_bytes());
                    xml.close("Owner");
                }
            }
            xml.open("AccessControlList");
            let is_account = |grant: &&Grant| matches!(grant.grantee, Grantee::Account(_));
            let (accounts, groups): (Vec<_>, Vec<_>) = self.grants.iter().partition(is_account);
            for Grant { grantee, permission } in groups.into_iter().chain(accounts) {
                xml.open("Grant");
                if let Grantee::Account(id) = grantee {
                    xml.open_grantee("CanonicalUser");
                    xml.text("ID", id.as_bytes());
                    if let Some(display) = name(id) {
                        xml.text("DisplayName", display.as_bytes());
                    }
                } else {
                    xml.open_grantee("Group");
                    let uri = GROUPS.iter().find(|(_, group)| group == grantee).map_or("", |(uri, _)| uri);
                    xml.text("URI", uri.as_bytes());
                }
                xml.close("Grantee");
                xml.plain("Permission", permission.name());
                xml.close("Grant");
            }
            xml.close("AccessControlList");
        })
    }

    /// Whether the account with this canonical id is given something, by name. The owner may always read and write the
    /// list itself.
    pub fn gives_account(&self, id: &str, wanted: Permission) -> bool {
        let of_owner = matches!(wanted, Permission::ReadAcp | Permission::WriteAcp) && id == self.owner;
        of_owner || self.gives(wanted, |grantee| matches!(grantee, Grantee::Account(it) if it == id))
    }

    /// Whether everybody is given something, or, if the request is signed, everybody who signs.
    pub fn gives_everybody(&self, wanted: Permission, signed: bool) -> bool {
        self.gives(wanted, |grantee| match grantee {
            Grantee::Everybody => true,
            Grantee::Signers => signed,
            Grantee::Account(_) | Grantee::LogDelivery => false,
        })
    }

    /// Whether the list is public: it gives something to everybody, or to everybody who signs.
    pub fn is_public(&self) -> bool {
        self.grants.iter().any(|grant| matches!(grant.grantee, Grantee::Everybody | Grantee::Signers))
    }

    fn gives(&self, wanted: Permission, to: impl Fn(&Grantee) -> bool) -> bool {
        let suffices = |permission| permission == wanted || permission == Permission::FullControl;
        self.grants.iter().any(|grant| suffices(grant.permission) && to(&grant.grantee))
    }

    fn read(body: &[u8], knows: &dyn Fn(&str) -> bool) -> Result<Self, S3Error> {
        let root = parse::document(body, "AccessControlPolicy")?;
        let owner = leaf(child(&root, "Owner")?, "ID")?;
        let list = child(&root, "AccessControlList")?;
        // S3 checks the form of the whole document before it looks anybody up.
        let formed = list.children.iter().map(formed_grant).collect::<Result<Vec<_>, _>>()?;
        account(&owner, knows, "CanonicalUser/ID")?;
        let grants = formed.into_iter().map(|(named, permission)| {
            let grantee = match named {
                Named::Id(id) => account(&id, knows, "CanonicalUser/ID")?,
                Named::Group(uri) => group(&uri, "Group/URI")?,
                Named::Email => return Err(ErrorCode::UnresolvableGrantByEmailAddress.into()),
            };
            Ok(Grant { grantee, permission })
        });
        let grants = grants.collect::<Result<Vec<_>, S3Error>>()?;
        Ok(Self { owner, grants: limited(grants)? })
    }
}

/// How a document names a grantee.
enum Named {
    Id(String),
    Group(String),
    Email,
}

fn formed_grant(element: &Element) -> Result<(Named, Permission), S3Error> {
    if element.name != "Grant" {
        return Err(parse::malformed());
    }
    let grantee = child(element, "Grantee")?;
    let has = |name| grantee.children.iter().any(|child| child.name == name);
    let written = leaf(element, "Permission")?;
    let permission = Permission::ALL.iter().find(|(name, _)| *name == written).map(|(_, permission)| *permission);
    let named = if has("ID") {
        Named::Id(leaf(grantee, "ID")?)
    } else if has("URI") {
        Named::Group(leaf(grantee, "URI")?)
    } else if has("EmailAddress") {
        Named::Email
    } else {
        return Err(parse::malformed());
    };
    Ok((named, permission.ok_or_else(parse::malformed)?))
}

fn gives_all(grant: &Grant, owner: &str) -> bool {
    grant.permission == Permission::FullControl && matches!(&grant.grantee, Grantee::Account(id) if id == owner)
}

fn limited(grants: Vec<Grant>) -> Result<Vec<Grant>, S3Error> {
    if grants.len() > GRANTS_MAX {
        let message = format!("An ACL may have at most {GRANTS_MAX} grants");
        return Err(S3Error::with(ErrorCode::MalformedACLError, message));
    }
    Ok(grants)
}

/// `argument`: what an error calls it.
fn account(id: &str, knows: &dyn Fn(&str) -> bool, argument: &'static str) -> Result<Grantee, S3Error> {
    if knows(id) {
        Ok(Grantee::Account(id.to_owned()))
    } else {
        Err(S3Error::argument("Invalid id", argument, id.as_bytes()))
    }
}

fn group(uri: &str, argument: &'static str) -> Result<Grantee, S3Error> {
    let known = GROUPS.iter().find(|(known, _)| *known == uri).map(|(_, group)| group.clone());
    known.ok_or_else(|| S3Error::argument("Invalid group uri", argument, uri.as_bytes()))
}

/// The child `name`, which stands there once among others.
fn child<'a>(element: &'a Element, name: &str) -> Result<&'a Element, S3Error> {
    let mut named = element.children.iter().filter(|child| child.name == name);
    match (named.next(), named.next()) {
        (Some(child), None) => Ok(child),
        _ => Err(parse::malformed()),
    }
}

fn leaf(element: &Element, name: &str) -> Result<String, S3Error> {
    Ok(child(element, name)?.leaf()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: &str = "0a";
    const YOU: &str = "0b";

    fn asked(headers: &[(&str, &str)]) -> Result<Option<AskedAcl>, ErrorCode> {
        let list: Vec<(&[u8], &[u8])> =
            headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        AskedAcl::of_headers(&Headers::new(&list), &|id| [ME, YOU].contains(&id)).map_err(|error| error.code)
    }

    fn resolved(headers: &[(&str, &str)], owner: &str) -> Acl {
        asked(headers).unwrap().unwrap().resolved(owner, ME).unwrap()
    }

    #[test]
    fn a_list_is_read_as_it_was_stored() {
        for name in
            ["public-read", "public-read-write", "authenticated-read", "log-delivery-write", "bucket-owner-read"]
        {
            let acl = resolved(&[("x-amz-acl", name)], YOU);
            let stored = acl.stored(ME).unwrap();
            let read = Acl::load(&stored).unwrap();
            assert_eq!((&read.owner, read.grants.len()), (&acl.owner, acl.grants.len()), "{name}");
            assert!(acl.grants.iter().all(|grant| read.grants.contains(grant)), "{name}");
            assert_eq!(read.stored(ME), Some(stored));
        }
        assert_eq!(resolved(&[("x-amz-acl", "private")], ME).stored(ME), None);
        assert!(resolved(&[("x-amz-acl", "private")], YOU).stored(ME).is_some());
        assert_eq!(Acl::load(b"<AccessControlPolicy/>"), None);
    }

    #[test]
    fn grants_give_what_they_name() {
        let acl =
            resolved(&[("x-amz-grant-read", "id=\"0b\", uri=http://acs.amazonaws.com/groups/global/AllUsers")], ME);
        assert!(acl.gives_account(YOU, Permission::Read) && !acl.gives_account(YOU, Permission::ReadAcp));
        assert!(acl.gives_everybody(Permission::Read, false) && acl.is_public());
        // Without a grant, the owner has the list alone.
        assert!(acl.gives_account(ME, Permission::WriteAcp) && !acl.gives_account(ME, Permission::Read));
        let signers = resolved(&[("x-amz-acl", "authenticated-read")], ME);
        assert!(!signers.gives_everybody(Permission::Read, false) && signers.gives_everybody(Permission::Read, true));
        assert!(!resolved(&[("x-amz-acl", "log-delivery-write")], ME).is_public());
        let shared = resolved(&[("x-amz-acl", "bucket-owner-full-control")], YOU);
        assert!(shared.gives_account(ME, Permission::Write) && shared.gives_account(YOU, Permission::Read));
    }

    #[test]
    fn what_cannot_be_given_is_refused() {
        assert_eq!(asked(&[]), Ok(None));
        assert_eq!(asked(&[("x-amz-grant-read", "id=0c")]), Err(ErrorCode::InvalidArgument));
        assert_eq!(asked(&[("x-amz-grant-read", "uri=http://example.com")]), Err(ErrorCode::InvalidArgument));
        assert_eq!(asked(&[("x-amz-grant-read", "nobody")]), Err(ErrorCode::InvalidArgument));
        let email = "emailAddress=\"a@example.com\"";
        assert_eq!(asked(&[("x-amz-grant-read", email)]), Err(ErrorCode::UnresolvableGrantByEmailAddress));
        for named in ["id=0a", "nobody", ""] {
            let both = [("x-amz-acl", "private"), ("x-amz-grant-read", named)];
            assert_eq!(asked(&both), Err(ErrorCode::InvalidRequest), "{named}");
        }
        let many = vec!["id=0a"; GRANTS_MAX + 1].join(",");
        assert_eq!(asked(&[("x-amz-grant-read", &many)]), Err(ErrorCode::MalformedACLError));
    }

    #[test]
    fn documents_are_read_strictly() {
        let read = |body: &str| {
            AskedAcl::of_document(body.as_bytes(), &|id| [ME, YOU].contains(&id)).map_err(|error| error.code)
        };
        let acl = |owner: &str, grant: &str| {
            format!(
                "<AccessControlPolicy><Owner><ID>{owner}</ID></Owner><AccessControlList>{grant}</AccessControlList>\
                 </AccessControlPolicy>"
            )
        };
        let grant = |who: &str, permission: &str| {
            format!("<Grant><Grantee>{who}</Grantee><Permission>{permission}</Permission></Grant>")
        };
        let mine = read(&acl(ME, &grant("<ID>0a</ID>", "FULL_CONTROL"))).unwrap();
        assert!(mine.is_harmless(ME) && !mine.is_harmless(YOU));
        assert_eq!(mine.clone().resolved(YOU, ME).unwrap_err().code, ErrorCode::AccessDenied);
        assert_eq!(mine.resolved(ME, ME), Ok(Acl::private(ME)));
        assert_eq!(read(&acl(ME, "")), Ok(AskedAcl::List(Acl { owner: ME.to_owned(), grants: Vec::new() })));
        for (body, code) in [
            (acl(ME, &grant("<ID>0c</ID>", "READ")), ErrorCode::InvalidArgument),
            (acl(ME, &grant("<URI>x</URI>", "READ")), ErrorCode::InvalidArgument),
            (acl(ME, &grant("<EmailAddress>a@b</EmailAddress>", "READ")), ErrorCode::UnresolvableGrantByEmailAddress),
            (acl("0c", &grant("<ID>0a</ID>", "READ")), ErrorCode::InvalidArgument),
            (acl(ME, &grant("<ID>0a</ID>", "ALL")), ErrorCode::MalformedACLError),
            (acl(ME, &grant("<ID>0c</ID>", "ALL")), ErrorCode::MalformedACLError),
            (acl(ME, &format!("{}<Other/>", grant("<ID>0c</ID>", "READ"))), ErrorCode::MalformedACLError),
            (acl(ME, &grant("", "READ")), ErrorCode::MalformedACLError),
            (acl(ME, "<Other/>"), ErrorCode::MalformedACLError),
            ("<Foreign/>".to_owned(), ErrorCode::MalformedACLError),
            ("<AccessControlPolicy/>".to_owned(), ErrorCode::MalformedACLError),
        ] {
            assert_eq!(read(&body), Err(code), "{body}");
        }
    }
}
