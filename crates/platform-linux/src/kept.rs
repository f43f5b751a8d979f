//! Persistent memory: mapped files on a memory file system, which survive this process.
//!
//! A file `NAME.kept` has a header page (format and sizes), then words, then bytes, each from a
//! page.
//!
//! # Fault model
//! - A kill at any moment: the kernel keeps all stores for the next process that maps the file. A
//!   new file gets its name atomically when complete; a kill before that leaves nothing.
//! - Space is reserved before it is used, so that a store never lacks memory: the words and the
//!   first bytes before the file is mapped, the rest in steps. The header page has the number of
//!   reserved bytes after the checksum; 0 in files of earlier versions: all.
//! - It is locked while mapped; a second process is refused, and the end of a dying one awaited.
//! - Only this user can access it or replace its folders ([`guarded`](crate::guarded)); files of
//!   other users are refused by name. A damaged header is an error; nothing is deleted
//!   automatically.
//! - The file system must outlive the process ([`outlives`]); otherwise it is refused.
//! - A power cut empties the file system and changes the boot number.

use crate::dying::{Holder, outlive};
use crate::errno::system_error;
use crate::guarded::{self, Unguarded};
use crate::open::{try_flock, write_zeroes};
use crate::outlives;
use crate::worker::Worker;
use platform::buffers::ALIGNMENT;
use platform::{
    Buf, Error, ErrorKind, KeptMemory, KeptSize, KeptSpace, LocalFuture, Result, Words,
};
use rustix::fs::{AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, Stat, StatFs};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use units::ByteCount;

/// The first bytes of a file.
pub(crate) const MAGIC: u64 = u64::from_ne_bytes(*b"SoftROC\x01");
/// The format version. A file of another version must not be used.
pub(crate) const VERSION: u64 = 1;
/// Magic, version, words, bytes, and their checksum.
pub(crate) const HEAD_WORDS: usize = 5;
/// The word of the header with the number of reserved bytes. A version that does not know it
/// reserves all.
const RESERVED: usize = HEAD_WORDS;
pub(crate) const PAGE: u64 = ALIGNMENT as u64;

/// Memory file systems (`statfs(2)`).
const TMPFS: u32 = 0x0102_1994;
const RAMFS: u32 = 0x8584_58f6;
const HUGETLBFS: u32 = 0x9584_58f6;

/// The advice to use another folder.
const ANOTHER_FOLDER: &str =
    "give a folder on tmpfs with '--cache-folder DIR', such as /dev/shm/softroc";

/// The same, if this process has a private tmpfs.
const A_SHARED_FOLDER: &str = "give a folder on the machine's own tmpfs with '--cache-folder DIR' \
    (of a container: one that is mounted from the host)";

/// The kernel's boot number; `None` if it is not available.
fn boot() -> Option<u128> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()
}

/// The boot number. Without one from the kernel each process uses a random one, and has no
/// persistent memory.
pub(crate) fn boot_id(random: impl Fn() -> u64) -> u128 {
    static BOOT: OnceLock<u128> = OnceLock::new();
    *BOOT
        .get_or_init(|| boot().unwrap_or_else(|| u128::from(random()) << 64 | u128::from(random())))
}

/// The files that this process has mapped.
fn mapped() -> MutexGuard<'static, BTreeSet<(u64, u64)>> {
    static MAPPED: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());
    MAPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A mapped file, until this is dropped. The mapping keeps the file locked.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
    fd: OwnedFd,
    /// Its path, for errors.
    shown: String,
    file: (u64, u64),
}

