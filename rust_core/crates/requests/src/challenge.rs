//! The challenge of an instant upload: proof that a client has the bytes whose hash it names, without sending them.
//!
//! Stateless: a token carries when it expires and the randomness that nonce and ranges come from, authenticated
//! together with all that it was issued for. The key is in memory only, so a restart invalidates all tokens. A client
//! that knows only the hash cannot answer, and the answer to one challenge is wrong for any other. Knows
//! nothing of the store.

use sha2::{Digest as _, Sha256};

use orcas_http::{hex, parse_hex};
use orcas_record::BucketId;

/// How long a challenge may be answered.
pub const LIFETIME_MS: i64 = 5 * 60 * 1000;
/// Ranges that a challenge asks for, and bytes of each. A smaller object is asked for whole.
const RANGES: u64 = 16;
const RANGE_LENGTH: u64 = 4096;

const TOKEN_LENGTH: usize = 8 + 32 + 32;

/// The subject of a challenge. A token is good for exactly this.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    pub owner: &'a [u8],
    pub bucket: BucketId,
    pub key: &'a [u8],
    pub size: u64,
    pub sha256: &'a [u8; 32],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    pub token: String,
    pub nonce: [u8; 32],
    /// First and last bytes, ascending; they may overlap.
    pub ranges: Vec<(u64, u64)>,
}

/// Why a token is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Not issued by this process for this claim.
    Foreign,
    Expired,
}

/// Issues challenges and verifies their tokens.
pub struct Challenger {
    key: [u8; 32],
}

impl Challenger {
    /// `random` must be unpredictable.
    pub fn new(random: &[u8; 32]) -> Self {
        Self { key: blake3::derive_key("orcas 2026 instant upload: tokens of challenges", random) }
    }

    /// `random` must be unpredictable, and new for each challenge.
    pub fn issue(&self, claim: &Claim<'_>, now_ms: i64, random: &[u8; 32]) -> Challenge {
        let expires_ms = now_ms.saturating_add(LIFETIME_MS);
        let mut token = Vec::with_capacity(TOKEN_LENGTH);
        token.extend_from_slice(&expires_ms.to_be_bytes());
        token.extend_from_slice(random);
        token.extend_from_slice(self.mac(claim, expires_ms, random).as_bytes());
        Challenge::new(hex(&token), claim.size, random)
    }

    /// The challenge that was issued with `token` for `claim`.
    pub fn open(&self, token: &[u8], claim: &Claim<'_>, now_ms: i64) -> Result<Challenge, Rejected> {
        let bytes: [u8; TOKEN_LENGTH] = parse_hex(token).ok_or(Rejected::Foreign)?;
        let (mut expires, mut random, mut mac) = ([0; 8], [0; 32], [0; 32]);
        expires.copy_from_slice(&bytes[..8]);
        random.copy_from_slice(&bytes[8..40]);
        mac.copy_from_slice(&bytes[40..]);
        let expires_ms = i64::from_be_bytes(expires);
        // In constant time, as all comparisons of `blake3::Hash`.
        if self.mac(claim, expires_ms, &random) != blake3::Hash::from_bytes(mac) {
            return Err(Rejected::Foreign);
        }
        // A clock that was set back must not prolong a challenge.
        if !(0..LIFETIME_MS + 1).contains(&expires_ms.saturating_sub(now_ms)) {
            return Err(Rejected::Expired);
        }
        Ok(Challenge::new(hex(&bytes), claim.size, &random))
    }

    /// Every field has a fixed length or its length before it, so no two claims have the same bytes.
    fn mac(&self, claim: &Claim<'_>, expires_ms: i64, random: &[u8; 32]) -> blake3::Hash {
        let mut mac = blake3::Hasher::new_keyed(&self.key);
        mac.update(&expires_ms.to_be_bytes()).update(random);
        mac.update(&claim.bucket.0.to_be_bytes()).update(&claim.size.to_be_bytes()).update(claim.sha256);
        for field in [claim.owner, claim.key] {
            mac.update(&(field.len() as u64).to_be_bytes()).update(field);
        }
        mac.finalize()
    }
}

impl Challenge {
    fn new(token: String, size: u64, random: &[u8; 32]) -> Self {
        let nonce = blake3::derive_key("orcas 2026 instant upload: nonce", random);
        Self { token, nonce, ranges: ranges(size, random) }
    }

    /// Starts to compute the answer; the bytes of the ranges follow in order.
    pub fn answer(&self) -> ExpectedAnswer {
        ExpectedAnswer(Sha256::new().chain_update(self.nonce))
    }
}

/// The right answer, computed from the stored bytes.
pub struct ExpectedAnswer(Sha256);

impl ExpectedAnswer {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Compares in constant time.
    pub fn is(self, given: &[u8; 32]) -> bool {
        let right: [u8; 32] = self.0.finalize().into();
        blake3::Hash::from_bytes(right) == blake3::Hash::from_bytes(*given)
    }
}

