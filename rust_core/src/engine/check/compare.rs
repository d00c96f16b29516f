//! Compares two indexes row by row, in the order of their keys, with a few rows of each in memory.

use std::cmp::Ordering;
use std::collections::HashMap;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::collect::Collector;
use crate::error::{Error, Result};
use crate::index::Index;

/// Rows that are handed over at a time.
const ROWS: usize = 256;
/// Characters of a row that are shown.
const SHOWN_MAX: usize = 240;

type Row = (&'static str, String);

/// A row on which the indexes do not agree.
pub(super) struct Difference {
    pub place: String,
    pub detail: String,
}

/// Shows every difference to `visit`, until it returns false.
///
/// # Errors
/// When one of the indexes cannot be read: the first of the pair is that of `rebuilt`.
pub(super) fn compare(
    collector: &Collector<'_>,
    rebuilt: &Index,
    present: &Index,
    visit: &mut dyn FnMut(Difference) -> bool,
) -> Result<(), (Option<Error>, Option<Error>)> {
    let tables: HashMap<&'static str, (usize, usize)> =
        Index::tables().iter().enumerate().map(|(order, (table, key))| (*table, (order, *key))).collect();
    std::thread::scope(|scope| {
        let (sender, theirs) = bounded(8);
        let of_rebuilt = scope.spawn(move || send_rows(collector, rebuilt, &sender));
        let (sender, ours) = bounded(8);
        let of_present = scope.spawn(move || send_rows(collector, present, &sender));
        merge(&tables, &mut Rows::of(theirs), &mut Rows::of(ours), visit);
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

/// An error that only says that nobody listens any more is none.
fn send_rows(collector: &Collector<'_>, index: &Index, sender: &Sender<Vec<Row>>) -> Result<()> {
    let mut rows: Vec<Row> = Vec::with_capacity(ROWS);
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

struct Rows {
    source: Receiver<Vec<Row>>,
    present: std::vec::IntoIter<Row>,
}

impl Rows {
    fn of(source: Receiver<Vec<Row>>) -> Self {
        Self { source, present: Vec::new().into_iter() }
    }
}

impl Iterator for Rows {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        loop {
            if let Some(row) = self.present.next() {
                return Some(row);
            }
            self.present = self.source.recv().ok()?.into_iter();
        }
    }
}

fn merge(
    tables: &HashMap<&'static str, (usize, usize)>,
    theirs: &mut Rows,
    ours: &mut Rows,
    visit: &mut dyn FnMut(Difference) -> bool,
) {
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

/// By table, then by the columns of the key: numbers as numbers, bytes as `each_row` writes them.
fn order(tables: &HashMap<&'static str, (usize, usize)>, one: &Row, other: &Row) -> Ordering {
    let of = |row: &Row| tables.get(row.0).copied().unwrap_or_default();
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

fn place(tables: &HashMap<&'static str, (usize, usize)>, row: &Row) -> String {
    let columns = tables.get(row.0).map_or(1, |(_, columns)| *columns);
    let key: Vec<&str> = row.1.split(' ').take(columns).collect();
    format!("index.db, table {}, row {}", row.0, shown(&key.join(" ")))
}

fn shown(row: &str) -> String {
    match row.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &row[..end]),
        None => row.to_owned(),
    }
}

fn missing(tables: &HashMap<&'static str, (usize, usize)>, row: &Row) -> Difference {
    Difference { place: place(tables, row), detail: format!("the row is not there; the log says: {}", shown(&row.1)) }
}

fn surplus(tables: &HashMap<&'static str, (usize, usize)>, row: &Row) -> Difference {
    Difference { place: place(tables, row), detail: format!("the log knows of no such row: {}", shown(&row.1)) }
}

fn changed(tables: &HashMap<&'static str, (usize, usize)>, rebuilt: &Row, present: &Row) -> Difference {
    let detail = format!("the row is: {}; the log says: {}", shown(&present.1), shown(&rebuilt.1));
    Difference { place: place(tables, rebuilt), detail }
}
