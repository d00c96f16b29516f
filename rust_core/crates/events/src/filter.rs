//! Which events somebody asks for.

use super::event::Event;
use super::names::EventNames;

/// Events of which everything holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    pub names: EventNames,
    /// Of these buckets, or of all if there are none here.
    pub buckets: Vec<String>,
    /// Of keys that begin and end like this. Events of buckets have an empty key.
    pub prefix: Vec<u8>,
    pub suffix: Vec<u8>,
}

impl Filter {
    /// Every event.
    pub const ALL: Self = Self { names: EventNames::ALL, buckets: Vec::new(), prefix: Vec::new(), suffix: Vec::new() };

    pub fn matches(&self, event: &Event) -> bool {
        let key = event.object.as_ref().map_or(&b""[..], |object| &object.key);
        self.names.contains(event.name)
            && (self.buckets.is_empty() || self.buckets.contains(&event.bucket.name))
            && key.starts_with(&self.prefix)
            && key.ends_with(&self.suffix)
    }
}
