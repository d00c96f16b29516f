//! Sessions: who has temporary credentials. A token says everything about one, sealed under a key of the control plane, so
//! nothing is stored of it. Who it is a session of is looked up whenever identities have changed: a session ends with its
//! role or user, or with the access key that has asked for it. Pure.

use std::sync::Arc;

use crate::policies::compile;
use crate::senders::identities::{Identities, Identity, Requester, Session};
use crate::senders::tokens::{Claims, TOKEN_LEN_MAX};
use orcas_access::{Kind, Policy, PolicyKind, Principal};
use orcas_http::timestamp;
use orcas_sigv4::{Credential, SignatureError};

/// The generation of secrets of sessions, each of which has one secret only.
const GENERATION: u64 = u64::MAX;

impl Identities {
    /// The session that a token is of.
    ///
    /// # Errors
    /// `InvalidToken`, `ExpiredToken`
    pub fn session(&self, token: &[u8], now_ms: i64) -> Result<Arc<Session>, SignatureError> {
        let known = self.sessions.opened(token);
        let session = match known {
            Some(session) => session,
            None if token.len() > TOKEN_LEN_MAX => return Err(SignatureError::InvalidToken),
            None => {
                let claims = self.sessions.unsealed(token).ok_or(SignatureError::InvalidToken)?;
                if claims.ends_ms <= now_ms {
                    return Err(SignatureError::ExpiredToken);
                }
                let session = Arc::new(self.resumed(claims).ok_or(SignatureError::InvalidToken)?);
                self.sessions.keep(token, &session);
                session
            }
        };
        if session.ends_ms <= now_ms { Err(SignatureError::ExpiredToken) } else { Ok(session) }
    }

    /// The session; `None` if its identity is gone.
    fn resumed(&self, claims: Claims) -> Option<Session> {
        let of = self.identity_of(&claims.identity).filter(|it| it.principal.unique_id == claims.id)?;
        let asked_by =
            |key: &str| self.requester(key).is_some_and(|it| it.session.is_none() && it.identity.is_same(of));
        if claims.by.as_deref().is_some_and(|key| !asked_by(key)) {
            return None;
        }
        let mut tags = claims.tags;
        let is_new = |name: &str| tags.iter().all(|(known, _)| !known.eq_ignore_ascii_case(name));
        let inherited: Vec<_> = of.principal.tags.iter().filter(|(name, _)| is_new(name)).cloned().collect();
        tags.extend(inherited);
        let principal = Principal {
            arn: claims.arn.unwrap_or_else(|| of.principal.arn.clone()),
            identity_arn: of.principal.identity_arn.clone(),
            unique_id: claims.user_id,
            tags,
            issued: String::from_utf8_lossy(&timestamp::iso_time(claims.issued_ms)).into_owned(),
            provider: claims.provider.unwrap_or_default(),
            ..of.principal.clone()
        };
        let narrowing = claims.policies.map(|ids| self.narrowing(&ids, claims.document.as_deref()));
        let session = narrowing.map_or(Some(None), |policies| policies.map(Some))?;
        let identity = Arc::new(Identity { principal, ..of.clone() });
        let is_root = identity.principal.kind == Kind::Root
            && *identity.principal.canonical_id == *self.root()
            && session.is_none();
        // Nobody has more by a session.
        let mut limited = vec![&*identity.principal.identity_arn, claims.by.as_deref().unwrap_or_default()];
        limited.extend(claims.limited.iter().map(String::as_str));
        limited.sort_unstable();
        limited.dedup();
        let limits = self.limits_of(&limited);
        let owner = identity.principal.canonical_id.clone();
        let requester = Requester::new(owner, claims.access_key.clone(), is_root, identity);
        Some(Session {
            access_key: claims.access_key,
            credential: Credential { secret: claims.secret.into_bytes().into(), generation: GENERATION },
            requester: Arc::new(Requester { session, limits, alias: claims.alias.map(Box::new), ..requester }),
            ends_ms: claims.ends_ms,
        })
    }

