//! Limits the memory of incomplete small bodies, by ending some of them.
//!
//! No body waits here. If all together exceed the limit, bodies of the client that holds most are ended, beginning with the
//! one that has received nothing for the longest time. So a client that stalls takes nothing from others, however many
//! connections it has. Must not know what is stored.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

/// The share of the budget for bodies that incomplete small ones may hold.
pub const INCOMPLETE_SHARE: u64 = 2;
/// The share that those may hold of senders who are not known yet: what is signed comes after the head.
pub const STRANGERS_SHARE: u64 = 8;
/// The share of the limit that is freed at once: finding the largest client takes time proportional to their number.
const FREED_SHARE: u64 = 16;
/// A client with IPv6 has a whole network of addresses: those with the same prefix of this length count as one client.
const IPV6_NETWORK_BITS: u32 = 64;

/// The sender of an incomplete body.
pub trait Sender {
    /// Ends the body: the client gets 503 `SlowDown`. It does not count any more.
    fn shed(&self);
}

/// The incomplete bodies of a server.
pub struct IncompleteBodies<S> {
    limit: u64,
    held: Mutex<Held<S>>,
}

struct Held<S> {
    total: u64,
    /// The incomplete bodies of each client, by address; `None` for clients whose address is not known.
    clients: HashMap<Option<IpAddr>, Client<S>>,
    next: u64,
}

struct Client<S> {
    total: u64,
    /// Bodies by their numbers; the one that grew last has the highest `grown`.
    bodies: HashMap<u64, Body<S>>,
}

struct Body<S> {
    sender: Arc<S>,
    bytes: u64,
    grown: u64,
}

/// A body that counts until this is dropped.
pub struct Counted<S> {
    all: Arc<IncompleteBodies<S>>,
    client: Option<IpAddr>,
    number: u64,
}

impl<S: Sender> IncompleteBodies<S> {
    /// `limit`: bytes of all together.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, held: Mutex::new(Held { total: 0, clients: HashMap::new(), next: 0 }) })
    }

    /// A body that nothing has arrived of.
    pub fn body(self: &Arc<Self>, sender: &Arc<S>, client: Option<IpAddr>) -> Counted<S> {
        let mut held = self.held.lock();
        held.next += 1;
        let (number, client) = (held.next, client.map(network_of));
        let bodies = &mut held.clients.entry(client).or_insert_with(Client::none).bodies;
        bodies.insert(number, Body { sender: Arc::clone(sender), bytes: 0, grown: 0 });
        drop(held);
        Counted { all: Arc::clone(self), client, number }
    }

    /// Bytes of all together.
    pub fn total(&self) -> u64 {
        self.held.lock().total
    }
}

impl<S: Sender> Counted<S> {
    /// `count` more bytes have arrived. This may end bodies, this one included.
    pub fn grow(&self, count: usize) {
        let mut held = self.all.held.lock();
        let count = count as u64;
        held.next += 1;
        let grown = held.next;
        let Some(client) = held.clients.get_mut(&self.client) else { return };
        let Some(body) = client.bodies.get_mut(&self.number) else { return };
        (body.bytes, body.grown) = (body.bytes + count, grown);
        client.total += count;
        held.total += count;
        if held.total > self.all.limit {
            let ended = held.make_room(self.all.limit - self.all.limit / FREED_SHARE);
            drop(held);
            ended.iter().for_each(|sender| sender.shed());
        }
    }
}

impl<S> Drop for Counted<S> {
    fn drop(&mut self) {
        let forgotten = self.all.held.lock().forget(self.client, self.number);
        drop(forgotten);
    }
}

impl<S> Client<S> {
    fn none() -> Self {
        Self { total: 0, bodies: HashMap::new() }
    }
}

impl<S> Held<S> {
    fn forget(&mut self, address: Option<IpAddr>, number: u64) -> Option<Arc<S>> {
        let client = self.clients.get_mut(&address)?;
        let body = client.bodies.remove(&number)?;
        client.total -= body.bytes;
        self.total -= body.bytes;
        if client.bodies.is_empty() {
            self.clients.remove(&address);
        }
        Some(body.sender)
    }

