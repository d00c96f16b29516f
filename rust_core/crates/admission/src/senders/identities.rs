//! Who may sign requests, and what belongs to them: an identity snapshot has the accounts, identities, keys and
//! policies of the control plane. A request is verified and authorized with one. A change makes another one, which
//! shares what is the same; nothing of an older one counts once the change is done. Pure; knows nothing of the store.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::bounds::rates::{Limit, Rates};
use crate::policies::compile;
use crate::senders::tokens::{Alias, Tokens};
use orcas_access::{Kind, Policy, PolicyKind, Principal};
use orcas_http::parse_hex;
use orcas_s3::Target;
use orcas_s3::target::CopySource;
use orcas_seal::Secret;
use orcas_sigv4::Credential;

/// The rows of the control plane. Each replaces that with the same id.
#[derive(Clone, Debug, Default)]
pub struct IdentityTables {
    /// Number, canonical id and name. The root user of the first one of a store may do everything.
    pub accounts: Vec<(String, String, String)>,
    /// Id and document.
    pub policies: Vec<(String, String)>,
    pub identities: Vec<IdentityRow>,
    pub keys: Vec<KeyRow>,
    /// The limits of an identity by its ARN, or of an access key: requests and bytes a second, each zero for no limit.
    pub limits: Vec<LimitRow>,
}

impl IdentityTables {
    /// The root user of one account, with its keys and their secrets: as long as the control plane has said no more.
    pub fn of_root(owner: &str, keys: &[(&str, &str)]) -> Self {
        let (number, arn) = ("000000000000".to_owned(), "arn:aws:iam::000000000000:root".to_owned());
        let key = |(access_key, secret): &(&str, &str)| {
            ((*access_key).to_owned(), (*secret).to_owned(), arn.clone(), None, true)
        };
        let root = |text: &str| text.to_owned();
        Self {
            accounts: vec![(number.clone(), owner.to_owned(), root("root"))],
            policies: Vec::new(),
            keys: keys.iter().map(key).collect(),
            identities: vec![(
                arn.clone(),
                root("root"),
                number.clone(),
                number,
                root("root"),
                Vec::new(),
                None,
                Vec::new(),
            )],
            limits: Vec::new(),
        }
    }
}

/// ARN, kind, number of the account, unique id, name, ids of policies, id of the boundary, tags.
pub type IdentityRow = (String, String, String, String, String, Vec<String>, Option<String>, Vec<(String, String)>);

/// Access key, secret, ARN of the identity, id of the policy that narrows it, whether it is active.
pub type KeyRow = (String, String, String, Option<String>, bool);

/// ARN or access key, requests and bytes.
pub type LimitRow = (String, u64, u64);

/// The sender of a request.
#[derive(Debug)]
pub struct Requester {
    /// The canonical id of its account, which owns what it makes: 64 hexadecimal digits. Empty without a signature.
    pub owner: String,
    /// The canonical id as bytes, as the log has it. Zeros without a signature.
    pub id: [u8; 32],
    /// The access key that signed. Empty without a signature.
    pub access_key: String,
    /// The root user of the first account, who may do everything.
    pub is_root: bool,
    pub identity: Arc<Identity>,
    /// The policies that narrow the identity for this key: one of them must allow as well.
    pub session: Option<Vec<Arc<Policy>>>,
    /// How much the key and the identity may ask for.
    pub limits: Option<Box<[Arc<Limit>]>>,
    /// Another bucket that it reaches under a name.
    pub alias: Option<Box<Alias>>,
}

impl Requester {
    pub(crate) fn new(owner: String, access_key: String, is_root: bool, identity: Arc<Identity>) -> Self {
        let id = parse_hex(owner.as_bytes()).unwrap_or_default();
        Self { owner, id, access_key, is_root, identity, session: None, limits: None, alias: None }
    }

    /// Whether the request has no signature.
    pub fn is_anonymous(&self) -> bool {
        self.access_key.is_empty()
    }

    /// What an address leads to. Nothing is decided by the address itself.
    #[inline]
    pub fn resolve(&self, mut target: Target) -> Target {
        if let Some(alias) = &self.alias
            && let Some(bucket) = target.bucket_mut().filter(|bucket| **bucket == alias.name)
        {
            bucket.clone_from(&alias.bucket);
        }
        target
    }

