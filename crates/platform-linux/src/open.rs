//! Opening and creating drives: their kind, their alignment, and exclusive access.
//!
//! All functions may block (a sleeping disk, a network file system), so they run on a worker
//! thread.

use crate::behind::BackingDevice;
use crate::dying::{Holder, outlive};
use crate::errno::system_error;
use crate::file_drive::OpenDrive;
use crate::sysfs;
use platform::{DriveIdentity, DriveInfo, DriveKind, Error, ErrorKind, Hardware, Result};
use rustix::fs::{
    AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags, Stat, StatxFlags, fstat,
    major, minor,
};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use units::{ByteCount, SectorSize};

/// The access for which a drive is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read, and write if that is permitted.
    Writing,
    /// Read-only: a write by mistake is impossible.
    Reading,
}

/// Opens `path` exclusively for one controller.
pub(crate) fn open_drive(path: &str, access: Access) -> Result<OpenDrive> {
    // Checked before it is opened: opening a pipe would wait for its other end.
    let before = rustix::fs::stat(path).map_err(|error| cannot_open(path, error))?;
    let kind = drive_kind(path, &before)?;
    let (fd, read_only, direct) = open_alone(path, kind, access, &before)?;
    let stat = fstat(&fd).map_err(|error| cannot_open(path, error))?;
    if drive_kind(path, &stat)? != kind {
        return Err(Error::new(
            ErrorKind::WrongKind,
            format!("drive {path} changed while it was opened"),
        ));
    }
    lock_out_others(path, &fd, &stat, read_only)?;
    let (logical_sector, physical_sector, memory_alignment) = sectors(path, &fd, kind, direct)?;
    let size = match kind {
        DriveKind::BlockDevice => rustix::fs::seek(&fd, rustix::fs::SeekFrom::End(0))
            .map_err(|error| cannot_open(path, error))?,
        _ => stat.st_size as u64,
    };
    let all = ByteCount(size);
    let size = all.align_down(logical_sector.bytes());
    if size.is_zero() {
        let has = match all.is_zero() {
            true => "is empty".to_owned(),
            false => format!("has {} bytes, less than a sector", all.0),
        };
        return Err(Error::new(
            ErrorKind::WrongKind,
            format!(
                "drive {path} {has}; make a file drive with 'softroc drive add FILE --create 1G'"
            ),
        ));
    }
    let identity = match kind {
        DriveKind::BlockDevice => format!("block:{}:{}", major(stat.st_rdev), minor(stat.st_rdev)),
        _ => format!("file:{}:{}:{}", major(stat.st_dev), minor(stat.st_dev), stat.st_ino),
    };
    let is_device = kind == DriveKind::BlockDevice;
    let device = sysfs::look_up(if is_device { stat.st_rdev } else { stat.st_dev });
    let info = DriveInfo {
        name: path.to_owned(),
        identity: DriveIdentity(identity),
        kind,
        size,
        logical_sector,
        physical_sector,
        rotational: device.rotational,
        read_only: read_only || (is_device && device.read_only),
        exclusive: true,
        // The device below a file's file system is not the drive.
        hardware: if is_device { device.hardware } else { Hardware::default() },
    };
    let behind = BackingDevice::new(is_device.then_some((device.interface, device.locate)));
    let behind = behind.with_cache_type(device.cache_type.filter(|_| is_device));
    Ok(OpenDrive { fd, info, odd_bytes: ByteCount(all.0 - size.0), memory_alignment, behind })
}

fn cannot_open(path: &str, error: Errno) -> Error {
    match error {
        Errno::NOENT | Errno::NOTDIR => {
            Error::new(ErrorKind::NotFound, format!("drive file {path} does not exist"))
        }
        Errno::ACCESS | Errno::PERM => {
            Error::new(ErrorKind::Denied, format!("no permission to open drive {path}"))
                .caused_by(error)
        }
        error => system_error(error, format!("cannot open drive {path}")),
    }
}

fn drive_kind(path: &str, stat: &Stat) -> Result<DriveKind> {
    let what = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(DriveKind::File),
        FileType::BlockDevice => return Ok(DriveKind::BlockDevice),
        FileType::Directory => "a directory",
        FileType::Socket => "a socket",
        FileType::Fifo => "a pipe",
        FileType::CharacterDevice => "a character device",
        _ => "something else",
    };
    Err(Error::new(
        ErrorKind::WrongKind,
        format!("{path} is {what}; a drive is a file or a block device"),
    ))
}

/// An open file, whether it is read-only, and whether it is for direct I/O.
type Opened = (OwnedFd, bool, bool);

