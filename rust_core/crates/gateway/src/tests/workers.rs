//! What waits for a worker, and how often.

use super::*;

/// The document is long enough to be checked on a worker, which is where the operation goes on as well.
#[test]
fn a_long_document_waits_for_a_worker_once() {
    let fixture = Fixture::new();
    fixture.call("PUT", "/bucket", &[], b"");
    let document = format!("<AbacStatus><Status>Disabled</Status>{}</AbacStatus>", " ".repeat(64 * 1024));
    let long = fixture.accept("PUT", "/bucket?abac", &[], document.as_bytes()).ok().unwrap();
    let short = fixture.accept("GET", "/bucket?lifecycle", &[], b"").ok().unwrap();
    // All workers are busy until one of them is released.
    let (busy, held) = std::sync::mpsc::channel();
    let mut holders: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (busy, (release, released)) = (busy.clone(), std::sync::mpsc::channel::<()>());
            fixture.gateway.services.pool.spawn(move || {
                busy.send(()).unwrap();
                let _ = released.recv();
            });
            release
        })
        .collect();
    (0..WORKERS).for_each(|_| held.recv().unwrap());
    long.body_read();
    assert!(Arc::clone(&long).start(fixture.gateway.services.bodies.buffers.copy(document.as_bytes()), 1).is_none());
    assert!(short.start(Bytes::new(), 2).is_none());
    drop(holders.pop());
    let mut slots = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(30);
    while slots.len() < 2 && Instant::now() < deadline {
        slots.extend(fixture.arrived.take().into_iter().map(|(slot, _)| slot));
        std::thread::yield_now();
    }
    assert_eq!(slots, [1, 2], "the first one is done before the second one begins");
}
