//! Preconditions: reading the `If-*` headers of a read, a copy source and a write, and judging them.
//!
//! Reads follow the order of RFC 9110, section 13.2.2. A write's condition is parsed here, and judged where writes are
//! ordered.

use super::extensions::single;
use crate::errors::{ErrorCode, S3Error};
use orcas_checksum::Etag;
use orcas_http::Headers;

/// The entity tags a header names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ETagList {
    /// `*`: any existing object.
    Any,
    /// Opaque tags without quotes; true when weak.
    List(Vec<(bool, Vec<u8>)>),
}

impl ETagList {
    /// Reads `*` or a list; quotes are optional, as S3 clients often leave them out.
    fn parse(value: &[u8]) -> Self {
        if value.trim_ascii() == b"*" {
            return Self::Any;
        }
        let tags = value.split(|&b| b == b',').map(<[u8]>::trim_ascii).filter(|tag| !tag.is_empty());
        Self::List(
            tags.map(|tag| match tag.strip_prefix(b"W/") {
                Some(weak) => (true, unquoted(weak).to_vec()),
                None => (false, unquoted(tag).to_vec()),
            })
            .collect(),
        )
    }

    fn matches(&self, etag: &Etag, weak_counts: bool) -> bool {
        let Self::List(tags) = self else { return true };
        let own = etag.to_string();
        tags.iter().any(|(weak, tag)| (weak_counts || !weak) && tag.eq_ignore_ascii_case(own.as_bytes()))
    }
}

fn unquoted(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(tag)
}

/// The result of the preconditions of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreconditionResult {
    Proceed,
    NotModified,
    /// 412; the header that did not hold.
    Failed(&'static str),
}

/// The four header names of one family of preconditions, as sent and as shown in errors.
struct Names {
    if_match: &'static str,
    if_none_match: &'static str,
    if_modified_since: &'static str,
    if_unmodified_since: &'static str,
}

const READ: Names = Names {
    if_match: "if-match",
    if_none_match: "if-none-match",
    if_modified_since: "if-modified-since",
    if_unmodified_since: "if-unmodified-since",
};

const COPY: Names = Names {
    if_match: "x-amz-copy-source-if-match",
    if_none_match: "x-amz-copy-source-if-none-match",
    if_modified_since: "x-amz-copy-source-if-modified-since",
    if_unmodified_since: "x-amz-copy-source-if-unmodified-since",
};

const RENAME: Names = Names {
    if_match: "x-amz-rename-source-if-match",
    if_none_match: "x-amz-rename-source-if-none-match",
    if_modified_since: "x-amz-rename-source-if-modified-since",
    if_unmodified_since: "x-amz-rename-source-if-unmodified-since",
};

/// All conditions that a rename can have, on its source and on its destination.
pub const OF_A_RENAME: &[&str] = &[
    READ.if_match,
    READ.if_none_match,
    READ.if_modified_since,
    READ.if_unmodified_since,
    RENAME.if_match,
    RENAME.if_none_match,
    RENAME.if_modified_since,
    RENAME.if_unmodified_since,
];

/// The conditions that only a deletion has.
const IF_MATCH_MODIFIED: &str = "x-amz-if-match-last-modified-time";
const IF_MATCH_SIZE: &str = "x-amz-if-match-size";
pub const OF_A_DELETION: &[&str] = &[IF_MATCH_MODIFIED, IF_MATCH_SIZE];

/// The preconditions of a read of an existing object. Times are seconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadConditions {
    pub if_match: Option<ETagList>,
    pub if_none_match: Option<ETagList>,
    pub if_modified_since: Option<i64>,
    pub if_unmodified_since: Option<i64>,
}

impl ReadConditions {
    /// The preconditions of GET and HEAD.
    pub fn of_read(headers: &Headers<'_>) -> Self {
        Self::parse(headers, &READ)
    }

    /// The preconditions on the source of a copy.
    pub fn of_copy_source(headers: &Headers<'_>) -> Self {
        Self::parse(headers, &COPY)
    }

    /// The preconditions on the source of a rename.
    pub fn of_rename_source(headers: &Headers<'_>) -> Self {
        Self::parse(headers, &RENAME)
    }

