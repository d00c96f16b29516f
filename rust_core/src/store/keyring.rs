//! The keyring as the control plane uses it: opened with the master key, and changed for the admin API.
//!
//! The text of a master key comes in once; what is kept of it overwrites itself. No message has any of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zeroize::Zeroizing;

use crate::errors::{MasterKeyError, StoreError, refusal};
use orcas_engine::{Clock, SystemClock};
use orcas_fs::read_only::ReadOnlyFileSystem;
use orcas_fs::real::{RealFileSystem, SystemRandom};
use orcas_fs::{FileSystem, Random};
use orcas_keyring::{ChangeError, Environment, KeyInfo, Keyring, OpenError, Presence, inspect, presence, store_of};
use orcas_seal::{CacheLimits, Error as SealError, FreshId, KeyId, KeyState, MasterSecret, ScryptParams, StoreId};

/// The master secret, and what may be done with it. At most one of the two is set.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct KeyringOptions {
    /// Creates a keyring where there is none, and fails where it cannot be opened. Otherwise the store opens without.
    required: bool,
    read_only: bool,
    /// The newest generation that the store has had.
    noted: u64,
    master_key: Option<SecretText>,
    master_passphrase: Option<SecretText>,
    /// Of unwrapped data keys.
    cache_entries: usize,
    cache_sec: u64,
}

/// Text of a secret. Rust's copy of it overwrites itself, whatever becomes of the call.
pub struct SecretText(Zeroizing<String>);

impl<'py> FromPyObject<'_, 'py> for SecretText {
    type Error = PyErr;

    fn extract(text: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        text.extract().map(|text: String| Self(Zeroizing::new(text)))
    }
}

/// The keyring of an open store, or why there is none.
#[derive(Clone)]
pub enum Opened {
    Open(Arc<Keyring>),
    /// There is none, and no master key was given.
    Absent,
    Closed(String),
}

impl Opened {
    pub fn keyring(&self) -> Option<Arc<Keyring>> {
        match self {
            Self::Open(keyring) => Some(Arc::clone(keyring)),
            Self::Absent | Self::Closed(_) => None,
        }
    }
}

impl KeyringOptions {
    /// Opens the keyring of the store in `dir`. Blocks, for scrypt and for the disk.
    ///
    /// # Errors
    /// Only if it is required.
    pub fn open(self, dir: &Path, store: [u8; 16]) -> PyResult<Opened> {
        self.open_in(Arc::new(RealFileSystem), dir, store)
    }

    /// Opens it, as `open` does, in this file system.
    pub fn open_in(mut self, fs: Arc<dyn FileSystem>, dir: &Path, store: [u8; 16]) -> PyResult<Opened> {
        match self.tried(fs, dir, StoreId(store)) {
            Ok(opened) => Ok(opened),
            Err(error) if self.required => Err(match error {
                OpenError::Damaged { .. } | OpenError::Missing { .. } | OpenError::NotStored(_) => {
                    StoreError::new_err(error.to_string())
                }
                _ => MasterKeyError::new_err(error.to_string()),
            }),
            Err(error) => Ok(Opened::Closed(error.to_string())),
        }
    }

    fn tried(&mut self, fs: Arc<dyn FileSystem>, dir: &Path, store: StoreId) -> Result<Opened, OpenError> {
        let fs = if self.read_only { Arc::new(ReadOnlyFileSystem::new(fs)) as Arc<dyn FileSystem> } else { fs };
        let secret = secret_of(self.master_key.take(), self.master_passphrase.take())?;
        let found = presence(&fs, dir);
        let cache =
            CacheLimits { entries: self.cache_entries.max(1), lifetime_ms: self.cache_sec.saturating_mul(1000) };
        let environment = environment(fs, cache);
        match (secret, found) {
            (Some(secret), Presence::None) if self.required => {
                Keyring::create(environment, dir, store, &secret).map(Opened::Open)
            }
            (_, Presence::None) => Ok(Opened::Absent),
            (None, _) => Err(OpenError::NoMasterKey { dir: dir.to_owned() }),
            (Some(secret), _) => Keyring::open(environment, dir, store, &secret, self.noted).map(Opened::Open),
        }
    }
}

/// At most one of the two is set.
fn secret_of(key: Option<SecretText>, passphrase: Option<SecretText>) -> Result<Option<MasterSecret>, SealError> {
    let secret = match (&key, &passphrase) {
        (Some(key), _) => Some(MasterSecret::from_base64(key.0.as_bytes())?),
        (None, Some(passphrase)) => Some(MasterSecret::from_passphrase(passphrase.0.as_bytes())?),
        (None, None) => None,
    };
    if secret.is_some() {
        keep_out_of_core_dumps();
    }
    Ok(secret)
}

