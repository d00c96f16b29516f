//! The two files of a keyring: reading them, finding out which one counts, and replacing one whole.
//!
//! A copy that cannot be read is a damaged copy, whatever the reason. One of another store or of a later version is never
//! overwritten.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_base::error::{Error, Result};
use orcas_fs::{FileSystem, Open};
use orcas_seal::{Error as SealError, KEYRING_LENGTH_MAX, SealedKeyring, StoreId};

use crate::error::OpenError;

/// The files, in the order in which they are written.
pub const NAMES: [&str; 2] = ["keyring", "keyring.copy"];

/// The state of a keyring as far as it is known without its master key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    None,
    /// No copy can be read.
    Damaged,
    /// At least one can.
    Readable,
}

/// The state of the keyring in the data directory.
pub fn presence(fs: &Arc<dyn FileSystem>, dir: &Path) -> Presence {
    let copies = NAMES.map(|name| read(fs, &dir.join(name)));
    if copies.iter().any(|copy| matches!(copy, CopyState::Whole(_))) {
        Presence::Readable
    } else if copies.iter().all(|copy| matches!(copy, CopyState::Missing)) {
        Presence::None
    } else {
        Presence::Damaged
    }
}

/// The store that the keyring belongs to; `None` if no copy can be read.
pub fn store_of(fs: &Arc<dyn FileSystem>, dir: &Path) -> Option<StoreId> {
    NAMES.iter().find_map(|name| match read(fs, &dir.join(name)) {
        CopyState::Whole(bytes) => inspect(&bytes).map(|(store, _)| store),
        CopyState::Missing | CopyState::Damaged(_) | CopyState::Later(_) => None,
    })
}

/// The store and the generation of a copy, or `None` if it is damaged or of a later version. Needs no master key.
pub fn inspect(bytes: &[u8]) -> Option<(StoreId, u64)> {
    SealedKeyring::parse(bytes).ok().map(|parsed| (parsed.store(), parsed.generation()))
}

/// # Errors
/// [`Error::Version`] for a copy of a later version. What cannot be read is left to those who need it.
pub fn check_formats(fs: &Arc<dyn FileSystem>, dir: &Path) -> Result<()> {
    for path in NAMES.map(|name| dir.join(name)) {
        if let CopyState::Later(SealError::Version { found, supported }) = read(fs, &path) {
            return Err(Error::Version { path, found, supported });
        }
    }
    Ok(())
}

/// One file.
pub(crate) enum CopyState {
    Missing,
    Damaged(String),
    Whole(Vec<u8>),
    Later(SealError),
}

impl CopyState {
    fn reason(&self) -> String {
        match self {
            Self::Missing => "is missing".to_owned(),
            Self::Damaged(reason) => reason.clone(),
            Self::Whole(_) | Self::Later(_) => "is whole".to_owned(),
        }
    }

    pub fn is(&self, bytes: &[u8]) -> bool {
        matches!(self, Self::Whole(own) if own == bytes)
    }
}

pub(crate) fn read(fs: &Arc<dyn FileSystem>, path: &Path) -> CopyState {
    let bytes = match bytes(fs, path) {
        Ok(bytes) => bytes,
        Err(Error::Missing { .. }) => return CopyState::Missing,
        Err(error) => return CopyState::Damaged(error.to_string()),
    };
    match SealedKeyring::parse(&bytes) {
        Ok(_) => CopyState::Whole(bytes),
        Err(error @ SealError::Version { .. }) => CopyState::Later(error),
        Err(error) => CopyState::Damaged(format!("{}: {error}", path.display())),
    }
}

