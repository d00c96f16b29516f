//! Moving a prefix. The objects are looked up before the move is decided, so that other writes wait only for the
//! decision, which compares their sequences, and for its batch. Blocking.

use std::time::Duration;

use super::handle::Handle;
use orcas_base::error::{Error, Result};
use orcas_base::sync::atomic::{AtomicBool, Ordering};
use orcas_catalog::under_prefix;
use orcas_decide::{Failure, Intent, MovePrefix, Outcome, Refusal};

/// Times the objects are looked up again, because attributes of objects were changed meanwhile.
const ATTEMPTS_MAX: usize = 8;
/// Between two looks at whether the index has the objects of the last move.
const LOOK_AFTER: Duration = Duration::from_millis(5);

impl Handle {
    /// Returns how many objects were moved, and the bytes that they have together.
    ///
    /// # Errors
    /// As [`orcas_decide::decide`]; [`Refusal::MoveUnderWay`] while another prefix is being moved.
    pub fn move_prefix(&self, request: &MovePrefix) -> Result<(u64, u64), Failure> {
        let _turn = Turn::take(&self.shared.moving).ok_or(Refusal::MoveUnderWay)?;
        self.wait_for_last_move()?;
        for _ in 1..ATTEMPTS_MAX {
            match self.attempt(request) {
                Err(Failure::Refused(Refusal::SourceChanged)) => {}
                answer => return answer,
            }
        }
        self.attempt(request)
    }

    fn attempt(&self, request: &MovePrefix) -> Result<(u64, u64), Failure> {
        match self.execute(self.move_intent(request)?)? {
            Outcome::Moved { objects, bytes } => Ok((objects, bytes)),
            _ => Err(Error::Record { reason: "a move was answered with the outcome of another operation" }.into()),
        }
    }

    pub(super) fn move_intent(&self, request: &MovePrefix) -> Result<Intent> {
        Ok(Intent::MovePrefix(Box::new(request.clone()), under_prefix(&self.shared.catalog, request)?))
    }

    /// Writers do not wait until the index has the records of a move, so there may be only one.
    fn wait_for_last_move(&self) -> Result<()> {
        let applies = &self.shared.applies;
        while applies.has_bulk() {
            self.shared.faults.check_writable()?;
            applies.stuck().map_or(Ok(()), Err)?;
            applies.hurry();
            std::thread::sleep(LOOK_AFTER);
        }
        Ok(())
    }
}

/// The right to move a prefix, which only one caller has at a time.
struct Turn<'a>(&'a AtomicBool);

impl<'a> Turn<'a> {
    fn take(moving: &'a AtomicBool) -> Option<Self> {
        (!moving.swap(true, Ordering::AcqRel)).then_some(Self(moving))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
