//! Recovers the salt of a log file whose header is gone.

use std::collections::HashMap;

use orcas_base::block::{BLOCK_SIZE, block_crc, field};
use orcas_base::error::Result;
use orcas_fs::{File, read_around_faults};

use crate::encoding::{
    FILE_HEADER, FRAME_ALIGN, FRAME_HEADER, FRAME_PAYLOAD_MAX, FileContext, FrameClass, FrameHeader, payload_start,
};

/// Bytes read at a time.
const WINDOW: u64 = 4 * 1024 * 1024;

/// The four bytes of the salt that checksums use, by majority of the records. A record counts only if the checksums of
/// its header and its first block yield the same salt. Content that imitates a frame is skipped with the frame that
/// contains it, unless that is damaged.
pub fn recover_salt(file: &dyn File, length: u64) -> Result<Option<u32>> {
    let unsalted = FileContext::new(&[0; 16], 0, &[0; 16]);
    let mut votes: HashMap<u32, u64> = HashMap::new();
    let mut at = FILE_HEADER;
    let mut block = vec![0; WINDOW as usize];
    let mut frame = vec![0; payload_start(FRAME_PAYLOAD_MAX) + BLOCK_SIZE];
    while at + FRAME_HEADER as u64 <= length {
        let wanted = (length - at).min(WINDOW) as usize;
        read_around_faults(file, at, &mut block[..wanted])?;
        let whole = wanted - FRAME_HEADER + 1;
        let mut index = 0;
        while index < whole {
            let offset = at + index as u64;
            let vote = match FrameHeader::is_likely(&block[index..index + FRAME_HEADER]) {
                true => salt_of(file, offset, length, &field(&block, index), &unsalted, &mut frame)?,
                false => None,
            };
            index += match vote {
                Some((salt, taken)) => {
                    *votes.entry(salt).or_default() += 1;
                    taken
                }
                None => FRAME_ALIGN,
            };
        }
        at += index as u64;
    }
    Ok(votes.into_iter().max_by_key(|(_, count)| *count).map(|(salt, _)| salt))
}

/// The salt of the record that begins at `at`, if there is one, and the length of its frame.
fn salt_of(
    file: &dyn File,
    at: u64,
    length: u64,
    bytes: &[u8; FRAME_HEADER],
    unsalted: &FileContext,
    frame: &mut [u8],
) -> Result<Option<(u32, usize)>> {
    let salt = u32::from_le_bytes(field(bytes, 0)) ^ unsalted.header_crc(bytes, at);
    let mut salt_bytes = [0; 16];
    salt_bytes[..4].copy_from_slice(&salt.to_le_bytes());
    let context = FileContext::new(&[0; 16], 0, &salt_bytes);
    let Some(header) = FrameHeader::decode(bytes, &context, at) else { return Ok(None) };
    let (from, content) = (header.payload_start(), header.length as usize);
    let front = from + content.min(BLOCK_SIZE);
    if header.class != FrameClass::Record || content == 0 || at + header.frame_length() as u64 > length {
        return Ok(None);
    }
    read_around_faults(file, at, &mut frame[..front])?;
    let stored = u32::from_le_bytes(field(&frame[FRAME_HEADER..], 0));
    let agrees = stored ^ block_crc(&frame[from..front]) == salt;
    Ok(agrees.then(|| (salt, header.frame_length())))
}
