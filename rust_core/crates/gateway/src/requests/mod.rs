//! Requests under way: how their bodies arrive, how they are performed, and how their answers get back.

pub mod aborted;
pub mod after_body;
pub mod bodies;
pub mod body_plan;
pub mod pieces;
pub mod reply;
pub mod request;
pub mod request_ids;
pub mod response;
pub mod services;
pub mod storage_plan;
pub mod store_body;
