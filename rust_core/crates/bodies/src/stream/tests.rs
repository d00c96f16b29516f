//! Bodies over a real pool, pieces by hand.

use super::*;
use crate::budget::Budget;
use crate::incoming::{BUFFER_MAX, BUFFER_MIN};
use crate::pool::Pool;
use crate::worker_group::SINGLE_TURN;
use bytes::Bytes;
use proptest::prelude::*;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::time::Duration;

/// Collects a body; refuses a piece with a `!`, panics at one with a `?`, and when a `%` is settled.
#[derive(Default)]
struct Collect {
    seen: Vec<u8>,
    unsettled: Vec<Bytes>,
    gate: Option<Receiver<()>>,
    /// Waits here before it tells its end.
    end_gate: Option<Receiver<()>>,
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

    fn consume(&mut self, piece: &Bytes, batched: bool) -> Result<(), Self::Error> {
        if let Some(gate) = &self.gate {
            gate.recv().unwrap();
        }
        assert!(!piece.contains(&b'?'), "expected by this test");
        if piece.contains(&b'!') {
            return Err("refused");
        }
        if batched {
            self.unsettled.push(piece.clone());
        } else {
            self.seen.extend_from_slice(piece);
        }
        Ok(())
    }

    fn settle(bodies: &mut [&mut Self]) {
        for body in bodies {
            let pieces = std::mem::take(&mut body.unsettled);
            assert!(!pieces.iter().any(|piece| piece.contains(&b'%')), "expected by this test");
            pieces.iter().for_each(|piece| body.seen.extend_from_slice(piece));
        }
    }

    fn finish(self: Box<Self>, reply: Told) {
        self.end_gate.iter().for_each(|gate| gate.recv().unwrap());
        reply.tell(if self.unsettled.is_empty() { Ok(self.seen) } else { Err("unsettled") });
    }

    fn refuse(error: Self::Error, reply: Told) {
        reply.tell(Err(error));
    }
}

fn group(workers: usize) -> Arc<WorkerGroup<Collect>> {
    WorkerGroup::new(Arc::new(Pool::new(2).unwrap()), workers)
}

fn stream_of(
    group: &Arc<WorkerGroup<Collect>>,
    budget: &Arc<Budget>,
    gate: Option<Receiver<()>>,
) -> BodyStream<Collect> {
    let consumer = Collect { gate, ..Collect::default() };
    BodyStream::new(Arc::clone(group), budget.client("one"), Buffers::new(true), None, consumer)
}

fn stream(budget: u64, gate: Option<Receiver<()>>) -> (BodyStream<Collect>, Arc<Budget>) {
    let budget = Budget::new(budget);
    (stream_of(&group(1), &budget, gate), budget)
}

/// Whether all of a budget is free, at once or a little later.
fn comes_back(budget: &Arc<Budget>, all: u64) -> bool {
    (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        budget.try_take(all).is_some()
    })
}

/// Waits for room for a piece; false when the body is refused.
fn admitted(stream: &BodyStream<Collect>) -> bool {
    loop {
        let (resumed, wait) = channel();
        match stream.admit(Box::new(move || resumed.send(()).unwrap_or(()))) {
            Flow::More => return true,
            Flow::Stop => return false,
            Flow::Wait => wait.recv_timeout(Duration::from_secs(10)).unwrap(),
        }
    }
}

/// Ends the body and returns what the reply was told.
fn finish(stream: &BodyStream<Collect>) -> Result<Vec<u8>, &'static str> {
    let (sender, receiver) = channel();
    stream.finish(Told(Some(sender)));
    receiver.recv_timeout(Duration::from_secs(10)).unwrap()
}

/// Sends `pieces` as the event loop would and returns what the reply was told.
fn send(stream: &BodyStream<Collect>, pieces: &[Vec<u8>]) -> Result<Vec<u8>, &'static str> {
    pieces.iter().filter(|_| admitted(stream)).for_each(|piece| stream.push(piece));
    finish(stream)
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

/// Pushes without asking whether there is room: for bodies under the window.
fn push_all(stream: &BodyStream<Collect>, pieces: &[&[u8]]) {
    for piece in pieces {
        assert_eq!(stream.admit(Box::new(|| ())), Flow::More);
        stream.push(piece);
    }
}

