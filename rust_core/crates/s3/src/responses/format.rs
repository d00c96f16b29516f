//! Formatting of header values (entity tags, lengths, ranges, dates), which are appended to a caller's buffer.
//!
//! Nothing is allocated while the buffer has the room that each function names. Eight digits are computed at a time in
//! one word. The text of recent days is kept in a table that all threads share.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use orcas_checksum::Etag;
use orcas_http::calendar::civil_from_days;

/// Bytes that a decimal may need in a buffer: eight are written at a time, and those without a digit taken back.
pub const DECIMAL_ROOM: usize = 24;
/// Bytes that the value of an ETag may need in a buffer.
pub const ETAG_ROOM: usize = 34 + DECIMAL_ROOM;
/// Bytes of an HTTP date (IMF-fixdate, RFC 9110, section 5.6.7).
pub const HTTP_DATE_LEN: usize = 29;
/// Bytes that the value of a Content-Range may need in a buffer.
pub const CONTENT_RANGE_ROOM: usize = 6 + 2 * 21 + DECIMAL_ROOM;

/// Appends an entity tag in its quotes: 32 hexadecimal digits, and `-N` for a multipart object. Needs `ETAG_ROOM`.
#[inline]
pub fn format_etag(out: &mut Vec<u8>, etag: &Etag) {
    let text: &mut [u8; 34] = room(out);
    text[0] = b'"';
    text[1..33].copy_from_slice(etag.hex().as_flattened());
    text[33] = b'"';
    if etag.parts > 0 {
        text[33] = b'-';
        format_decimal(out, u64::from(etag.parts));
        out.push(b'"');
    }
}

/// Appends a number of bytes in decimal. Needs `DECIMAL_ROOM`.
#[inline]
pub fn format_content_length(out: &mut Vec<u8>, length: u64) {
    format_decimal(out, length);
}

/// Appends the HTTP date of a time in milliseconds since 1970, in whole seconds; times before 1970 or after the year
/// 9999 are clamped. Needs `HTTP_DATE_LEN`.
#[inline]
pub fn format_last_modified(out: &mut Vec<u8>, modified_ms: i64) {
    write_http_date(room(out), modified_ms);
}

/// Appends `bytes FIRST-LAST/SIZE`, positions in bytes, last included. Needs `CONTENT_RANGE_ROOM`.
#[inline]
pub fn format_content_range(out: &mut Vec<u8>, first: u64, last: u64, size: u64) {
    let text: &mut [u8; CONTENT_RANGE_ROOM] = room(out);
    text[..6].copy_from_slice(b"bytes ");
    let mut at = 6;
    for (number, behind) in [(first, b'-'), (last, b'/'), (size, 0)] {
        at += write_decimal(&mut text[at..], number);
        text[at] = behind;
        at += 1;
    }
    out.truncate(out.len() - CONTENT_RANGE_ROOM + at - 1);
}

/// Appends the Content-Range of a 416, `bytes */SIZE`.
pub fn format_unsatisfied_range(out: &mut Vec<u8>, size: u64) {
    out.extend_from_slice(b"bytes */");
    format_decimal(out, size);
}

/// Appends a number in decimal. Needs `DECIMAL_ROOM`.
#[inline]
pub fn format_decimal(out: &mut Vec<u8>, number: u64) {
    let text: &mut [u8; DECIMAL_ROOM] = room(out);
    let length = write_decimal(text, number);
    out.truncate(out.len() - DECIMAL_ROOM + length);
}

/// `N` more bytes at the end of the buffer. What is written there in pieces is not read again soon: the processor would
/// wait for its own stores.
fn room<const N: usize>(out: &mut Vec<u8>) -> &mut [u8; N] {
    out.extend_from_slice(&[0; N]);
    out.last_chunk_mut().expect("as many bytes were just appended")
}

/// Writes a number in decimal into at least `DECIMAL_ROOM` bytes, and returns how many digits it has.
#[inline]
fn write_decimal(text: &mut [u8], number: u64) -> usize {
    if number >= EIGHT_DIGITS {
        return write_long_decimal(text, number);
    }
    let digits = eight_digits(number);
    // The last digit stays even where it is a zero.
    let zeros = (digits | 1 << 56).trailing_zeros() / 8;
    text[..8].copy_from_slice(&((digits + ZEROS) >> (8 * zeros)).to_le_bytes());
    8 - zeros as usize
}

/// Apart, so that the registers it needs are not saved for the others.
#[inline(never)]
fn write_long_decimal(text: &mut [u8], number: u64) -> usize {
    let length = write_decimal(text, number / EIGHT_DIGITS);
    text[length..length + 8].copy_from_slice(&padded_digits(number % EIGHT_DIGITS));
    length + 8
}

const EIGHT_DIGITS: u64 = 100_000_000;
/// Eight times the digit zero.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The eight digits of a number below 10^8, leading zeros included.
fn padded_digits(number: u64) -> [u8; 8] {
    (eight_digits(number) + ZEROS).to_le_bytes()
}

