//! Full and failing disks. SQLite lets tests replace the system calls of its default VFS, through which that of the index writes too.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use rusqlite::ffi;

/// `pwrite`: file, content, bytes and offset.
type Write = unsafe extern "C" fn(c_int, *const c_void, usize, i64) -> isize;
type Condition = Box<dyn Fn() -> bool + Send>;

/// What writes to a file find while the condition holds.
struct Rule {
    path: PathBuf,
    holds: Condition,
    finds: Refusal,
}

#[derive(Clone, Copy)]
enum Refusal {
    Full,
    Quota,
    Failure,
}

static RULES: Mutex<Vec<Rule>> = Mutex::new(Vec::new());
static WRITE: OnceLock<Write> = OnceLock::new();

/// From now on, writes of SQLite to the file at `path` find the disk full while `full` returns true.
///
/// # Panics
/// When SQLite has no system call to replace.
pub fn refuse(path: PathBuf, full: impl Fn() -> bool + Send + 'static) {
    add(Rule { path, holds: Box::new(full), finds: Refusal::Full });
}

/// From now on, writes of SQLite to the file at `path` find a quota used up while `used_up` returns true.
///
/// # Panics
/// As `refuse`.
pub fn exceed(path: PathBuf, used_up: impl Fn() -> bool + Send + 'static) {
    add(Rule { path, holds: Box::new(used_up), finds: Refusal::Quota });
}

/// From now on, writes of SQLite to the file at `path` fail while `failing` returns true.
///
/// # Panics
/// As `refuse`.
pub fn fail(path: PathBuf, failing: impl Fn() -> bool + Send + 'static) {
    add(Rule { path, holds: Box::new(failing), finds: Refusal::Failure });
}

fn add(rule: Rule) {
    let mut rules = RULES.lock().unwrap_or_else(PoisonError::into_inner);
    WRITE.get_or_init(replace_write);
    rules.push(rule);
}

/// Returns the system call that was replaced.
#[allow(unsafe_code, reason = "SQLite's interface is C")]
fn replace_write() -> Write {
    // SAFETY: the default VFS lives for ever. SQLite declares `pwrite` with these parameters, and `sqlite3_syscall_ptr`
    // stands for a function of any type.
    unsafe {
        let vfs = ffi::sqlite3_vfs_find(std::ptr::null());
        let (Some(get), Some(set)) = ((*vfs).xGetSystemCall, (*vfs).xSetSystemCall) else { panic!("no system calls") };
        let found = get(vfs, c"pwrite".as_ptr());
        let ours = std::mem::transmute::<Write, ffi::sqlite3_syscall_ptr>(write_unless_refused);
        assert_eq!(set(vfs, c"pwrite".as_ptr(), ours), ffi::SQLITE_OK);
        std::mem::transmute::<ffi::sqlite3_syscall_ptr, Option<Write>>(found).expect("SQLite writes with pwrite")
    }
}

#[allow(unsafe_code, reason = "SQLite's interface is C")]
unsafe extern "C" fn write_unless_refused(file: c_int, from: *const c_void, bytes: usize, offset: i64) -> isize {
    let file = match refusal_of(file) {
        // SQLite takes it for a full disk when nothing is written and there is no error.
        Some(Refusal::Full) => return 0,
        Some(Refusal::Quota) => {
            set_errno(libc::EDQUOT);
            return -1;
        }
        // No file has this number, so the system refuses the call.
        Some(Refusal::Failure) => -1,
        None => file,
    };
    // SAFETY: SQLite passes what it would have passed to the call that was replaced.
    unsafe { WRITE.wait()(file, from, bytes, offset) }
}

#[allow(unsafe_code, reason = "errno is C's")]
fn set_errno(value: c_int) {
    // SAFETY: the address is that of this thread's variable.
    unsafe {
        #[cfg(target_os = "macos")]
        libc::__error().write(value);
        #[cfg(not(target_os = "macos"))]
        libc::__errno_location().write(value);
    }
}

/// What a rule has for writes to this open file.
#[allow(unsafe_code, reason = "SQLite knows its files by number")]
fn refusal_of(file: c_int) -> Option<Refusal> {
    // SAFETY: SQLite has the file open during the call, and it is not closed here.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(file) });
    let identity = |found: std::fs::Metadata| (found.dev(), found.ino());
    let open = file.metadata().map(identity).ok()?;
    let rules = RULES.lock().unwrap_or_else(PoisonError::into_inner);
    let of_file = |rule: &&Rule| std::fs::metadata(&rule.path).is_ok_and(|named| identity(named) == open);
    rules.iter().filter(of_file).find(|rule| (rule.holds)()).map(|rule| rule.finds)
}
