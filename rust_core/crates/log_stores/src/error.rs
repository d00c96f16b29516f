//! Why something that a store was asked for is not done.

use orcas_shared_log::Term;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("this is not the URL of a log: {0}")]
    Url(String),
    #[error("the store of the log refuses the credentials: {0}")]
    Credentials(String),
    #[error("the store of the log cannot be used: {0}")]
    Unfit(String),
    /// Something else is where the log should be, or one of another version.
    #[error("this is not a log of Orcas, or one of another version: {0}")]
    Foreign(String),
    #[error("the log in the store is not the one that this node has a copy of, or an older state of it")]
    OtherLog,
    #[error("another node owns the log since term {0}")]
    Fenced(Term),
    /// What was asked for may be done, or be done later. Only a node that takes the log finds out.
    #[error("the store of the log did not answer in time: {0}")]
    Unknown(String),
    #[error("a batch has {length} bytes, and {limit} are the most that the store of the log takes")]
    TooLarge { length: usize, limit: usize },
    #[error("the floor of a log only rises, and not above its oldest snapshot")]
    Floor,
}

/// Why a call has no reply.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The call may have had its effect, and may be made again.
    Unknown(String),
    /// The call was refused for its credentials. They may be valid again, when they were changed.
    Denied(String),
    Stop(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Stop(error)
    }
}

impl Fault {
    /// The error of a store that is being opened: there is nobody yet for whom it would be repeated.
    pub(crate) fn at_the_start(self) -> Error {
        match self {
            Self::Unknown(reason) => Error::Unknown(reason),
            Self::Denied(reason) => Error::Credentials(reason),
            Self::Stop(error) => error,
        }
    }
}
