//! A log of rows: the statements of the protocol, made in a database. One row is one batch; there are no fences.

mod connection;
mod sql;
mod url;

use std::sync::Arc;

use bytes::Bytes;
use orcas_shared_log::rows::{Answer, Kept, RowHead, Statement};
use orcas_shared_log::{Entry, EntryId, NodeId};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql, Type};

use crate::backoff::Backoff;
use crate::error::{Error, Fault};
use crate::format::{decode_snapshots, encode_snapshots};
use crate::options::Options;
use connection::{Connection, Parameter};
use sql::{FORMAT, Sql};
use url::Place;

/// The largest batch: some databases have no larger rows.
pub(crate) const LARGEST_BATCH: usize = 1 << 20;

/// How often tables are created: several nodes may do so at the same time, and all but one fail.
const CREATIONS: usize = 3;

const ALONE: &str = "the database has no synchronous standby: if another one takes its place, what was acknowledged \
    last may be lost";

/// Which database, and which tables in it.
#[derive(Clone)]
pub(crate) struct Rows {
    place: Arc<Place>,
    sql: Arc<Sql>,
}

/// A connection of its own, made when it is needed.
pub(crate) struct Session {
    rows: Rows,
    connection: Option<Box<Connection>>,
}

impl Rows {
    /// Creates the tables of a log that is not there yet. With a sentence for the operator.
    pub(crate) async fn open(url: &str, options: &Options) -> Result<(Self, Option<&'static str>), Error> {
        let (place, log) = url::parse(url, options)?;
        let rows = Self { place: Arc::new(place), sql: Arc::new(Sql::new(&log)) };
        let connection = Connection::new(&rows.place).await.map_err(Fault::at_the_start)?;
        let warning = (!connection.is_replicated().await).then_some(ALONE);
        let mut session = Session { rows: rows.clone(), connection: Some(Box::new(connection)) };
        let mut backoff = Backoff::new(options.deadline);
        let mut found = session.run(&Statement::ReadHead, &backoff).await;
        for _ in 0..CREATIONS {
            if !matches!(found, Err(Fault::Stop(Error::Foreign(_)))) {
                break;
            }
            session.create(&mut backoff).await?;
            found = session.run(&Statement::ReadHead, &backoff).await;
        }
        found.map_err(Fault::at_the_start)?;
        Ok((rows, warning))
    }

    pub(crate) fn session(&self) -> Session {
        Session { rows: self.clone(), connection: None }
    }
}

impl Session {
    /// Runs a statement once.
    pub(crate) async fn run(
        &mut self,
        statement: &Statement<Bytes>,
        backoff: &Backoff,
    ) -> Result<Answer<Bytes>, Fault> {
        let connection = match self.connection.take().filter(|connection| !connection.is_closed()) {
            Some(connection) => connection,
            None => Box::new(Connection::new(&self.rows.place).await?),
        };
        let connection = self.connection.insert(connection);
        let answer = run(connection, &self.rows.sql, statement, backoff).await;
        if matches!(answer, Err(Fault::Unknown(_))) {
            // What it waits for may never come, and another database may have taken its place.
            self.connection = None;
        }
        answer
    }

    async fn create(&mut self, backoff: &mut Backoff) -> Result<(), Error> {
        let Some(connection) = &self.connection else { return Ok(()) };
        match connection.execute(&self.rows.sql.create, backoff.left()).await {
            // Databases that do not know how a column is stored refuse this.
            Ok(()) => drop(connection.execute(&self.rows.sql.store, backoff.left()).await),
            Err(Fault::Unknown(reason)) => backoff.wait(&reason).await?,
            Err(fault) => return Err(fault.at_the_start()),
        }
        Ok(())
    }
}

