//! Addresses that have sent many wrong signatures or unknown access keys: their requests are refused for a while, before
//! anything of them is verified. What one address sends never counts against another. Pure.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

/// Addresses that are remembered, in sets of a few, in one of which an address has its place.
const PLACES: usize = 4096;
const WAYS: usize = 8;
/// Failures count together that are not further apart.
const WINDOW_MS: i64 = 60_000;
/// How long the first time is; each further one is twice as long.
const FIRST_MS: i64 = 10_000;
const LONGEST_MS: i64 = 600_000;
/// After so long without another one, an address begins anew.
const FORGOTTEN_MS: i64 = 3_600_000;

#[derive(Clone, Debug, Default)]
pub struct LockoutOptions {
    /// Wrong signatures of an address within a minute; zero locks nobody out.
    pub failures: u32,
    /// Whether addresses of this machine are locked out, too.
    pub loopback: bool,
    /// Addresses and networks that are never locked out, such as `10.0.0.0/8`.
    pub spared: Vec<String>,
}

pub struct Lockouts {
    failures_max: u32,
    loopback: bool,
    spared: Vec<(u128, u128)>,
    /// Empty until the first failure.
    places: Mutex<Vec<Place>>,
    hasher: RandomState,
    /// When the last one ends that is under way: before anybody was locked out, nothing else is looked at.
    until_ms: AtomicI64,
    total: AtomicU64,
}

#[derive(Clone, Copy, Default)]
struct Place {
    /// Zero: nobody's.
    address: u128,
    failures: u32,
    times: u32,
    since_ms: i64,
    until_ms: i64,
}

impl Lockouts {
    pub fn new(options: &LockoutOptions) -> Self {
        Self {
            failures_max: options.failures,
            loopback: options.loopback,
            spared: options.spared.iter().filter_map(|network| range(network)).collect(),
            places: Mutex::default(),
            hasher: RandomState::new(),
            until_ms: AtomicI64::new(i64::MIN),
            total: AtomicU64::new(0),
        }
    }

    /// Milliseconds for which `client` is still locked out.
    pub fn left_ms(&self, client: Option<IpAddr>, now_ms: i64) -> Option<i64> {
        if now_ms >= self.until_ms.load(Ordering::Relaxed) {
            return None;
        }
        let address = whole(client?);
        let mut places = self.places.lock();
        let place = self.set(&mut places, address).iter().find(|place| place.address == address)?;
        (place.until_ms > now_ms).then_some(place.until_ms - now_ms)
    }

    /// A signature of `client` was wrong. Milliseconds for which it is locked out from now on, if it is.
    pub fn failed(&self, client: Option<IpAddr>, now_ms: i64) -> Option<i64> {
        let client = client?.to_canonical();
        if self.failures_max == 0 || (client.is_loopback() && !self.loopback) || self.is_spared(client) {
            return None;
        }
        let address = whole(client);
        let mut places = self.places.lock();
        if places.is_empty() {
            places.resize(PLACES, Place::default());
        }
        let set = self.set(&mut places, address);
        let found = set.iter().position(|place| place.address == address);
        // Else that of whoever has been quiet for longest, if possible not one that is locked out.
        let quietest = || (0..set.len()).min_by_key(|&at| (set[at].until_ms > now_ms, set[at].since_ms));
        let place = &mut set[found.or_else(quietest)?];
        if found.is_none() {
            *place = Place { address, ..Place::default() };
        }
        if now_ms - place.since_ms.max(place.until_ms) > FORGOTTEN_MS {
            place.times = 0;
        }
        if now_ms - place.since_ms > WINDOW_MS {
            (place.failures, place.since_ms) = (0, now_ms);
        }
        place.failures += 1;
        if place.failures < self.failures_max {
            return None;
        }
        let lasts_ms = FIRST_MS.checked_shl(place.times).map_or(LONGEST_MS, |ms| ms.clamp(FIRST_MS, LONGEST_MS));
        (place.failures, place.times) = (0, (place.times + 1).min(16));
        place.until_ms = now_ms + lasts_ms;
        self.until_ms.fetch_max(place.until_ms, Ordering::Relaxed);
        self.total.fetch_add(1, Ordering::Relaxed);
        Some(lasts_ms)
    }

    /// How often an address was locked out.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    fn is_spared(&self, client: IpAddr) -> bool {
        let bits = bits_of(client);
        self.spared.iter().any(|(network, mask)| bits & mask == *network)
    }

    fn set<'a>(&self, places: &'a mut [Place], address: u128) -> &'a mut [Place] {
        if places.is_empty() {
            return places;
        }
        let at = self.hasher.hash_one(address) as usize % (PLACES / WAYS) * WAYS;
        &mut places[at..at + WAYS]
    }
}

/// An address as that of version 6.
fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// What counts as one address: of version 6 a network of 64 bits, which is the least that a customer has.
fn whole(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V6(address) => u128::from(address) >> 64 << 64 | 1,
        address @ IpAddr::V4(_) => bits_of(address),
    }
}

