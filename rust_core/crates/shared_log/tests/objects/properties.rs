//! Properties that must hold in every state, and states that must be reached, so that nothing holds for want of trying.

use std::collections::BTreeSet;

use orcas_shared_log::Position;
use orcas_shared_log::objects::{Call, Reply};

use crate::explore::Named;
use crate::node::{Body, Line, Node, Role, Tidying, Writing};
use crate::store::{Answer, Request};
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
            let ids = |position: Position| state.store.history.get(&position).map(|entry| entry.id);
            let before = |position: Position| position.checked_sub(1).and_then(ids);
            let whole = (head.floor..end).all(|position| {
                let entry = state.store.entries.get(&position);
                entry.is_some_and(|entry| entry.previous == before(position) && Some(entry.id) == ids(position))
            });
            let snapshots = head.snapshots.iter();
            whole
                && snapshots.clone().all(|each| each.at.last == before(each.at.next))
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
        ("nodes begin the log together", |state| {
            let begins = |request| matches!(request, &Request::Log(Call::SwapHead { seen: None, .. }));
            state.flights.iter().filter(|flight| begins(&flight.request)).count() > 1
        }),
        ("an owner finds its own entry", |state| {
            state.nodes.iter().any(|node| found_while_appending(state, node) == Some(true))
        }),
        ("an owner finds the entry of another", |state| {
            state.nodes.iter().any(|node| found_while_appending(state, node) == Some(false))
        }),
        ("an owner that changes the head finds another owner", |state| {
            state.nodes.iter().any(|node| match (&node.tidying, state.answers.get(&(node.number, Line::Tidying))) {
                (Some(Tidying::Head { .. }), Some(Answer::Log(Reply::Head(Some(found))))) => {
                    node.term().is_some_and(|term| found.head.term > term)
                }
                _ => false,
            })
        }),
        ("a snapshot is gone before it is loaded", |state| {
            let gone = |answer: &Answer| matches!(answer, Answer::Snapshot(None));
            state.answers.values().any(gone)
        }),
        ("a candidate with a copy finds it in the store", |state| {
            let taking = |node: &&Node| matches!(node.role, Role::Taking(_)) && node.replica.cursor.next > 0;
            state.nodes.iter().filter(taking).any(|node| match state.answers.get(&(node.number, Line::Main)) {
                Some(Answer::Log(Reply::Entry(Some(found)))) => Some(found.id) == node.replica.cursor.last,
                _ => false,
            })
        }),
        ("content that no entry names is removed", |state| {
            state.flights.iter().any(|flight| match flight.request {
                Request::DeleteContent(name) => !state.store.history.values().any(|entry| match entry.batch {
                    Some(Body::Write { content, .. }) => content == Some(name),
                    _ => false,
                }),
                _ => false,
            })
        }),
        ("content is removed", |state| {
            state.store.history.values().any(|entry| match entry.batch {
                Some(Body::Retire(name)) => !state.store.content.contains(&name),
                _ => false,
            })
        }),
    ]
}

/// Whether the entry that an owner has found at its position is its own.
fn found_while_appending(state: &State, node: &Node) -> Option<bool> {
    match (&node.writing, state.answers.get(&(node.number, Line::Main))) {
        (Some(Writing::Entry(append)), Some(Answer::Log(Reply::Entry(Some(found))))) => {
            Some(found.id == append.entry().id)
        }
        _ => None,
    }
}
