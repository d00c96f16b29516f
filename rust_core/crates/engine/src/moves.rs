//! Moving a prefix. The objects are looked up before the move is decided, so that other writes wait only for the
//! decision, which compares their sequences, and for its batch. Blocking.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::handle::Handle;
use super::state::EngineState;
use orcas_base::error::{Error, Result};
use orcas_base::sync::atomic::{AtomicBool, Ordering};
use orcas_catalog::Current;
use orcas_decide::{Failure, Intent, MOVE_RECORDS_LEN_MAX, MovePrefix, Outcome, Refusal, UnderPrefix, record_len};
use orcas_record::{BucketId, Object};
use orcas_store::version_of;

/// Times the objects are looked up again, because attributes of objects were changed meanwhile.
const ATTEMPTS_MAX: usize = 8;
/// Objects looked up at a time.
const PAGE: usize = 1_000;
/// Between two looks at whether the index has the objects of the last move.
const LOOK_AFTER: Duration = Duration::from_millis(5);

impl Handle {
    /// Returns how many objects were moved, and the bytes that they have together.
    ///
    /// # Errors
    /// As [`orcas_decide::decide`]; [`Refusal::MoveUnderWay`] while another prefix is being moved.
    pub fn move_prefix(&self, request: &MovePrefix) -> Result<(u64, u64), Failure> {
        let _turn = Turn::take(&self.shared.moving).ok_or(Refusal::MoveUnderWay)?;
        self.shared.wait_for_last_move()?;
        for _ in 1..ATTEMPTS_MAX {
            match self.attempt(request) {
                Err(Failure::Refused(Refusal::SourceChanged)) => {}
                answer => return answer,
            }
        }
        self.attempt(request)
    }

    fn attempt(&self, request: &MovePrefix) -> Result<(u64, u64), Failure> {
        match self.execute(self.shared.move_intent(request)?)? {
            Outcome::Moved { objects, bytes } => Ok((objects, bytes)),
            _ => Err(Error::Record { reason: "a move was answered with the outcome of another operation" }.into()),
        }
    }
}

impl EngineState {
    /// Looks the objects up that are to be moved.
    pub fn move_intent(&self, request: &MovePrefix) -> Result<Intent> {
        // First: what is published after this is either seen by the lookup or counted.
        let updates = self.updates.load(Ordering::Acquire);
        let found = self.objects_under(request.from_bucket, &request.from_prefix, request.limit)?;
        Ok(Intent::MovePrefix(Box::new(request.clone()), UnderPrefix { found, updates }))
    }

    /// Writers do not wait until the index has the records of a move, so there may be only one.
    fn wait_for_last_move(&self) -> Result<()> {
        while self.applies.has_bulk() {
            self.faults.check_writable()?;
            self.applies.stuck().map_or(Ok(()), Err)?;
            self.applies.hurry();
            std::thread::sleep(LOOK_AFTER);
        }
        Ok(())
    }

    /// The objects of a bucket without versioning whose keys begin with `prefix`, by key, at most `limit`, and no more
    /// than one move takes. Those of which only the attributes have changed lately are left out.
    fn objects_under(&self, bucket: BucketId, prefix: &Bytes, limit: usize) -> Result<Vec<Arc<Object>>> {
        // The overlay first: what it loses meanwhile is in the index by then.
        let mut recent = self.recent_under(bucket, prefix).into_iter().peekable();
        let mut found = Vec::new();
        let mut from = Bound::Included(prefix.clone());
        let mut records_len = 0;
        loop {
            let page = self.catalog.index.read()?.objects(bucket, from.as_ref().map(|key| &key[..]), PAGE)?;
            let is_last = page.len() < PAGE;
            for stored in &page {
                let version = version_of(stored)?;
                records_len += record_len(&version);
                let is_enough = found.len() >= limit || records_len > MOVE_RECORDS_LEN_MAX;
                if !version.key.starts_with(prefix) || is_enough {
                    found.extend(recent.filter_map(|(_, object)| object));
                    return Ok(found);
                }
                while let Some((_, object)) = recent.next_if(|(key, _)| *key < version.key) {
                    found.extend(object);
                }
                from = Bound::Excluded(version.key.clone());
                match recent.next_if(|(key, _)| *key == version.key) {
                    Some((_, object)) => found.extend(object),
                    None => found.push(Arc::new(Object { sequence: stored.sequence, version })),
                }
            }
            if is_last {
                found.extend(recent.filter_map(|(_, object)| object));
                return Ok(found);
            }
        }
    }

    /// What the overlay says of these keys: the object, or that the index must not be believed.
    fn recent_under(&self, bucket: BucketId, prefix: &Bytes) -> BTreeMap<Bytes, Option<Arc<Object>>> {
        let overlay = self.catalog.overlay.read();
        let changes = overlay.range(bucket, Bound::Included(&prefix[..]));
        let changes = changes.take_while(|(key, _)| key.starts_with(prefix));
        let object = |current| match current {
            Current::Object(object) => Some(Arc::clone(object)),
            Current::None | Current::Below => None,
        };
        changes.map(|(key, changes)| (key.clone(), object(changes.current()))).collect()
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
