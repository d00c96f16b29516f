//! Memory of secrets: overwritten when it is dropped, and never shown.
//!
//! Bytes that the compiler spills to the stack while a value is made are out of reach. A secret therefore goes to the
//! heap once and stays there.
#![allow(unsafe_code, reason = "the expanded keys of other crates cannot be overwritten otherwise")]

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Deref;

use zeroize::Zeroize;

/// 32 secret bytes.
#[derive(Clone)]
pub struct Secret(Box<[u8; 32]>);

impl Secret {
    /// Copies the bytes; the caller overwrites its own.
    pub fn new(bytes: &[u8; 32]) -> Self {
        let mut secret = Self(Box::new([0; 32]));
        secret.0.copy_from_slice(bytes);
        secret
    }

    /// Fills the bytes in place, for example with random ones.
    pub fn fill(&mut self, fill: impl FnOnce(&mut [u8])) {
        fill(&mut *self.0);
    }

    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A value of another crate that holds secrets, such as an expanded key. Its memory is overwritten after it is dropped.
pub(crate) struct Wiped<T>(Box<MaybeUninit<T>>);

impl<T> Wiped<T> {
    pub fn new(value: T) -> Self {
        let mut place = Box::new_uninit();
        place.write(value);
        Self(place)
    }
}

impl<T> Deref for Wiped<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `new` wrote the value, and only `drop` ends it.
        unsafe { self.0.assume_init_ref() }
    }
}

impl<T> Drop for Wiped<T> {
    fn drop(&mut self) {
        // SAFETY: `new` wrote the value, and nothing reads it after this.
        unsafe { end(&mut self.0) };
    }
}

/// Drops the value and overwrites its memory.
///
/// # Safety
/// There is a value, and nobody uses it afterwards.
unsafe fn end<T>(place: &mut MaybeUninit<T>) {
    // SAFETY: as above. Any bytes are valid for `MaybeUninit`.
    unsafe { place.assume_init_drop() };
    // As a slice: the bytes are then overwritten in bulk.
    std::slice::from_mut(place).zeroize();
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_wiped_value_is_dropped_once_and_its_memory_overwritten() {
        struct Counted<'a>(&'a Cell<u32>, [u8; 64]);
        impl Drop for Counted<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let drops = Cell::new(0);
        let wiped = Wiped::new(Counted(&drops, [7; 64]));
        assert_eq!(wiped.1, [7; 64]);
        drop(wiped);
        assert_eq!(drops.get(), 1);

        let mut place = MaybeUninit::new(Counted(&drops, [7; 64]));
        // SAFETY: there is a value, which is not used again.
        unsafe { end(&mut place) };
        assert_eq!(drops.get(), 2);
        let at = place.as_ptr().cast::<u8>();
        // SAFETY: every byte was overwritten, so all of them may be read.
        let bytes = unsafe { std::slice::from_raw_parts(at, size_of::<Counted<'_>>()) };
        assert!(bytes.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(format!("{:?}", Secret::new(&[0xab; 32])), "Secret(..)");
    }
}
