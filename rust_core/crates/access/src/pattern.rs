//! Text with wildcards and variables, as it stands in policies, and ARNs made of it. It is matched with bytes, because keys
//! of objects need not be UTF-8; `?` is one character of UTF-8.
//!
//! What a variable stands for is compared as it is: a wildcard in a name or a tag is never one in a policy. A variable that
//! stands for nothing matches nothing.

use std::borrow::Cow;

use crate::context::Context;

#[derive(Debug)]
pub struct Pattern {
    pieces: Box<[Piece]>,
}

#[derive(Debug, PartialEq)]
enum Piece {
    Literal(Box<[u8]>),
    /// `*`
    Run,
    /// `?`
    One,
    /// `${key, 'default'}`; the key in lower case.
    Variable {
        key: Box<str>,
        default: Option<Box<str>>,
    },
}

/// What has a meaning in a text.
#[derive(Clone, Copy, Debug)]
pub struct Syntax {
    pub wildcards: bool,
    pub variables: bool,
}

/// Whether two texts are the same that differ in ASCII case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Case {
    Sensitive,
    Ignored,
}

impl Case {
    fn is_prefix(self, prefix: &[u8], text: &[u8]) -> bool {
        match self {
            Self::Sensitive => text.starts_with(prefix),
            Self::Ignored => text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix)),
        }
    }
}

impl Pattern {
    /// `None`: a variable cannot be read.
    pub fn parse(text: &str, syntax: Syntax) -> Option<Self> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let mut len = character.len_utf8();
            let piece = match character {
                '*' if syntax.wildcards => Some(Piece::Run),
                '?' if syntax.wildcards => Some(Piece::One),
                '$' if syntax.variables && rest[1..].starts_with('{') => {
                    let end = rest.find('}')?;
                    len = end + 1;
                    match rest[2..end].trim() {
                        escaped @ ("*" | "?" | "$") => {
                            literal.push_str(escaped);
                            None
                        }
                        inner => Some(variable(inner)?),
                    }
                }
                other => {
                    literal.push(other);
                    None
                }
            };
            rest = &rest[len..];
            if let Some(piece) = piece {
                flush(&mut literal, &mut pieces);
                if piece != Piece::Run || pieces.last() != Some(&Piece::Run) {
                    pieces.push(piece);
                }
            }
        }
        flush(&mut literal, &mut pieces);
        Some(Self { pieces: pieces.into() })
    }

    /// The text that everything begins with that matches.
    pub fn literal_start(&self) -> &[u8] {
        match self.pieces.first() {
            Some(Piece::Literal(text)) => text,
            _ => b"",
        }
    }

    /// Whether it matches one text only.
    pub fn is_literal(&self) -> bool {
        matches!(&*self.pieces, [] | [Piece::Literal(_)])
    }

    pub fn has_variables(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Variable { .. }))
    }

    /// Whether `text` is in one of the texts between wildcards.
    pub fn contains(&self, text: &[u8]) -> bool {
        let has = |literal: &[u8]| literal.windows(text.len()).any(|window| window == text);
        self.pieces.iter().any(|piece| matches!(piece, Piece::Literal(literal) if has(literal)))
    }

    /// The keys of its variables.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Variable { key, .. } => Some(&**key),
            _ => None,
        })
    }

    /// After a mismatch only the last `*` is tried again with one byte more, so the time is at most the product of the
    /// lengths.
    pub fn matches(&self, text: &[u8], case: Case, context: &dyn Context) -> bool {
        let (mut piece, mut at) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        loop {
            let taken = match self.pieces.get(piece) {
                None if at == text.len() => return true,
                None => None,
                Some(Piece::Run) if piece + 1 == self.pieces.len() => return true,
                Some(Piece::Run) => {
                    retry = Some((piece + 1, at));
                    Some(0)
                }
                Some(Piece::One) => character_len(&text[at..]),
                Some(Piece::Literal(literal)) => case.is_prefix(literal, &text[at..]).then_some(literal.len()),
                Some(Piece::Variable { key, default }) => {
                    stands_for(key, default.as_deref(), &text[at..], case, context)
                }
            };
            match (taken, &mut retry) {
                (Some(len), _) => (piece, at) = (piece + 1, at + len),
                (None, Some((after, from))) if *from < text.len() => {
                    *from += 1;
                    (piece, at) = (*after, *from);
                }
                (None, _) => return false,
            }
        }
    }
}

