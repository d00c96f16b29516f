//! Explores every state that a model can reach, breadth first, so that what it finds is the shortest way there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

/// A predicate with its name.
pub type Named<S> = (&'static str, fn(&S) -> bool);

pub trait Model {
    type State: Clone + Hash;
    type Action: Copy + Debug;

    fn first(&self) -> Self::State;
    fn actions(&self, state: &Self::State) -> Vec<Self::Action>;
    fn next(&self, state: &Self::State, action: Self::Action) -> Self::State;
    /// The properties that must hold in every state.
    fn promises() -> Vec<Named<Self::State>>;
    /// The properties that must hold in some state, so that nothing holds for want of trying.
    fn rare() -> Vec<Named<Self::State>>;
}

pub struct Found<A> {
    pub states: usize,
    /// Promises that do not hold, and how that comes about.
    pub broken: BTreeMap<&'static str, Vec<A>>,
    pub reached: BTreeSet<&'static str>,
}

/// The state from which each state was found, and the number of the action.
type Origins = HashMap<u64, (u64, u16), BuildHasherDefault<DefaultHasher>>;

/// Explores everything, or until a promise is broken. States are told apart by 64 bits of their hash.
pub fn explore<M: Model>(model: &M) -> Found<M::Action> {
    let first = model.first();
    let (promises, rare) = (M::promises(), M::rare());
    let mut found = Found { states: 1, broken: BTreeMap::new(), reached: BTreeSet::new() };
    let mut origins = Origins::from_iter([(fingerprint(&first), (0, 0))]);
    let mut frontier = vec![first];
    while !frontier.is_empty() && found.broken.is_empty() {
        let mut behind = Vec::new();
        for state in frontier {
            let from = fingerprint(&state);
            let broken = promises.iter().filter(|(_, holds)| !holds(&state));
            found.broken.extend(broken.map(|(name, _)| (*name, way(model, &origins, from))));
            found.reached.extend(rare.iter().filter(|(_, happens)| happens(&state)).map(|(name, _)| *name));
            for (number, action) in model.actions(&state).into_iter().enumerate() {
                let next = model.next(&state, action);
                origins.entry(fingerprint(&next)).or_insert_with(|| {
                    behind.push(next);
                    (from, number as u16)
                });
            }
        }
        frontier = behind;
    }
    found.states = origins.len();
    found
}

fn fingerprint(state: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(state)
}

/// The actions that lead to a state.
fn way<M: Model>(model: &M, origins: &Origins, to: u64) -> Vec<M::Action> {
    let mut numbers = Vec::new();
    let mut at = to;
    while let Some(&(from, number)) = origins.get(&at).filter(|(from, _)| *from != 0) {
        numbers.push(number);
        at = from;
    }
    let mut state = model.first();
    let mut actions = Vec::new();
    for number in numbers.into_iter().rev() {
        let action = model.actions(&state)[usize::from(number)];
        state = model.next(&state, action);
        actions.push(action);
    }
    actions
}
