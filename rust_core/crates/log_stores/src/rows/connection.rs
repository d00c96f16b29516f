//! One connection to the database. It tells a commit with a warning from one without: a wait for the standby that is
//! cancelled ends like that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Row, SimpleQueryMessage};

use super::url::Place;
use crate::error::{Error, Fault};
use crate::tls::PostgresTls;

/// A warning must be sent, a statement waits as long as its commit takes, and conditions are looked at again after a
/// lock was waited for.
const SETTINGS: &str = "SET client_min_messages = warning; SET statement_timeout = 0; \
    SET default_transaction_isolation = 'read committed'; SHOW synchronous_commit";

pub(super) type Parameter<'a> = (Box<dyn ToSql + Sync + Send + 'a>, Type);

pub(super) struct Connection {
    client: Client,
    warned: Arc<AtomicBool>,
    tls: PostgresTls,
    timeout: Duration,
    commits_locally: bool,
}

impl Connection {
    pub(super) async fn new(place: &Place) -> Result<Self, Fault> {
        match timeout(place.timeout, Self::connect(place)).await {
            Ok(connection) => connection,
            Err(_) => Err(Fault::Unknown(format!("{} s passed without a connection", place.timeout.as_secs_f64()))),
        }
    }

    async fn connect(place: &Place) -> Result<Self, Fault> {
        let (client, mut connection) = place.config.connect(place.tls.clone()).await.map_err(|error| fault(&error))?;
        let warned = Arc::new(AtomicBool::new(false));
        let warns = Arc::clone(&warned);
        // A notice is read before the end of the statement that it belongs to. The task ends with the client.
        tokio::spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notice(notice) = message
                    && !matches!(notice.parsed_severity(), Some(Severity::Notice | Severity::Info | Severity::Log))
                {
                    warns.store(true, Ordering::Release);
                }
            }
        });
        let answers = client.simple_query(SETTINGS).await.map_err(|error| fault(&error))?;
        let commit = answers.iter().find_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        if commit == Some("off") {
            let reason = "synchronous_commit is off, so it acknowledges what it may lose";
            return Err(Error::Unfit(reason.to_owned()).into());
        }
        let commits_locally = commit == Some("local");
        Ok(Self { client, warned, tls: place.tls.clone(), timeout: place.timeout, commits_locally })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Whether a commit waits for another machine. A database that does not know the setting replicates in its own way.
    pub(super) async fn is_replicated(&self) -> bool {
        let answers = self.client.simple_query("SHOW synchronous_standby_names").await;
        let is_empty =
            |answer: &SimpleQueryMessage| matches!(answer, SimpleQueryMessage::Row(row) if row.get(0) == Some(""));
        !self.commits_locally && answers.map_or(true, |answers| !answers.iter().any(is_empty))
    }

    /// Statements without parameters, all or none.
    pub(super) async fn execute(&self, statements: &str, limit: Duration) -> Result<(), Fault> {
        match timeout(limit, self.client.batch_execute(statements)).await {
            Ok(done) => done.map_err(|error| fault(&error)),
            Err(_) => Err(Fault::Unknown(too_long(limit))),
        }
    }

    /// The rows of a statement that was committed, with whether there was a warning. A statement that takes too long is
    /// cancelled, so that none is left behind that keeps others waiting.
    pub(super) async fn run(
        &self,
        text: &str,
        parameters: &[Parameter<'_>],
        limit: Duration,
    ) -> Result<Vec<Row>, Fault> {
        self.warned.store(false, Ordering::Release);
        let parameters: Vec<(&(dyn ToSql + Sync), Type)> =
            parameters.iter().map(|(value, kind)| (&**value as _, kind.clone())).collect();
        let Ok(rows) = timeout(limit, self.client.query_typed(text, &parameters)).await else {
            let (token, tls) = (self.client.cancel_token(), self.tls.clone());
            tokio::spawn(timeout(self.timeout, async move { token.cancel_query(tls).await }));
            return Err(Fault::Unknown(too_long(limit)));
        };
        let rows = rows.map_err(|error| fault(&error))?;
        if self.warned.load(Ordering::Acquire) {
            return Err(Fault::Unknown("the database committed with a warning".to_owned()));
        }
        Ok(rows)
    }
}

fn too_long(limit: Duration) -> String {
    format!("a statement was not done after {:.1} s", limit.as_secs_f64())
}

/// What an error means for whoever waits. None of them says that a statement had no effect: the protocol finds out.
fn fault(error: &tokio_postgres::Error) -> Fault {
    let Some(known) = error.as_db_error() else {
        let cause = std::error::Error::source(error).map_or(String::new(), |cause| format!(": {cause}"));
        return Fault::Unknown(format!("{error}{cause}"));
    };
    let (code, said) = (known.code(), known.message().to_owned());
    if code.code().starts_with("28") {
        return Fault::Denied(said);
    }
    if [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_COLUMN, SqlState::DATATYPE_MISMATCH].contains(code) {
        return Error::Foreign(said).into();
    }
    if [SqlState::INVALID_CATALOG_NAME, SqlState::INSUFFICIENT_PRIVILEGE].contains(code) {
        return Error::Unfit(said).into();
    }
    Fault::Unknown(format!("{} ({})", said, code.code()))
}