/// Opens it. A block device is opened exclusively; the end of a dying holder is awaited. The holder
/// is found by its lock.
fn open_alone(path: &str, kind: DriveKind, access: Access, stat: &Stat) -> Result<Opened> {
    let busy = || lock_holder(stat).map_or(Holder::Unknown, Holder::Process);
    let opened = outlive(|| match open_file(path, kind, access) {
        Err(Errno::BUSY) => Err(busy()),
        outcome => Ok(outcome),
    });
    let refused = |holder| {
        let why = match holder {
            Holder::Process(pid) => held_by(pid),
            _ => "in use: mounted, part of another array, or held by another program".to_owned(),
        };
        Error::new(ErrorKind::InUse, format!("drive {path} is {why}"))
    };
    opened.map_err(refused)?.map_err(|error| cannot_open(path, error))
}

/// A description of the process that holds a drive.
fn held_by(process: u32) -> String {
    match process == std::process::id() {
        true => {
            "in use by this process: under another name, or with outstanding operations".to_owned()
        }
        false => format!("held by another controller (process {process})"),
    }
}

/// Opens for writing if that is permitted and wanted, with direct I/O if possible.
fn open_file(path: &str, kind: DriveKind, wanted: Access) -> rustix::io::Result<Opened> {
    let mut base = OFlags::CLOEXEC | OFlags::NONBLOCK;
    if kind == DriveKind::BlockDevice {
        base |= OFlags::EXCL;
    }
    let mut refusal = Errno::INVAL;
    let ways = [(OFlags::RDWR, false), (OFlags::RDONLY, true)];
    for (access, read_only) in
        ways.into_iter().filter(|(_, read_only)| *read_only || wanted == Access::Writing)
    {
        for (caching, direct) in [(OFlags::DIRECT, true), (OFlags::empty(), false)] {
            match rustix::fs::open(path, base | access | caching, Mode::empty()) {
                Ok(fd) => {
                    // Non-blocking was only for the open.
                    rustix::fs::fcntl_setfl(&fd, caching)?;
                    return Ok((fd, read_only, direct));
                }
                // The file system does not support direct I/O.
                Err(Errno::INVAL) if direct => {}
                Err(error) => {
                    refusal = error;
                    break;
                }
            }
        }
        if ![Errno::ACCESS, Errno::PERM, Errno::ROFS, Errno::TXTBSY].contains(&refusal) {
            break;
        }
    }
    Err(refusal)
}

/// Takes two locks: `flock` excludes other controllers (and identifies the holder), the lock on the
/// open file excludes programs such as QEMU. Both end with the file.
fn lock_out_others(path: &str, fd: &OwnedFd, stat: &Stat, read_only: bool) -> Result<()> {
    let held = || {
        let holder =
            lock_holder(stat).map_or_else(|| "held by another controller".to_owned(), held_by);
        Err(Error::new(ErrorKind::InUse, format!("drive {path} is {holder}")))
    };
    match outlive(|| try_flock(fd, stat)) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(system_error(error, format!("cannot lock drive {path}"))),
        Err(_) => return held(),
    }
    // SAFETY: a zeroed lock record is valid: the whole file, from its start.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = if read_only { libc::F_RDLCK } else { libc::F_WRLCK } as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the file is open and the record outlives the call.
    if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_SETLK, &lock) } == 0 {
        return Ok(());
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => held(),
        // The file system has no such locks: the other lock suffices.
        Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOLCK) => Ok(()),
        _ => {
            Err(system_error(std::io::Error::last_os_error(), format!("cannot lock drive {path}")))
        }
    }
}

/// Takes the `flock`, or returns its holder. If the holder ended between the two steps, it tries
/// again.
pub(crate) fn try_flock(
    fd: &OwnedFd,
    stat: &Stat,
) -> std::result::Result<rustix::io::Result<()>, Holder> {
    for _ in 0..8 {
        match rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {}
            outcome => return Ok(outcome),
        }
        if let Some(pid) = lock_holder(stat) {
            return Err(Holder::Process(pid));
        }
    }
    Err(Holder::Living)
}

/// The process that holds a `flock` on that file, if the kernel reports it.
pub(crate) fn lock_holder(stat: &Stat) -> Option<u32> {
    let inode = format!("{:02x}:{:02x}:{}", major(stat.st_dev), minor(stat.st_dev), stat.st_ino);
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        // 1: FLOCK  ADVISORY  WRITE 4711 fe:00:131090 0 EOF
        let mut fields = line.split_whitespace().skip(1);
        let (kind, _, _, pid, place) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        (kind == "FLOCK" && place == inode).then(|| pid.parse().ok()).flatten()
    })
}

