//! A large body on its way out: verified pieces in order, one read ahead while the previous is being sent.
//!
//! The event loop asks for a piece; it gets the one that waits, or is told later. A failed read is final: the answer
//! must be cut off, since its length was promised. Holds at most two pieces.

use std::sync::Arc;

use parking_lot::Mutex;

use super::pool::Pool;
use super::problem::Problem;
use crate::buffers::{Buffer, Buffers};

/// Bytes read at once: large enough that its costs hide behind the copying, small enough to stay in the cache.
pub const PIECE_LEN: usize = 512 * 1024;

/// Reads the next bytes, at least one and at most `PIECE_LEN`. Blocks; called on a worker.
pub type Source = Box<dyn FnMut(&mut Vec<u8>) -> Result<(), Problem> + Send>;
/// Told once the piece asked for is there, on a worker.
pub type Deliver = Box<dyn FnOnce(Result<Buffer, Problem>) + Send>;

pub struct Download {
    pool: Arc<Pool>,
    buffers: Arc<Buffers>,
    /// Bytes that the source gives in all.
    length: u64,
    state: Mutex<State>,
}

struct State {
    /// Out while a worker reads, and for good after a failure.
    source: Option<Source>,
    unread: u64,
    ahead: Option<Result<Buffer, Problem>>,
    waiting: Option<Deliver>,
}

impl Download {
    /// Starts to read at once. `length` is at least 1.
    pub fn start(pool: Arc<Pool>, buffers: Arc<Buffers>, length: u64, source: Source) -> Arc<Self> {
        let state = State { source: Some(source), unread: length, ahead: None, waiting: None };
        let download = Arc::new(Self { pool, buffers, length, state: Mutex::new(state) });
        download.read_on(&mut download.state.lock());
        download
    }

    pub fn length(&self) -> u64 {
        self.length
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
    fn read_on(self: &Arc<Self>, state: &mut State) {
        if state.unread == 0 {
            return;
        }
        if let Some(source) = state.source.take() {
            let download = Arc::clone(self);
            self.pool.spawn(move || download.read(source));
        }
    }

    /// Reads until one piece waits unasked for, or all is read.
    fn read(self: Arc<Self>, mut source: Source) {
        loop {
            let unread = self.state.lock().unread;
            let mut piece = self.buffers.take(unread.min(PIECE_LEN as u64) as usize);
            let result = source(&mut piece);
            let mut state = self.state.lock();
            let length = piece.len() as u64;
            let result = match result {
                Ok(()) if length == 0 || length > state.unread => {
                    Err(Problem::internal("an object has not the length that its record says"))
                }
                Ok(()) => Ok(piece),
                Err(problem) => Err(problem),
            };
            let failed = result.is_err();
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    fn source(content: Vec<u8>, step: usize) -> Source {
        let mut at = 0;
        Box::new(move |out| {
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

    #[test]
    fn pieces_come_in_order_and_complete() {
        let pool = Arc::new(Pool::new(2).unwrap());
        for step in [1, 7, 100, 1000] {
            let content: Vec<u8> = (0..1000u32).map(|n| 128 | n as u8).collect();
            let download = Download::start(Arc::clone(&pool), Buffers::new(true), 1000, source(content.clone(), step));
            assert_eq!(collect(&download).unwrap(), content);
        }
    }

    #[test]
    fn damage_and_wrong_lengths_end_it() {
        let pool = Arc::new(Pool::new(1).unwrap());
        let damaged = Download::start(Arc::clone(&pool), Buffers::new(true), 8, source(b"abcd!efg".to_vec(), 4));
        assert_eq!(collect(&damaged).unwrap_err().fault.as_deref(), Some("damaged"));
        let long = Download::start(Arc::clone(&pool), Buffers::new(true), 3, source(b"abcdefg".to_vec(), 4));
        assert!(collect(&long).is_err());
    }
}
