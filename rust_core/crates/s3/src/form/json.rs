//! The part of JSON that policies are written in: objects, lists, strings and whole numbers, not deeply nested.
//!
//! As AWS documents, `\$` and `\v` are escapes as well.

/// A value. Members of an object are in their order, also those with the same name.
#[derive(Debug, PartialEq, Eq)]
pub enum Json {
    Object(Vec<(String, Json)>),
    List(Vec<Json>),
    String(String),
    Number(i64),
}

/// Levels of lists and objects. A policy has three.
const DEPTH_MAX: usize = 8;

/// Reads a document. `None` if it is anything else than one value.
pub fn parse(text: &str) -> Option<Json> {
    let mut parser = Parser { rest: text };
    let value = parser.value(DEPTH_MAX)?;
    parser.space();
    parser.rest.is_empty().then_some(value)
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    /// Takes `symbol`, after any space, if it is next.
    fn takes(&mut self, symbol: char) -> bool {
        self.space();
        match self.rest.strip_prefix(symbol) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        let depth = depth.checked_sub(1)?;
        if self.takes('{') {
            return self
                .items('}', |parser| {
                    let name = parser.takes('"').then(|| parser.string()).flatten()?;
                    parser.takes(':').then(|| Some((name, parser.value(depth)?))).flatten()
                })
                .map(Json::Object);
        }
        if self.takes('[') {
            return self.items(']', |parser| parser.value(depth)).map(Json::List);
        }
        if self.takes('"') { self.string().map(Json::String) } else { self.number() }
    }

    /// Items with commas between them, up to `end`.
    fn items<T>(&mut self, end: char, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        if self.takes(end) {
            return Some(items);
        }
        loop {
            items.push(item(self)?);
            if self.takes(end) {
                return Some(items);
            }
            if !self.takes(',') {
                return None;
            }
        }
    }

    fn number(&mut self) -> Option<Json> {
        let end = self.rest.find([' ', '\t', '\r', '\n', ',', ']', '}']).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        let bare = digits.strip_prefix('-').unwrap_or(digits);
        let plain = bare.bytes().all(|byte| byte.is_ascii_digit()) && (bare == "0" || !bare.starts_with('0'));
        plain.then(|| digits.parse().ok().map(Json::Number)).flatten()
    }

    /// The text up to the closing quote.
    fn string(&mut self) -> Option<String> {
        let mut out = String::new();
        loop {
            let end = self.rest.find(|c: char| matches!(c, '"' | '\\' | '\0'..='\u{1f}'))?;
            out.push_str(&self.rest[..end]);
            let special = self.rest.as_bytes()[end];
            self.rest = &self.rest[end + 1..];
            match special {
                b'"' => return Some(out),
                b'\\' => out.push(self.escaped()?),
                _ => return None,
            }
        }
    }

    fn escaped(&mut self) -> Option<char> {
        let mut rest = self.rest.chars();
        let kind = rest.next()?;
        self.rest = rest.as_str();
        Some(match kind {
            '"' | '\\' | '/' | '$' => kind,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'u' => {
                let first = self.unit()?;
                let units = match first {
                    0xd800..=0xdbff => {
                        self.rest = self.rest.strip_prefix("\\u")?;
                        vec![first, self.unit()?]
                    }
                    _ => vec![first],
                };
                char::decode_utf16(units).next()?.ok()?
            }
            _ => return None,
        })
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Option<u16> {
        let digits = self.rest.get(..4)?;
        self.rest = &self.rest[4..];
        orcas_http::parse_hex::<2>(digits.as_bytes()).map(u16::from_be_bytes)
    }
}

/// Appends `text` as JSON.
pub fn quote_into(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\0'..='\u{1f}' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ => out.push(character),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn string(text: &str) -> Json {
        Json::String(text.to_owned())
    }

    #[test]
    fn values() {
        assert_eq!(
            parse(" { \"a\" : [ 1, -20, \"x\" ] , \"a\": {} } \n"),
            Some(Json::Object(vec![
                ("a".into(), Json::List(vec![Json::Number(1), Json::Number(-20), string("x")])),
                ("a".into(), Json::Object(Vec::new())),
            ]))
        );
        for (text, value) in
            [(r#""\$\"\\\/\b\f\n\r\t\v""#, "$\"\\/\u{8}\u{c}\n\r\t\u{b}"), (r#""\u00e9\ud83d\ude00é""#, "é😀é")]
        {
            assert_eq!(parse(text), Some(string(value)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "{",
            "[1,]",
            "{\"a\":1,}",
            "{a:1}",
            "'a'",
            "1.5",
            "1e3",
            "01",
            "-",
            "+1",
            "null",
            "true",
            "[1 2]",
            "\"a",
            "\"\n\"",
            "\"\\x\"",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\\udc00\"",
            "\"\\u00e\"",
            "1 1",
            "\u{feff}1",
            "99999999999999999999",
            "{\"a\" 1}",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        let nested = |depth: usize| parse(&("[".repeat(depth) + &"]".repeat(depth)));
        assert!(nested(DEPTH_MAX).is_some() && nested(DEPTH_MAX + 1).is_none());
        assert!(nested(100_000).is_none());
    }

    proptest! {
        #[test]
        fn strings_come_back(text in "\\PC{0,20}|[\\x00-\\x7f]{0,20}") {
            let mut quoted = String::new();
            quote_into(&mut quoted, &text);
            prop_assert_eq!(parse(&quoted), Some(Json::String(text)));
        }

        #[test]
        fn nothing_panics(text in "[\\[\\]{}\":,\\\\u0-9a\\$é -]{0,40}") {
            let _ = parse(&text);
        }
    }
}