fn flush(literal: &mut String, pieces: &mut Vec<Piece>) {
    if !literal.is_empty() {
        pieces.push(Piece::Literal(std::mem::take(literal).into_bytes().into()));
    }
}

/// What stands between `${` and `}`.
fn variable(inner: &str) -> Option<Piece> {
    let (key, default) = match inner.split_once(',') {
        Some((key, default)) => {
            let default = default.trim().strip_prefix('\'')?.strip_suffix('\'')?;
            (key.trim_end(), Some(default.into()))
        }
        None => (inner, None),
    };
    let has_vendor = key.split_once(':').is_some_and(|(vendor, name)| !vendor.is_empty() && !name.is_empty());
    let key = key.to_ascii_lowercase().into();
    has_vendor.then_some(Piece::Variable { key, default })
}

/// The length of what a variable stands for, if `text` begins with it. With several values it stands for nothing.
fn stands_for(key: &str, default: Option<&str>, text: &[u8], case: Case, context: &dyn Context) -> Option<usize> {
    let (mut count, mut len) = (0, None);
    let mut compare = |value: &str| {
        count += 1;
        // As the text it is compared with.
        let is_plain = case == Case::Sensitive || value.is_ascii();
        let value = if is_plain { Cow::Borrowed(value) } else { value.to_lowercase().into() };
        len = case.is_prefix(value.as_bytes(), text).then_some(value.len());
    };
    context.visit(key, &mut compare);
    match (count, default) {
        (0, Some(default)) => case.is_prefix(default.as_bytes(), text).then_some(default.len()),
        (1, _) => len,
        _ => None,
    }
}

/// The length of the first character: a byte, and those that continue it.
fn character_len(text: &[u8]) -> Option<usize> {
    let (_, rest) = text.split_first()?;
    Some(1 + rest.iter().take(3).take_while(|&&byte| byte & 0xc0 == 0x80).count())
}

/// An ARN, whose parts match one by one: a wildcard in one of the first five ends at the colon.
#[derive(Debug)]
pub enum ArnPattern {
    /// `*`
    All,
    /// No part but the last has wildcards or variables, so the text matches as a whole.
    Whole(Pattern),
    Parts(Box<[Pattern; 6]>),
}

pub enum ArnFault {
    NotArn,
    Short,
    Variable,
}

impl ArnPattern {
    pub fn parse(text: &str, variables: bool) -> Result<Self, ArnFault> {
        let syntax = Syntax { wildcards: true, variables };
        if text == "*" {
            return Ok(Self::All);
        }
        let parts = arn_parts(text);
        if parts.first() != Some(&"arn") {
            return Err(ArnFault::NotArn);
        }
        let open = parts.last().is_some_and(|last| last.ends_with('*'));
        if parts.len() < 6 && !open {
            return Err(ArnFault::Short);
        }
        let pattern = |at: usize| Pattern::parse(parts.get(at).unwrap_or(&"*"), syntax).ok_or(ArnFault::Variable);
        let parts = [pattern(0)?, pattern(1)?, pattern(2)?, pattern(3)?, pattern(4)?, pattern(5)?];
        if parts[..5].iter().all(Pattern::is_literal) {
            return Ok(Self::Whole(Pattern::parse(text, syntax).ok_or(ArnFault::Variable)?));
        }
        Ok(Self::Parts(Box::new(parts)))
    }

    pub fn matches(&self, arn: &[u8], context: &dyn Context) -> bool {
        match self {
            Self::All => true,
            Self::Whole(pattern) => pattern.matches(arn, Case::Sensitive, context),
            Self::Parts(patterns) => {
                let mut parts = arn.splitn(6, |&byte| byte == b':');
                patterns.iter().all(|it| parts.next().is_some_and(|part| it.matches(part, Case::Sensitive, context)))
            }
        }
    }

    pub fn patterns(&self) -> &[Pattern] {
        match self {
            Self::All => &[],
            Self::Whole(pattern) => std::slice::from_ref(pattern),
            Self::Parts(patterns) => &**patterns,
        }
    }
}

/// The parts between colons, of which the sixth has the rest. A colon within a variable is none.
fn arn_parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' if text[..at].ends_with('$') => inside = true,
            b'}' => inside = false,
            b':' if !inside && parts.len() < 5 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}
