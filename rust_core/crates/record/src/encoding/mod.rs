//! Records as bytes and back, as `docs/format.md` specifies them: frame types, the payload of each, and its fields.

mod decode;
mod encode;
pub(crate) mod kinds;
mod output;

pub use decode::{decode, decode_caused, decode_extents, decode_headers, named_in};
#[cfg(test)]
pub(crate) use encode::put_record;
pub use encode::{encode, encode_caused, encode_extents, encode_headers};
#[cfg(test)]
pub(crate) use output::{FieldType, Output, Trace};
