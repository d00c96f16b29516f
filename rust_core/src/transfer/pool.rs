//! A fixed set of threads for work that may block: cold reads, listings, hashing, chunk writes.
//!
//! The queue is unbounded because its callers are bounded: a request has at most one job, a body at most one, and both
//! hold a share of the memory budget or a connection. A job that panics ends alone; its thread goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, unbounded};
use parking_lot::Mutex;

type Job = Box<dyn FnOnce() + Send>;

/// Hashing a body keeps a core busy for as long as it arrives. At this niceness the event loop and the committer, which
/// run for microseconds at a time, do not wait for it.
#[cfg(target_os = "linux")]
const YIELDING_NICENESS: i32 = 10;

pub struct Pool {
    /// `None` once closed.
    sender: Mutex<Option<Sender<Job>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Pool {
    /// Starts `threads` (at least one) workers.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        Self::start(threads, "orcas-io", || {})
    }

    /// Workers that leave the processor to every other thread of this process.
    pub fn yielding(threads: usize) -> std::io::Result<Self> {
        Self::start(threads, "orcas-body", || {
            // Elsewhere niceness is the whole process's.
            #[cfg(target_os = "linux")]
            let _ = rustix::process::nice(YIELDING_NICENESS);
        })
    }

    fn start(threads: usize, name: &str, prepare: fn()) -> std::io::Result<Self> {
        let (sender, receiver) = unbounded::<Job>();
        let mut handles = Vec::new();
        for number in 0..threads.max(1) {
            let receiver = receiver.clone();
            let work = move || {
                prepare();
                while let Ok(job) = receiver.recv() {
                    // What the job owned is dropped while it unwinds; its reply then reports the failure.
                    let _ = catch_unwind(AssertUnwindSafe(job));
                }
            };
            handles.push(std::thread::Builder::new().name(format!("{name}-{number}")).spawn(work)?);
        }
        Ok(Self { sender: Mutex::new(Some(sender)), threads: Mutex::new(handles) })
    }

    /// Queues `job`; after `close` it is dropped unrun.
    pub fn spawn(&self, job: impl FnOnce() + Send + 'static) {
        let sender = self.sender.lock().clone();
        if let Some(sender) = sender {
            // Sending fails only when every worker is gone; then the job is dropped, as after `close`.
            let _ = sender.send(Box::new(job));
        }
    }

    /// Runs what is queued, then ends the threads. Must not be called from a job.
    pub fn close(&self) {
        self.sender.lock().take();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // A worker catches the panics of its jobs, so it cannot have panicked itself.
            let _ = thread.join();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_panicking_job_takes_no_thread_with_it() {
        let pool = Pool::new(1).unwrap();
        let (sender, receiver) = mpsc::channel();
        pool.spawn(|| panic!("expected by this test"));
        pool.spawn(move || sender.send(7).unwrap());
        assert_eq!(receiver.recv().unwrap(), 7);
    }

    #[test]
    fn close_runs_what_is_queued_and_drops_what_comes_later() {
        let pool = Pool::new(2).unwrap();
        let (sender, receiver) = mpsc::channel();
        for number in 0..100 {
            let sender = sender.clone();
            pool.spawn(move || sender.send(number).unwrap());
        }
        pool.close();
        pool.spawn(move || sender.send(1000).unwrap());
        let mut seen: Vec<i32> = receiver.iter().collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
    }
    #[cfg(target_os = "linux")]
    #[test]
    fn yielding_workers_are_nicer_than_their_process() {
        let niceness = || rustix::process::getpriority_process(None).unwrap();
        let (sender, receiver) = mpsc::channel();
        for pool in [Pool::new(1).unwrap(), Pool::yielding(1).unwrap()] {
            let sender = sender.clone();
            pool.spawn(move || sender.send(niceness()).unwrap());
        }
        let of_workers = [receiver.recv().unwrap(), receiver.recv().unwrap()];
        assert_eq!(of_workers, [niceness(), (niceness() + YIELDING_NICENESS).min(19)]);
    }
}
