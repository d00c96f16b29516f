//! The compression function of MD5 over the blocks of one message, or of several side by side.
//!
//! Up to three go side by side in ordinary registers: a step of one waits for the step before it, and the others'
//! steps fill the time. More are taken eight at a time in vectors of x86 (`vectors`).

use std::hint::black_box;

pub(super) type State = [u32; 4];
pub(super) type Block = [u8; 64];

/// A message on its way: its state, and the blocks that it is still to take.
pub(super) struct Lane<'a> {
    pub state: &'a mut State,
    pub blocks: &'a [Block],
}

/// What vectors the processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Vectors {
    /// None that are faster than ordinary registers.
    None,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// The same vectors, with rotations, functions of three words, and more registers.
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

    /// Messages that are taken side by side at most.
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
    // Lanes of like length side by side leave together.
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

/// RFC 1321, 3.4: the word of the block that a step takes.
const fn word(step: usize) -> usize {
    match step / 16 {
        0 => step,
        1 => (5 * step + 1) % 16,
        2 => (3 * step + 5) % 16,
        _ => 7 * step % 16,
    }
}

/// RFC 1321, 3.4: by how many bits a step rotates, for each round.
const ROTATIONS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// RFC 1321, 3.4: the integer part of 2^32 times the sine of each number from 1, without its sign.
static SINES: [u32; 64] = [
    0xd76a_a478,
    0xe8c7_b756,
    0x2420_70db,
    0xc1bd_ceee,
    0xf57c_0faf,
    0x4787_c62a,
    0xa830_4613,
    0xfd46_9501,
    0x6980_98d8,
    0x8b44_f7af,
    0xffff_5bb1,
    0x895c_d7be,
    0x6b90_1122,
    0xfd98_7193,
    0xa679_438e,
    0x49b4_0821,
    0xf61e_2562,
    0xc040_b340,
    0x265e_5a51,
    0xe9b6_c7aa,
    0xd62f_105d,
    0x0244_1453,
    0xd8a1_e681,
    0xe7d3_fbc8,
    0x21e1_cde6,
    0xc337_07d6,
    0xf4d5_0d87,
    0x455a_14ed,
    0xa9e3_e905,
    0xfcef_a3f8,
    0x676f_02d9,
    0x8d2a_4c8a,
    0xfffa_3942,
    0x8771_f681,
    0x6d9d_6122,
    0xfde5_380c,
    0xa4be_ea44,
    0x4bde_cfa9,
    0xf6bb_4b60,
    0xbebf_bc70,
    0x289b_7ec6,
    0xeaa1_27fa,
    0xd4ef_3085,
    0x0488_1d05,
    0xd9d4_d039,
    0xe6db_99e5,
    0x1fa2_7cf8,
    0xc4ac_5665,
    0xf429_2244,
    0x432a_ff97,
    0xab94_23a7,
    0xfc93_a039,
    0x655b_59c3,
    0x8f0c_cc92,
    0xffef_f47d,
    0x8584_5dd1,
    0x6fa8_7e4f,
    0xfe2c_e6e0,
    0xa301_4314,
    0x4e08_11a1,
    0xf753_7e82,
    0xbd3a_f235,
    0x2ad7_d2bb,
    0xeb86_d391,
];

/// The sines as numbers that the compiler does not know. It would add a constant last, after the one term that has to
/// wait for the step before, and every step would take an operation longer.
fn sines() -> &'static [u32; 64] {
    black_box(&SINES)
}

/// The new word of a step; `ready` is the sum of what did not have to wait for `b`.
#[inline(always)]
fn step(number: usize, ready: u32, b: u32, c: u32, d: u32) -> u32 {
    let sum = match number / 16 {
        0 => ready.wrapping_add(((c ^ d) & b) ^ d),
        // The two terms have no bit in common, and only one of them waits for `b`.
        1 => ready.wrapping_add(c & !d).wrapping_add(b & d),
        2 => ready.wrapping_add(b ^ (c ^ d)),
        _ => ready.wrapping_add(c ^ (b | !d)),
    };
    sum.rotate_left(ROTATIONS[number / 16][number % 4]).wrapping_add(b)
}

fn word_of(block: &Block, word: usize) -> u32 {
    let (words, _) = block.as_chunks();
    u32::from_le_bytes(words[word])
}

/// Calls a macro with the number of each step.
macro_rules! steps {
    ($step:ident) => {
        steps! { $step
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
            32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
        }
    };
    ($step:ident $($number:literal)*) => { $($step!($number);)* };
}

// Behind the macro that it uses.
#[cfg(target_arch = "x86_64")]
mod vectors;

/// Takes `N` messages through each step in turn.
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
