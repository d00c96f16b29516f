//! The names of events, and sets of them as clients write them.

macro_rules! names {
    ($($name:ident = $text:literal),+ $(,)?) => {
        /// The kind of event. The order has no meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum EventName { $($name,)+ }

        impl EventName {
            pub const ALL: &'static [EventName] = &[$(EventName::$name,)+];

            /// The name in an event, e.g. `ObjectCreated:Put`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }
        }
    };
}

names! {
    ObjectCreatedPut = "ObjectCreated:Put",
    ObjectCreatedPost = "ObjectCreated:Post",
    ObjectCreatedCopy = "ObjectCreated:Copy",
    ObjectCreatedCompleteMultipartUpload = "ObjectCreated:CompleteMultipartUpload",
    ObjectRemovedDelete = "ObjectRemoved:Delete",
    ObjectRemovedDeleteMarkerCreated = "ObjectRemoved:DeleteMarkerCreated",
    LifecycleExpirationDelete = "LifecycleExpiration:Delete",
    LifecycleExpirationDeleteMarkerCreated = "LifecycleExpiration:DeleteMarkerCreated",
    ObjectTaggingPut = "ObjectTagging:Put",
    ObjectTaggingDelete = "ObjectTagging:Delete",
    ObjectAnnotationPut = "ObjectAnnotation:Put",
    ObjectAnnotationDelete = "ObjectAnnotation:Delete",
    ObjectRetentionPut = "ObjectRetention:Put",
    ObjectAclPut = "ObjectAcl:Put",
    ReplicationFailed = "Replication:OperationFailedReplication",
    BucketCreated = "BucketCreated:*",
    BucketRemoved = "BucketRemoved:*",
}

/// Every name and pattern that a client of S3 may ask for, whether anything here causes such an event or not.
const S3: [&str; 31] = [
    "s3:ReducedRedundancyLostObject",
    "s3:ObjectCreated:*",
    "s3:ObjectCreated:Put",
    "s3:ObjectCreated:Post",
    "s3:ObjectCreated:Copy",
    "s3:ObjectCreated:CompleteMultipartUpload",
    "s3:ObjectRemoved:*",
    "s3:ObjectRemoved:Delete",
    "s3:ObjectRemoved:DeleteMarkerCreated",
    "s3:ObjectRestore:*",
    "s3:ObjectRestore:Post",
    "s3:ObjectRestore:Completed",
    "s3:ObjectRestore:Delete",
    "s3:Replication:*",
    "s3:Replication:OperationFailedReplication",
    "s3:Replication:OperationNotTracked",
    "s3:Replication:OperationMissedThreshold",
    "s3:Replication:OperationReplicatedAfterThreshold",
    "s3:LifecycleTransition",
    "s3:IntelligentTiering",
    "s3:ObjectAcl:Put",
    "s3:LifecycleExpiration:*",
    "s3:LifecycleExpiration:Delete",
    "s3:LifecycleExpiration:DeleteMarkerCreated",
    "s3:ObjectTagging:*",
    "s3:ObjectTagging:Put",
    "s3:ObjectTagging:Delete",
    "s3:ObjectAnnotation:*",
    "s3:ObjectAnnotation:Put",
    "s3:ObjectAnnotation:Delete",
    "s3:ObjectRetention:Put",
];
/// Names of MinIO for events about buckets.
const OF_BUCKETS: [&str; 2] = ["s3:BucketCreated:*", "s3:BucketRemoved:*"];

impl EventName {
    /// Parses the name in an event.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|name| name.as_str() == text)
    }

    /// Whether the service itself does what it is about.
    pub fn is_of_service(self) -> bool {
        matches!(
            self,
            Self::LifecycleExpirationDelete | Self::LifecycleExpirationDeleteMarkerCreated | Self::ReplicationFailed
        )
    }

    /// Whether it is about a bucket. MinIO has these names, S3 does not.
    pub fn is_of_bucket(self) -> bool {
        matches!(self, Self::BucketCreated | Self::BucketRemoved)
    }
}

/// A set of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventNames(u32);

impl EventNames {
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self((1 << EventName::ALL.len()) - 1);

    /// The set that one name or pattern of S3 stands for: `s3:ObjectCreated:Put`, `s3:ObjectCreated:*`. Empty for what
    /// nothing here causes. `None` for what S3 does not have.
    pub fn parse_s3(text: &str) -> Option<Self> {
        S3.contains(&text).then(|| Self::meant(text))
    }

    /// Reads a name, also one that MinIO has for events about buckets.
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_s3(text).or_else(|| OF_BUCKETS.contains(&text).then(|| Self::meant(text)))
    }

    fn meant(text: &str) -> Self {
        let name = text.strip_prefix("s3:").unwrap_or(text);
        let group = name.strip_suffix('*');
        let is_meant = |known: &&EventName| match group {
            Some(group) => known.as_str().starts_with(group),
            None => known.as_str() == name,
        };
        EventName::ALL.iter().filter(is_meant).fold(Self::NONE, |set, known| set.with(*known))
    }

    pub fn with(self, name: EventName) -> Self {
        Self(self.0 | 1 << name as u8)
    }

    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn contains(self, name: EventName) -> bool {
        self.0 >> name as u8 & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_what_begins_like_them() {
        let created = EventNames::parse("s3:ObjectCreated:*").unwrap();
        assert!(created.contains(EventName::ObjectCreatedPost) && created.contains(EventName::ObjectCreatedPut));
        assert!(!created.contains(EventName::ObjectRemovedDelete));
        let put = EventNames::parse("s3:ObjectCreated:Put").unwrap();
        assert_eq!(put, EventNames::NONE.with(EventName::ObjectCreatedPut));
    }

    #[test]
    fn every_event_can_be_asked_for_by_its_name() {
        for name in EventName::ALL {
            assert_eq!(EventName::parse(name.as_str()), Some(*name));
            let set = EventNames::parse(&format!("s3:{}", name.as_str()));
            assert_eq!(set, Some(EventNames::NONE.with(*name)), "{name:?}");
        }
        let all = S3.iter().chain(&OF_BUCKETS).map(|name| EventNames::parse(name).unwrap());
        assert_eq!(all.fold(EventNames::NONE, EventNames::union), EventNames::ALL);
    }

    #[test]
    fn what_s3_does_not_have_is_no_name() {
        for text in ["", "s3:", "s3:*", "ObjectCreated:*", "s3:ObjectCreated", "s3:ObjectAcl:*", "s3:ObjectCreated:Get"]
        {
            assert_eq!(EventNames::parse(text), None, "{text}");
        }
        assert_eq!(EventNames::parse_s3("s3:BucketCreated:*"), None);
        assert_eq!(EventNames::parse_s3("s3:LifecycleTransition"), Some(EventNames::NONE));
    }
}
