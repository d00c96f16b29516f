//! Every order in which nodes and a database can act. Statements are committed at any time after they were sent, also
//! after their node has given up or has crashed; a commit may reach the standby or not, and the standby may take over.

use std::collections::{BTreeMap, BTreeSet};

use orcas_shared_log::rows::{
    Answer, Append, Change, Changed, Follow, Followed, Kept, RowHead, Statement, Take, Taken,
};
use orcas_shared_log::{Appended, Cursor, Entry, EntryId, NodeId, Position, Snapshot, Term, floor, retain};

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
    /// A follower believes where the log ends without a commit.
    EndNotProven,
    /// A follower that finds no rows is at the end.
    GapTakenForTheEnd,
    /// The head names a snapshot that is written later.
    SnapshotNotWritten,
    /// Entries are deleted before the floor is known to be above them.
    RemovedBeforehand,
    /// A change that was repeated may arrive again after the next one.
    ChangeNotNumbered,
    /// An owner still says where the log ends when a later one has acknowledged writes.
    FormerOwnerTells,
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
    /// Times that a node that is not the owner reads up to the end.
    pub follows: u8,
    /// Times that it reads up to where the owner says that the log ends.
    pub reads: u8,
    /// Snapshots, each with the floor that it allows.
    pub truncations: u8,
    /// Changes of the head that leave it as it is.
    pub renewals: u8,
}

pub struct Protocol {
    pub nodes: u8,
    pub bounds: Bounds,
    pub mistake: Option<Mistake>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Database {
    head: RowHead,
    /// Rows that were deleted are still in it.
    log: Vec<Entry<u8>>,
    /// All before it are deleted.
    removed: Position,
}

impl Database {
    fn run(&mut self, statement: &Statement<u8>, mistake: Option<Mistake>) -> Answer<u8> {
        let changed = match statement {
            Statement::ReadHead => return Answer::Head(self.head.clone()),
            Statement::Read { from, to } => {
                let there = self.removed.max(*from)..*to;
                let rows = self.log.iter().enumerate().filter(|(at, _)| there.contains(&(*at as Position)));
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
                *position >= self.removed && self.log.get(*position as usize).is_some_and(|entry| entry.id == *id)
            }
            Statement::Look => true,
            Statement::Take { seen, owner } => {
                if self.head.term == *seen {
                    (self.head.term, self.head.owner) = (seen + 1, *owner);
                }
                self.head.term == seen + 1 && self.head.owner == *owner
            }
            Statement::Change { term, kept } => {
                let numbers = [kept.changes - 1, kept.changes];
                let is_next = mistake == Some(Mistake::ChangeNotNumbered) || numbers.contains(&self.head.kept.changes);
                let changes = self.head.term == *term && is_next;
                if changes {
                    self.head.kept = kept.clone();
                }
                changes
            }
            Statement::Remove { below } => {
                self.removed = self.removed.max(*below);
                false
            }
        };
        if changed { Answer::Changed(self.head.clone()) } else { Answer::Unchanged }
    }

    fn writes(&self) -> Vec<u8> {
        self.log.iter().filter_map(|entry| entry.batch).collect()
    }

    fn add(&mut self, entry: &Entry<u8>) {
        self.log.push(entry.clone());
        (self.head.next, self.head.last) = (self.head.next + 1, Some(entry.id));
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Role {
    Follower,
    Following { follow: Follow, acknowledged: Vec<u8> },
    Taking(Take),
    Owner { term: Term, append: Option<Append<u8>>, kept: Kept, change: Option<Change> },
}

/// An owner appends and changes the head at the same time, by two connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Line {
    Log,
    Head,
}

/// What a node asks for beside the database.
#[derive(Default)]
struct Outcome {
    acknowledged: Option<u8>,
    /// The copy is older than the log.
    loads: Vec<Snapshot>,
    /// A change of the head is done: it was this before.
    changed: Option<Kept>,
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
    /// It took something else for the end of the log.
    LacksAcknowledged,
}

impl Node {
    fn id(&self) -> NodeId {
        NodeId(u128::from(self.number + 1) << 8 | u128::from(self.run))
    }

    fn statement(&self, line: Line) -> Option<Statement<u8>> {
        match (&self.role, line) {
            (Role::Owner { change, .. }, Line::Head) => change.as_ref().map(Change::statement),
            (Role::Owner { append, .. }, Line::Log) => append.as_ref().map(Append::statement),
            (Role::Taking(take), Line::Log) => Some(take.statement()),
            (Role::Following { follow, .. }, Line::Log) => Some(follow.statement()),
            _ => None,
        }
    }

