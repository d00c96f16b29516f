//! Who may sign requests, and who may do what: the identities of this moment, and what protects them from forgers.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::bounds::lockouts::{LockoutOptions, Lockouts};
use crate::bounds::replays::Replays;
use crate::senders::identities::{Identities, IdentityTables};
use orcas_base::per_thread::PerThread;
use orcas_base::sync::{Loaded, Snapshot};
use orcas_seal::Secret;
use orcas_sigv4::SigningKeys;

/// A change of identities waits this often, and this long each time, for requests that use the former ones.
const WAITS_MAX: usize = 1000;
const WAIT: Duration = Duration::from_micros(100);

pub struct Signers {
    identities: Snapshot<Identities>,
    changing: Mutex<()>,
    /// Each group of threads derives its own.
    pub signing_keys: PerThread<SigningKeys>,
    /// Requests to the admin API that were accepted before.
    pub replays: Replays,
    /// Addresses that have sent many wrong signatures.
    pub lockouts: Lockouts,
}

impl Signers {
    pub fn new(identities: Identities, lockout: &LockoutOptions, now_ms: i64) -> Self {
        Self {
            identities: Snapshot::new(Arc::new(identities)),
            changing: Mutex::new(()),
            signing_keys: PerThread::default(),
            replays: Replays::new(now_ms),
            lockouts: Lockouts::new(lockout),
        }
    }

    /// The identities of this moment, with keys and policies.
    pub fn identities(&self) -> Loaded<Identities> {
        self.identities.load()
    }

    /// Requests that arrive from now on are verified and authorized with these identities alone.
    ///
    /// # Errors
    /// As of [`Identities::new`]; then nothing changes.
    pub fn replace(&self, rows: IdentityTables) -> Result<(), String> {
        self.make(|current| current.replaced(rows))
    }

    /// Requests that arrive from now on are verified and authorized with these rows too, and without what has an id of
    /// `removed`.
    ///
    /// # Errors
    /// As of [`Identities::new`]; then nothing changes.
    pub fn change(&self, rows: IdentityTables, removed: &[String]) -> Result<(), String> {
        self.make(|current| current.changed(rows, removed))
    }

    /// Tokens of sessions are opened with these keys from now on, each of which has an id.
    pub fn use_session_keys(&self, keys: Vec<([u8; 8], Secret)>) {
        let changed = self.make(|current| Ok(current.with_session_keys(keys)));
        debug_assert!(changed.is_ok(), "nothing of it is refused");
    }

    /// The next identity snapshot is made while requests are authorized with the one before.
    fn make(&self, make: impl FnOnce(&Identities) -> Result<Identities, String>) -> Result<(), String> {
        let _changing = self.changing.lock();
        let next = Arc::new(make(&self.identities())?);
        let former = self.identities.replace(next);
        // To free an identity snapshot of many rows takes milliseconds. So that happens here, and not in a request that
        // still uses it, unless that takes long.
        for _ in 0..WAITS_MAX {
            if Arc::strong_count(&former) == 1 {
                break;
            }
            std::thread::sleep(WAIT);
        }
        Ok(())
    }
}