#[test]
fn a_long_body_lets_others_go_first() {
    let (open, gate) = channel();
    let (group, budget) = (group(1), Budget::new(1 << 30));
    let long = stream_of(&group, &budget, Some(gate));
    let piece = vec![b'x'; PIECE_MAX as usize];
    let pieces = 3 * SINGLE_TURN / PIECE_MAX;
    push_all(&long, &vec![piece.as_slice(); pieces as usize]);
    let other = stream_of(&group, &budget, None);
    let (told, receiver) = channel();
    push_all(&other, &[b"short"]);
    other.finish(Told(Some(told)));
    // Enough for one turn alone and one with another body, not for the whole body: the other must not need more.
    (0..SINGLE_TURN / PIECE_MAX + 2).for_each(|_| open.send(()).unwrap());
    assert_eq!(receiver.recv_timeout(Duration::from_secs(10)).unwrap(), Ok(b"short".to_vec()));
    (0..pieces).for_each(|_| open.send(()).unwrap());
    assert_eq!(send(&long, &[]).unwrap().len(), piece.len() * pieces as usize);
}

/// Bodies that wait behind a first one, so that one turn processes them together, and what their replies get.
fn batched(bodies: &[&[&[u8]]]) -> Vec<Result<Vec<u8>, &'static str>> {
    let (open, gate) = sync_channel(0);
    let (group, budget) = (group(1), Budget::new(1 << 30));
    let first = stream_of(&group, &budget, Some(gate));
    let long = vec![b'x'; BUFFER_MAX];
    push_all(&first, &[&long, b"x"]);
    // Now it has one piece, alone, and another one to come.
    open.send(()).unwrap();
    let streams: Vec<_> = bodies.iter().map(|_| stream_of(&group, &budget, None)).collect();
    let mut told = Vec::new();
    for (stream, pieces) in streams.iter().zip(bodies) {
        let (sender, receiver) = channel();
        push_all(stream, pieces);
        stream.finish(Told(Some(sender)));
        told.push(receiver);
    }
    open.send(()).unwrap();
    assert_eq!(send(&first, &[]).unwrap().len(), BUFFER_MAX + 1);
    let told = told.into_iter().map(|told| told.recv_timeout(Duration::from_secs(10)).unwrap()).collect();
    assert!(comes_back(&budget, 1 << 30));
    told
}

#[test]
fn bodies_of_one_turn_are_settled() {
    let told = batched(&[&[b"ab", b"c"], &[], &[b"d"]]);
    assert_eq!(told, [Ok(b"abc".to_vec()), Ok(Vec::new()), Ok(b"d".to_vec())]);
}

#[test]
fn a_body_fails_alone() {
    let told = batched(&[&[b"ab"], &[b"no!"], &[b"what?"], &[b"cd"]]);
    assert_eq!(told, [Ok(b"ab".to_vec()), Err("refused"), Err("dropped"), Ok(b"cd".to_vec())]);
}

