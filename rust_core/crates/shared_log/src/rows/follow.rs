//! Reading the log up to its end, by any node.

use super::statement::{Answer, Kept, RowHead, Statement};
use crate::entry::{Cursor, Entry, NodeId};

/// Reads what a copy lacks. Rows may be visible that the standby does not have, and a database that was replaced may
/// still answer. So the node first learns from a commit where the log ends, and reads up to there. A copy that has
/// reached the end holds every entry that was acknowledged before the statement that looked was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Follow {
    cursor: Cursor,
    step: Step,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    Look,
    Read(RowHead),
    /// The rows do not continue the copy, unless a truncation explains it.
    LookAfterRead,
}

/// What a copy does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed<B> {
    /// Run the next statement.
    Continues,
    /// Apply these entries, then run the next statement.
    Entries(Vec<Entry<B>>),
    /// Apply these entries: the copy has everything then.
    End(Vec<Entry<B>>),
    /// The log begins behind the copy by now: load a snapshot.
    Truncated(RowHead),
    /// What the database holds does not continue the copy: stop, and say so.
    Broken,
}

impl Follow {
    pub fn new(cursor: Cursor) -> Self {
        Self { cursor, step: Step::Look }
    }

    /// Reads up to `end` before it looks: the owner has had these entries acknowledged. The last of them proves that it is
    /// they which are found. Whether it does; then the next end is none.
    pub fn read_to(&mut self, end: Cursor) -> bool {
        let reads = self.step == Step::Look && end.next > self.cursor.next;
        if reads {
            let (term, owner, kept) = (0, NodeId(0), Kept::default());
            self.step = Step::Read(RowHead { term, owner, next: end.next, last: end.last, kept });
        }
        reads
    }

    /// The statement to run next. After the end, the same again.
    pub fn statement<B>(&self) -> Statement<B> {
        match &self.step {
            Step::Look | Step::LookAfterRead => Statement::Look,
            Step::Read(head) => Statement::Read { from: self.cursor.next, to: head.next },
        }
    }

    pub fn answer<B: Clone>(&mut self, answer: &Answer<B>) -> Followed<B> {
        match (self.step.clone(), answer) {
            (Step::Look | Step::LookAfterRead, Answer::Changed(head)) if head.kept.floor > self.cursor.next => {
                return Followed::Truncated(head.clone());
            }
            (Step::LookAfterRead, Answer::Changed(_)) => return Followed::Broken,
            (Step::Look, Answer::Changed(head)) if head.next > self.cursor.next => {
                self.step = Step::Read(head.clone());
            }
            (Step::Look, Answer::Changed(head)) if head.ends(self.cursor) => {
                return Followed::End(Vec::new());
            }
            (Step::Look, Answer::Changed(_)) => return Followed::Broken,
            (Step::Read(head), Answer::Entries(entries)) => return self.pass(&head, entries),
            _ => {}
        }
        Followed::Continues
    }

    fn pass<B: Clone>(&mut self, head: &RowHead, entries: &[Entry<B>]) -> Followed<B> {
        let Some(cursor) = head.continues(self.cursor, entries) else {
            self.step = Step::LookAfterRead;
            return Followed::Continues;
        };
        self.cursor = cursor;
        if cursor.next < head.next {
            return Followed::Entries(entries.to_vec());
        }
        self.step = Step::Look;
        Followed::End(entries.to_vec())
    }
}