    fn parse(headers: &Headers<'_>, names: &Names) -> Self {
        let tags = |name| {
            let mut values = headers.get_all(name).peekable();
            values.peek()?;
            Some(ETagList::parse(&values.collect::<Vec<_>>().join(&b","[..])))
        };
        let time = |name| headers.get(name).and_then(parse_http_date);
        Self {
            if_match: tags(names.if_match),
            if_none_match: tags(names.if_none_match),
            if_modified_since: time(names.if_modified_since),
            if_unmodified_since: time(names.if_unmodified_since),
        }
    }

    /// Without a condition on a time that is still to come, which S3 ignores.
    pub fn at(self, now_ms: impl FnOnce() -> i64) -> Self {
        let if_modified_since = self.if_modified_since.filter(|time| *time <= now_ms().div_euclid(1000));
        Self { if_modified_since, ..self }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Judges a GET or HEAD. `modified_ms` is milliseconds since the epoch and counts in whole seconds, as
    /// Last-Modified shows it.
    pub fn judge(&self, etag: &Etag, modified_ms: i64) -> PreconditionResult {
        let modified = modified_ms.div_euclid(1000);
        match (&self.if_match, self.if_unmodified_since) {
            (Some(tags), _) if !tags.matches(etag, false) => return PreconditionResult::Failed("If-Match"),
            (None, Some(limit)) if modified > limit => return PreconditionResult::Failed("If-Unmodified-Since"),
            _ => {}
        }
        match (&self.if_none_match, self.if_modified_since) {
            (Some(tags), _) if tags.matches(etag, true) => PreconditionResult::NotModified,
            (None, Some(limit)) if modified <= limit => PreconditionResult::NotModified,
            _ => PreconditionResult::Proceed,
        }
    }

    /// Judges the source of a copy or rename, where every failure is 412.
    pub fn judge_source(&self, etag: &Etag, modified_ms: i64) -> Result<(), S3Error> {
        match self.judge(etag, modified_ms) {
            PreconditionResult::Proceed => Ok(()),
            PreconditionResult::Failed("If-Match") => Err(S3Error::precondition("x-amz-copy-source-If-Match")),
            PreconditionResult::Failed(_) => Err(S3Error::precondition("x-amz-copy-source-If-Unmodified-Since")),
            PreconditionResult::NotModified if self.if_none_match.is_some() => {
                Err(S3Error::precondition("x-amz-copy-source-If-None-Match"))
            }
            PreconditionResult::NotModified => Err(S3Error::precondition("x-amz-copy-source-If-Modified-Since")),
        }
    }
}

/// Whether an `If-Range` header lets the Range apply: a strong tag that matches, or the exact time last modified.
pub fn if_range_holds(value: &[u8], etag: &Etag, modified_ms: i64) -> bool {
    match parse_http_date(value) {
        Some(time) => time == modified_ms.div_euclid(1000),
        None => !value.starts_with(b"W/") && Etag::parse(value.trim_ascii()) == Some(*etag),
    }
}

/// The condition on the key under which a write or delete happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCondition {
    Always,
    /// `If-None-Match: *`
    Absent,
    /// `If-Match: *`
    Present,
    /// `If-Match` with an entity tag.
    Matches(Etag),
    /// `If-Match` with a tag that no object here can have.
    MatchesNothing,
}

impl WriteCondition {
    /// Reads the condition on the destination of a write that stores content. Anything but `If-None-Match: *` or
    /// `If-Match` with an entity tag is `NotImplemented`, as in S3.
    pub fn of_write(headers: &Headers<'_>) -> Result<Self, S3Error> {
        match Self::parse(headers)? {
            Self::Present => Err(value_not_accepted("If-Match")),
            condition => Ok(condition),
        }
    }

    /// Reads the condition on what a request changes. Anything but the forms above is `NotImplemented`, as in S3.
    pub fn parse(headers: &Headers<'_>) -> Result<Self, S3Error> {
        for time in [READ.if_modified_since, READ.if_unmodified_since] {
            if headers.get(time).is_some() {
                return Err(S3Error::header_not_implemented(time.as_bytes()));
            }
        }
        Self::parse_tags(headers)
    }

