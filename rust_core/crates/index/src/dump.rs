//! The rows of an index as text, for comparing two indexes.

use std::fmt::Write as _;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::error;
use orcas_base::error::Result;

/// Every table with the columns that order its rows.
pub(super) const TABLES: [(&str, &str); 17] = [
    ("meta", "name"),
    ("buckets", "id"),
    ("documents", "bucket, document"),
    ("totals", "id"),
    ("heads", "bucket, key"),
    ("history", "bucket, key, sequence"),
    ("versions", "sequence"),
    ("blobs", "sequence"),
    ("holdings", "blob, bucket"),
    ("segments", "sequence"),
    ("segment_holdings", "segment, bucket"),
    ("digests", "tag, sequence"),
    ("packs", "pack"),
    ("log_files", "file"),
    ("uploads", "id"),
    ("parts", "upload, number"),
    ("completed_uploads", "sequence"),
];

/// Calls `visit` with the table and the columns of every row, in key order; BLOB values are in hexadecimal. One row is
/// in memory at a time.
pub(super) fn each_row(
    conn: &Connection,
    visit: &mut dyn FnMut(&'static str, &str) -> Result<()>,
) -> error::Result<()> {
    let mut line = String::new();
    for (table, order) in TABLES {
        let mut statement = conn.prepare(&format!("SELECT * FROM {table} ORDER BY {order}"))?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            line.clear();
            for column in 0..columns {
                push_value(&mut line, row.get_ref(column)?);
            }
            visit(table, &line)?;
        }
    }
    Ok(())
}

fn push_value(out: &mut String, value: ValueRef<'_>) {
    if !out.is_empty() {
        out.push(' ');
    }
    match value {
        ValueRef::Null => out.push('-'),
        ValueRef::Integer(number) => {
            // Writing to a string cannot fail.
            let _ = write!(out, "{number}");
        }
        ValueRef::Real(number) => {
            let _ = write!(out, "{number}");
        }
        ValueRef::Text(text) => out.push_str(&String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => {
            out.push_str("x'");
            for byte in bytes {
                let _ = write!(out, "{byte:02x}");
            }
            out.push('\'');
        }
    }
}
