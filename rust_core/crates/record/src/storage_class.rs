//! Storage classes. All are stored alike; a class is what a client said and lists show.

/// A class other than `STANDARD`, as a code of one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageClass(u8);

/// Names by their codes, from 1 on. The index has codes, so they never change.
const NAMES: [&str; 7] =
    ["REDUCED_REDUNDANCY", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER", "DEEP_ARCHIVE", "GLACIER_IR"];

impl StorageClass {
    pub fn from_name(name: &[u8]) -> Option<Self> {
        let at = NAMES.iter().position(|known| known.as_bytes() == name)?;
        u8::try_from(at + 1).ok().map(Self)
    }

    pub fn name(self) -> &'static str {
        NAMES[usize::from(self.0) - 1]
    }

    pub fn from_code(code: u8) -> Option<Self> {
        (1..=NAMES.len()).contains(&usize::from(code)).then_some(Self(code))
    }

    pub fn code(self) -> u8 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_one_name_and_one_code() {
        for name in NAMES {
            let class = StorageClass::from_name(name.as_bytes()).expect("a class");
            assert_eq!((class.name(), StorageClass::from_code(class.code())), (name, Some(class)));
        }
        assert_eq!(StorageClass::from_name(b"STANDARD"), None);
        assert_eq!((StorageClass::from_code(0), StorageClass::from_code(8)), (None, None));
    }
}
