//! The frame types of the records.

pub(super) const CREATE_BUCKET: u8 = 1;
pub(super) const DELETE_BUCKET: u8 = 2;
pub(super) const CREATE_PACK: u8 = 3;
pub(super) const CONTENT: u8 = 4;
pub(super) const CHUNK: u8 = 5;
pub(super) const SEGMENT: u8 = 6;
pub(super) const PUT_VERSION: u8 = 7;
pub(super) const DELETE_VERSION: u8 = 8;
pub(super) const MOVE_VERSION: u8 = 9;
pub(super) const CREATE_UPLOAD: u8 = 10;
pub(super) const PUT_PART: u8 = 11;
pub(super) const ABORT_UPLOAD: u8 = 12;
pub(super) const COMPLETE_UPLOAD: u8 = 13;
pub(super) const UPDATE_BUCKET: u8 = 14;
pub(super) const UNSHARED_CONTENT: u8 = 15;
pub(super) const REMEMBER_UPLOAD: u8 = 16;
pub(super) const CONDEMN_BLOBS: u8 = 17;
pub(super) const MOVE_CHUNKS: u8 = 18;
pub(super) const RETIRE_PACK: u8 = 19;
pub(super) const MOVE_CONTENTS: u8 = 20;
pub(super) const REPLACE_LOG: u8 = 21;

/// The frame type of [`Record::Content`], whose payload the log takes in two pieces.
pub const fn content_kind(shared: bool) -> u8 {
    if shared { CONTENT } else { UNSHARED_CONTENT }
}

/// Whether a record of this type can end something that came before it: a version, or a bucket. So does one that is not
/// known.
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
    )
}

/// Whether the payload of such a record begins with a bucket and a key.
pub(super) const fn begins_with_key(kind: u8) -> bool {
    matches!(kind, PUT_VERSION | DELETE_VERSION | MOVE_VERSION | COMPLETE_UPLOAD)
}