    /// The same for the source of a copy or a move.
    pub fn resolve_source(&self, mut source: CopySource) -> CopySource {
        if let Some(alias) = self.alias.as_ref().filter(|alias| alias.name == source.bucket) {
            source.bucket.clone_from(&alias.bucket);
        }
        source
    }

    /// The name under which it knows a bucket.
    pub fn shown<'a>(&'a self, bucket: &'a str) -> &'a str {
        self.alias.as_ref().filter(|alias| alias.bucket == bucket).map_or(bucket, |alias| &alias.name)
    }

    /// The name in logs: that of the root user of an account is the canonical id, that of others their ARN.
    pub fn log_name(&self) -> &str {
        match self.identity.principal.kind {
            Kind::Root | Kind::Anonymous => &self.owner,
            _ => &self.identity.principal.arn,
        }
    }
}

/// The owner of temporary credentials, until they end.
#[derive(Debug)]
pub struct Session {
    pub access_key: String,
    pub credential: Credential,
    pub requester: Arc<Requester>,
    pub(super) ends_ms: i64,
}

/// A user, a role or the root user of an account, with the policies that say what it may do.
#[derive(Clone, Debug)]
pub struct Identity {
    pub principal: Principal,
    pub policies: Vec<Arc<Policy>>,
    pub boundary: Option<Arc<Policy>>,
    pub(crate) policy_ids: Vec<String>,
    pub(crate) boundary_id: Option<String>,
}

impl Identity {
    /// The id of its boundary.
    pub fn boundary_id(&self) -> Option<&str> {
        self.boundary_id.as_deref()
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.principal.identity_arn == other.principal.identity_arn
            && self.principal.unique_id == other.principal.unique_id
    }

    /// The id of one of its policies.
    pub fn policy_id(&self, place: usize) -> Option<&str> {
        self.policy_ids.get(place).map(String::as_str)
    }
}

#[derive(Debug)]
struct AccessKey {
    credential: Credential,
    is_active: bool,
    arn: String,
    session_id: Option<String>,
    requester: Arc<Requester>,
    /// When it has signed a request, in milliseconds since 1970; zero if it has not. Shared by all identity snapshots.
    used_ms: Arc<AtomicI64>,
}

#[derive(Clone, Debug)]
pub struct Identities {
    keys: HashMap<Arc<str>, Arc<AccessKey>>,
    /// Identities by their ARNs.
    identities: HashMap<Arc<str>, Arc<Identity>>,
    policies: HashMap<Arc<str>, Arc<Policy>>,
    /// Canonical ids by number.
    accounts: HashMap<Arc<str>, Arc<str>>,
    /// Limits by ARN or access key.
    limits: HashMap<Arc<str>, Arc<Limit>>,
    /// Numbers by canonical id.
    numbers: HashMap<Arc<str>, Arc<str>>,
    /// Names of accounts by canonical id.
    names: HashMap<Arc<str>, Arc<str>>,
    /// The canonical id of the first account.
    root: Arc<str>,
    anonymous: Arc<Requester>,
    pub(super) sessions: Tokens<Session>,
    /// How many identity snapshots came before.
    generation: u64,
}

impl Identities {
    /// # Errors
    /// A sentence: a policy that is refused, or a row that names what does not exist.
    pub fn new(rows: IdentityTables) -> Result<Self, String> {
        let nobody = Identity {
            principal: Principal::anonymous(),
            policies: Vec::new(),
            boundary: None,
            policy_ids: Vec::new(),
            boundary_id: None,
        };
        let anonymous = Requester::new(String::new(), String::new(), false, Arc::new(nobody));
        let empty = Self {
            keys: HashMap::new(),
            identities: HashMap::new(),
            policies: HashMap::new(),
            accounts: HashMap::new(),
            limits: HashMap::new(),
            numbers: HashMap::new(),
            names: HashMap::new(),
            root: rows.accounts.first().map_or("", |(_, id, _)| id).into(),
            anonymous: Arc::new(anonymous),
            sessions: Tokens::new(Vec::new()),
            generation: 0,
        };
        empty.with(rows, &[], 0)
    }

