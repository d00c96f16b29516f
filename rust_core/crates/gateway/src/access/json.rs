//! A record of the access log as one line of JSON. Texts that a client chose are shortened and escaped, so none can forge a
//! line or move the cursor of a terminal.

use std::fmt::Write;

use super::record::{AccessRecord, Auth};
use orcas_http::timestamp::iso_time;

/// Characters of one value that a client chose: the longest key has as many bytes.
const TEXT_MAX: usize = 1024;

impl AccessRecord<'_> {
    /// The line, with its end.
    pub fn json(&self) -> String {
        let mut line = Line { out: String::with_capacity(768) };
        line.out.push('{');
        line.text("time", &String::from_utf8_lossy(&iso_time(self.began_ms)));
        line.text("remote", self.remote);
        line.text("request_id", self.request_id);
        line.some("principal", Some(self.principal).filter(|principal| !principal.is_empty()));
        line.some("access_key", self.access_key.as_deref());
        line.text("auth", self.auth.name());
        line.some("operation", self.operation);
        line.bytes("method", Some(self.head.method));
        line.some("bucket", self.bucket.as_deref());
        line.some("key", self.key.as_deref());
        line.bytes("version_id", self.version_id.as_deref());
        match self.finished.status {
            Some(status) => line.number("status", u64::from(status)),
            None => line.null("status"),
        }
        line.some("error", self.finished.code.map(|code| code.as_str()));
        line.number("bytes_in", self.finished.received);
        line.number("bytes_out", self.finished.sent);
        line.seconds("total_sec", self.finished.time);
        line.seconds("first_byte_sec", self.finished.first_byte);
        line.bytes("host", self.header("host"));
        line.bytes("user_agent", self.header("user-agent"));
        line.bytes("referer", self.referer());
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
    fn name(&mut self, name: &str) {
        if self.out.len() > 1 {
            self.out.push(',');
        }
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str("\":");
    }

    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        self.out.push('"');
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
        self.out.push('"');
    }

    fn some(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    fn bytes(&mut self, name: &str, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.text(name, &String::from_utf8_lossy(value));
        }
    }

    fn number(&mut self, name: &str, value: u64) {
        self.name(name);
        let _ = write!(self.out, "{value}");
    }

    fn null(&mut self, name: &str) {
        self.name(name);
        self.out.push_str("null");
    }

    fn seconds(&mut self, name: &str, value: std::time::Duration) {
        self.name(name);
        let _ = write!(self.out, "{:.6}", value.as_secs_f64());
    }
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
        assert_eq!(line.out.len(), TEXT_MAX + "\"a\":\"\"".len());
    }
}
