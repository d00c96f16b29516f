//! A private directory outside of any store, for what a check needs for a while: indexes that it builds or copies.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the way to the files of the machine")]

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use orcas_base::error::{Error, Result};

static MADE: AtomicU64 = AtomicU64::new(0);
/// Names tried before giving up.
const NAMES_MAX: u64 = 1_000;

/// Gone with everything in it when dropped.
pub struct ScratchDir {
    path: PathBuf,
}

impl ScratchDir {
    /// Makes one in the system's directory for temporary files, readable by nobody else.
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

    /// Copies a file here under another name; false when it is not there.
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
        // What cannot be removed now is left to whoever clears temporary files.
        let _ = fs::remove_dir_all(&self.path);
    }
}
