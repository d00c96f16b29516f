//! Server-sent events: writing them, and a parser that is given a stream in pieces, however it is cut.
//!
//! The parser follows the rules of the WHATWG. What it keeps between two pieces is bounded. Both work on bytes; neither
//! knows what an event means.
//!
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>

use std::mem;

use memchr::{memchr, memchr2};
use orcas_http::lossy_text;

/// Appends one event. `id`, `event` and `data` are one line each.
pub fn write_event(out: &mut Vec<u8>, id: &str, event: &str, data: &[u8]) {
    debug_assert!([id.as_bytes(), event.as_bytes(), data].iter().all(|line| memchr2(b'\r', b'\n', line).is_none()));
    for (name, value) in [("id: ", id.as_bytes()), ("event: ", event.as_bytes()), ("data: ", data)] {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(value);
        out.push(b'\n');
    }
    out.push(b'\n');
}

/// An event of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The last id of the stream: of this event or of one before it. Empty if there was none.
    pub id: &'a str,
    /// `message` if the stream does not say.
    pub event: &'a str,
    /// The lines of the data, joined by line feeds.
    pub data: &'a str,
}

/// Most bytes of one line, and of the data of one event.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub line_len_max: usize,
    pub data_len_max: usize,
}

/// The stream has a line or an event beyond the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Reads one stream.
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    /// Bytes of the byte order mark that have been seen. All, once the stream cannot begin with one any more.
    mark: usize,
    /// The last byte was a carriage return: a line feed after it ends no other line.
    after_return: bool,
    failed: bool,
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// The data of the event so far, each line with a line feed.
    data: Vec<u8>,
    event: Vec<u8>,
    id: String,
    /// `id` was given since then, and may differ from `last_id`. To compare them for each event takes longer than to parse it:
    /// where both are empty, the memory that is compared does not exist.
    gave_id: bool,
    /// `id` as of the last end of an event: what a client sends when it connects again.
    last_id: String,
    retry_ms: Option<u64>,
}

/// The last lines of an event that `Parser` has no copy of. Most events have one line of data, which ends in the piece in
/// which it began.
#[derive(Default)]
struct Last<'a> {
    data: Option<&'a [u8]>,
    event: Option<&'a [u8]>,
}

const MARK: &[u8] = "\u{feff}".as_bytes();

