//! Bodies that are read from a socket, into memory that the stream lends.

use super::*;

/// Waits until the socket may be read on; false when the body is refused.
fn readable(stream: &BodyStream<Collect>) -> bool {
    loop {
        let (resumed, wait) = channel();
        match stream.ready(Box::new(move || resumed.send(()).unwrap_or(()))) {
            Flow::More => return true,
            Flow::Stop => return false,
            Flow::Wait => wait.recv_timeout(Duration::from_secs(10)).unwrap(),
        }
    }
}

/// Sends `pieces` as a socket that is read into what the stream lends, each in reads as long as there is room.
fn send_all(stream: &BodyStream<Collect>, pieces: &[Vec<u8>]) -> Result<Vec<u8>, &'static str> {
    let mut go_on = false;
    for piece in pieces {
        let mut left = &piece[..];
        while !left.is_empty() && (go_on || readable(stream)) {
            let room = stream.lend(piece.len() as u64).unwrap();
            let (now, later) = left.split_at(left.len().min(room.length()));
            go_on = stream.fill(Bytes::copy_from_slice(now), room.length());
            left = later;
        }
    }
    finish(stream)
}

#[test]
fn reads_of_every_size_arrive_in_order_and_the_budget_comes_back() {
    let (stream, budget) = stream(PIECE_MAX, None);
    let pieces: Vec<Vec<u8>> = (0..200u32).map(|n| vec![128 | n as u8; 1 + 1997 * n as usize]).collect();
    assert_eq!(send_all(&stream, &pieces).unwrap(), pieces.concat());
    assert!(comes_back(&budget, PIECE_MAX));
}

#[test]
fn what_is_lent_is_no_more_than_was_asked_for_and_what_reads_bring() {
    let (stream, _) = stream(10 * PIECE_MAX, None);
    assert!(stream.lend(0).is_none());
    assert_eq!(stream.lend(1000).unwrap().length(), 1000);
    stream.rest();
    assert_eq!(stream.lend(u64::MAX).unwrap().length(), BUFFER_MAX);
    for (read, next) in
        [(1, READ_MIN), (READ_MIN, 2 * READ_MIN), (READ_MIN + 1, 2 * READ_MIN), (2 * READ_MIN, 4 * READ_MIN)]
    {
        let lent = stream.lend(u64::MAX).unwrap().length();
        assert!(stream.fill(vec![b'x'; read].into(), lent));
        assert_eq!(stream.lend(u64::MAX).unwrap().length(), next);
    }
}

#[test]
fn a_sender_that_stalls_keeps_nothing_from_others() {
    let (stream, budget) = stream(PIECE_MAX, None);
    assert!(readable(&stream));
    assert!(budget.try_take(PIECE_MAX).is_some(), "nothing has come");
    let lent = stream.lend(u64::MAX).unwrap().length();
    assert!(stream.fill(vec![b'x'; lent].into(), lent));
    assert!(comes_back(&budget, PIECE_MAX), "what came is consumed");
    // A read was expected because the last one was full.
    assert!(stream.lend(u64::MAX).is_some());
    assert!(budget.try_take(PIECE_MAX).is_none());
    stream.rest();
    assert!(budget.try_take(PIECE_MAX).is_some());
}

#[test]
fn what_is_read_without_a_grant_waits_for_it_and_is_little() {
    let (stream, budget) = stream(PIECE_MAX, None);
    let all = budget.try_take(PIECE_MAX).unwrap();
    let lent = stream.lend(u64::MAX).unwrap().length();
    assert_eq!(lent, UNCOVERED_MAX);
    assert!(!stream.fill(vec![b'x'; lent].into(), lent));
    let (resumed, wait) = channel();
    assert_eq!(stream.ready(Box::new(move || resumed.send(()).unwrap())), Flow::Wait);
    assert!(wait.try_recv().is_err());
    drop(all);
    wait.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(stream.ready(Box::new(|| {})), Flow::More);
    assert!(comes_back(&budget, PIECE_MAX));
    let all = budget.try_take(PIECE_MAX).unwrap();
    let last = stream.lend(1000).unwrap().length();
    assert!(!stream.fill(vec![b'y'; last].into(), last));
    assert_eq!(finish(&stream).unwrap(), [vec![b'x'; lent], vec![b'y'; last]].concat());
    drop(all);
    assert!(comes_back(&budget, PIECE_MAX));
}

#[test]
fn a_body_refused_between_two_reads_stops_the_sender() {
    let (stream, budget) = stream(PIECE_MAX, None);
    let lent = stream.lend(u64::MAX).unwrap().length();
    stream.fill(b"!".to_vec().into(), lent);
    assert!(comes_back(&budget, PIECE_MAX));
    let room = stream.lend(u64::MAX).unwrap();
    assert!(!stream.fill(b"more".to_vec().into(), room.length()));
    assert_eq!(stream.ready(Box::new(|| {})), Flow::Stop);
    assert_eq!(stream.admit(Box::new(|| {})), Flow::Stop);
    assert_eq!(send_all(&stream, &[b"even more".to_vec()]), Err("refused"));
    assert!(comes_back(&budget, PIECE_MAX));
}

#[test]
fn a_slow_consumer_stops_the_reads_at_the_window() {
    let (open, gate) = channel();
    let (stream, budget) = stream(4 * STREAM_WINDOW, Some(gate));
    let mut read = 0;
    loop {
        let lent = stream.lend(u64::MAX).unwrap().length();
        read += lent as u64;
        if !stream.fill(vec![b'x'; lent].into(), lent) {
            break;
        }
    }
    // What the consumer has taken no longer waits.
    assert!((STREAM_WINDOW..STREAM_WINDOW + SINGLE_TURN + PIECE_MAX).contains(&read), "{read}");
    let (resumed, wait) = channel();
    assert_eq!(stream.ready(Box::new(move || resumed.send(()).unwrap())), Flow::Wait);
    for _ in 0..2 * STREAM_WINDOW / READ_MIN as u64 {
        open.send(()).unwrap();
    }
    wait.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(finish(&stream).unwrap().len() as u64, read);
    assert!(comes_back(&budget, 4 * STREAM_WINDOW));
}
