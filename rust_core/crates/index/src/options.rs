//! The options under which an index is opened.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The place of the index, and limits of its pool of read connections.
#[derive(Clone, Debug)]
pub struct IndexOptions {
    /// The database file; in memory when `None`.
    pub path: Option<PathBuf>,
    /// Read connections that may exist at a time, in use or idle; at least one.
    pub max_open: u32,
    /// Idle read connections that are kept open.
    pub max_idle: u32,
    /// Age at which a read connection is closed when it is returned.
    pub lifetime: Duration,
    /// Never sync: for stores whose durability is `unsafe-none`.
    pub synchronous_off: bool,
}

/// The place of the index of a store.
#[derive(Clone)]
pub enum IndexPlace {
    /// `index.db` in the store's directory.
    File,
    /// An index in memory, from a state that `Index::serialize` took earlier.
    Memory(Option<Arc<Vec<u8>>>),
}