impl Parser {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            mark: 0,
            after_return: false,
            failed: false,
            line: Vec::new(),
            data: Vec::new(),
            event: Vec::new(),
            id: String::new(),
            gave_id: false,
            last_id: String::new(),
            retry_ms: None,
        }
    }

    /// Takes the next bytes of the stream, and passes on the events that they complete.
    ///
    /// # Errors
    /// If the stream goes beyond the limits. This is final.
    pub fn push(&mut self, piece: &[u8], on: &mut impl FnMut(Message<'_>)) -> Result<(), TooLong> {
        let result = if self.failed { Err(TooLong) } else { self.take(piece, on) };
        self.failed = result.is_err();
        result
    }

    /// The id to continue after. Empty if the stream gave none.
    pub fn last_id(&self) -> &str {
        &self.last_id
    }

    /// How long the stream asks clients to wait before they connect again.
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    fn take(&mut self, piece: &[u8], on: &mut impl FnMut(Message<'_>)) -> Result<(), TooLong> {
        let mut rest = self.without_mark(piece);
        if self.after_return && !rest.is_empty() {
            self.after_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        let mut last = Last::default();
        while let Some(at) = end_of_line(rest) {
            let (line, end) = rest.split_at(at);
            if self.line.is_empty() {
                self.take_line(line, &mut last, on)?;
            } else {
                self.keep(line)?;
                self.keep_last(mem::take(&mut last));
                let mut whole = mem::take(&mut self.line);
                let mut last = Last::default();
                let result = self.take_line(&whole, &mut last, on);
                self.keep_last(last);
                whole.clear();
                self.line = whole;
                result?;
            }
            rest = match end {
                [b'\r', b'\n', behind @ ..] => behind,
                [b'\r'] => {
                    self.after_return = true;
                    &[]
                }
                _ => &end[1..],
            };
        }
        self.keep_last(last);
        self.keep(rest)
    }

    /// What of `piece` is not the mark that a stream may begin with.
    fn without_mark<'a>(&mut self, piece: &'a [u8]) -> &'a [u8] {
        let mut rest = piece;
        while self.mark < MARK.len() {
            match rest {
                [] => return rest,
                [first, behind @ ..] if *first == MARK[self.mark] => {
                    self.mark += 1;
                    rest = behind;
                }
                _ => {
                    self.line.extend_from_slice(&MARK[..self.mark]);
                    self.mark = MARK.len();
                }
            }
        }
        rest
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > self.limits.line_len_max {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn keep_data(&mut self, line: Option<&[u8]>) {
        if let Some(line) = line {
            self.data.extend_from_slice(line);
            self.data.push(b'\n');
        }
    }

    fn keep_last(&mut self, last: Last<'_>) {
        self.keep_data(last.data);
        if let Some(event) = last.event {
            event.clone_into(&mut self.event);
        }
    }

    fn take_line<'a>(
        &mut self,
        line: &'a [u8],
        last: &mut Last<'a>,
        on: &mut impl FnMut(Message<'_>),
    ) -> Result<(), TooLong> {
        if line.len() > self.limits.line_len_max {
            return Err(TooLong);
        }
        if line.is_empty() {
            self.end_of_event(mem::take(last), on);
        } else if let Some(value) = value_of(line, b"data") {
            self.keep_data(last.data.take());
            if self.data.len() + value.len() > self.limits.data_len_max {
                return Err(TooLong);
            }
            last.data = Some(value);
        } else if let Some(value) = value_of(line, b"event") {
            last.event = Some(value);
        } else if let Some(value) = value_of(line, b"id") {
            if memchr(0, value).is_none() {
                self.id.clear();
                self.id.push_str(&lossy_text(value));
                self.gave_id = true;
            }
        } else if let Some(value) = value_of(line, b"retry")
            && !value.is_empty()
            && value.iter().all(u8::is_ascii_digit)
        {
            // A number beyond all bounds is one that nobody waits for.
            self.retry_ms = Some(str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX));
        }
        // Anything else is a comment or a field without a meaning.
        Ok(())
    }

    fn end_of_event(&mut self, mut last: Last<'_>, on: &mut impl FnMut(Message<'_>)) {
        if mem::take(&mut self.gave_id) {
            self.id.clone_into(&mut self.last_id);
        }
        if !self.data.is_empty() {
            self.keep_data(last.data.take());
        }
        if let Some(data) = last.data.or_else(|| self.data.split_last().map(|(_, data)| data)) {
            let event = match last.event.unwrap_or(&self.event) {
                b"" => b"message",
                event => event,
            };
            on(Message { id: &self.last_id, event: &lossy_text(event), data: &lossy_text(data) });
        }
        self.data.clear();
        self.event.clear();
    }
}

/// Where the first line ends, if it does. An event ends with an empty line, so those are not searched for.
fn end_of_line(rest: &[u8]) -> Option<usize> {
    match rest.first() {
        Some(b'\n' | b'\r') => Some(0),
        _ => memchr2(b'\r', b'\n', rest),
    }
}

