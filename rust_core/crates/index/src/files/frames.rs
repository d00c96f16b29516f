//! Verifies the frames of the index's write-ahead log (WAL): every page read from one is the page that was written.
//!
//! SQLite verifies the checksums of frames only when it opens the file, not when it reads a page or when a checkpoint
//! moves a page into the database, where it would get a valid checksum. Therefore a checksum of each page written is
//! kept in memory and compared when the page is read. No frame is missed: only this process has the file open, and
//! frames that it did not write were verified when SQLite opened the file.
//!
//! `is_broken` judges what SQLite drops when it opens the file.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsString};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use super::layout::{CONTENT, PAGE};
use orcas_base::error::{Error, Result};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// A frame: its header, then its page.
pub(crate) const FRAME: usize = FRAME_HEADER + PAGE;
const MAGIC: u32 = 0x377f_0682;
/// Checksums allocated at a time, and the number of such blocks: enough for 16 GiB of pages. Frames beyond that are not
/// verified.
const ENTRIES_PER_BLOCK: usize = 4_096;
const BLOCKS_MAX: usize = 1_024;

/// Checksums of the pages in one WAL file; 0 for a frame whose page is not known.
pub(crate) struct PageChecksums {
    blocks: [OnceLock<Box<[AtomicU64]>>; BLOCKS_MAX],
}

/// The WAL files that are open, by name.
fn open_files() -> &'static Mutex<HashMap<CString, Weak<PageChecksums>>> {
    static OPEN: OnceLock<Mutex<HashMap<CString, Weak<PageChecksums>>>> = OnceLock::new();
    OPEN.get_or_init(Mutex::default)
}

/// The checksums of a file, shared by all connections that have it open.
pub(crate) fn checksums_of(name: &CStr) -> Arc<PageChecksums> {
    let mut open = open_files().lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = open.get(name).and_then(Weak::upgrade) {
        return known;
    }
    open.retain(|_, sums| sums.strong_count() > 0);
    let made = Arc::new(PageChecksums { blocks: [const { OnceLock::new() }; BLOCKS_MAX] });
    open.insert(name.to_owned(), Arc::downgrade(&made));
    made
}

/// To be called when the database at `path` is deleted or replaced. Connections that have its old write-ahead log open
/// keep the checksums of that.
pub(crate) fn forget(path: &Path) {
    let gone = name_of(path);
    let mut open = open_files().lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|name, _| name.as_bytes() != gone.as_bytes());
}

fn name_of(path: &Path) -> OsString {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name
}

/// Whether the database at `path` has no write-ahead log, or an empty one.
pub(crate) fn is_absent(path: &Path) -> bool {
    std::fs::metadata(name_of(path)).map_or(true, |found| found.len() == 0)
}

fn sum(page: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, page).max(1)
}

impl PageChecksums {
    fn entry(&self, frame: usize) -> Option<&AtomicU64> {
        let piece = self.blocks.get(frame / ENTRIES_PER_BLOCK)?;
        piece.get_or_init(|| (0..ENTRIES_PER_BLOCK).map(|_| AtomicU64::new(0)).collect()).get(frame % ENTRIES_PER_BLOCK)
    }

    fn set(&self, frame: usize, sum: u64) {
        if let Some(entry) = self.entry(frame) {
            entry.store(sum, Ordering::Release);
        }
    }

    /// `bytes` are about to be written at `offset`.
    pub fn written(&self, bytes: &[u8], offset: usize) {
        match Region::of(offset, bytes.len()) {
            Region::Page(frame) => self.set(frame, sum(bytes)),
            Region::Frame(frame) => self.set(frame, sum(&bytes[FRAME_HEADER..])),
            Region::Header => {}
            // A page that is written in parts is no longer known.
            Region::Other { first, last } => (first..=last).for_each(|frame| self.set(frame, 0)),
        }
    }

    /// Whether `bytes`, which were read at `offset`, are what was written. SQLite reads whole frames to verify them
    /// itself, so the first such read of a frame sets its checksum.
    pub fn read(&self, bytes: &[u8], offset: usize) -> bool {
        let (frame, page, whole) = match Region::of(offset, bytes.len()) {
            Region::Page(frame) => (frame, bytes, false),
            Region::Frame(frame) => (frame, &bytes[FRAME_HEADER..], true),
            Region::Header | Region::Other { .. } => return true,
        };
        let Some(entry) = self.entry(frame) else { return true };
        match entry.load(Ordering::Acquire) {
            0 if whole => {
                entry.store(sum(page), Ordering::Release);
                true
            }
            0 => true,
            known => known == sum(page),
        }
    }
}

