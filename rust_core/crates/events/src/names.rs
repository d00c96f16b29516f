//! The names of events, and sets of them as clients write them.

macro_rules! names {
    ($($name:ident = $text:literal),+ $(,)?) => {
        /// What has happened. The order has no meaning.
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
    BucketCreated = "BucketCreated:*",
    BucketRemoved = "BucketRemoved:*",
}

/// What S3 lets clients ask for although nothing here causes it.
const NEVER: [&str; 15] = [
    "ReducedRedundancyLostObject",
    "ObjectAcl:Put",
    "ObjectRestore:*",
    "ObjectRestore:Post",
    "ObjectRestore:Completed",
    "ObjectRestore:Delete",
    "Replication:*",
    "Replication:OperationFailedReplication",
    "Replication:OperationNotTracked",
    "Replication:OperationMissedThreshold",
    "Replication:OperationReplicatedAfterThreshold",
    "LifecycleTransition",
    "IntelligentTiering",
    "TestEvent",
    "ObjectAcl:*",
];

impl EventName {
    /// Parses the name in an event.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|name| name.as_str() == text)
    }

    /// Whether it is about a bucket. MinIO has these names, S3 does not.
    pub fn is_of_bucket(self) -> bool {
        matches!(self, Self::BucketCreated | Self::BucketRemoved)
    }

    /// Whether nothing is left of what the event is about.
    pub fn is_removal(self) -> bool {
        matches!(
            self,
            Self::ObjectRemovedDelete
                | Self::ObjectRemovedDeleteMarkerCreated
                | Self::LifecycleExpirationDelete
                | Self::LifecycleExpirationDeleteMarkerCreated
                | Self::BucketRemoved
        )
    }
}

/// A set of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventNames(u32);

impl EventNames {
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self((1 << EventName::ALL.len()) - 1);

    /// The set that one name or pattern stands for: `s3:ObjectCreated:Put`, `s3:ObjectCreated:*`. Empty for what S3 has and
    /// Orcas does not. `None` for what nobody has.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.strip_prefix("s3:")?;
        let group = name.strip_suffix('*').filter(|group| group.ends_with(':'));
        let is_meant = |known: &&EventName| match group {
            Some(group) => known.as_str().starts_with(group),
            None => known.as_str() == name,
        };
        let found = EventName::ALL.iter().filter(is_meant).fold(Self::NONE, |set, known| set.with(*known));
        (found != Self::NONE || NEVER.contains(&name)).then_some(found)
    }

    pub fn with(self, name: EventName) -> Self {
        Self(self.0 | 1 << name as u8)
    }

    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub fn contains(self, name: EventName) -> bool {
        self.0 >> name as u8 & 1 == 1
    }
}
