//! The thread `orcas-events`: follows the log until the queue is closed, and tries again after an error.

use std::time::Duration;

use super::super::state::EngineState;
use super::follower::Follower;
use orcas_base::error::Error;

/// Between two attempts after an error.
const AGAIN_AFTER: Duration = Duration::from_secs(2);
/// Between two looks if nothing happens: what was written is made durable.
const DIRTY_PAUSE: Duration = Duration::from_secs(5);
/// Segments become too old.
const IDLE_PAUSE: Duration = Duration::from_secs(60);

pub(crate) fn run(shared: &EngineState, mut follower: Follower) {
    let events = &shared.events;
    loop {
        let stepped = follower.step();
        match &stepped {
            Ok(()) => {
                if events.note_failure(None) {
                    tracing::info!("The event journal is written again, and has what it missed");
                }
            }
            Err(Error::Closed) => {}
            Err(error) => {
                if events.note_failure(Some(error.to_string().into())) {
                    tracing::warn!(%error, "The event journal cannot be written: events come later, from the log");
                }
            }
        }
        let open = match stepped {
            Ok(()) => events.wait(if follower.is_dirty() { DIRTY_PAUSE } else { IDLE_PAUSE }),
            Err(_) => events.sleep(AGAIN_AFTER),
        };
        if !open {
            // What came until the end.
            let _ = follower.step().inspect_err(
                |error| tracing::warn!(%error, "The event journal was closed behind the log: it follows at the next start"),
            );
            return;
        }
    }
}
