//! The process-wide limit on bytes of request bodies in memory. A permit is a share, and returns it when dropped.
//!
//! Complete small bodies may take all of it and are served first. Streamed bodies take a share for each piece: all
//! together at most seven eighths, those of one client at most half. So no client keeps others waiting, and streams keep
//! no small body waiting. Small bodies are served in order, and so are the streams of a client; clients take turns.
//! Callbacks run without the lock held.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

pub struct Budget {
    total: u64,
    state: Mutex<BudgetState>,
}

struct BudgetState {
    free: u64,
    /// Bytes that streams hold.
    streamed: u64,
    small: VecDeque<Waiting>,
    /// Clients that hold a permit or wait.
    clients: HashMap<Arc<str>, Holding>,
    /// Clients with waiting streams, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    /// A stream waits for the share of all streams: no other may overtake it.
    short: bool,
    /// Streams that have their share and are to be notified, each with the client that it belongs to.
    granted: VecDeque<(Waiting, Option<Arc<str>>)>,
    /// A thread tells them.
    hands_out: bool,
}

#[derive(Default)]
struct Holding {
    bytes: u64,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    bytes: u64,
    granted: Box<dyn FnOnce(Permit) + Send>,
}

/// The budget at a moment: bytes, and bodies that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetCounts {
    pub total: u64,
    /// Taken by streams.
    pub streamed: u64,
    /// Taken by complete small bodies.
    pub small: u64,
    pub waiting: usize,
}

/// A share of the budget, in bytes.
pub struct Permit {
    budget: Arc<Budget>,
    bytes: u64,
    /// The client whose stream has the permit.
    client: Option<Arc<str>>,
}

/// The share of the budget from which the streams of one client take their memory.
#[derive(Clone)]
pub struct Client {
    budget: Arc<Budget>,
    name: Arc<str>,
}

impl Budget {
    /// `total` in bytes; no request may ask for more at once.
    pub fn new(total: u64) -> Arc<Self> {
        let state = BudgetState {
            free: total,
            streamed: 0,
            small: VecDeque::new(),
            clients: HashMap::new(),
            turns: VecDeque::new(),
            short: false,
            granted: VecDeque::new(),
            hands_out: false,
        };
        Arc::new(Self { total, state: Mutex::new(state) })
    }

    /// Takes `bytes` now, or `None` when they are not free or others wait for theirs.
    pub fn try_take(self: &Arc<Self>, bytes: u64) -> Option<Permit> {
        let mut state = self.state.lock();
        if !state.small.is_empty() || state.free < bytes {
            return None;
        }
        state.free -= bytes;
        Some(self.permit(bytes, None))
    }

    /// Takes `bytes` now, or calls `granted` from the thread that frees them.
    pub fn take_or_wait(self: &Arc<Self>, bytes: u64, granted: impl FnOnce(Permit) + Send + 'static) -> Option<Permit> {
        let mut state = self.state.lock();
        if state.small.is_empty() && state.free >= bytes {
            state.free -= bytes;
            return Some(self.permit(bytes, None));
        }
        state.small.push_back(Waiting { bytes, granted: Box::new(granted) });
        None
    }

    /// How much there is, how much of it is taken, and how many bodies wait for some.
    pub fn counts(&self) -> BudgetCounts {
        let state = self.state.lock();
        let streams = state.clients.values().map(|client| client.waiting.len());
        BudgetCounts {
            total: self.total,
            streamed: state.streamed,
            small: (self.total - state.free).saturating_sub(state.streamed),
            waiting: state.small.len() + streams.sum::<usize>(),
        }
    }

    /// The client that is known as `name`.
    pub fn client(self: &Arc<Self>, name: &str) -> Client {
        Client { budget: Arc::clone(self), name: name.into() }
    }

    fn permit(self: &Arc<Self>, bytes: u64, client: Option<Arc<str>>) -> Permit {
        Permit { budget: Arc::clone(self), bytes, client }
    }

    fn give_back(self: &Arc<Self>, bytes: u64, client: Option<&Arc<str>>) {
        let mut state = self.state.lock();
        state.free += bytes;
        if let Some(name) = client {
            state.streamed -= bytes;
            state.let_go(name, bytes);
        }
        while state.small.front().is_some_and(|first| first.bytes <= state.free) {
            if let Some(first) = state.small.pop_front() {
                state.free -= first.bytes;
                state.granted.push_back((first, None));
            }
        }
        state.serve_streams(self.total);
        if state.granted.is_empty() || std::mem::replace(&mut state.hands_out, true) {
            return;
        }
        drop(state);
        self.hand_out();
    }

    /// Tells those who waited. One who does not need its share any more gives it back meanwhile, to others who wait; they
    /// are told here as well, because there may be more of them than calls fit on the stack.
    fn hand_out(self: &Arc<Self>) {
        let _ends = HandsOut(self);
        while let Some((waiting, client)) = self.next_granted() {
            (waiting.granted)(self.permit(waiting.bytes, client));
        }
    }

