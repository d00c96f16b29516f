//! What must hold in every state, and what must be reached, so that nothing holds for want of trying.

use std::collections::BTreeSet;

use crate::explore::Named;
use crate::node::{Body, Node};
use crate::world::{Fault, State};

pub fn promises() -> Vec<Named<State>> {
    vec![
        ("an owner has every acknowledged write", |state| {
            let owners = state.nodes.iter().filter_map(|node| Some((node, node.term()?)));
            owners.into_iter().all(|(node, term)| {
                let known = state.acknowledged.iter().filter(|(_, of)| **of <= term);
                known.into_iter().all(|(write, _)| node.replica.has_write(*write))
            })
        }),
        ("no write is there twice", |state| {
            state.nodes.iter().all(|node| {
                let writes: Vec<_> = node.replica.batches.iter().collect();
                writes.iter().collect::<BTreeSet<_>>().len() == writes.len()
            })
        }),
        ("copies agree with the log", |state| {
            state.nodes.iter().all(|node| {
                let history = state.store.history.range(..node.replica.cursor.next);
                let batches = history.filter_map(|(_, entry)| entry.batch);
                batches.eq(node.replica.batches.iter().copied())
            })
        }),
        ("what the log needs is there", |state| {
            let batches: Vec<_> = state.store.history.values().filter_map(|entry| entry.batch).collect();
            batches.iter().all(|batch| match *batch {
                Body::Write { content: Some(name), .. } => {
                    state.store.content.contains(&name) || batches.contains(&Body::Retire(name))
                }
                _ => true,
            })
        }),
        ("a node can start from the head", |state| {
            let Some(head) = &state.store.head else { return state.store.entries.is_empty() };
            let end = state.store.history.keys().next_back().map_or(0, |last| last + 1);
            let whole = (head.floor..end).all(|position| state.store.entries.contains_key(&position));
            let snapshots = head.snapshots.iter();
            whole
                && (head.floor == 0 || !head.snapshots.is_empty())
                && snapshots.clone().all(|each| each.at.next >= head.floor)
                && snapshots.clone().all(|each| state.store.snapshots.contains_key(each))
        }),
        ("reads are fresh", |state| state.fault != Some(Fault::StaleRead)),
        ("an owner gives up only to another", |state| state.fault != Some(Fault::GaveUpWithoutReason)),
        ("no node finds another history", |state| {
            !matches!(state.fault, Some(Fault::BrokenHistory | Fault::NoSnapshot))
        }),
    ]
}

/// Rare things that the bounds must allow.
pub fn rare() -> Vec<Named<State>> {
    vec![
        ("two owners have acknowledged", |state| state.acknowledged.values().collect::<BTreeSet<_>>().len() > 1),
        ("two nodes own the log, as far as they know", |state| state.nodes.iter().filter_map(Node::term).count() > 1),
        ("a fence is placed where an entry was deleted", |state| {
            state.store.entries.iter().any(|(position, entry)| {
                entry.batch.is_none() && state.store.history.get(position).is_some_and(|first| first.id != entry.id)
            })
        }),
        ("a copy begins with a snapshot", |state| state.nodes.iter().any(|node| node.replica.is_loaded)),
        ("content is removed", |state| {
            state.store.history.values().any(|entry| match entry.batch {
                Some(Body::Retire(name)) => !state.store.content.contains(&name),
                _ => false,
            })
        }),
    ]
}
