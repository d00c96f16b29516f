//! Limits the memory of incomplete small bodies, by ending some of them.
//!
//! No body waits here. If all together exceed the limit, bodies of the client that holds most are ended, beginning with the
//! one that has received nothing for the longest time. So a client that stalls takes nothing from others, however many
//! connections it has. Must not know what is stored.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::connections::conn::{Conn, Order};
use crate::connections::refusals;

/// The share of the limit that is freed at once: finding the largest client takes time proportional to their number.
const FREED_SHARE: u64 = 16;
/// A client with IPv6 has a whole network of addresses: those with the same prefix of this length count as one client.
const IPV6_NETWORK_BITS: u32 = 64;

pub struct IncompleteBodies {
    limit: u64,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    total: u64,
    clients: HashMap<IpAddr, Client>,
    next: u64,
}

#[derive(Default)]
struct Client {
    total: u64,
    /// By the number of the body; the one that grew last has the highest `grown`.
    bodies: HashMap<u64, Body>,
}

struct Body {
    conn: Arc<Conn>,
    bytes: u64,
    grown: u64,
}

/// A body that counts until this is dropped.
pub struct Counted {
    all: Arc<IncompleteBodies>,
    client: IpAddr,
    number: u64,
}

impl IncompleteBodies {
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, held: Mutex::default() })
    }

    /// A body that nothing has arrived of.
    pub fn body(self: &Arc<Self>, conn: &Arc<Conn>, client: IpAddr) -> Counted {
        let mut held = self.held.lock();
        held.next += 1;
        let (number, client) = (held.next, network_of(client));
        let bodies = &mut held.clients.entry(client).or_default().bodies;
        bodies.insert(number, Body { conn: Arc::clone(conn), bytes: 0, grown: 0 });
        drop(held);
        Counted { all: Arc::clone(self), client, number }
    }
}

impl Counted {
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
            ended.iter().for_each(|conn| conn.end(Order::Refuse(&refusals::SLOW_DOWN)));
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        drop(self.all.held.lock().forget(self.client, self.number));
    }
}

impl Held {
    fn forget(&mut self, address: IpAddr, number: u64) -> Option<Arc<Conn>> {
        let client = self.clients.get_mut(&address)?;
        let body = client.bodies.remove(&number)?;
        client.total -= body.bytes;
        self.total -= body.bytes;
        if client.bodies.is_empty() {
            self.clients.remove(&address);
        }
        Some(body.conn)
    }

    fn make_room(&mut self, limit: u64) -> Vec<Arc<Conn>> {
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
