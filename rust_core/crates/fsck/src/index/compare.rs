//! Compares two indexes row by row, in the order of their keys, with a few rows of each in memory.

use std::cmp::Ordering;
use std::collections::HashMap;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::collect::Collector;
use orcas_base::error::{Error, Result};
use orcas_index::Index;
use orcas_record::{self as record, Record};

/// Rows that are handed over at a time.
const ROWS: usize = 256;
/// Characters of a row that are shown.
const SHOWN_MAX: usize = 240;

type IndexRow = (&'static str, String);

/// A row on which the indexes do not agree.
pub(crate) struct Difference {
    pub place: String,
    pub detail: String,
    /// What is wrong with the row, without the row.
    pub cause: &'static str,
    /// Bucket and key, when the row is that of an object's newest version.
    pub object: Option<String>,
}

/// The tables in their order, and what the log calls the buckets.
struct Tables {
    orders: HashMap<&'static str, (usize, usize)>,
    buckets: HashMap<String, String>,
}

/// Shows every difference to `visit`, until it returns false.
///
/// # Errors
/// When one of the indexes cannot be read: the first of the pair is that of `rebuilt`.
pub(crate) fn compare(
    collector: &Collector<'_>,
    rebuilt: &Index,
    present: &Index,
    visit: &mut dyn FnMut(Difference) -> bool,
) -> Result<(), (Option<Error>, Option<Error>)> {
    let orders = Index::tables().iter().enumerate().map(|(order, (table, key))| (*table, (order, *key))).collect();
    let buckets = names(rebuilt).map_err(|error| (Some(error), None))?;
    let tables = Tables { orders, buckets };
    std::thread::scope(|scope| {
        let (sender, theirs) = bounded(8);
        let of_rebuilt = scope.spawn(move || send_rows(collector, rebuilt, &sender));
        let (sender, ours) = bounded(8);
        let of_present = scope.spawn(move || send_rows(collector, present, &sender));
        merge(&tables, &mut RowStream::of(theirs), &mut RowStream::of(ours), visit);
        let joined = [of_rebuilt, of_present].map(|thread| match thread.join() {
            Ok(done) => done.err(),
            Err(_) => Some(Error::Index { reason: "a comparison ended early".into() }),
        });
        match joined {
            [None, None] => Ok(()),
            [rebuilt, present] => Err((rebuilt, present)),
        }
    })
}

/// An error that only says that the receiver is gone is none.
fn send_rows(collector: &Collector<'_>, index: &Index, sender: &Sender<Vec<IndexRow>>) -> Result<()> {
    let mut rows: Vec<IndexRow> = Vec::with_capacity(ROWS);
    let mut unheard = false;
    let read = index.each_row(&mut |table, row| {
        // The place up to which the log was applied is compared by whoever built the indexes.
        if table == "meta" && row.starts_with("position ") {
            return Ok(());
        }
        rows.push((table, row.to_owned()));
        if rows.len() == ROWS {
            collector.go_on()?;
            unheard = sender.send(std::mem::take(&mut rows)).is_err();
        }
        if unheard { Err(Error::Closed) } else { Ok(()) }
    });
    match read {
        Ok(()) => {
            // Whoever does not listen has seen enough.
            let _ = sender.send(rows);
            Ok(())
        }
        Err(_) if unheard => Ok(()),
        Err(error) => Err(error),
    }
}

struct RowStream {
    source: Receiver<Vec<IndexRow>>,
    present: std::vec::IntoIter<IndexRow>,
}

impl RowStream {
    fn of(source: Receiver<Vec<IndexRow>>) -> Self {
        Self { source, present: Vec::new().into_iter() }
    }
}

impl Iterator for RowStream {
    type Item = IndexRow;

    fn next(&mut self) -> Option<IndexRow> {
        loop {
            if let Some(row) = self.present.next() {
                return Some(row);
            }
            self.present = self.source.recv().ok()?.into_iter();
        }
    }
}

fn merge(tables: &Tables, theirs: &mut RowStream, ours: &mut RowStream, visit: &mut dyn FnMut(Difference) -> bool) {
    let (mut rebuilt, mut present) = (theirs.next(), ours.next());
    loop {
        let difference = match (&rebuilt, &present) {
            (None, None) => return,
            (Some(one), Some(other)) if one == other => None,
            (Some(one), Some(other)) => match order(tables, one, other) {
                Ordering::Less => Some((missing(tables, one), true, false)),
                Ordering::Greater => Some((surplus(tables, other), false, true)),
                Ordering::Equal => Some((changed(tables, one, other), true, true)),
            },
            (Some(one), None) => Some((missing(tables, one), true, false)),
            (None, Some(other)) => Some((surplus(tables, other), false, true)),
        };
        let (mut next_rebuilt, mut next_present) = (true, true);
        if let Some((difference, of_rebuilt, of_present)) = difference {
            if !visit(difference) {
                return;
            }
            (next_rebuilt, next_present) = (of_rebuilt, of_present);
        }
        if next_rebuilt {
            rebuilt = theirs.next();
        }
        if next_present {
            present = ours.next();
        }
    }
}

/// The order of rows: by table, then by the columns of the key, numbers as numbers, bytes as `each_row` writes them.
fn order(tables: &Tables, one: &IndexRow, other: &IndexRow) -> Ordering {
    let of = |row: &IndexRow| tables.orders.get(row.0).copied().unwrap_or_default();
    let ((table, columns), (other_table, _)) = (of(one), of(other));
    table.cmp(&other_table).then_with(|| {
        let columns = one.1.split(' ').zip(other.1.split(' ')).take(columns);
        let orders = columns.map(|(a, b)| match (a.parse::<i64>(), b.parse::<i64>()) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            _ => a.cmp(b),
        });
        orders.fold(Ordering::Equal, Ordering::then)
    })
}

