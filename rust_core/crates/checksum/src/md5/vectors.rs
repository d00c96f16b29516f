//! Compresses eight messages in the words of 256-bit vectors of x86, or sixteen in two vectors that take turns.
//!
//! Unsafe for two reasons: the compiler cannot know that the features of the processor were checked, and vectors are
//! loaded and stored through pointers.
#![allow(unsafe_code, reason = "see above")]

use std::arch::x86_64::*;
use std::array;

use super::steps::{Block, Lane, ROTATIONS, sines, steps, word};

/// Words of a vector.
const WIDTH: usize = 8;

/// One word of eight messages, the same of each.
type Words = __m256i;
/// The words of the states of `GROUPS` times eight messages, and their blocks.
type States<const GROUPS: usize> = [[[u32; WIDTH]; 4]; GROUPS];
type Runs<'a, const GROUPS: usize> = [[&'a [Block]; WIDTH]; GROUPS];

/// Compresses `count` blocks of each of at most `GROUPS` times eight messages.
pub(super) fn avx2<const GROUPS: usize>(lanes: &mut [Lane<'_>], count: usize) {
    assert!(is_x86_feature_detected!("avx2"));
    // SAFETY: the assertion checks the features that the function needs.
    side_by_side(lanes, count, |states: &mut States<GROUPS>, runs| unsafe { with_avx2(states, runs, count) });
}

/// Hashes the messages as [`avx2`] does, with AVX-512F and AVX-512VL.
pub(super) fn avx512<const GROUPS: usize>(lanes: &mut [Lane<'_>], count: usize) {
    assert!(is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl"));
    // SAFETY: the assertion checks the features that the function needs.
    side_by_side(lanes, count, |states: &mut States<GROUPS>, runs| unsafe { with_avx512(states, runs, count) });
}

/// Arranges messages side by side for `compress`. Unused lanes repeat the first message.
fn side_by_side<const GROUPS: usize>(
    lanes: &mut [Lane<'_>],
    count: usize,
    compress: impl FnOnce(&mut States<GROUPS>, &Runs<'_, GROUPS>),
) {
    let lane = |group: usize, place: usize| lanes.get(group * WIDTH + place).unwrap_or(&lanes[0]);
    let mut states =
        array::from_fn(|group| array::from_fn(|word| array::from_fn(|place| lane(group, place).state[word])));
    compress(&mut states, &array::from_fn(|group| array::from_fn(|place| &lane(group, place).blocks[..count])));
    for (group, lanes) in lanes.chunks_mut(WIDTH).enumerate() {
        for (place, lane) in lanes.iter_mut().enumerate() {
            *lane.state = array::from_fn(|word| states[group][word][place]);
        }
    }
}

/// Code that is compiled for two kinds of processors. With AVX-512 the compiler makes one instruction of each function of
/// three words and of each rotation.
macro_rules! compress {
    ($name:ident, $features:literal) => {
        /// Compresses the `count` blocks of each message.
        #[target_feature(enable = $features)]
        fn $name<const GROUPS: usize>(states: &mut States<GROUPS>, runs: &Runs<'_, GROUPS>, count: usize) {
            let sines = sines();
            let zero = _mm256_setzero_si256();
            let ones = _mm256_set1_epi32(-1);
            let mut before = [[zero; 4]; GROUPS];
            for group in 0..GROUPS {
                for word in 0..4 {
                    before[group][word] = load(&states[group][word]);
                }
            }
            for number in 0..count {
                let mut words = [[zero; 16]; GROUPS];
                let ([mut a, mut b], [mut c, mut d]) = ([[zero; GROUPS]; 2], [[zero; GROUPS]; 2]);
                for group in 0..GROUPS {
                    words[group] = transposed(&runs[group], number);
                    [a[group], b[group], c[group], d[group]] = before[group];
                }
                macro_rules! one_step {
                    ($number:literal) => {{
                        const LEFT: i32 = ROTATIONS[$number / 16][$number % 4] as i32;
                        const RIGHT: i32 = 32 - LEFT;
                        let sine = _mm256_set1_epi32(sines[$number].cast_signed());
                        let mut new = [zero; GROUPS];
                        for group in 0..GROUPS {
                            let constant = _mm256_add_epi32(sine, words[group][const { word($number) }]);
                            let ready = _mm256_add_epi32(a[group], constant);
                            let (b, c, d) = (b[group], c[group], d[group]);
                            // As in `step`.
                            let sum = match $number / 16 {
                                0 => {
                                    let chosen = _mm256_and_si256(_mm256_xor_si256(c, d), b);
                                    _mm256_add_epi32(ready, _mm256_xor_si256(chosen, d))
                                }
                                1 => {
                                    let early = _mm256_add_epi32(ready, _mm256_andnot_si256(d, c));
                                    _mm256_add_epi32(early, _mm256_and_si256(b, d))
                                }
                                2 => _mm256_add_epi32(ready, _mm256_xor_si256(b, _mm256_xor_si256(c, d))),
                                _ => {
                                    let either = _mm256_or_si256(b, _mm256_xor_si256(d, ones));
                                    _mm256_add_epi32(ready, _mm256_xor_si256(c, either))
                                }
                            };
                            let (left, right) = (_mm256_slli_epi32::<LEFT>(sum), _mm256_srli_epi32::<RIGHT>(sum));
                            new[group] = _mm256_add_epi32(_mm256_or_si256(left, right), b);
                        }
                        (a, d, c, b) = (d, c, b, new);
                    }};
                }
                steps!(one_step);
                for group in 0..GROUPS {
                    for (word, after) in [a[group], b[group], c[group], d[group]].into_iter().enumerate() {
                        before[group][word] = _mm256_add_epi32(before[group][word], after);
                    }
                }
            }
            for group in 0..GROUPS {
                for word in 0..4 {
                    store(&mut states[group][word], before[group][word]);
                }
            }
        }
    };
}

compress!(with_avx2, "avx2");
compress!(with_avx512, "avx512f,avx512vl");

#[inline]
#[target_feature(enable = "avx2")]
fn load(words: &[u32; WIDTH]) -> Words {
    // SAFETY: reads as many bytes as a vector has, at any alignment.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(words: &mut [u32; WIDTH], vector: Words) {
    // SAFETY: writes as many bytes as a vector has, at any alignment.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), vector) }
}

/// The words of one block of each message. x86 is little-endian, as MD5 is.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed(runs: &[&[Block]; WIDTH], number: usize) -> [Words; 16] {
    let mut words = [_mm256_setzero_si256(); 16];
    for half in 0..2 {
        let mut rows = [_mm256_setzero_si256(); WIDTH];
        for (row, run) in rows.iter_mut().zip(runs) {
            let bytes: &[u8; 32] = &run[number].as_chunks().0[half];
            // SAFETY: reads as many bytes as a vector has, at any alignment.
            *row = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
        }
        let mut pairs = rows;
        for two in 0..4 {
            let (one, other) = (rows[2 * two], rows[2 * two + 1]);
            pairs[2 * two] = _mm256_unpacklo_epi32(one, other);
            pairs[2 * two + 1] = _mm256_unpackhi_epi32(one, other);
        }
        let mut fours = pairs;
        for four in [0, 4] {
            for high in 0..2 {
                let (one, other) = (pairs[four + high], pairs[four + high + 2]);
                fours[four + 2 * high] = _mm256_unpacklo_epi64(one, other);
                fours[four + 2 * high + 1] = _mm256_unpackhi_epi64(one, other);
            }
        }
        for word in 0..4 {
            let (one, other) = (fours[word], fours[word + 4]);
            words[half * 8 + word] = _mm256_permute2x128_si256::<0x20>(one, other);
            words[half * 8 + word + 4] = _mm256_permute2x128_si256::<0x31>(one, other);
        }
    }
    words
}
