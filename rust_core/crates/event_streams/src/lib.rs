//! Events for clients: the names of changes, and streams of them.
//!
//! Invariants. A listener misses no event and gets them in order; if events that it has not had are gone, it is told
//! so. It holds a place in the journal, not a queue of its own, so however slow it is, it costs a bounded amount of
//! memory. Must not know HTTP heads, Python or sockets.
#![forbid(unsafe_code)]

mod deliveries;
mod failed;
mod failures;
mod follower;
mod hub;
mod listener;
mod names;
mod pieces;
mod replicated;
mod streams;

pub use deliveries::{Deliveries, Delivery, DeliveryReader};
pub use hub::Hub;
pub use listener::{ListenOptions, Listener};
pub use names::event_of;
pub use pieces::StreamFormat;
pub use replicated::{BucketReader, ReplicatedChange, ReplicatedChanges};
pub use streams::EventStreams;

use std::fmt;
use std::str::FromStr;

use orcas_events::Place;

/// The name of a place in a stream, as `Last-Event-ID` brings it back: which journal, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamId {
    /// `None` if the client did not say: any journal.
    pub journal: Option<u64>,
    pub place: Place,
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(journal) = self.journal {
            write!(f, "{journal:016X}-")?;
        }
        write!(f, "{}", self.place)
    }
}

impl FromStr for StreamId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (journal, place) = match text.split_once('-') {
            Some((journal, place)) => {
                let id = orcas_http::parse_hex::<8>(journal.as_bytes()).ok_or(())?;
                (Some(u64::from_be_bytes(id)), place)
            }
            None => (None, text),
        };
        Ok(Self { journal, place: place.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        for journal in [None, Some(0), Some(u64::MAX - 7)] {
            let id = StreamId { journal, place: Place { sequence: 0x1234, ordinal: 1 } };
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for text in ["", "-", "12", "x-00000000000000010000", "00000000000000010000-", "1-00000000000000010000"] {
            assert_eq!(text.parse::<StreamId>(), Err(()), "{text}");
        }
    }
}