/// The value of a line that is of the field `name`. No field has a colon in its name, so none is searched for.
fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    match line.strip_prefix(name)? {
        [] => Some(b""),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { line_len_max: 24, data_len_max: 24 };

    type Events = Vec<(String, String, String)>;

    /// The events, what a client would send to continue, how long it would wait, and whether the stream was too long.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Outcome {
        events: Events,
        last_id: String,
        retry_ms: Option<u64>,
        result: Option<TooLong>,
    }

    fn parse<'a>(limits: Limits, pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
        let mut parser = Parser::new(limits);
        let mut events = Events::new();
        let mut result = Ok(());
        for piece in pieces {
            result = parser.push(piece, &mut |message| {
                events.push((message.id.into(), message.event.into(), message.data.into()));
            });
        }
        let last_id = parser.last_id().to_owned();
        Outcome { events, last_id, retry_ms: parser.retry_ms(), result: result.err() }
    }

    fn whole(stream: &str) -> Outcome {
        parse(Limits { line_len_max: 1000, data_len_max: 1000 }, [stream.as_bytes()])
    }

    fn data(stream: &str) -> Vec<String> {
        whole(stream).events.into_iter().map(|(_, _, data)| data).collect()
    }

    /// The rules of the WHATWG, sentence by sentence, on the whole stream as text.
    fn reference(stream: &[u8]) -> Outcome {
        let text = String::from_utf8_lossy(stream);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text).replace("\r\n", "\n").replace('\r', "\n");
        let mut lines: Vec<&str> = text.split('\n').collect();
        lines.pop();
        let (mut out, mut data, mut event, mut id) = (Outcome::default(), String::new(), String::new(), String::new());
        for line in lines {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "" if line.is_empty() => {
                    out.last_id.clone_from(&id);
                    if data.pop().is_some() {
                        let name = if event.is_empty() { "message".into() } else { mem::take(&mut event) };
                        out.events.push((id.clone(), name, mem::take(&mut data)));
                    }
                    event.clear();
                }
                "data" => data += &format!("{value}\n"),
                "event" => event = value.into(),
                "id" if !value.contains('\0') => id = value.into(),
                "retry" if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                    out.retry_ms = Some(value.parse().unwrap_or(u64::MAX));
                }
                _ => {}
            }
        }
        out
    }

    #[test]
    fn the_examples_of_the_standard() {
        assert_eq!(data("data: YHOO\ndata: +2\ndata: 10\n\n"), ["YHOO\n+2\n10"]);
        let ids = whole(": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n");
        let expected = [("1", "first event"), ("", "second event"), ("", " third event")];
        assert_eq!(ids.events, expected.map(|(id, data)| (id.into(), "message".into(), data.into())));
        // The last one is not complete.
        assert_eq!(data("data\n\ndata\ndata\n\ndata:"), ["", "\n"]);
        assert_eq!(data("data:test\n\ndata: test\n\n"), ["test", "test"]);
    }

    #[test]
    fn fields_that_change_how_a_client_connects_again() {
        let outcome = whole("id: a\nretry: 10\n\nid: b\0c\nretry: 1x\nretry:\nid: d\n");
        assert_eq!((&*outcome.last_id, outcome.retry_ms, outcome.events), ("a", Some(10), vec![]));
        assert_eq!(whole("retry: 99999999999999999999\n").retry_ms, Some(u64::MAX));
    }

    #[test]
    fn a_byte_order_mark_is_skipped_once_and_only_at_the_start() {
        assert_eq!(data("\u{feff}data: a\n\n\u{feff}data: b\n\n"), ["a"]);
        assert_eq!(data("\u{feff}\u{feff}data: a\n\n"), [""; 0]);
        let outcome = parse(LIMITS, [&b"\xef"[..], b"\xbb", b"\xbf", b"data: a\n\n"]);
        assert_eq!(outcome.events.len(), 1);
    }

    #[test]
    fn lines_and_events_have_limits() {
        let long = |stream: &[u8]| parse(LIMITS, [stream]).result;
        assert_eq!(long(b"data: 345678901234567890\n\n"), None);
        assert_eq!(long(b":12345678901234567890123\n"), None);
        assert_eq!(long(b":123456789012345678901234\n"), Some(TooLong));
        assert_eq!(long(b":123456789012345678901234"), Some(TooLong));
        assert_eq!(long(b"data: 3456789012345678\ndata: 01234\n"), None);
        assert_eq!(long(b"data: 3456789012345678\ndata: 0123456789\n"), Some(TooLong));
        let mut parser = Parser::new(LIMITS);
        assert_eq!(parser.push(&[b'x'; 25], &mut |_| ()), Err(TooLong));
        assert_eq!(parser.push(b"\n\ndata: a\n\n", &mut |_| panic!("an event after a failure")), Err(TooLong));
    }

    #[test]
    fn what_is_written_is_read() {
        let mut out = Vec::new();
        write_event(&mut out, "7", "s3", b"{}");
        write_event(&mut out, "8", "s3", b"[ ]");
        let expected = [("7", "s3", "{}"), ("8", "s3", "[ ]")];
        let read = parse(LIMITS, [&out[..]]).events;
        assert_eq!(read, expected.map(|(id, event, data)| (id.into(), event.into(), data.into())));
    }

    /// Streams of what matters to a parser.
    fn streams() -> impl Strategy<Value = Vec<u8>> {
        const TOKENS: [&[u8]; 21] = [
            b"data",
            b"data",
            b"id",
            b"event",
            b"retry",
            b":",
            b": ",
            b" ",
            b"\n",
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b"\0",
            b"a",
            b"12",
            b"\xef\xbb\xbf",
            b"\xc3",
            b"\xa9",
            b"\xf0\x9f",
            b"data: x\n",
        ];
        let token = (0..TOKENS.len()).prop_map(|at| TOKENS[at]);
        proptest::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn it_is_as_the_standard_says(stream in streams()) {
            let limits = Limits { line_len_max: 1000, data_len_max: 1000 };
            prop_assert_eq!(parse(limits, [&stream[..]]), reference(&stream));
        }

        #[test]
        fn cuts_change_nothing(stream in streams(), cuts in proptest::collection::vec(0usize..8, 0..40)) {
            let mut pieces = Vec::new();
            let mut rest = &stream[..];
            for cut in cuts {
                let (piece, behind) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = behind;
            }
            pieces.push(rest);
            prop_assert_eq!(parse(LIMITS, pieces), parse(LIMITS, [&stream[..]]));
        }
    }
}
