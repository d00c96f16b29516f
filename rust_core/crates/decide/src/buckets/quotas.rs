//! Quotas: how much a bucket or an owner may hold. Pure: who counts what they hold, and when, is no concern of this file.

use crate::outcome::{QuotaOf, Refusal};

/// The most that may be held. `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Most bytes of all versions and of the parts of open uploads.
    pub bytes: Option<u64>,
    /// Delete markers included.
    pub versions: Option<u64>,
}

/// The bytes and versions that a bucket or an owner holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub bytes: i64,
    pub versions: i64,
}

impl std::ops::AddAssign for Held {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.versions += other.versions;
    }
}

impl Quota {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The quota as the document of a bucket: the two numbers, or `-` for those that are not limited. Empty without a
    /// limit.
    pub fn to_document(&self) -> String {
        let word = |limit: Option<u64>| limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string());
        if self.is_none() { String::new() } else { format!("{} {}", word(self.bytes), word(self.versions)) }
    }

    pub fn from_document(document: &[u8]) -> Option<Self> {
        let (bytes, versions) = std::str::from_utf8(document).ok()?.split_once(' ')?;
        let limit = |word: &str| if word == "-" { Some(None) } else { word.parse().ok().map(Some) };
        Some(Self { bytes: limit(bytes)?, versions: limit(versions)? })
    }

    /// Whether what is held may change `by` this much. What makes nothing larger is never refused, whatever is held
    /// already: a quota may be set to less than that.
    ///
    /// # Errors
    /// [`Refusal::QuotaExceeded`].
    pub fn check(&self, held: Held, by: Held, of: [QuotaOf; 2]) -> Result<(), Refusal> {
        let limits = [(self.bytes, held.bytes, by.bytes), (self.versions, held.versions, by.versions)];
        for ((limit, held, by), of) in limits.into_iter().zip(of) {
            if let Some(limit) = limit
                && by > 0
                && u64::try_from(held + by).is_ok_and(|after| after > limit)
            {
                return Err(Refusal::QuotaExceeded { of, limit });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: [QuotaOf; 2] = [QuotaOf::BucketBytes, QuotaOf::BucketVersions];

    #[test]
    fn only_growth_beyond_the_limit_is_refused() {
        let quota = Quota { bytes: Some(100), versions: Some(2) };
        let check = |held: (i64, i64), by: (i64, i64)| {
            let of = |(bytes, versions)| Held { bytes, versions };
            quota.check(of(held), of(by), OF)
        };
        assert_eq!(check((60, 1), (40, 1)), Ok(()));
        assert_eq!(check((60, 1), (41, 1)), Err(Refusal::QuotaExceeded { of: OF[0], limit: 100 }));
        assert_eq!(check((0, 2), (0, 1)), Err(Refusal::QuotaExceeded { of: OF[1], limit: 2 }));
        // What is too much already may shrink, and may be replaced by as much.
        assert_eq!(check((500, 9), (-10, -1)), Ok(()));
        assert_eq!(check((500, 9), (0, 0)), Ok(()));
        assert_eq!(check((500, 9), (1, 0)), Err(Refusal::QuotaExceeded { of: OF[0], limit: 100 }));
    }

    #[test]
    fn documents_say_what_was_set() {
        for quota in [(None, None), (Some(0), None), (None, Some(7)), (Some(u64::MAX), Some(1))] {
            let quota = Quota { bytes: quota.0, versions: quota.1 };
            let document = quota.to_document();
            assert_eq!(Quota::from_document(document.as_bytes()).unwrap_or_default(), quota);
        }
        for wrong in ["", "1", "1 2 3", "x -", "-1 1", "1  2"] {
            assert_eq!(Quota::from_document(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
