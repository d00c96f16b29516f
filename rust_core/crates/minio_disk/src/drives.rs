//! The drives of one pool: which place each has, by `format.json`, and what is read of their files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the files of another server")]

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::meta::{HEAD_MAX, META_MAX, Version, needed, parse};
use crate::sealed::MasterKey;

/// The buckets of MinIO itself.
pub const SYSTEM: &[u8] = b".minio.sys";
/// Read at first: the versions of most objects.
const FIRST: usize = 8 << 10;
const FORMAT_MAX: u64 = 16 << 20;

#[derive(Clone, Deserialize)]
struct Format {
    format: String,
    id: String,
    #[serde(default)]
    xl: Erasure,
}

#[derive(Clone, Default, Deserialize)]
struct Erasure {
    #[serde(default)]
    version: String,
    #[serde(default)]
    this: String,
    #[serde(default)]
    sets: Vec<Vec<String>>,
}

/// The erasure sets, and the directories of their drives. `None`: it was not given.
pub struct Drives {
    pub sets: Vec<Vec<Option<PathBuf>>>,
    /// That of MinIO's KMS, if it was given.
    pub key: Option<MasterKey>,
}

/// What a drive has of an object.
pub enum Seen {
    /// The drive is not there, or cannot be read.
    Unknown,
    Absent,
    /// Only an `xl.json`.
    Old,
    Found(Vec<Version>),
}

impl Drives {
    /// Reads `format.json` of each directory. The error says why these are not enough.
    pub fn open(directories: &[PathBuf], key: Option<MasterKey>) -> Result<Self, String> {
        let mut first: Option<Format> = None;
        let mut places: Vec<Vec<Option<PathBuf>>> = Vec::new();
        for directory in directories {
            let name = directory.display();
            let format = format_of(directory)?;
            if format.format == "fs" {
                return Err(format!("{name} has its objects as plain files, so each bucket is a directory to import"));
            }
            if !format.format.starts_with("xl") || format.xl.version != "3" {
                return Err(format!("{name} is of a format of MinIO that is not known here"));
            }
            let known = first.get_or_insert_with(|| {
                places = format.xl.sets.iter().map(|set| vec![None; set.len()]).collect();
                format.clone()
            });
            if known.id != format.id || known.xl.sets != format.xl.sets {
                return Err(format!("{name} is of another pool than the first one, and pools are imported one by one"));
            }
            let place = format.xl.sets.iter().zip(&mut places).find_map(|(names, set)| {
                let at = names.iter().position(|name| *name == format.xl.this)?;
                Some(&mut set[at])
            });
            match place.map(|place| place.replace(directory.clone())) {
                Some(None) => {}
                Some(Some(other)) => return Err(format!("{name} and {} are the same drive", other.display())),
                None => return Err(format!("{name} is not among the drives in its own format.json")),
            }
        }
        for (number, set) in places.iter().enumerate() {
            let given = set.iter().flatten().count();
            if 2 * given < set.len() {
                return Err(format!("erasure set {} has {} drives, of which {given} are named", number + 1, set.len()));
            }
        }
        Ok(Self { sets: places, key })
    }

    /// Drives that were not named, and all.
    pub fn missing(&self) -> (usize, usize) {
        let all = self.sets.iter().flatten();
        (all.clone().filter(|place| place.is_none()).count(), all.count())
    }

    /// The names of directories in a directory of any drive. The error names an erasure set that cannot list it.
    pub fn folders(&self, path: &[u8]) -> Result<BTreeSet<Vec<u8>>, String> {
        let mut names = BTreeSet::new();
        for (number, set) in self.sets.iter().enumerate() {
            let failed = set.iter().flatten().filter(|drive| list(&under(drive, path), &mut names).is_err()).count();
            let silent = failed + set.iter().filter(|place| place.is_none()).count();
            if failed > 0 && 2 * silent > set.len() {
                return Err(format!("a folder cannot be listed on erasure set {}", number + 1));
            }
        }
        Ok(names)
    }

    /// What each drive of a set has at a path.
    pub fn seen(&self, set: usize, path: &[u8]) -> Vec<Seen> {
        let look = |drive: &PathBuf| match read_versions(&under(drive, path)) {
            Ok(Some(versions)) => Seen::Found(versions),
            Err(error) if is_absence(&error) && under(drive, path).join("xl.json").exists() => Seen::Old,
            Err(error) if is_absence(&error) => Seen::Absent,
            _ => Seen::Unknown,
        };
        self.sets[set].iter().map(|place| place.as_ref().map_or(Seen::Unknown, look)).collect()
    }
}

fn format_of(directory: &Path) -> Result<Format, String> {
    let path = directory.join(".minio.sys/format.json");
    let name = directory.display();
    let bytes = File::open(&path).and_then(|file| {
        let length = file.metadata()?.len().min(FORMAT_MAX) as usize;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    });
    match bytes {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|_| format!("{} is damaged", path.display())),
        Err(error) if is_absence(&error) => Err(format!("{name} has no .minio.sys/format.json")),
        Err(error) => Err(format!("{} cannot be read ({})", path.display(), error.kind())),
    }
}

pub fn under(drive: &Path, path: &[u8]) -> PathBuf {
    drive.join(std::ffi::OsStr::from_bytes(path))
}

pub fn is_absence(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory)
}

fn list(path: &Path, names: &mut BTreeSet<Vec<u8>>) -> Result<(), Error> {
    let entries = match std::fs::read_dir(path) {
        Err(error) if is_absence(&error) => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.insert(entry.file_name().into_vec());
        }
    }
    Ok(())
}

/// The versions in an `xl.meta`; `Ok(None)` if it is damaged.
fn read_versions(folder: &Path) -> Result<Option<Vec<Version>>, Error> {
    let file = File::open(folder.join("xl.meta"))?;
    Ok(read_list(&file)?.map(|(versions, _)| versions))
}

/// The versions of an `xl.meta`, and where the content begins.
pub fn read_list(file: &File) -> Result<Option<(Vec<Version>, u64)>, Error> {
    let mut bytes = vec![0; FIRST];
    let read = read_up_to(file, &mut bytes, 0)?;
    bytes.truncate(read);
    let wanted = needed(&bytes[..bytes.len().min(HEAD_MAX)]).unwrap_or(META_MAX).min(META_MAX);
    if wanted > bytes.len() && bytes.len() == FIRST {
        let length = file.metadata()?.len();
        bytes.resize(wanted.min(usize::try_from(length).unwrap_or(usize::MAX)), 0);
        let read = read_up_to(file, &mut bytes[FIRST..], FIRST as u64)?;
        bytes.truncate(FIRST + read);
    }
    Ok(parse(&bytes).map(|(versions, end)| (versions, end as u64)))
}

/// How many bytes of `into` were read: fewer only at the end of the file.
pub fn read_up_to(file: &File, into: &mut [u8], at: u64) -> Result<usize, Error> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], at + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
