//! The part of MessagePack that MinIO writes. Values are borrowed, and a length that the bytes do not have is an error,
//! so nothing is allocated for what is only claimed. `None` is a value that is cut short, or of another type.

/// What is left to read.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        self.0.split_off(..count)
    }

    fn big_endian(&mut self, bytes: usize) -> Option<u64> {
        Some(self.take(bytes)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn length(&mut self, bytes: usize) -> Option<usize> {
        usize::try_from(self.big_endian(bytes)?).ok()
    }

    pub fn integer(&mut self) -> Option<i64> {
        match self.big_endian(1)? as u8 {
            small @ 0x00..=0x7f => Some(small.into()),
            small @ 0xe0.. => Some((small as i8).into()),
            kind @ 0xcc..=0xcf => i64::try_from(self.big_endian(1 << (kind - 0xcc))?).ok(),
            kind @ 0xd0..=0xd3 => {
                let bytes = 1 << (kind - 0xd0);
                let unused = 64 - 8 * bytes as u32;
                Some((self.big_endian(bytes)? << unused) as i64 >> unused)
            }
            _ => None,
        }
    }

    /// A string or bytes; nil is none.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.bytes_length()?;
        self.take(length)
    }

    /// How many bytes follow.
    pub fn bytes_length(&mut self) -> Option<usize> {
        match self.big_endian(1)? as u8 {
            0xc0 => Some(0),
            short @ 0xa0..=0xbf => Some(usize::from(short & 0x1f)),
            kind @ 0xc4..=0xc6 => self.length(1 << (kind - 0xc4)),
            kind @ 0xd9..=0xdb => self.length(1 << (kind - 0xd9)),
            _ => None,
        }
    }

    fn count(&mut self, short: u8, long: u8) -> Option<usize> {
        match self.big_endian(1)? as u8 {
            0xc0 => Some(0),
            kind if kind & 0xf0 == short => Some(usize::from(kind & 0x0f)),
            kind if kind == long => self.length(2),
            kind if kind == long + 1 => self.length(4),
            _ => None,
        }
    }

    /// The elements of an array, each read by `element`.
    pub fn array<T>(&mut self, mut element: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        // Not reserved: the count is only claimed.
        (0..self.count(0x90, 0xdc)?).map(|_| element(self)).collect()
    }

    /// The entries of a map: `entry` reads the value that belongs to a key.
    pub fn map(&mut self, mut entry: impl FnMut(&'a [u8], &mut Self) -> Option<()>) -> Option<()> {
        for _ in 0..self.map_count()? {
            let key = self.bytes()?;
            entry(key, self)?;
        }
        Some(())
    }

    pub fn map_count(&mut self) -> Option<usize> {
        self.count(0x80, 0xde)
    }

    /// Passes over a value, whatever it holds.
    pub fn skip(&mut self) -> Option<()> {
        let mut left: u64 = 1;
        while left > 0 {
            left -= 1;
            let kind = *self.0.first()?;
            match kind {
                0xc2 | 0xc3 => drop(self.take(1)?),
                0xca | 0xcb => drop(self.take(if kind == 0xca { 5 } else { 9 })?),
                0xd4..=0xd8 => drop(self.take(2 + (1 << (kind - 0xd4)))?),
                0xc7..=0xc9 => {
                    self.take(1)?;
                    let length = self.length(1 << (kind - 0xc7))?;
                    self.take(length.checked_add(1)?)?;
                }
                0x90..=0x9f | 0xdc | 0xdd => left += self.count(0x90, 0xdc)? as u64,
                0x80..=0x8f | 0xde | 0xdf => left += 2 * self.map_count()? as u64,
                0xa0..=0xc0 | 0xc4..=0xc6 | 0xd9..=0xdb => drop(self.bytes()?),
                _ => drop(self.integer()?),
            }
        }
        Some(())
    }
}
