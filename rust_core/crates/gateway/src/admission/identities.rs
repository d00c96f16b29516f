//! Who may sign requests, and who may do what. A snapshot that the control plane replaces as a whole: a request is verified
//! and decided with one, and nothing of an older one counts once the replacement is done. Pure; knows nothing of the store.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use orcas_http::parse_hex;
use orcas_s3::headers::bucket_arn;
use orcas_s3::{ErrorCode, S3Error};
use orcas_sigv4::Credential;

/// Who sent a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Principal {
    /// The identity: 64 hexadecimal digits. Empty without a signature.
    pub owner: String,
    /// The same as bytes, as the log has it. Zeros without a signature.
    pub id: [u8; 32],
    /// The access key that signed. Empty without a signature.
    pub access_key: String,
}

impl Principal {
    fn new(owner: String, access_key: String) -> Self {
        let id = parse_hex(owner.as_bytes()).unwrap_or_default();
        Self { owner, id, access_key }
    }

    /// Whether the request has no signature.
    pub fn is_anonymous(&self) -> bool {
        self.access_key.is_empty()
    }
}

/// What an action is to be done to, by name: it need not exist.
#[derive(Clone, Copy, Debug)]
pub enum Resource<'a> {
    /// The buckets of the principal.
    Service,
    Bucket(&'a str),
    Object {
        bucket: &'a str,
        key: &'a [u8],
    },
}

/// As an Amazon Resource Name.
impl fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service => f.write_str("arn:aws:s3:::*"),
            Self::Bucket(bucket) => f.write_str(&bucket_arn(bucket)),
            Self::Object { bucket, key } => write!(f, "{}/{}", bucket_arn(bucket), String::from_utf8_lossy(key)),
        }
    }
}

/// What the store says of a resource, as far as a decision may depend on it. Without them, nothing was looked at yet.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The resource is read as a page of a website that is open to everybody.
    pub is_published: bool,
}

impl Facts {
    pub const UNKNOWN: Self = Self { is_published: false };
}

#[derive(Debug)]
struct AccessKey {
    credential: Credential,
    principal: Arc<Principal>,
}

#[derive(Debug)]
pub struct Identities {
    keys: HashMap<String, AccessKey>,
    /// The identity that may do everything.
    root: String,
    anonymous: Arc<Principal>,
    /// How many snapshots came before.
    generation: u64,
}

impl Identities {
    /// `keys`: access key, secret and identity of each. `root` is the identity that may do everything.
    pub fn new(keys: impl IntoIterator<Item = (String, String, String)>, root: String) -> Self {
        let key = |(access_key, secret, owner): (String, String, String)| {
            let credential = Credential { secret: secret.into_bytes().into(), generation: 0 };
            let principal = Arc::new(Principal::new(owner, access_key.clone()));
            (access_key, AccessKey { credential, principal })
        };
        let anonymous = Arc::new(Principal::new(String::new(), String::new()));
        Self { keys: keys.into_iter().map(key).collect(), root, anonymous, generation: 0 }
    }

    /// Numbers this snapshot as the one after `previous`. An access key keeps its generation only with its secret, so a
    /// signing key that was derived from another secret is never found.
    pub fn following(mut self, previous: &Self) -> Self {
        self.generation = previous.generation + 1;
        for (name, key) in &mut self.keys {
            let known = previous.keys.get(name).filter(|known| known.credential.secret == key.credential.secret);
            key.credential.generation = known.map_or(self.generation, |known| known.credential.generation);
        }
        self
    }

    /// Whether there is such an identity.
    pub fn has(&self, id: &str) -> bool {
        self.root == id || self.keys.values().any(|key| *key.principal.owner == *id)
    }

    pub fn credential(&self, access_key: &str) -> Option<Credential> {
        self.keys.get(access_key).map(|known| known.credential.clone())
    }

    /// The sender of a request that `access_key` has signed; empty if nobody has signed it.
    pub fn principal(&self, access_key: &str) -> Option<&Arc<Principal>> {
        if access_key.is_empty() {
            Some(&self.anonymous)
        } else {
            self.keys.get(access_key).map(|known| &known.principal)
        }
    }

