//! What a store needs beside its URL.

use std::time::Duration;

/// The keys of an object store. A database has them in its URL.
#[derive(Clone)]
pub struct Credentials {
    pub access_key: String,
    pub secret_key: String,
    pub session_token: Option<String>,
}

#[derive(Clone)]
pub struct Options {
    pub credentials: Option<Credentials>,
    /// Certificates of the authorities that are trusted, as PEM.
    pub authorities: String,
    /// For a connection, and for a call to an object store. A statement may take until the deadline: to send it again
    /// would not hurry it.
    pub call_timeout: Duration,
    /// For everything that is asked for, with all its calls.
    pub deadline: Duration,
}
