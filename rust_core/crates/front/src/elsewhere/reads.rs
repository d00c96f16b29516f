//! Reads that wait until this node shows what the owner of the log does.
//!
//! Invariants. A read takes part in a question that begins after the read came, and is answered when this node shows at
//! least what the owner did then, and nothing that no owner has shown. Must not know how an owner is asked, or how a log is
//! followed.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// For an answer, and then for this node to show as much. After it the owner answers the read.
pub const PATIENCE: Duration = Duration::from_millis(500);

/// What an owner shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    pub term: u64,
    /// The last record that it shows.
    pub sequence: u64,
    /// The next position of the log, and the id of the entry before it, read after `sequence`.
    pub position: u64,
    pub last: u128,
}

/// What this node is to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Index(Index),
    /// Everything that is in the log from now on, if no owner can answer with less afterwards. The number is that of the
    /// question.
    End(u64),
}

/// What this node shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    pub index: Option<Index>,
    /// The last record that an owner has shown, as far as this node knows.
    pub known: u64,
    /// The last `Wanted::End` that was tried, and whether it was reached.
    pub ended: (u64, bool),
}

/// Reads that wait, and what they wait for. One for all roles of a node.
#[derive(Default)]
pub struct Reads {
    rounds: Mutex<Rounds>,
    wanted: Mutex<Option<Wanted>>,
    arrived: Condvar,
    shown: watch::Sender<Shown>,
}

#[derive(Default)]
struct Rounds {
    /// Questions that were begun.
    begun: u64,
    is_running: bool,
    /// Reads that take part in the next one.
    waiting: Vec<oneshot::Sender<Told>>,
}

/// What a read that waits is told.
enum Told {
    /// This read asks, for all who wait.
    Ask(Turn),
    IsShown(bool),
}

/// What a front has to know of the log of its node.
#[derive(Clone)]
pub struct Cluster {
    pub reads: Arc<Reads>,
    /// Whether reads are answered here while another node owns the log.
    pub reads_here: bool,
    /// If this node owns the log: the term, the next position, and the id of the entry before it.
    pub end: Arc<dyn Fn() -> Option<(u64, u64, u128)> + Send + Sync>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Cluster")
    }
}

impl Shown {
    /// Whether this is what the owner shows, or nothing older; `None`: it may become that.
    fn has(&self, wanted: Wanted) -> Option<bool> {
        match wanted {
            Wanted::End(number) => (self.ended.0 >= number).then_some(self.ended.1),
            Wanted::Index(wanted) => {
                let Some(shown) = self.index else { return Some(false) };
                if shown.term > wanted.term {
                    return Some(false);
                }
                let has_all = shown.position >= wanted.position && shown.sequence >= wanted.sequence;
                let is_known = shown.sequence <= self.known.max(wanted.sequence);
                (has_all && is_known && shown.term == wanted.term).then_some(true)
            }
        }
    }
}

impl Reads {
    /// Waits until this node shows what the owner did after this was called. False: it cannot be told that it does.
    /// `ask`: finds out what that is, within some time; it is told the number of the question.
    pub async fn admit<A: Future<Output = Option<Wanted>>>(self: &Arc<Self>, ask: impl FnOnce(u64) -> A) -> bool {
        let waiting = {
            let mut rounds = self.rounds.lock();
            std::mem::replace(&mut rounds.is_running, true).then(|| {
                let (told, waiting) = oneshot::channel();
                rounds.waiting.push(told);
                waiting
            })
        };
        let _turn = match waiting {
            None => Turn(Some(Arc::clone(self))),
            Some(waiting) => match waiting.await {
                Ok(Told::Ask(turn)) => turn,
                Ok(Told::IsShown(is_shown)) => return is_shown,
                // Whoever asked has gone.
                Err(_) => return false,
            },
        };
        let (group, number) = {
            let mut rounds = self.rounds.lock();
            rounds.begun += 1;
            (std::mem::take(&mut rounds.waiting), rounds.begun)
        };
        let is_shown = match ask(number).await {
            Some(wanted) => self.reach(wanted).await,
            None => false,
        };
        for told in group {
            // Its client may have gone.
            let _ = told.send(Told::IsShown(is_shown));
        }
        is_shown
    }

    async fn reach(&self, wanted: Wanted) -> bool {
        let mut shown = self.shown.subscribe();
        if let Some(has) = shown.borrow_and_update().has(wanted) {
            return has;
        }
        *self.wanted.lock() = Some(wanted);
        self.arrived.notify_one();
        let reached = timeout(PATIENCE, shown.wait_for(|shown| shown.has(wanted).is_some())).await;
        matches!(reached, Ok(Ok(shown)) if shown.has(wanted) == Some(true))
    }

    /// What this node is to show next; `None` after some time, or after `wake`. Blocks.
    pub fn wait(&self, at_most: Duration) -> Option<Wanted> {
        let mut wanted = self.wanted.lock();
        if wanted.is_none() {
            self.arrived.wait_for(&mut wanted, at_most);
        }
        wanted.take()
    }

    /// Ends a wait.
    pub fn wake(&self) {
        let _order = self.wanted.lock();
        self.arrived.notify_one();
    }

    /// This node shows so much now.
    pub fn show(&self, shown: Shown) {
        self.shown.send_replace(shown);
    }
}

/// One question is under way as long as there is one of these. `None`: it has been given on.
struct Turn(Option<Arc<Reads>>);

impl Drop for Turn {
    /// Lets one of those who wait ask the next question.
    fn drop(&mut self) {
        let Some(reads) = self.0.take() else { return };
        loop {
            let next = {
                let mut rounds = reads.rounds.lock();
                let next = rounds.waiting.pop();
                rounds.is_running = next.is_some();
                next
            };
            let Some(next) = next else { return };
            // Clients that wait may have gone, thousands of them, so no turn ends in that of the next.
            if let Err(Told::Ask(mut turn)) = next.send(Told::Ask(Self(Some(Arc::clone(&reads))))) {
                turn.0 = None;
                continue;
            }
            return;
        }
    }
}
