//! Times in request headers and documents, in the forms of ISO 8601 that S3 accepts: a date and a time of day with `Z`
//! or an offset, and a date alone, which is its first instant.

use orcas_http::calendar::{civil_from_days, days_from_civil};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::iso_time;
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