fn with_scrypt_n(n: u32) -> Result<ScryptParams, SealError> {
    if !n.is_power_of_two() {
        return Err(SealError::ScryptParams { reason: "N is a power of two" });
    }
    ScryptParams::new(n.trailing_zeros() as u8, ScryptParams::DEFAULT.r(), ScryptParams::DEFAULT.p())
}

fn environment(fs: Arc<dyn FileSystem>, cache: CacheLimits) -> Environment {
    let clock = Arc::new(SystemClock::new());
    let monotonic = Arc::clone(&clock);
    Environment {
        fs,
        random: Arc::new(SystemRandom),
        now_ms: Arc::new(move || clock.now_ms()),
        monotonic_ms: Arc::new(move || monotonic.monotonic().as_millis() as u64),
        cache,
    }
}

/// A core dump would have the keys. Where it cannot be prevented, nothing else can be done.
fn keep_out_of_core_dumps() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let maximum = getrlimit(Resource::Core).maximum;
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum });
    // A limit does not hold for dumps that go to a program.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

/// A key as the admin API shows it.
#[derive(IntoPyObject)]
pub struct KeyDocument {
    id: String,
    name: String,
    state: &'static str,
    created_ms: u64,
    versions: usize,
    data_keys: usize,
    /// When it will be destroyed.
    due_ms: Option<u64>,
}

impl From<KeyInfo> for KeyDocument {
    fn from(info: KeyInfo) -> Self {
        let (state, due_ms) = match info.state {
            KeyState::Enabled => ("enabled", None),
            KeyState::Disabled => ("disabled", None),
            KeyState::PendingDestruction { due_ms } => ("pending destruction", Some(due_ms)),
            KeyState::Destroyed => ("destroyed", None),
        };
        let (id, versions) = (info.id.to_string(), info.versions);
        Self { id, name: info.name, state, created_ms: info.created_ms, versions, data_keys: info.data_keys, due_ms }
    }
}

/// The keys of an open store. Calls that change something block, without the GIL.
#[pyclass(frozen, name = "Keyring", module = "orcas._core")]
pub struct PyKeyring {
    pub inner: Arc<Keyring>,
}

#[pymethods]
impl PyKeyring {
    /// Rises with each change.
    fn generation(&self) -> u64 {
        self.inner.generation()
    }

    /// Lookups of data keys: hits, misses, and how many are kept.
    fn counts(&self) -> (u64, u64, usize) {
        let counts = self.inner.counts();
        (counts.hits, counts.misses, counts.entries)
    }

    /// All keys, in the order of their creation.
    fn list_keys(&self) -> Vec<KeyDocument> {
        self.inner.list().into_iter().map(KeyDocument::from).collect()
    }

    /// Adds a key.
    fn create(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        py.detach(|| self.inner.create_key(name)).map(drop).map_err(refused)
    }

    fn rotate(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.change(py, name, |id| self.inner.rotate(id).map(drop))
    }

    fn disable(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.change(py, name, |id| self.inner.disable(id))
    }

    fn enable(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.change(py, name, |id| self.inner.enable(id))
    }

    /// Destroys a key in 7 to 30 days, or at once for 0.
    fn destroy(&self, py: Python<'_>, name: &str, days: u32, lose_content: bool) -> PyResult<()> {
        self.change(py, name, |id| self.inner.destroy(id, days, lose_content))
    }

    fn cancel_destruction(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.change(py, name, |id| self.inner.cancel_destruction(id))
    }

