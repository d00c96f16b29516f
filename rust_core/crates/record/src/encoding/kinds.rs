//! The frame types of the records.

use crate::seal::Seal;

macro_rules! kinds {
    ($($name:ident = $number:literal),* $(,)?) => {
        $(pub(crate) const $name: u8 = $number;)*

        /// Every kind and its name.
        pub(crate) const ALL: &[(u8, &str)] =
            &[$(($number, stringify!($name)),)* (UPDATE_VERSION, stringify!(UPDATE_VERSION))];
    };
}

kinds! {
    CREATE_BUCKET = 1,
    DELETE_BUCKET = 2,
    CREATE_PACK = 3,
    CONTENT = 4,
    CHUNK = 5,
    SEGMENT = 6,
    PUT_VERSION = 7,
    DELETE_VERSION = 8,
    MOVE_VERSION = 9,
    CREATE_UPLOAD = 10,
    PUT_PART = 11,
    ABORT_UPLOAD = 12,
    COMPLETE_UPLOAD = 13,
    UPDATE_BUCKET = 14,
    UNSHARED_CONTENT = 15,
    REMEMBER_UPLOAD = 16,
    CONDEMN_BLOBS = 17,
    MOVE_CHUNKS = 18,
    RETIRE_PACK = 19,
    MOVE_CONTENTS = 20,
    REPLACE_LOG = 21,
    PUT_DOCUMENT = 23,
    SEALED_CONTENT = 24,
    UNSHARED_SEALED_CONTENT = 25,
    SEALED_CHUNK = 26,
}

/// The frame type of [`Record::UpdateVersion`], which the index keeps beside the record of its version.
pub const UPDATE_VERSION: u8 = 22;

/// The name of a frame type, as `docs/format.md` writes it: `PutVersion`.
pub fn kind_name(kind: u8) -> Option<String> {
    let (_, name) = ALL.iter().find(|(number, _)| *number == kind)?;
    Some(name.split('_').map(|word| word[..1].to_owned() + &word[1..].to_lowercase()).collect())
}

/// The frame type of [`Record::Content`], whose payload is passed to the log in two pieces.
pub const fn content_kind(shared: bool, seal: Option<&Seal>) -> u8 {
    match (shared, seal) {
        (true, Some(_)) => SEALED_CONTENT,
        (false, Some(_)) => UNSHARED_SEALED_CONTENT,
        (true, None) => CONTENT,
        (false, None) => UNSHARED_CONTENT,
    }
}

/// Whether this is the frame type of a [`Record::Content`].
pub const fn is_content(kind: u8) -> bool {
    matches!(kind, CONTENT | UNSHARED_CONTENT | SEALED_CONTENT | UNSHARED_SEALED_CONTENT)
}

/// Whether this is the frame type of a blob that is sealed.
pub const fn is_sealed(kind: u8) -> bool {
    matches!(kind, SEALED_CONTENT | UNSHARED_SEALED_CONTENT | SEALED_CHUNK)
}

/// Whether a record of this type may say what becomes of a version that a layer below has.
pub const fn may_amend(kind: u8) -> bool {
    matches!(kind, PUT_VERSION | MOVE_VERSION)
}

/// Whether a record of this type may end a version or a bucket of an earlier record. True also for unknown types.
pub const fn may_end(kind: u8) -> bool {
    !matches!(
        kind,
        CREATE_BUCKET
            | CREATE_PACK
            | CONTENT
            | CHUNK
            | SEGMENT
            | CREATE_UPLOAD
            | PUT_PART
            | ABORT_UPLOAD
            | UPDATE_BUCKET
            | UNSHARED_CONTENT
            | REMEMBER_UPLOAD
            | CONDEMN_BLOBS
            | MOVE_CHUNKS
            | RETIRE_PACK
            | MOVE_CONTENTS
            | REPLACE_LOG
            | PUT_DOCUMENT
            | UPDATE_VERSION
            | SEALED_CONTENT
            | UNSHARED_SEALED_CONTENT
            | SEALED_CHUNK
    )
}

/// Whether the payload of such a record begins with a bucket and a key.
pub(crate) const fn begins_with_key(kind: u8) -> bool {
    matches!(kind, PUT_VERSION | DELETE_VERSION | MOVE_VERSION | COMPLETE_UPLOAD | UPDATE_VERSION)
}

/// Whether events are made from such a record: it keeps who caused it.
pub const fn keeps_cause(kind: u8) -> bool {
    matches!(
        kind,
        CREATE_BUCKET
            | DELETE_BUCKET
            | UPDATE_BUCKET
            | PUT_VERSION
            | DELETE_VERSION
            | MOVE_VERSION
            | COMPLETE_UPLOAD
            | UPDATE_VERSION
            | PUT_DOCUMENT
    )
}