/// The part of the file that a range covers.
enum Region {
    /// The page of a frame.
    Page(usize),
    /// A frame with its header.
    Frame(usize),
    /// The header of the file or of a frame.
    Header,
    /// Parts of these frames.
    Other { first: usize, last: usize },
}

impl Region {
    fn of(offset: usize, length: usize) -> Self {
        let Some(at) = offset.checked_sub(HEADER) else { return Self::Header };
        match (at % FRAME, length) {
            (0, FRAME) => Self::Frame(at / FRAME),
            (FRAME_HEADER, PAGE) => Self::Page(at / FRAME),
            (inside, length) if inside + length <= FRAME_HEADER => Self::Header,
            _ => Self::Other { first: at / FRAME, last: (at + length.saturating_sub(1)) / FRAME },
        }
    }
}

/// SQLite's checksum of a WAL file, which continues from frame to frame.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct RunningChecksum(u32, u32);

impl RunningChecksum {
    fn after(self, bytes: &[u8], big_endian: bool) -> Self {
        let word = |bytes: &[u8]| {
            let word = number(bytes, 0);
            if big_endian { word } else { word.swap_bytes() }
        };
        bytes.chunks_exact(8).fold(self, |Self(one, two), pair| {
            let one = one.wrapping_add(word(pair)).wrapping_add(two);
            Self(one, two.wrapping_add(word(&pair[4..])).wrapping_add(one))
        })
    }

    fn stored(bytes: &[u8]) -> Self {
        Self(number(bytes, 0), number(bytes, 4))
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(word)
}

/// Whether the database at `path` may be a mixture of two states because its write-ahead log is damaged.
///
/// SQLite uses the log up to the first frame whose checksum does not match, which after a crash is the end of what was
/// written. But if the log was damaged later, a checkpoint may have moved frames behind that point into the database.
/// Earlier frames would then hide newer pages. So this searches for frames of the log behind the damage whose pages are
/// in the database. Other frames behind it do not matter: the store's log has their content.
pub(crate) fn is_broken(path: &Path) -> Result<bool> {
    let name = name_of(path);
    let (Some(wal), Some(database)) = (open_if_present(Path::new(&name))?, open_if_present(path)?) else {
        return Ok(false);
    };
    let io = |source| Error::io("read", Path::new(&name), source);
    let length = wal.metadata().map_err(io)?.len();
    let frames = length.saturating_sub(HEADER as u64) / FRAME as u64;
    if frames == 0 {
        return Ok(false);
    }
    let mut header = [0; HEADER];
    wal.read_exact_at(&mut header, 0).map_err(io)?;
    let magic = number(&header, 0);
    let big_endian = magic & 1 == 1;
    let mut chain = RunningChecksum::default().after(&header[..24], big_endian);
    // The header was durable before any frame was, so no crash explains a bad one.
    if magic & !1 != MAGIC || number(&header, 8) as usize != PAGE || chain != RunningChecksum::stored(&header[24..]) {
        return Ok(true);
    }
    let salts = &header[16..24];
    let mut frame = vec![0; FRAME];
    let mut broken = false;
    for at in 0..frames {
        wal.read_exact_at(&mut frame, HEADER as u64 + at * FRAME as u64).map_err(io)?;
        let ours = frame[8..16] == *salts;
        if !broken {
            chain = chain.after(&frame[..8], big_endian).after(&frame[FRAME_HEADER..], big_endian);
            broken = !ours || chain != RunningChecksum::stored(&frame[16..24]);
            continue;
        }
        if ours && database_has(&database, number(&frame, 0), &frame[FRAME_HEADER..]) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn open_if_present(path: &Path) -> Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("open", path, error)),
    }
}

/// Whether the database has this content in page `number`.
fn database_has(database: &File, number: u32, page: &[u8]) -> bool {
    let mut stored = [0; PAGE];
    let Some(before) = number.checked_sub(1) else { return false };
    database.read_exact_at(&mut stored, u64::from(before) * PAGE as u64).is_ok() && stored[..CONTENT] == page[..CONTENT]
}
