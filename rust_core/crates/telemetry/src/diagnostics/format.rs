//! A diagnostic as a record of bounded size.

use std::fmt::{self, Debug, Write};
use std::thread;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata};

/// Bytes of a message or a field.
const TEXT_BYTES_MAX: usize = 2048;
const FIELDS_MAX: usize = 24;

/// The kind of a diagnostic: its place in the source, and the error code where one place says many.
pub(super) type Kind = (&'static str, u32, Option<String>);

/// The field with an error code.
const CODE: &str = "code";

/// One line of the log, before it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    pub level: Level,
    /// The crate that reports it, without `orcas_`.
    pub part: &'static str,
    /// Where it stands in the source.
    pub file: &'static str,
    pub line: u32,
    pub message: String,
    pub fields: Vec<(&'static str, Value)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Text(String),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Flag(bool),
}

impl Diagnostic {
    /// A diagnostic of this place without text, named after the thread that reports it.
    pub(super) fn new(metadata: &Metadata<'static>) -> Self {
        let (file, line) = place(metadata);
        Self {
            level: *metadata.level(),
            part: part(metadata.target()),
            file,
            line,
            message: String::new(),
            fields: Vec::new(),
        }
    }

    pub(super) fn add_thread(&mut self) {
        if let Some(name) = thread::current().name() {
            self.fields.push(("thread", Value::Text(name.to_owned())));
        }
    }

    pub(super) fn code(&self) -> Option<&str> {
        self.fields.iter().find_map(|(name, value)| match value {
            Value::Text(code) if *name == CODE => Some(code.as_str()),
            _ => None,
        })
    }

    pub(super) fn kind(&self) -> Kind {
        (self.file, self.line, self.code().map(str::to_owned))
    }

    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::Text(text)) => self.message = text,
            (name, value) if self.fields.len() < FIELDS_MAX => self.fields.push((name, value)),
            _ => {}
        }
    }
}

/// Where a diagnostic stands in the source.
fn place(metadata: &Metadata<'static>) -> (&'static str, u32) {
    (metadata.file().unwrap_or(metadata.target()), metadata.line().unwrap_or(0))
}

/// Of an event, whose other fields need not be formatted for that.
pub(super) fn kind(event: &Event<'_>) -> Kind {
    let ((file, line), mut code) = (place(event.metadata()), Code(None));
    event.record(&mut code);
    (file, line, code.0)
}

struct Code(Option<String>);

impl Visit for Code {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == CODE {
            self.0 = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// `engine` of `orcas_engine::reclaim::driver`.
fn part(target: &'static str) -> &'static str {
    let krate = target.split("::").next().unwrap_or(target);
    krate.strip_prefix("orcas_").unwrap_or(krate)
}

impl Visit for Diagnostic {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, Value::Float(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Value::Signed(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, Value::Unsigned(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Value::Flag(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, Value::Text(bounded(format_args!("{value}"))));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, Value::Text(bounded(format_args!("{value:?}"))));
    }
}

/// A text of at most `TEXT_BYTES_MAX` bytes; a longer one ends in an ellipsis.
pub fn bounded(text: fmt::Arguments<'_>) -> String {
    let mut bounded = Bounded(String::new());
    if bounded.write_fmt(text).is_err() {
        bounded.0.push('…');
    }
    bounded.0
}

struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = TEXT_BYTES_MAX - self.0.len();
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        let end = (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        self.0.push_str(&text[..end]);
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(bounded(format_args!("{}", "a".repeat(TEXT_BYTES_MAX))), "a".repeat(TEXT_BYTES_MAX));
        let text = bounded(format_args!("a{}", "ä".repeat(TEXT_BYTES_MAX)));
        assert_eq!(text, format!("a{}…", "ä".repeat((TEXT_BYTES_MAX - 1) / 2)));
    }

    #[test]
    fn the_part_is_the_crate() {
        assert_eq!(part("orcas_engine::reclaim::driver"), "engine");
        assert_eq!(part("orcas_log"), "log");
    }
}
