//! Which versions an object has, from what each drive of its erasure set says of it, by the rule of MinIO: what was
//! acknowledged is on a write quorum of drives, and what is on a read quorum can be read.

use std::collections::BTreeMap;

use crate::drives::Seen;
use crate::meta::{COMPRESSION, Kind, Metadata, Shape, Version};
use crate::sealed::{self, Secret};

pub const OLD: &str = "it was written by a MinIO of before 2020";

/// A version, newest first in a list of them.
pub struct Taken {
    pub shape: Shape,
    pub metadata: Metadata,
    /// By the number of a shard, the place in the set of the drive that has it.
    pub holders: Vec<Option<usize>>,
    /// Why it cannot be read; empty if nothing is known against it.
    pub problem: String,
    /// The key of its content, if that is encrypted.
    pub secret: Option<Secret>,
}

impl Taken {
    /// Opens what `secret` encrypts beside the content. The error says why it cannot be.
    pub fn unseal(&mut self, secret: Secret) -> Result<(), String> {
        let is_kms = sealed::is_kms(&self.metadata);
        for (name, value) in &mut self.metadata {
            let opened = match name.to_ascii_lowercase().as_slice() {
                // One of 16 bytes is that of no content, and one of parts has a count behind it.
                b"etag" if value.len() <= 32 || value.contains(&b'-') => continue,
                // With SSE-KMS, it is of no content either, and clients saw the end of it.
                b"etag" if is_kms => Some(value[value.len() - 32..].to_vec()),
                b"etag" => {
                    unhex(value).and_then(|sealed| sealed::value(&secret, "SSE-etag", &sealed)).map(|etag| hex(&etag))
                }
                b"x-minio-internal-crc" if !value.is_empty() => sealed::value(&secret, "object-checksum", value),
                _ => continue,
            };
            *value = opened.ok_or_else(|| "its ETag or its checksum cannot be opened".to_owned())?;
        }
        if !self.metadata.contains_key(COMPRESSION) {
            self.shape.parts.iter_mut().for_each(|part| part.actual = sealed::opened_size(part.size));
        }
        self.secret = Some(secret);
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    text.chunks(2).map(|pair| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?)).collect()
}

/// The versions of an object, and how many were never acknowledged and are not complete.
pub fn merged(seen: Vec<Seen>) -> (Vec<Taken>, u64) {
    let drives = seen.len();
    let mut unknown = 0;
    let mut first_seen = Vec::new();
    let mut by_id: BTreeMap<[u8; 16], Vec<Group>> = BTreeMap::new();
    for (place, seen) in seen.into_iter().enumerate() {
        let versions = match seen {
            Seen::Found(versions) => versions,
            Seen::Absent | Seen::Old => continue,
            Seen::Unknown => {
                unknown += 1;
                continue;
            }
        };
        for version in versions {
            let groups = by_id.entry(version.shape.id).or_insert_with(|| {
                first_seen.push(version.shape.id);
                Vec::new()
            });
            match groups.iter_mut().find(|group| group.shape == version.shape) {
                Some(group) => group.copies.push((place, version)),
                None => groups.push(Group { shape: version.shape.clone(), copies: vec![(place, version)] }),
            }
        }
    }
    let (mut versions, mut interrupted) = (Vec::new(), 0);
    for id in first_seen {
        let mut groups = by_id.remove(&id).unwrap_or_default();
        groups.sort_by_key(|group| -i128::from(group.shape.modified_ns));
        for group in groups {
            match group.taken(drives, unknown) {
                Some(version) => {
                    versions.push(version);
                    break;
                }
                None => interrupted += 1,
            }
        }
    }
    versions.sort_by_key(|version| -i128::from(version.shape.modified_ns));
    (versions, interrupted)
}

struct Group {
    shape: Shape,
    /// With the places of their drives.
    copies: Vec<(usize, Version)>,
}

impl Group {
    /// `None`: it was never acknowledged, and cannot be read.
    fn taken(self, drives: usize, unknown: usize) -> Option<Taken> {
        let Self { shape, copies } = self;
        let (read, write) = match shape.kind {
            Kind::Object if shape.distribution.len() != drives => {
                let problem =
                    format!("it is spread over {} drives, and its erasure set has {drives}", shape.distribution.len());
                return Some(Taken { shape, metadata: Metadata::new(), holders: Vec::new(), problem, secret: None });
            }
            Kind::Object => (shape.data, shape.data + usize::from(shape.data == shape.parity)),
            Kind::Marker | Kind::Legacy => ((drives / 2).max(1), drives / 2 + 1),
        };
        let found = copies.len();
        if found < read && found + unknown < write {
            return None;
        }
        let problem = match shape.kind {
            _ if found < read => format!("{read} drives are needed, and {found} of {drives} have it"),
            Kind::Legacy => OLD.to_owned(),
            _ => String::new(),
        };
        let mut holders = vec![None; drives];
        for (place, copy) in &copies {
            // A drive that says another number than its place has was replaced by one of elsewhere.
            let expected = shape.distribution.get(*place).map(|number| usize::from(*number));
            if expected == Some(copy.index) && (1..=drives).contains(&copy.index) {
                holders[copy.index - 1] = Some(*place);
            }
        }
        // Tags and locks may have been changed on some drives alone.
        let votes = |metadata: &Metadata| copies.iter().filter(|(_, copy)| copy.metadata == *metadata).count();
        let mut best: Option<&Metadata> = None;
        for (_, copy) in &copies {
            if best.is_none_or(|best| votes(&copy.metadata) > votes(best)) {
                best = Some(&copy.metadata);
            }
        }
        let metadata = best.cloned().unwrap_or_default();
        Some(Taken { shape, metadata, holders, problem, secret: None })
    }
}
