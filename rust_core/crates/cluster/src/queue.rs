//! What waits to be appended: one batch takes what many threads have brought, in their order.

use bytes::Bytes;
use std::collections::VecDeque;

use orcas_base::error::{Error, Result, StoreFault};
use parking_lot::{Condvar, Mutex};

use super::change::{Change, OVERHEAD};

/// Appends batches to the shared log, one after the other.
pub trait Appender: Send + Sync {
    /// Returns when the log has the batch. After an error the node does not own the log any more, and what has become of
    /// the batch, the log says. Blocking.
    ///
    /// # Errors
    /// Why not, for the operator.
    fn append(&self, batch: Bytes) -> Result<(), String>;
    /// In bytes.
    fn largest_batch(&self) -> usize;
}

/// The changes that wait. Whoever waits for one of them appends for all when nobody else does.
pub struct Queue {
    appender: Box<dyn Appender>,
    /// Most bytes that one change writes.
    piece: usize,
    state: Mutex<State>,
    appended: Condvar,
}

#[derive(Default)]
struct State {
    /// Encoded, oldest first.
    waiting: VecDeque<Vec<u8>>,
    /// How many changes came, and how many of them the log has.
    came: u64,
    done: u64,
    appending: bool,
    over: Option<Error>,
}

impl Queue {
    pub fn new(appender: Box<dyn Appender>) -> Self {
        let piece = appender.largest_batch().saturating_sub(OVERHEAD).max(1);
        Self { appender, piece, state: Mutex::default(), appended: Condvar::new() }
    }

    /// Adds changes, which the log has no later than what is added next. Returns what to wait for.
    pub fn add(&self, changes: impl IntoIterator<Item = Change>) -> u64 {
        let mut state = self.state.lock();
        for change in changes {
            for part in parts(change, self.piece) {
                let mut encoded = Vec::with_capacity(OVERHEAD);
                part.encode(&mut encoded);
                state.waiting.push_back(encoded);
                state.came += 1;
            }
        }
        state.came
    }

    /// Returns when the log has everything up to `ticket`. Blocking.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]: the node does not own the log any more.
    pub fn wait(&self, ticket: u64) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            if state.done >= ticket {
                return Ok(());
            }
            if let Some(error) = &state.over {
                return Err(error.clone());
            }
            if state.appending {
                self.appended.wait(&mut state);
                continue;
            }
            let (batch, count) = state.next_batch(self.appender.largest_batch());
            state.appending = true;
            drop(state);
            let appended = self.appender.append(batch);
            state = self.state.lock();
            state.appending = false;
            match appended {
                Ok(()) => state.done += count,
                Err(detail) => state.end(&detail),
            }
            self.appended.notify_all();
        }
    }

    /// Appends changes. Blocking.
    ///
    /// # Errors
    /// As of [`Queue::wait`].
    pub fn append(&self, changes: impl IntoIterator<Item = Change>) -> Result<()> {
        self.wait(self.add(changes))
    }

    /// Appends nothing more.
    pub fn end(&self, why: &str) {
        self.state.lock().end(why);
        self.appended.notify_all();
    }

    /// Why nothing is appended any more.
    pub fn over(&self) -> Option<Error> {
        self.state.lock().over.clone()
    }
}

impl State {
    fn end(&mut self, detail: &str) {
        let fault = StoreFault::new("this node does not own the log of the cluster any more", detail);
        self.over.get_or_insert(Error::ReadOnly { cause: fault });
        self.waiting.clear();
    }

    /// As many changes as one batch takes, and how many.
    fn next_batch(&mut self, limit: usize) -> (Bytes, u64) {
        let mut batch = Vec::new();
        let mut count = 0;
        while let Some(next) = self.waiting.front()
            && (batch.is_empty() || batch.len() + next.len() <= limit)
        {
            batch.append(&mut self.waiting.pop_front().unwrap_or_default());
            count += 1;
        }
        (batch.into(), count)
    }
}

/// A change as several, none of which writes more bytes than `piece`.
fn parts(change: Change, piece: usize) -> Vec<Change> {
    match change {
        Change::Write { name, offset, bytes } if bytes.len() > piece => (0..bytes.len())
            .step_by(piece)
            .map(|start| {
                let part = bytes.slice(start..bytes.len().min(start + piece));
                Change::Write { name: name.clone(), offset: offset + start as u64, bytes: part }
            })
            .collect(),
        change => vec![change],
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    /// A log in memory, which fails from a batch on.
    struct InMemory {
        batches: Arc<Mutex<Vec<Bytes>>>,
        fails_at: usize,
        limit: usize,
    }

    impl Appender for InMemory {
        fn append(&self, batch: Bytes) -> Result<(), String> {
            let mut batches = self.batches.lock();
            if batches.len() >= self.fails_at {
                return Err("it fails".to_owned());
            }
            batches.push(batch);
            Ok(())
        }

        fn largest_batch(&self) -> usize {
            self.limit
        }
    }

    fn queue(fails_at: usize, limit: usize) -> (Queue, Arc<Mutex<Vec<Bytes>>>) {
        let batches = Arc::new(Mutex::new(Vec::new()));
        (Queue::new(Box::new(InMemory { batches: Arc::clone(&batches), fails_at, limit })), batches)
    }

    fn write(offset: u64, length: usize) -> Change {
        Change::Write { name: "chunks/1.pack".to_owned(), offset, bytes: vec![offset as u8; length].into() }
    }

    #[test]
    fn changes_are_appended_in_their_order_and_in_pieces() {
        let limit = OVERHEAD + 100;
        let (queue, batches) = queue(usize::MAX, limit);
        queue.append([write(0, 250), write(250, 10), Change::Remove { name: "log/1.log".to_owned() }]).unwrap();
        let batches = batches.lock();
        assert!(batches.iter().all(|batch| batch.len() <= limit));
        let found: Vec<Change> = batches.iter().flat_map(|batch| Change::decode_all(batch).unwrap()).collect();
        let ends: Vec<u64> = found
            .iter()
            .filter_map(|change| match change {
                Change::Write { offset, bytes, .. } => Some(offset + bytes.len() as u64),
                _ => None,
            })
            .collect();
        assert_eq!(ends, [100, 200, 250, 260]);
        assert!(matches!(found.last(), Some(Change::Remove { .. })));
    }

    #[test]
    fn nothing_is_appended_after_an_error() {
        let (queue, batches) = queue(1, 1 << 20);
        queue.append([write(0, 1)]).unwrap();
        assert!(matches!(queue.append([write(1, 1)]), Err(Error::ReadOnly { .. })));
        assert!(queue.append([write(2, 1)]).is_err());
        assert_eq!(batches.lock().len(), 1);
        assert!(queue.over().is_some());
    }

    #[test]
    fn threads_that_wait_share_batches() {
        let (queue, batches) = queue(usize::MAX, 1 << 20);
        thread::scope(|scope| {
            for thread in 0..8 {
                let queue = &queue;
                scope.spawn(move || (0..100).for_each(|turn| queue.append([write(thread * 100 + turn, 1)]).unwrap()));
            }
        });
        let found: usize = batches.lock().iter().map(|batch| Change::decode_all(batch).unwrap().len()).sum();
        assert_eq!(found, 800);
    }
}