/// The values of the eight digits of a number below 10^8, first one in the lowest byte. Each step splits every lane of
/// the word in two: a quotient stays in its lane's lower half, and the remainder goes to the upper one.
fn eight_digits(number: u64) -> u64 {
    let fours = split(number, number / 10_000, 10_000, 32);
    let twos = split(fours, ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f, 100, 16);
    split(twos, ((twos * 103) >> 10) & 0x000f_000f_000f_000f, 10, 8)
}

/// `quotients | (lanes - quotients * divisor) << width`, in each lane.
fn split(lanes: u64, quotients: u64, divisor: u64, width: u32) -> u64 {
    (lanes << width) - quotients * ((divisor << width) - 1)
}

/// The HTTP date of a time in milliseconds since 1970, as `format_last_modified` appends it.
#[inline]
pub fn write_http_date(text: &mut [u8; HTTP_DATE_LEN], ms: i64) {
    const YEAR_9999_END_MS: i64 = 253_402_300_799_999;
    const DAY_MS: u64 = 86_400_000;
    #[cold]
    fn clamped(ms: i64) -> i64 {
        ms.clamp(0, YEAR_9999_END_MS)
    }
    let ms = if (0..=YEAR_9999_END_MS).contains(&ms) { ms } else { clamped(ms) } as u64;
    let (day, month) = day_text(ms / DAY_MS);
    text[..8].copy_from_slice(&day.to_le_bytes());
    text[8..16].copy_from_slice(&month.to_le_bytes());
    text[16] = b' ';
    text[17..25].copy_from_slice(&clock_text(ms % DAY_MS / 1000).to_le_bytes());
    text[25..].copy_from_slice(b" GMT");
}

/// `hh:mm:ss` of a second of the day, first character in the lowest byte. Hours, minutes and seconds stand three bytes
/// apart, so that one step splits each into its digits.
fn clock_text(second: u64) -> u64 {
    const COLONS: u64 = u64::from_le_bytes(*b"00:00:00");
    let (hour, minute) = (second / 3600, second / 60);
    let pairs = hour | ((minute - hour * 60) << 24) | ((second - minute * 60) << 48);
    split(pairs, ((pairs * 103) >> 10) & 0x000f_0000_0f00_000f, 10, 8) + COLONS
}

/// Days whose text is remembered: almost three years of objects, each second of which is a hit.
pub const DAYS_MAX: usize = 1024;

/// One entry of the table. The low half of `state` is the day plus one, or 0 if the entry is empty. The high half counts
/// the days that were stored here, and has `BUSY` set during a write. A reader that sees a change takes it for a miss.
#[repr(align(32))]
struct Slot {
    state: AtomicU64,
    day: AtomicU64,
    month: AtomicU64,
}

const BUSY: u64 = 1 << 63;

static DAYS: [Slot; DAYS_MAX] =
    [const { Slot { state: AtomicU64::new(0), day: AtomicU64::new(0), month: AtomicU64::new(0) } }; DAYS_MAX];

/// `Thu, 01 ` and `Jan 1970` for a count of days since then, first characters in the lowest bytes.
#[inline]
fn day_text(day: u64) -> (u64, u64) {
    let slot = &DAYS[day as usize % DAYS_MAX];
    let state = slot.state.load(Ordering::Acquire);
    if state as u32 == day as u32 + 1 {
        let text = (slot.day.load(Ordering::Relaxed), slot.month.load(Ordering::Relaxed));
        // A reader that sees a word of another day sees, behind the fence, that the state is another too.
        fence(Ordering::Acquire);
        if slot.state.load(Ordering::Relaxed) == state {
            return text;
        }
    }
    remember_day(slot, state, day)
}

