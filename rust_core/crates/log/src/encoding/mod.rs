//! The bytes of the log, without I/O: frames and commit records, batches of them, and the headers of files.

mod batch;
mod format;
mod header;

pub use batch::{Batch, BatchFrame};
pub(crate) use format::{
    COMMIT_FRAME, Commit, FILE_HEADER, FRAME_ALIGN, FRAME_HEADER, FrameClass, FrameHeader, LogKeys, blocks_match,
    payload_start,
};
pub use format::{FRAME_PAYLOAD_MAX, FileContext};
pub(crate) use header::{CompactedHeader, FileHeader, HEADER_ENCODED, Header, HeaderFault, is_compacted, is_plain};
