//! The scrub: its rounds, on a thread of their own (`rounds`), and how it is doing (`status`).

mod rounds;
mod status;

pub(crate) use rounds::run;
pub(crate) use status::ScrubStatus;
pub use status::{ScrubDamage, ScrubProgress};