    /// The identity snapshot with these rows in place of all of this one. An access key keeps its generation only with
    /// its secret, so a signing key that was derived from another secret is never found.
    ///
    /// # Errors
    /// As of [`Identities::new`].
    pub fn replaced(&self, rows: IdentityTables) -> Result<Self, String> {
        let mut next = Self::new(rows)?;
        next.generation = self.generation + 1;
        next.sessions = self.sessions.clone();
        for (name, key) in &mut next.keys {
            let known = self.keys.get(name).filter(|known| known.credential.secret == key.credential.secret);
            let generation = known.map_or(next.generation, |known| known.credential.generation);
            if let Some(key) = Arc::get_mut(key) {
                key.credential.generation = generation;
                if let Some(former) = self.keys.get(name) {
                    key.used_ms = Arc::clone(&former.used_ms);
                }
            }
        }
        Ok(next)
    }

    /// The identity snapshot after a change: with these rows, and without what has one of the ids in `removed`.
    ///
    /// # Errors
    /// As of [`Identities::new`].
    pub fn changed(&self, rows: IdentityTables, removed: &[String]) -> Result<Self, String> {
        self.clone().with(rows, removed, self.generation + 1)
    }

    /// These identities with other keys, which open the tokens of sessions.
    pub fn with_session_keys(&self, keys: Vec<([u8; 8], Secret)>) -> Self {
        Self { sessions: Tokens::new(keys), ..self.clone() }
    }

    fn with(mut self, rows: IdentityTables, removed: &[String], generation: u64) -> Result<Self, String> {
        self.generation = generation;
        for (number, id, name) in &rows.accounts {
            let (number, id): (Arc<str>, Arc<str>) = (number.as_str().into(), id.as_str().into());
            self.names.insert(Arc::clone(&id), name.as_str().into());
            self.numbers.insert(Arc::clone(&id), Arc::clone(&number));
            self.accounts.insert(number, id);
        }
        let mut changed_accounts: HashSet<&str> = rows.accounts.iter().map(|(number, ..)| number.as_str()).collect();
        changed_accounts.extend(removed.iter().map(String::as_str));
        for id in removed {
            self.keys.remove(&**id);
            self.identities.remove(&**id);
            self.policies.remove(&**id);
            self.limits.remove(&**id);
            if let Some(canonical) = self.accounts.remove(&**id) {
                self.numbers.remove(&canonical);
                self.names.remove(&canonical);
            }
        }
        let mut changed_policies: HashSet<&str> = removed.iter().map(String::as_str).collect();
        for (id, document) in &rows.policies {
            let policy =
                compile(document, PolicyKind::Identity, None).map_err(|error| format!("Policy {id}: {error}"))?;
            self.policies.insert(id.as_str().into(), Arc::new(policy));
            changed_policies.insert(id);
        }
        let changed_limits = self.set_limits(rows.limits);
        // They are made anew below, and may have had a policy that is gone now.
        for row in &rows.identities {
            self.identities.remove(&*row.0);
        }
        let mut changed_identities = self.refresh_identities(&changed_accounts, &changed_policies)?;
        for row in rows.identities {
            let arn: Arc<str> = row.0.as_str().into();
            self.identities.insert(Arc::clone(&arn), Arc::new(self.identity(row)?));
            changed_identities.insert(arn);
        }
        // A key whose identity is gone is gone.
        self.keys.retain(|_, key| self.identities.contains_key(&*key.arn));
        self.refresh_keys(&changed_identities, &changed_policies, &changed_limits)?;
        for (access_key, secret, arn, session_id, is_active) in rows.keys {
            let known = self.keys.get(&*access_key).filter(|known| *known.credential.secret == *secret.as_bytes());
            let generation = known.map_or(generation, |known| known.credential.generation);
            let credential = Credential { secret: secret.into_bytes().into(), generation };
            let requester = self.requester_of(&access_key, &arn, session_id.as_deref())?;
            let used_ms = self.keys.get(&*access_key).map(|former| Arc::clone(&former.used_ms)).unwrap_or_default();
            let key = AccessKey { credential, is_active, arn, session_id, requester, used_ms };
            self.keys.insert(access_key.into(), Arc::new(key));
        }
        Ok(self)
    }

