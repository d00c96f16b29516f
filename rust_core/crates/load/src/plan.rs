//! The parameters of a load: the server, the operations and their proportions. Pure.
//!
//! Invariant: the n-th operation and the size of each object follow from the seed alone, so two servers get the same
//! load.

use std::net::SocketAddr;
use std::time::Duration;

use super::pattern::mix;

/// The operations of a load. `Multipart` is a whole multipart upload: create, parts, complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum Operation {
    Put,
    Get,
    Head,
    List,
    Delete,
    Copy,
    Multipart,
}

impl Operation {
    pub const ALL: [Self; 7] =
        [Self::Put, Self::Get, Self::Head, Self::List, Self::Delete, Self::Copy, Self::Multipart];

    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Head => "head",
            Self::List => "list",
            Self::Delete => "delete",
            Self::Copy => "copy",
            Self::Multipart => "multipart",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }
}

/// The server, the bucket and the credentials.
#[derive(Clone, Debug)]
pub struct Target {
    pub address: SocketAddr,
    /// Value of the Host header.
    pub host: String,
    pub bucket: String,
    pub region: String,
    pub access_key: String,
    pub secret_key: String,
    /// Only for temporary credentials.
    pub session_token: Option<String>,
    pub timeout: Duration,
}

/// Sizes of objects, in bytes.
#[derive(Clone, Debug)]
pub enum Sizes {
    /// Each with a weight.
    Table(Vec<(u64, u32)>),
    /// Between these bounds, with a uniformly distributed logarithm.
    Range(u64, u64),
}

impl Sizes {
    /// The size that corresponds to the random number `random`.
    fn of(&self, random: u64) -> u64 {
        match self {
            Self::Table(sizes) => {
                let total: u64 = sizes.iter().map(|(_, weight)| u64::from(*weight)).sum();
                let mut left = random % total.max(1);
                for (size, weight) in sizes {
                    match left.checked_sub(u64::from(*weight)) {
                        Some(rest) => left = rest,
                        None => return *size,
                    }
                }
                0
            }
            Self::Range(from, to) => {
                let (from, to) = (*from as f64, *to as f64);
                let share = (random >> 11) as f64 / (1u64 << 53) as f64;
                (from * (to / from).powf(share)).clamp(from, to) as u64
            }
        }
    }
}

/// The operations of a load and the objects that they concern.
#[derive(Clone, Debug)]
pub struct Workload {
    pub connections: usize,
    /// Threads of the load; each serves its share of the connections.
    pub threads: usize,
    /// Weights of the operations.
    pub mix: Vec<(Operation, u32)>,
    pub sizes: Sizes,
    /// Objects that exist before the measurement.
    pub keys: u32,
    /// PUT overwrites these objects instead of creating new ones.
    pub overwrite: bool,
    pub identical: bool,
    /// The SHA-256 of bodies is computed and signed.
    pub signed_payload: bool,
    pub verify: bool,
    /// `max-keys` of list requests.
    pub list_page: u16,
    pub parts: u16,
    /// Bytes of each part, including the last.
    pub part_size: u64,
    pub seed: u64,
}

impl Workload {
    pub fn has(&self, operation: Operation) -> bool {
        self.mix.iter().any(|(known, weight)| *known == operation && *weight > 0)
    }

    /// Bytes of an object.
    pub fn size_of(&self, number: u32) -> u64 {
        self.sizes.of(mix(self.seed ^ 2) ^ mix(u64::from(number)))
    }

    /// Bytes of a multipart upload.
    pub fn multipart_size(&self) -> u64 {
        u64::from(self.parts) * self.part_size
    }
}

/// The operations in their proportions, shuffled. The sequence repeats, and the proportions are exact after each round.
pub struct Schedule(Box<[Operation]>);

impl Schedule {
    pub fn new(workload: &Workload) -> Self {
        let mut operations: Vec<(u64, Operation)> = Vec::new();
        let common = workload.mix.iter().fold(0, |common, (_, weight)| divisor(common, *weight)).max(1);
        for (operation, weight) in &workload.mix {
            operations.extend((0..weight / common).map(|_| (0, *operation)));
        }
        for (at, entry) in operations.iter_mut().enumerate() {
            entry.0 = mix(workload.seed ^ mix(at as u64));
        }
        operations.sort_unstable();
        Self(operations.into_iter().map(|(_, operation)| operation).collect())
    }

    /// The `number`-th operation.
    pub fn operation(&self, number: u64) -> Operation {
        self.0[(number % self.0.len() as u64) as usize]
    }
}

fn divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn target() -> Target {
        Target {
            address: SocketAddr::from(([127, 0, 0, 1], 1)),
            host: "127.0.0.1:1".to_owned(),
            bucket: "bucket".to_owned(),
            region: "us-east-1".to_owned(),
            access_key: "access".to_owned(),
            secret_key: "secret".to_owned(),
            session_token: None,
            timeout: Duration::from_secs(10),
        }
    }

    pub(in super::super) fn workload(mix: &[(Operation, u32)]) -> Workload {
        Workload {
            connections: 1,
            threads: 1,
            mix: mix.to_vec(),
            sizes: Sizes::Table(vec![(1024, 1)]),
            keys: 10,
            overwrite: false,
            identical: false,
            signed_payload: true,
            verify: true,
            list_page: 100,
            parts: 2,
            part_size: 5 << 20,
            seed: 1,
        }
    }

    #[test]
    fn a_deck_has_the_weights_in_least_terms() {
        let schedule = Schedule::new(&workload(&[(Operation::Put, 20), (Operation::Get, 50), (Operation::List, 0)]));
        assert_eq!(schedule.0.len(), 7);
        let count = |wanted| (0..70).filter(|&number| schedule.operation(number) == wanted).count();
        assert_eq!((count(Operation::Put), count(Operation::Get)), (20, 50));
    }

    #[test]
    fn sizes_follow_the_distribution() {
        let mut plan = workload(&[]);
        plan.sizes = Sizes::Table(vec![(10, 3), (20, 1)]);
        let tens = (0..10_000).filter(|&number| plan.size_of(number) == 10).count();
        assert!((7_200..7_800).contains(&tens), "{tens}");
        plan.sizes = Sizes::Range(1 << 10, 1 << 20);
        let sizes: Vec<u64> = (0..10_000).map(|number| plan.size_of(number)).collect();
        assert!(sizes.iter().all(|size| (1 << 10..=1 << 20).contains(size)));
        let below = sizes.iter().filter(|&&size| size < 1 << 15).count();
        assert!((4_700..5_300).contains(&below), "half of them are below the middle power: {below}");
        assert_eq!(plan.size_of(77), plan.size_of(77));
    }

    #[test]
    fn names_round_trip() {
        assert!(Operation::ALL.iter().all(|operation| Operation::from_name(operation.name()) == Some(*operation)));
        assert_eq!(Operation::from_name("append"), None);
    }
}
