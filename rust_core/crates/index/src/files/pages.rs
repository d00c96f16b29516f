//! Checksums of the index's pages: a VFS (SQLite's interface to files) on top of `unix-excl`. It writes a checksum at
//! the end of each page, and a read of a page that has changed since fails.
//!
//! Invariants. Every page of the main file ends with a checksum of its content and its position. No byte of the file is
//! used unverified, except the first 100 bytes, which SQLite reads separately before it reads the first page whole.
//! Pages read from the write-ahead log are those that were written (`frames`).

use std::ffi::{CStr, c_int, c_void};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use rusqlite::ffi::{
    self, SQLITE_CORRUPT, SQLITE_FCNTL_RESERVE_BYTES, SQLITE_FULL, SQLITE_IOCAP_SUBPAGE_READ, SQLITE_IOERR_DATA,
    SQLITE_IOERR_WRITE, SQLITE_OK, SQLITE_OPEN_MAIN_DB, SQLITE_OPEN_WAL, sqlite3_file, sqlite3_filename, sqlite3_int64,
    sqlite3_io_methods, sqlite3_vfs,
};
use rusqlite::{Connection, OpenFlags};

use super::frames::{self, PageChecksums};
use super::layout::{CONTENT, PAGE, RESERVED};
use crate::error::{IndexError, Result, damaged, failure};
use orcas_base::error::Error;
use orcas_base::planted::{self, Bug};

/// The name of this VFS.
pub(crate) const NAME: &CStr = c"orcas-pages";
/// SQLite's VFS for databases that a single process opens. It keeps the index of the write-ahead log in the memory of
/// the process. The default one maps a file, `-shm`: a store to a page for which the disk has no block ends the process
/// with a signal.
const BELOW: &CStr = c"unix-excl";
/// The smallest page size of SQLite. Shorter reads are of headers, never of content.
const SMALLEST_PAGE: usize = 512;

/// Opens a database whose pages have checksums.
pub(crate) fn open(path: &Path, flags: OpenFlags) -> Result<Connection> {
    vfs()?;
    Ok(Connection::open_with_flags_and_vfs(path, flags, NAME)?)
}

/// Reserves space for the checksums in each page of a database that has no pages yet.
#[allow(unsafe_code, reason = "rusqlite has no safe wrapper")]
pub(crate) fn reserve(conn: &Connection) -> Result<()> {
    conn.pragma_update(None, "page_size", PAGE as u32)?;
    let mut bytes = RESERVED as c_int;
    // SAFETY: the handle lives as long as `conn`; this control reads and writes one int.
    let done = unsafe {
        let handle = conn.handle();
        ffi::sqlite3_file_control(handle, c"main".as_ptr(), SQLITE_FCNTL_RESERVE_BYTES, (&raw mut bytes).cast())
    };
    if done == SQLITE_OK { Ok(()) } else { Err(failure("SQLite did not reserve space for checksums")) }
}

/// Covers the page's content and its offset, so that a page at the position of another one is detected too.
fn checksum(page: &[u8], offset: sqlite3_int64) -> [u8; RESERVED] {
    let content = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, &page[..CONTENT]);
    // The multiplier is odd, so different offsets give different values.
    let place = offset.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (content ^ place).to_be_bytes()
}

/// Whether a page is the one that was written at this offset.
fn matches(page: &[u8], offset: sqlite3_int64) -> bool {
    page[CONTENT..] == checksum(page, offset) || planted::is(Bug::IndexPagesNotCompared)
}

/// The kind of a file of this VFS.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Database,
    /// After the state that the VFS below keeps for such a file, there is a pointer to its `PageChecksums`.
    WriteAheadLog,
}

/// The methods of a file of this VFS. SQLite uses the first field. `ours` pass calls on to `theirs`, the methods of the
/// VFS below.
#[repr(C)]
struct Methods {
    ours: sqlite3_io_methods,
    theirs: &'static sqlite3_io_methods,
    kind: Kind,
}

/// The VFS below, and the methods created for each kind of file that it opens.
struct ChecksumVfs {
    below: &'static sqlite3_vfs,
    methods: Mutex<Vec<&'static Methods>>,
}

#[allow(unsafe_code, reason = "nobody writes through the shared pointer")]
// SAFETY: SQLite's own VFS objects live for ever and may be used from all threads; they are only read here.
unsafe impl Sync for ChecksumVfs {}
#[allow(unsafe_code, reason = "nobody writes through the shared pointer")]
// SAFETY: as above.
unsafe impl Send for ChecksumVfs {}

static VFS: OnceLock<Option<ChecksumVfs>> = OnceLock::new();

