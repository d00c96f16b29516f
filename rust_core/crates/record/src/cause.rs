//! The cause of a change. Kept by the records from which events are made.

use std::num::NonZeroU8;

/// The cause of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// The engine itself, or a tool that works on the store.
    #[default]
    Engine,
    /// A lifecycle rule of the bucket.
    Lifecycle,
    /// Content that was there is stored again, sealed. No client sees a change.
    Sealing,
    Request(RequestCause),
}

/// The request that caused a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestCause {
    /// The code of the S3 operation. The codes are listed in `docs/format.md`; nothing here knows them.
    pub operation: NonZeroU8,
    /// The request id, which clients see as 16 hexadecimal digits.
    pub request: u64,
    /// The identity of the sender; zeros for a request without a signature.
    pub principal: [u8; 32],
}

/// How [`Cause::Lifecycle`] is stored: under a code that no operation has.
pub(super) const LIFECYCLE: RequestCause = RequestCause { operation: NonZeroU8::MAX, request: 0, principal: [0; 32] };
/// How [`Cause::Sealing`] is stored, likewise.
pub(super) const SEALING: RequestCause =
    RequestCause { operation: NonZeroU8::new(254).unwrap(), request: 0, principal: [0; 32] };