// SAFETY: the memory is mapped into the process, for all threads; only this type unmaps it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file whose length and first `reserved` bytes are reserved.
    fn new(
        fd: OwnedFd,
        shown: String,
        sizes: Sizes,
        reserved: ByteCount,
    ) -> rustix::io::Result<Mapping> {
        let stat = rustix::fs::fstat(&fd)?;
        let len = usize::try_from(sizes.len).map_err(|_| Errno::NOMEM)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a free address, and the file is at least as long.
        let start = unsafe { mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, &fd, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        let mapping = Mapping { start, len, fd, shown, file: (stat.st_dev, stat.st_ino) };
        mapped().insert(mapping.file);
        mapping.populate(0, sizes.end_of(reserved));
        Ok(mapping)
    }

    /// Maps pages of reserved space, so that hosts do not wait for page faults.
    fn populate(&self, from: u64, to: u64) {
        let (from, to) = (from / PAGE * PAGE, to.min(self.len as u64));
        if from < to {
            // SAFETY: the range is in the mapping, and stays as it is.
            let populated = unsafe {
                madvise(
                    self.at(from).as_ptr().cast(),
                    (to - from) as usize,
                    Advice::LinuxPopulateWrite,
                )
            };
            // Before Linux 5.14 the pages are mapped when they are first used.
            if let Err(error) = populated {
                tracing::debug!("{}: pages are not mapped in advance: {error}", self.shown);
            }
        }
    }

    fn head(&self, word: usize) -> &AtomicU64 {
        // SAFETY: the header is in the first page of the mapping, and this process accesses it only
        // as atomics.
        unsafe { self.at(0).cast::<AtomicU64>().add(word).as_ref() }
    }

    /// Reserves space for the first bytes, and then records that.
    fn reserve_bytes(&self, sizes: Sizes, len: ByteCount) -> Result<()> {
        let len = len.min(ByteCount(sizes.bytes));
        let before = self.head(RESERVED).load(Ordering::Acquire);
        if len.0 <= before {
            return Ok(());
        }
        let (from, to) = (sizes.end_of(ByteCount(before)), sizes.end_of(len));
        reserve(&self.fd, from, to)
            .map_err(|error| no_space(error, &self.fd, &self.shown, to - from))?;
        self.populate(from, to);
        self.head(RESERVED).store(len.0, Ordering::Release);
        Ok(())
    }

    fn at(&self, offset: u64) -> NonNull<u8> {
        debug_assert!(offset <= self.len as u64);
        // SAFETY: the offset is in the mapping, or at its end.
        unsafe { self.start.add(offset as usize) }
    }
}

/// A mapped file with its sizes. It may be sent to the thread that uses it.
pub(crate) struct Mapped {
    mapping: Mapping,
    sizes: Sizes,
    was_there: bool,
}

impl Mapped {
    /// Its words and bytes.
    pub(crate) fn views(self) -> KeptMemory {
        let Mapped { mapping, sizes, was_there } = self;
        let (words, bytes) = (mapping.at(PAGE).cast(), mapping.at(sizes.bytes_from()));
        let reserved = ByteCount(mapping.head(RESERVED).load(Ordering::Acquire));
        let keeper = Arc::new(mapping);
        let space = Rc::new(Space { mapping: Arc::downgrade(&keeper), sizes });
        // SAFETY: the mapping has these words and bytes at these offsets (`Sizes`), and lives as
        // long as its keeper. The lock excludes other processes and other mappings in this one. The
        // file has its whole length; bytes that are not reserved must not be used.
        let (words, bytes) = unsafe {
            let words = Words::over(words, sizes.words, keeper.clone());
            (words, Buf::over(bytes, ByteCount(sizes.bytes), keeper))
        };
        KeptMemory { words, bytes, reserved, space, was_there }
    }
}

/// The space of a mapped file, while it is mapped.
struct Space {
    mapping: Weak<Mapping>,
    sizes: Sizes,
}

