//! Nodes that take the log from each other while the owner appends, with a ledger outside of what was acknowledged.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use orcas_log_stores::{Error, LogStore, Owner};
use orcas_shared_log::Term;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::behaviour::Replica;
use crate::ground::{Ground, Random, options};

const NODES: usize = 3;
const TAKEOVERS: usize = 12;

/// What was acknowledged: the term, where, and what.
type Ledger = Arc<Mutex<Vec<(Term, u64, Bytes)>>>;

pub async fn run(ground: &Ground, name: &str, seed: u64) {
    println!("takeovers of a log that is {name}: seed {seed}");
    let mut random = Random(seed);
    let log = format!("{name}{seed}");
    let ledger = Ledger::default();
    let mut copies = vec![Some(Replica::default()); NODES];
    let mut writing: Option<(usize, JoinHandle<Replica>)> = None;
    let mut taken = Vec::new();
    for _ in 0..TAKEOVERS {
        let idle: Vec<_> = (0..NODES).filter(|&node| copies[node].is_some()).collect();
        let node = idle[random.below(idle.len() as u64) as usize];
        let mut copy = copies[node].take().expect("it is idle");
        if random.below(4) == 0 {
            // It has lost its directory.
            copy = Replica::default();
        }
        let store = open(ground, &log).await;
        let owner = take(&store, &mut copy).await;
        taken.push((owner.term(), copy.batches()));
        let task = tokio::spawn(write(owner, copy, Arc::clone(&ledger), random.below(u64::MAX)));
        if let Some((node, task)) = writing.replace((node, task)) {
            copies[node] = Some(task.await.expect("an owner does not fail"));
        }
        // Some come before the owner has done anything.
        tokio::time::sleep(Duration::from_millis(random.below(80))).await;
    }
    let store = open(ground, &log).await;
    let mut copy = Replica::default();
    let last = take(&store, &mut copy).await;
    taken.push((last.term(), copy.batches()));
    if let Some((_, task)) = writing {
        task.await.expect("an owner does not fail");
    }
    check(&ledger.lock(), &taken, &copy, seed);
}

fn check(ledger: &[(Term, u64, Bytes)], taken: &[(Term, Vec<Bytes>)], copy: &Replica, seed: u64) {
    let log = copy.batches();
    assert_eq!(log.iter().collect::<BTreeSet<_>>().len(), log.len(), "seed {seed}: a batch is there twice");
    for (term, position, batch) in ledger {
        let found = copy.entries.iter().find(|(at, _)| at == position).and_then(|(_, entry)| entry.batch.as_ref());
        assert_eq!(found, Some(batch), "seed {seed}: position {position}, acknowledged in term {term}");
    }
    for (owned, batches) in taken {
        assert!(log.starts_with(batches), "seed {seed}: term {owned} began with another history");
        let lacks = ledger.iter().find(|(term, _, batch)| term < owned && !batches.contains(batch));
        assert_eq!(lacks, None, "seed {seed}: term {owned} began without it");
    }
    println!("{} acknowledged, {} in the log, {} owners", ledger.len(), log.len(), taken.len());
}

/// Appends until another node has the log. The copy stays as it was when the node began. The owner is renewed now and
/// then: with objects it could otherwise append as fast as another node reads, which would never come to the end.
async fn write(owner: Owner, copy: Replica, ledger: Ledger, seed: u64) -> Replica {
    let mut random = Random(seed);
    for number in 0.. {
        if number % 16 == 15 {
            match owner.renew().await {
                Ok(()) => {}
                Err(Error::Fenced(_)) => break,
                Err(error) => panic!("an owner is told {error}"),
            }
        }
        if number > 100 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut batch = format!("{} {number} ", owner.term()).into_bytes();
        batch.resize(batch.len() + random.below(3000) as usize, b'.');
        let batch = Bytes::from(batch);
        let timeout = Duration::from_millis(if random.below(4) == 0 { 1 } else { 600_000 });
        match tokio::time::timeout(timeout, owner.append(batch.clone())).await {
            // The caller gave up, and does not know what has become of it.
            Err(_) => {}
            Ok(Ok(after)) => {
                ledger.lock().push((owner.term(), after.next - 1, batch));
            }
            Ok(Err(Error::Fenced(term))) => {
                assert!(term > owner.term());
                break;
            }
            Ok(Err(error)) => panic!("an owner is told {error}"),
        }
    }
    copy
}

async fn open(ground: &Ground, log: &str) -> LogStore {
    loop {
        match LogStore::open(&ground.url(log), &options()).await {
            Ok(store) => return store,
            Err(Error::Unknown(_)) => {}
            Err(error) => panic!("the store is refused: {error}"),
        }
    }
}

async fn take(store: &LogStore, copy: &mut Replica) -> Owner {
    loop {
        match copy.take(store).await {
            Ok(Some(owner)) => return owner,
            Ok(None) => {}
            Err(error) => panic!("a node that takes the log is told {error}"),
        }
    }
}
