//! Removing an object that is elsewhere now: its own files, and the folders that are empty then. Content goes before
//! `xl.meta`, so an object whose removal was interrupted is still listed, and is removed the next time.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the files of another server")]

use std::io::Error;
use std::path::{Path, PathBuf};

use crate::content::uuid;
use crate::drives::{Drives, is_absence, under};
use crate::walk::Found;

impl Drives {
    /// Removes an object from all drives of its set that were named. The error says why it stays, in whole or in part.
    pub fn remove(&self, object: &Found) -> Result<(), String> {
        if object.interrupted > 0 || object.versions.iter().any(|version| !version.problem.is_empty()) {
            return Err("not everything of it can be read".to_owned());
        }
        let drives: Vec<&PathBuf> = self.sets[object.set].iter().flatten().collect();
        let mut folders = Vec::new();
        for drive in &drives {
            match real(drive, &object.path) {
                Ok(true) => folders.push(under(drive, &object.path)),
                Ok(false) => {}
                Err(error) => return Err(failed(drive, &error)),
            }
        }
        for folder in &folders {
            for shape in object.versions.iter().map(|version| &version.shape) {
                let content = folder.join(uuid(&shape.data_dir));
                if content.symlink_metadata().is_ok_and(|content| content.is_dir()) {
                    for part in &shape.parts {
                        gone(std::fs::remove_file(content.join(format!("part.{}", part.number))))
                            .map_err(|error| failed(&content, &error))?;
                    }
                    // What else is in it stays.
                    let _ = std::fs::remove_dir(content);
                }
            }
        }
        for folder in &folders {
            gone(std::fs::remove_file(folder.join("xl.meta"))).map_err(|error| failed(folder, &error))?;
        }
        for drive in drives {
            // Up to the bucket, which stays.
            let inside = under(Path::new(""), &object.path);
            for folder in inside.ancestors().take_while(|folder| folder.components().count() > 1) {
                if std::fs::remove_dir(drive.join(folder)).is_err() {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Whether a drive has a folder. Through a symbolic link, something else would be removed, which is an error.
fn real(drive: &Path, path: &[u8]) -> Result<bool, Error> {
    match under(drive, path).canonicalize() {
        Ok(found) if found == under(&drive.canonicalize()?, path) => Ok(true),
        Ok(_) => Err(Error::other("a symbolic link is in its path")),
        Err(error) if is_absence(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn gone(removed: Result<(), Error>) -> Result<(), Error> {
    removed.or_else(|error| if is_absence(&error) { Ok(()) } else { Err(error) })
}

fn failed(path: &Path, error: &Error) -> String {
    format!("{} cannot be removed ({error})", path.display())
}
