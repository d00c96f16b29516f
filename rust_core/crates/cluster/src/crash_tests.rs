//! Power cuts: what a node has applied since its mark may be on the disk in any part and any order, and applying it once
//! more leads to the files that the log describes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use orcas_fs::{FileSystem, Open};
use orcas_fs_testing::{CrashPolicy, SimDisk, SimRng};
use orcas_shared_log::{Cursor, EntryId};

use crate::{Applied, Change, Copy, Mark};

const POLICIES: [CrashPolicy; 4] = [CrashPolicy::Drop, CrashPolicy::Keep, CrashPolicy::Prefix, CrashPolicy::Scatter];

/// The files that a log describes, in memory.
#[derive(Clone, Default)]
struct Model(BTreeMap<String, Vec<u8>>);

impl Model {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { name, offset, bytes } => {
                let file = self.0.entry(name.clone()).or_default();
                let end = *offset as usize + bytes.len();
                file.resize(file.len().max(end), 0);
                file[*offset as usize..end].copy_from_slice(bytes);
            }
            Change::Cut { name, length } => self.0.entry(name.clone()).or_default().truncate(*length as usize),
            Change::Punch { name, offset, length } => {
                let file = self.0.entry(name.clone()).or_default();
                let end = file.len().min((offset + length) as usize);
                file[(*offset as usize).min(end)..end].fill(0);
            }
            Change::Rename { from, to } => {
                let file = self.0.remove(from).unwrap();
                self.0.insert(to.clone(), file);
            }
            Change::Remove { name } => drop(self.0.remove(name)),
            Change::Replace { name, bytes } => {
                drop(self.0.insert(format!("cluster.node/control/{name}"), bytes.to_vec()))
            }
            Change::Note(_) => {}
        }
    }

    /// A batch as an owner would append it: names of logs and packs are never used again.
    fn batch(&self, rng: &mut SimRng, next: &mut u64) -> Vec<Change> {
        let known: Vec<&String> =
            self.0.keys().filter(|name| name.contains(".log") || name.contains(".pack")).collect();
        let mut bytes = |length: u64| (0..length).map(|_| rng.below(255) as u8 + 1).collect::<Vec<_>>();
        let content = bytes(1 + next.wrapping_mul(7919) % 3000);
        let name = match known.get(rng.below(2 + known.len() as u64) as usize) {
            Some(name) => (*name).clone(),
            None => {
                *next += 1;
                format!("{}{next}{}", ["log/", "chunks/"][*next as usize % 2], [".log", ".pack"][*next as usize % 2])
            }
        };
        let length = self.0.get(&name).map_or(0, Vec::len) as u64;
        match rng.below(12) {
            0 if length > 0 => vec![Change::Remove { name }],
            1 if length > 0 => vec![Change::Cut { name, length: rng.below(length + 1) }],
            2 if length > 0 => vec![Change::Punch { name, offset: 4096 * rng.below(3), length: 4096 }],
            3 => vec![
                Change::Write { name: "store.draft".to_owned(), offset: 0, bytes: content.into() },
                Change::Rename { from: "store.draft".to_owned(), to: "store.keys".to_owned() },
            ],
            4 => vec![
                Change::Replace { name: "root.json".to_owned(), bytes: content.into() },
                Change::Note(Bytes::new()),
            ],
            5 => vec![Change::Write { name, offset: rng.below(length + 1), bytes: content.into() }],
            _ => vec![Change::Write { name, offset: length, bytes: content.into() }],
        }
    }
}

fn files(disk: &SimDisk, root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for folder in ["", "log", "chunks", "cluster.node/control"] {
        for name in disk.list(&root.join(folder)).unwrap_or_default() {
            let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            let Ok(file) = disk.open(&root.join(&name), Open::Read) else { continue };
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read_at(0, &mut bytes).unwrap();
            found.insert(name, bytes);
        }
    }
    found
}

/// A node on a disk.
struct Node {
    disk: SimDisk,
    copy: Copy,
    next: usize,
}

impl Node {
    fn start(disk: SimDisk, root: &Path) -> Self {
        let mark = Mark::read(&disk, root).unwrap().unwrap_or_default();
        let copy = Copy::new(Arc::new(disk.clone()), root);
        Self { disk, copy, next: mark.cursor.next as usize }
    }

    fn apply(&mut self, log: &[Bytes]) {
        for batch in &log[self.next..] {
            let mut applied = Applied::default();
            self.copy.apply(batch, &mut applied).unwrap();
            self.copy.give_up(&applied.given_up).unwrap();
            self.next += 1;
        }
    }

    fn mark(&mut self, root: &Path) {
        let cursor = Cursor { next: self.next as u64, last: Some(EntryId(self.next as u128)) };
        let mark = Mark { log: "s3://logs/a".to_owned(), cursor, fences: Vec::new() };
        mark.write(&self.disk, root, &self.copy.take_dirty()).unwrap();
    }
}

#[test]
fn a_node_goes_on_from_its_mark_after_a_power_cut() {
    let root = PathBuf::from("/data");
    for seed in 0..200 {
        let mut rng = SimRng::new(seed);
        let disk = SimDisk::new();
        disk.create_dir(&root).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        let (mut model, mut log, mut next) = (Model::default(), Vec::new(), 0);
        let mut node = Node::start(disk, &root);
        for _ in 0..60 {
            let batch = model.batch(&mut rng, &mut next);
            batch.iter().for_each(|change| model.apply(change));
            let mut encoded = Vec::new();
            batch.iter().for_each(|change| change.encode(&mut encoded));
            log.push(Bytes::from(encoded));
            match rng.below(8) {
                0 => node.mark(&root),
                1 => {
                    let policy = POLICIES[rng.below(4) as usize];
                    node = Node::start(node.disk.crash(&mut rng, policy), &root);
                }
                _ => node.apply(&log),
            }
        }
        node.apply(&log);
        let mut found = files(&node.disk, &root);
        found.retain(|name, _| !name.ends_with(".draft"));
        assert!(found.keys().eq(model.0.keys()), "seed {seed}: {:?} {:?}", found.keys(), model.0.keys());
        for (name, bytes) in &model.0 {
            let at = found[name].iter().zip(bytes).position(|(found, wanted)| found != wanted);
            assert_eq!((found[name].len(), at), (bytes.len(), None), "seed {seed}: {name}");
        }
    }
}
