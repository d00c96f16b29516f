//! Completions of the gateway, by the number of a slot, for the requests of one runtime thread that wait for them.
//!
//! Other threads only push into a queue and wake the task that distributes it, once for a burst. That task runs on the
//! thread of the requests, so that waking them costs no system call. The slot of a request that has gone stays taken until
//! its completion has arrived, so that no completion can reach another request.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use orcas_gateway::{Completion, Responder};

#[derive(Default)]
pub struct Waits {
    arrived: Mutex<Arrived>,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Arrived {
    queue: Vec<(u32, Completion)>,
    /// The waker of the task that distributes, while it sleeps.
    distributor: Option<Waker>,
}

#[derive(Default)]
struct Slots {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

enum Entry {
    Free,
    /// Taken; nobody waits yet.
    Taken,
    Waiting(Waker),
    Done(Completion),
    /// The request that waited has gone.
    Abandoned,
}

impl Responder for Waits {
    fn complete_quietly(&self, slot: u32, completion: Completion) -> bool {
        let mut arrived = self.arrived.lock();
        arrived.queue.push((slot, completion));
        arrived.queue.len() == 1
    }

    fn wake(&self) {
        let sleeper = self.arrived.lock().distributor.take();
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }
}

impl Waits {
    /// Distributes what arrives. Never ends.
    pub async fn distribute(self: Arc<Self>) {
        let mut taken = Vec::new();
        loop {
            std::future::poll_fn(|context| {
                let mut arrived = self.arrived.lock();
                if arrived.queue.is_empty() {
                    arrived.distributor = Some(context.waker().clone());
                    return Poll::Pending;
                }
                std::mem::swap(&mut arrived.queue, &mut taken);
                Poll::Ready(())
            })
            .await;
            for (slot, completion) in taken.drain(..) {
                self.arrive(slot, completion);
            }
        }
    }

    fn arrive(&self, slot: u32, completion: Completion) {
        let mut slots = self.slots.lock();
        let entry = &mut slots.entries[slot as usize];
        match std::mem::replace(entry, Entry::Done(completion)) {
            Entry::Waiting(waiting) => {
                drop(slots);
                waiting.wake();
            }
            Entry::Abandoned => {
                let unwanted = std::mem::replace(entry, Entry::Free);
                slots.free.push(slot);
                drop(slots);
                // Not under the lock: this may free an object that is sent to nobody.
                drop(unwanted);
            }
            Entry::Taken | Entry::Free | Entry::Done(_) => {}
        }
    }

    pub fn slot(self: &Arc<Self>) -> Slot {
        let mut slots = self.slots.lock();
        let number = slots.free.pop().unwrap_or_else(|| {
            slots.entries.push(Entry::Free);
            u32::try_from(slots.entries.len() - 1).unwrap_or(u32::MAX)
        });
        slots.entries[number as usize] = Entry::Taken;
        Slot { waits: Arc::clone(self), number, abandoned: false }
    }
}

/// A slot for one completion. It is free again when this is dropped before it is waited for.
pub struct Slot {
    waits: Arc<Waits>,
    number: u32,
    /// Nobody waits any more: the completion frees the slot.
    abandoned: bool,
}

impl Slot {
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Waits for the completion, which is on its way.
    pub fn wait(self) -> Wait {
        Wait { slot: Some(self) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.abandoned {
            let mut slots = self.waits.slots.lock();
            slots.entries[self.number as usize] = Entry::Free;
            slots.free.push(self.number);
        }
    }
}

pub struct Wait {
    /// The slot; `None` once the completion is there.
    slot: Option<Slot>,
}

impl Future for Wait {
    type Output = Completion;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Completion> {
        let Some(slot) = &self.slot else { return Poll::Pending };
        let mut slots = slot.waits.slots.lock();
        let entry = &mut slots.entries[slot.number as usize];
        match std::mem::replace(entry, Entry::Taken) {
            Entry::Done(completion) => {
                drop(slots);
                self.slot = None;
                Poll::Ready(completion)
            }
            _ => {
                *entry = Entry::Waiting(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let Some(slot) = &mut self.slot else { return };
        let mut slots = slot.waits.slots.lock();
        let was = std::mem::replace(&mut slots.entries[slot.number as usize], Entry::Abandoned);
        slot.abandoned = !matches!(was, Entry::Done(_));
        // Not under the lock: it may free an object.
        drop(slots);
        drop(was);
    }
}
