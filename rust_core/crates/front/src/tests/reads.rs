//! Reads of a node that does not own the log. Its store has other objects than that of the owner, so answers tell who gave
//! them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::owner::follow;
use super::{Answer, Server, TIMEOUT};
use crate::{Cluster, Index, Owner, Reads, Shown, Wanted};

/// An owner and a node with the same keys, each with an object that the other lacks.
struct Pair {
    owner: Server,
    node: Server,
    reads: Arc<Reads>,
    /// The next position of the log.
    position: Arc<AtomicU64>,
}

const TERM: u64 = 3;

impl Pair {
    fn new() -> Self {
        Self::with_keys(true)
    }

    #[expect(clippy::disallowed_methods, reason = "the directory of another store")]
    fn with_keys(same: bool) -> Self {
        let position = Arc::new(AtomicU64::new(7));
        let end = Arc::clone(&position);
        let cluster = Cluster {
            reads: Arc::default(),
            reads_here: true,
            end: Arc::new(move || Some((TERM, end.load(Ordering::Relaxed), 9))),
        };
        let owner = Server::with(|options| options.cluster = Some(cluster));
        assert_eq!(owner.ask("PUT", "/bucket/k", "", &[], b"owner").status, 200);
        owner.front.serve_for(TIMEOUT);
        let directory = tempfile::tempdir().unwrap();
        if same {
            let name = "store.keys.copy";
            std::fs::copy(owner.directory.path().join(name), directory.path().join(name)).unwrap();
        }
        let reads = Arc::<Reads>::default();
        let cluster = Cluster { reads: Arc::clone(&reads), reads_here: true, end: Arc::new(|| None) };
        let node = Server::in_directory(directory, |options| options.cluster = Some(cluster));
        assert_eq!(node.ask("PUT", "/bucket/k", "", &[], b"node").status, 200);
        follow(&node, owner.listener.local_addr().unwrap());
        Self { owner, node, reads, position }
    }

    /// What the owner shows.
    fn index(&self) -> Index {
        let sequence = self.owner.gateway.engine.published_sequence();
        Index { term: TERM, sequence, position: self.position.load(Ordering::Relaxed), last: 9 }
    }

    fn show(&self, index: Index) {
        self.reads.show(Shown { index: Some(index), ..Shown::default() });
    }

    fn get(&self) -> Answer {
        self.node.ask("GET", "/bucket/k", "", &[], b"")
    }

    /// A read that somebody is asked for, the answer of whom is that of `then`.
    fn get_while(&self, then: impl FnOnce(Wanted)) -> Answer {
        std::thread::scope(|scope| {
            let read = scope.spawn(|| self.get());
            then(self.wanted());
            read.join().unwrap()
        })
    }

    fn wanted(&self) -> Wanted {
        self.reads.wait(TIMEOUT).unwrap()
    }

    fn count(&self) -> u64 {
        self.node.front.passed()[4].1
    }
}

