//! What rules say.

/// The rules of one bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub rules: Vec<Rule>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub id: String,
    /// A rule that is not enabled has no effect.
    pub enabled: bool,
    pub filter: Filter,
    pub expiration: Option<Expiration>,
    pub noncurrent: Option<Noncurrent>,
    /// Days after which an incomplete upload is aborted.
    pub abort_days: Option<u32>,
}

/// Which versions a rule applies to: those of which everything holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub prefix: Vec<u8>,
    /// Keys and values.
    pub tags: Vec<(Vec<u8>, Vec<u8>)>,
    /// Bytes that the size must exceed.
    pub greater_than: Option<u64>,
    /// Bytes that the size must be below.
    pub less_than: Option<u64>,
}

/// When current versions expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiration {
    /// Days after the last modification.
    Days(u32),
    /// Milliseconds since the Unix epoch.
    Date(u64),
    /// Never, but delete markers without other versions do, if this is true.
    Markers(bool),
}

/// When noncurrent versions expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noncurrent {
    /// Days after a version has become noncurrent.
    pub days: u32,
    /// Newer noncurrent versions that must be there.
    pub newer: u32,
}
