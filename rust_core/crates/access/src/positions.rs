//! Where in a text a pattern can have come to: a set of positions, as bits. All of them move on together by a byte or a
//! character, so a pattern is read once, without going back.

use crate::context::{Steps, TEXT_LEN_MAX};

/// Whether two texts are the same that differ in ASCII case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Case {
    Sensitive,
    Ignored,
}

impl Case {
    pub fn is_prefix(self, prefix: &[u8], text: &[u8]) -> bool {
        match self {
            Self::Sensitive => text.starts_with(prefix),
            Self::Ignored => text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix)),
        }
    }
}

/// Words that need no allocation: those of the longest name of an object.
const INLINE: usize = TEXT_LEN_MAX / 64 + 1;

/// Steps for each word.
pub(crate) const OF_BYTE: usize = 3;
pub(crate) const OF_CHARACTER: usize = 1;
pub(crate) const OF_BEGINNING: usize = 2;

/// Positions in `text`, its end included.
pub(crate) struct Positions<'t> {
    text: &'t [u8],
    case: Case,
    at: Bits,
    /// The positions of bytes that continue a character, once they were asked for.
    continuing: Option<Bits>,
}

/// A bit for each position of a text.
struct Bits {
    len: usize,
    inline: [u64; INLINE],
    more: Vec<u64>,
}

impl Bits {
    fn new(text: &[u8]) -> Self {
        let len = Positions::words_of(text);
        Self { len, inline: [0; INLINE], more: if len > INLINE { vec![0; len] } else { Vec::new() } }
    }

    fn words(&self) -> &[u64] {
        if self.more.is_empty() { &self.inline[..self.len] } else { &self.more }
    }

    fn words_mut(&mut self) -> &mut [u64] {
        if self.more.is_empty() { &mut self.inline[..self.len] } else { &mut self.more }
    }
}

impl<'t> Positions<'t> {
    /// Positions from one on. `None`: there are no steps for that.
    pub fn from(text: &'t [u8], case: Case, from: usize, steps: &Steps) -> Option<Self> {
        if !steps.take(Self::words_of(text) * OF_BEGINNING) {
            return None;
        }
        let mut at = Bits::new(text);
        for (place, word) in at.words_mut().iter_mut().enumerate() {
            *word = below(text.len() + 1, place) & !below(from, place);
        }
        Some(Self { text, case, at, continuing: None })
    }

    pub fn case(&self) -> Case {
        self.case
    }

    /// How many words there are for a text.
    pub fn words_of(text: &[u8]) -> usize {
        text.len() / 64 + 1
    }

    /// Moves on behind a text, as long as there are steps.
    pub fn read(&mut self, literal: &[u8], steps: &Steps) {
        for &byte in literal {
            if !steps.take(self.at.len * OF_BYTE) {
                return self.clear();
            }
            match self.case {
                Case::Ignored if byte.is_ascii_alphabetic() => {
                    let small = byte | 0x20;
                    self.read_byte(|other| other | 0x20 == small);
                }
                Case::Sensitive | Case::Ignored => self.read_byte(|other| other == byte),
            }
            if self.first().is_none() {
                return;
            }
        }
    }

    fn read_byte(&mut self, reads: impl Fn(u8) -> bool) {
        let (text, mut carry) = (self.text, 0);
        for (place, word) in self.at.words_mut().iter_mut().enumerate() {
            let moved = if *word == 0 { 0 } else { *word & mask(part(text, place), &reads) };
            *word = moved << 1 | carry;
            carry = moved >> 63;
        }
    }

    /// Moves the positions over a character: a byte, and up to three that continue it.
    pub fn read_character(&mut self, steps: &Steps) {
        if !steps.take(self.at.len * OF_CHARACTER) {
            return self.clear();
        }
        let (len, mut carry) = (self.text.len(), 0);
        for (place, word) in self.at.words_mut().iter_mut().enumerate() {
            let moved = *word & below(len, place);
            *word = moved << 1 | carry;
            carry = moved >> 63;
        }
        if self.text.is_ascii() {
            return;
        }
        let continuing = self.continuing.get_or_insert_with(|| {
            steps.take(self.at.len * OF_BYTE);
            let mut bits = Bits::new(self.text);
            for (place, word) in bits.words_mut().iter_mut().enumerate() {
                *word = mask(part(self.text, place), |byte| byte & 0xc0 == 0x80);
            }
            bits
        });
        for _ in 0..3 {
            let mut carry = 0;
            for (word, continuing) in self.at.words_mut().iter_mut().zip(continuing.words()) {
                let moved = *word & continuing;
                *word = (*word & !continuing) | moved << 1 | carry;
                carry = moved >> 63;
            }
        }
    }

    pub fn clear(&mut self) {
        self.at.words_mut().fill(0);
    }

    pub fn first(&self) -> Option<usize> {
        let (place, word) = self.at.words().iter().enumerate().find(|(_, word)| **word != 0)?;
        Some(place * 64 + word.trailing_zeros() as usize)
    }

    /// Whether the end of the text is one of them.
    pub fn has_end(&self) -> bool {
        let len = self.text.len();
        self.at.words()[len / 64] >> (len % 64) & 1 == 1
    }
}

/// The bytes of a text that have their bits in a word.
fn part(text: &[u8], place: usize) -> &[u8] {
    &text[(place * 64).min(text.len())..(place * 64 + 64).min(text.len())]
}

/// The bits of a word for positions before `end`.
fn below(end: usize, place: usize) -> u64 {
    match end.saturating_sub(place * 64) {
        count @ 0..64 => (1 << count) - 1,
        _ => u64::MAX,
    }
}

/// A bit for each of up to 64 bytes.
fn mask(bytes: &[u8], reads: impl Fn(u8) -> bool) -> u64 {
    if let Ok(bytes) = <&[u8; 64]>::try_from(bytes) {
        let read = bytes.map(|byte| u8::from(reads(byte)));
        let (eights, _) = read.as_chunks::<8>();
        // The product gathers the lowest bits of eight bytes in the highest byte.
        let of_eight = |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        return eights.iter().enumerate().fold(0, |all, (at, eight)| all | of_eight(eight) << (at * 8));
    }
    bytes.iter().enumerate().fold(0, |all, (at, &byte)| all | u64::from(reads(byte)) << at)
}
