//! One face for both kinds of store.

use std::sync::Arc;
use std::time::Duration;

use orcas_shared_log::Cursor;

use crate::error::Error;
use crate::objects::{self, Objects};
use crate::options::Options;
use crate::reading::{Follower, Taking};
use crate::rows::{self, Rows};

/// A log that several nodes share.
pub struct LogStore {
    kind: Kind,
    deadline: Duration,
    warning: Option<&'static str>,
}

enum Kind {
    Objects(Arc<Objects>),
    Rows(Rows),
}

impl LogStore {
    /// Connects to the store that a URL names: `s3://…` or `postgresql://…`. A database gets its tables. Objects are not
    /// created before a node takes the log.
    pub async fn open(url: &str, options: &Options) -> Result<Self, Error> {
        let (kind, warning) = match url.split_once("://").map(|(scheme, _)| scheme) {
            Some("s3") => (Kind::Objects(Arc::new(Objects::open(url, options).await?)), None),
            Some("postgresql" | "postgres") => {
                let (rows, warning) = Rows::open(url, options).await?;
                (Kind::Rows(rows), warning)
            }
            _ => return Err(Error::Url("it begins neither with s3:// nor with postgresql://".to_owned())),
        };
        Ok(Self { kind, deadline: options.deadline, warning })
    }

    /// What an operator should know about this store.
    pub fn warning(&self) -> Option<&'static str> {
        self.warning
    }

    /// In bytes.
    pub fn largest_batch(&self) -> usize {
        match self.kind {
            Kind::Objects(_) => objects::LARGEST_BATCH,
            Kind::Rows(_) => rows::LARGEST_BATCH,
        }
    }

    /// `cursor` says how far the copy is.
    pub fn follow(&self, cursor: Cursor) -> Follower {
        match &self.kind {
            Kind::Objects(objects) => Follower::of_objects(Arc::clone(objects), cursor, self.deadline),
            Kind::Rows(rows) => Follower::of_rows(rows, cursor, self.deadline),
        }
    }

    /// Takes the log from whoever has it. Whether it is time to do so, the caller decides.
    pub fn take(&self, cursor: Cursor) -> Result<Taking, Error> {
        match &self.kind {
            Kind::Objects(objects) => {
                Taking::of_objects(Arc::clone(objects), cursor, self.largest_batch(), self.deadline)
            }
            Kind::Rows(rows) => Taking::of_rows(rows, cursor, self.largest_batch(), self.deadline),
        }
    }
}