    fn next_granted(&self) -> Option<(Waiting, Option<Arc<str>>)> {
        let mut state = self.state.lock();
        let next = state.granted.pop_front();
        state.hands_out = next.is_some();
        next
    }
}

/// Ends a round of grants, also by a panic.
struct HandsOut<'a>(&'a Budget);

impl Drop for HandsOut<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.state.lock().hands_out = false;
        }
    }
}

impl BudgetState {
    /// Whether all streams together may take `bytes` more. One may always be under way, however large its piece.
    fn has_room(&self, total: u64, bytes: u64) -> bool {
        let room = self.streamed == 0 || self.streamed + bytes <= total - total / 8;
        self.small.is_empty() && room && bytes <= self.free
    }

    /// Whether this client may.
    fn has_share(&self, total: u64, name: &str, bytes: u64) -> bool {
        let held = self.clients.get(name).map_or(0, |client| client.bytes);
        held == 0 || held + bytes <= total / 2
    }

    fn hold(&mut self, name: &Arc<str>, bytes: u64) {
        self.free -= bytes;
        self.streamed += bytes;
        self.clients.entry(Arc::clone(name)).or_default().bytes += bytes;
    }

    fn let_go(&mut self, name: &str, bytes: u64) {
        if let Some(client) = self.clients.get_mut(name) {
            client.bytes -= bytes;
            if client.bytes == 0 && client.waiting.is_empty() {
                self.clients.remove(name);
            }
        }
    }

    /// Grants what can be granted, a piece for each client in turn.
    fn serve_streams(&mut self, total: u64) {
        let (mut passed_over, mut short) = (0, false);
        while passed_over < self.turns.len() {
            let Some(name) = self.turns.pop_front() else { break };
            let first = self.clients.get(&name).and_then(|client| client.waiting.front()).map(|first| first.bytes);
            let Some(bytes) = first else { continue };
            let in_share = self.has_share(total, &name, bytes);
            // Whoever is in its turn and waits for room only is not overtaken by those behind.
            if in_share && self.has_room(total, bytes) {
                self.hold(&name, bytes);
                passed_over = 0;
                let client = self.clients.get_mut(&name);
                let more = client.is_some_and(|client| {
                    self.granted.extend(client.waiting.pop_front().map(|first| (first, Some(Arc::clone(&name)))));
                    !client.waiting.is_empty()
                });
                if more {
                    self.turns.push_back(name);
                }
            } else if in_share {
                // It keeps its place.
                short = true;
                self.turns.push_front(name);
                break;
            } else {
                passed_over += 1;
                self.turns.push_back(name);
            }
        }
        self.short = short;
    }
}

impl Client {
    /// As `Budget::try_take`, for a stream.
    pub fn try_take(&self, bytes: u64) -> Option<Permit> {
        self.taken(&mut self.budget.state.lock(), bytes)
    }

    /// As `Budget::take_or_wait`, for a stream.
    pub fn take_or_wait(&self, bytes: u64, granted: impl FnOnce(Permit) + Send + 'static) -> Option<Permit> {
        let mut state = self.budget.state.lock();
        let taken = self.taken(&mut state, bytes);
        if taken.is_none() {
            state.short |= state.has_share(self.budget.total, &self.name, bytes);
            let client = state.clients.entry(Arc::clone(&self.name)).or_default();
            let first = client.waiting.is_empty();
            client.waiting.push_back(Waiting { bytes, granted: Box::new(granted) });
            if first {
                state.turns.push_back(Arc::clone(&self.name));
            }
        }
        taken
    }

    fn taken(&self, state: &mut BudgetState, bytes: u64) -> Option<Permit> {
        let total = self.budget.total;
        let waits = state.short || state.clients.get(&self.name).is_some_and(|client| !client.waiting.is_empty());
        if waits || !state.has_share(total, &self.name, bytes) || !state.has_room(total, bytes) {
            return None;
        }
        state.hold(&self.name, bytes);
        Some(self.budget.permit(bytes, Some(Arc::clone(&self.name))))
    }
}

