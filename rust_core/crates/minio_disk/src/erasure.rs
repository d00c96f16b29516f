//! Reed-Solomon codes as MinIO writes them: over the field of 256 elements with the polynomial 0x11d, by a Vandermonde
//! matrix whose upper square is made the identity. The hash of each shard: HighwayHash-256 with a key of MinIO's.

use std::sync::LazyLock;

use highway::{HighwayHash, HighwayHasher, Key};

pub const HASH: usize = 32;
const POLYNOMIAL: u16 = 0x11d;
const KEY: Key = Key([0xcd8a_238e_fa34_e74b, 0x5285_96bb_e683_3e26, 0x1444_9fa3_5d93_0f04, 0xa036_de22_139d_e097]);

type Matrix = Vec<Vec<u8>>;

pub fn hash(shard: &[u8]) -> [u8; HASH] {
    let mut bytes = [0; HASH];
    for (place, word) in bytes.chunks_exact_mut(8).zip(HighwayHasher::new(KEY).hash256(shard)) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Powers of 2, twice in a row, and their exponents.
static POWERS: LazyLock<([u8; 510], [usize; 256])> = LazyLock::new(|| {
    let (mut powers, mut exponents, mut value) = ([0; 510], [0; 256], 1_u16);
    for exponent in 0..255 {
        powers[exponent] = value as u8;
        powers[exponent + 255] = value as u8;
        exponents[value as usize] = exponent;
        value <<= 1;
        if value & 0x100 != 0 {
            value ^= POLYNOMIAL;
        }
    }
    (powers, exponents)
});

fn product(a: u8, b: u8) -> u8 {
    let (powers, exponents) = &*POWERS;
    if a == 0 || b == 0 { 0 } else { powers[exponents[a as usize] + exponents[b as usize]] }
}

fn reciprocal(value: u8) -> u8 {
    let (powers, exponents) = &*POWERS;
    powers[255 - exponents[value as usize]]
}

fn times(left: &[Vec<u8>], right: &[Vec<u8>]) -> Matrix {
    let cell = |row: &[u8], column: usize| {
        row.iter().zip(right).fold(0, |sum, (value, other)| sum ^ product(*value, other[column]))
    };
    left.iter().map(|row| (0..right[0].len()).map(|column| cell(row, column)).collect()).collect()
}

/// By Gauss and Jordan; `None` if there is none.
fn inverse(mut matrix: Matrix) -> Option<Matrix> {
    let size = matrix.len();
    for (number, row) in matrix.iter_mut().enumerate() {
        row.extend((0..size).map(|column| u8::from(column == number)));
    }
    for pivot in 0..size {
        let found = (pivot..size).find(|row| matrix[*row][pivot] != 0)?;
        matrix.swap(pivot, found);
        let scale = reciprocal(matrix[pivot][pivot]);
        matrix[pivot].iter_mut().for_each(|value| *value = product(*value, scale));
        let pivot_row = matrix[pivot].clone();
        for (number, row) in matrix.iter_mut().enumerate() {
            let factor = row[pivot];
            if number != pivot && factor != 0 {
                row.iter_mut().zip(&pivot_row).for_each(|(value, other)| *value ^= product(factor, *other));
            }
        }
    }
    Some(matrix.into_iter().map(|row| row[size..].to_vec()).collect())
}

/// How data shards come from the shards `have`, which are as many: a row for each of them.
pub fn decoder(data: usize, parity: usize, have: &[usize]) -> Option<Matrix> {
    let power = |base: usize, exponent: usize| (0..exponent).fold(1, |value, _| product(value, base as u8));
    let vandermonde: Matrix =
        (0..data + parity).map(|row| (0..data).map(|column| power(row, column)).collect()).collect();
    let code = times(&vandermonde, &inverse(vandermonde[..data].to_vec())?);
    inverse(have.iter().map(|shard| code[*shard].clone()).collect())
}

/// A shard, by its row of the decoder.
pub fn decoded(row: &[u8], shards: &[Vec<u8>]) -> Vec<u8> {
    let mut made = vec![0; shards[0].len()];
    for (factor, shard) in row.iter().zip(shards) {
        let products: [u8; 256] = std::array::from_fn(|value| product(*factor, value as u8));
        made.iter_mut().zip(shard).for_each(|(byte, other)| *byte ^= products[usize::from(*other)]);
    }
    made
}
