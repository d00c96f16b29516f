//! The objects of a bucket in the order of their keys. A key is a path of directories, the last of which has `xl.meta`;
//! others may be below it, whose keys follow. A key that ends with a slash is a directory with a suffix.

use std::sync::Arc;

use crate::drives::{Drives, SYSTEM, Seen};
use crate::merge::{OLD, Taken, merged};
use crate::sealed::MasterKey;

/// In place of the slash at the end of a key.
const SLASH: &[u8] = b"__XLDIR__";

/// An object, or a folder that cannot be listed.
pub struct Found {
    pub key: Vec<u8>,
    /// Below the directory of a drive.
    pub path: Vec<u8>,
    pub set: usize,
    /// From the newest to the oldest.
    pub versions: Vec<Taken>,
    /// Versions whose writing was interrupted.
    pub interrupted: u64,
    /// Why nothing can be said of it; empty if that is not so.
    pub problem: String,
}

pub struct Walk {
    drives: Arc<Drives>,
    bucket: Vec<u8>,
    prefix: Vec<u8>,
    /// What is left to visit, the next one last: a key, the path of its directory in the bucket, and whether that is
    /// visited as a folder. The key of a folder ends with a slash, and those in it begin with it.
    left: Vec<(Vec<u8>, Vec<u8>, bool)>,
}

impl Drives {
    /// The names of buckets, in order.
    pub fn buckets(&self) -> Result<Vec<Vec<u8>>, String> {
        // Others have what is no bucket, such as lost+found.
        let is_name = |name: &Vec<u8>| {
            name.len() >= 3
                && name[0] != b'.'
                && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(byte))
        };
        Ok(self.folders(b"")?.into_iter().filter(is_name).collect())
    }

    /// What all drives together have at a path below their directories. `None`: no object.
    pub fn object(&self, key: Vec<u8>, path: Vec<u8>) -> Option<Found> {
        let mut found: Option<Found> = None;
        for set in 0..self.sets.len() {
            let seen = self.seen(set, &path);
            let is_there = seen.iter().any(|seen| matches!(seen, Seen::Found(_)));
            let is_old = seen.iter().any(|seen| matches!(seen, Seen::Old));
            let unknown = seen.iter().filter(|seen| matches!(seen, Seen::Unknown)).count();
            let damaged = unknown - self.sets[set].iter().filter(|drive| drive.is_none()).count();
            if !is_there && !is_old && damaged == 0 {
                continue;
            }
            if let Some(found) = &mut found {
                found.problem = "it is in two erasure sets".to_owned();
                continue;
            }
            let drives = seen.len();
            let (mut versions, mut interrupted) = merged(seen);
            versions.iter_mut().for_each(|version| self.unseal(version, &key, &path));
            let mut problem = String::new();
            if !is_there && is_old {
                problem = OLD.to_owned();
            } else if !is_there && 2 * unknown < drives {
                interrupted += 1;
            } else if !is_there {
                problem = format!("its xl.meta cannot be read on {damaged} of {drives} drives");
            }
            found = Some(Found { key: key.clone(), path: path.clone(), set, versions, interrupted, problem });
        }
        found
    }

    /// Finds the key of what is encrypted, and opens its ETag, its checksums and its length.
    fn unseal(&self, version: &mut Taken, key: &[u8], path: &[u8]) {
        let bucket = path.split(|byte| *byte == b'/').next().unwrap_or_default();
        let place = [bucket, key.strip_suffix(b"/").unwrap_or(key)].map(String::from_utf8_lossy).join("/");
        let opened = MasterKey::of_version(self.key.as_ref(), &version.metadata, &place)
            .and_then(|secret| secret.map_or(Ok(()), |secret| version.unseal(secret)));
        if let (Err(problem), true) = (opened, version.problem.is_empty()) {
            version.problem = problem;
        }
    }
}

impl Walk {
    /// The objects of a bucket whose keys begin with `prefix`.
    pub fn new(drives: Arc<Drives>, bucket: &[u8], prefix: &[u8]) -> Self {
        Self { drives, bucket: bucket.to_vec(), prefix: prefix.to_vec(), left: vec![(Vec::new(), Vec::new(), true)] }
    }

    fn path(&self, folder: &[u8]) -> Vec<u8> {
        [&self.bucket, &b"/"[..], folder].concat()
    }

    /// Puts what is in a folder before what is left.
    fn enter(&mut self, key: &[u8], folder: &[u8]) -> Result<(), String> {
        let mut inside = Vec::new();
        for name in self.drives.folders(&self.path(folder))? {
            let path = [folder, &name, b"/"].concat();
            if let Some(name) = name.strip_suffix(SLASH) {
                inside.push(([key, name, b"/"].concat(), path, false));
            } else {
                inside.push(([key, &name].concat(), path.clone(), false));
                inside.push(([key, &name, b"/"].concat(), path, true));
            }
        }
        inside.retain(|(key, _, is_folder)| {
            key.starts_with(&self.prefix) || (*is_folder && self.prefix.starts_with(key))
        });
        // An object before the folder of the same key.
        inside.sort_by(|(key, _, is_folder), (other, _, other_is)| (other, other_is).cmp(&(key, is_folder)));
        self.left.extend(inside);
        Ok(())
    }
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        while let Some((key, path, is_folder)) = self.left.pop() {
            if !is_folder {
                let whole = self.path(&path);
                if let Some(found) = self.drives.object(key, whole) {
                    return Some(found);
                }
            } else if let Err(problem) = self.enter(&key, &path) {
                let path = self.path(&path);
                return Some(Found { key, path, set: 0, versions: Vec::new(), interrupted: 0, problem });
            }
        }
        None
    }
}

/// The path of a file of MinIO's own.
pub fn system_path(name: &[u8]) -> Vec<u8> {
    [SYSTEM, b"/", name].concat()
}
