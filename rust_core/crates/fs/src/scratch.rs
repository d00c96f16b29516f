//! A private temporary directory outside of any store, for the indexes that a check builds or copies.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the way to the files of the machine")]

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use orcas_base::error::{Error, Result};

static MADE: AtomicU64 = AtomicU64::new(0);
/// Names that are tried.
const NAMES_MAX: u64 = 1_000;

/// Removed with its content when dropped.
pub struct ScratchDir {
    path: PathBuf,
}

impl ScratchDir {
    /// Makes one in the system's directory for temporary files, accessible only to the current user.
    pub fn new() -> Result<Self> {
        let parent = std::env::temp_dir();
        for _ in 0..NAMES_MAX {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("orcas-check-{}-{number}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("create directory", &path, error)),
            }
        }
        Err(Error::io("create directory", &parent, io::ErrorKind::AlreadyExists.into()))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Copies a file to this directory under another name. `false` if the file is missing.
    pub fn copy_in(&self, from: &Path, name: &str) -> Result<bool> {
        match fs::copy(from, self.path.join(name)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io("copy", from, error)),
        }
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // If this fails, the directory stays like any other temporary file.
        let _ = fs::remove_dir_all(&self.path);
    }
}
