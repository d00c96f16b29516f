//! What the headers of responses are formatted from: objects of which no two are alike, the same in every run.

use orcas_checksum::Etag;

/// Objects of which each call takes the next, so that no branch is learned by heart.
pub const OBJECTS: usize = 256;
pub const DAY_MS: i64 = 86_400_000;
pub const CONTENT_TYPE: &str = "application/octet-stream";

/// What the headers of an object say.
pub struct Object {
    pub etag: Etag,
    pub length: u64,
    pub modified_ms: i64,
    /// First and last byte, and bytes in all.
    pub range: (u64, u64, u64),
}

pub type Objects = [Object; OBJECTS];

/// Below 64 MiB, small ones as often as large ones.
pub fn small(scattered: u64) -> u64 {
    (scattered >> 38) >> (scattered % 26)
}

/// Each object of another day, and as range its second half.
pub fn object(number: usize, length: fn(u64) -> u64) -> Object {
    let scattered = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut md5 = [0; 16];
    md5[..8].copy_from_slice(&scattered.to_le_bytes());
    md5[8..].copy_from_slice(&scattered.wrapping_mul(scattered | 1).to_be_bytes());
    let length = length(scattered);
    Object {
        etag: Etag { md5, parts: 0 },
        length,
        modified_ms: (20_000 - number as i64) * DAY_MS + (scattered % DAY_MS as u64) as i64,
        range: (length / 2, length, length + 1),
    }
}
