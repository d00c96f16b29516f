//! Entity tags of S3. Pure.

use super::Md5Hasher;
use orcas_http::{hex_pairs, hex_value};

/// An entity tag. `parts` is 0 for an object stored in one request, whose tag is the MD5 of its content, or else the number
/// of parts whose MD5s were hashed: together, or one after the other if they were appended.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Etag {
    pub md5: [u8; 16],
    pub parts: u16,
}

impl Etag {
    pub fn simple(md5: [u8; 16]) -> Self {
        Self { md5, parts: 0 }
    }

    /// The tag of a multipart object from the MD5s of its parts, in order. `None` above 65,535 parts.
    pub fn multipart<'a>(parts: impl IntoIterator<Item = &'a [u8; 16]>) -> Option<Self> {
        let mut hasher = Md5Hasher::new();
        let mut count = 0u16;
        for md5 in parts {
            hasher.update(md5);
            count = count.checked_add(1)?;
        }
        Some(Self { md5: hasher.finish(), parts: count })
    }

    /// The tag of an object with this tag after content with the MD5 `next` was appended to it. It counts one part more.
    #[must_use]
    pub fn appended(&self, next: &[u8; 16]) -> Self {
        let mut hasher = Md5Hasher::new();
        hasher.update(&self.md5);
        hasher.update(next);
        Self { md5: hasher.finish(), parts: self.parts.max(1).saturating_add(1) }
    }

    /// The 32 hexadecimal digits of the MD5.
    #[inline]
    pub fn hex(&self) -> [[u8; 2]; 16] {
        hex_pairs(&self.md5)
    }

    /// Appends the tag without quotes: 32 hexadecimal digits, and `-N` for a multipart object.
    #[inline]
    pub fn write_hex(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.hex().as_flattened());
        if self.parts > 0 {
            out.push(b'-');
            out.extend_from_slice(itoa::Buffer::new().format(self.parts).as_bytes());
        }
    }

    /// Parses a tag with or without quotes. `None` if this server cannot have issued it.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let bare = text.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(text);
        let (hex, parts) = match memchr::memchr(b'-', bare) {
            Some(at) => (&bare[..at], parse_parts(&bare[at + 1..])?),
            None => (bare, 0),
        };
        let mut md5 = [0; 16];
        if hex.len() != 32 {
            return None;
        }
        for (byte, pair) in md5.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = hex_value(pair[0])? << 4 | hex_value(pair[1])?;
        }
        Some(Self { md5, parts })
    }
}

/// A part count: decimal digits without a leading zero, at least 1.
fn parse_parts(text: &[u8]) -> Option<u16> {
    let digits = std::str::from_utf8(text).ok().filter(|t| t.bytes().all(|b| b.is_ascii_digit()))?;
    digits.parse().ok().filter(|_| !digits.starts_with('0'))
}

impl std::fmt::Display for Etag {
    /// Without quotes.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = Vec::with_capacity(40);
        self.write_hex(&mut text);
        out.write_str(&String::from_utf8_lossy(&text))
    }
}

impl std::fmt::Debug for Etag {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Etag({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entity_tags() {
        let text = b"\"d41d8cd98f00b204e9800998ecf8427e-12\"";
        let tag = Etag::parse(text).unwrap();
        assert_eq!((tag.parts, format!("\"{tag}\"").as_bytes()), (12, &text[..]));
        assert_eq!(Etag::parse(&text[1..text.len() - 1]), Some(tag));
        let hex = "d41d8cd98f00b204e9800998ecf8427e";
        for bad in [
            "",
            "\"",
            "d41d",
            &format!("{hex}-"),
            &format!("{hex}-0"),
            &format!("{hex}-65536"),
            &format!("{hex}-+1"),
            &format!("\"{hex}"),
            &format!("{hex}0"),
        ] {
            assert_eq!(Etag::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