impl KeptSpace for Space {
    fn reserve(&self, len: ByteCount) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            let Some(mapping) = self.mapping.upgrade() else { return Ok(()) };
            let sizes = self.sizes;
            Worker::run_alone(move || mapping.reserve_bytes(sizes, len)).await?
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        mapped().remove(&self.file);
        // SAFETY: each view holds this, so that none is left. It cannot fail: the range is a
        // mapping.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// The sizes and offsets in a file.
#[derive(Clone, Copy)]
struct Sizes {
    words: usize,
    bytes: u64,
    /// The length of the file.
    len: u64,
}

impl Sizes {
    /// `None` if the file would be too long.
    fn new(words: u64, bytes: u64, page: u64) -> Option<Sizes> {
        let bytes_from = words.checked_mul(8)?.checked_add(PAGE)?.checked_next_multiple_of(PAGE)?;
        let len = bytes_from.checked_add(bytes)?.checked_next_multiple_of(page.max(PAGE))?;
        let fits = len <= isize::MAX as u64;
        fits.then_some(Sizes { words: usize::try_from(words).ok()?, bytes, len })
    }

    fn bytes_from(&self) -> u64 {
        PAGE + (self.words as u64 * 8).next_multiple_of(PAGE)
    }

    /// The end of the first bytes in the file.
    fn end_of(&self, bytes: ByteCount) -> u64 {
        match bytes.0 < self.bytes {
            true => self.bytes_from() + bytes.0,
            false => self.len,
        }
    }

    fn head(&self) -> [u64; HEAD_WORDS] {
        let head = [MAGIC, VERSION, self.words as u64, self.bytes];
        [head[0], head[1], head[2], head[3], check(&head)]
    }
}

/// The checksum of a header.
fn check(head: &[u64]) -> u64 {
    head.iter().fold(0, |check, word| platform::sync::split_mix(check ^ word).1)
}

/// The open folder of such files.
struct Folder<'a> {
    path: &'a Path,
    fd: OwnedFd,
    /// The page size of its file system.
    page: u64,
}

/// A file with our lock.
struct Locked {
    fd: OwnedFd,
    stat: Stat,
}

fn no_folder() -> Error {
    let sentence = format!("this process has no folder for persistent memory; {ANOTHER_FOLDER}");
    Error::new(ErrorKind::NotFound, sentence)
}

/// The folder, or its nearest existing parent: a new folder will be on the same file system.
fn nearest(path: &Path) -> &Path {
    let there = |path: &&Path| path.as_os_str().is_empty() || path.exists();
    let nearest = path.ancestors().find(there).filter(|path| !path.as_os_str().is_empty());
    nearest.unwrap_or(Path::new("."))
}

/// The file system of a folder, also before the folder exists.
fn file_system_of(path: &Path) -> rustix::io::Result<StatFs> {
    rustix::fs::statfs(nearest(path))
}

fn is_memory(file_system: &StatFs) -> bool {
    [TMPFS, RAMFS, HUGETLBFS].contains(&(file_system.f_type as u32))
}

/// Whether a folder is on a memory file system, also before it exists: persistent memory can be
/// there ([`Settings::kept`](crate::Settings::kept)).
pub fn is_in_memory(folder: &Path) -> bool {
    file_system_of(folder).is_ok_and(|file_system| is_memory(&file_system))
}

/// Whether the file system of a folder outlives this process, as far as that is known: it is not
/// private to a container or a sandbox that ends with the process.
pub fn outlives_process(folder: &Path) -> bool {
    rustix::fs::stat(nearest(folder)).is_ok_and(|stat| outlives::outlives_process(&stat).is_ok())
}

/// The file of that name. Only plain names are valid.
pub(crate) fn file_name(name: &str) -> Result<String> {
    let plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
    let bad = || {
        Error::new(
            ErrorKind::BadName,
            format!("'{name}' is not a valid name of persistent memory; use letters and digits"),
        )
    };
    plain.then(|| format!("{name}.kept")).ok_or_else(bad)
}

