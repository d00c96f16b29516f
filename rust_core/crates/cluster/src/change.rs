//! Changes of files, as the batches of the shared log hold them. docs/format.md has the bytes.

use bytes::{Buf, BufMut, Bytes};

/// What one node did to a file, for the others to do. Names are relative to the directory of the store, with `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Bytes were written at an offset. The file is created if there is none.
    Write {
        name: String,
        offset: u64,
        bytes: Bytes,
    },
    /// The file is not longer than this.
    Cut {
        name: String,
        length: u64,
    },
    /// A range is a hole.
    Punch {
        name: String,
        offset: u64,
        length: u64,
    },
    Rename {
        from: String,
        to: String,
    },
    Remove {
        name: String,
    },
    /// The whole content of a small file.
    Replace {
        name: String,
        bytes: Bytes,
    },
    /// A message of the owner to the other nodes, which changes no file.
    Note(Bytes),
}

const WRITE: u8 = 1;
const CUT: u8 = 2;
const PUNCH: u8 = 3;
const RENAME: u8 = 4;
const REMOVE: u8 = 5;
const REPLACE: u8 = 6;
const NOTE: u8 = 7;

/// Most bytes that a change has beside what it writes.
pub const OVERHEAD: usize = 1 + 2 * (2 + NAME_MAX) + 8 + 4;
const NAME_MAX: usize = 255;

impl Change {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let name = |out: &mut Vec<u8>, name: &str| {
            out.put_u16_le(name.len() as u16);
            out.put_slice(name.as_bytes());
        };
        let content = |out: &mut Vec<u8>, bytes: &Bytes| {
            out.put_u32_le(bytes.len() as u32);
            out.put_slice(bytes);
        };
        match self {
            Self::Write { name: file, offset, bytes } => {
                out.put_u8(WRITE);
                name(out, file);
                out.put_u64_le(*offset);
                content(out, bytes);
            }
            Self::Cut { name: file, length } => {
                out.put_u8(CUT);
                name(out, file);
                out.put_u64_le(*length);
            }
            Self::Punch { name: file, offset, length } => {
                out.put_u8(PUNCH);
                name(out, file);
                out.put_u64_le(*offset);
                out.put_u64_le(*length);
            }
            Self::Rename { from, to } => {
                out.put_u8(RENAME);
                name(out, from);
                name(out, to);
            }
            Self::Remove { name: file } => {
                out.put_u8(REMOVE);
                name(out, file);
            }
            Self::Replace { name: file, bytes } => {
                out.put_u8(REPLACE);
                name(out, file);
                content(out, bytes);
            }
            Self::Note(bytes) => {
                out.put_u8(NOTE);
                content(out, bytes);
            }
        }
    }

    /// All changes of a batch, in their order. `None` if these are not the bytes of changes, or a name is not one of a
    /// file of a store.
    pub fn decode_all(batch: &Bytes) -> Option<Vec<Self>> {
        let mut rest = batch.clone();
        let mut changes = Vec::new();
        while rest.has_remaining() {
            changes.push(Self::decode(&mut rest)?);
        }
        Some(changes)
    }

    fn decode(rest: &mut Bytes) -> Option<Self> {
        Some(match rest.try_get_u8().ok()? {
            WRITE => {
                let (name, offset) = (shared_name(rest)?, rest.try_get_u64_le().ok()?);
                let bytes = content(rest)?;
                offset.checked_add(bytes.len() as u64)?;
                Self::Write { name, offset, bytes }
            }
            CUT => Self::Cut { name: shared_name(rest)?, length: rest.try_get_u64_le().ok()? },
            PUNCH => {
                let (name, offset) = (shared_name(rest)?, rest.try_get_u64_le().ok()?);
                Self::Punch { name, offset, length: rest.try_get_u64_le().ok()? }
            }
            RENAME => Self::Rename { from: shared_name(rest)?, to: shared_name(rest)? },
            REMOVE => Self::Remove { name: shared_name(rest)? },
            REPLACE => Self::Replace { name: name(rest).filter(|name| is_small(name))?, bytes: content(rest)? },
            NOTE => Self::Note(content(rest)?),
            _ => return None,
        })
    }
}

