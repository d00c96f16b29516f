//! Logs that may be damaged: what is left of one is found, read past the damage, salvaged, or written anew.

mod examine;
mod inspect;
mod piece;
mod rewrite;
mod salvage;
mod window;

pub use examine::{Examined, Seen};
pub use inspect::{Inspection, OtherLog, inspect};
pub use piece::{LogFault, LogGap, LogPiece};
pub use rewrite::{LogRewrite, SET_ASIDE, set_aside_before};
pub use salvage::{Counted, LogSalvage, Salvaged, store_ids};
