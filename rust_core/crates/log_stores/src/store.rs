//! One face for both kinds of store.

use std::sync::Arc;
use std::time::Duration;

use orcas_shared_log::Cursor;
use orcas_shared_log::objects::Call;
use orcas_shared_log::rows::Statement;
use tokio::sync::Mutex;

use crate::backoff::Backoff;
use crate::error::{Error, Fault};
use crate::objects::{self, Objects};
use crate::options::Options;
use crate::reading::{Follower, Taking};
use crate::rows::{self, Rows, Session};

/// A log that several nodes share.
pub struct LogStore {
    kind: Kind,
    call_timeout: Duration,
    deadline: Duration,
    warning: Option<&'static str>,
}

enum Kind {
    Objects(Arc<Objects>),
    Rows {
        rows: Rows,
        /// The connection of [`LogStore::touch`].
        touching: Mutex<Session>,
    },
}

impl LogStore {
    /// Connects to the store that a URL names: `s3://…` or `postgresql://…`. A database gets its tables. Objects are not
    /// created before a node takes the log.
    pub async fn open(url: &str, options: &Options) -> Result<Self, Error> {
        let (kind, warning) = match url.split_once("://").map(|(scheme, _)| scheme) {
            Some("s3") => (Kind::Objects(Arc::new(Objects::open(url, options).await?)), None),
            Some("postgresql" | "postgres") => {
                let (rows, warning) = Rows::open(url, options).await?;
                let touching = Mutex::new(rows.session());
                (Kind::Rows { rows, touching }, warning)
            }
            _ => return Err(Error::Url("it begins neither with s3:// nor with postgresql://".to_owned())),
        };
        Ok(Self { kind, call_timeout: options.call_timeout, deadline: options.deadline, warning })
    }

    /// What an operator should know about this store.
    pub fn warning(&self) -> Option<&'static str> {
        self.warning
    }

    /// In bytes.
    pub fn largest_batch(&self) -> usize {
        match self.kind {
            Kind::Objects(_) => objects::LARGEST_BATCH,
            Kind::Rows { .. } => rows::LARGEST_BATCH,
        }
    }

    /// Reads the head, once: how long that takes says how near the store is, for an owner as for a follower.
    pub async fn touch(&self) -> Result<(), Error> {
        let touched = match &self.kind {
            Kind::Objects(objects) => objects.call(&Call::ReadHead).await.map(drop),
            Kind::Rows { touching, .. } => {
                let mut session = touching.lock().await;
                session.run(&Statement::ReadHead, &Backoff::new(self.call_timeout)).await.map(drop)
            }
        };
        touched.map_err(Fault::at_the_start)
    }

    /// `cursor` says how far the copy is.
    pub fn follow(&self, cursor: Cursor) -> Follower {
        match &self.kind {
            Kind::Objects(objects) => Follower::of_objects(Arc::clone(objects), cursor, self.deadline),
            Kind::Rows { rows, .. } => Follower::of_rows(rows, cursor, self.deadline),
        }
    }

    /// Takes the log from whoever has it. Whether it is time to do so, the caller decides.
    pub fn take(&self, cursor: Cursor) -> Result<Taking, Error> {
        match &self.kind {
            Kind::Objects(objects) => {
                Taking::of_objects(Arc::clone(objects), cursor, self.largest_batch(), self.deadline)
            }
            Kind::Rows { rows, .. } => Taking::of_rows(rows, cursor, self.largest_batch(), self.deadline),
        }
    }
}
