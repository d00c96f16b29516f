//! An event, as a value.

use std::fmt::{self, Write};
use std::str::FromStr;

use super::names::EventName;

/// A change of a bucket or of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub name: EventName,
    pub place: Place,
    /// Milliseconds since the Unix epoch.
    pub time_ms: u64,
    pub bucket: Bucket,
    /// None if the bucket itself was created or removed.
    pub object: Option<Object>,
    /// The id of the identity whose request it was. Empty if the request was not signed, or if there was none.
    pub principal: String,
    /// The id as in the answer to the request, or empty.
    pub request_id: String,
    /// The address of the client, or empty if it is not known.
    pub source_address: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    pub name: String,
    /// The id of the account that owns it.
    pub owner: String,
    /// The id that distinguishes the bucket from an earlier one of the same name.
    pub id: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    pub key: Vec<u8>,
    /// None if nothing is stored under the key any more.
    pub size: Option<u64>,
    /// The ETag without quotes; empty if there is none.
    pub etag: String,
    /// Empty in a bucket that never had versioning.
    pub version_id: String,
}

/// What an event of a copy that failed says beside the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailedCopy {
    /// The id of the rule, or empty if there is none any more.
    pub rule: String,
    /// What is named behind `arn:aws:s3:::`.
    pub destination: String,
    /// What was to be done there, as S3 calls it.
    pub operation: &'static str,
    /// When the version was stored, in milliseconds since the Unix epoch.
    pub requested_ms: u64,
    pub reason: String,
}

/// Where an event stands among all others. Written as 20 hexadecimal digits, so that text is ordered as places are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The sequence of the record that it follows from.
    pub sequence: u64,
    /// Which of the events of this record.
    pub ordinal: u16,
}

impl Place {
    /// Behind all events of a record.
    pub fn after(sequence: u64) -> Self {
        Self { sequence, ordinal: u16::MAX }
    }

    /// The digits as which it is written.
    pub fn digits(self) -> [u8; 20] {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        let value = u128::from(self.sequence) << 16 | u128::from(self.ordinal);
        std::array::from_fn(|at| HEX[(value >> (76 - 4 * at)) as usize & 15])
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.digits().iter().try_for_each(|digit| f.write_char(char::from(*digit)))
    }
}

impl FromStr for Place {
    type Err = ();

    /// What is not 20 hexadecimal digits is no place.
    fn from_str(text: &str) -> Result<Self, ()> {
        let bytes = orcas_http::parse_hex::<10>(text.as_bytes()).ok_or(())?;
        let [s0, s1, s2, s3, s4, s5, s6, s7, o0, o1] = bytes;
        Ok(Self {
            sequence: u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
            ordinal: u16::from_be_bytes([o0, o1]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn places_are_ordered_as_their_text(one in any::<(u64, u16)>(), other in any::<(u64, u16)>()) {
            let [one, other] = [one, other].map(|(sequence, ordinal)| Place { sequence, ordinal });
            prop_assert_eq!(one.cmp(&other), one.to_string().cmp(&other.to_string()));
            prop_assert_eq!(one.to_string().parse(), Ok(one));
        }
    }

    #[test]
    fn other_text_is_no_place() {
        for text in ["", "0", "000000000000002A000", "000000000000002A00000", "000000000000002A000g"] {
            assert_eq!(text.parse::<Place>(), Err(()), "{text}");
        }
        assert_eq!("000000000000002a0001".parse(), Ok(Place { sequence: 42, ordinal: 1 }));
    }
}