/// See [`platform::World::kept_memory`]. Blocks.
pub(crate) fn take(
    folder: Option<PathBuf>,
    name: &str,
    size: Option<KeptSize>,
) -> Result<Option<Mapped>> {
    let path = folder.ok_or_else(no_folder)?;
    let file = file_name(name)?;
    if boot().is_none() {
        let sentence = "the kernel does not report its boot number, so no memory is persistent; \
                        make /proc/sys/kernel/random/boot_id readable";
        return Err(Error::new(ErrorKind::System, sentence));
    }
    let Some(folder) = Folder::open(&path, size.is_some())? else { return Ok(None) };
    // Another process may create or remove it between two steps.
    for _ in 0..8 {
        if let Some(locked) = folder.lock(&file)? {
            return folder.map_what_is_there(&file, locked).map(Some);
        }
        let Some(size) = size else { return Ok(None) };
        if let Some(memory) = folder.make(&file, size)? {
            return Ok(Some(memory));
        }
    }
    Err(folder.held(&file, None))
}

/// See [`platform::World::forget_kept_memory`]. Blocks.
pub(crate) fn forget(folder: Option<PathBuf>, name: &str) -> Result<()> {
    let file = file_name(name)?;
    let Some(path) = folder else { return Ok(()) };
    let Some(folder) = Folder::open(&path, false)? else { return Ok(()) };
    let ours =
        folder.stat(&file)?.is_some_and(|stat| mapped().contains(&(stat.st_dev, stat.st_ino)));
    // Locked while it is removed, unless this process has it mapped.
    let locked = if ours { None } else { folder.lock(&file)? };
    if !ours && locked.is_none() {
        return Ok(());
    }
    match rustix::fs::unlinkat(&folder.fd, &*file, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(system_error(error, format!("cannot remove {}", folder.shown(&file)))),
    }
}

