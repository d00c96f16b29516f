//! Values of conditions: numbers, dates, addresses.

use std::net::IpAddr;

pub(crate) fn parse_number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
    text.parse().ok().filter(|number: &f64| plain && number.is_finite())
}

/// Milliseconds since 1970, of a date as ISO 8601 has it (a year, a month, a day, or a time with its zone), or of seconds
/// since 1970. Four digits are a year.
pub(crate) fn parse_date_ms(text: &str) -> Option<i64> {
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let is_number =
        date.len() != 4 && date.bytes().enumerate().all(|(at, byte)| byte.is_ascii_digit() || at == 0 && byte == b'-');
    if is_number && time.is_none() {
        return date.parse::<i64>().ok()?.checked_mul(1000);
    }
    let mut parts = date.split('-');
    let year = digits(parts.next()?, 4)?;
    let month = parts.next().map_or(Some(1), |part| digits(part, 2))?;
    let day = parts.next().map_or(Some(1), |part| digits(part, 2))?;
    let is_day = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    if !is_day || parts.next().is_some() || time.is_some() && date.len() != 10 {
        return None;
    }
    let day_ms = days_since_1970(year, month, day) * 24 * HOUR_MS;
    time.map_or(Some(day_ms), |time| Some(day_ms + time_ms(time)?))
}

const HOUR_MS: i64 = 3_600_000;
const MINUTE_MS: i64 = 60_000;

/// `hh:mm`, `hh:mm:ss` or `hh:mm:ss.f` with a zone.
fn time_ms(text: &str) -> Option<i64> {
    let (clock, zone_ms) = match text.strip_suffix(['Z', 'z']) {
        Some(clock) => (clock, 0),
        None => {
            let sign = text.rfind(['+', '-'])?;
            let zone = &text[sign + 1..];
            let (hours, minutes) = zone.split_once(':').or_else(|| zone.split_at_checked(2))?;
            let ms = digits(hours, 2)? * HOUR_MS + digits(minutes, 2)? * MINUTE_MS;
            (&text[..sign], if text.as_bytes()[sign] == b'-' { -ms } else { ms })
        }
    };
    let (clock, fraction) = clock.split_once('.').map_or((clock, ""), |(clock, fraction)| (clock, fraction));
    let mut parts = clock.split(':');
    let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let second = parts.next().map_or(Some(0), |part| digits(part, 2))?;
    let is_time = hour < 24 && minute < 60 && second < 61 && parts.next().is_none();
    if !is_time || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let ms = fraction.bytes().chain(*b"000").take(3).fold(0, |ms, digit| ms * 10 + i64::from(digit - b'0'));
    Some(hour * HOUR_MS + minute * MINUTE_MS + second * 1000 + ms - zone_ms)
}

fn digits(text: &str, len: usize) -> Option<i64> {
    (text.len() == len && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let before = year - 1;
    let leap_days = before / 4 - before / 100 + before / 400;
    let months: i64 = (1..month).map(|month| days_in(year, month)).sum();
    year * 365 + leap_days + months + day - (1970 * 365 + 477) - 1
}

/// An address; one of version 4 that is written as one of version 6 is the same.
pub(crate) fn parse_address(text: &str) -> Option<IpAddr> {
    text.parse().ok().map(|address: IpAddr| address.to_canonical())
}

/// A block of addresses, as numbers of version 6 or 4.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Network {
    is_v4: bool,
    bits: u128,
    /// Bits at the end that may differ.
    open: u32,
}

fn number(address: IpAddr) -> (bool, u128) {
    match address {
        IpAddr::V4(address) => (true, u128::from(u32::from(address))),
        IpAddr::V6(address) => (false, u128::from(address)),
    }
}

impl Network {
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().ok()?;
        let (is_v4, bits) = number(address);
        let width: u32 = if is_v4 { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => {
                (prefix.len() <= 3 && prefix.bytes().all(|it| it.is_ascii_digit())).then_some(prefix)?.parse().ok()?
            }
            None => width,
        };
        let open = width.checked_sub(prefix)?;
        Some(Self { is_v4, bits, open })
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        let (is_v4, bits) = number(address);
        is_v4 == self.is_v4 && (bits ^ self.bits).checked_shr(self.open).unwrap_or(0) == 0
    }

    /// Whether it is so small that S3 does not call it public: at least 8 bits of version 4, 32 of version 6.
    pub fn is_narrow(&self) -> bool {
        if self.is_v4 { self.open <= 24 } else { self.open <= 96 }
    }
}
