//! Changing the master key, under which the whole keyring is sealed, and accepting an older copy.

use orcas_seal::{MasterSecret, ScryptParams};

use super::Keyring;
use crate::error::ChangeError;
use crate::unsealing::kdf_for;

impl Keyring {
    /// Seals the keyring under another master key. From then on it opens with that one alone. Takes as long as scrypt.
    /// Without `params`, scrypt has those of the present passphrase, or the default ones.
    ///
    /// # Errors
    /// [`ChangeError`]. After [`ChangeError::Uncertain`], either master key may be the one that a start needs.
    pub fn change_master(&self, secret: &MasterSecret, params: Option<ScryptParams>) -> Result<(), ChangeError> {
        let params = params.or_else(|| self.scrypt()).unwrap_or(ScryptParams::DEFAULT);
        let kdf = kdf_for(secret, params, &mut |bytes| self.environment.fill(bytes))?;
        let master = self.times.derived.timed(|| secret.derive(kdf))?;
        let mut writer = self.writer.lock();
        self.check_newest()?;
        let former = std::mem::replace(&mut writer.master, master);
        let mut next = self.state().keys.clone();
        next.renew();
        let stored = self.store_and_publish(&mut writer, next);
        if let Err(ChangeError::Unchanged { .. } | ChangeError::Refused(_)) = stored {
            writer.master = former;
        }
        stored
    }

    /// The cost of scrypt, if the master key comes from a passphrase. Never waits.
    pub fn scrypt(&self) -> Option<ScryptParams> {
        self.state().scrypt
    }

    /// Gives up newer copies of an older keyring, which from now on is the newest one. They are recognised as older ones.
    ///
    /// # Errors
    /// [`ChangeError`], [`ChangeError::NotOlder`] if it is not one.
    pub fn accept_older(&self) -> Result<(), ChangeError> {
        let mut writer = self.writer.lock();
        if self.check_newest().is_ok() {
            return Err(ChangeError::NotOlder);
        }
        let mut next = self.state().keys.clone();
        next.branch(self.noted);
        self.store_and_publish(&mut writer, next)
    }
}