#[test]
fn a_node_answers_what_it_shows_as_the_owner_does() {
    let pair = Pair::new();
    // It shows nothing yet.
    assert_eq!(pair.get().body, b"owner");
    pair.show(pair.index());
    assert_eq!(pair.get().body, b"node");
    assert_eq!(pair.node.ask("HEAD", "/bucket/k", "", &[], b"").status, 200);
    assert!(pair.node.ask("GET", "/bucket", "list-type=2", &[], b"").text().contains("<Size>4</Size>"));
    assert_eq!(pair.count(), 3);
    // What it refuses needs nobody else.
    assert_eq!(pair.node.ask("GET", "/bucket/absent", "", &[], b"").status, 404);
    let mut client = pair.node.connect();
    client.send(b"GET /bucket/k HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.read("GET").status, 403);
    assert_eq!(pair.count(), 5);
    // Writes do.
    assert_eq!(pair.node.ask("PUT", "/bucket/new", "", &[], b"new").status, 200);
    assert_eq!(pair.owner.ask("GET", "/bucket/new", "", &[], b"").body, b"new");
    // It does not show that yet, and nobody does anything about it.
    assert_eq!(pair.get().body, b"owner");
    assert_eq!(pair.count(), 5);
}

#[test]
fn a_read_waits_until_the_node_shows_what_the_owner_did() {
    let pair = Pair::new();
    pair.show(pair.index());
    pair.position.store(8, Ordering::Relaxed);
    let answer = pair.get_while(|wanted| {
        assert_eq!(wanted, Wanted::Index(pair.index()));
        pair.show(pair.index());
    });
    assert_eq!(answer.body, b"node");
    pair.owner.ask("PUT", "/bucket/other", "", &[], b"");
    let answer = pair.get_while(|wanted| {
        assert_eq!(wanted, Wanted::Index(pair.index()));
        pair.show(pair.index());
    });
    assert_eq!(answer.body, b"node");
}

#[test]
fn what_the_owner_may_not_show_yet_is_not_shown() {
    let pair = Pair::new();
    let index = pair.index();
    let ahead = Index { sequence: index.sequence + 1, ..index };
    pair.show(ahead);
    assert_eq!(pair.get().body, b"owner");
    // Another owner has shown it.
    pair.reads.show(Shown { index: Some(ahead), known: ahead.sequence, ..Shown::default() });
    assert_eq!(pair.get().body, b"node");
    for term in [TERM - 1, TERM + 1] {
        pair.show(Index { term, ..index });
        assert_eq!(pair.get().body, b"owner", "{term}");
    }
}

#[test]
fn a_read_takes_part_in_a_question_that_begins_after_it() {
    let pair = Pair::new();
    pair.show(Index { position: 6, ..pair.index() });
    std::thread::scope(|scope| {
        let first = scope.spawn(|| pair.get());
        let wanted = pair.wanted();
        assert_eq!(wanted, Wanted::Index(pair.index()));
        let earlier = pair.index();
        // It comes while the first question is under way.
        pair.position.store(8, Ordering::Relaxed);
        let second = scope.spawn(|| pair.get());
        while pair.node.front.under_way().requests < 2 {
            std::thread::yield_now();
        }
        pair.show(earlier);
        assert_eq!(first.join().unwrap().body, b"node");
        assert_eq!(pair.wanted(), Wanted::Index(pair.index()));
        pair.show(pair.index());
        assert_eq!(second.join().unwrap().body, b"node");
    });
}

#[test]
fn nodes_of_another_store_are_told_nothing_and_believed_nothing() {
    let pair = Pair::with_keys(false);
    pair.show(pair.index());
    // The application is asked for a path that it does not know.
    std::thread::scope(|scope| {
        let read = scope.spawn(|| pair.get());
        let mut stream = super::passing::accept(&pair.owner.application).unwrap();
        let head = super::owner::head_of(&mut stream);
        assert!(head.starts_with("GET /_orcas/cluster/shown HTTP/1.1\r\n"), "{head}");
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 404 Not Found\r\nContent-Length: 72\r\n\r\n").unwrap();
        std::io::Write::write_all(&mut stream, &[0; 72]).unwrap();
        assert_eq!(read.join().unwrap().body, b"owner");
    });
}

#[test]
fn an_owner_whose_time_is_over_says_nothing() {
    let pair = Pair::new();
    pair.show(pair.index());
    assert_eq!(pair.get().body, b"node");
    pair.owner.front.serve_for(Duration::ZERO);
    assert_eq!(pair.get().status, 503);
}

#[test]
fn without_an_answer_of_the_owner_the_log_is_read() {
    let pair = Pair::new();
    pair.show(pair.index());
    pair.owner.front.serve_for(Duration::ZERO);
    for is_shown in [true, false] {
        let answer = pair.get_while(|wanted| {
            let Wanted::End(number) = wanted else { panic!("{wanted:?}") };
            pair.reads.show(Shown { ended: (number, is_shown), ..Shown::default() });
        });
        assert_eq!(answer.status, if is_shown { 200 } else { 503 });
    }
    assert_eq!(pair.count(), 1);
    assert_eq!(pair.node.ask("PUT", "/bucket/k", "", &[], b"").status, 503);
}

#[test]
fn without_an_owner_everything_in_the_log_is_read() {
    let pair = Pair::new();
    pair.show(pair.index());
    pair.node.front.set_owner(Owner::Nobody).unwrap();
    for is_shown in [true, false] {
        let answer = pair.get_while(|wanted| {
            let Wanted::End(number) = wanted else { panic!("{wanted:?}") };
            pair.reads.show(Shown { ended: (number, is_shown), ..Shown::default() });
        });
        assert_eq!(answer.status, if is_shown { 200 } else { 503 });
    }
    assert_eq!(pair.node.ask("PUT", "/bucket/k", "", &[], b"").status, 503);
}