fn place(tables: &Tables, row: &IndexRow) -> String {
    let columns = tables.orders.get(row.0).map_or(1, |(_, columns)| *columns);
    let key: Vec<&str> = row.1.split(' ').take(columns).collect();
    format!("index.db, table {}, row {}", row.0, shown(&key.join(" ")))
}

fn shown(row: &str) -> String {
    match row.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &row[..end]),
        None => row.to_owned(),
    }
}

fn missing(tables: &Tables, row: &IndexRow) -> Difference {
    let detail = format!("the row is not there; the log says: {}", shown(&row.1));
    difference(tables, row, "the row is not there", detail)
}

fn surplus(tables: &Tables, row: &IndexRow) -> Difference {
    let detail = format!("the log knows of no such row: {}", shown(&row.1));
    difference(tables, row, "the log knows of no such row", detail)
}

fn changed(tables: &Tables, rebuilt: &IndexRow, present: &IndexRow) -> Difference {
    let detail = format!("the row is: {}; the log says: {}", shown(&present.1), shown(&rebuilt.1));
    difference(tables, rebuilt, "the row is another one than the log says", detail)
}

fn difference(tables: &Tables, row: &IndexRow, cause: &'static str, detail: String) -> Difference {
    let object = (row.0 == "heads").then(|| object(tables, &row.1)).flatten();
    Difference { place: place(tables, row), detail, cause, object }
}

/// Bucket and key of a row that begins with them.
fn object(tables: &Tables, row: &str) -> Option<String> {
    let mut columns = row.split(' ');
    let bucket = columns.next()?;
    let key = columns.next()?.strip_prefix("x'")?.strip_suffix('\'')?;
    let key: Option<Vec<u8>> =
        (0..key.len()).step_by(2).map(|at| u8::from_str_radix(key.get(at..at + 2)?, 16).ok()).collect();
    let bucket = tables.buckets.get(bucket).cloned().unwrap_or_else(|| format!("bucket {bucket}"));
    Some(format!("{bucket}/{}", String::from_utf8_lossy(&key?)))
}

/// The names of all buckets, by their ids.
fn names(index: &Index) -> Result<HashMap<String, String>> {
    let mut names = HashMap::new();
    for stored in index.read()?.buckets()? {
        if let Ok(Record::CreateBucket(bucket) | Record::UpdateBucket(bucket)) =
            record::decode(stored.kind, &stored.record)
        {
            names.insert(bucket.id.0.to_string(), String::from_utf8_lossy(&bucket.name).into_owned());
        }
    }
    Ok(names)
}
