//! The frame types of the records.

pub(super) const CREATE_BUCKET: u8 = 1;
pub(super) const DELETE_BUCKET: u8 = 2;
pub(super) const CREATE_PACK: u8 = 3;
/// The frame type of [`Record::Content`], whose payload the log takes in two pieces.
pub const CONTENT: u8 = 4;
pub(super) const CHUNK: u8 = 5;
pub(super) const SEGMENT: u8 = 6;
pub(super) const PUT_VERSION: u8 = 7;
pub(super) const DELETE_VERSION: u8 = 8;
pub(super) const MOVE_VERSION: u8 = 9;
pub(super) const CREATE_UPLOAD: u8 = 10;
pub(super) const PUT_PART: u8 = 11;
pub(super) const ABORT_UPLOAD: u8 = 12;
pub(super) const COMPLETE_UPLOAD: u8 = 13;
