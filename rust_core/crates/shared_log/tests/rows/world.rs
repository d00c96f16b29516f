//! Every order in which nodes and a database can act. Statements are committed at any time after they were sent, also
//! after their node has given up or has crashed; a commit may reach the standby or not, and the standby may take over.

use std::collections::{BTreeMap, BTreeSet};

use orcas_shared_log::rows::{Answer, Append, RowHead, Statement, Take, Taken};
use orcas_shared_log::{Appended, Cursor, Entry, EntryId, NodeId, Position, Term};

use crate::explore::{Model, Named};

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mistake {
    /// A commit with a warning counts.
    WarningIgnored,
    /// A row that was found counts.
    FoundMeansDurable,
    /// The term is looked at when the statement begins, and the row is added later.
    CheckedBeside,
    /// The new owner does not ask where the log ends.
    EndNotAsked,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bounds {
    pub writes: u8,
    pub takes: u8,
    pub crashes: u8,
    /// Answers that do not come.
    pub timeouts: u8,
    /// Commits that the standby does not have when they are answered, with a warning.
    pub warnings: u8,
    /// Takeovers by the standby.
    pub failovers: u8,
    /// Statements that reach the database that was replaced.
    pub strays: u8,
}

pub struct Protocol {
    pub nodes: u8,
    pub bounds: Bounds,
    pub mistake: Option<Mistake>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Database {
    head: RowHead,
    log: Vec<Entry<u8>>,
}

impl Database {
    fn run(&mut self, statement: &Statement<u8>) -> Answer<u8> {
        let changed = match statement {
            Statement::ReadHead => return Answer::Head(self.head),
            Statement::Read { from, to } => {
                let rows = self.log.iter().enumerate().filter(|(at, _)| (*from..*to).contains(&(*at as Position)));
                return Answer::Entries(rows.map(|(_, entry)| entry.clone()).collect());
            }
            Statement::Append { position, entry } => {
                let changes = self.head.term == entry.term && self.head.next == *position;
                if changes {
                    self.add(entry);
                }
                changes
            }
            Statement::Confirm { position, id } => {
                self.log.get(*position as usize).is_some_and(|entry| entry.id == *id)
            }
            Statement::Take { seen, owner } => {
                if self.head.term == *seen {
                    self.head = RowHead { term: seen + 1, owner: *owner, ..self.head };
                }
                self.head.term == seen + 1 && self.head.owner == *owner
            }
        };
        if changed { Answer::Changed(self.head) } else { Answer::Unchanged }
    }

    fn writes(&self) -> Vec<u8> {
        self.log.iter().filter_map(|entry| entry.batch).collect()
    }

    fn add(&mut self, entry: &Entry<u8>) {
        self.log.push(entry.clone());
        self.head = RowHead { next: self.head.next + 1, last: Some(entry.id), ..self.head };
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Role {
    Follower,
    Taking(Take),
    Owner { term: Term, append: Option<Append<u8>> },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node {
    number: u8,
    run: u8,
    ids: u8,
    cursor: Cursor,
    writes: Vec<u8>,
    role: Role,
    fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    BrokenHistory,
    GaveUpWithoutReason,
}

impl Node {
    fn id(&self) -> NodeId {
        NodeId(u128::from(self.number + 1) << 8 | u128::from(self.run))
    }

    fn statement(&self) -> Option<Statement<u8>> {
        match &self.role {
            Role::Taking(take) => Some(take.statement()),
            Role::Owner { append, .. } => append.as_ref().map(Append::statement),
            Role::Follower => None,
        }
    }

    fn write(&mut self, number: u8) {
        let Role::Owner { term, append } = &mut self.role else { return };
        self.ids += 1;
        let id = EntryId((u128::from(self.number + 1) << 8 | u128::from(self.run)) << 8 | u128::from(self.ids));
        let entry = Entry { id, term: *term, previous: self.cursor.last, batch: Some(number) };
        *append = Some(Append::new(self.cursor.next, entry));
    }

    fn apply(&mut self, entry: &Entry<u8>) {
        self.writes.extend(entry.batch);
        self.cursor = self.cursor.after(entry.id);
    }

    /// The write that was acknowledged.
    fn answer(&mut self, answer: &Answer<u8>, mistake: Option<Mistake>) -> Option<u8> {
        match std::mem::replace(&mut self.role, Role::Follower) {
            Role::Follower => None,
            Role::Taking(mut take) => {
                match take.answer(answer) {
                    Taken::Continues => self.role = Role::Taking(take),
                    Taken::Withdrawn => {}
                    Taken::Broken => self.fault = Some(Fault::BrokenHistory),
                    Taken::Entries { entries, owner } => {
                        entries.iter().for_each(|entry| self.apply(entry));
                        self.role = owner.map_or(Role::Taking(take), |term| Role::Owner { term, append: None });
                    }
                }
                None
            }
            Role::Owner { term, append } => {
                let mut append = append?;
                let confirms = matches!(append.statement(), Statement::Confirm { .. });
                let believes = mistake == Some(Mistake::FoundMeansDurable) && confirms && *answer != Answer::Unchanged;
                let entry = append.entry().clone();
                match if believes { Some(Appended::Durable) } else { append.answer(answer) } {
                    None => self.role = Role::Owner { term, append: Some(append) },
                    Some(Appended::Durable) => {
                        self.apply(&entry);
                        self.role = Role::Owner { term, append: None };
                        return entry.batch;
                    }
                    Some(Appended::Fenced(by)) => {
                        self.fault = Some(Fault::GaveUpWithoutReason).filter(|_| by <= term);
                        self.restart();
                    }
                }
                None
            }
        }
    }

    fn restart(&mut self) {
        self.run += 1;
        self.ids = 0;
        self.role = Role::Follower;
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Flight {
    to: Option<u8>,
    statement: Statement<u8>,
    /// Only with a mistake: the term was right when the statement began.
    checked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    primary: Database,
    standby: Database,
    /// The former database, which was replaced, has no standby, and answers still.
    old: Option<Database>,
    strayed: bool,
    nodes: Vec<Node>,
    flights: Vec<Flight>,
    answers: BTreeMap<u8, Answer<u8>>,
    left: Bounds,
    written: u8,
    acknowledged: BTreeMap<u8, Term>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Commits, with or without the standby.
    Commit {
        flight: usize,
        warns: bool,
    },
    Check {
        flight: usize,
    },
    Deliver(u8),
    TimeOut(u8),
    Write(u8),
    Take(u8),
    Crash(u8),
    FailOver,
    Stray {
        flight: usize,
    },
}

impl State {
    fn ask(&mut self, number: u8) {
        let waits = self.answers.contains_key(&number) || self.flights.iter().any(|flight| flight.to == Some(number));
        if let (false, Some(statement)) = (waits, self.nodes[usize::from(number)].statement()) {
            self.flights.push(Flight { to: Some(number), statement, checked: false });
        }
    }

    fn abandon(&mut self, number: u8) {
        self.answers.remove(&number);
        self.flights.iter_mut().filter(|flight| flight.to == Some(number)).for_each(|flight| flight.to = None);
    }

    fn commit(&mut self, flight: usize, warns: bool, mistake: Option<Mistake>) {
        let Flight { to, statement, checked } = self.flights.remove(flight);
        let before = self.primary.clone();
        let mut answer = match &statement {
            Statement::Append { position, entry } if checked => {
                let free = self.primary.head.next == *position;
                if free {
                    self.primary.add(entry);
                }
                if free { Answer::Changed(self.primary.head) } else { Answer::Unchanged }
            }
            statement => self.primary.run(statement),
        };
        let reads = matches!(statement, Statement::ReadHead | Statement::Read { .. });
        if let (Some(Mistake::EndNotAsked), Statement::Take { .. }, Answer::Changed(head), Some(to)) =
            (mistake, &statement, &mut answer, to)
        {
            let Cursor { next, last } = self.nodes[usize::from(to)].cursor;
            *head = RowHead { next, last, ..*head };
        }
        if warns {
            if mistake != Some(Mistake::WarningIgnored) {
                answer = Answer::Unknown;
            }
        } else if !reads && (matches!(answer, Answer::Changed(_)) || self.primary != before) {
            self.standby = self.primary.clone();
        }
        if let Some(to) = to {
            self.answers.insert(to, answer);
        }
    }

    fn stray(&mut self, flight: usize) {
        let Flight { to, statement, .. } = self.flights.remove(flight);
        let Some(old) = &mut self.old else { return };
        let answer = match old.run(&statement) {
            Answer::Changed(_) => Answer::Unknown,
            answer => answer,
        };
        self.answers.extend(to.map(|to| (to, answer)));
    }

    fn settle(&mut self) {
        let reads = |flight: &Flight| matches!(flight.statement, Statement::ReadHead | Statement::Read { .. });
        self.flights.retain(|flight| flight.to.is_some() || !reads(flight));
        self.flights.sort();
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    /// The first node owns an empty log.
    fn first(&self) -> State {
        let node = |number| Node {
            number,
            run: 0,
            ids: 0,
            cursor: Cursor::default(),
            writes: Vec::new(),
            role: Role::Follower,
            fault: None,
        };
        let mut nodes: Vec<_> = (0..self.nodes).map(node).collect();
        nodes[0].role = Role::Owner { term: 1, append: None };
        let head = RowHead { term: 1, owner: nodes[0].id(), next: 0, last: None };
        let database = Database { head, log: Vec::new() };
        State {
            primary: database.clone(),
            standby: database,
            old: None,
            strayed: false,
            nodes,
            flights: Vec::new(),
            answers: BTreeMap::new(),
            left: self.bounds,
            written: 0,
            acknowledged: BTreeMap::new(),
        }
    }

    fn actions(&self, state: &State) -> Vec<Action> {
        let mut actions = Vec::new();
        for (flight, each) in state.flights.iter().enumerate() {
            let is_append = matches!(each.statement, Statement::Append { .. });
            let checks = self.mistake == Some(Mistake::CheckedBeside) && is_append && !each.checked;
            actions.push(if checks { Action::Check { flight } } else { Action::Commit { flight, warns: false } });
            if state.left.warnings > 0 {
                actions.push(Action::Commit { flight, warns: true });
            }
            if state.left.strays > 0 && state.old.is_some() {
                actions.push(Action::Stray { flight });
            }
        }
        actions.extend(state.answers.keys().map(|&node| Action::Deliver(node)));
        if state.left.timeouts > 0 {
            let waiting: BTreeSet<_> = state.flights.iter().filter_map(|flight| flight.to).collect();
            actions.extend(waiting.into_iter().chain(state.answers.keys().copied()).map(Action::TimeOut));
        }
        if state.left.failovers > 0 {
            actions.push(Action::FailOver);
        }
        for node in &state.nodes {
            match &node.role {
                Role::Owner { append: None, .. } if state.left.writes > 0 => actions.push(Action::Write(node.number)),
                Role::Follower if state.left.takes > 0 => actions.push(Action::Take(node.number)),
                _ => {}
            }
            if state.left.crashes > 0 && node.role != Role::Follower {
                actions.push(Action::Crash(node.number));
            }
        }
        actions
    }

    fn next(&self, state: &State, action: Action) -> State {
        let mut next = state.clone();
        match action {
            Action::Commit { flight, warns } => {
                next.left.warnings -= u8::from(warns);
                next.commit(flight, warns, self.mistake);
            }
            Action::Check { flight } => {
                let term = match &next.flights[flight].statement {
                    Statement::Append { entry, .. } => entry.term,
                    _ => 0,
                };
                if next.primary.head.term == term {
                    next.flights[flight].checked = true;
                } else {
                    next.commit(flight, false, self.mistake);
                }
            }
            Action::Deliver(number) | Action::TimeOut(number) => {
                let mut answer = next.answers.get(&number).cloned();
                if action == Action::TimeOut(number) {
                    next.left.timeouts -= 1;
                    answer = None;
                }
                next.abandon(number);
                let node = &mut next.nodes[usize::from(number)];
                let term = if let Role::Owner { term, .. } = node.role { term } else { 0 };
                if let Some(write) = node.answer(&answer.unwrap_or(Answer::Unknown), self.mistake) {
                    next.acknowledged.insert(write, term);
                }
                next.ask(number);
            }
            Action::Write(number) => {
                next.left.writes -= 1;
                next.written += 1;
                next.nodes[usize::from(number)].write(state.written);
                next.ask(number);
            }
            Action::Take(number) => {
                next.left.takes -= 1;
                let node = &mut next.nodes[usize::from(number)];
                node.role = Role::Taking(Take::new(node.id(), node.cursor));
                next.ask(number);
            }
            Action::Crash(number) => {
                next.left.crashes -= 1;
                next.nodes[usize::from(number)].restart();
                next.abandon(number);
            }
            Action::FailOver => {
                next.left.failovers -= 1;
                let old = std::mem::replace(&mut next.primary, next.standby.clone());
                next.old = Some(old).filter(|_| next.left.strays > 0);
            }
            Action::Stray { flight } => {
                next.left.strays -= 1;
                next.strayed = true;
                next.stray(flight);
            }
        }
        next.settle();
        next
    }

    fn promises() -> Vec<Named<State>> {
        vec![
            ("an owner has every acknowledged write", |state| {
                state.nodes.iter().all(|node| match node.role {
                    Role::Owner { term: owned, .. } => {
                        state.acknowledged.iter().all(|(write, term)| *term > owned || node.writes.contains(write))
                    }
                    _ => true,
                })
            }),
            ("a standby has every acknowledged write", |state| {
                let log = state.standby.writes();
                state.acknowledged.keys().all(|write| log.contains(write))
            }),
            ("no write is there twice", |state| {
                let log = state.primary.writes();
                log.iter().collect::<BTreeSet<_>>().len() == log.len()
            }),
            ("an owner gives up only to another", |state| {
                state.nodes.iter().all(|node| node.fault != Some(Fault::GaveUpWithoutReason))
            }),
            ("no node finds another history, but in a database that was replaced", |state| {
                state.strayed || state.nodes.iter().all(|node| node.fault != Some(Fault::BrokenHistory))
            }),
        ]
    }

    fn rare() -> Vec<Named<State>> {
        vec![("two owners have acknowledged", |state| state.acknowledged.values().collect::<BTreeSet<_>>().len() > 1)]
    }
}
