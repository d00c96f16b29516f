//! The receiver of the answer to an intent, and how it is given.

use std::sync::Arc;

use super::round::RoundTimes;
use orcas_base::error::Error;
use orcas_base::sync::{Receiver, Sender, bounded};
use orcas_decide::{Failure, Outcome};

/// Takes the answers of submitted intents. Called from the committer's thread: it must not block.
pub trait CompletionSink: Send + Sync {
    fn complete(&self, token: u64, result: Result<Outcome, Failure>);

    /// As `complete`, when more answers of the same round follow at once. True if the receiver sleeps until `wake` is
    /// called.
    fn complete_quietly(&self, token: u64, result: Result<Outcome, Failure>, _round: &RoundTimes) -> bool {
        self.complete(token, result);
        false
    }

    fn wake(&self) {}
}

/// The receiver of the answer to an intent, which comes when the intent is decided and as durable as it has to be. It
/// gets exactly one answer: a waiter that is dropped without one reports that the store is closed.
pub struct Waiter {
    /// The sink; `None` once completed.
    sink: Option<Arc<dyn CompletionSink>>,
    token: u64,
}

impl Waiter {
    pub fn new(sink: Arc<dyn CompletionSink>, token: u64) -> Self {
        Self { sink: Some(sink), token }
    }

    pub(crate) fn complete(mut self, result: Result<Outcome, Failure>) {
        if let Some(sink) = self.sink.take() {
            sink.complete(self.token, result);
        }
    }

    /// As `complete`, when more answers follow at once. Who must be woken after the last of them.
    pub(crate) fn complete_quietly(
        mut self,
        result: Result<Outcome, Failure>,
        round: &RoundTimes,
    ) -> Option<Arc<dyn CompletionSink>> {
        let sink = self.sink.take()?;
        sink.complete_quietly(self.token, result, round).then_some(sink)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(sink) = self.sink.take() {
            sink.complete(self.token, Err(Failure::Engine(Error::Closed)));
        }
    }
}

/// Hands one answer to a waiting thread.
pub(crate) struct ChannelSink {
    answer: Sender<Result<Outcome, Failure>>,
}

impl ChannelSink {
    pub fn pair() -> (Arc<dyn CompletionSink>, Receiver<Result<Outcome, Failure>>) {
        let (answer, receiver) = bounded(1);
        (Arc::new(Self { answer }), receiver)
    }
}

impl CompletionSink for ChannelSink {
    fn complete(&self, _token: u64, result: Result<Outcome, Failure>) {
        // The caller waits on the other end for as long as this exists.
        let _ = self.answer.send(result);
    }
}