    /// Gives up newer copies of an older keyring.
    fn accept_older(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.inner.accept_older()).map_err(refused)
    }

    /// N of scrypt, if the master key comes from a passphrase. Never waits.
    fn scrypt_n(&self) -> Option<u32> {
        self.inner.scrypt().map(|params| 1 << params.log2_n())
    }

    /// Seals the keyring under another master key or passphrase. `scrypt_n`, a power of two, is N of scrypt from now on.
    #[pyo3(signature = (key, passphrase, scrypt_n=None))]
    fn change_master(
        &self,
        py: Python<'_>,
        key: Option<SecretText>,
        passphrase: Option<SecretText>,
        scrypt_n: Option<u32>,
    ) -> PyResult<()> {
        py.detach(|| {
            let Some(secret) = secret_of(key, passphrase)? else {
                return Err(SealError::MalformedMasterKey { reason: "there is no new master key" }.into());
            };
            let params = scrypt_n.map(with_scrypt_n).transpose()?;
            self.inner.change_master(&secret, params)
        })
        .map_err(refused)
    }

    /// Seals a secret of the control plane under its name. Blocks for the disk the first time.
    fn seal_control<'py>(&self, py: Python<'py>, name: &str, secret: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let sealed = py.detach(|| {
            let key = self.inner.control_key().map_err(|error| StoreError::new_err(error.to_string()))?;
            let fresh = FreshId::draw(&mut |bytes| {
                SystemRandom.fill(bytes).map_err(|_| SealError::Invalid { reason: "the system gives no random bytes" })
            });
            fresh.map(|fresh| key.seal(name, secret, fresh)).map_err(|error| StoreError::new_err(error.to_string()))
        })?;
        Ok(PyBytes::new(py, &sealed))
    }

    /// The secret that was sealed under this name; None if it does not open.
    fn open_control<'py>(&self, py: Python<'py>, name: &str, sealed: &[u8]) -> Option<Bound<'py, PyBytes>> {
        let opened = self.inner.known_control_key()?.open(name, sealed).ok()?;
        Some(PyBytes::new(py, &opened))
    }

    /// Does what is due. Returns the ids of keys that were destroyed.
    fn upkeep(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let destroyed = py.detach(|| self.inner.upkeep());
        let destroyed = destroyed.map_err(|error| StoreError::new_err(error.to_string()))?;
        Ok(destroyed.iter().map(KeyId::to_string).collect())
    }
}

impl PyKeyring {
    fn change(
        &self,
        py: Python<'_>,
        name: &str,
        change: impl Fn(KeyId) -> Result<(), ChangeError> + Send + Sync,
    ) -> PyResult<()> {
        let Some(id) = self.inner.find(name) else {
            return Err(refusal(404, "NoSuchKey", format!("There is no key {name:?}.")));
        };
        py.detach(|| change(id)).map_err(refused)
    }
}

fn refused(error: ChangeError) -> PyErr {
    let (status, code) = match &error {
        ChangeError::InUse => (409, "KeyInUse"),
        ChangeError::Older(_) => (409, "KeyringOlder"),
        ChangeError::NotOlder => (409, "KeyringNotOlder"),
        ChangeError::Unchanged { .. } | ChangeError::Uncertain { .. } | ChangeError::OneCopy { .. } => {
            (503, "KeyringNotStored")
        }
        ChangeError::Refused(reason) => match reason {
            SealError::NameTaken => (409, "KeyAlreadyExists"),
            SealError::UnknownKey { .. } => (404, "NoSuchKey"),
            SealError::Invalid { .. } | SealError::MalformedMasterKey { .. } => (400, "InvalidRequest"),
            _ => (409, "InvalidKeyState"),
        },
    };
    let mut message = error.to_string();
    message[..1].make_ascii_uppercase();
    refusal(status, code, format!("{message}."))
}

/// The keyring in `directory`, for reading only; None if there is none. Blocks, for scrypt and for the disk.
#[pyfunction]
pub fn read_keyring(py: Python<'_>, directory: PathBuf, options: KeyringOptions) -> PyResult<Option<PyKeyring>> {
    py.detach(|| {
        let fs: Arc<dyn FileSystem> = Arc::new(RealFileSystem);
        if presence(&fs, &directory) == Presence::None {
            return Ok(None);
        }
        match opened_in(&directory, options)? {
            Opened::Open(inner) => Ok(Some(PyKeyring { inner })),
            Opened::Absent | Opened::Closed(_) => Ok(None),
        }
    })
}

/// The keyring in a directory that no store has open. Blocks, for scrypt and for the disk.
///
/// # Errors
/// As of [`KeyringOptions::open`].
pub fn opened_in(directory: &Path, options: KeyringOptions) -> PyResult<Opened> {
    let fs: Arc<dyn FileSystem> = Arc::new(RealFileSystem);
    // Damaged copies belong to no store, and are refused as such.
    let store = store_of(&fs, directory).unwrap_or(StoreId([0; 16]));
    options.open(directory, store.0)
}

/// The store id and the generation of the bytes of a keyring; None if they are damaged.
#[pyfunction]
pub fn inspect_keyring(content: &[u8]) -> Option<(String, u64)> {
    inspect(content).map(|(store, generation)| (store.to_string(), generation))
}
