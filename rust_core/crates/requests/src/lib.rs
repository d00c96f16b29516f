//! Requests under way, whatever their operation: how a body is received and stored, what a request may ask the engine
//! for, where it goes on, what is tallied of it, and what all of them share (`Services`).
//!
//! An operation is a type that implements `Operation`. Must not know which ones there are, nor front ends.
#![forbid(unsafe_code)]

pub mod aborted;
pub mod after_body;
pub mod bodies;
pub mod body_plan;
pub mod challenge;
pub mod pieces;
pub mod replication;
pub mod request;
pub mod services;
pub mod storage_plan;
pub mod store_body;
pub mod tally;
