//! A line of the access log, written in two steps: the request while its head is at hand, and the outcome when it is
//! done. Texts that a client chose are shortened and escaped, so none can forge a line or move the cursor of a
//! terminal.

use std::fmt::Write;
use std::time::Duration;

use crate::metrics::requests::Finished;
use orcas_http::lossy_text;
use orcas_http::timestamp::iso_time;

/// Characters of one value that a client chose: the longest key has as many bytes.
const TEXT_MAX: usize = 1024;
/// Bytes of most lines without what the client chose.
const LINE_ROOM: usize = 512;

/// How a request says who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    Anonymous,
    Header,
    Query,
    Form,
}

/// What a request asks for, and who sent it.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The verified sender. Empty if there is none.
    pub principal: &'a str,
    pub access_key: Option<&'a str>,
    pub auth: Auth,
    pub operation: Option<&'static str>,
    pub method: &'a [u8],
    pub bucket: Option<&'a str>,
    pub key: Option<&'a [u8]>,
    pub version_id: Option<&'a [u8]>,
    pub host: Option<&'a [u8]>,
    pub user_agent: Option<&'a [u8]>,
    /// Without the query, which may be that of a presigned URL.
    pub referer: Option<&'a [u8]>,
}

/// The part of a line that is known as soon as a request is accepted.
#[derive(Debug)]
pub struct Note {
    text: String,
    /// Where what the headers say begins.
    headers: usize,
    pub bucket: Option<Box<str>>,
}

/// What became of a request.
#[derive(Debug)]
pub struct Ended<'a> {
    /// Address of the client, empty if it is unknown.
    pub remote: &'a str,
    pub request_id: &'a str,
    /// The id of its trace, if it is traced.
    pub trace_id: Option<&'a str>,
    pub finished: &'a Finished,
    /// Milliseconds since 1970 at which the head had arrived.
    pub began_ms: i64,
}

impl Note {
    pub fn new(asked: &Asked<'_>) -> Self {
        let mut line = Line { out: String::with_capacity(LINE_ROOM) };
        line.some("principal", Some(asked.principal).filter(|principal| !principal.is_empty()));
        line.some("access_key", asked.access_key);
        line.text("auth", asked.auth.name());
        line.some("operation", asked.operation);
        line.bytes("method", Some(asked.method));
        line.some("bucket", asked.bucket);
        line.bytes("key", asked.key);
        line.bytes("version_id", asked.version_id);
        let headers = line.out.len();
        line.bytes("host", asked.host);
        line.bytes("user_agent", asked.user_agent);
        line.bytes("referer", asked.referer);
        Self { text: line.out, headers, bucket: asked.bucket.map(Box::from) }
    }

    /// The line, with its end.
    pub fn line(&self, ended: &Ended<'_>) -> String {
        let (asked, headers) = self.text.split_at(self.headers);
        let mut line = Line { out: String::with_capacity(LINE_ROOM + self.text.len()) };
        line.out.push('{');
        line.text("time", std::str::from_utf8(&iso_time(ended.began_ms)).unwrap_or_default());
        line.text("remote", ended.remote);
        line.text("request_id", ended.request_id);
        line.some("trace_id", ended.trace_id);
        line.out.push_str(asked);
        let finished = ended.finished;
        match finished.status {
            Some(status) => line.number("status", u64::from(status)),
            None => line.null("status"),
        }
        line.some("error", finished.code.map(|code| code.as_str()));
        line.number("bytes_in", finished.received);
        line.number("bytes_out", finished.sent);
        line.seconds("total_sec", finished.time);
        line.seconds("first_byte_sec", finished.first_byte);
        line.out.push_str(headers);
        line.out.push_str("}\n");
        line.out
    }
}

impl Auth {
    pub fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "none",
            Self::Header => "header",
            Self::Query => "query",
            Self::Form => "form",
        }
    }
}

struct Line {
    out: String,
}

