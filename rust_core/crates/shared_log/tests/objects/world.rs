//! Every order in which nodes and a store can act. Calls take effect at any time after they were made, also twice, and
//! also after their node has given up or has crashed; replies come late or not at all, and nodes stop for any length of
//! time.

use std::collections::BTreeMap;
use std::hash::Hash;

use crate::explore::{Model, Named};
use crate::mistake::Mistake;
use crate::node::{Event, Line, Node, Role};
use crate::properties;
use crate::store::{Answer, Request, Store};
use orcas_shared_log::Term;
use orcas_shared_log::objects::{Call, Reply};

/// How often each thing happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bounds {
    pub writes: u8,
    pub retires: u8,
    pub takes: u8,
    pub truncations: u8,
    /// Changes of the head that leave it as it is.
    pub renewals: u8,
    pub collections: u8,
    pub reads: u8,
    /// Entries that a node asks for before their turn.
    pub aheads: u8,
    pub crashes: u8,
    /// Replies that do not come.
    pub timeouts: u8,
    /// Calls that take effect twice.
    pub repeats: u8,
    /// Refusals of a store that has not looked.
    pub false_refusals: u8,
}

pub struct Protocol {
    pub nodes: u8,
    pub bounds: Bounds,
    /// Whether writes have content beside the log.
    pub content: bool,
    pub start: Start,
    pub mistake: Option<Mistake>,
}

/// The contents of the store at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    Nothing,
    /// An empty log, which the first node owns.
    Log,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flight {
    /// The node and line that wait for the reply, if any does.
    to: Option<(u8, Line)>,
    pub request: Request,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub store: Store,
    pub nodes: Vec<Node>,
    pub flights: Vec<Flight>,
    pub answers: BTreeMap<(u8, Line), Answer>,
    pub left: Bounds,
    pub written: u8,
    /// Writes that a client was told of, with the term of their owner.
    pub acknowledged: BTreeMap<u8, Term>,
    pub fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    StaleRead,
    GaveUpWithoutReason,
    BrokenHistory,
    NoSnapshot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Execute { flight: usize, repeats: bool },
    RefuseFalsely { flight: usize },
    Deliver(u8, Line),
    TimeOut(u8, Line),
    Write(u8),
    Retire(u8),
    Truncate(u8),
    Renew(u8),
    Collect(u8),
    Take(u8),
    Read(u8),
    ReadAhead(u8),
    Crash { node: u8, keeps_copy: bool },
}

impl State {
    /// Calls that nobody waits for and that change nothing are left out.
    fn settle(&mut self) {
        self.flights.retain(|flight| {
            let reads = matches!(
                flight.request,
                Request::Log(Call::ReadEntry(_) | Call::ReadHead)
                    | Request::ListEntries
                    | Request::ListContent
                    | Request::ReadSnapshot(_)
            );
            flight.to.is_some() || !reads
        });
        self.flights.sort();
    }

    /// Lets a node make its next call.
    fn ask(&mut self, number: u8) {
        for line in [Line::Main, Line::Tidying] {
            let to = Some((number, line));
            let waits = self.answers.contains_key(&(number, line)) || self.flights.iter().any(|flight| flight.to == to);
            let node = &mut self.nodes[usize::from(number)];
            if let (false, Some(request)) = (waits, node.request(line)) {
                if let (Role::Reading { acknowledged, .. }, Request::Log(Call::ReadEntry(_))) =
                    (&mut node.role, &request)
                {
                    *acknowledged = self.acknowledged.keys().copied().collect();
                }
                match node.ahead_of(line, &request) {
                    Some(found) => drop(self.answers.insert((number, line), Answer::Log(Reply::Entry(found)))),
                    None => self.flights.push(Flight { to, request }),
                }
            }
        }
    }

    /// The node does not wait any more.
    fn abandon(&mut self, number: u8, lines: &[Line]) {
        for line in lines {
            self.answers.remove(&(number, *line));
            for flight in &mut self.flights {
                if flight.to == Some((number, *line)) {
                    flight.to = None;
                }
            }
        }
    }

    fn reply(&mut self, number: u8, line: Line, answer: Option<Answer>, mistake: Option<Mistake>) {
        let node = &mut self.nodes[usize::from(number)];
        let run = node.run;
        let term = node.term();
        let event = node.reply(line, answer, mistake);
        if node.run != run {
            self.abandon(number, &[Line::Main, Line::Tidying]);
        }
        match event {
            Some(Event::Acknowledged(write)) => drop(self.acknowledged.insert(write, term.unwrap_or_default())),
            Some(Event::Fenced(term)) if self.store.head.as_ref().is_none_or(|head| head.term <= term) => {
                self.fault = Some(Fault::GaveUpWithoutReason);
            }
            Some(Event::Read { acknowledged })
                if !acknowledged.iter().all(|write| self.nodes[usize::from(number)].replica.has_write(*write)) =>
            {
                self.fault = Some(Fault::StaleRead);
            }
            Some(Event::Broken) => self.fault = Some(Fault::BrokenHistory),
            Some(Event::NoSnapshot) => self.fault = Some(Fault::NoSnapshot),
            Some(Event::Fenced(_) | Event::Read { .. }) | None => {}
        }
        self.ask(number);
    }

