//! A line of the access log, written in two steps: the request while its head is at hand, and the outcome when it is
//! done. Texts that a client chose are shortened and escaped, so none can forge a line or move the cursor of a
//! terminal.

use std::io::Write;
use std::time::Duration;

use crate::metrics::requests::Finished;
use orcas_http::lossy_text;
use orcas_http::timestamp::iso_time;

/// Characters of one value that a client chose: the longest key has as many bytes.
const TEXT_MAX: usize = 1024;
/// Bytes of most notes.
const NOTE_ROOM: usize = 512;

/// A name as it stands in a line, behind what comes before it.
macro_rules! name {
    ($name:literal) => {
        concat!(",\"", $name, "\":")
    };
}

/// How a request says who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    Anonymous,
    Header,
    Query,
    Form,
}

/// An access decision on an action.
#[derive(Clone, Debug)]
pub struct AccessDecision<'a> {
    pub action: &'a str,
    pub allowed: bool,
    /// The policy behind it, the number of that statement from 1 on, and its name.
    pub policy: Option<&'a str>,
    pub statement: Option<usize>,
    pub sid: Option<&'a str>,
    /// The kind of policy that would have had to allow it.
    pub missing: Option<&'static str>,
    /// How often it was made.
    pub count: u32,
}

/// The operation and subject of a request, and its sender.
#[derive(Debug)]
pub struct Asked<'a> {
    /// Root may do everything: there is no access decision.
    pub is_root: bool,
    pub decisions: &'a [AccessDecision<'a>],
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
    /// The referer without the query, which may be that of a presigned URL.
    pub referer: Option<&'a [u8]>,
}

/// The part of a line that is known as soon as a request is accepted.
#[derive(Debug)]
pub struct Note {
    text: Vec<u8>,
    /// Where what the headers say begins.
    headers: usize,
    pub bucket: Option<Box<str>>,
}

/// The end of a request.
#[derive(Debug)]
pub struct Ended<'a> {
    /// Address of the client, empty if it is unknown.
    pub remote: &'a str,
    pub request_id: &'a str,
    /// The id of its trace, if it is traced.
    pub trace_id: Option<&'a str>,
    /// The decisions that were made after the note.
    pub decisions: &'a [AccessDecision<'a>],
    pub finished: &'a Finished,
    /// Milliseconds since 1970 at which the head had arrived.
    pub began_ms: i64,
}

impl Note {
    pub fn new(asked: &Asked<'_>) -> Self {
        let mut text = Vec::with_capacity(NOTE_ROOM);
        let mut line = Line { out: &mut text };
        line.some(name!("principal"), Some(asked.principal).filter(|principal| !principal.is_empty()));
        line.some(name!("access_key"), asked.access_key);
        line.text(name!("auth"), asked.auth.name());
        line.some(name!("operation"), asked.operation);
        line.bytes(name!("method"), Some(asked.method));
        line.some(name!("bucket"), asked.bucket);
        line.bytes(name!("key"), asked.key);
        line.bytes(name!("version_id"), asked.version_id);
        if asked.is_root {
            line.text(name!("decided_by"), "root");
        }
        line.decisions(name!("decisions"), asked.decisions);
        let headers = line.out.len();
        line.bytes(name!("host"), asked.host);
        line.bytes(name!("user_agent"), asked.user_agent);
        line.bytes(name!("referer"), asked.referer);
        Self { text, headers, bucket: asked.bucket.map(Box::from) }
    }