impl Line {
    /// Every name but the first of a line comes after a comma, and so does the first of a note.
    fn name(&mut self, name: &str) {
        if self.out != "{" {
            self.out.push(',');
        }
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str("\":");
    }

    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        self.out.push('"');
        // Most values need no escape, and no look at each character. Looking at all bytes takes vector instructions.
        if value.len() <= TEXT_MAX && value.bytes().fold(true, |plain, byte| plain & is_plain(byte)) {
            self.out.push_str(value);
        } else {
            self.escaped(value);
        }
        self.out.push('"');
    }

    fn escaped(&mut self, value: &str) {
        for letter in value.chars().take(TEXT_MAX) {
            match letter {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                letter
                    if letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
                {
                    // None of these is beyond the basic plane. Writing to a string never fails.
                    let _ = write!(self.out, "\\u{:04x}", u32::from(letter));
                }
                letter => self.out.push(letter),
            }
        }
    }

    fn some(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    fn bytes(&mut self, name: &str, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.text(name, &lossy_text(value));
        }
    }

    fn number(&mut self, name: &str, value: u64) {
        self.name(name);
        self.out.push_str(itoa::Buffer::new().format(value));
    }

    fn null(&mut self, name: &str) {
        self.name(name);
        self.out.push_str("null");
    }

    /// In whole microseconds.
    fn seconds(&mut self, name: &str, value: Duration) {
        self.number(name, value.as_secs());
        let mut digits = *b".000000";
        let mut left = value.subsec_micros();
        for digit in digits[1..].iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
        }
        self.out.push_str(std::str::from_utf8(&digits).unwrap_or_default());
    }
}

/// A URL up to its query, which may be that of a presigned URL.
pub fn without_query(url: &[u8]) -> &[u8] {
    url.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default()
}

/// Whether a byte stands for itself in a line: what ASCII shows, but for quotes and backslashes.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_choose_is_escaped_and_bounded() {
        let mut line = Line { out: String::from("{") };
        line.text("a", "x\"\\\n\u{1b}\u{202e}\u{85}é");
        line.bytes("b", Some(b"\xff"));
        line.some("c", None);
        assert_eq!(line.out, "{\"a\":\"x\\\"\\\\\\u000a\\u001b\\u202e\\u0085é\",\"b\":\"\u{fffd}\"");
        let mut line = Line { out: String::new() };
        line.text("a", &"x".repeat(10_000));
        assert_eq!(line.out.len(), TEXT_MAX + ",\"a\":\"\"".len());
    }

    #[test]
    fn a_line_is_made_of_a_note_and_of_what_became_of_the_request() {
        let asked = Asked {
            principal: "",
            access_key: Some("AK"),
            auth: Auth::Query,
            operation: Some("GetObject"),
            method: b"GET",
            bucket: Some("b"),
            key: Some("k\n€".as_bytes()),
            version_id: None,
            host: Some(b"h"),
            user_agent: None,
            referer: None,
        };
        let finished = Finished {
            operation: None,
            status: None,
            code: None,
            time: Duration::from_micros(12_000_345),
            first_byte: Duration::from_nanos(999),
            received: 0,
            sent: 18_446_744_073_709_551_615,
            broken: false,
        };
        let ended =
            Ended { remote: "1.2.3.4", request_id: "R", trace_id: Some("4b"), finished: &finished, began_ms: 0 };
        let line = Note::new(&asked).line(&ended);
        let head = r#"{"time":"1970-01-01T00:00:00.000Z","remote":"1.2.3.4","request_id":"R","trace_id":"4b","access_key":"AK","auth":"query","#;
        let asked = r#""operation":"GetObject","method":"GET","bucket":"b","key":"k\u000a€","#;
        let ended = r#""status":null,"bytes_in":0,"bytes_out":18446744073709551615,"total_sec":12.000345,"first_byte_sec":0.000000,"#;
        assert_eq!(line, format!("{head}{asked}{ended}\"host\":\"h\"}}\n"));
    }
}