#[test]
fn a_failure_to_settle_is_reported_to_all_bodies_of_the_turn() {
    assert_eq!(batched(&[&[b"ab"], &[b"c%d"]]), [Err("dropped"), Err("dropped")]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn whatever_the_others_do_a_body_arrives_whole(
        bodies in proptest::collection::vec(
            (proptest::collection::vec((any::<u8>(), 0..200_000usize), 0..12), 0..8u8), 1..24,
        ),
        workers in 1..4usize,
    ) {
        let (group, budget) = (group(workers), Budget::new(4 * PIECE_MAX));
        std::thread::scope(|scope| {
            for (pieces, fate) in bodies {
                let stream = stream_of(&group, &budget, None);
                scope.spawn(move || {
                    let mut pieces: Vec<Vec<u8>> =
                        pieces.iter().map(|(byte, length)| vec![byte | 128; *length]).collect();
                    match fate {
                        0 => {
                            pieces.push(b"!".to_vec());
                            assert_eq!(send(&stream, &pieces), Err("refused"));
                        }
                        1 => {
                            pieces.push(b"?".to_vec());
                            assert_eq!(send(&stream, &pieces), Err("dropped"));
                        }
                        2 => {
                            for piece in &pieces {
                                if stream.admit(Box::new(|| ())) == Flow::More {
                                    stream.push(piece);
                                }
                            }
                            stream.abort();
                        }
                        _ => assert_eq!(send(&stream, &pieces), Ok(pieces.concat())),
                    }
                });
            }
        });
        prop_assert!(comes_back(&budget, 4 * PIECE_MAX));
    }
}

/// A sender that asks again before it was resumed gets several grants, one of which is given back by the other.
#[test]
fn a_sender_that_asks_too_often_stops_nobody() {
    let (stream, budget) = stream(4 * PIECE_MAX, None);
    let held = ["a", "a", "b"].map(|name| budget.client(name).try_take(PIECE_MAX).unwrap());
    for _ in 0..3 {
        assert_eq!(stream.admit(Box::new(|| ())), Flow::Wait);
    }
    let (told, released) = channel();
    std::thread::spawn(move || {
        drop(held);
        told.send(()).unwrap();
    });
    released.recv_timeout(Duration::from_secs(10)).unwrap();
    stream.push(b"ab");
    assert_eq!(finish(&stream), Ok(b"ab".to_vec()));
    assert!(comes_back(&budget, 4 * PIECE_MAX));
}

/// Bodies whose senders left while they waited for memory pass it on.
#[test]
fn any_number_of_bodies_may_end_while_they_wait() {
    let (group, budget) = (group(1), Budget::new(PIECE_MAX));
    let held = budget.client("other").try_take(PIECE_MAX).unwrap();
    for _ in 0..100_000 {
        let stream = stream_of(&group, &budget, None);
        assert_eq!(stream.admit(Box::new(|| ())), Flow::Wait);
    }
    drop(held);
    assert!(comes_back(&budget, PIECE_MAX));
}

#[test]
fn a_body_that_comes_after_the_close_is_told() {
    let pool = Arc::new(Pool::new(2).unwrap());
    let (group, budget) = (WorkerGroup::new(Arc::clone(&pool), 1), Budget::new(PIECE_MAX));
    let early = stream_of(&group, &budget, None);
    push_all(&early, &[b"ab"]);
    pool.close();
    let (sender, told) = channel();
    early.finish(Told(Some(sender)));
    assert_eq!(told.recv_timeout(Duration::from_secs(10)).unwrap(), Err("dropped"));
    let late = stream_of(&group, &budget, None);
    push_all(&late, &[b"cd"]);
    assert_eq!(late.admit(Box::new(|| ())), Flow::Stop);
    assert!(comes_back(&budget, PIECE_MAX));
}

/// The ends of bodies run beside the workers, on other threads of their pool.
#[test]
fn an_end_that_waits_for_the_disk_holds_up_nobody() {
    let (open, gate) = channel();
    let pool = Arc::new(Pool::new(2).unwrap());
    let (group, budget) = (WorkerGroup::new(pool, 1), Budget::new(1 << 30));
    let slow = Collect { end_gate: Some(gate), ..Collect::default() };
    let slow = BodyStream::new(Arc::clone(&group), budget.client("one"), Buffers::new(true), None, slow);
    let (sender, slow_told) = channel();
    push_all(&slow, &[b"ab"]);
    slow.finish(Told(Some(sender)));
    let quick = stream_of(&group, &budget, None);
    let (sender, told) = channel();
    push_all(&quick, &[b"cd"]);
    // The end of this one needs the second thread as well: only its pieces need the group.
    assert!(comes_back(&budget, 1 << 30));
    quick.finish(Told(Some(sender)));
    open.send(()).unwrap();
    assert_eq!(slow_told.recv_timeout(Duration::from_secs(10)).unwrap(), Ok(b"ab".to_vec()));
    assert_eq!(told.recv_timeout(Duration::from_secs(10)).unwrap(), Ok(b"cd".to_vec()));
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
    assert!(comes_back(&budget, 3 * PIECE_MAX));
}

/// However pieces are cut, what waits for a worker takes no more than twice its bytes of memory, or two buffers
/// of the least size: one that the worker has, and one that is being filled.
#[test]
fn waiting_pieces_take_at_most_twice_their_bytes() {
    for piece in [1, 700, 5_000, 8_193, 33_000, 65_536, 66_000, 131_073, PIECE_MAX as usize] {
        let (open, gate) = channel();
        let (budget, buffers) = (Budget::new(1 << 30), Buffers::new(true));
        let consumer = Collect { gate: Some(gate), ..Collect::default() };
        let stream = BodyStream::new(group(1), budget.client("one"), Arc::clone(&buffers), None, consumer);
        let (content, mut sent) = (vec![b'x'; piece], 0);
        while sent < STREAM_WINDOW && sent < 2_000 * piece as u64 {
            assert_eq!(stream.admit(Box::new(|| ())), Flow::More);
            stream.push(&content);
            sent += piece as u64;
            // Both what waits and what the worker has taken have a buffer of the smallest size at least.
            let (out, most) = (buffers.counts().out_bytes, 2 * (sent + BUFFER_MIN as u64));
            assert!(out <= most, "{out} bytes of memory for {sent} in pieces of {piece}");
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

#[test]
fn pieces_larger_than_their_grant_do_not_stop_the_sender_for_ever() {
    let (open, gate) = channel();
    let (stream, budget) = stream(4 * STREAM_WINDOW, Some(gate));
    let opener = std::thread::spawn(move || {
        // The window is full by then.
        std::thread::sleep(Duration::from_millis(100));
        (0..1000).for_each(|_| open.send(()).unwrap_or(()));
    });
    let pieces = vec![vec![b'x'; PIECE_MAX as usize * 3]; 40];
    assert_eq!(send(&stream, &pieces).unwrap().len(), pieces.concat().len());
    opener.join().unwrap();
    assert!(comes_back(&budget, 4 * STREAM_WINDOW));
}