    /// Appends the line, with its end.
    pub fn write_line(&self, ended: &Ended<'_>, out: &mut Vec<u8>) {
        let (asked, headers) = self.text.split_at(self.headers);
        let mut line = Line { out };
        line.out.extend_from_slice(b"{\"time\":\"");
        line.out.extend_from_slice(&iso_time(ended.began_ms));
        line.out.push(b'"');
        line.text(name!("remote"), ended.remote);
        line.text(name!("request_id"), ended.request_id);
        line.some(name!("trace_id"), ended.trace_id);
        line.out.extend_from_slice(asked);
        line.decisions(name!("later_decisions"), ended.decisions);
        let finished = ended.finished;
        match finished.status {
            Some(status) => line.number(name!("status"), u64::from(status)),
            None => line.null(name!("status")),
        }
        line.some(name!("error"), finished.code.map(|code| code.as_str()));
        line.number(name!("bytes_in"), finished.received);
        line.number(name!("bytes_out"), finished.sent);
        line.seconds(name!("total_sec"), finished.time);
        line.seconds(name!("first_byte_sec"), finished.first_byte);
        line.out.extend_from_slice(headers);
        line.out.extend_from_slice(b"}\n");
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

/// A line that begins elsewhere.
struct Line<'a> {
    out: &'a mut Vec<u8>,
}

impl Line<'_> {
    /// `name` is as of `name!`, here and below.
    #[inline]
    fn text(&mut self, name: &str, value: &str) {
        // Most values need no escape, and no look at each character. Looking at all bytes takes vector instructions.
        let plain = value.len() <= TEXT_MAX && value.bytes().fold(true, |plain, byte| plain & is_plain(byte));
        self.out.reserve(name.len() + value.len() + 2);
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b'"');
        if plain {
            self.out.extend_from_slice(value.as_bytes());
        } else {
            self.escaped(value);
        }
        self.out.push(b'"');
    }

    #[cold]
    fn escaped(&mut self, value: &str) {
        for letter in value.chars().take(TEXT_MAX) {
            match letter {
                '"' => self.out.extend_from_slice(b"\\\""),
                '\\' => self.out.extend_from_slice(b"\\\\"),
                letter
                    if letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
                {
                    // None of these is beyond the basic plane. Writing to memory never fails.
                    let _ = write!(self.out, "\\u{:04x}", u32::from(letter));
                }
                letter => self.out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
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
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    /// A list, left out if it is empty.
    fn decisions(&mut self, name: &str, decisions: &[AccessDecision<'_>]) {
        if decisions.is_empty() {
            return;
        }
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b'[');
        for (place, decision) in decisions.iter().enumerate() {
            self.out.extend_from_slice(if place == 0 { b"{" } else { b",{" });
            self.text("\"action\":", decision.action);
            self.text(name!("decision"), if decision.allowed { "allowed" } else { "denied" });
            self.some(name!("policy"), decision.policy);
            if let Some(statement) = decision.statement {
                self.number(name!("statement"), statement as u64);
            }
            self.some(name!("sid"), decision.sid);
            self.some(name!("missing"), decision.missing);
            if decision.count > 1 {
                self.number(name!("count"), u64::from(decision.count));
            }
            self.out.push(b'}');
        }
        self.out.push(b']');
    }

    fn null(&mut self, name: &str) {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"null");
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
        self.out.extend_from_slice(&digits);
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
        let mut out = Vec::new();
        let mut line = Line { out: &mut out };
        line.text(name!("a"), "x\"\\\n\u{1b}\u{202e}\u{85}é");
        line.bytes(name!("b"), Some(b"\xff"));
        line.some(name!("c"), None);
        let expected = ",\"a\":\"x\\\"\\\\\\u000a\\u001b\\u202e\\u0085é\",\"b\":\"\u{fffd}\"";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let mut out = Vec::new();
        Line { out: &mut out }.text(name!("a"), &"x".repeat(10_000));
        assert_eq!(out.len(), TEXT_MAX + ",\"a\":\"\"".len());
    }

    #[test]
    fn a_line_is_made_of_a_note_and_of_what_became_of_the_request() {
        let decision = AccessDecision {
            action: "s3:GetObject",
            allowed: false,
            policy: Some("the bucket policy"),
            statement: Some(2),
            sid: Some("No"),
            missing: None,
            count: 1,
        };
        let more = AccessDecision {
            policy: None,
            statement: None,
            sid: None,
            missing: Some("session policy"),
            ..decision.clone()
        };
        let asked = Asked {
            is_root: false,
            decisions: std::slice::from_ref(&decision),
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
        let ended = Ended {
            remote: "1.2.3.4",
            request_id: "R",
            trace_id: Some("4b"),
            decisions: &[AccessDecision { count: 3, ..more }],
            finished: &finished,
            began_ms: 0,
        };
        let mut line = b"what is there already".to_vec();
        Note::new(&asked).write_line(&ended, &mut line);
        let head = r#"{"time":"1970-01-01T00:00:00.000Z","remote":"1.2.3.4","request_id":"R","trace_id":"4b","access_key":"AK","auth":"query","#;
        let asked = r#""operation":"GetObject","method":"GET","bucket":"b","key":"k\u000a€","decisions":[{"action":"s3:GetObject","decision":"denied","policy":"the bucket policy","statement":2,"sid":"No"}],"later_decisions":[{"action":"s3:GetObject","decision":"denied","missing":"session policy","count":3}],"#;
        let ended = r#""status":null,"bytes_in":0,"bytes_out":18446744073709551615,"total_sec":12.000345,"first_byte_sec":0.000000,"#;
        let expected = format!("what is there already{head}{asked}{ended}\"host\":\"h\"}}\n");
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }
}
