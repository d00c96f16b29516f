//! The headers of responses: how values are written, the block of them as it is sent, and those of an object.

pub mod active_content;
pub mod format;
pub mod header_block;
pub mod headers;