fn name(rest: &mut Bytes) -> Option<String> {
    let length = usize::from(rest.try_get_u16_le().ok()?);
    if length > NAME_MAX || rest.remaining() < length {
        return None;
    }
    String::from_utf8(rest.split_to(length).to_vec()).ok()
}

fn shared_name(rest: &mut Bytes) -> Option<String> {
    name(rest).filter(|name| is_shared(name))
}

fn content(rest: &mut Bytes) -> Option<Bytes> {
    let length = rest.try_get_u32_le().ok()? as usize;
    (rest.remaining() >= length).then(|| rest.split_to(length))
}

/// The files at the top of a store that the engine and the keyring write, and their drafts.
const TOP: [&str; 8] = [
    "store.keys",
    "store.keys.copy",
    "store.draft",
    "store.keys.draft",
    "keyring",
    "keyring.copy",
    "keyring.draft",
    "keyring.copy.draft",
];

/// Whether every node of a cluster has a file: the log, the packs and the keys. Not the index, which each node builds, nor
/// the journal of events, the ballast and the lock.
pub fn is_shared(name: &str) -> bool {
    match name.split_once('/') {
        None => TOP.contains(&name),
        Some((folder, file)) => matches!(folder, "log" | "chunks") && is_plain(file),
    }
}

/// Whether a name can be that of a small file, at the top of a store.
pub fn is_small(name: &str) -> bool {
    is_plain(name) && name != "store.lock"
}

fn is_plain(file: &str) -> bool {
    !file.is_empty()
        && !file.starts_with('.')
        && file.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<Change> {
        let (log, pack) = ("log/00000000000000000001.log".to_owned(), "chunks/1.pack".to_owned());
        vec![
            Change::Write { name: log.clone(), offset: 7, bytes: Bytes::from_static(b"bytes") },
            Change::Write { name: "store.keys".to_owned(), offset: 0, bytes: Bytes::new() },
            Change::Cut { name: log.clone(), length: 3 },
            Change::Punch { name: pack.clone(), offset: 4096, length: 8192 },
            Change::Rename { from: "keyring.draft".to_owned(), to: "keyring".to_owned() },
            Change::Remove { name: pack },
            Change::Replace { name: "control.db".to_owned(), bytes: Bytes::from_static(b"SQLite") },
            Change::Note(Bytes::from_static(b"{}")),
        ]
    }

    fn encoded(changes: &[Change]) -> Bytes {
        let mut out = Vec::new();
        changes.iter().for_each(|change| change.encode(&mut out));
        out.into()
    }

    #[test]
    fn changes_come_back_as_they_were() {
        assert_eq!(Change::decode_all(&encoded(&examples())), Some(examples()));
        assert_eq!(Change::decode_all(&Bytes::new()), Some(Vec::new()));
    }

    #[test]
    fn what_is_cut_off_is_no_change() {
        for change in examples() {
            let whole = encoded(&[change]);
            for length in 1..whole.len() {
                assert_eq!(Change::decode_all(&whole.slice(..length)), None);
            }
        }
    }

    #[test]
    fn names_do_not_leave_the_store() {
        for name in
            ["", "..", "log/..", "log/../x", "/etc/passwd", "log//x", "store.lock", "index/x", "control.db", "log/a b"]
        {
            let change = Change::Remove { name: name.to_owned() };
            assert_eq!(Change::decode_all(&encoded(&[change])), None, "{name}");
        }
        for name in ["log/x", "..", "", "store.lock", "a/b"] {
            let change = Change::Replace { name: name.to_owned(), bytes: Bytes::new() };
            assert_eq!(Change::decode_all(&encoded(&[change])), None, "{name}");
        }
    }
}
