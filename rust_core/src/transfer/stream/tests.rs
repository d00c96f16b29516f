//! Bodies over a real pool, pieces by hand.

use super::*;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Collects a body; refuses a piece with a `!`, panics at one with a `?`.
struct Collect {
    seen: Vec<u8>,
    gate: Option<std::sync::mpsc::Receiver<()>>,
}

struct Told(Option<Sender<Result<Vec<u8>, &'static str>>>);

impl Told {
    fn tell(mut self, result: Result<Vec<u8>, &'static str>) {
        if let Some(sender) = self.0.take() {
            sender.send(result).unwrap();
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(sender) = self.0.take() {
            let _ = sender.send(Err("dropped"));
        }
    }
}

impl Consumer for Collect {
    type Error = &'static str;
    type Reply = Told;

    fn consume(&mut self, piece: &[u8]) -> Result<(), Self::Error> {
        if let Some(gate) = &self.gate {
            gate.recv().unwrap();
        }
        assert!(!piece.contains(&b'?'), "expected by this test");
        if piece.contains(&b'!') {
            return Err("refused");
        }
        self.seen.extend_from_slice(piece);
        Ok(())
    }

    fn finish(self: Box<Self>, reply: Told) {
        reply.tell(Ok(self.seen));
    }

    fn refuse(error: Self::Error, reply: Told) {
        reply.tell(Err(error));
    }
}

fn stream(budget: u64, gate: Option<std::sync::mpsc::Receiver<()>>) -> (BodyStream<Collect>, Arc<Budget>) {
    let budget = Budget::new(budget);
    let pool = Arc::new(Pool::new(2).unwrap());
    let consumer = Collect { seen: Vec::new(), gate };
    (BodyStream::new(pool, Arc::clone(&budget), Buffers::new(true), None, consumer), budget)
}

/// Sends `pieces` as the event loop would and returns what the reply was told.
fn send(stream: &BodyStream<Collect>, pieces: &[Vec<u8>]) -> Result<Vec<u8>, &'static str> {
    for piece in pieces {
        loop {
            let (resumed, wait) = channel();
            match stream.admit(Box::new(move || resumed.send(()).unwrap_or(()))) {
                Flow::More => break stream.push(piece),
                Flow::Stop => break,
                Flow::Wait => wait.recv_timeout(Duration::from_secs(10)).unwrap(),
            }
        }
    }
    let (sender, receiver) = channel();
    stream.finish(Told(Some(sender)));
    receiver.recv_timeout(Duration::from_secs(10)).unwrap()
}

#[test]
fn pieces_arrive_in_order_and_the_budget_comes_back() {
    let (stream, budget) = stream(PIECE_MAX, None);
    let pieces: Vec<Vec<u8>> = (0..200u32).map(|n| vec![128 | n as u8; 1 + 997 * n as usize]).collect();
    assert_eq!(send(&stream, &pieces).unwrap(), pieces.concat());
    assert!(budget.try_take(PIECE_MAX).is_some());
}

#[test]
fn a_slow_consumer_stops_the_sender_at_the_window() {
    let (open, gate) = channel();
    let (stream, _) = stream(1 << 30, Some(gate));
    let piece = vec![b'x'; PIECE_MAX as usize];
    let (resumed, wait) = channel();
    let mut sent = 0;
    loop {
        let resumed = resumed.clone();
        match stream.admit(Box::new(move || resumed.send(()).unwrap())) {
            Flow::More => stream.push(&piece),
            Flow::Wait => break,
            Flow::Stop => panic!("nothing was refused"),
        }
        sent += 1;
    }
    assert!(sent as u64 * PIECE_MAX <= STREAM_WINDOW + 2 * PIECE_MAX, "{sent} pieces");
    assert!(wait.try_recv().is_err());
    (0..sent).for_each(|_| open.send(()).unwrap());
    wait.recv_timeout(Duration::from_secs(10)).unwrap();
}

#[test]
fn a_long_body_lets_other_work_go_first() {
    let (open, gate) = channel();
    let (budget, pool) = (Budget::new(1 << 30), Arc::new(Pool::new(1).unwrap()));
    let consumer = Collect { seen: Vec::new(), gate: Some(gate) };
    let stream = BodyStream::new(Arc::clone(&pool), budget, Buffers::new(true), None, consumer);
    let piece = vec![b'x'; PIECE_MAX as usize];
    let pieces = 3 * TURN / PIECE_MAX;
    for _ in 0..pieces {
        assert_eq!(stream.admit(Box::new(|| ())), Flow::More);
        stream.push(&piece);
    }
    let (told, other) = channel();
    pool.spawn(move || told.send(()).unwrap());
    // Enough for one turn, not for the whole body: the other job must not need more.
    (0..=TURN / PIECE_MAX).for_each(|_| open.send(()).unwrap());
    other.recv_timeout(Duration::from_secs(10)).unwrap();
    (0..pieces).for_each(|_| open.send(()).unwrap());
    assert_eq!(send(&stream, &[]).unwrap().len(), piece.len() * pieces as usize);
}

#[test]
fn a_refused_body_stops_the_sender_and_answers_once() {
    let (stream, budget) = stream(PIECE_MAX, None);
    let pieces: Vec<Vec<u8>> = std::iter::repeat_n(b"!no".to_vec(), 50).collect();
    assert_eq!(send(&stream, &pieces), Err("refused"));
    assert!(budget.try_take(PIECE_MAX).is_some());
    assert_eq!(stream.admit(Box::new(|| ())), Flow::Stop);
}

#[test]
fn a_panicking_consumer_still_answers() {
    let (stream, budget) = stream(PIECE_MAX, None);
    assert_eq!(send(&stream, &[b"ab".to_vec(), b"?".to_vec(), b"cd".to_vec()]), Err("dropped"));
    assert!(budget.try_take(PIECE_MAX).is_some());
}

#[test]
fn an_aborted_body_gives_everything_back_and_resumes_its_waiter() {
    let (open, gate) = channel();
    let (stream, budget) = stream(3 * PIECE_MAX, Some(gate));
    let (resumed, wait) = channel();
    loop {
        let resumed = resumed.clone();
        match stream.admit(Box::new(move || resumed.send(()).unwrap())) {
            Flow::More => stream.push(&vec![b'x'; PIECE_MAX as usize]),
            _ => break,
        }
    }
    stream.abort();
    // Fails when the worker had not begun: then its consumer is gone already.
    let _ = open.send(());
    wait.recv_timeout(Duration::from_secs(10)).unwrap();
    drop(stream);
    for _ in 0..1000 {
        if budget.try_take(3 * PIECE_MAX).is_some() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the budget did not come back");
}

/// However pieces are cut, what waits for a worker takes no more than twice its bytes of memory, or two buffers
/// of the least size: one that the worker has, and one that is being filled.
#[test]
fn waiting_pieces_take_at_most_twice_their_bytes() {
    for piece in [1, 700, 5_000, 8_193, 33_000, 65_536, 66_000, 131_073, PIECE_MAX as usize] {
        let (open, gate) = channel();
        let (budget, buffers) = (Budget::new(1 << 30), Buffers::new(true));
        let consumer = Collect { seen: Vec::new(), gate: Some(gate) };
        let pool = Arc::new(Pool::new(1).unwrap());
        let stream = BodyStream::new(pool, budget, Arc::clone(&buffers), None, consumer);
        let (content, mut sent) = (vec![b'x'; piece], 0);
        while sent < STREAM_WINDOW && sent < 2_000 * piece as u64 {
            assert_eq!(stream.admit(Box::new(|| ())), Flow::More);
            stream.push(&content);
            sent += piece as u64;
            let out = buffers.counts().out_bytes;
            assert!(out <= 2 * sent.max(BUFFER_MIN as u64), "{out} bytes of memory for {sent} in pieces of {piece}");
        }
        stream.abort();
        // Fails when the worker had not begun: then its consumer is gone already.
        let _ = open.send(());
        drop(stream);
        for _ in 0..1000 {
            if buffers.counts().out_bytes == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(buffers.counts().out_bytes, 0);
    }
}