#[cold]
fn remember_day(slot: &Slot, state: u64, day: u64) -> (u64, u64) {
    let text = write_day(day);
    let count = ((state >> 32) + 1) << 32 & !BUSY;
    // If another thread is writing the entry, this one does not store its own: nobody waits.
    let taken = state & BUSY == 0
        && slot.state.compare_exchange(state, count | BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok();
    if taken {
        fence(Ordering::Release);
        slot.day.store(text.0, Ordering::Relaxed);
        slot.month.store(text.1, Ordering::Relaxed);
        slot.state.store(count | (day + 1), Ordering::Release);
    }
    text
}

fn write_day(day: u64) -> (u64, u64) {
    // 1970 began with a Thursday.
    const WEEKDAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
    const MONTHS: [&[u8; 3]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let (year, month, of_month) = civil_from_days(day as i64);
    let (mut first, mut second) = (*b"Thu, 01 ", *b"Jan 1970");
    first[..3].copy_from_slice(WEEKDAYS[day as usize % 7]);
    first[5..7].copy_from_slice(&padded_digits(of_month as u64)[6..]);
    second[..3].copy_from_slice(MONTHS[month as usize - 1]);
    second[4..].copy_from_slice(&padded_digits(year as u64)[4..]);
    (u64::from_le_bytes(first), u64::from_le_bytes(second))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain;
    use proptest::prelude::*;

    fn made(write: impl FnOnce(&mut Vec<u8>)) -> String {
        // What stands in the buffer already stays.
        let mut out = b"before".to_vec();
        write(&mut out);
        String::from_utf8(out).unwrap().strip_prefix("before").unwrap().to_owned()
    }

    fn date(ms: i64) -> String {
        made(|out| format_last_modified(out, ms))
    }

    /// Numbers of any count of digits, and those around a power of ten or two.
    fn numbers() -> impl Strategy<Value = u64> {
        prop_oneof![
            (any::<u64>(), 0u32..64).prop_map(|(number, shift)| number >> shift),
            (0u32..20, -2i64..3).prop_map(|(power, off)| 10u64.pow(power).saturating_add_signed(off)),
            Just(u64::MAX),
            Just(0),
        ]
    }

    /// Times of all years, beyond both ends, and in the years that there are objects of.
    fn times() -> impl Strategy<Value = i64> {
        prop_oneof![
            any::<i64>(),
            -1_000_000i64..253_402_300_800_000 + 1_000_000,
            1_500_000_000_000i64..2_000_000_000_000,
            Just(i64::MIN),
            Just(i64::MAX),
        ]
    }

    proptest! {
        #[test]
        fn values_are_the_straightforward_ones(
            md5 in any::<[u8; 16]>(), parts in any::<u16>(), a in numbers(), b in numbers(), c in numbers(), ms in times(),
        ) {
            prop_assert_eq!(made(|out| format_etag(out, &Etag { md5, parts })), plain::etag(md5, parts));
            prop_assert_eq!(made(|out| format_etag(out, &Etag { md5, parts: 0 })), plain::etag(md5, 0));
            prop_assert_eq!(made(|out| format_content_length(out, a)), plain::content_length(a));
            prop_assert_eq!(made(|out| format_content_range(out, a, b, c)), plain::content_range(a, b, c));
            prop_assert_eq!(made(|out| format_unsatisfied_range(out, a)), format!("bytes */{a}"));
            prop_assert_eq!(date(ms), plain::last_modified(ms));
        }
    }

    #[test]
    fn nothing_is_allocated_in_a_buffer_with_the_room_named() {
        let etag = Etag { md5: [0xff; 16], parts: u16::MAX };
        type Writer<'a> = &'a dyn Fn(&mut Vec<u8>);
        let writers: [(usize, Writer<'_>); 4] = [
            (ETAG_ROOM, &|out| format_etag(out, &etag)),
            (DECIMAL_ROOM, &|out| format_content_length(out, u64::MAX)),
            (HTTP_DATE_LEN, &|out| format_last_modified(out, i64::MAX)),
            (CONTENT_RANGE_ROOM, &|out| format_content_range(out, u64::MAX, u64::MAX, u64::MAX)),
        ];
        for (room, write) in writers {
            let mut out = Vec::with_capacity(room);
            let before = (out.as_ptr(), out.capacity());
            write(&mut out);
            assert_eq!((out.as_ptr(), out.capacity()), before);
        }
    }

    #[test]
    fn every_group_of_eight_digits_and_every_second_of_a_day() {
        // Every pair of halves takes the same steps in each half, so it is enough to see each half whole.
        for number in 0..10_000 {
            for other in [0, 1, 99, 100, 1234, 9999] {
                for eight in [number * 10_000 + other, other * 10_000 + number] {
                    assert_eq!(made(|out| format_decimal(out, eight)), eight.to_string());
                    assert_eq!(padded_digits(eight), *format!("{eight:08}").as_bytes());
                }
            }
        }
        for second in 0..86_400 {
            let expected = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
            assert_eq!(clock_text(second).to_le_bytes(), expected.as_bytes());
        }
    }

    #[test]
    fn dates_are_clamped_and_never_panic() {
        assert_eq!(date(i64::MIN), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date(-1), date(0));
        assert_eq!(date(253_402_300_799_999), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(date(i64::MAX), date(253_402_300_799_999));
    }

    #[test]
    fn every_day_is_right_when_it_is_new_and_when_it_is_remembered() {
        const DAY_MS: i64 = 86_400_000;
        for day in (0..2_932_897).step_by(61).chain([2_932_896]) {
            let ms = day * DAY_MS + day % DAY_MS;
            assert_eq!(date(ms), plain::last_modified(ms));
            assert_eq!(date(ms), plain::last_modified(ms));
        }
    }

    /// Threads that take each other's places in the table, at once and all the time.
    #[test]
    fn no_thread_sees_the_day_of_another() {
        const DAY_MS: i64 = 86_400_000;
        let dates: Vec<(i64, String)> = (0..6)
            .flat_map(|round| (0..3).map(move |place| (round * DAYS_MAX as i64 + place) * DAY_MS))
            .map(|ms| (ms, plain::last_modified(ms)))
            .collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let dates = &dates;
                scope.spawn(move || {
                    for turn in 0..200_000usize {
                        let (ms, expected) = &dates[(turn * (thread * 2 + 1) + turn / 7) % dates.len()];
                        assert_eq!(&date(*ms), expected);
                    }
                });
            }
        });
    }
}