/// Registers this VFS on the first call.
#[allow(unsafe_code, reason = "SQLite's interface is C")]
fn vfs() -> Result<&'static ChecksumVfs> {
    let made = VFS.get_or_init(|| {
        // SAFETY: the VFS below is found after SQLite was initialized, which `sqlite3_vfs_find` does, and is never
        // removed. The copy that is registered lives for ever too.
        unsafe {
            let below = ffi::sqlite3_vfs_find(BELOW.as_ptr()).as_ref()?;
            let mut ours = *below;
            ours.zName = NAME.as_ptr();
            ours.pNext = std::ptr::null_mut();
            ours.szOsFile += size_of::<*const PageChecksums>() as c_int;
            ours.xOpen = Some(open_file);
            let registered = ffi::sqlite3_vfs_register(Box::leak(Box::new(ours)), 0);
            (registered == SQLITE_OK).then(|| ChecksumVfs { below, methods: Mutex::default() })
        }
    });
    made.as_ref().ok_or_else(|| failure("SQLite refused to register the layer for checksums"))
}

impl ChecksumVfs {
    /// The methods for files of this kind that pass calls on to `theirs`.
    fn methods(&self, theirs: &'static sqlite3_io_methods, kind: Kind) -> &'static Methods {
        let mut known = self.methods.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(found) = known.iter().find(|made| std::ptr::eq(made.theirs, theirs) && made.kind == kind) {
            return found;
        }
        let mut ours = *theirs;
        match kind {
            Kind::Database => {
                ours.xRead = Some(read);
                ours.xWrite = Some(write);
                ours.xDeviceCharacteristics = Some(device_characteristics);
            }
            Kind::WriteAheadLog => {
                ours.xRead = Some(read_frames);
                ours.xWrite = Some(write_frames);
                ours.xClose = Some(close_frames);
            }
        }
        // Version 3 adds memory mapping, which would bypass the checksums.
        ours.iVersion = ours.iVersion.min(2);
        let made: &'static Methods = Box::leak(Box::new(Methods { ours, theirs, kind }));
        known.push(made);
        made
    }
}

/// Whether page `number`, counted from 1, is as it was written. True for a page beyond the end of the file.
fn is_intact(file: &File, number: u64) -> std::io::Result<bool> {
    let offset = (number - 1) * PAGE as u64;
    let mut page = [0; PAGE];
    match file.read_exact_at(&mut page, offset) {
        Ok(()) => Ok(matches(&page, offset as sqlite3_int64)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(true),
        Err(error) => Err(error),
    }
}

/// The first of the pages `numbers` of the file at `path` that is not as it was written. It may be an unused page, a
/// page that is being written, or one of which the write-ahead log has a newer copy.
///
/// # Errors
/// `Io` when the file cannot be read.
pub(crate) fn find_damaged(path: &Path, mut numbers: impl Iterator<Item = u64>) -> Result<Option<u64>> {
    let io = |source| IndexError::from(Error::io("read", path, source));
    let file = File::open(path).map_err(io)?;
    numbers
        .find_map(|number| is_intact(&file, number).map(|whole| (!whole).then_some(number)).transpose())
        .transpose()
        .map_err(io)
}

/// Verifies the length of a file that has no write-ahead log, and the root page of every table and SQL index in it.
///
/// # Errors
/// `IndexDamaged` with what was found.
pub(crate) fn verify_roots(conn: &Connection, path: &Path) -> Result<()> {
    let pages: u32 = conn.query_row("PRAGMA page_count", [], |row| row.get(0))?;
    let length = std::fs::metadata(path).map_err(|source| Error::io("look at", path, source))?.len();
    if length < u64::from(pages) * PAGE as u64 {
        return Err(damaged("its file is shorter than its header says"));
    }
    let mut select = conn.prepare("SELECT rootpage FROM sqlite_schema WHERE rootpage > 0")?;
    let roots: Vec<u32> = select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    match find_damaged(path, roots.into_iter().map(u64::from))? {
        Some(_) => Err(damaged("the root page of a table is not the one that was written")),
        None => Ok(()),
    }
}

/// The methods of the VFS below for an open file of this VFS.
///
/// # Safety
/// `file` was opened by `open_file` with `SQLITE_OPEN_MAIN_DB` or `SQLITE_OPEN_WAL`.
#[allow(unsafe_code, reason = "SQLite's interface is C")]
unsafe fn below(file: *mut sqlite3_file) -> &'static sqlite3_io_methods {
    // SAFETY: its methods are the first field of a `Methods` that lives for ever.
    unsafe { (*(*file).pMethods.cast::<Methods>()).theirs }
}

#[allow(unsafe_code, reason = "SQLite's interface is C")]
unsafe extern "C" fn open_file(
    _: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let (Some(Some(vfs)), false) = (VFS.get(), file.is_null()) else { return SQLITE_CORRUPT };
    let Some(open) = vfs.below.xOpen else { return SQLITE_CORRUPT };
    // SAFETY: SQLite's arguments are passed on; the VFS below has the same file structure and does not write to its
    // own description. The methods of a file that it opened live for ever.
    unsafe {
        let opened = open(std::ptr::from_ref(vfs.below).cast_mut(), name, file, flags, out_flags);
        if opened != SQLITE_OK {
            return opened;
        }
        let Some(theirs) = (*file).pMethods.as_ref() else { return opened };
        if flags & SQLITE_OPEN_MAIN_DB != 0 {
            (*file).pMethods = &raw const vfs.methods(theirs, Kind::Database).ours;
        } else if flags & SQLITE_OPEN_WAL != 0 && !name.is_null() {
            checksums_of_file(vfs, file).write_unaligned(Arc::into_raw(frames::checksums_of(CStr::from_ptr(name))));
            (*file).pMethods = &raw const vfs.methods(theirs, Kind::WriteAheadLog).ours;
        }
        opened
    }
}

#[allow(unsafe_code, reason = "SQLite's interface is C")]
unsafe extern "C" fn read(file: *mut sqlite3_file, to: *mut c_void, bytes: c_int, offset: sqlite3_int64) -> c_int {
    // SAFETY: SQLite reads from a file that `open_file` opened, into `bytes` bytes that it owns and that are filled
    // when the read succeeded.
    let page = unsafe {
        let Some(read) = below(file).xRead else { return SQLITE_CORRUPT };
        let done = read(file, to, bytes, offset);
        let length = usize::try_from(bytes).unwrap_or(0);
        if done != SQLITE_OK || length < SMALLEST_PAGE {
            return done;
        }
        std::slice::from_raw_parts(to.cast::<u8>(), length)
    };
    if page.len() == PAGE && matches(page, offset) { SQLITE_OK } else { SQLITE_IOERR_DATA }
}

#[allow(unsafe_code, reason = "SQLite's interface is C")]
unsafe extern "C" fn write(file: *mut sqlite3_file, from: *const c_void, bytes: c_int, offset: sqlite3_int64) -> c_int {
    if bytes != PAGE as c_int {
        return SQLITE_IOERR_WRITE;
    }
    let mut page = [0; PAGE];
    // SAFETY: SQLite writes `bytes` bytes that it owns to a file that `open_file` opened.
    unsafe {
        page.copy_from_slice(std::slice::from_raw_parts(from.cast::<u8>(), PAGE));
        let sum = checksum(&page, offset);
        page[PAGE - RESERVED..].copy_from_slice(&sum);
        let Some(write) = below(file).xWrite else { return SQLITE_CORRUPT };
        result_of_write(write(file, page.as_ptr().cast(), bytes, offset))
    }
}

/// The result of a write. SQLite says only of a full disk that there is no room, not of a quota that is used up.
fn result_of_write(done: c_int) -> c_int {
    let is_over_quota = || std::io::Error::last_os_error().kind() == ErrorKind::QuotaExceeded;
    if done == SQLITE_IOERR_WRITE && is_over_quota() { SQLITE_FULL } else { done }
}

/// The address of the pointer to the `PageChecksums` of a write-ahead log.
///
/// # Safety
/// `file` has the `szOsFile` bytes that this VFS asked for.
#[allow(unsafe_code, reason = "SQLite's interface is C")]
unsafe fn checksums_of_file(vfs: &ChecksumVfs, file: *mut sqlite3_file) -> *mut *const PageChecksums {
    // SAFETY: the VFS below uses the bytes before this address, this one those after it.
    unsafe { file.cast::<u8>().add(vfs.below.szOsFile as usize).cast() }
}

#[allow(unsafe_code, reason = "SQLite's interface is C")]
unsafe extern "C" fn read_frames(
    file: *mut sqlite3_file,
    to: *mut c_void,
    bytes: c_int,
    offset: sqlite3_int64,
) -> c_int {
    let Some(Some(vfs)) = VFS.get() else { return SQLITE_CORRUPT };
    // SAFETY: as `read`; `open_file` has written the pointer, which owns its target until `close_frames`.
    unsafe {
        let Some(read) = below(file).xRead else { return SQLITE_CORRUPT };
        let done = read(file, to, bytes, offset);
        if done != SQLITE_OK {
            return done;
        }
        let read = std::slice::from_raw_parts(to.cast::<u8>(), bytes as usize);
        let sums = &*checksums_of_file(vfs, file).read_unaligned();
        if sums.read(read, offset as usize) { SQLITE_OK } else { SQLITE_IOERR_DATA }
    }
}

#[allow(unsafe_code, reason = "SQLite's interface is C")]
unsafe extern "C" fn write_frames(
    file: *mut sqlite3_file,
    from: *const c_void,
    bytes: c_int,
    offset: sqlite3_int64,
) -> c_int {
    let Some(Some(vfs)) = VFS.get() else { return SQLITE_CORRUPT };
    // SAFETY: as `write` and `read_frames`.
    unsafe {
        let written = std::slice::from_raw_parts(from.cast::<u8>(), bytes as usize);
        let known = &*checksums_of_file(vfs, file).read_unaligned();
        // Set before the write succeeds: nobody reads a frame before its transaction is complete.
        known.written(written, offset as usize);
        let Some(write) = below(file).xWrite else { return SQLITE_CORRUPT };
        result_of_write(write(file, from, bytes, offset))
    }
}

#[allow(unsafe_code, reason = "SQLite's interface is C")]
unsafe extern "C" fn close_frames(file: *mut sqlite3_file) -> c_int {
    let Some(Some(vfs)) = VFS.get() else { return SQLITE_CORRUPT };
    // SAFETY: SQLite closes a file once, and does not use it afterwards; the pointer came from `Arc::into_raw`.
    unsafe {
        let theirs = below(file);
        drop(Arc::from_raw(checksums_of_file(vfs, file).read_unaligned()));
        theirs.xClose.map_or(SQLITE_CORRUPT, |close| close(file))
    }
}

/// Tells SQLite not to read parts of pages, because they could not be verified.
#[allow(unsafe_code, reason = "SQLite's interface is C")]
unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite asks about a file that `open_file` opened.
    let below = unsafe { below(file).xDeviceCharacteristics.map_or(0, |characteristics| characteristics(file)) };
    below & !SQLITE_IOCAP_SUBPAGE_READ
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writable(path: &std::path::Path) -> Connection {
        open(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE).unwrap()
    }