    /// Makes the identities anew whose account or policies have changed. Returns their ARNs.
    fn refresh_identities(
        &mut self,
        accounts: &HashSet<&str>,
        policies: &HashSet<&str>,
    ) -> Result<HashSet<Arc<str>>, String> {
        let is_stale = |identity: &Identity| {
            let mut ids = identity.policy_ids.iter().chain(&identity.boundary_id);
            accounts.contains(&*identity.principal.account) || ids.any(|id| policies.contains(&**id))
        };
        let stale: Vec<_> = self
            .identities
            .iter()
            .filter(|(_, it)| is_stale(it))
            .map(|(arn, it)| (Arc::clone(arn), Arc::clone(it)))
            .collect();
        for (arn, old) in &stale {
            let principal =
                Principal { canonical_id: self.canonical_id(&old.principal.account)?, ..old.principal.clone() };
            let (policy_ids, boundary_id) = (old.policy_ids.clone(), old.boundary_id.clone());
            self.identities.insert(Arc::clone(arn), Arc::new(self.resolved(principal, policy_ids, boundary_id)?));
        }
        Ok(stale.into_iter().map(|(arn, _)| arn).collect())
    }

    /// Takes over limits, and returns whose have changed. One that is the same goes on as it is.
    fn set_limits(&mut self, rows: Vec<LimitRow>) -> HashSet<Arc<str>> {
        let mut changed = HashSet::new();
        for (id, requests, bytes) in rows {
            let (id, rates): (Arc<str>, _) = (id.into(), Rates { requests, bytes });
            if self.limits.get(&id).map_or(Rates::default(), |limit| limit.rates) == rates {
                continue;
            }
            if rates == Rates::default() {
                self.limits.remove(&id);
            } else {
                self.limits.insert(Arc::clone(&id), Arc::new(Limit::new(Arc::clone(&id), rates)));
            }
            changed.insert(id);
        }
        changed
    }

    /// Makes the keys anew whose identity, policy or limit has changed.
    fn refresh_keys(
        &mut self,
        identities: &HashSet<Arc<str>>,
        policies: &HashSet<&str>,
        limits: &HashSet<Arc<str>>,
    ) -> Result<(), String> {
        let is_stale = |name: &Arc<str>, key: &AccessKey| {
            identities.contains(&*key.arn)
                || key.session_id.as_ref().is_some_and(|id| policies.contains(&**id))
                || (!limits.is_empty() && (limits.contains(name) || limits.contains(&*key.arn)))
        };
        let stale: Vec<_> = self
            .keys
            .iter()
            .filter(|(name, it)| is_stale(name, it))
            .map(|(name, it)| (Arc::clone(name), Arc::clone(it)))
            .collect();
        for (name, old) in stale {
            let requester = self.requester_of(&name, &old.arn, old.session_id.as_deref())?;
            let (credential, arn, session_id) = (old.credential.clone(), old.arn.clone(), old.session_id.clone());
            let used_ms = Arc::clone(&old.used_ms);
            let key = AccessKey { credential, is_active: old.is_active, arn, session_id, requester, used_ms };
            self.keys.insert(name, Arc::new(key));
        }
        Ok(())
    }

    fn canonical_id(&self, account: &str) -> Result<String, String> {
        let id = self.accounts.get(account).ok_or_else(|| format!("There is no account {account}"))?;
        Ok((**id).to_owned())
    }

    fn identity(&self, row: IdentityRow) -> Result<Identity, String> {
        let (arn, kind, account, unique_id, name, policy_ids, boundary_id, tags) = row;
        let kind = match &*kind {
            "root" => Kind::Root,
            "user" => Kind::User,
            "role" => Kind::Role,
            other => return Err(format!("{other} is not a kind of identity")),
        };
        let canonical_id = self.canonical_id(&account)?;
        let principal = Principal { canonical_id, unique_id, tags, ..Principal::new(kind, account, arn, name) };
        self.resolved(principal, policy_ids, boundary_id)
    }

    fn resolved(
        &self,
        principal: Principal,
        policy_ids: Vec<String>,
        boundary_id: Option<String>,
    ) -> Result<Identity, String> {
        let policies = policy_ids.iter().map(|id| self.policy(id)).collect::<Result<_, _>>()?;
        let boundary = boundary_id.as_deref().map(|id| self.policy(id)).transpose()?;
        Ok(Identity { principal, policies, boundary, policy_ids, boundary_id })
    }

