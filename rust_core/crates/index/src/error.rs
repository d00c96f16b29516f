//! The error type inside this crate, into which errors of SQLite convert. Public functions return the store's error.

use orcas_base::error::Error;

pub(super) type Result<T, E = IndexError> = std::result::Result<T, E>;

/// The store's error in a type of this crate, because only such a type can implement `From<rusqlite::Error>` here.
#[derive(Debug)]
pub(super) struct IndexError(Error);

impl From<Error> for IndexError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl From<IndexError> for Error {
    fn from(error: IndexError) -> Self {
        error.0
    }
}

impl From<rusqlite::Error> for IndexError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseCorrupt, DiskFull, NotADatabase};
        use rusqlite::ffi::{SQLITE_IOERR_DATA, SQLITE_IOERR_READ, SQLITE_IOERR_SHORT_READ};
        let extended = error.sqlite_error().map(|error| error.extended_code);
        match (error.sqlite_error_code(), extended) {
            (Some(DiskFull), _) => Self(Error::StorageFull),
            (_, Some(SQLITE_IOERR_DATA)) => damaged("a page is not the one that was written"),
            (Some(DatabaseCorrupt | NotADatabase), _) | (_, Some(SQLITE_IOERR_READ | SQLITE_IOERR_SHORT_READ)) => {
                damaged(&error.to_string())
            }
            _ => failure(&error.to_string()),
        }
    }
}

pub(super) fn failure(reason: &str) -> IndexError {
    IndexError(Error::Index { reason: reason.into() })
}

pub(super) fn damaged(reason: &str) -> IndexError {
    IndexError(Error::IndexDamaged { reason: reason.into() })
}
