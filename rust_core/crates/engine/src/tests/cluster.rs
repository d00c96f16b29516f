//! Nodes of a cluster: what the owner's engine does to its files goes to a log, and other nodes do the same to theirs. Each
//! shows what was acknowledged, and goes on as the owner when that one is gone.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::{Environment, Standby};
use orcas_cluster::{Appender, Applied, Copy, Queue, SharedFiles};
use orcas_fs::GivenUp;
use orcas_fs::real::RealFileSystem;
use orcas_fs_testing::SimRng;
use orcas_record::{Bucket, Durability};

use super::standby::{change, shown};
use super::support::{Store, environment};

/// A shared log in memory.
#[derive(Default)]
struct Log {
    batches: Mutex<Vec<Bytes>>,
    /// Every appender gets a term. One of an older term is refused.
    term: Mutex<u64>,
}

struct Owner {
    log: Arc<Log>,
    term: u64,
}

impl Appender for Owner {
    fn append(&self, batch: Bytes) -> Result<(), String> {
        let term = self.log.term.lock();
        if *term != self.term {
            return Err("another node owns the log".to_owned());
        }
        self.log.batches.lock().push(batch);
        Ok(())
    }

    fn largest_batch(&self) -> usize {
        64 << 10
    }
}

/// A node and how many batches its files have for sure.
struct Node {
    store: Store,
    mark: usize,
    next: usize,
    copy: Option<Copy>,
    standby: Option<Standby>,
    owns: bool,
}

impl Node {
    fn new() -> Self {
        let mut store = Store::closed(tempfile::tempdir().unwrap());
        store.change(|options| (options.log_file_size, options.pack_size) = (256 << 10, 1 << 20));
        Self { store, mark: 0, next: 0, copy: None, standby: None, owns: false }
    }

    /// Applies what is new in the log. Returns the files that the owner has removed.
    fn apply(&mut self, log: &Log) -> GivenUp {
        let path = self.store.path().to_owned();
        let copy = self.copy.get_or_insert_with(|| Copy::new(Arc::new(RealFileSystem), &path));
        let mut applied = Applied::default();
        let batches = log.batches.lock();
        for batch in &batches[self.next..] {
            copy.apply(batch, &mut applied).unwrap();
        }
        self.next = batches.len();
        applied.given_up
    }

    fn follow(&mut self, log: &Log) {
        let removed = self.apply(log);
        if let Some(standby) = &mut self.standby {
            standby.follow(removed, u64::MAX).unwrap();
            return;
        }
        self.copy.as_mut().unwrap().give_up(&removed).unwrap();
        self.standby = Some(self.store.open_standby());
    }

    /// Ends without a word, and begins again from its mark, or from where it is.
    fn stop(&mut self, rng: &mut SimRng) {
        if self.standby.take().is_some() {
            self.store.close();
        } else if std::mem::take(&mut self.owns) {
            let _ = self.store.try_close();
        }
        self.copy = None;
        if rng.below(2) == 0 {
            self.mark = self.next;
        }
        self.next = self.mark;
    }

    /// Takes the log and opens the store.
    fn own(&mut self, log: &Arc<Log>) {
        let term = {
            let mut term = log.term.lock();
            *term += 1;
            *term
        };
        let removed = self.apply(log);
        if self.standby.take().is_some() {
            self.store.close();
        }
        self.copy.take().unwrap().give_up(&removed).unwrap();
        let queue = Queue::new(Box::new(Owner { log: Arc::clone(log), term }));
        let files = SharedFiles::new(Arc::new(RealFileSystem), self.store.path(), Arc::new(queue));
        self.owns = true;
        self.store.try_open(Environment { fs: Arc::new(files), ..environment() }).unwrap();
    }
}

#[test]
fn nodes_show_what_was_acknowledged_and_take_over() {
    for seed in 0..12 {
        let mut rng = SimRng::new(seed);
        let log = Arc::new(Log::default());
        let mut nodes = [Node::new(), Node::new(), Node::new()];
        let mut owner = 0;
        nodes[0].own(&log);
        let bucket = nodes[0].store.bucket("b");
        for _ in 0..30 {
            (0..rng.below(20)).for_each(|_| change(&nodes[owner].store, &bucket, &mut rng));
            match rng.below(5) {
                0 => {
                    // The former owner works on, and hears that it is none.
                    let next = (owner + 1 + rng.below(2) as usize) % 3;
                    let acknowledged = shown(&nodes[owner].store, &bucket);
                    nodes[next].own(&log);
                    assert_eq!(shown(&nodes[next].store, &bucket), acknowledged, "seed {seed}");
                    assert!(nodes[owner].store.put(&bucket, "lost", b"lost").is_err(), "seed {seed}");
                    nodes[owner].next = nodes[owner].mark;
                    nodes[owner].stop(&mut SimRng::new(1));
                    owner = next;
                }
                1 => {
                    let other = (owner + 1 + rng.below(2) as usize) % 3;
                    nodes[other].stop(&mut rng);
                }
                _ => {
                    for other in (0..3).filter(|other| *other != owner) {
                        nodes[other].follow(&log);
                        let (expected, found) =
                            (shown(&nodes[owner].store, &bucket), shown(&nodes[other].store, &bucket));
                        assert_eq!(expected, found, "seed {seed}");
                    }
                }
            }
        }
        nodes[owner].store.close();
        check_files(&mut nodes, owner, &log, &bucket);
    }
}

#[test]
fn a_follower_knows_whether_it_shows_all_that_was_acknowledged() {
    let log = Arc::new(Log::default());
    let mut nodes = [Node::new(), Node::new(), Node::new()];
    nodes[2].store.change(|options| options.durability = Durability::Interval);
    let shows_all = |node: &Node| node.standby.as_ref().unwrap().shows_all().unwrap();
    nodes[0].own(&log);
    let bucket = nodes[0].store.bucket("b");
    nodes[1].follow(&log);
    nodes[2].follow(&log);
    assert!(shows_all(&nodes[1]));
    // Where it is the same, the owner may have acknowledged more.
    assert!(!shows_all(&nodes[2]));
    nodes[0].store.put(&bucket, "k", b"body").unwrap();
    let before = nodes[0].store.handle().published_sequence() - 1;
    let removed = nodes[1].apply(&log);
    assert!(!shows_all(&nodes[1]));
    nodes[1].standby.as_mut().unwrap().follow(removed, before).unwrap();
    assert!(!shows_all(&nodes[1]));
    nodes[1].follow(&log);
    assert!(shows_all(&nodes[1]));
    nodes[0].store.close();
}

/// Every node has the same store in the end, and its index is that which the log makes.
fn check_files(nodes: &mut [Node; 3], owner: usize, log: &Arc<Log>, bucket: &Bucket) {
    nodes[owner].store.open();
    let expected = shown(&nodes[owner].store, bucket);
    for other in (0..3).filter(|other| *other != owner) {
        nodes[other].follow(log);
        assert_eq!(shown(&nodes[other].store, bucket), expected);
        drop(nodes[other].standby.take());
        nodes[other].store.reopen();
        nodes[other].store.check_rebuild();
        assert_eq!(shown(&nodes[other].store, bucket), expected);
    }
}
