//! Reads the frames of a pack without knowing what it should contain. Only the records of the log tell whether a chunk is
//! in use, and whether space without a frame is damaged or was abandoned.

use std::path::Path;

use orcas_base::block::BLOCK_SIZE;
use orcas_base::error::Result;
use orcas_fs::{File, FileSystem, Open, read_around_faults};
use orcas_record::PackId;
use orcas_record::placement::codec;

use super::format::{
    CHUNK_HEADER, ChunkHeader, FILE_HEADER, FRAME_ALIGN, blocks_match, content_start, frame_length, table_length,
};
use super::pack_path;
use super::salvage::PackSalvage;

/// The kinds of bytes that follow each other in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackFrame {
    /// `intact`: its content matches its checksums.
    Chunk { byte: u64, length: u32, fingerprint: [u8; 32], intact: bool },
    /// Bytes that are not zero and where no frame begins.
    Unknown { byte: u64, length: u64 },
}

impl PackSalvage {
    /// The packs that can be read, in order.
    pub fn packs(&self) -> Vec<PackId> {
        let mut numbers: Vec<u64> = self.salts.keys().copied().collect();
        numbers.sort_unstable();
        numbers.into_iter().map(codec::pack).collect()
    }

    /// Reads all frames of a pack in the directory `dir`, in order.
    ///
    /// # Errors
    /// When reading fails, and errors of `sink`.
    pub fn frames(
        &self,
        fs: &dyn FileSystem,
        dir: &Path,
        pack: PackId,
        sink: &mut dyn FnMut(PackFrame) -> Result<()>,
    ) -> Result<()> {
        let number = codec::pack_number(pack);
        let Some(salt) = self.salts.get(&number).copied() else { return Ok(()) };
        let file = fs.open(&pack_path(dir, number), Open::Read)?;
        let end = file.len()?;
        let (mut at, mut unknown) = (FILE_HEADER, None);
        let mut page = [0; FRAME_ALIGN as usize];
        while at < end {
            let page = &mut page[..FRAME_ALIGN.min(end - at) as usize];
            read_around_faults(&*file, at, page)?;
            let header = page.first_chunk::<CHUNK_HEADER>().and_then(|bytes| ChunkHeader::decode(bytes, salt, at));
            let known = header.is_some() || page.iter().all(|byte| *byte == 0);
            if let Some(byte) = unknown.take_if(|_| known) {
                sink(PackFrame::Unknown { byte, length: at - byte })?;
            }
            match header {
                Some(header) => {
                    let ChunkHeader { length, fingerprint, .. } = header;
                    let intact = is_intact(&*file, at, end, &header, salt)?;
                    sink(PackFrame::Chunk { byte: at, length, fingerprint, intact })?;
                    at += frame_length(length);
                }
                None => {
                    if !known {
                        unknown.get_or_insert(at);
                    }
                    at += FRAME_ALIGN;
                }
            }
        }
        match unknown {
            Some(byte) => sink(PackFrame::Unknown { byte, length: end - byte }),
            None => Ok(()),
        }
    }
}

/// Whether the content of the frame at `at` matches its checksums.
fn is_intact(file: &dyn File, at: u64, end: u64, header: &ChunkHeader, salt: u32) -> Result<bool> {
    let content = at + content_start(header.length);
    if content + u64::from(header.length) > end {
        return Ok(false);
    }
    let mut table = vec![0; table_length(header.length)];
    read_around_faults(file, at + CHUNK_HEADER as u64, &mut table)?;
    let Some(crcs) = header.decode_table(&table, salt) else { return Ok(false) };
    let mut block = vec![0; BLOCK_SIZE];
    let mut left = header.length as usize;
    for (index, crc) in crcs.iter().enumerate() {
        let block = &mut block[..left.min(BLOCK_SIZE)];
        read_around_faults(file, content + (index * BLOCK_SIZE) as u64, block)?;
        if !blocks_match(&[*crc], block, salt) {
            return Ok(false);
        }
        left -= block.len();
    }
    Ok(true)
}