async fn run(
    connection: &Connection,
    sql: &Sql,
    statement: &Statement<Bytes>,
    backoff: &Backoff,
) -> Result<Answer<Bytes>, Fault> {
    let (text, parameters) = prepare(sql, statement);
    loop {
        let rows = connection.run(text, &parameters, backoff.left()).await?;
        return Ok(match statement {
            Statement::ReadHead => {
                let head = rows.first().ok_or_else(|| Error::Foreign("the head has no row".to_owned()))?;
                Answer::Head(read_head(head)?)
            }
            Statement::Read { .. } => Answer::Entries(rows.iter().map(read_entry).collect::<Result<_, _>>()?),
            // There may be more to delete.
            Statement::Remove { .. } if count(&rows)? > 0 => continue,
            Statement::Remove { .. } => Answer::Unchanged,
            _ => match rows.first() {
                Some(head) => Answer::Changed(read_head(head)?),
                None => Answer::Unchanged,
            },
        });
    }
}

/// A statement as text, and its parameters.
fn prepare<'a>(sql: &'a Sql, statement: &'a Statement<Bytes>) -> (&'a str, Vec<Parameter<'a>>) {
    match statement {
        Statement::ReadHead => (&sql.read_head, Vec::new()),
        Statement::Look => (&sql.look, Vec::new()),
        Statement::Append { position, entry } => {
            let previous: Option<Vec<u8>> = entry.previous.map(|id| id.0.to_be_bytes().into());
            let batch = entry.batch.as_deref().unwrap_or_default();
            let id = bytes(entry.id.0.to_be_bytes().to_vec());
            (&sql.append, vec![number(*position), id, number(entry.term), bytes(previous), bytes(batch)])
        }
        Statement::Confirm { position, id } => {
            (&sql.confirm, vec![number(*position), bytes(id.0.to_be_bytes().to_vec())])
        }
        Statement::Take { seen, owner } => (&sql.take, vec![number(*seen), bytes(owner.0.to_be_bytes().to_vec())]),
        Statement::Read { from, to } => (&sql.read, vec![number(*from), number(*to)]),
        Statement::Change { term, kept } => {
            let snapshots: Parameter<'_> = (Box::new(encode_snapshots(&kept.snapshots)), Type::TEXT);
            (&sql.change, vec![number(*term), number(kept.changes), number(kept.floor), snapshots])
        }
        Statement::Remove { below } => (&sql.remove, vec![number(*below)]),
    }
}

/// Terms and positions are counted up from zero.
fn number(value: u64) -> Parameter<'static> {
    (Box::new(value.cast_signed()), Type::INT8)
}

fn bytes<'a>(value: impl ToSql + Sync + Send + 'a) -> Parameter<'a> {
    (Box::new(value), Type::BYTEA)
}

fn count(rows: &[Row]) -> Result<i64, Error> {
    rows.first().map_or(Ok(0), |row| column(row, 0))
}

fn read_head(row: &Row) -> Result<RowHead, Error> {
    let format: i32 = column(row, 0)?;
    if format != FORMAT {
        return Err(Error::Foreign(format!("tables of format {format}")));
    }
    let number = |at| column::<i64>(row, at).map(i64::cast_unsigned);
    let snapshots = decode_snapshots(column(row, 7)?).ok_or_else(|| Error::Foreign("its snapshots".to_owned()))?;
    let last: Option<&[u8]> = column(row, 4)?;
    Ok(RowHead {
        term: number(1)?,
        owner: NodeId(identity(column(row, 2)?)?),
        next: number(3)?,
        last: last.map(identity).transpose()?.map(EntryId),
        kept: Kept { changes: number(5)?, floor: number(6)?, snapshots },
    })
}

fn read_entry(row: &Row) -> Result<Entry<Bytes>, Error> {
    let previous: Option<&[u8]> = column(row, 2)?;
    Ok(Entry {
        id: EntryId(identity(column(row, 0)?)?),
        term: column::<i64>(row, 1)?.cast_unsigned(),
        previous: previous.map(identity).transpose()?.map(EntryId),
        batch: Some(Bytes::copy_from_slice(column(row, 3)?)),
    })
}

fn column<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, Error> {
    row.try_get(at).map_err(|error| Error::Foreign(error.to_string()))
}

fn identity(bytes: &[u8]) -> Result<u128, Error> {
    let bytes: [u8; 16] = bytes.try_into().map_err(|_| Error::Foreign("an identity has not 16 bytes".to_owned()))?;
    Ok(u128::from_be_bytes(bytes))
}