    fn parse_tags(headers: &Headers<'_>) -> Result<Self, S3Error> {
        let mut all = headers.get_all(READ.if_match).chain(headers.get_all(READ.if_none_match));
        let Some(value) = all.next().map(<[u8]>::trim_ascii) else { return Ok(Self::Always) };
        if all.next().is_some() {
            let message = "Multiple conditional request headers present in the request";
            return Err(not_implemented("If-Match,If-None-Match", message.to_owned()));
        }
        if headers.get(READ.if_none_match).is_some() {
            return match value {
                b"*" => Ok(Self::Absent),
                _ => Err(value_not_accepted("If-None-Match")),
            };
        }
        match value {
            b"*" => Ok(Self::Present),
            _ if value.contains(&b',') => Err(value_not_accepted("If-Match")),
            _ => Ok(Self::of_tag(value)),
        }
    }

    /// The condition that an object has the tag `value`, quoted or not; weak tags match nothing.
    pub fn of_tag(value: &[u8]) -> Self {
        Etag::parse(value).map_or(Self::MatchesNothing, Self::Matches)
    }

    /// Judges against the current object. A missing object fails `If-Match` as `NoSuchKey`.
    pub fn judge(&self, current: Option<&Etag>) -> Result<(), ErrorCode> {
        match (self, current) {
            (Self::Always, _) | (Self::Absent, None) | (Self::Present, Some(_)) => Ok(()),
            (Self::Matches(wanted), Some(etag)) if wanted == etag => Ok(()),
            (Self::Present | Self::Matches(_) | Self::MatchesNothing, None) => Err(ErrorCode::NoSuchKey),
            (Self::Absent | Self::Matches(_) | Self::MatchesNothing, Some(_)) => Err(ErrorCode::PreconditionFailed),
        }
    }
}

/// The conditions on an object that is to be deleted. The time is in seconds since the epoch, the size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteCondition {
    pub tag: WriteCondition,
    pub modified: Option<i64>,
    pub size: Option<u64>,
}

impl DeleteCondition {
    pub const ALWAYS: Self = Self { tag: WriteCondition::Always, modified: None, size: None };

    /// A value that cannot be read is refused: to pass over it would delete what the client wants to keep.
    pub fn parse(headers: &Headers<'_>) -> Result<Self, S3Error> {
        Ok(Self {
            tag: WriteCondition::parse(headers)?,
            modified: read(headers, IF_MATCH_MODIFIED, parse_http_date)?,
            size: read(headers, IF_MATCH_SIZE, parse_size)?,
        })
    }

    /// Reads a `LastModifiedTime` of a Delete document.
    pub fn parse_modified(text: &str) -> Option<i64> {
        parse_http_date(text.as_bytes())
    }

    /// Reads a `Size` of a Delete document.
    pub fn parse_size(text: &str) -> Option<u64> {
        parse_size(text.as_bytes())
    }
}

/// The conditions on the destination of a rename. Times are seconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenameCondition {
    pub tag: WriteCondition,
    pub if_modified_since: Option<i64>,
    pub if_unmodified_since: Option<i64>,
}

impl RenameCondition {
    pub fn parse(headers: &Headers<'_>) -> Result<Self, S3Error> {
        let time = |name| headers.get(name).and_then(parse_http_date);
        Ok(Self {
            tag: WriteCondition::parse_tags(headers)?,
            if_modified_since: time(READ.if_modified_since),
            if_unmodified_since: time(READ.if_unmodified_since),
        })
    }
}

/// `NotImplemented` for the value of a conditional header.
fn value_not_accepted(name: &'static str) -> S3Error {
    not_implemented(name, format!("We don't accept the provided value of {name} header for this API"))
}

fn not_implemented(header: &'static str, more: String) -> S3Error {
    S3Error::header_not_on_s3(header).field("additionalMessage", more)
}

/// The one value of a header that must be readable.
fn read<T>(
    headers: &Headers<'_>,
    name: &'static str,
    parse: impl Fn(&[u8]) -> Option<T>,
) -> Result<Option<T>, S3Error> {
    let Some(value) = single(headers, name)? else { return Ok(None) };
    parse(value).map(Some).ok_or_else(|| S3Error::argument("The value of the condition is not valid", name, value))
}

/// Decimal digits, at most 18446744073709551615.
pub(crate) fn parse_size(value: &[u8]) -> Option<u64> {
    let digits = value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
}

