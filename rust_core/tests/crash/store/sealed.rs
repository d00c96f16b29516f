//! Content that is sealed: all of a store in one way, with a key of the server, a named key, or the key of a request.

use std::sync::Arc;

use bytes::Bytes;
use orcas_base::error::Result;
use orcas_engine::Handle;
use orcas_record::{Encryption, NamedKey};

use crate::model::Op;
use orcas_store::{RequestKey, Sealing};

/// The key that every request brings.
const CUSTOMERS: [u8; 32] = [9; 32];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Plain,
    Managed,
    Named,
    Customer,
}

impl Mode {
    /// Half of all seeds seal.
    pub fn of(seed: u64) -> Self {
        [Self::Plain, Self::Managed, Self::Named, Self::Plain, Self::Customer, Self::Plain][(seed / 16 % 6) as usize]
    }

    /// Whether the engine decides it without storing content again, as a front end would.
    pub fn allows(self, op: &Op) -> bool {
        let copies = matches!(op, Op::Copy { .. } | Op::CopyMany { .. } | Op::CopyPart { .. });
        let shares = copies || matches!(op, Op::Append { .. } | Op::Annotate { .. });
        self != Self::Customer || !shares
    }

    pub fn sealing(self, handle: &Handle) -> Result<Sealing> {
        Ok(match self {
            Self::Plain => Sealing::default(),
            Self::Managed => Some(Encryption::Managed).into(),
            Self::Named => {
                let context = Bytes::from_static(b"{\"of\":\"the suite\"}");
                Some(Encryption::Named(Arc::new(NamedKey { id: [3; 16], context, bucket_key: false }))).into()
            }
            Self::Customer => {
                let key = handle.keys().request_key(&CUSTOMERS)?;
                Sealing { encryption: Some(handle.keys().encryption_with(&key)?), key: Some(key) }
            }
        })
    }
}

/// What a request that reads content like this has to bring.
pub fn key_for(handle: &Handle, encryption: Option<&Encryption>) -> Result<Option<RequestKey>> {
    match encryption {
        Some(Encryption::Customer(_)) => handle.keys().request_key(&CUSTOMERS).map(Some),
        _ => Ok(None),
    }
}