/// The first address of a network and its mask.
fn range(network: &str) -> Option<(u128, u128)> {
    let (address, length) =
        network.split_once('/').map_or((network, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.parse().ok()?;
    let (bits, whole) = (bits_of(address), if address.is_ipv4() { 32 } else { 128 });
    let length: u32 = length.map_or(Some(whole), |length| length.parse().ok())?;
    let mask = u128::MAX.checked_shl(whole.checked_sub(length)?).unwrap_or(0);
    Some((bits & mask, mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    fn lockouts(failures: u32, loopback: bool, spared: &[&str]) -> Lockouts {
        let spared = spared.iter().map(|network| (*network).to_owned()).collect();
        Lockouts::new(&LockoutOptions { failures, loopback, spared })
    }

    fn at(text: &str) -> Option<IpAddr> {
        text.parse().ok()
    }

    fn fail(lockouts: &Lockouts, client: &str, times: usize, now_ms: i64) -> Option<i64> {
        (0..times).filter_map(|_| lockouts.failed(at(client), now_ms)).last()
    }

    #[test]
    fn an_address_is_locked_out_for_longer_each_time_and_nobody_else_is() {
        let lockouts = lockouts(3, false, &[]);
        let mut now = NOW;
        assert_eq!(fail(&lockouts, "192.0.2.1", 2, now), None);
        assert_eq!(lockouts.left_ms(at("192.0.2.1"), now), None);
        for lasts in [10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 600_000, 600_000] {
            let before = if lasts == 10_000 { 1 } else { 3 };
            assert_eq!(fail(&lockouts, "192.0.2.1", before, now), Some(lasts));
            assert_eq!(lockouts.left_ms(at("192.0.2.1"), now + lasts - 1), Some(1));
            // The same address, as a socket for both versions shows it.
            assert_eq!(lockouts.left_ms(at("::ffff:192.0.2.1"), now), Some(lasts));
            assert_eq!(lockouts.left_ms(at("192.0.2.2"), now), None);
            assert_eq!(lockouts.left_ms(None, now), None);
            now += lasts;
            assert_eq!(lockouts.left_ms(at("192.0.2.1"), now), None);
        }
        assert_eq!(lockouts.total(), 8);
        assert_eq!(fail(&lockouts, "192.0.2.1", 3, now + FORGOTTEN_MS + 1), Some(FIRST_MS));
    }

    #[test]
    fn failures_count_together_within_a_minute() {
        let lockouts = lockouts(2, false, &[]);
        assert_eq!(fail(&lockouts, "192.0.2.1", 1, NOW), None);
        assert_eq!(fail(&lockouts, "192.0.2.1", 1, NOW + WINDOW_MS + 1), None);
        assert_eq!(fail(&lockouts, "192.0.2.1", 1, NOW + 2 * WINDOW_MS), Some(FIRST_MS));
    }

    #[test]
    fn some_addresses_are_never_locked_out() {
        let spared = lockouts(1, false, &["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"]);
        for client in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.1.2.3", "192.0.2.7", "2001:db8:1::1"] {
            assert_eq!(spared.failed(at(client), NOW), None, "{client}");
        }
        for client in ["11.0.0.1", "192.0.2.8", "2001:db9::1"] {
            assert_eq!(spared.failed(at(client), NOW), Some(FIRST_MS), "{client}");
        }
        assert_eq!(lockouts(1, true, &[]).failed(at("127.0.0.1"), NOW), Some(FIRST_MS));
        assert_eq!(lockouts(0, true, &[]).failed(at("192.0.2.8"), NOW), None);
        assert_eq!(lockouts(1, false, &["0.0.0.0/0"]).failed(at("192.0.2.8"), NOW), None);
    }

    #[test]
    fn addresses_of_a_network_of_version_6_are_one() {
        let lockouts = lockouts(2, false, &[]);
        assert_eq!(fail(&lockouts, "2001:db8::1", 1, NOW), None);
        assert_eq!(fail(&lockouts, "2001:db8::2", 1, NOW), Some(FIRST_MS));
        assert_eq!(lockouts.left_ms(at("2001:db8:0:1::1"), NOW), None);
    }

    #[test]
    fn memory_is_bounded_and_who_is_locked_out_stays_for_as_long_as_possible() {
        let lockouts = lockouts(2, false, &[]);
        assert_eq!(fail(&lockouts, "192.0.2.1", 2, NOW), Some(FIRST_MS));
        for number in 0..100_000_u32 {
            lockouts.failed(Some(IpAddr::from(number.wrapping_add(0x0b00_0000).to_be_bytes())), NOW + 1);
        }
        assert_eq!(lockouts.places.lock().len(), PLACES);
        assert_eq!(lockouts.left_ms(at("192.0.2.1"), NOW + 1), Some(FIRST_MS - 1));
    }
}