    fn make_room(&mut self, limit: u64) -> Vec<Arc<S>> {
        let mut ended = Vec::new();
        while self.total > limit {
            let largest = self.clients.iter().max_by_key(|(_, client)| client.total);
            let Some((&address, client)) = largest else { break };
            let oldest = client.bodies.iter().filter(|(_, body)| body.bytes > 0).min_by_key(|(_, body)| body.grown);
            let Some((&number, _)) = oldest else { break };
            ended.extend(self.forget(address, number));
        }
        ended
    }
}

fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(own) => match own.to_ipv4_mapped() {
            Some(own) => IpAddr::V4(own),
            None => IpAddr::V6(Ipv6Addr::from_bits(own.to_bits() & !(u128::MAX >> IPV6_NETWORK_BITS))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: u64 = 1600;

    /// Notes which bodies are ended.
    struct Noted(Arc<Mutex<Vec<usize>>>, usize);

    impl Sender for Noted {
        fn shed(&self) {
            self.0.lock().push(self.1);
        }
    }

    #[derive(Default)]
    struct Clients(Arc<Mutex<Vec<usize>>>);

    impl Clients {
        fn body(&self, all: &Arc<IncompleteBodies<Noted>>, number: usize, client: &str) -> Counted<Noted> {
            all.body(&Arc::new(Noted(Arc::clone(&self.0), number)), client.parse().ok())
        }

        fn ended(&self) -> Vec<usize> {
            self.0.lock().clone()
        }
    }

    #[test]
    fn those_silent_longest_are_ended_of_the_client_that_holds_most() {
        let (all, clients) = (IncompleteBodies::new(LIMIT), Clients::default());
        let other = clients.body(&all, 10, "192.0.2.2");
        other.grow(600);
        let stalled: Vec<_> = (0..10).map(|number| clients.body(&all, number, "192.0.2.1")).collect();
        stalled.iter().for_each(|body| body.grow(100));
        assert!(clients.ended().is_empty());
        stalled[0].grow(1);
        assert_eq!(clients.ended(), [1, 2], "the first has just grown; and a sixteenth is freed");
        drop(other);
        assert_eq!(all.total(), 801);
    }

    #[test]
    fn one_that_exceeds_the_limit_alone_is_ended() {
        let (all, clients) = (IncompleteBodies::new(LIMIT), Clients::default());
        let body = clients.body(&all, 0, "");
        body.grow(1600);
        assert!(clients.ended().is_empty());
        body.grow(1);
        assert_eq!((clients.ended(), all.total()), (vec![0], 0));
        body.grow(1);
        assert_eq!(all.total(), 0, "it does not count any more");
    }

    #[test]
    fn addresses_of_one_network_are_one_client() {
        let network = |address: &str| network_of(address.parse().unwrap());
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
        assert_eq!(network("2001:db8:0:1::1"), network("2001:db8:0:1:ffff::2"));
        assert_ne!(network("2001:db8:0:1::1"), network("2001:db8:0:2::1"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
    }

    proptest! {
        #[test]
        fn what_is_held_never_exceeds_the_limit_and_comes_back(
            steps in proptest::collection::vec((0..100_usize, 0..200_usize, 0..5_u8), 1..2_000),
        ) {
            let (all, clients) = (IncompleteBodies::new(LIMIT), Clients::default());
            let mut bodies: HashMap<usize, Counted<Noted>> = HashMap::new();
            for (number, count, kind) in steps {
                if kind == 0 {
                    bodies.remove(&number);
                } else {
                    let new = || clients.body(&all, number, &format!("192.0.2.{}", number % 7));
                    bodies.entry(number).or_insert_with(new).grow(count);
                }
                prop_assert!(all.total() <= LIMIT);
            }
            bodies.clear();
            prop_assert_eq!(all.total(), 0);
            prop_assert!(all.held.lock().clients.is_empty());
        }
    }
}