impl Folder<'_> {
    /// Opens the folder; `make` creates it if it is missing. `None`: it does not exist.
    fn open(path: &Path, make: bool) -> Result<Option<Folder<'_>>> {
        let shown = path.display();
        let cannot =
            |error: Errno| system_error(error, format!("cannot use the cache folder {shown}"));
        // Check the owner first: a link of another user may lead to any file system.
        let there = guarded::open_folder(path, false).map_err(|error| refused(path, error))?;
        let file_system = file_system_of(path).map_err(cannot)?;
        if !is_memory(&file_system) {
            let sentence = format!(
                "the cache folder {shown} is not on a memory file system; {ANOTHER_FOLDER}"
            );
            return Err(Error::new(ErrorKind::WrongKind, sentence));
        }
        let stat = rustix::fs::stat(nearest(path)).map_err(cannot)?;
        if let Err(private) = outlives::outlives_process(&stat) {
            let sentence = format!(
                "the file system of the cache folder {shown} {}; {A_SHARED_FOLDER}",
                private.why()
            );
            return Err(Error::new(ErrorKind::WrongKind, sentence));
        }
        let made = match there {
            None if make => {
                guarded::open_folder(path, true).map_err(|error| refused(path, error))?
            }
            there => there,
        };
        let Some(fd) = made else { return Ok(None) };
        // The path may have changed since the check.
        if !is_memory(&rustix::fs::fstatfs(&fd).map_err(cannot)?) {
            return Err(cannot(Errno::NOTDIR));
        }
        Ok(Some(Folder { path, fd, page: file_system.f_bsize as u64 }))
    }

    fn shown(&self, file: &str) -> String {
        self.path.join(file).display().to_string()
    }

    /// The status of that file, without following links.
    fn stat(&self, file: &str) -> Result<Option<Stat>> {
        match rustix::fs::statat(&self.fd, file, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(system_error(error, format!("cannot look at {}", self.shown(file)))),
        }
    }

    /// Opens and locks the file of that name. `None`: it does not exist, or not any more.
    fn lock(&self, file: &str) -> Result<Option<Locked>> {
        let shown = self.shown(file);
        let cannot = |error: Errno| system_error(error, format!("cannot open {shown}"));
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&self.fd, file, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(foreign(&shown, "is a symbolic link")),
            Err(error) => return Err(cannot(error)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(cannot)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(foreign(&shown, "is not a file"));
        }
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(foreign(&shown, &format!("belongs to another user (uid {})", stat.st_uid)));
        }
        if let Some(why) = guarded::open_to_others(&stat) {
            return Err(foreign(&shown, &why));
        }
        match outlive(|| try_flock(&fd, &stat)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(system_error(error, format!("cannot lock {shown}"))),
            Err(holder) => return Err(self.held(file, Some(holder))),
        }
        let is_same = |now: Stat| (now.st_dev, now.st_ino) == (stat.st_dev, stat.st_ino);
        Ok(self.stat(file)?.is_some_and(is_same).then_some(Locked { fd, stat }))
    }

    fn held(&self, file: &str, holder: Option<Holder>) -> Error {
        let holder = match holder {
            Some(Holder::Process(pid)) => format!(" (pid {pid})"),
            _ => String::new(),
        };
        let sentence = format!(
            "{} is in use by another softroc serve{holder}; stop that one, or give another folder \
                with '--cache-folder DIR'",
            self.shown(file)
        );
        Error::new(ErrorKind::InUse, sentence)
    }

    fn map_what_is_there(&self, file: &str, locked: Locked) -> Result<Mapped> {
        let shown = self.shown(file);
        let damaged = |why: &str| {
            let sentence = format!(
                "{shown} {why}; its data cannot be used. If the data is not needed, remove the \
                    file with 'rm {shown}'"
            );
            Error::new(ErrorKind::WrongKind, sentence)
        };
        let mut bytes = [0; (HEAD_WORDS + 1) * 8];
        let read = rustix::io::pread(&locked.fd, &mut bytes, 0)
            .map_err(|error| system_error(error, format!("cannot read {shown}")))?;
        let mut head = bytes
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
        let mut next = || head.next().expect("a word of the head");
        let head: [u64; HEAD_WORDS + 1] = std::array::from_fn(|_| next());
        if read < bytes.len() || head[0] != MAGIC {
            return Err(damaged("is not persistent memory of SoftROC"));
        }
        if head[1] != VERSION {
            return Err(damaged(&format!(
                "has version {} of another SoftROC (this one supports {VERSION})",
                head[1]
            )));
        }
        let sizes = Sizes::new(head[2], head[3], self.page);
        let sizes = sizes
            .filter(|sizes| head[..HEAD_WORDS] == sizes.head())
            .ok_or_else(|| damaged("is damaged: its header is invalid"))?;
        if (locked.stat.st_size as u64) < sizes.len {
            return Err(damaged(&format!(
                "is damaged: it has {} of {} bytes",
                locked.stat.st_size, sizes.len
            )));
        }
        // A hole in the file would have no space when it is stored into.
        let reserved = match head[RESERVED] {
            0 => ByteCount(sizes.bytes),
            reserved => ByteCount(reserved.min(sizes.bytes)),
        };
        let end = sizes.end_of(reserved);
        reserve(&locked.fd, end, end).map_err(|error| no_space(error, &locked.fd, &shown, end))?;
        let mapping = Mapping::new(locked.fd, shown.clone(), sizes, reserved)
            .map_err(|error| system_error(error, format!("cannot map {shown}")))?;
        mapping.head(RESERVED).store(reserved.0, Ordering::Release);
        Ok(Mapped { mapping, sizes, was_there: true })
    }

    /// Creates a file, complete and locked before it has its name. `None`: another process has
    /// created one of that name.
    fn make(&self, file: &str, size: KeptSize) -> Result<Option<Mapped>> {
        let shown = self.shown(file);
        let cannot = |error: Errno| system_error(error, format!("cannot make {shown}"));
        let sizes = Sizes::new(size.words as u64, size.bytes.0, self.page)
            .ok_or_else(|| out_of_space(&shown, size.bytes, None))?;
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let fd =
            rustix::fs::openat(&self.fd, ".", flags, Mode::from_raw_mode(0o600)).map_err(cannot)?;
        let reserved = size.reserved.min(size.bytes);
        let end = sizes.end_of(reserved);
        reserve(&fd, 0, end).map_err(|error| no_space(error, &fd, &shown, end))?;
        rustix::io::retry_on_intr(|| rustix::fs::ftruncate(&fd, sizes.len)).map_err(cannot)?;
        rustix::fs::flock(&fd, rustix::fs::FlockOperation::NonBlockingLockExclusive)
            .map_err(cannot)?;
        let own = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
        let mapping = Mapping::new(fd, shown.clone(), sizes, reserved).map_err(cannot)?;
        for (index, word) in sizes.head().into_iter().chain([reserved.0]).enumerate() {
            mapping.head(index).store(word, Ordering::Release);
        }
        match rustix::fs::linkat(CWD, own, &self.fd, file, AtFlags::SYMLINK_FOLLOW) {
            Ok(()) => Ok(Some(Mapped { mapping, sizes, was_there: false })),
            Err(Errno::EXIST) => Ok(None),
            Err(error) => Err(cannot(error)),
        }
    }
}

