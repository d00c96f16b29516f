//! How a node becomes the owner.

use super::statement::{Answer, RowHead, Statement};
use crate::entry::{Cursor, Entry, NodeId, Term};

/// Takes the log from whoever has it. The statement that does so waits for an append that is being committed, so the
/// position that it returns is behind every entry that an earlier owner can add. The rows are read by other statements,
/// perhaps from a database that was replaced and does not know it: the copy is right if it ends with the entry that the
/// head names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Take {
    node: NodeId,
    cursor: Cursor,
    step: Step,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    ReadHead,
    Take {
        seen: Term,
    },
    Read(RowHead),
    /// The rows do not continue the copy, unless a later owner has truncated the log.
    LookAfterRead(RowHead),
}

/// The next step of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken<B> {
    /// Run the next statement.
    Continues,
    /// Apply these entries. With a head, the node owns the log then; without, run the next statement.
    Entries { entries: Vec<Entry<B>>, owner: Option<RowHead> },
    /// Another node has taken the log meanwhile: follow it.
    Withdrawn,
    /// The log begins behind the copy by now: load a snapshot, and begin again.
    Truncated(RowHead),
    /// The rows are not those of the copy, or fewer: stop, and say so.
    Broken,
}

impl Take {
    /// `node` is random, and used for nothing else.
    pub fn new(node: NodeId, cursor: Cursor) -> Self {
        Self { node, cursor, step: Step::ReadHead }
    }

    /// The statement to run next.
    pub fn statement<B>(&self) -> Statement<B> {
        match &self.step {
            Step::ReadHead => Statement::ReadHead,
            Step::Take { seen } => Statement::Take { seen: *seen, owner: self.node },
            Step::Read(head) => Statement::Read { from: self.cursor.next, to: head.next },
            Step::LookAfterRead(_) => Statement::Look,
        }
    }

    pub fn answer<B: Clone>(&mut self, answer: &Answer<B>) -> Taken<B> {
        match (self.step.clone(), answer) {
            (Step::ReadHead, Answer::Head(head)) if head.kept.floor > self.cursor.next => {
                return Taken::Truncated(head.clone());
            }
            (Step::ReadHead, Answer::Head(head)) => self.step = Step::Take { seen: head.term },
            (Step::Take { .. }, Answer::Changed(head)) => return self.read(head),
            (Step::Take { .. }, Answer::Unchanged) => return Taken::Withdrawn,
            (Step::Read(head), Answer::Entries(entries)) => return self.pass(head, entries),
            (Step::LookAfterRead(head), Answer::Changed(found)) => {
                return if found.term > head.term { Taken::Withdrawn } else { Taken::Broken };
            }
            _ => {}
        }
        Taken::Continues
    }

    fn read<B>(&mut self, head: &RowHead) -> Taken<B> {
        if head.kept.floor > self.cursor.next {
            return Taken::Truncated(head.clone());
        }
        if head.next > self.cursor.next {
            self.step = Step::Read(head.clone());
            return Taken::Continues;
        }
        if head.ends(self.cursor) {
            return Taken::Entries { entries: Vec::new(), owner: Some(head.clone()) };
        }
        Taken::Broken
    }

    fn pass<B: Clone>(&mut self, head: RowHead, entries: &[Entry<B>]) -> Taken<B> {
        let Some(cursor) = head.continues(self.cursor, entries) else {
            self.step = Step::LookAfterRead(head);
            return Taken::Continues;
        };
        self.cursor = cursor;
        let owner = (cursor.next == head.next).then_some(head);
        Taken::Entries { entries: entries.to_vec(), owner }
    }
}
