//! The files of a store: the settings to open them with, the keys, and checks, repairs and listings of what they hold.

mod checks;
mod content_keys;
mod inspect;
mod keyring;
mod options;

pub(crate) use checks::{
    CheckProgress, Report, SalvageReport, ScrubState, check_formats, check_store, chunks_named, repair_store,
};
pub(crate) use content_keys::{CopiedKeys, KeyringKeys};
pub(crate) use inspect::inspect_store;
pub(crate) use keyring::{KeyringOptions, Opened, PyKeyring, inspect_keyring, read_keyring};
pub(crate) use options::{Options, environment, environment_with};
