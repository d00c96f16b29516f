//! Reading a large body to send it: verified pieces in order, with one piece read ahead while another is sent.
//!
//! The event loop asks for a piece and gets the one read ahead, or a completion later. A failed read is final: the
//! response must be cut off, because its Content-Length is sent already. A download holds at most two pieces, and they
//! are smaller when there are many downloads, because a client that does not read occupies their memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::pool::Pool;
use super::problem::Problem;
use orcas_base::buffers::{Buffer, Buffers};

/// Bytes read at once: large enough that its costs hide behind the copying, small enough to stay in the cache.
const PIECE_MAX: u64 = 512 * 1024;
/// With less the costs of a piece are those of a request of its own.
const PIECE_MIN: u64 = 64 * 1024;
/// Pieces of a download that are in memory at once: the one that is being sent, and the next one.
const PIECES: u64 = 2;

/// Reads the next bytes, at least one and at most as many as it is told. Blocks; called on a worker.
pub type Source = Box<dyn FnMut(&mut Vec<u8>, usize) -> Result<(), Problem> + Send>;
/// Told once the piece asked for is there, on a worker.
pub type Deliver = Box<dyn FnOnce(Result<Buffer, Problem>) + Send>;

/// Memory that the downloads under way share.
pub struct Downloads {
    pool: Arc<Pool>,
    buffers: Arc<Buffers>,
    /// Bytes that they should take together.
    room: u64,
    open: AtomicU64,
}

impl Downloads {
    /// Downloads that are read by workers of `pool` into `buffers`.
    pub fn new(pool: Arc<Pool>, buffers: Arc<Buffers>, room: u64) -> Arc<Self> {
        Arc::new(Self { pool, buffers, room, open: AtomicU64::new(0) })
    }

    /// Bytes of a piece, a power of two.
    fn piece_max(&self) -> u64 {
        let share = self.room / (PIECES * self.open.load(Ordering::Relaxed).max(1));
        1 << share.clamp(PIECE_MIN, PIECE_MAX).ilog2()
    }
}

pub struct Download {
    shared: Arc<Downloads>,
    /// Bytes that the source gives in all.
    length: u64,
    /// Reading has failed: the response cannot be finished.
    broken: Arc<AtomicBool>,
    state: Mutex<DownloadState>,
}

struct DownloadState {
    /// Out while a worker reads, and for good after a failure.
    source: Option<Source>,
    unread: u64,
    ahead: Option<Result<Buffer, Problem>>,
    waiting: Option<Deliver>,
}