/// The ranges of an object of `size` bytes that a challenge asks for.
fn ranges(size: u64, random: &[u8; 32]) -> Vec<(u64, u64)> {
    if size <= RANGES * RANGE_LENGTH {
        return size.checked_sub(1).map(|last| (0, last)).into_iter().collect();
    }
    let mut places = blake3::Hasher::new_derive_key("orcas 2026 instant upload: ranges");
    let mut places = places.update(random).finalize_xof();
    let starts = u128::from(size - RANGE_LENGTH + 1);
    let mut ranges: Vec<(u64, u64)> = (0..RANGES)
        .map(|_| {
            let mut word = [0; 8];
            places.fill(&mut word);
            // The high half of the product is uniform up to one in 2^31 for the sizes of one upload.
            let first = ((u128::from(u64::from_be_bytes(word)) * starts) >> 64) as u64;
            (first, first + RANGE_LENGTH - 1)
        })
        .collect();
    ranges.sort_unstable();
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW_MS: i64 = 1_767_323_045_678;
    const SHA256: [u8; 32] = [7; 32];

    fn claim<'a>() -> Claim<'a> {
        Claim { owner: b"owner", bucket: BucketId(5), key: b"key", size: 1 << 20, sha256: &SHA256 }
    }

    #[test]
    fn a_token_opens_to_what_was_issued_until_it_expires() {
        let challenger = Challenger::new(&[1; 32]);
        let issued = challenger.issue(&claim(), NOW_MS, &[2; 32]);
        for later in [0, 1, LIFETIME_MS] {
            assert_eq!(challenger.open(issued.token.as_bytes(), &claim(), NOW_MS + later), Ok(issued.clone()));
        }
        for now_ms in [NOW_MS + LIFETIME_MS + 1, NOW_MS - 1, i64::MIN, i64::MAX] {
            assert_eq!(challenger.open(issued.token.as_bytes(), &claim(), now_ms), Err(Rejected::Expired));
        }
    }

    #[test]
    fn a_token_is_good_for_nothing_else() {
        let challenger = Challenger::new(&[1; 32]);
        let token = challenger.issue(&claim(), NOW_MS, &[2; 32]).token;
        let other = [8; 32];
        for wrong in [
            Claim { owner: b"other", ..claim() },
            Claim { bucket: BucketId(6), ..claim() },
            Claim { key: b"kez", ..claim() },
            Claim { key: b"", ..claim() },
            Claim { owner: b"ownerk", key: b"ey", ..claim() },
            Claim { size: (1 << 20) - 1, ..claim() },
            Claim { sha256: &other, ..claim() },
        ] {
            assert_eq!(challenger.open(token.as_bytes(), &wrong, NOW_MS), Err(Rejected::Foreign), "{wrong:?}");
        }
        let restarted = Challenger::new(&[3; 32]);
        assert_eq!(restarted.open(token.as_bytes(), &claim(), NOW_MS), Err(Rejected::Foreign));
    }

    #[test]
    fn no_byte_of_a_token_can_be_changed() {
        let challenger = Challenger::new(&[1; 32]);
        let token = challenger.issue(&claim(), NOW_MS, &[2; 32]).token;
        for at in 0..token.len() {
            let mut forged = token.clone().into_bytes();
            forged[at] = if forged[at] == b'0' { b'1' } else { b'0' };
            assert_eq!(challenger.open(&forged, &claim(), NOW_MS), Err(Rejected::Foreign), "at {at}");
        }
        for bad in ["", "00", &token[1..], &format!("{token}00"), &"g".repeat(token.len())] {
            assert_eq!(challenger.open(bad.as_bytes(), &claim(), NOW_MS), Err(Rejected::Foreign), "{bad}");
        }
    }

    #[test]
    fn answers_depend_on_nonce_and_bytes() {
        let challenger = Challenger::new(&[1; 32]);
        let right = |challenge: &Challenge, bytes: &[u8]| -> [u8; 32] {
            Sha256::new().chain_update(challenge.nonce).chain_update(bytes).finalize().into()
        };
        let (one, two) = (challenger.issue(&claim(), NOW_MS, &[2; 32]), challenger.issue(&claim(), NOW_MS, &[3; 32]));
        let check = |challenge: &Challenge, given: &[u8; 32]| {
            let mut answer = challenge.answer();
            answer.update(b"by");
            answer.update(b"tes");
            answer.is(given)
        };
        assert!(check(&one, &right(&one, b"bytes")));
        assert!(!check(&one, &right(&one, b"bytez")));
        assert!(!check(&two, &right(&one, b"bytes")));
        assert_ne!(one.ranges, two.ranges);
    }

    #[test]
    fn small_objects_are_asked_for_whole() {
        assert_eq!(ranges(0, &[1; 32]), []);
        assert_eq!(ranges(1, &[1; 32]), [(0, 0)]);
        assert_eq!(ranges(65_536, &[1; 32]), [(0, 65_535)]);
        assert_eq!(ranges(65_537, &[1; 32]).len(), 16);
    }

    #[test]
    fn every_part_of_an_object_can_be_asked_for() {
        let (size, tenth) = (1_000_000, 100_000);
        let mut hits = [0u32; 10];
        for seed in 0..=255u8 {
            for (first, _) in ranges(size, &[seed; 32]) {
                hits[usize::try_from(first / tenth).unwrap()] += 1;
            }
        }
        // 4,096 starts: about 410 in each tenth.
        assert!(hits.iter().all(|&hits| (300..520).contains(&hits)), "{hits:?}");
    }

    proptest! {
        #[test]
        fn ranges_lie_inside_the_object(size in 1u64..=5 << 30, random: [u8; 32]) {
            let ranges = ranges(size, &random);
            prop_assert!(!ranges.is_empty() && ranges.len() <= 16 && ranges.is_sorted());
            for (first, last) in ranges {
                prop_assert!(first <= last && last < size && (last - first < 4096 || size <= 65_536));
            }
        }

        #[test]
        fn whatever_comes_as_a_token_is_refused(token in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Challenger::new(&[1; 32]).open(&token, &claim(), NOW_MS), Err(Rejected::Foreign));
        }
    }
}