    fn write(&mut self, number: u8) {
        let Role::Owner { term, append, .. } = &mut self.role else { return };
        self.ids += 1;
        let id = EntryId((u128::from(self.number + 1) << 8 | u128::from(self.run)) << 8 | u128::from(self.ids));
        let entry = Entry { id, term: *term, previous: self.cursor.last, batch: Some(number) };
        *append = Some(Append::new(self.cursor.next, entry));
    }

    fn apply(&mut self, entry: &Entry<u8>) {
        self.writes.extend(entry.batch);
        self.cursor = self.cursor.after(entry.id);
    }

    fn answer(&mut self, line: Line, answer: &Answer<u8>, mistake: Option<Mistake>) -> Outcome {
        let mut outcome = Outcome::default();
        match std::mem::replace(&mut self.role, Role::Follower) {
            Role::Follower => {}
            Role::Following { mut follow, acknowledged } => match follow.answer(answer) {
                Followed::Continues
                    if mistake == Some(Mistake::GapTakenForTheEnd) && *answer == Answer::Entries(Vec::new()) =>
                {
                    self.end(&acknowledged);
                }
                Followed::Continues => self.role = Role::Following { follow, acknowledged },
                Followed::Entries(entries) => {
                    entries.iter().for_each(|entry| self.apply(entry));
                    self.role = Role::Following { follow, acknowledged };
                }
                Followed::End(entries) => {
                    entries.iter().for_each(|entry| self.apply(entry));
                    self.end(&acknowledged);
                }
                Followed::Truncated(head) => outcome.loads = head.kept.snapshots,
                Followed::Broken => self.fault = Some(Fault::BrokenHistory),
            },
            Role::Taking(mut take) => match take.answer(answer) {
                Taken::Continues => self.role = Role::Taking(take),
                Taken::Withdrawn => self.restart(),
                Taken::Truncated(head) => {
                    outcome.loads = head.kept.snapshots;
                    self.restart();
                }
                Taken::Broken => self.fault = Some(Fault::BrokenHistory),
                Taken::Entries { entries, owner } => {
                    entries.iter().for_each(|entry| self.apply(entry));
                    self.role = owner.map_or(Role::Taking(take), |head| Role::Owner {
                        term: head.term,
                        append: None,
                        kept: head.kept,
                        change: None,
                    });
                }
            },
            Role::Owner { term, mut append, mut kept, mut change } => {
                let fenced = match line {
                    Line::Log => self.appended(append.take(), answer, mistake, &mut append, &mut outcome),
                    Line::Head => match change.as_mut().and_then(|change| change.answer(answer)) {
                        None => None,
                        Some(Changed::Fenced(by)) => Some(by),
                        Some(Changed::Done(done)) => {
                            outcome.changed = Some(std::mem::replace(&mut kept, done));
                            change = None;
                            None
                        }
                    },
                };
                match fenced {
                    None => self.role = Role::Owner { term, append, kept, change },
                    Some(by) => {
                        self.fault = Some(Fault::GaveUpWithoutReason).filter(|_| by <= term);
                        self.restart();
                    }
                }
            }
        }
        outcome
    }

    /// The term of the owner that has taken the log.
    fn appended(
        &mut self,
        append: Option<Append<u8>>,
        answer: &Answer<u8>,
        mistake: Option<Mistake>,
        left: &mut Option<Append<u8>>,
        outcome: &mut Outcome,
    ) -> Option<Term> {
        let mut append = append?;
        let confirms = matches!(append.statement(), Statement::Confirm { .. });
        let believes = mistake == Some(Mistake::FoundMeansDurable) && confirms && *answer != Answer::Unchanged;
        let entry = append.entry().clone();
        match if believes { Some(Appended::Durable) } else { append.answer(answer) } {
            None => *left = Some(append),
            Some(Appended::Durable) => {
                self.apply(&entry);
                outcome.acknowledged = entry.batch;
            }
            Some(Appended::Fenced(by)) => return Some(by),
        }
        None
    }

