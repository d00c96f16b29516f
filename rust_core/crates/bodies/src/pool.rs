//! A fixed set of threads for work that may block: cold reads, listings, hashing, chunk writes.
//!
//! The queue is unbounded because its callers are bounded: a request has at most one job, a body at most one, and both
//! hold a share of the memory budget or a connection. A job that panics ends alone; its thread goes on. Of the idle workers,
//! the one that worked last is woken: consecutive jobs, such as the pieces of a download, stay on one thread and profit
//! from its processor caches. A job that takes long runs in pieces, each of which queues the next one behind everything
//! else. So that they come to an end, every fourth job is one of those while any wait.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, MutexGuard};

pub type Job = Box<dyn FnOnce() + Send>;

/// Hashing a body keeps a core busy for as long as it arrives. At this niceness the event loop and the committer, which
/// run for microseconds at a time, do not wait for it.
#[cfg(target_os = "linux")]
const YIELDING_NICENESS: i32 = 10;

pub struct Pool {
    job_queue: Arc<JobQueue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

thread_local! {
    /// The queue whose jobs this thread runs.
    static WORKS_FOR: Cell<*const JobQueue> = const { Cell::new(ptr::null()) };
}

struct JobQueue {
    queue: Mutex<Queue>,
    /// A condition variable for each worker.
    wakers: Vec<Condvar>,
}

/// The number of jobs in a row of which one is a piece.
const PIECE_EVERY: u32 = 4;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Pieces of jobs that take long.
    pieces: VecDeque<Job>,
    /// Jobs since the last piece was due.
    taken: u32,
    /// Idle workers, the one that worked last at the end.
    resting: Vec<usize>,
    /// A worker was woken and has not looked at the queue yet. It wakes the next one before it begins a job, so no job
    /// waits for one that blocks, but the first worker has often done all short jobs before a second one arrives.
    waking: bool,
    closed: bool,
}