    fn execute(&mut self, flight: usize, repeats: bool) {
        let Flight { to, request } = self.flights[flight].clone();
        let answer = self.store.execute(&request);
        if repeats {
            self.flights[flight].to = None;
        } else {
            self.flights.remove(flight);
        }
        if let Some(to) = to {
            self.answers.insert(to, answer);
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn first(&self) -> State {
        let mut state = State {
            store: Store::default(),
            nodes: (0..self.nodes).map(Node::new).collect(),
            flights: Vec::new(),
            answers: BTreeMap::new(),
            left: self.bounds,
            written: 0,
            acknowledged: BTreeMap::new(),
            fault: None,
        };
        if self.start == Start::Nothing {
            return state;
        }
        state.nodes[0].take(None);
        while let Some(request) = state.nodes[0].request(Line::Main) {
            let answer = state.store.execute(&request);
            state.nodes[0].reply(Line::Main, Some(answer), None);
        }
        state
    }

    fn actions(&self, state: &State) -> Vec<Action> {
        let mut actions = Vec::new();
        if state.fault.is_some() {
            return actions;
        }
        for (flight, each) in state.flights.iter().enumerate() {
            if flight > 0 && state.flights[flight - 1] == *each {
                continue;
            }
            actions.push(Action::Execute { flight, repeats: false });
            let changes = !matches!(each.request, Request::Log(Call::ReadEntry(_) | Call::ReadHead));
            if state.left.repeats > 0 && changes {
                actions.push(Action::Execute { flight, repeats: true });
            }
            let conditional = matches!(each.request, Request::Log(Call::CreateEntry { .. } | Call::SwapHead { .. }));
            if state.left.false_refusals > 0 && conditional && each.to.is_some() {
                actions.push(Action::RefuseFalsely { flight });
            }
        }
        actions.extend(state.answers.keys().map(|&(node, line)| Action::Deliver(node, line)));
        if state.left.timeouts > 0 {
            let waiting = state.flights.iter().filter_map(|flight| flight.to).chain(state.answers.keys().copied());
            actions.extend(waiting.map(|(node, line)| Action::TimeOut(node, line)));
        }
        for node in &state.nodes {
            let (number, is_owner) = (node.number, matches!(node.role, Role::Owner { .. }));
            let mut add = |left: u8, may: bool, action| {
                if left > 0 && may {
                    actions.push(action);
                }
            };
            let free = !node.is_busy(Line::Main);
            add(state.left.writes, is_owner && free, Action::Write(number));
            add(state.left.retires, is_owner && free, Action::Retire(number));
            add(state.left.truncations, is_owner && !node.is_busy(Line::Tidying), Action::Truncate(number));
            add(state.left.renewals, is_owner && !node.is_busy(Line::Tidying), Action::Renew(number));
            add(state.left.collections, is_owner && !node.is_busy(Line::Tidying), Action::Collect(number));
            add(state.left.takes, free && node.role == Role::Follower, Action::Take(number));
            add(state.left.reads, free && node.role == Role::Follower, Action::Read(number));
            let ahead = node.reads_ahead().and_then(|at| state.store.entries.get(&at));
            let counts = ahead.is_some() || self.mistake == Some(Mistake::HolesReadAhead);
            add(state.left.aheads, node.reads_ahead().is_some() && counts, Action::ReadAhead(number));
            for keeps_copy in [true, false] {
                add(state.left.crashes, node.role != Role::Follower, Action::Crash { node: number, keeps_copy });
            }
        }
        actions
    }

    fn next(&self, state: &State, action: Action) -> State {
        let mut next = state.clone();
        let mut asks = None;
        match action {
            Action::Execute { flight, repeats } => {
                next.left.repeats -= u8::from(repeats);
                next.execute(flight, repeats);
            }
            Action::RefuseFalsely { flight } => {
                next.left.false_refusals -= 1;
                let to = next.flights.remove(flight).to;
                next.answers.extend(to.map(|to| (to, Answer::Log(Reply::Refused))));
            }
            Action::Deliver(node, line) => {
                let answer = next.answers.remove(&(node, line));
                next.reply(node, line, answer, self.mistake);
            }
            Action::TimeOut(node, line) => {
                next.left.timeouts -= 1;
                next.abandon(node, &[line]);
                next.reply(node, line, None, self.mistake);
            }
            Action::Write(node) => {
                next.left.writes -= 1;
                next.written += 1;
                next.nodes[usize::from(node)].write(state.written, self.content, self.mistake);
                asks = Some(node);
            }
            Action::Retire(node) => {
                next.left.retires -= 1;
                next.nodes[usize::from(node)].retire(self.mistake);
                asks = Some(node);
            }
            Action::Truncate(node) => {
                next.left.truncations -= 1;
                next.nodes[usize::from(node)].truncate();
                asks = Some(node);
            }
            Action::Renew(node) => {
                next.left.renewals -= 1;
                next.nodes[usize::from(node)].renew();
                asks = Some(node);
            }
            Action::Collect(node) => {
                next.left.collections -= 1;
                next.nodes[usize::from(node)].collect();
                asks = Some(node);
            }
            Action::Take(node) => {
                next.left.takes -= 1;
                next.nodes[usize::from(node)].take(self.mistake);
                asks = Some(node);
            }
            Action::Read(node) => {
                next.left.reads -= 1;
                next.nodes[usize::from(node)].read();
                asks = Some(node);
            }
            Action::ReadAhead(number) => {
                next.left.aheads -= 1;
                let node = &mut next.nodes[usize::from(number)];
                node.ahead = node.reads_ahead().map(|at| (at, state.store.entries.get(&at).cloned()));
            }
            Action::Crash { node, keeps_copy } => {
                next.left.crashes -= 1;
                next.nodes[usize::from(node)].crash(keeps_copy);
                next.abandon(node, &[Line::Main, Line::Tidying]);
            }
        }
        if let Some(node) = asks {
            next.ask(node);
        }
        next.settle();
        next
    }

    fn promises() -> Vec<Named<State>> {
        properties::promises()
    }

    fn rare() -> Vec<Named<State>> {
        properties::rare()
    }
}