    /// Decides whether `principal` may do `action` to `resource`, whichever way the request came. Root may do everything,
    /// everybody may read what is published, and nobody else may do anything.
    ///
    /// # Errors
    /// `AccessDenied`
    pub fn decide(
        &self,
        principal: &Principal,
        action: &str,
        resource: Resource<'_>,
        facts: Facts,
    ) -> Result<(), S3Error> {
        if facts.is_published && action == "s3:GetObject" {
            Ok(())
        } else if principal.is_anonymous() {
            Err(ErrorCode::AccessDenied.into())
        } else if principal.owner == self.root {
            Ok(())
        } else {
            let message = format!(
                "User: {} is not authorized to perform: {action} on resource: \"{resource}\" because no identity-based \
                 policy allows the {action} action",
                principal.owner
            );
            Err(S3Error::with(ErrorCode::AccessDenied, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(access_key: &str, secret: &str, owner: &str) -> (String, String, String) {
        (access_key.into(), secret.into(), owner.into())
    }

    fn generation(identities: &Identities, access_key: &str) -> u64 {
        identities.credential(access_key).unwrap().generation
    }

    #[test]
    fn a_generation_belongs_to_one_secret() {
        let first = Identities::new([key("A", "a", "1"), key("B", "b", "2")], "1".into());
        let second = Identities::new([key("A", "other", "1"), key("B", "b", "2")], "1".into()).following(&first);
        let third = Identities::new([key("B", "b", "3")], "1".into()).following(&second);
        let fourth = Identities::new([key("A", "a", "1"), key("B", "b", "3")], "1".into()).following(&third);
        assert_eq!([&first, &second, &third, &fourth].map(|it| generation(it, "B")), [0; 4]);
        assert_eq!([&first, &second, &fourth].map(|it| generation(it, "A")), [0, 1, 3]);
        assert_eq!(third.principal("B").unwrap().owner, "3");
        assert!(third.principal("A").is_none());
    }

    #[test]
    fn root_may_do_everything_and_nobody_else_anything() {
        let identities = Identities::new([key("A", "a", "root"), key("B", "b", "other")], "root".into());
        let resources = [
            (Resource::Service, "arn:aws:s3:::*"),
            (Resource::Bucket("b"), "arn:aws:s3:::b"),
            (Resource::Object { bucket: "b", key: b"k/\xff" }, "arn:aws:s3:::b/k/\u{fffd}"),
        ];
        for (resource, name) in resources {
            let decide = |access_key| {
                let principal = identities.principal(access_key).unwrap();
                identities.decide(principal, "s3:Act", resource, Facts::UNKNOWN)
            };
            assert_eq!(decide("A"), Ok(()));
            let refused = decide("B").unwrap_err();
            assert_eq!(refused.code, ErrorCode::AccessDenied);
            let expected = format!(
                "User: other is not authorized to perform: s3:Act on resource: \"{name}\" because no identity-based policy \
                 allows the s3:Act action"
            );
            assert_eq!(refused.message, expected);
            assert_eq!(decide(""), Err(ErrorCode::AccessDenied.into()));
        }
    }

    #[test]
    fn everybody_may_read_what_is_published_and_do_nothing_else_to_it() {
        let identities = Identities::new([key("A", "a", "root"), key("B", "b", "other")], "root".into());
        let page = Resource::Object { bucket: "b", key: b"k" };
        for sender in ["", "B"] {
            let principal = identities.principal(sender).unwrap();
            let decide = |action, is_published| identities.decide(principal, action, page, Facts { is_published });
            assert!(decide("s3:GetObject", true).is_ok());
            assert!(decide("s3:GetObject", false).is_err() && decide("s3:PutObject", true).is_err());
        }
    }

    #[test]
    fn a_principal_knows_its_identity_as_bytes() {
        let identities = Identities::new([key("A", "a", &"0aff".repeat(16))], "root".into());
        let ids = ["A", ""].map(|access_key| identities.principal(access_key).unwrap().id);
        assert_eq!(ids, [[10, 255].repeat(16).try_into().unwrap(), [0; 32]]);
    }

    #[test]
    fn an_empty_root_is_not_everybody() {
        let identities = Identities::new([], String::new());
        let anonymous = identities.principal("").unwrap();
        assert!(identities.decide(anonymous, "s3:ListAllMyBuckets", Resource::Service, Facts::UNKNOWN).is_err());
    }
}
