//! The files of a log and how they follow each other: which are in force, which may go, and the one that is made ahead.

mod directory;
mod files;
mod held;
mod link;
mod spare;
mod survey;

pub(crate) use directory::LogDirectory;
pub(crate) use files::FileRun;
pub use files::{ClosedLog, CompactedLog, Continuation, LogFiles};
pub use held::files_up_to;
pub(crate) use link::Link;
pub(crate) use spare::fill;
pub use spare::{SpareMaker, size_at};
pub(crate) use survey::Survey;
pub use survey::check_formats;
