//! How long something is repeated, and with which pauses.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::error::{Error, Fault};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct Backoff {
    deadline: Instant,
    pause: Duration,
}

impl Backoff {
    pub(crate) fn new(deadline: Duration) -> Self {
        Self { deadline: Instant::now() + deadline, pause: FIRST_PAUSE }
    }

    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Waits before the next call, longer each time, or gives up.
    pub(crate) async fn wait(&mut self, reason: &str) -> Result<(), Error> {
        let left = self.left();
        if left.is_zero() {
            return Err(Error::Unknown(reason.to_owned()));
        }
        // Nodes that were refused together come back one after the other.
        let share = getrandom::u32().map_or(1.0, |random| 0.5 + f64::from(random) / f64::from(u32::MAX) / 2.0);
        sleep(self.pause.mul_f64(share).min(left)).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }

    /// The reply to a call, or `unknown` after a pause, for the machine to decide about.
    pub(crate) async fn reply<T>(&mut self, reply: Result<T, Fault>, unknown: T) -> Result<T, Error> {
        match reply {
            Ok(reply) => Ok(reply),
            Err(Fault::Stop(error)) => Err(error),
            Err(Fault::Unknown(reason) | Fault::Denied(reason)) => self.wait(&reason).await.map(|()| unknown),
        }
    }
}