impl Permit {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives back what exceeds `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        let excess = self.bytes.saturating_sub(bytes);
        if excess > 0 {
            self.bytes -= excess;
            self.budget.give_back(excess, self.client.as_ref());
        }
    }

    /// Takes `bytes` of this share out of it, or all that it has.
    pub fn split(&mut self, bytes: u64) -> Permit {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.permit(bytes, self.client.clone())
    }

    /// Joins `other`, which must be of the same client and budget.
    pub fn merge(&mut self, mut other: Permit) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.give_back(self.bytes, self.client.as_ref());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn waiters_are_served_in_order_and_nobody_overtakes() {
        let budget = Budget::new(10);
        let mut first = budget.try_take(8).unwrap();
        let (sender, receiver) = mpsc::channel();
        let other = sender.clone();
        assert!(budget.take_or_wait(6, move |permit| sender.send(("large", permit)).unwrap()).is_none());
        assert!(budget.take_or_wait(1, move |permit| other.send(("small", permit)).unwrap()).is_none());
        assert!(budget.try_take(1).is_none());
        first.shrink_to(5);
        assert!(receiver.try_recv().is_err());
        first.shrink_to(4);
        let (name, large) = receiver.try_recv().unwrap();
        assert_eq!(name, "large");
        drop(large);
        assert_eq!(receiver.try_recv().unwrap().0, "small");
        assert!(budget.try_take(6).is_some());
    }

    #[test]
    fn a_grant_that_nobody_takes_returns() {
        let budget = Budget::new(4);
        let held = budget.try_take(4).unwrap();
        assert!(budget.take_or_wait(3, drop).is_none());
        drop(held);
        assert!(budget.try_take(4).is_some());
    }

    #[test]
    fn what_was_split_returns_in_parts() {
        let budget = Budget::new(4);
        let mut one = budget.try_take(4).unwrap();
        drop(one.split(1));
        assert!(budget.try_take(2).is_none());
        let rest = one.split(9);
        drop(one);
        assert!(budget.try_take(2).is_none());
        drop(rest);
        assert!(budget.try_take(4).is_some());
    }

    #[test]
    fn merged_permits_return_whole() {
        let budget = Budget::new(4);
        let mut one = budget.try_take(1).unwrap();
        one.merge(budget.try_take(3).unwrap());
        assert!(budget.try_take(1).is_none());
        drop(one);
        assert!(budget.try_take(4).is_some());
    }

    /// Sends the name of a waiter with its permit when it is granted.
    fn waits(client: &Client, bytes: u64, name: &'static str, told: &mpsc::Sender<(&'static str, Permit)>) {
        let told = told.clone();
        assert!(client.take_or_wait(bytes, move |permit| told.send((name, permit)).unwrap()).is_none());
    }

    #[test]
    fn a_client_takes_half_at_most_and_keeps_nobody_else_waiting() {
        let budget = Budget::new(80);
        let (greedy, other) = (budget.client("greedy"), budget.client("other"));
        let held: Vec<Permit> = std::iter::from_fn(|| greedy.try_take(10)).collect();
        assert_eq!(held.len(), 4);
        let (told, granted) = mpsc::channel();
        (0..100).for_each(|_| waits(&greedy, 10, "greedy", &told));
        let fits = other.try_take(30).unwrap();
        assert!(other.try_take(10).is_none(), "seven eighths are taken");
        let small = budget.try_take(10).unwrap();
        drop((fits, small));
        assert!(granted.try_recv().is_err(), "greedy has its share");
        drop(held);
        assert_eq!(granted.try_iter().count(), 100, "each lets the next one in");
        drop(granted);
        assert!(budget.try_take(80).is_some());
    }

    #[test]
    fn small_bodies_come_before_streams() {
        let budget = Budget::new(80);
        let held = [budget.client("a").try_take(40).unwrap(), budget.client("b").try_take(30).unwrap()];
        let (told, granted) = mpsc::channel();
        waits(&budget.client("c"), 10, "stream", &told);
        let small = budget.try_take(10).unwrap();
        let other = told.clone();
        assert!(budget.take_or_wait(50, move |permit| other.send(("small", permit)).unwrap()).is_none());
        let [a, b] = held;
        drop(b);
        assert!(granted.try_recv().is_err(), "a stream does not overtake a small body");
        drop(a);
        let order: Vec<_> = granted.try_iter().collect();
        assert_eq!(order.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["small", "stream"]);
        drop((small, order));
        assert!(budget.try_take(80).is_some());
    }

    #[test]
    fn clients_take_turns_and_nobody_overtakes_who_waits_for_room() {
        let budget = Budget::new(80);
        let [a, b, c] = ["a", "b", "c"].map(|name| budget.client(name));
        let held = [a.try_take(40).unwrap(), b.try_take(30).unwrap()];
        let (told, granted) = mpsc::channel();
        for (client, bytes, name) in [(&c, 30, "c1"), (&c, 10, "c2"), (&b, 10, "b1"), (&b, 10, "b2")] {
            waits(client, bytes, name, &told);
        }
        let [from_a, from_b] = held;
        drop(from_b);
        let first: Vec<_> = granted.try_iter().collect();
        assert_eq!(first.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["c1"]);
        let mut small = budget.try_take(10).unwrap();
        small.shrink_to(0);
        assert!(granted.try_recv().is_err() && b.try_take(1).is_none(), "there is no room");
        drop(from_a);
        let rest: Vec<_> = granted.try_iter().collect();
        assert_eq!(rest.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["b1", "c2", "b2"]);
        drop((first, rest));
        assert!(budget.try_take(80).is_some());
        assert!(budget.state.lock().clients.is_empty());
    }

    #[test]
    fn one_piece_is_always_under_way_however_large() {
        let budget = Budget::new(10);
        let client = budget.client("a");
        let whole = client.try_take(10).unwrap();
        let (told, granted) = mpsc::channel();
        waits(&client, 10, "next", &told);
        drop(whole);
        assert!(granted.try_recv().is_ok());
    }
}