    /// The user, role or root user with this ARN.
    pub(crate) fn identity_of(&self, arn: &str) -> Option<&Identity> {
        self.identities.get(arn).map(|it| &**it)
    }

    /// All of them by their ARNs, in no order.
    pub(crate) fn all_identities(&self) -> impl Iterator<Item = (&str, &Identity)> {
        self.identities.iter().map(|(arn, identity)| (&**arn, &**identity))
    }

    /// The user or role of an account with this name.
    pub(crate) fn named(&self, kind: Kind, account: &str, name: &str) -> Option<&Identity> {
        let is_it =
            |it: &&Identity| it.principal.kind == kind && it.principal.account == account && it.principal.name == name;
        self.identities.values().map(|it| &**it).find(is_it)
    }

    pub(super) fn policy(&self, id: &str) -> Result<Arc<Policy>, String> {
        self.policies.get(id).cloned().ok_or_else(|| format!("There is no policy {id}"))
    }

    fn requester_of(&self, access_key: &str, arn: &str, session_id: Option<&str>) -> Result<Arc<Requester>, String> {
        let identity = self.identities.get(arn).ok_or_else(|| format!("There is no identity {arn}"))?;
        let owner = identity.principal.canonical_id.clone();
        let session = session_id.map(|id| self.policy(id).map(|policy| vec![policy])).transpose()?;
        let is_root = identity.principal.kind == Kind::Root && *owner == *self.root && session.is_none();
        let requester = Requester::new(owner, access_key.to_owned(), is_root, Arc::clone(identity));
        let limits = self.limits_of(&[access_key, arn]);
        Ok(Arc::new(Requester { session, limits, ..requester }))
    }

    /// How much those with these ids, access keys and ARNs, may ask for.
    pub(super) fn limits_of(&self, ids: &[&str]) -> Option<Box<[Arc<Limit>]>> {
        let limits: Vec<_> = ids.iter().filter_map(|id| self.limits.get(*id).cloned()).collect();
        (!limits.is_empty()).then(|| limits.into())
    }

    /// Whether an account has this canonical id.
    pub fn knows_owner(&self, id: &str) -> bool {
        self.numbers.contains_key(id)
    }

    /// The name of the account with this canonical id.
    pub fn owner_name(&self, id: &str) -> Option<&str> {
        self.names.get(id).map(|name| &**name)
    }

    /// The canonical id of the account whose root user may do everything.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Whether there is an account with this canonical id.
    pub fn has(&self, id: &str) -> bool {
        self.numbers.contains_key(id)
    }

    /// The number of the account with this canonical id. An account that there is not has its id instead, which no
    /// requester has.
    pub fn account<'a>(&'a self, canonical_id: &'a str) -> &'a str {
        self.numbers.get(canonical_id).map_or(canonical_id, |number| number)
    }

    /// Whether what a bucket's policy names exists: the number or canonical id of an account, or the ARN of a user or
    /// role. Sessions are not known in advance.
    pub fn knows(&self, name: &str) -> bool {
        name.starts_with("arn:aws:sts:")
            || self.accounts.contains_key(name)
            || self.numbers.contains_key(name)
            || self.identities.contains_key(name)
    }

    pub fn credential(&self, access_key: &str) -> Option<Credential> {
        self.active(access_key).map(|known| known.credential.clone())
    }

    fn active(&self, access_key: &str) -> Option<&AccessKey> {
        self.keys.get(access_key).map(|known| &**known).filter(|known| known.is_active)
    }

    /// The sender of a request that `access_key` has signed; empty if nobody has signed it.
    pub fn requester(&self, access_key: &str) -> Option<&Arc<Requester>> {
        if access_key.is_empty() {
            Some(&self.anonymous)
        } else {
            self.active(access_key).map(|known| &known.requester)
        }
    }

    /// The signer of a request that was verified at this time.
    pub fn signer(&self, access_key: &str, now_ms: i64) -> Option<&Arc<Requester>> {
        if let Some(known) = self.active(access_key) {
            known.used_ms.store(now_ms, Ordering::Relaxed);
            return Some(&known.requester);
        }
        self.requester(access_key)
    }