    fn filled(path: &std::path::Path, wal: bool) {
        let conn = writable(path);
        reserve(&conn).unwrap();
        if wal {
            conn.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
        }
        conn.execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)").unwrap();
        for number in 0..300 {
            // Some rows need overflow pages.
            let length = if number % 50 == 0 { 20_000 } else { 100 };
            conn.execute("INSERT INTO t VALUES (?1, randomblob(?2))", [number, length]).unwrap();
        }
        conn.execute("DELETE FROM t WHERE a % 7 = 0", []).unwrap();
    }

    fn sum(conn: &Connection) -> rusqlite::Result<i64> {
        conn.query_row("SELECT sum(length(hex(b))) FROM t", [], |row| row.get(0))
    }

    #[test]
    fn every_page_ends_with_its_checksum() {
        let dir = tempfile::tempdir().unwrap();
        for wal in [false, true] {
            let path = dir.path().join(format!("{wal}.db"));
            filled(&path, wal);
            let bytes = std::fs::read(&path).unwrap();
            assert!(bytes.len() > 20 * PAGE);
            for (number, page) in bytes.chunks(PAGE).enumerate() {
                assert_eq!(page[PAGE - RESERVED..], checksum(page, (number * PAGE) as i64), "page {number}");
            }
            assert!(sum(&writable(&path)).unwrap() > 0);
            // A copy that SQLite makes has them as well.
            let copy = dir.path().join(format!("{wal}.copy"));
            writable(&path).execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
            assert_eq!(sum(&writable(&copy)).unwrap(), sum(&writable(&path)).unwrap());
        }
    }

    #[test]
    fn a_flipped_bit_never_changes_an_answer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.db");
        filled(&path, true);
        let whole = std::fs::read(&path).unwrap();
        let expected = sum(&writable(&path)).unwrap();
        let mut refused = 0;
        for at in (0..whole.len()).step_by(331).chain(0..PAGE) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            std::fs::write(&path, &bytes).unwrap();
            match sum(&writable(&path)) {
                Ok(found) => assert_eq!(found, expected, "byte {at}"),
                Err(_) => refused += 1,
            }
        }
        // The other flips hit unused pages.
        assert!(refused > PAGE, "{refused}");
    }

    #[test]
    fn a_page_at_the_position_of_another_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.db");
        filled(&path, false);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[PAGE..].rotate_left(PAGE);
        std::fs::write(&path, &bytes).unwrap();
        let error = sum(&writable(&path)).unwrap_err();
        assert_eq!(error.sqlite_error().unwrap().extended_code, SQLITE_IOERR_DATA);
    }
}