/// The logical and physical sector, and the memory alignment for direct I/O.
fn sectors(
    path: &str,
    fd: &OwnedFd,
    kind: DriveKind,
    direct: bool,
) -> Result<(SectorSize, SectorSize, Option<u32>)> {
    let dio = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        .ok()
        .filter(|statx| StatxFlags::from_bits_retain(statx.stx_mask).contains(StatxFlags::DIOALIGN))
        .filter(|statx| statx.stx_dio_offset_align > 0);
    let (logical, physical) = match kind {
        DriveKind::BlockDevice => (
            block_size(path, fd, libc::BLKSSZGET as libc::c_ulong)?,
            block_size(path, fd, libc::BLKPBSZGET as libc::c_ulong)?,
        ),
        _ => {
            let offset_align =
                dio.as_ref().filter(|_| direct).map_or(512, |dio| dio.stx_dio_offset_align);
            let block = rustix::fs::fstatfs(fd).map_or(4096, |statfs| statfs.f_bsize as u64);
            (u64::from(offset_align).max(512), block)
        }
    };
    let logical_sector = SectorSize::from_bytes(logical).ok_or_else(|| {
        Error::new(
            ErrorKind::WrongKind,
            format!("drive {path} has sectors of {logical} bytes; 512 and 4096 are supported"),
        )
    })?;
    let physical_sector = if physical >= 4096 { SectorSize::B4096 } else { logical_sector };
    let memory = dio.map_or(logical as u32, |dio| dio.stx_dio_mem_align.max(1));
    Ok((logical_sector, physical_sector.max(logical_sector), direct.then_some(memory)))
}

fn block_size(path: &str, fd: &OwnedFd, request: libc::c_ulong) -> Result<u64> {
    let mut size: libc::c_uint = 0;
    // SAFETY: both requests write one int.
    if unsafe { libc::ioctl(fd.as_raw_fd(), request as _, &raw mut size) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(system_error(
            error,
            format!("cannot read the sector size of block device {path}"),
        ));
    }
    Ok(u64::from(size))
}

/// Creates a file drive with all its space reserved; removes it after an error.
pub(crate) fn create_drive(path: &str, size: ByteCount) -> Result<()> {
    if size.is_zero() || !size.is_aligned(SectorSize::B512.bytes()) {
        return Err(Error::new(
            ErrorKind::BadName,
            format!(
                "a drive file of {} bytes cannot be made; give a whole number of 512-byte sectors, \
                    such as 1G",
                size.0
            ),
        ));
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let fd =
        rustix::fs::open(path, flags, Mode::from_raw_mode(0o600)).map_err(|error| match error {
            Errno::EXIST => Error::new(
                ErrorKind::InUse,
                format!("drive file {path} exists already; choose another name"),
            ),
            error => system_error(error, format!("cannot make drive file {path}")),
        })?;
    reserve(path, &fd, size).and_then(|()| make_durable(path, &fd)).inspect_err(|_| {
        // An incomplete file must not be mistaken for a drive. Report the first error.
        let _ = std::fs::remove_file(path);
    })
}

fn reserve(path: &str, fd: &OwnedFd, size: ByteCount) -> Result<()> {
    let outcome = match rustix::fs::fallocate(fd, FallocateFlags::empty(), 0, size.0) {
        Err(Errno::OPNOTSUPP) => write_zeroes(fd, 0, size.0),
        other => other,
    };
    outcome.map_err(|error| match error {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => {
            let free = rustix::fs::fstatvfs(fd).map(|fs| ByteCount(fs.f_bavail * fs.f_frsize));
            let free = free.map(|free| format!(", {free} free")).unwrap_or_default();
            Error::new(
                ErrorKind::OutOfSpace,
                format!("no room for drive file {path}: {size} wanted{free}"),
            )
        }
        error => system_error(error, format!("cannot reserve {size} for drive file {path}")),
    })
}

/// For file systems that cannot reserve space: written space is reserved.
pub(crate) fn write_zeroes(fd: &OwnedFd, from: u64, to: u64) -> rustix::io::Result<()> {
    let mut at = from;
    while at < to {
        let piece = (to - at).min(1 << 20) as usize;
        at += rustix::io::pwrite(fd, &platform::buffers::zero_bytes()[..piece], at)? as u64;
    }
    Ok(())
}

fn make_durable(path: &str, fd: &OwnedFd) -> Result<()> {
    let directory = match Path::new(path).parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    rustix::fs::fsync(fd)
        .and_then(|()| rustix::fs::open(directory, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()))
        .and_then(|directory| rustix::fs::fsync(directory.as_fd()))
        .map_err(|error| system_error(error, format!("cannot make drive file {path} durable")))
}