/// Seconds since the epoch of an HTTP date in any of its three forms; `None` when malformed, which RFC 9110 ignores.
pub(crate) fn parse_http_date(value: &[u8]) -> Option<i64> {
    let time = httpdate::parse_http_date(std::str::from_utf8(value).ok()?.trim()).ok()?;
    i64::try_from(time.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODIFIED_MS: i64 = 1_767_323_045_678;
    const AT: &str = "Fri, 02 Jan 2026 03:04:05 GMT";
    const BEFORE: &str = "Fri, 02 Jan 2026 03:04:04 GMT";

    fn tag() -> Etag {
        Etag::parse(b"d41d8cd98f00b204e9800998ecf8427e").unwrap()
    }

    fn with<T>(headers: &[(&str, &str)], read: impl Fn(&Headers<'_>) -> T) -> T {
        let list: Vec<(&[u8], &[u8])> = headers.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
        read(&Headers::new(&list))
    }

    fn judge(headers: &[(&str, &str)]) -> PreconditionResult {
        with(headers, ReadConditions::of_read).judge(&tag(), MODIFIED_MS)
    }

    #[test]
    fn reads_follow_the_order_of_the_rfc() {
        let own = "\"d41d8cd98f00b204e9800998ecf8427e\"";
        let bare = "d41d8cd98f00b204e9800998ecf8427e";
        let weak = "W/\"d41d8cd98f00b204e9800998ecf8427e\"";
        let (matched, none) = ("if-match", "if-none-match");
        let (since, unmodified) = ("if-modified-since", "if-unmodified-since");
        for (headers, verdict) in [
            (vec![], PreconditionResult::Proceed),
            (vec![(matched, own)], PreconditionResult::Proceed),
            (vec![(matched, bare)], PreconditionResult::Proceed),
            (vec![(matched, "*")], PreconditionResult::Proceed),
            (vec![(matched, "\"x\", d41d8cd98f00b204e9800998ecf8427e")], PreconditionResult::Proceed),
            (vec![(matched, weak)], PreconditionResult::Failed("If-Match")),
            (vec![(matched, "\"x\"")], PreconditionResult::Failed("If-Match")),
            (vec![(matched, "")], PreconditionResult::Failed("If-Match")),
            (vec![(none, own)], PreconditionResult::NotModified),
            (vec![(none, weak)], PreconditionResult::NotModified),
            (vec![(none, "*")], PreconditionResult::NotModified),
            (vec![(none, "\"x\""), (none, bare)], PreconditionResult::NotModified),
            (vec![(none, "\"x\"")], PreconditionResult::Proceed),
            (vec![(since, AT)], PreconditionResult::NotModified),
            (vec![(since, BEFORE)], PreconditionResult::Proceed),
            (vec![(since, "nonsense")], PreconditionResult::Proceed),
            (vec![(unmodified, AT)], PreconditionResult::Proceed),
            (vec![(unmodified, BEFORE)], PreconditionResult::Failed("If-Unmodified-Since")),
            (vec![(matched, own), (unmodified, BEFORE)], PreconditionResult::Proceed),
            (vec![(none, "\"x\""), (since, AT)], PreconditionResult::Proceed),
            (vec![(matched, "\"x\""), (none, own)], PreconditionResult::Failed("If-Match")),
            (vec![(matched, own), (none, own)], PreconditionResult::NotModified),
        ] {
            assert_eq!(judge(&headers), verdict, "{headers:?}");
        }
    }

    #[test]
    fn a_copy_source_that_fails_is_always_412() {
        let judge = |name, value| {
            let conditions = with(&[(name, value)], ReadConditions::of_copy_source);
            conditions.judge_source(&tag(), MODIFIED_MS).map_err(|error| error.code)
        };
        assert_eq!(judge("x-amz-copy-source-if-none-match", "*"), Err(ErrorCode::PreconditionFailed));
        assert_eq!(judge("x-amz-copy-source-if-modified-since", AT), Err(ErrorCode::PreconditionFailed));
        assert_eq!(judge("x-amz-copy-source-if-match", "x"), Err(ErrorCode::PreconditionFailed));
        assert_eq!(judge("x-amz-copy-source-if-unmodified-since", AT), Ok(()));
        assert_eq!(judge("if-match", "x"), Ok(()));
    }

    #[test]
    fn writes_take_three_conditions_and_refuse_the_rest() {
        let parse = |headers: &[(&str, &str)]| with(headers, WriteCondition::parse).map_err(|error| error.code);
        assert_eq!(parse(&[]), Ok(WriteCondition::Always));
        assert_eq!(parse(&[("if-none-match", "*")]), Ok(WriteCondition::Absent));
        assert_eq!(parse(&[("if-match", "*")]), Ok(WriteCondition::Present));
        assert_eq!(parse(&[("if-match", &tag().to_string())]), Ok(WriteCondition::Matches(tag())));
        assert_eq!(parse(&[("if-match", "\"other\"")]), Ok(WriteCondition::MatchesNothing));
        assert_eq!(parse(&[("if-match", "")]), Ok(WriteCondition::MatchesNothing));
        let of_write = |headers: &[(&str, &str)]| with(headers, WriteCondition::of_write).map_err(|error| error.code);
        assert_eq!(of_write(&[("if-none-match", "*")]), Ok(WriteCondition::Absent));
        assert_eq!(of_write(&[("if-match", "*")]), Err(ErrorCode::NotImplemented));
        for refused in [
            vec![("if-none-match", "\"x\"")],
            vec![("if-none-match", "*"), ("if-match", "*")],
            vec![("if-match", "a"), ("if-match", "b")],
            vec![("if-match", "a,b")],
            vec![("if-modified-since", AT)],
            vec![("if-unmodified-since", AT)],
        ] {
            assert_eq!(parse(&refused), Err(ErrorCode::NotImplemented), "{refused:?}");
        }
    }

    #[test]
    fn conditions_of_deletions_are_read_or_refused() {
        let parse = |headers: &[(&str, &str)]| with(headers, DeleteCondition::parse).map_err(|error| error.code);
        let (time, size) = (IF_MATCH_MODIFIED, IF_MATCH_SIZE);
        assert_eq!(parse(&[]), Ok(DeleteCondition::ALWAYS));
        let both = DeleteCondition { tag: WriteCondition::Present, modified: Some(MODIFIED_MS / 1000), size: Some(7) };
        assert_eq!(parse(&[(time, AT), (size, " 7 "), ("if-match", "*")]), Ok(both));
        for (name, value) in [(time, "yesterday"), (time, ""), (size, "-1"), (size, "1.0"), (size, ""), (size, "+1")] {
            assert_eq!(parse(&[(name, value)]), Err(ErrorCode::InvalidArgument), "{name}: {value}");
        }
        assert_eq!(parse(&[(size, "1"), (size, "1")]), Err(ErrorCode::InvalidArgument));
        assert_eq!(parse(&[(size, "18446744073709551616")]), Err(ErrorCode::InvalidArgument));
    }

    #[test]
    fn the_destination_of_a_rename_may_be_named_by_its_time() {
        let headers = [("if-none-match", "*"), ("if-modified-since", AT), ("if-unmodified-since", BEFORE)];
        let seconds = MODIFIED_MS / 1000;
        let (since, unmodified) = (Some(seconds), Some(seconds - 1));
        let expected =
            RenameCondition { tag: WriteCondition::Absent, if_modified_since: since, if_unmodified_since: unmodified };
        assert_eq!(with(&headers, RenameCondition::parse), Ok(expected));
    }

    #[test]
    fn a_missing_object_fails_if_match_as_missing() {
        let own = tag();
        assert_eq!(WriteCondition::Matches(own).judge(Some(&own)), Ok(()));
        assert_eq!(WriteCondition::Matches(own).judge(None), Err(ErrorCode::NoSuchKey));
        assert_eq!(WriteCondition::MatchesNothing.judge(Some(&own)), Err(ErrorCode::PreconditionFailed));
        assert_eq!(WriteCondition::Absent.judge(Some(&own)), Err(ErrorCode::PreconditionFailed));
        assert_eq!(WriteCondition::Absent.judge(None), Ok(()));
    }

    #[test]
    fn if_range_needs_the_same_object() {
        assert!(if_range_holds(format!("\"{}\"", tag()).as_bytes(), &tag(), MODIFIED_MS));
        assert!(if_range_holds(AT.as_bytes(), &tag(), MODIFIED_MS));
        assert!(!if_range_holds(BEFORE.as_bytes(), &tag(), MODIFIED_MS));
        assert!(!if_range_holds(b"W/\"d41d8cd98f00b204e9800998ecf8427e\"", &tag(), MODIFIED_MS));
    }
}