    /// The root user who may do everything, as the sender of a request.
    pub(crate) fn root_requester(&self) -> Option<&Arc<Requester>> {
        self.keys.values().filter(|known| known.is_active).map(|known| &known.requester).find(|it| it.is_root)
    }

    /// When an access key has signed a request, in milliseconds since 1970, as far as this process knows.
    pub fn used_ms(&self, access_key: &str) -> Option<i64> {
        self.keys.get(access_key).map(|known| known.used_ms.load(Ordering::Relaxed)).filter(|&used_ms| used_ms != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn:aws:iam::111122223333:user/a";
    const READ: &str = r#"{"Statement": {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}}"#;

    fn user(arn: &str, policies: &[&str], boundary: Option<&str>) -> IdentityRow {
        let policies = policies.iter().map(|id| (*id).to_owned()).collect();
        let text = str::to_owned;
        (
            text(arn),
            text("user"),
            text("111122223333"),
            text("AIDA"),
            text("a"),
            policies,
            boundary.map(text),
            Vec::new(),
        )
    }

    fn key(access_key: &str, secret: &str) -> KeyRow {
        (access_key.into(), secret.into(), ARN.into(), None, true)
    }

    fn rows(keys: &[KeyRow]) -> IdentityTables {
        IdentityTables {
            limits: Vec::new(),
            accounts: vec![("111122223333".into(), "0aff".repeat(16), "root".into())],
            policies: vec![("p".into(), READ.into())],
            identities: vec![user(ARN, &["p"], None)],
            keys: keys.to_vec(),
        }
    }

    fn generation(identities: &Identities, access_key: &str) -> u64 {
        identities.credential(access_key).unwrap().generation
    }

    #[test]
    fn a_generation_belongs_to_one_secret() {
        let first = Identities::new(rows(&[key("A", "a"), key("B", "b")])).unwrap();
        let second = first.replaced(rows(&[key("A", "other"), key("B", "b")])).unwrap();
        let third = second.changed(IdentityTables::default(), &["A".into()]).unwrap();
        let fourth = third
            .changed(IdentityTables { keys: vec![key("A", "a"), key("B", "b")], ..IdentityTables::default() }, &[])
            .unwrap();
        assert_eq!([&first, &second, &third, &fourth].map(|it| generation(it, "B")), [0; 4]);
        assert_eq!([&first, &second, &fourth].map(|it| generation(it, "A")), [0, 1, 3]);
        assert!(third.requester("A").is_none() && third.credential("A").is_none());
    }

    #[test]
    fn a_change_reaches_everything_that_it_concerns() {
        let none = |id: &str| IdentityTables { policies: vec![(id.into(), READ.into())], ..IdentityTables::default() };
        let first = Identities::new(rows(&[key("A", "a")])).unwrap();
        let policy = |identities: &Identities| Arc::clone(&identities.requester("A").unwrap().identity.policies[0]);
        let changed = first.changed(none("p"), &[]).unwrap();
        assert!(!Arc::ptr_eq(&policy(&first), &policy(&changed)));
        let other = changed.changed(none("q"), &[]).unwrap();
        assert!(Arc::ptr_eq(&policy(&changed), &policy(&other)));
        // An identity with another boundary, and a key with a policy of its own.
        let bounded = IdentityTables {
            identities: vec![user(ARN, &["p"], Some("q"))],
            keys: vec![("S".into(), "s".into(), ARN.into(), Some("q".into()), true)],
            ..IdentityTables::default()
        };
        let bounded = other.changed(bounded, &[]).unwrap();
        assert!(bounded.requester("A").unwrap().identity.boundary.is_some());
        assert!(bounded.requester("S").unwrap().session.is_some() && bounded.requester("A").unwrap().session.is_none());
        // With the identity its keys are gone.
        let gone = bounded.changed(IdentityTables::default(), &[ARN.into()]).unwrap();
        assert!(gone.requester("A").is_none() && gone.requester("S").is_none());
        // What is in use cannot be removed, and what was there counts on.
        for id in ["p", "q", "111122223333"] {
            assert!(bounded.changed(IdentityTables::default(), &[id.into()]).is_err(), "{id}");
        }
    }

    #[test]
    fn a_policy_goes_together_with_its_use() {
        let first = Identities::new(rows(&[key("A", "a")])).unwrap();
        let without = IdentityTables { identities: vec![user(ARN, &[], None)], ..IdentityTables::default() };
        let changed = first.changed(without, &["p".into()]).unwrap();
        assert!(changed.requester("A").unwrap().identity.policies.is_empty());
    }

    #[test]
    fn a_key_is_known_to_have_been_used_whatever_changes() {
        let first = Identities::new(rows(&[key("A", "a"), key("B", "b")])).unwrap();
        assert!(first.signer("A", 7).is_some() && first.signer("C", 8).is_none());
        assert!(first.signer("", 9).unwrap().is_anonymous());
        let changed =
            first.changed(IdentityTables { keys: vec![key("A", "other")], ..IdentityTables::default() }, &[]).unwrap();
        let renewed = changed
            .changed(IdentityTables { identities: vec![user(ARN, &[], None)], ..IdentityTables::default() }, &[])
            .unwrap();
        let replaced = renewed.replaced(rows(&[key("A", "other"), key("B", "b")])).unwrap();
        for identities in [&first, &changed, &renewed, &replaced] {
            assert_eq!(["A", "B", "C"].map(|name| identities.used_ms(name)), [Some(7), None, None]);
        }
    }

    #[test]
    fn rows_that_mean_nothing_are_refused() {
        let first = Identities::new(rows(&[])).unwrap();
        let bad = r#"{"Statement": {"Effect": "Allow", "Action": "s3:*"}}"#;
        let text = str::to_owned;
        for (change, expected) in [
            (
                IdentityTables { policies: vec![(text("x"), text(bad))], ..IdentityTables::default() },
                "Policy x: Policy statement must contain resources.",
            ),
            (
                IdentityTables { identities: vec![user(ARN, &["x"], None)], ..IdentityTables::default() },
                "There is no policy x",
            ),
            (
                IdentityTables {
                    keys: vec![(text("A"), text("a"), text("x"), None, true)],
                    ..IdentityTables::default()
                },
                "There is no identity x",
            ),
        ] {
            assert_eq!(first.changed(change, &[]).unwrap_err(), expected);
        }
    }

    #[test]
    fn a_key_that_is_not_active_is_as_none() {
        let mut inactive = key("A", "a");
        inactive.4 = false;
        let identities = Identities::new(rows(&[inactive])).unwrap();
        assert!(identities.credential("A").is_none() && identities.requester("A").is_none());
    }

    #[test]
    fn a_principal_knows_its_account_as_bytes() {
        let identities = Identities::new(rows(&[key("A", "a")])).unwrap();
        let ids = ["A", ""].map(|access_key| identities.requester(access_key).unwrap().id);
        assert_eq!(ids, [[10, 255].repeat(16).try_into().unwrap(), [0; 32]]);
        assert_eq!(identities.account(&"0aff".repeat(16)), "111122223333");
        assert!(identities.knows(ARN) && identities.knows("111122223333") && !identities.knows("444455556666"));
    }

    #[test]
    fn only_the_root_user_of_the_first_account_may_do_everything() {
        let root = |number: &str| {
            let text = str::to_owned;
            let arn = format!("arn:aws:iam::{number}:root");
            (arn, text("root"), text(number), text(number), text("root"), Vec::new(), None, Vec::new())
        };
        let of = |access_key: &str, number: &str, session: Option<&str>| {
            (
                access_key.to_owned(),
                "s".to_owned(),
                format!("arn:aws:iam::{number}:root"),
                session.map(str::to_owned),
                true,
            )
        };
        let mut all = rows(&[
            key("U", "s"),
            of("R", "111122223333", None),
            of("O", "444455556666", None),
            of("S", "111122223333", Some("p")),
        ]);
        all.accounts.push(("444455556666".into(), "11".repeat(32), "other".into()));
        all.identities.extend([root("111122223333"), root("444455556666")]);
        let identities = Identities::new(all).unwrap();
        let is_root = ["R", "O", "U", "S", ""].map(|name| identities.requester(name).unwrap().is_root);
        assert_eq!(is_root, [true, false, false, false, false]);
        assert_eq!(identities.requester("U").unwrap().log_name(), ARN);
    }
}
