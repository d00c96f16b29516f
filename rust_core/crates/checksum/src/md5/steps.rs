//! The compression function of MD5 (RFC 1321, 3.4), step by step, and the messages that it is applied to.

use std::hint::black_box;

pub type State = [u32; 4];
pub type Block = [u8; 64];

/// The state of a message, and the blocks that are still to be compressed.
pub struct Lane<'a> {
    pub state: &'a mut State,
    pub blocks: &'a [Block],
}

/// RFC 1321, 3.4: the word of the block that a step uses.
pub const fn word(step: usize) -> usize {
    match step / 16 {
        0 => step,
        1 => (5 * step + 1) % 16,
        2 => (3 * step + 5) % 16,
        _ => 7 * step % 16,
    }
}

/// RFC 1321, 3.4: by how many bits a step rotates, for each round.
pub const ROTATIONS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// RFC 1321, 3.4: the integer part of 2^32 times the absolute value of the sine of each number from 1 to 64.
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

/// The sines, hidden from the compiler. It would add a constant last, after the term that waits for the step before, which
/// makes every step one operation longer.
pub fn sines() -> &'static [u32; 64] {
    black_box(&SINES)
}

/// The new word of a step. `ready` is the sum of the terms that do not depend on `b`.
#[inline(always)]
pub fn step(number: usize, ready: u32, b: u32, c: u32, d: u32) -> u32 {
    let sum = match number / 16 {
        0 => ready.wrapping_add(((c ^ d) & b) ^ d),
        // The two terms have no bit in common, and only one of them depends on `b`.
        1 => ready.wrapping_add(c & !d).wrapping_add(b & d),
        2 => ready.wrapping_add(b ^ (c ^ d)),
        _ => ready.wrapping_add(c ^ (b | !d)),
    };
    sum.rotate_left(ROTATIONS[number / 16][number % 4]).wrapping_add(b)
}

#[inline]
pub fn word_of(block: &Block, word: usize) -> u32 {
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
pub(super) use steps;
