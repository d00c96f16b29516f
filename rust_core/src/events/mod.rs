//! Events of buckets and objects for Python: streams of them as bytes to be sent, and the parser for their clients.

mod parser;
mod replicated;
mod streams;

pub(crate) use parser::{EventParser, parse_event_records};
pub(crate) use replicated::{ProgressRow, ReplicatedBucket, ReplicatedEvents, progress_of, replicated_buckets};
pub(crate) use streams::{EventDeliveries, EventListener, EventsStats, ListeningPermit};
