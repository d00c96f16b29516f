//! Times in the forms of ISO 8601: written to the millisecond, and read as S3 accepts them in request headers and
//! documents: a date and a time of day with `Z` or an offset, and a date alone, which is its first instant.

use super::calendar::{civil_from_days, days_from_civil};

/// Milliseconds since the epoch; digits beyond milliseconds are dropped. `None` for what is no time, and for times
/// outside the years 1970 to 9999.
pub fn parse(text: &[u8]) -> Option<u64> {
    let (date, rest) = text.split_at_checked(10)?;
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = date else { return None };
    let (year, month, day) = (number(&[y1, y2, y3, y4])?, number(&[m1, m2])?, number(&[d1, d2])?);
    let days = days_from_civil(year, month, day);
    if civil_from_days(days) != (year, month, day) {
        return None;
    }
    let in_day_ms = match rest {
        b"" => 0,
        [b'T', time @ ..] => time_of_day_ms(time)?,
        _ => return None,
    };
    u64::try_from(days * 86_400_000 + in_day_ms).ok()
}

/// `hh:mm:ss`, a fraction, and the offset, which is subtracted.
fn time_of_day_ms(text: &[u8]) -> Option<i64> {
    let (time, rest) = text.split_at_checked(8)?;
    let &[h1, h2, b':', m1, m2, b':', s1, s2] = time else { return None };
    let (hour, minute, second) = (number(&[h1, h2])?, number(&[m1, m2])?, number(&[s1, s2])?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (fraction_ms, zone) = match rest {
        [b'.', digits @ ..] => {
            let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (digits, zone) = digits.split_at(length);
            let padded: [u8; 3] = std::array::from_fn(|at| digits.get(at).copied().unwrap_or(b'0'));
            (number(&padded).filter(|_| (1..=9).contains(&length))?, zone)
        }
        zone => (0, zone),
    };
    Some(((hour * 60 + minute - offset_minutes(zone)?) * 60 + second) * 1000 + fraction_ms)
}

fn offset_minutes(zone: &[u8]) -> Option<i64> {
    let (sign, digits) = match zone {
        b"Z" => return Some(0),
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return None,
    };
    let &([h1, h2, b':', m1, m2] | [h1, h2, m1, m2]) = digits else { return None };
    let (hours, minutes) = (number(&[h1, h2])?, number(&[m1, m2])?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 60 + minutes))
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |value, digit| digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0')))
}

/// Milliseconds since the epoch as `YYYY-MM-DDThh:mm:ss.mmmZ`. Times outside the years 0 to 9999 are clamped.
pub fn iso_time(ms: i64) -> [u8; 24] {
    const YEAR_0_MS: i64 = -62_167_219_200_000;
    const YEAR_9999_END_MS: i64 = 253_402_300_799_999;
    let ms = ms.clamp(YEAR_0_MS, YEAR_9999_END_MS);
    let (days, in_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000) as u32);
    let (year, month, day) = civil_from_days(days);
    let (year, seconds, millis) = (year as u32, in_day / 1000, in_day % 1000);
    let mut out = *b"0000-00-00T00:00:00.000Z";
    let mut put = |at: usize, value: u32| {
        out[at] = b'0' + (value / 10) as u8;
        out[at + 1] = b'0' + (value % 10) as u8;
    };
    put(0, year / 100);
    put(2, year % 100);
    put(5, month as u32);
    put(8, day as u32);
    put(11, seconds / 3600);
    put(14, seconds / 60 % 60);
    put(17, seconds % 60);
    put(20, millis / 10);
    out[22] = b'0' + (millis % 10) as u8;
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn forms_of_a_time() {
        for (text, ms) in [
            ("2026-01-02T03:04:05Z", 1_767_323_045_000),
            ("2026-01-02T03:04:05.678Z", 1_767_323_045_678),
            ("2026-01-02T03:04:05.6789Z", 1_767_323_045_678),
            ("2026-01-02T03:04:05.6+00:00", 1_767_323_045_600),
            ("2026-01-02T05:04:05+0200", 1_767_323_045_000),
            ("2026-01-01T21:34:05-05:30", 1_767_323_045_000),
            ("2026-01-02", 1_767_312_000_000),
            ("1970-01-01T00:00:00Z", 0),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(ms), "{text}");
        }
        for bad in [
            "",
            "abc",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-02T24:00:00Z",
            "2026-01-02T03:04Z",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05+1",
            "2026-01-02 03:04:05Z",
            "1969-12-31T23:59:59Z",
            "1767323045",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn times_are_written_to_the_millisecond() {
        assert_eq!(&iso_time(0), b"1970-01-01T00:00:00.000Z");
        assert_eq!(&iso_time(1_767_323_045_678), b"2026-01-02T03:04:05.678Z");
        assert_eq!(&iso_time(951_827_696_000), b"2000-02-29T12:34:56.000Z");
        assert_eq!(&iso_time(i64::MAX), b"9999-12-31T23:59:59.999Z");
        assert_eq!(&iso_time(i64::MIN), b"0000-01-01T00:00:00.000Z");
    }

    #[test]
    fn times_agree_with_an_independent_calendar() {
        for day in (0..60_000).step_by(7) {
            let ms = day * 86_400_000 + 3_661_000;
            let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(ms as u64);
            let http = httpdate::fmt_http_date(at);
            let iso = String::from_utf8(iso_time(ms).to_vec()).unwrap();
            assert_eq!((&iso[..4], &iso[8..10], &iso[11..19]), (&http[12..16], &http[5..7], &http[17..25]));
        }
    }

    proptest! {
        #[test]
        fn written_times_are_read(ms in 0i64..253_402_300_799_999) {
            prop_assert_eq!(parse(&iso_time(ms)), Some(ms as u64));
        }

        #[test]
        fn no_bytes_panic(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse(&text);
        }
    }
}
