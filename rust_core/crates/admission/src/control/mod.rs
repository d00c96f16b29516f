//! The admin API: who may use it, and what it answers about who may do what.

pub mod admin;
pub mod asking;
