//! Text with wildcards and variables, as it stands in policies, and ARNs made of it. It is matched with bytes, because keys
//! of objects need not be UTF-8; `?` is one character of UTF-8.
//!
//! What a variable stands for is compared as it is: a wildcard in a name or a tag is never one in a policy. A variable that
//! stands for nothing matches nothing.

use std::borrow::Cow;

use crate::context::Asked;
use crate::context::{VISIT, of_search};
pub use crate::positions::Case;
use crate::positions::{OF_BEGINNING, OF_BYTE, OF_CHARACTER, Positions};

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

    /// Reads the pattern once: what has come before decides where the next piece can begin, at one position, behind a `*`
    /// from one position on, or at several.
    pub fn matches(&self, text: &[u8], case: Case, asked: &Asked<'_>) -> bool {
        let mut ends = Ends::At(0);
        for (place, piece) in self.pieces.iter().enumerate() {
            if *piece == Piece::Run {
                ends = match ends {
                    Ends::At(at) | Ends::From(at) => Ends::From(at),
                    Ends::Several(all) => match all.first() {
                        Some(first) => Ends::From(first),
                        None => return false,
                    },
                };
                continue;
            }
            let next = match (ends, piece) {
                (Ends::At(at), piece) => match piece.len_at(&text[at..], case, asked) {
                    Some(len) => Ends::At(at + len),
                    None => return false,
                },
                (Ends::From(from), Piece::Literal(literal)) if self.is_apart(place) && case == Case::Sensitive => {
                    match self.found(place, literal, text, from, asked) {
                        Some(end) => Ends::At(end),
                        None => return false,
                    }
                }
                (Ends::From(from), piece) => match Positions::from(text, case, from, asked.steps) {
                    Some(all) => several(all, piece, asked),
                    None => return false,
                },
                (Ends::Several(all), piece) => several(all, piece, asked),
            };
            ends = next;
        }
        match ends {
            Ends::At(at) => at == text.len(),
            Ends::From(_) => true,
            Ends::Several(all) => all.has_end(),
        }
    }

    /// Whether a piece stands between `*` and `*`, or between `*` and the end.
    fn is_apart(&self, place: usize) -> bool {
        let is_run = |place: usize| self.pieces.get(place).is_none_or(|piece| *piece == Piece::Run);
        place > 0 && is_run(place - 1) && is_run(place + 1)
    }

    /// Where the first text ends that a piece matches which is apart: the first leaves most to what follows.
    fn found(&self, place: usize, literal: &[u8], text: &[u8], from: usize, asked: &Asked<'_>) -> Option<usize> {
        let rest = &text[from..];
        if place + 1 == self.pieces.len() {
            return rest.ends_with(literal).then_some(text.len());
        }
        if asked.steps.are_spent() {
            return None;
        }
        let found = memchr::memmem::find(rest, literal);
        asked.steps.take(of_search(found.unwrap_or(rest.len())));
        found.map(|at| from + at + literal.len())
    }

    /// The most steps that a match takes in a text of this length, if variables stand for a name or a tag.
    pub fn steps(&self, len: usize) -> usize {
        let words = len / 64 + 1;
        let (mut steps, mut behind_run) = (0, false);
        for (place, piece) in self.pieces.iter().enumerate() {
            steps += match piece {
                Piece::Run => 0,
                Piece::Literal(_) if behind_run && self.is_apart(place) => of_search(0),
                Piece::Literal(literal) if behind_run => literal.len().min(len) * words * OF_BYTE,
                Piece::One if behind_run => words * OF_CHARACTER,
                Piece::Literal(_) | Piece::One => 0,
                Piece::Variable { .. } => VISIT + if behind_run { VALUE_LEN * words * OF_BYTE } else { 0 },
            };
            let is_found = matches!(piece, Piece::Literal(_)) && self.is_apart(place);
            let begins = place > 0 && self.pieces[place - 1] == Piece::Run && !is_found;
            // What continues characters is found out once for each beginning.
            steps += if begins { words * (OF_BEGINNING + OF_BYTE) } else { 0 };
            behind_run = *piece == Piece::Run || behind_run && !is_found;
        }
        steps + if self.pieces.contains(&Piece::Run) { of_search(len) } else { 0 }
    }
}

/// Bytes that a variable is taken to stand for, where the steps of a policy are counted.
const VALUE_LEN: usize = 16;

/// Where in a text the pieces that were read can have ended.
#[expect(clippy::large_enum_variant, reason = "positions in a short text need no allocation")]
enum Ends<'t> {
    At(usize),
    /// Here and anywhere behind.
    From(usize),
    Several(Positions<'t>),
}

impl Piece {
    /// The length of what it matches at the beginning of a text.
    fn len_at(&self, text: &[u8], case: Case, asked: &Asked<'_>) -> Option<usize> {
        match self {
            Self::Run => Some(0),
            Self::One => character_len(text),
            Self::Literal(literal) => case.is_prefix(literal, text).then_some(literal.len()),
            Self::Variable { key, default } => {
                let mut len = None;
                stands_for(key, default.as_deref(), case, asked, &mut |value| {
                    len = value.filter(|value| case.is_prefix(value, text)).map(<[u8]>::len);
                });
                len
            }
        }
    }
}

/// The positions behind a piece.
fn several<'t>(mut all: Positions<'t>, piece: &Piece, asked: &Asked<'_>) -> Ends<'t> {
    match piece {
        Piece::Run => {}
        Piece::One => all.read_character(asked.steps),
        Piece::Literal(literal) => all.read(literal, asked.steps),
        Piece::Variable { key, default } => {
            let case = all.case();
            stands_for(key, default.as_deref(), case, asked, &mut |value| match value {
                Some(value) => all.read(value, asked.steps),
                None => all.clear(),
            });
        }
    }
    Ends::Several(all)
}

fn flush(literal: &mut String, pieces: &mut Vec<Piece>) {
    if !literal.is_empty() {
        pieces.push(Piece::Literal(std::mem::take(literal).into_bytes().into()));
    }
}

/// The variable between `${` and `}`.
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

/// Passes on what a variable stands for; with several values it stands for nothing.
fn stands_for(key: &str, default: Option<&str>, case: Case, asked: &Asked<'_>, each: &mut dyn FnMut(Option<&[u8]>)) {
    let mut count = 0;
    let mut pass = |value: &str| {
        count += 1;
        // As the text it is compared with.
        let is_plain = case == Case::Sensitive || value.is_ascii();
        let value = if is_plain { Cow::Borrowed(value) } else { value.to_lowercase().into() };
        each((count == 1).then_some(value.as_bytes()));
    };
    asked.visit(key, &mut pass);
    if count == 0 {
        each(default.map(str::as_bytes));
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

    pub fn matches(&self, arn: &[u8], asked: &Asked<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Whole(pattern) => pattern.matches(arn, Case::Sensitive, asked),
            Self::Parts(patterns) => {
                let goes_on = asked.steps.take(of_search(arn.len()));
                let mut parts = arn.splitn(6, |&byte| byte == b':');
                goes_on
                    && patterns
                        .iter()
                        .all(|it| parts.next().is_some_and(|part| it.matches(part, Case::Sensitive, asked)))
            }
        }
    }

    /// As of [`Pattern::steps`].
    pub fn steps(&self, len: usize) -> usize {
        let parts = if matches!(self, Self::Parts(_)) { of_search(len) } else { 0 };
        self.patterns().iter().map(|pattern| pattern.steps(len)).sum::<usize>() + parts
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