impl Download {
    /// Starts to read at once. `length` is at least 1.
    pub fn start(shared: &Arc<Downloads>, length: u64, source: Source) -> Arc<Self> {
        let state = DownloadState { source: Some(source), unread: length, ahead: None, waiting: None };
        shared.open.fetch_add(1, Ordering::Relaxed);
        let (shared, state) = (Arc::clone(shared), Mutex::new(state));
        let download = Arc::new(Self { shared, length, broken: Arc::default(), state });
        download.read_on(&mut download.state.lock());
        download
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    /// True as soon as reading has failed. For whoever counts the response; outlives the download.
    pub fn broken(&self) -> &Arc<AtomicBool> {
        &self.broken
    }

    /// The next piece, or `None` when `deliver` will get it. One call at a time.
    pub fn next(self: &Arc<Self>, deliver: Deliver) -> Option<Result<Buffer, Problem>> {
        let mut state = self.state.lock();
        let Some(piece) = state.ahead.take() else {
            state.waiting = Some(deliver);
            return None;
        };
        self.read_on(&mut state);
        Some(piece)
    }

    /// Queues the next read, if there is one to do.
    fn read_on(self: &Arc<Self>, state: &mut DownloadState) {
        if state.unread == 0 {
            return;
        }
        if let Some(source) = state.source.take() {
            let download = Arc::clone(self);
            self.shared.pool.spawn(move || download.read(source));
        }
    }

    /// Reads until one piece waits unasked for, or all is read.
    fn read(self: Arc<Self>, mut source: Source) {
        loop {
            let unread = self.state.lock().unread;
            let wanted = unread.min(self.shared.piece_max()) as usize;
            let mut piece = self.shared.buffers.take(wanted);
            let result = source(&mut piece, wanted);
            let mut state = self.state.lock();
            let length = piece.len() as u64;
            let result = match result {
                Ok(()) if length == 0 || length > state.unread => {
                    Err(Problem::internal("an object does not have the length that its record says"))
                }
                Ok(()) => Ok(piece),
                Err(problem) => Err(problem),
            };
            let failed = result.is_err();
            if failed {
                self.broken.store(true, Ordering::Relaxed);
            }
            state.unread = if failed { 0 } else { state.unread - length };
            let waiting = state.waiting.take();
            let done = state.unread == 0;
            match waiting {
                Some(deliver) => {
                    drop(state);
                    deliver(result);
                    if done {
                        return;
                    }
                }
                None => {
                    state.ahead = Some(result);
                    if !done {
                        state.source = Some(source);
                    }
                    return;
                }
            }
        }
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    fn source(content: Vec<u8>, step: usize) -> Source {
        let mut at = 0;
        Box::new(move |out, _| {
            if content[at] == b'!' {
                return Err(Problem::internal("damaged"));
            }
            let end = content.len().min(at + step);
            out.extend_from_slice(&content[at..end]);
            at = end;
            Ok(())
        })
    }

    fn collect(download: &Arc<Download>) -> Result<Vec<u8>, Problem> {
        let mut out = Vec::new();
        while (out.len() as u64) < download.length() {
            let (sender, receiver) = channel();
            let piece = download.next(Box::new(move |piece| sender.send(piece).unwrap()));
            let piece = piece.unwrap_or_else(|| receiver.recv_timeout(Duration::from_secs(10)).unwrap());
            out.extend_from_slice(&piece?);
        }
        Ok(out)
    }

    fn downloads(workers: usize, room: u64) -> Arc<Downloads> {
        Downloads::new(Arc::new(Pool::new(workers).unwrap()), Buffers::new(true), room)
    }

    #[test]
    fn pieces_come_in_order_and_complete() {
        let shared = downloads(2, 1 << 20);
        for step in [1, 7, 100, 1000] {
            let content: Vec<u8> = (0..1000u32).map(|n| 128 | n as u8).collect();
            let download = Download::start(&shared, 1000, source(content.clone(), step));
            assert_eq!(collect(&download).unwrap(), content);
        }
    }

    #[test]
    fn damage_and_wrong_lengths_end_it() {
        let shared = downloads(1, 1 << 20);
        let damaged = Download::start(&shared, 8, source(b"abcd!efg".to_vec(), 4));
        assert_eq!(collect(&damaged).unwrap_err().fault.as_deref(), Some("damaged"));
        let long = Download::start(&shared, 3, source(b"abcdefg".to_vec(), 4));
        assert!(collect(&long).is_err());
    }

    #[test]
    fn the_more_there_are_the_smaller_their_pieces() {
        let shared = downloads(1, 8 * PIECES * PIECE_MAX);
        let length = 4 * PIECE_MAX;
        let asked = Arc::new(Mutex::new(Vec::new()));
        let start = || {
            let asked = Arc::clone(&asked);
            let zeros: Source = Box::new(move |out, wanted| {
                asked.lock().push(wanted as u64);
                out.resize(wanted, 0);
                Ok(())
            });
            Download::start(&shared, length, zeros)
        };
        let mut open = Vec::new();
        for (more, wanted) in [(8, PIECE_MAX), (1, PIECE_MAX / 2), (8, PIECE_MAX / 4), (1_000, PIECE_MIN)] {
            open.extend((0..more).map(|_| start()));
            assert_eq!(shared.piece_max(), wanted, "{} downloads", open.len());
        }
        // What was begun goes on in small pieces, whole and in order.
        assert_eq!(collect(&open.swap_remove(0)).unwrap(), vec![0; length as usize]);
        assert_eq!(asked.lock().last(), Some(&PIECE_MIN));
        // One that waits in the pool's queue is open until a worker has seen it.
        shared.pool.close();
        drop(open);
        assert_eq!(shared.piece_max(), PIECE_MAX);
    }
}
