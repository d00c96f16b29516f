//! Objects and what belongs to them: versions, locks, annotations, appends, moves, copies and lists.

mod annotations;
mod appends;
mod documents;
mod listing;
mod locks;
mod moves;
pub(super) mod scopes;
mod upload_listing;
mod versions;