impl Pool {
    /// Starts `threads` (at least one) workers.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        Self::start(threads, "orcas-io", || {})
    }

    /// Workers of low priority: every other thread of this process gets the processor first.
    pub fn yielding(threads: usize) -> std::io::Result<Self> {
        Self::start(threads, "orcas-body", || {
            // On other systems niceness applies to the whole process.
            #[cfg(target_os = "linux")]
            let _ = rustix::process::nice(YIELDING_NICENESS);
        })
    }

    fn start(threads: usize, name: &str, prepare: fn()) -> std::io::Result<Self> {
        let wakers = (0..threads.max(1)).map(|_| Condvar::new()).collect();
        let job_queue = Arc::new(JobQueue { queue: Mutex::default(), wakers });
        let pool = Self { job_queue: Arc::clone(&job_queue), threads: Mutex::default() };
        for number in 0..job_queue.wakers.len() {
            let job_queue = Arc::clone(&job_queue);
            let work = move || {
                prepare();
                WORKS_FOR.set(Arc::as_ptr(&job_queue));
                job_queue.work(number);
            };
            // If one fails to start, dropping the pool ends those that did.
            pool.threads.lock().push(std::thread::Builder::new().name(format!("{name}-{number}")).spawn(work)?);
        }
        Ok(pool)
    }

    /// Whether the calling thread is one of these workers.
    pub fn runs_this_thread(&self) -> bool {
        WORKS_FOR.get() == Arc::as_ptr(&self.job_queue)
    }

    /// Queues `job`; after `close` it is dropped unrun.
    pub fn spawn(&self, job: impl FnOnce() + Send + 'static) {
        drop(self.try_spawn(Box::new(job)));
    }

    /// Queues `job`, or gives it back after `close`.
    pub fn try_spawn(&self, job: Job) -> Result<(), Job> {
        self.queue(job, |queue| &mut queue.jobs)
    }

    /// Queues a piece of a job that takes long. After `close`, and if it still waits then, it is dropped unrun.
    pub fn spawn_piece(&self, piece: impl FnOnce() + Send + 'static) {
        drop(self.queue(Box::new(piece), |queue| &mut queue.pieces));
    }

    fn queue(&self, job: Job, among: impl FnOnce(&mut Queue) -> &mut VecDeque<Job>) -> Result<(), Job> {
        let mut queue = self.job_queue.queue.lock();
        if queue.closed {
            return Err(job);
        }
        among(&mut queue).push_back(job);
        let woken = queue.worker_to_wake();
        drop(queue);
        self.job_queue.wake(woken);
        Ok(())
    }

    /// Runs what is queued, except pieces, then ends the threads. A job, which may own the pool last, does not wait for its own thread.
    pub fn close(&self) {
        let mut queue = self.job_queue.queue.lock();
        queue.closed = true;
        queue.resting.clear();
        let pieces = std::mem::take(&mut queue.pieces);
        drop(queue);
        drop(pieces);
        for waker in &self.job_queue.wakers {
            waker.notify_one();
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        let own = std::thread::current().id();
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != own) {
            // A worker catches the panics of its jobs, so it cannot have panicked itself.
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn next(&mut self) -> Option<Job> {
        self.taken = (self.taken + 1) % PIECE_EVERY;
        let piece = if self.taken == 0 { self.pieces.pop_front() } else { None };
        piece.or_else(|| self.jobs.pop_front()).or_else(|| self.pieces.pop_front())
    }

    /// An idle worker, if there is something for it and no other is waking up.
    fn worker_to_wake(&mut self) -> Option<usize> {
        if self.waking || self.jobs.is_empty() && self.pieces.is_empty() {
            return None;
        }
        let woken = self.resting.pop();
        self.waking = woken.is_some();
        woken
    }
}

impl JobQueue {
    fn wake(&self, worker: Option<usize>) {
        if let Some(number) = worker {
            self.wakers[number].notify_one();
        }
    }

    /// The loop of worker `number`, until the pool is closed and the queue is empty.
    fn work(&self, number: usize) {
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.next() {
                let woken = queue.worker_to_wake();
                MutexGuard::unlocked(&mut queue, || {
                    self.wake(woken);
                    // What the job owned is dropped while it unwinds; its reply then reports the failure.
                    drop(catch_unwind(AssertUnwindSafe(job)));
                });
            } else if queue.closed {
                return;
            } else {
                queue.resting.push(number);
                while queue.resting.contains(&number) {
                    self.wakers[number].wait(&mut queue);
                }
                queue.waking = false;
            }
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
    fn a_worker_knows_whose_it_is() {
        let (pool, other) = (Arc::new(Pool::new(1).unwrap()), Arc::new(Pool::new(1).unwrap()));
        let (sender, receiver) = mpsc::channel();
        let pools = (Arc::clone(&pool), Arc::clone(&other));
        pool.spawn(move || sender.send((pools.0.runs_this_thread(), pools.1.runs_this_thread())).unwrap());
        assert_eq!(receiver.recv().unwrap(), (true, false));
        assert!(!pool.runs_this_thread());
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

    #[test]
    fn pieces_wait_for_others_but_not_for_ever() {
        let pool = Arc::new(Pool::new(1).unwrap());
        let ((open, gate), (sender, receiver)) = (mpsc::channel::<()>(), mpsc::channel());
        let held = Arc::clone(&pool);
        pool.spawn(move || {
            gate.recv().unwrap();
            drop(held);
        });
        let tell = |number: u32| {
            let sender = sender.clone();
            move || sender.send(number).unwrap()
        };
        (0..2).for_each(|number| pool.spawn_piece(tell(100 + number)));
        (0..9).for_each(|number| pool.spawn(tell(number)));
        open.send(()).unwrap();
        let seen: Vec<u32> = receiver.iter().take(11).collect();
        let places: Vec<usize> = [100, 101].map(|piece| seen.iter().position(|it| *it == piece).unwrap()).to_vec();
        assert!(places[0] >= 1 && places[0] <= 3 && places[1] == places[0] + 4, "{seen:?}");
        // One that waits when the pool is closed never runs.
        let ((open, gate), queued) = (mpsc::channel::<()>(), tell(7));
        pool.spawn(move || gate.recv().unwrap());
        pool.spawn_piece(queued);
        let closing = Arc::clone(&pool);
        let closer = std::thread::spawn(move || closing.close());
        while !pool.job_queue.queue.lock().closed {
            std::thread::yield_now();
        }
        open.send(()).unwrap();
        closer.join().unwrap();
        drop(sender);
        assert_eq!(receiver.recv().ok(), None);
    }

    #[test]
    fn a_job_may_be_the_last_that_owns_its_pool() {
        let pool = Arc::new(Pool::new(2).unwrap());
        let ((open, gate), (sender, receiver)) = (mpsc::channel(), mpsc::channel());
        let owner = Arc::clone(&pool);
        let told = sender.clone();
        pool.spawn(move || {
            gate.recv().unwrap();
            drop(owner);
            told.send("closed").unwrap();
        });
        pool.spawn(move || sender.send("ran").unwrap());
        drop(pool);
        assert_eq!(receiver.recv().unwrap(), "ran");
        open.send(()).unwrap();
        assert_eq!(receiver.recv().unwrap(), "closed");
    }

    #[test]
    fn jobs_in_a_row_stay_on_one_thread_and_jobs_at_once_do_not() {
        let pool = Pool::new(4).unwrap();
        let (sender, receiver) = mpsc::channel();
        let mut threads = std::collections::HashSet::new();
        let all_rest = || {
            while pool.job_queue.queue.lock().resting.len() < 4 {
                std::thread::yield_now();
            }
        };
        all_rest();
        for _ in 0..50 {
            let sender = sender.clone();
            pool.spawn(move || sender.send(std::thread::current().id()).unwrap());
            threads.insert(receiver.recv().unwrap());
            all_rest();
        }
        assert_eq!(threads.len(), 1);
        let barrier = Arc::new(std::sync::Barrier::new(4));
        for _ in 0..4 {
            let (sender, barrier) = (sender.clone(), Arc::clone(&barrier));
            pool.spawn(move || {
                barrier.wait();
                sender.send(std::thread::current().id()).unwrap();
            });
        }
        let threads: std::collections::HashSet<_> = (0..4).map(|_| receiver.recv().unwrap()).collect();
        assert_eq!(threads.len(), 4);
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
