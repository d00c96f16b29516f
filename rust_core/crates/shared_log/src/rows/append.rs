//! Appends one entry at the end of the log, by its owner.

use super::statement::{Answer, Statement};
use crate::entry::{Appended, Entry, Position};

/// Appends one batch. The next one begins when this one is done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Append<B> {
    position: Position,
    entry: Entry<B>,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Append,
    /// An earlier statement may have been committed.
    Confirm,
    /// The row is not there, or was not when the statement ran.
    ReadHead,
}

impl<B: Clone> Append<B> {
    /// `position` is that of the head when the last append of this owner was done.
    pub fn new(position: Position, entry: Entry<B>) -> Self {
        Self { position, entry, step: Step::Append }
    }

    pub fn entry(&self) -> &Entry<B> {
        &self.entry
    }

    /// The statement to run next.
    pub fn statement(&self) -> Statement<B> {
        match self.step {
            Step::Append => Statement::Append { position: self.position, entry: self.entry.clone() },
            Step::Confirm => Statement::Confirm { position: self.position, id: self.entry.id },
            Step::ReadHead => Statement::ReadHead,
        }
    }

    /// The result; `None` while another statement is needed.
    pub fn answer(&mut self, answer: &Answer<B>) -> Option<Appended> {
        self.step = match (self.step, answer) {
            (Step::Append | Step::Confirm, Answer::Changed(_)) => return Some(Appended::Durable),
            (Step::Append, _) => Step::Confirm,
            (Step::Confirm, Answer::Unchanged) => Step::ReadHead,
            (Step::ReadHead, Answer::Head(head)) if head.term > self.entry.term => {
                return Some(Appended::Fenced(head.term));
            }
            (Step::ReadHead, Answer::Head(_)) => Step::Append,
            (step, _) => step,
        };
        None
    }
}
