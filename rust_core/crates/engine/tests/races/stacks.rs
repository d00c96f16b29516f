//! A bucket, its snapshots and its forks as clients see them: what they ask, and what they may be answered.

use std::ops::Range;
use std::sync::OnceLock;

use orcas_checksum::{Etag, Md5Hasher};

use crate::order;
use crate::world::contents;

pub const KEYS: [&str; 2] = ["k", "l"];
pub const SNAPSHOTS: [&str; 2] = ["s", "t"];
/// Buckets, by number: one, and what is forked of it.
pub const BUCKETS: [&str; 3] = ["b", "fork", "other"];
pub const MAIN: usize = 0;
pub const FORKS: Range<usize> = 1..BUCKETS.len();

/// The contents that an object was made of, one after the other, by their numbers.
pub type Pieces = Vec<usize>;
type Objects = [Option<Pieces>; KEYS.len()];

/// The entity tag of an object that is made of these contents.
pub fn etag_of(pieces: &[usize]) -> Etag {
    static MD5S: OnceLock<Vec<[u8; 16]>> = OnceLock::new();
    let md5s = MD5S.get_or_init(|| contents().iter().map(|content| Md5Hasher::digest(content)).collect());
    let (first, next) = pieces.split_first().expect("an object is made of something");
    next.iter().fold(Etag::simple(md5s[*first]), |etag, piece| etag.appended(&md5s[*piece]))
}

/// Bytes of an object that is made of these contents.
pub fn length_of(pieces: &[usize]) -> u64 {
    pieces.iter().map(|piece| contents()[*piece].len() as u64).sum()
}

/// What these bytes were made of: no content begins as another one does.
///
/// # Panics
/// When nobody wrote them.
pub fn pieces_of(mut bytes: &[u8]) -> Pieces {
    let mut pieces = Pieces::new();
    while !bytes.is_empty() {
        let next = contents().iter().position(|content| bytes.starts_with(content));
        let next = next.unwrap_or_else(|| panic!("what nobody wrote, after {pieces:?}: {} bytes", bytes.len()));
        bytes = &bytes[contents()[next].len()..];
        pieces.push(next);
    }
    pieces
}

/// Keys, snapshots and buckets are named by their numbers.
#[derive(Clone, Debug)]
pub enum Asked {
    Put {
        bucket: usize,
        key: usize,
        content: usize,
    },
    Append {
        bucket: usize,
        key: usize,
        content: usize,
        offset: u64,
    },
    Delete {
        bucket: usize,
        key: usize,
    },
    Read {
        bucket: usize,
        key: usize,
    },
    /// What a list tells of a key.
    List {
        bucket: usize,
        key: usize,
    },
    Snapshot(usize),
    /// Deletes a snapshot.
    Forget(usize),
    Restore(usize),
    /// Makes `bucket`.
    Fork {
        snapshot: Option<usize>,
        bucket: usize,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// An object was made or appended to.
    Made {
        etag: Etag,
        size: u64,
    },
    Done,
    Holds(Option<Pieces>),
    Listed(Option<Etag>),
    /// The append is refused, as the object has this size.
    Offset(u64),
    NoBucket,
    NoSnapshot,
    /// The name of the snapshot or fork is taken.
    Exists,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BucketsState {
    buckets: [Option<Objects>; BUCKETS.len()],
    snapshots: [Option<Objects>; SNAPSHOTS.len()],
}

impl BucketsState {
    /// An empty bucket.
    pub fn new() -> Self {
        let mut buckets = [const { None }; BUCKETS.len()];
        buckets[MAIN] = Some(Objects::default());
        Self { buckets, snapshots: Default::default() }
    }

    fn object(&mut self, bucket: usize, key: usize) -> Option<&mut Option<Pieces>> {
        self.buckets[bucket].as_mut().map(|objects| &mut objects[key])
    }

    /// What is answered to an operation here, after which the state is what it is then.
    fn change(&mut self, asked: &Asked) -> Answer {
        match *asked {
            Asked::Put { bucket, key, content } => {
                let Some(object) = self.object(bucket, key) else { return Answer::NoBucket };
                made(object.insert(vec![content]))
            }
            Asked::Append { bucket, key, content, offset } => {
                let Some(object) = self.object(bucket, key) else { return Answer::NoBucket };
                let size = object.as_deref().map_or(0, length_of);
                if size != offset {
                    return Answer::Offset(size);
                }
                let pieces = object.get_or_insert_default();
                pieces.push(content);
                made(pieces)
            }
            Asked::Delete { bucket, key } => {
                let Some(object) = self.object(bucket, key) else { return Answer::NoBucket };
                *object = None;
                Answer::Done
            }
            Asked::Read { bucket, key } => match self.object(bucket, key) {
                Some(object) => Answer::Holds(object.clone()),
                None => Answer::NoBucket,
            },
            Asked::List { bucket, key } => match self.object(bucket, key) {
                Some(object) => Answer::Listed(object.as_deref().map(etag_of)),
                None => Answer::NoBucket,
            },
            Asked::Snapshot(snapshot) if self.snapshots[snapshot].is_some() => Answer::Exists,
            Asked::Snapshot(snapshot) => {
                self.snapshots[snapshot] = self.buckets[MAIN].clone();
                Answer::Done
            }
            Asked::Forget(snapshot) => self.snapshots[snapshot].take().map_or(Answer::NoSnapshot, |_| Answer::Done),
            Asked::Restore(snapshot) => self.show(MAIN, Some(snapshot)),
            Asked::Fork { bucket, .. } if self.buckets[bucket].is_some() => Answer::Exists,
            Asked::Fork { bucket, snapshot } => self.show(bucket, snapshot),
        }
    }

    /// From now on, `bucket` shows what the snapshot has; without one, what the first bucket shows.
    fn show(&mut self, bucket: usize, snapshot: Option<usize>) -> Answer {
        let shown = snapshot.map_or(&self.buckets[MAIN], |snapshot| &self.snapshots[snapshot]);
        let Some(shown) = shown.clone() else { return Answer::NoSnapshot };
        self.buckets[bucket] = Some(shown);
        Answer::Done
    }
}

fn made(pieces: &[usize]) -> Answer {
    Answer::Made { etag: etag_of(pieces), size: length_of(pieces) }
}

impl order::State for BucketsState {
    type Asked = Asked;
    type Answer = Answer;

    fn after(&self, asked: &Asked, answer: &Answer) -> Option<Self> {
        let mut next = self.clone();
        (next.change(asked) == *answer).then_some(next)
    }
}