/// Reserves a file up to `to`, of which nothing from `from` on is in use; new parts read as zeros.
/// The file has at least this length afterwards.
fn reserve(fd: &OwnedFd, from: u64, to: u64) -> rustix::io::Result<()> {
    rustix::io::retry_on_intr(|| match rustix::fs::fallocate(fd, FallocateFlags::empty(), 0, to) {
        // ramfs cannot reserve, but written space stays.
        Err(Errno::OPNOTSUPP) => write_zeroes(fd, from, to),
        outcome => outcome,
    })
}

/// Why space for bytes of a file could not be reserved.
fn no_space(error: Errno, fd: &OwnedFd, shown: &str, wanted: u64) -> Error {
    let wanted = ByteCount(wanted);
    match error {
        Errno::NOSPC | Errno::NOMEM | Errno::DQUOT | Errno::FBIG => {
            let free = rustix::fs::fstatvfs(fd).ok().map(|fs| ByteCount(fs.f_bavail * fs.f_frsize));
            out_of_space(shown, wanted, free)
        }
        error => system_error(error, format!("cannot reserve {wanted} for {shown}")),
    }
}

fn out_of_space(shown: &str, wanted: ByteCount, free: Option<ByteCount>) -> Error {
    let free = free.map(|free| format!(", {free} free")).unwrap_or_default();
    let sentence = format!(
        "not enough memory for {shown}: {wanted} needed{free}; give a smaller '--cache', or \
            another folder with '--cache-folder DIR'"
    );
    Error::new(ErrorKind::OutOfSpace, sentence)
}

/// Why a folder for persistent memory is refused, and what to do.
pub(crate) fn refused(path: &Path, error: Unguarded) -> Error {
    let shown = path.display();
    match error {
        Unguarded::Open(at, why) => {
            let sentence = format!(
                "the cache folder {shown} is not used: {} {why}; {ANOTHER_FOLDER}",
                at.display()
            );
            Error::new(ErrorKind::Denied, sentence)
        }
        Unguarded::System(error) => {
            system_error(error, format!("cannot use the cache folder {shown}"))
        }
    }
}

/// Why a folder, existing or not, cannot hold persistent memory; `None`: it can.
pub fn trouble_with_kept(folder: &Path) -> Option<Error> {
    Folder::open(folder, false).err()
}

fn foreign(shown: &str, what: &str) -> Error {
    let sentence =
        format!("{shown} {what}; remove it, or give another folder with '--cache-folder DIR'");
    Error::new(ErrorKind::Denied, sentence)
}
