//! Compresses the blocks of one message, or of several side by side.
//!
//! Up to three messages are compressed in ordinary registers: while a step of one waits for the step before it, the
//! processor executes steps of the others. More are compressed eight at a time with vector instructions (`vectors`).

use super::steps::{Block, Lane, State, sines, step, steps, word, word_of};
#[cfg(target_arch = "x86_64")]
use super::vectors;

/// The vector instructions of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Vectors {
    /// None that are faster than ordinary registers.
    None,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512: instructions for rotations and functions of three words, and with more registers.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Vectors {
    #[cfg(target_arch = "x86_64")]
    pub fn of_this_machine() -> Self {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
            Self::Avx512
        } else if is_x86_feature_detected!("avx2") {
            Self::Avx2
        } else {
            Self::None
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub fn of_this_machine() -> Self {
        Self::None
    }

    /// The most messages that are compressed side by side.
    fn width(self) -> usize {
        match self {
            Self::None => 3,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 | Self::Avx512 => 16,
        }
    }
}

/// Compresses all blocks of all lanes.
pub(super) fn all(vectors: Vectors, mut lanes: Vec<Lane<'_>>) {
    // Lanes of similar length are grouped, so that they end together.
    lanes.sort_unstable_by_key(|lane| std::cmp::Reverse(lane.blocks.len()));
    for group in lanes.chunks_mut(vectors.width()) {
        let mut open = group;
        while let Some(last) = open.iter().rposition(|lane| !lane.blocks.is_empty()) {
            open = &mut open[..=last];
            // The last one is the shortest.
            let (now, messages) = (open[last].blocks.len(), &mut *open);
            together(vectors, messages, now);
            messages.iter_mut().for_each(|lane| lane.blocks = &lane.blocks[now..]);
        }
    }
}

/// Compresses the next `count` blocks of at most `vectors.width()` lanes.
fn together(vectors: Vectors, lanes: &mut [Lane<'_>], count: usize) {
    match (lanes.len(), vectors) {
        (0, _) => {}
        (1, _) => in_registers::<1>(lanes, count),
        (2, _) => in_registers::<2>(lanes, count),
        (3, _) => in_registers::<3>(lanes, count),
        (_, Vectors::None) => lanes.chunks_mut(3).for_each(|some| together(vectors, some, count)),
        #[cfg(target_arch = "x86_64")]
        (4..=8, Vectors::Avx2) => vectors::avx2::<1>(lanes, count),
        #[cfg(target_arch = "x86_64")]
        (_, Vectors::Avx2) => vectors::avx2::<2>(lanes, count),
        #[cfg(target_arch = "x86_64")]
        (4..=8, Vectors::Avx512) => vectors::avx512::<1>(lanes, count),
        #[cfg(target_arch = "x86_64")]
        (_, Vectors::Avx512) => vectors::avx512::<2>(lanes, count),
    }
}

/// Compresses the blocks of one message.
pub(super) fn one(state: &mut State, blocks: &[Block]) {
    in_registers::<1>(&mut [Lane { state, blocks }], blocks.len());
}

/// Executes each step for `N` messages in turn.
fn in_registers<const N: usize>(lanes: &mut [Lane<'_>], count: usize) {
    let sines = sines();
    let runs: [&[Block]; N] = std::array::from_fn(|lane| &lanes[lane].blocks[..count]);
    let mut states: [State; N] = std::array::from_fn(|lane| *lanes[lane].state);
    for number in 0..count {
        let blocks = runs.map(|run| &run[number]);
        let (mut a, mut b) = (states.map(|state| state[0]), states.map(|state| state[1]));
        let (mut c, mut d) = (states.map(|state| state[2]), states.map(|state| state[3]));
        macro_rules! one_step {
            ($number:literal) => {
                let new = std::array::from_fn(|lane| {
                    let constant = sines[$number].wrapping_add(word_of(blocks[lane], const { word($number) }));
                    step($number, a[lane].wrapping_add(constant), b[lane], c[lane], d[lane])
                });
                (a, d, c, b) = (d, c, b, new);
            };
        }
        steps!(one_step);
        for (lane, state) in states.iter_mut().enumerate() {
            *state = add(*state, [a[lane], b[lane], c[lane], d[lane]]);
        }
    }
    lanes.iter_mut().zip(states).for_each(|(lane, state)| *lane.state = state);
}

fn add(state: State, words: State) -> State {
    std::array::from_fn(|word| state[word].wrapping_add(words[word]))
}
