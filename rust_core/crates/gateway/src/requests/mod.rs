//! Requests under way: how their bodies arrive, how they are performed, and how their answers get back.

pub(crate) mod after_body;
pub mod bodies;
pub(crate) mod body_plan;
pub(crate) mod pieces;
pub mod reply;
pub mod request;
pub mod response;
pub(crate) mod storage_plan;
pub mod store_body;
