//! Reading ahead in a log of objects: by a node that is far behind, several entries at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use orcas_shared_log::objects::{Call, Reply};
use orcas_shared_log::{Entry, Position};
use tokio::task::JoinHandle;

use super::Objects;
use crate::error::Fault;
use crate::format::OVERHEAD;

/// Entries that are asked for at a time.
const MOST: usize = 8;

/// As many bytes, if those that come are as large as the last one.
const BYTES: usize = 8 << 20;

/// Makes the calls of one node that reads. Only an entry that was found counts before its turn: that none is there says
/// nothing of later. A call for anything else than the next entry ends the reading ahead, so that a head which is read
/// after an entry is newer than it.
pub(crate) struct Reader {
    objects: Arc<Objects>,
    /// The positions behind that of the last call, in order.
    asked: VecDeque<(Position, JoinHandle<Option<Entry<Bytes>>>)>,
    /// How many entries were found one after the other.
    found: usize,
}

impl Reader {
    pub(crate) fn new(objects: Arc<Objects>) -> Self {
        Self { objects, asked: VecDeque::new(), found: 0 }
    }

    pub(crate) fn objects(&self) -> Arc<Objects> {
        Arc::clone(&self.objects)
    }

    pub(crate) async fn call(&mut self, call: &Call<Bytes>) -> Result<Reply<Bytes>, Fault> {
        let Call::ReadEntry(position) = *call else {
            self.forget();
            return self.objects.call(call).await;
        };
        if let Some(entry) = self.asked(position).await {
            self.ask_behind(position, &entry);
            return Ok(Reply::Entry(Some(entry)));
        }
        self.give_up();
        let reply = self.objects.call(call).await?;
        match &reply {
            Reply::Entry(Some(entry)) => self.ask_behind(position, entry),
            _ => self.found = 0,
        }
        Ok(reply)
    }

    /// The entry at this position, if it was asked for before and was there.
    async fn asked(&mut self, position: Position) -> Option<Entry<Bytes>> {
        let (_, task) = self.asked.front_mut().filter(|(at, _)| *at == position)?;
        let entry = task.await;
        self.asked.pop_front();
        entry.ok().flatten()
    }

    fn ask_behind(&mut self, position: Position, entry: &Entry<Bytes>) {
        // A node that is not behind finds an entry now and then, and then none.
        let width = self.found.min(MOST).min(BYTES / (entry.batch.as_ref().map_or(0, Bytes::len) + OVERHEAD));
        self.found += 1;
        let mut next = self.asked.back().map_or(position, |(last, _)| *last) + 1;
        while self.asked.len() < width {
            let objects = self.objects();
            let task = tokio::spawn(async move {
                match objects.call(&Call::ReadEntry(next)).await {
                    Ok(Reply::Entry(entry)) => entry,
                    _ => None,
                }
            });
            self.asked.push_back((next, task));
            next += 1;
        }
    }

    fn forget(&mut self) {
        self.found = 0;
        self.give_up();
    }

    /// What was asked for is not needed any more.
    fn give_up(&mut self) {
        self.asked.drain(..).for_each(|(_, task)| task.abort());
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.forget();
    }
}
