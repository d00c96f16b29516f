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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    ReadHead,
    Take { seen: Term },
    Read(RowHead),
}

/// The next step of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken<B> {
    /// Run the next statement.
    Continues,
    /// Apply these entries. With an owner's term, the node owns the log then; without, run the next statement.
    Entries { entries: Vec<Entry<B>>, owner: Option<Term> },
    /// Another node has taken the log meanwhile: follow it.
    Withdrawn,
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
        match self.step {
            Step::ReadHead => Statement::ReadHead,
            Step::Take { seen } => Statement::Take { seen, owner: self.node },
            Step::Read(head) => Statement::Read { from: self.cursor.next, to: head.next },
        }
    }

    pub fn answer<B: Clone>(&mut self, answer: &Answer<B>) -> Taken<B> {
        match (self.step, answer) {
            (Step::ReadHead, Answer::Head(head)) => self.step = Step::Take { seen: head.term },
            (Step::Take { .. }, Answer::Changed(head)) => return self.read(*head),
            (Step::Take { .. }, Answer::Unchanged) => return Taken::Withdrawn,
            (Step::Read(head), Answer::Entries(entries)) => return self.pass(head, entries),
            _ => {}
        }
        Taken::Continues
    }

    fn read<B>(&mut self, head: RowHead) -> Taken<B> {
        self.step = Step::Read(head);
        match head.next.checked_sub(self.cursor.next) {
            Some(0) if head.last == self.cursor.last => Taken::Entries { entries: Vec::new(), owner: Some(head.term) },
            Some(1..) => Taken::Continues,
            Some(0) | None => Taken::Broken,
        }
    }

    fn pass<B: Clone>(&mut self, head: RowHead, entries: &[Entry<B>]) -> Taken<B> {
        let continue_copy = entries.iter().all(|entry| self.cursor.advance(entry));
        let ends = self.cursor.next == head.next;
        if entries.is_empty() || !continue_copy || self.cursor.next > head.next || ends && self.cursor.last != head.last
        {
            return Taken::Broken;
        }
        let owner = ends.then_some(head.term);
        Taken::Entries { entries: entries.to_vec(), owner }
    }
}