    /// The policies of a session. A managed one that is no more allows nothing, and might have denied something.
    fn narrowing(&self, ids: &[String], document: Option<&str>) -> Option<Vec<Arc<Policy>>> {
        let mut policies = ids.iter().map(|id| self.policy(id).ok()).collect::<Option<Vec<_>>>()?;
        if let Some(document) = document {
            policies.push(Arc::new(compile(document, PolicyKind::Session, None).ok()?));
        }
        Some(policies)
    }
}

/// The token that a request presents.
pub fn token_of(head: &orcas_http::RequestHead<'_>) -> Option<Vec<u8>> {
    let named = |name: &[u8]| name.eq_ignore_ascii_case(b"x-amz-security-token");
    let sent = head.headers.get("x-amz-security-token").map(|token| token.trim_ascii().to_vec());
    let token = sent.or_else(|| {
        memchr::memmem::find(head.query, b"ecurity-")?;
        let query = orcas_http::Query::parse(head.query)?;
        query.iter().find(|(name, _)| named(name)).map(|(_, token)| token.to_vec())
    });
    token.filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::senders::identities::IdentityTables;
    use crate::senders::tokens::{BOUND, VERSION};
    use orcas_checksum::base64_encode;
    use orcas_s3::Target;
    use orcas_s3::target::CopySource;
    use orcas_seal::{Secret, seal_message};

    const ARN: &str = "arn:aws:iam::111122223333:role/reader";
    const SESSION: &str = "arn:aws:sts::111122223333:assumed-role/reader/s";
    const READ: &str = r#"{"Statement": {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}}"#;
    const ID: [u8; 8] = [7; 8];

    fn rows(id: &str) -> IdentityTables {
        let text = str::to_owned;
        let tags = vec![(text("Team"), text("red")), (text("a"), text("b"))];
        let of = (text(ARN), text("role"), text("111122223333"), text(id), text("reader"), vec![text("p")], None, tags);
        IdentityTables {
            accounts: vec![("111122223333".into(), "0aff".repeat(16), "root".into())],
            policies: vec![("p".into(), READ.into())],
            identities: vec![of],
            keys: Vec::new(),
            limits: Vec::new(),
        }
    }

    fn claims(more: &str) -> String {
        format!(
            r#"{{"access_key": "ASIA1", "secret": "s", "identity": "{ARN}", "id": "AROA", "by": null, "arn": "{SESSION}",
            "user_id": "AROA:s", "issued_ms": 1000, "ends_ms": 9000, "tags": [["team", "blue"]], "transitive": [],
            "policies": null, "document": null, "provider": null, "name": "s"{more}}}"#
        )
    }

    fn sealed(key: [u8; 32], claims: &str) -> String {
        let message = seal_message(&Secret::new(&key), [3; 12], BOUND, claims.as_bytes());
        base64_encode(&[&[VERSION][..], &ID, &[3; 12], &message].concat())
    }

    fn identities(id: &str) -> Identities {
        Identities::new(rows(id)).unwrap().with_session_keys(vec![(ID, Secret::new(&[1; 32]))])
    }

    #[test]
    fn a_token_is_a_session_until_it_ends() {
        let (identities, token) = (identities("AROA"), sealed([1; 32], &claims("")));
        for _ in 0..2 {
            let session = identities.session(token.as_bytes(), 8999).unwrap();
            let principal = &session.requester.identity.principal;
            assert_eq!((&*principal.arn, &*principal.identity_arn, &*principal.unique_id), (SESSION, ARN, "AROA:s"));
            assert_eq!(
                (principal.tags.len(), &*principal.tags[0].1, &*principal.issued),
                (2, "blue", "1970-01-01T00:00:01.000Z")
            );
            assert!(!session.requester.is_root && session.requester.session.is_none());
            let late = identities.session(token.as_bytes(), 9000).unwrap_err();
            assert_eq!(late, SignatureError::ExpiredToken);
        }
    }

    #[test]
    fn a_session_ends_with_its_role() {
        let token = sealed([1; 32], &claims(""));
        let first = identities("AROA");
        assert!(first.session(token.as_bytes(), 2000).is_ok());
        let gone = first.changed(IdentityTables::default(), &[ARN.into()]).unwrap();
        let again = gone.changed(rows("AROA2"), &[]).unwrap();
        let back = gone.changed(rows("AROA"), &[]).unwrap();
        assert!(gone.session(token.as_bytes(), 2000).is_err() && again.session(token.as_bytes(), 2000).is_err());
        assert!(back.session(token.as_bytes(), 2000).is_ok());
        assert!(first.replaced(rows("AROA")).unwrap().session(token.as_bytes(), 2000).is_ok());
    }

    #[test]
    fn a_session_has_the_limits_of_whoever_asked_for_it() {
        let limited = |of: &str| IdentityTables { limits: vec![(of.into(), 5, 0)], ..rows("AROA") };
        let user = "arn:aws:iam::111122223333:user/a";
        let more = format!(r#", "limited": ["{user}", "AKIA1", "{ARN}"]"#);
        for of in [user, "AKIA1", ARN] {
            let identities = Identities::new(limited(of)).unwrap().with_session_keys(vec![(ID, Secret::new(&[1; 32]))]);
            let limits = |more: &str| {
                let session = identities.session(sealed([1; 32], &claims(more)).as_bytes(), 2000).unwrap();
                session.requester.limits.as_ref().map_or(0, |limits| limits.len())
            };
            assert_eq!([limits(&more), limits("")], [1, usize::from(of == ARN)], "{of}");
        }
    }

    #[test]
    fn an_alias_is_a_name_for_its_own_session() {
        let identities = identities("AROA");
        let more = r#", "alias": {"name": "lake", "bucket": "lake--b1"}"#;
        let session = identities.session(sealed([1; 32], &claims(more)).as_bytes(), 2000).unwrap();
        let requester = &session.requester;
        let object = |bucket: &str| Target::Object { bucket: bucket.into(), key: b"k".to_vec(), hosted: false };
        let source = |bucket: &str| CopySource { bucket: bucket.into(), key: b"k".to_vec(), version: None };
        for (name, bucket) in [("lake", "lake--b1"), ("lake--b1", "lake--b1"), ("lake2", "lake2"), ("other", "other")] {
            assert_eq!(requester.resolve(object(name)), object(bucket));
            assert_eq!(requester.resolve(Target::Bucket(name.into())), Target::Bucket(bucket.into()));
            assert_eq!(requester.resolve_source(source(name)), source(bucket));
        }
        assert_eq!(requester.resolve(Target::Service), Target::Service);
        assert_eq!([requester.shown("lake--b1"), requester.shown("other")], ["lake", "other"]);
        let plain = identities.session(sealed([1; 32], &claims("")).as_bytes(), 2000).unwrap();
        assert_eq!(plain.requester.resolve(object("lake")), object("lake"));
        // Without the server's seal, nobody says it.
        assert!(identities.session(sealed([2; 32], &claims(more)).as_bytes(), 2000).is_err());
        for bad in [r#", "alias": "lake""#, r#", "alias": {"name": "lake"}"#] {
            assert!(identities.session(sealed([1; 32], &claims(bad)).as_bytes(), 2000).is_err());
        }
    }

    #[test]
    fn session_tokens_under_the_root_secret_or_self_signed() {
        let identities = identities("AROA");
        let valid = sealed([1; 32], &claims(""));
        let mut root = [0; 32];
        root[..12].copy_from_slice(b"orcas-secret");
        let others = [sealed([2; 32], &claims("")), sealed([0; 32], &claims("")), sealed(root, &claims(""))];
        for token in others.iter().map(String::as_str).chain(["", "x", "AAAA", &valid[4..], &valid[..valid.len() - 4]])
        {
            assert_eq!(
                identities.session(token.as_bytes(), 2000).unwrap_err(),
                SignatureError::InvalidToken,
                "{token}"
            );
        }
        // Sealed, and still no claims of a session.
        for bad in [r#", "more": 1"#, r#", "name": 1"#] {
            let token = sealed([1; 32], &claims(bad));
            assert!(identities.session(token.as_bytes(), 2000).is_err());
        }
        let without = Identities::new(rows("AROA")).unwrap();
        assert_eq!(without.session(valid.as_bytes(), 2000).unwrap_err(), SignatureError::InvalidToken);
    }

    #[test]
    fn every_changed_byte_of_a_token_is_found() {
        let (identities, token) = (identities("AROA"), sealed([1; 32], &claims("")));
        for at in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            assert!(identities.session(&bytes, 2000).is_err(), "{at}");
        }
    }
}
