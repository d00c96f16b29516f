//! The date of a request: `YYYYMMDD'T'HHMMSS'Z'` as signatures spell it, and the HTTP date that may stand in its place.

use std::time::UNIX_EPOCH;

use orcas_http::calendar::{civil_from_days, days_from_civil};

/// A moment to the second, with the spelling that enters the string to sign. Years 1970 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timestamp {
    unix_s: i64,
    text: [u8; 16],
}

/// The last second of the year 9999.
const UNIX_S_MAX: i64 = 253_402_300_799;

impl Timestamp {
    /// `None` outside the years 1970 to 9999.
    pub(super) fn from_unix_s(unix_s: i64) -> Option<Self> {
        if !(0..=UNIX_S_MAX).contains(&unix_s) {
            return None;
        }
        let (year, month, day) = civil_from_days(unix_s / 86_400);
        let second_of_day = unix_s % 86_400;
        let mut text = *b"00000000T000000Z";
        put_digits(&mut text[0..4], year);
        put_digits(&mut text[4..6], month);
        put_digits(&mut text[6..8], day);
        put_digits(&mut text[9..11], second_of_day / 3600);
        put_digits(&mut text[11..13], second_of_day / 60 % 60);
        put_digits(&mut text[13..15], second_of_day % 60);
        Some(Self { unix_s, text })
    }

    /// Reads `20130524T000000Z`, nothing looser.
    pub(super) fn parse_iso(raw: &[u8]) -> Option<Self> {
        let text: [u8; 16] = raw.try_into().ok()?;
        let (year, month, day) = (digits(&text[0..4])?, digits(&text[4..6])?, digits(&text[6..8])?);
        let (hour, minute, second) = (digits(&text[9..11])?, digits(&text[11..13])?, digits(&text[13..15])?);
        let unix_s = days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
        // Writing it out again refuses the 31st of February, the 61st second and any letter out of place.
        Self::from_unix_s(unix_s).filter(|timestamp| timestamp.text == text)
    }

    /// Reads an HTTP date; `-0000` and `+0000` (as Python's `email.utils` writes them) mean GMT.
    pub(super) fn parse_http(raw: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(raw).ok()?.trim();
        let zoned = text.strip_suffix("-0000").or_else(|| text.strip_suffix("+0000"));
        let moment = match zoned {
            Some(local) => httpdate::parse_http_date(&format!("{local}GMT")),
            None => httpdate::parse_http_date(text),
        };
        let unix_s = moment.ok()?.duration_since(UNIX_EPOCH).ok()?.as_secs();
        Self::from_unix_s(i64::try_from(unix_s).ok()?)
    }

    pub(super) fn unix_ms(&self) -> i64 {
        self.unix_s * 1000
    }

    pub(super) fn as_bytes(&self) -> &[u8; 16] {
        &self.text
    }

    /// `YYYYMMDD`, as it stands in the credential scope.
    pub(super) fn day(&self) -> [u8; 8] {
        let mut day = [0; 8];
        day.copy_from_slice(&self.text[..8]);
        day
    }
}

fn put_digits(out: &mut [u8], mut value: i64) {
    for digit in out.iter_mut().rev() {
        *digit = b"0123456789"[(value % 10) as usize];
        value /= 10;
    }
}

fn digits(raw: &[u8]) -> Option<i64> {
    raw.iter().try_fold(0i64, |sum, &byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
}