fn bytes(fs: &Arc<dyn FileSystem>, path: &Path) -> Result<Vec<u8>> {
    let file = fs.open(path, Open::Read)?;
    let length = usize::try_from(file.len()?).ok().filter(|length| *length <= KEYRING_LENGTH_MAX);
    let length = length.ok_or_else(|| Error::corrupt(path, 0, "it is longer than a keyring can be"))?;
    let mut bytes = vec![0; length];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Both copies of one store, of which at least one is whole.
pub(crate) struct Copies {
    states: [(PathBuf, CopyState); 2],
    newest: usize,
}

impl Copies {
    pub fn read(fs: &Arc<dyn FileSystem>, dir: &Path, store: StoreId) -> Result<Self, OpenError> {
        let states = NAMES.map(|name| {
            let path = dir.join(name);
            let state = read(fs, &path);
            (path, state)
        });
        let mut newest: Option<(usize, u64)> = None;
        for (place, (path, state)) in states.iter().enumerate() {
            match state {
                CopyState::Later(error) => return Err(OpenError::Version { path: path.clone(), error: error.clone() }),
                CopyState::Missing | CopyState::Damaged(_) => {}
                CopyState::Whole(bytes) => {
                    let parsed = SealedKeyring::parse(bytes)?;
                    if parsed.store() != store {
                        return Err(OpenError::Foreign { path: path.clone() });
                    }
                    let generation = parsed.generation();
                    if newest.is_none_or(|(_, known)| generation > known) {
                        newest = Some((place, generation));
                    }
                }
            }
        }
        match newest {
            Some((newest, _)) => Ok(Self { states, newest }),
            None if states.iter().all(|(_, state)| matches!(state, CopyState::Missing)) => {
                Err(OpenError::Missing { dir: dir.to_owned() })
            }
            None => {
                let [first, second] = states.map(|(_, state)| state.reason());
                Err(OpenError::Damaged { first, second })
            }
        }
    }

    /// The copy that counts.
    pub fn newest(&self) -> (&Path, &[u8]) {
        self.whole(self.newest).expect("the newest copy is whole")
    }

    /// The other copy, if it is whole and older.
    pub fn older(&self) -> Option<(&Path, &[u8])> {
        let (_, newest) = self.newest();
        self.whole(1 - self.newest).filter(|(_, bytes)| *bytes != newest)
    }

    fn whole(&self, place: usize) -> Option<(&Path, &[u8])> {
        match &self.states[place] {
            (path, CopyState::Whole(bytes)) => Some((path, bytes)),
            _ => None,
        }
    }

    /// Writes the other copy again unless it has the same bytes, and makes both entries durable, because the process
    /// may have ended before it did so.
    pub fn repair(&self, fs: &Arc<dyn FileSystem>, dir: &Path) -> Result<()> {
        let (_, bytes) = self.newest();
        let (path, other) = &self.states[1 - self.newest];
        if other.is(bytes) {
            return fs.sync_dir(dir);
        }
        write(fs, dir, path, bytes).map_err(|(error, _)| error)?;
        if !matches!(other, CopyState::Whole(_)) {
            tracing::warn!(path = %path.display(), "A copy of the keyring was lost and is written again");
        }
        Ok(())
    }
}

/// Writes a copy under its name whole or not at all, and durably. After an error, the flag says whether it has the new
/// bytes, which may then not be durable.
pub(crate) fn write(fs: &Arc<dyn FileSystem>, dir: &Path, path: &Path, bytes: &[u8]) -> Result<(), (Error, bool)> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let draft = dir.join(format!("{name}.draft"));
    if let Err(error) = write_draft(fs, dir, &draft, bytes) {
        // Without it, nothing but space is lost: the next one replaces it.
        let _ = fs.remove(&draft);
        return Err((error, false));
    }
    if let Err(error) = fs.rename(&draft, path) {
        let replaced = read(fs, path).is(bytes);
        return Err((error, replaced));
    }
    fs.sync_dir(dir).map_err(|error| (error, true))
}

fn write_draft(fs: &Arc<dyn FileSystem>, dir: &Path, draft: &Path, bytes: &[u8]) -> Result<()> {
    let left_behind = draft.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if fs.list(dir)?.iter().any(|name| name == left_behind) {
        fs.remove(draft)?;
    }
    let file = fs.open(draft, Open::Create)?;
    file.write_at(0, bytes)?;
    file.sync_data()
}