    fn end(&mut self, acknowledged: &[u8]) {
        if !acknowledged.iter().all(|write| self.writes.contains(write)) {
            self.fault = Some(Fault::LacksAcknowledged);
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
    to: Option<(u8, Line)>,
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
    answers: BTreeMap<(u8, Line), Answer<u8>>,
    /// The writes of each.
    snapshots: BTreeMap<Snapshot, Vec<u8>>,
    loaded: bool,
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
    Deliver((u8, Line)),
    TimeOut((u8, Line)),
    Write(u8),
    Take(u8),
    Follow(u8),
    /// The second one says where the log ends.
    ReadTo(u8, u8),
    Truncate(u8),
    Renew(u8),
    Crash(u8),
    FailOver,
    Stray {
        flight: usize,
    },
}

impl State {
    fn ask(&mut self, number: u8) {
        for line in [Line::Log, Line::Head] {
            let to = (number, line);
            let waits = self.answers.contains_key(&to) || self.flights.iter().any(|flight| flight.to == Some(to));
            match self.nodes[usize::from(number)].statement(line) {
                None => self.abandon(to),
                Some(_) if waits => {}
                Some(statement) => self.flights.push(Flight { to: Some(to), statement, checked: false }),
            }
        }
    }

    fn abandon(&mut self, to: (u8, Line)) {
        self.answers.remove(&to);
        self.flights.iter_mut().filter(|flight| flight.to == Some(to)).for_each(|flight| flight.to = None);
    }

    /// The owner writes a snapshot and begins to change the head.
    fn truncate(&mut self, number: u8, mistake: Option<Mistake>) {
        let node = &mut self.nodes[usize::from(number)];
        let Role::Owner { term, kept, change, .. } = &mut node.role else { return };
        let newest = Snapshot { at: node.cursor, term: *term };
        if mistake != Some(Mistake::SnapshotNotWritten) {
            self.snapshots.insert(newest, node.writes.clone());
        }
        *change = Some(Change::new(*term, kept, |kept| {
            kept.snapshots = retain(newest, &kept.snapshots).0;
            kept.floor = floor(&kept.snapshots);
            if mistake == Some(Mistake::RemovedBeforehand) {
                let statement = Statement::Remove { below: kept.floor };
                self.flights.push(Flight { to: None, statement, checked: false });
            }
        }));
    }

    /// Where the log ends, as owners say that still answer reads: the lease of a former one is over when the next one
    /// acknowledges its first write.
    fn told_ends(&self, mistake: Option<Mistake>) -> impl Iterator<Item = (u8, Cursor)> {
        self.nodes.iter().filter_map(move |node| match node.role {
            Role::Owner { term, .. } => {
                let answers = self.acknowledged.values().all(|acknowledged| *acknowledged <= term);
                (answers || mistake == Some(Mistake::FormerOwnerTells)).then_some((node.number, node.cursor))
            }
            _ => None,
        })
    }

    fn renew(&mut self, number: u8) {
        if let Role::Owner { term, kept, change, .. } = &mut self.nodes[usize::from(number)].role {
            *change = Some(Change::new(*term, kept, |_| {}));
        }
    }

    fn act(&mut self, number: u8, outcome: Outcome) {
        let node = &mut self.nodes[usize::from(number)];
        if let (Some(before), Role::Owner { kept, .. }) = (outcome.changed, &node.role) {
            self.snapshots.retain(|found, _| !before.snapshots.contains(found) || kept.snapshots.contains(found));
            let statement = Statement::Remove { below: kept.floor };
            self.flights.push(Flight { to: None, statement, checked: false });
        }
        if let Some((snapshot, writes)) = outcome.loads.first().and_then(|newest| self.snapshots.get_key_value(newest))
        {
            (node.cursor, node.writes) = (snapshot.at, writes.clone());
            self.loaded = true;
        }
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
                if free { Answer::Changed(self.primary.head.clone()) } else { Answer::Unchanged }
            }
            statement => self.primary.run(statement, mistake),
        };
        let reads = matches!(statement, Statement::ReadHead | Statement::Read { .. });
        if let (Some(Mistake::EndNotAsked), Statement::Take { .. }, Answer::Changed(head), Some(to)) =
            (mistake, &statement, &mut answer, to)
        {
            (head.next, head.last) = {
                let Cursor { next, last } = self.nodes[usize::from(to.0)].cursor;
                (next, last)
            };
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

    fn stray(&mut self, flight: usize, mistake: Option<Mistake>) {
        let Flight { to, statement, .. } = self.flights.remove(flight);
        let Some(old) = &mut self.old else { return };
        let believes = mistake == Some(Mistake::EndNotProven) && statement == Statement::Look;
        let answer = match old.run(&statement, mistake) {
            Answer::Changed(_) if !believes => Answer::Unknown,
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
        nodes[0].role = Role::Owner { term: 1, append: None, kept: Kept::default(), change: None };
        let head = RowHead { term: 1, owner: nodes[0].id(), next: 0, last: None, kept: Kept::default() };
        let database = Database { head, log: Vec::new(), removed: 0 };
        State {
            primary: database.clone(),
            standby: database,
            old: None,
            strayed: false,
            nodes,
            flights: Vec::new(),
            answers: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            loaded: false,
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
            let (is_owner, is_idle) = match &node.role {
                Role::Owner { append, change, .. } => {
                    if change.is_none() && state.left.truncations > 0 {
                        actions.push(Action::Truncate(node.number));
                    }
                    if change.is_none() && state.left.renewals > 0 {
                        actions.push(Action::Renew(node.number));
                    }
                    (true, append.is_none())
                }
                role => (false, *role == Role::Follower),
            };
            if is_owner && is_idle && state.left.writes > 0 {
                actions.push(Action::Write(node.number));
            }
            if !is_owner && is_idle && state.left.takes > 0 {
                actions.push(Action::Take(node.number));
            }
            if !is_owner && is_idle && state.left.follows > 0 {
                actions.push(Action::Follow(node.number));
            }
            if !is_owner && is_idle && state.left.reads > 0 {
                actions.extend(state.told_ends(self.mistake).map(|(owner, _)| Action::ReadTo(node.number, owner)));
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
            Action::Deliver(to) | Action::TimeOut(to) => {
                let mut answer = next.answers.get(&to).cloned();
                if action == Action::TimeOut(to) {
                    next.left.timeouts -= 1;
                    answer = None;
                }
                next.abandon(to);
                let node = &mut next.nodes[usize::from(to.0)];
                let term = if let Role::Owner { term, .. } = node.role { term } else { 0 };
                let outcome = node.answer(to.1, &answer.unwrap_or(Answer::Unknown), self.mistake);
                next.acknowledged.extend(outcome.acknowledged.map(|write| (write, term)));
                next.act(to.0, outcome);
                next.ask(to.0);
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
            Action::Follow(number) => {
                next.left.follows -= 1;
                let node = &mut next.nodes[usize::from(number)];
                let acknowledged = state.acknowledged.keys().copied().collect();
                node.role = Role::Following { follow: Follow::new(node.cursor), acknowledged };
                next.ask(number);
            }
            Action::ReadTo(number, owner) => {
                next.left.reads -= 1;
                let end = state.nodes[usize::from(owner)].cursor;
                let node = &mut next.nodes[usize::from(number)];
                let acknowledged: Vec<u8> = state.acknowledged.keys().copied().collect();
                let mut follow = Follow::new(node.cursor);
                if follow.read_to(end) {
                    node.role = Role::Following { follow, acknowledged };
                    next.ask(number);
                } else {
                    node.end(&acknowledged);
                }
            }
            Action::Truncate(number) => {
                next.left.truncations -= 1;
                next.truncate(number, self.mistake);
                next.ask(number);
            }
            Action::Renew(number) => {
                next.left.renewals -= 1;
                next.renew(number);
                next.ask(number);
            }
            Action::Crash(number) => {
                next.left.crashes -= 1;
                next.nodes[usize::from(number)].restart();
                next.ask(number);
            }
            Action::FailOver => {
                next.left.failovers -= 1;
                let old = std::mem::replace(&mut next.primary, next.standby.clone());
                next.old = Some(old).filter(|_| next.left.strays > 0);
            }
            Action::Stray { flight } => {
                next.left.strays -= 1;
                next.strayed = true;
                next.stray(flight, self.mistake);
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
            ("a copy at the end has every acknowledged write", |state| {
                state.nodes.iter().all(|node| node.fault != Some(Fault::LacksAcknowledged))
            }),
            ("a head names only snapshots that are there", |state| {
                let named = |database: &Database| {
                    database.head.kept.snapshots.iter().all(|named| state.snapshots.contains_key(named))
                };
                named(&state.primary) && named(&state.standby)
            }),
            ("every entry from the floor on is there", |state| {
                [&state.primary, &state.standby].iter().all(|database| database.removed <= database.head.kept.floor)
            }),
            ("no node finds another history, but in a database that was replaced", |state| {
                state.strayed || state.nodes.iter().all(|node| node.fault != Some(Fault::BrokenHistory))
            }),
        ]
    }

    fn rare() -> Vec<Named<State>> {
        vec![
            ("two owners have acknowledged", |state| state.acknowledged.values().collect::<BTreeSet<_>>().len() > 1),
            ("a copy has begun with a snapshot, and has more", |state| {
                let most = state.snapshots.values().map(Vec::len).max().unwrap_or(0);
                state.loaded && state.nodes[1..].iter().any(|node| node.writes.len() > most)
            }),
        ]
    }
}
