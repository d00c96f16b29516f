//! Compares the tables of records in `docs/format.md` with the encoder: kinds, structures, fields with types and order, and
//! the values of codes.
#![allow(clippy::disallowed_methods, reason = "the document is a file of the repository")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::samples::{causes, samples};
use crate::encoding::kinds::{self, kind_name};
use crate::encoding::{FieldType, Output, Trace, put_record};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/format.md");

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::U8 => f.write_str("u8"),
            Self::U16 => f.write_str("u16"),
            Self::U32 => f.write_str("u32"),
            Self::U64 => f.write_str("u64"),
            Self::Flag => f.write_str("flag"),
            Self::Code => f.write_str("code"),
            Self::Array(length) => write!(f, "byte[{length}]"),
            Self::Optional(length) => write!(f, "byte[{length}]?"),
            Self::Bytes => f.write_str("byte[u16]"),
            Self::LongBytes => f.write_str("byte[u32]"),
            Self::Rest => f.write_str("byte[*]"),
            Self::Structure(name) => f.write_str(name),
            Self::List16(of) => write!(f, "{of}[u16]"),
            Self::List32(of) => write!(f, "{of}[u32]"),
        }
    }
}

/// What the encoder wrote for a record or structure: name, type and value of each field.
struct Written {
    name: &'static str,
    fields: Vec<(&'static str, String, u64)>,
}

/// Records the fields that the encoder writes.
#[derive(Default)]
struct Notes {
    open: Vec<Written>,
    done: Vec<Written>,
}

impl Trace for &mut Notes {
    fn field(&mut self, name: &'static str, of_type: FieldType, value: u64) {
        self.open.last_mut().unwrap().fields.push((name, of_type.to_string(), value));
    }

    fn begin(&mut self, name: &'static str) {
        self.open.push(Written { name, fields: Vec::new() });
    }

    fn end(&mut self) {
        let written = self.open.pop().unwrap();
        self.done.push(written);
    }
}

/// The condition under which a field is present.
enum Condition {
    Is(u64),
    IsNot(u64),
    HasBit(u64),
}

struct Row {
    field: String,
    of_type: String,
    condition: Option<(String, Condition)>,
    /// Values of a code.
    values: BTreeSet<u64>,
}

impl Row {
    /// `cells` are those of a row of the document: name, type, meaning.
    fn parse(cells: &[&str]) -> Self {
        let [field, of_type, meaning] = cells else { panic!("a row of three cells: {cells:?}") };
        let quoted = |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
        let words = quoted(of_type);
        let condition = of_type.split_once(" if ").map(|(_, condition)| {
            let number = condition.rsplit(' ').next().unwrap().parse().expect("a condition ends with a number");
            let condition = match condition.split('`').nth(2).expect("a condition names a field").trim() {
                rest if rest.starts_with("= ") => Condition::Is(number),
                rest if rest.starts_with("≠ ") => Condition::IsNot(number),
                rest if rest.starts_with("has bit ") => Condition::HasBit(number),
                rest => panic!("no condition: {rest}"),
            };
            (words[1].clone(), condition)
        });
        let values = quoted(meaning).iter().filter_map(|word| word.parse().ok()).collect();
        Self { field: quoted(field).remove(0), of_type: words[0].clone(), condition, values }
    }

    fn is_there(&self, fields: &[(&'static str, String, u64)]) -> bool {
        let Some((name, condition)) = &self.condition else { return true };
        let value = fields.iter().find(|(field, ..)| field == name).map(|(.., value)| *value);
        let value = value.unwrap_or_else(|| panic!("{} depends on {name}, which is not there", self.field));
        match condition {
            Condition::Is(number) => value == *number,
            Condition::IsNot(number) => value != *number,
            Condition::HasBit(bit) => value >> bit & 1 == 1,
        }
    }
}

/// The tables by the title of their section: `7 PutVersion` for a kind, `Version` for a structure.
fn tables(document: &str) -> BTreeMap<String, Vec<Row>> {
    let mut tables: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let (mut title, mut in_table) = (String::new(), false);
    for line in document.lines() {
        if line.starts_with('#') {
            title = line.trim_start_matches('#').trim().to_owned();
        }
        if line == "| Field | Type | Meaning |" {
            assert!(tables.insert(title.clone(), Vec::new()).is_none(), "two tables of {title}");
            in_table = true;
        } else if in_table && line.starts_with("| `") {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            tables.get_mut(&title).unwrap().push(Row::parse(&cells));
        } else if !line.starts_with("|---") {
            in_table = false;
        }
    }
    tables
}

/// Every record and structure in the samples, with the title of its section.
fn written() -> Vec<(String, Written)> {
    let mut all = Vec::new();
    for (record, cause) in samples().into_iter().flat_map(|record| causes().map(|cause| (record.clone(), cause))) {
        let mut notes = Notes::default();
        (&mut notes).begin("");
        let mut bytes = Vec::new();
        let kind = put_record(&record, &cause, &mut Output::new(&mut bytes, &mut notes));
        let root = notes.open.pop().unwrap();
        all.push((format!("{kind} {}", kind_name(kind).expect("a kind of the list")), root));
        all.extend(notes.done.into_iter().map(|written| (written.name.to_owned(), written)));
    }
    all
}

#[test]
fn the_document_describes_every_record_as_the_encoder_writes_it() {
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    let tables = tables(&document);
    let mut seen: BTreeMap<(String, usize), BTreeSet<u64>> = BTreeMap::new();
    for (title, written) in written() {
        let table = tables.get(&title).unwrap_or_else(|| panic!("docs/format.md has no table of {title}"));
        let there: Vec<_> = table.iter().enumerate().filter(|(_, row)| row.is_there(&written.fields)).collect();
        let documented: Vec<_> = there.iter().map(|(_, row)| format!("{} {}", row.field, row.of_type)).collect();
        let encoded: Vec<_> = written.fields.iter().map(|(name, of_type, _)| format!("{name} {of_type}")).collect();
        assert_eq!(documented, encoded, "{title}: docs/format.md and what the encoder writes");
        for ((at, _), (_, _, value)) in there.iter().zip(&written.fields) {
            seen.entry((title.clone(), *at)).or_default().insert(*value);
        }
    }
    for (title, rows) in &tables {
        for (at, row) in rows.iter().enumerate() {
            let values = seen.get(&(title.clone(), at));
            let values = values.unwrap_or_else(|| panic!("{title}: the encoder never writes {}", row.field));
            if row.of_type == "code" {
                assert_eq!(row.values, *values, "{title}: values of {} in docs/format.md and written", row.field);
            }
        }
    }
}

#[test]
fn the_document_and_the_samples_have_every_kind() {
    let known: BTreeSet<String> =
        kinds::ALL.iter().map(|(number, _)| format!("{number} {}", kind_name(*number).unwrap())).collect();
    let is_kind = |title: &String| title.starts_with(|first: char| first.is_ascii_digit());
    let documented = tables(&std::fs::read_to_string(DOCUMENT).unwrap());
    assert_eq!(documented.keys().filter(|title| is_kind(title)).cloned().collect::<BTreeSet<_>>(), known);
    assert_eq!(written().into_iter().map(|(title, _)| title).filter(is_kind).collect::<BTreeSet<_>>(), known);
}
