//! What a request asks for, from its method, target, query and headers: which operation, of what, under which
//! preconditions, and whether the server has all of it.

pub mod conditions;
pub mod extensions;
pub mod operations;
pub mod query;
pub mod range;
pub mod replicas;
pub mod resolve;
pub mod stored_headers;
pub mod support;
pub mod target;
