//! Which events somebody asks for.

use super::event::Event;
use super::names::EventNames;

/// Events of which everything holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    pub names: EventNames,
    /// Buckets whose events are wanted; all if there are none here.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::EventName;
    use crate::samples::event;

    #[test]
    fn everything_must_hold() {
        let event = event();
        let holds = |change: &dyn Fn(&mut Filter)| {
            let mut filter = Filter::ALL;
            change(&mut filter);
            filter.matches(&event)
        };
        assert!(holds(&|_| ()));
        assert!(holds(&|filter| filter.buckets = vec!["other".into(), "photos".into()]));
        assert!(!holds(&|filter| filter.buckets = vec!["other".into()]));
        assert!(holds(&|filter| filter.prefix = b"a b/".to_vec()) && !holds(&|filter| filter.prefix = b"b".to_vec()));
        assert!(holds(&|filter| filter.suffix = b".jpg".to_vec()) && !holds(&|filter| filter.suffix = b"/".to_vec()));
        assert!(holds(&|filter| filter.names = EventNames::NONE.with(EventName::ObjectCreatedPut)));
        assert!(!holds(&|filter| filter.names = EventNames::NONE.with(EventName::ObjectCreatedPost)));
    }

    #[test]
    fn an_event_of_a_bucket_has_an_empty_key() {
        let mut event = event();
        event.object = None;
        assert!(Filter::ALL.matches(&event));
        assert!(!Filter { prefix: b"a".to_vec(), ..Filter::ALL }.matches(&event));
    }
}
