//! Kernel block devices served by this process (ublk, linux/ublk_cmd.h): the control device, and
//! the queues of a device. Data is copied by reads and writes of the device's file
//! (`UBLK_F_USER_COPY`, Linux 6.5). A device whose process ended waits for the next one, which gets
//! its requests again (`UBLK_F_USER_RECOVERY`).
//!
//! A command that waits for a request names its slot. When it completes, the request is in memory
//! shared with the kernel. The slot's next command carries the result.

use crate::errno::{drive_error, system_error};
use crate::op::Op;
use crate::ring::Ring;
use crate::shard::ring_of;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use platform::{
    Env, Error, ErrorKind, Io, IoError, IoErrorKind, KernelQueue, KernelQueueSource, KernelRequest,
    KernelWork, Result,
};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use units::{ByteCount, ByteOffset, ByteRange};

const CONTROL: &str = "/dev/ublk-control";

const GET_DEV_INFO: u32 = 0x02;
const ADD_DEV: u32 = 0x04;
const DEL_DEV: u32 = 0x05;
const START_DEV: u32 = 0x06;
const STOP_DEV: u32 = 0x07;
const SET_PARAMS: u32 = 0x08;
const START_USER_RECOVERY: u32 = 0x10;
const END_USER_RECOVERY: u32 = 0x11;
const GET_FEATURES: u32 = 0x13;
const DEL_DEV_ASYNC: u32 = 0x14;
const UPDATE_SIZE: u32 = 0x15;
const FETCH_REQ: u32 = 0x20;
const COMMIT_AND_FETCH_REQ: u32 = 0x21;

/// The bytes of a control command, and of a queue command: part of their numbers.
const CONTROL_BYTES: u32 = 32;
const QUEUE_BYTES: u32 = 16;

const USER_RECOVERY: u64 = 1 << 3;
const USER_RECOVERY_REISSUE: u64 = 1 << 4;
const USER_COPY: u64 = 1 << 7;
/// Linux 6.16 or newer.
const CAN_UPDATE_SIZE: u64 = 1 << 10;
/// The first Linux with the needed features.
pub const UBLK_SINCE: &str = "6.5";
const NEEDED: u64 = USER_RECOVERY | USER_RECOVERY_REISSUE | USER_COPY;

/// Device states: it has no disk, or its process ended and it waits for another.
const DEAD: u16 = 0;
const QUIESCED: u16 = 2;

/// The kernel's error number for an unknown command, without a name in user space (`ENOTSUPP`).
const UNKNOWN_COMMAND: i32 = 524;

const READ_ONLY: u32 = 1;
const ROTATIONAL: u32 = 1 << 1;
const VOLATILE_CACHE: u32 = 1 << 2;
const FUA: u32 = 1 << 3;

/// The queue depth.
const DEPTH: u16 = 64;
/// The longest request, in bytes.
const LONGEST: u32 = 1 << 20;
/// The longest range for trims and zeroing, in sectors of 512 bytes: 1 GiB.
const LONGEST_RANGE: u32 = 1 << 21;
/// The size of a request in shared memory, and the number of requests that a queue reserves there.
const REQUEST: usize = 24;
const ROOM: usize = 4096;
const PAGE: usize = 4096;
/// The offset of data in the device's file; queue and slot are in the bits above a request's bytes.
const DATA: u64 = 0x8000_0000;
const SLOT_BIT: u32 = 25;
const QUEUE_BIT: u32 = 41;

const fn number(direction: u32, bytes: u32, command: u32) -> u32 {
    direction << 30 | bytes << 16 | (b'u' as u32) << 8 | command
}

/// The properties of a new device.
#[derive(Clone, Copy, Debug)]
pub struct NewUblk {
    /// The maximum number of queues; the kernel limits it to the number of processors.
    pub queues: u16,
    /// A value that the kernel stores for the creator, to recognise the device.
    pub mark: u64,
    /// The capacity.
    pub capacity: ByteCount,
    /// The logical sector, and the smallest request that needs no read first.
    pub sector: ByteCount,
    /// See [`NewUblk::sector`].
    pub minimum_io: ByteCount,
    /// The strip.
    pub strip: ByteCount,
    /// The full stripe.
    pub optimal_io: ByteCount,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Whether any drive rotates.
    pub rotational: bool,
}

/// The state of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UblkInfo {
    /// The number of queues.
    pub queues: u16,
    /// The queue depth.
    pub depth: u16,
    /// Its process ended, and another may take over.
    pub waits: bool,
    /// It has no disk: not started, or stopped.
    pub has_no_disk: bool,
    /// See [`NewUblk::mark`].
    pub mark: u64,
}

/// The control device, which creates and removes devices. Its calls block.
pub struct UblkControl {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    file: OwnedFd,
}

impl UblkControl {
    /// Opens the control device.
    ///
    /// # Errors
    /// If the kernel has none, or is too old; if this process lacks the permission.
    pub fn open() -> Result<UblkControl> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(CONTROL, flags, Mode::empty()).map_err(|error| match error {
            Errno::NOENT | Errno::NODEV | Errno::NXIO => Error::new(
                ErrorKind::NotFound,
                format!(
                    "this kernel has no {CONTROL}; run 'modprobe ublk_drv' as root, or leave out \
                        '--as ublk'"
                ),
            ),
            Errno::PERM | Errno::ACCESS => Error::new(
                ErrorKind::Denied,
                format!("the controller may not open {CONTROL}; stop it, and run 'sudo softroc \
                    serve'"),
            ),
            error => system_error(error, format!("cannot open {CONTROL}")),
        })?;
        let ring = IoUring::builder()
            .build(4)
            .map_err(|error| system_error(error, "cannot set up a ring for ublk"))?;
        let mut control = UblkControl { ring, file };
        let features = control.features()?;
        if features & NEEDED != NEEDED {
            let sentence = format!(
                "this kernel's ublk is too old: Linux {UBLK_SINCE} or newer is needed; leave out \
                    '--as ublk'"
            );
            return Err(Error::new(ErrorKind::WrongKind, sentence));
        }
        Ok(control)
    }

    fn features(&mut self) -> Result<u64> {
        let mut bytes = [0; 8];
        // Kernels without this command lack the features as well.
        let asked = self.ask(2, GET_FEATURES, u32::MAX, &mut bytes, 0);
        Ok(asked.map_or(0, |()| u64::from_ne_bytes(bytes)))
    }

    fn ask(
        &mut self,
        direction: u32,
        command: u32,
        index: u32,
        bytes: &mut [u8],
        word: u64,
    ) -> rustix::io::Result<()> {
        let mut packed = [0; 80];
        packed[..4].copy_from_slice(&index.to_ne_bytes());
        packed[4..6].copy_from_slice(&u16::MAX.to_ne_bytes());
        packed[6..8].copy_from_slice(&(bytes.len() as u16).to_ne_bytes());
        packed[8..16].copy_from_slice(&(bytes.as_mut_ptr() as u64).to_ne_bytes());
        packed[16..24].copy_from_slice(&word.to_ne_bytes());
        let op = number(direction, CONTROL_BYTES, command);
        let entry =
            opcode::UringCmd80::new(types::Fd(self.file.as_raw_fd()), op).cmd(packed).build();
        // SAFETY: the entry points to `bytes`, which outlives the wait below.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| Errno::BUSY)?;
        loop {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
                Ok(_) => {}
            }
            if let Some(answer) = self.ring.completion().next() {
                return match answer.result() {
                    result if result < 0 => Err(Errno::from_raw_os_error(-result)),
                    _ => Ok(()),
                };
            }
        }
    }

    /// Creates a device without a disk. Returns its number and its number of queues.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn add(&mut self, new: &NewUblk) -> Result<(u32, u16)> {
        let refused = |error| {
            system_error(error, "the kernel does not create the ublk device; 'dmesg' may say more")
        };
        let mut info = [0; 64];
        let mut put = |at: usize, bytes: &[u8]| info[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &new.queues.to_ne_bytes());
        put(2, &DEPTH.to_ne_bytes());
        put(8, &LONGEST.to_ne_bytes());
        put(12, &u32::MAX.to_ne_bytes());
        put(24, &NEEDED.to_ne_bytes());
        put(32, &new.mark.to_ne_bytes());
        self.ask(3, ADD_DEV, u32::MAX, &mut info, 0).map_err(refused)?;
        let index = u32::from_ne_bytes([info[12], info[13], info[14], info[15]]);
        let queues = u16::from_ne_bytes([info[0], info[1]]);
        let mut parameters = parameters(new);
        if let Err(error) = self.ask(3, SET_PARAMS, index, &mut parameters, 0) {
            self.remove(index)?;
            return Err(refused(error));
        }
        Ok((index, queues))
    }

    /// The state of a device.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn info(&mut self, index: u32) -> Result<UblkInfo> {
        let mut info = [0; 64];
        self.ask(2, GET_DEV_INFO, index, &mut info, 0)
            .map_err(|error| system_error(error, format!("there is no ublk device {index}")))?;
        let half = |at: usize| u16::from_ne_bytes([info[at], info[at + 1]]);
        let mut mark = [0; 8];
        mark.copy_from_slice(&info[32..40]);
        Ok(UblkInfo {
            queues: half(0),
            depth: half(2),
            waits: half(4) == QUIESCED,
            has_no_disk: half(4) == DEAD,
            mark: u64::from_ne_bytes(mark),
        })
    }

    /// Creates the disk, once its queues are served: waits for that.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn start(&mut self, index: u32) -> Result<()> {
        let asked = self.ask(3, START_DEV, index, &mut [], std::process::id().into());
        asked.map_err(|error| {
            system_error(error, format!("the kernel does not start ublk device {index}"))
        })
    }

    /// Assigns a waiting device to this process: its queues may be served from now on.
    ///
    /// # Errors
    /// If the previous process still has it.
    pub fn begin_recovery(&mut self, index: u32) -> Result<()> {
        let asked = self.ask(3, START_USER_RECOVERY, index, &mut [], 0);
        asked.map_err(|error| {
            system_error(error, format!("the previous process still holds ublk device {index}"))
        })
    }

    /// Resumes the disk, once its queues are served: waits for that.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn end_recovery(&mut self, index: u32) -> Result<()> {
        let asked = self.ask(3, END_USER_RECOVERY, index, &mut [], std::process::id().into());
        asked.map_err(|error| {
            system_error(error, format!("the kernel does not resume ublk device {index}"))
        })
    }

    /// Changes a disk's size, also while it is in use. False if this kernel cannot.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn resize(&mut self, index: u32, size: ByteCount) -> Result<bool> {
        if self.features()? & CAN_UPDATE_SIZE == 0 {
            return Ok(false);
        }
        let asked = self.ask(3, UPDATE_SIZE, index, &mut [], size.0 / 512);
        asked.map(|()| true).map_err(|error| {
            system_error(error, format!("the kernel does not resize ublk device {index}"))
        })
    }

    /// Removes disk and device: waits for the disk's outstanding requests. The device disappears
    /// when its last user closes it.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn remove(&mut self, index: u32) -> Result<()> {
        let refused =
            |error| system_error(error, format!("the kernel does not remove ublk device {index}"));
        self.ask(3, STOP_DEV, index, &mut [], 0).map_err(refused)?;
        let removed = match self.ask(2, DEL_DEV_ASYNC, index, &mut [], 0) {
            // Before Linux 6.9 only the blocking command exists, which waits until the last user
            // closes the device. No feature flag reports it.
            Err(error) if is_unknown(error) => remove_later(index),
            removed => removed,
        };
        removed.map_err(refused)
    }
}

/// Whether the kernel does not know a command.
fn is_unknown(error: Errno) -> bool {
    error == Errno::OPNOTSUPP || error.raw_os_error() == UNKNOWN_COMMAND
}

/// Removes a stopped device in the background, once its last user closes it: that may be the
/// caller, which cannot wait.
fn remove_later(index: u32) -> rustix::io::Result<()> {
    let wait = move || {
        let removed =
            UblkControl::open().map_err(|error| error.to_string()).and_then(|mut control| {
                control.ask(3, DEL_DEV, index, &mut [], 0).map_err(|error| error.to_string())
            });
        if let Err(why) = removed {
            tracing::warn!("ublk device {index} is stopped but not removed: {why}");
        }
    };
    let thread = std::thread::Builder::new().name("ublk-removal".into()).spawn(wait);
    thread.map(drop).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
}

/// The parameters of a disk for the kernel: length and kinds, then those of each kind.
fn parameters(new: &NewUblk) -> [u8; 60] {
    let mut bytes = [0; 60];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    let mut attributes = VOLATILE_CACHE | FUA;
    attributes |= if new.read_only { READ_ONLY } else { 0 };
    attributes |= if new.rotational { ROTATIONAL } else { 0 };
    let shift = |size: ByteCount| size.0.max(512).ilog2() as u8;
    // The kernel accepts only a power of two.
    let optimal = if new.optimal_io.0.is_power_of_two() { new.optimal_io } else { new.strip };
    put(0, &60_u32.to_ne_bytes());
    put(4, &3_u32.to_ne_bytes());
    put(8, &attributes.to_ne_bytes());
    put(12, &[shift(new.sector), shift(new.minimum_io), shift(optimal), shift(new.strip)]);
    put(16, &(LONGEST / 512).to_ne_bytes());
    put(24, &(new.capacity.0 / 512).to_ne_bytes());
    put(44, &(new.sector.0 as u32).to_ne_bytes());
    put(48, &LONGEST_RANGE.to_ne_bytes());
    put(52, &LONGEST_RANGE.to_ne_bytes());
    put(56, &1_u16.to_ne_bytes());
    bytes
}

/// Opens the queues of a device; one process can have them at a time.
///
/// # Errors
/// If the device does not exist, or another process has it.
pub fn ublk_queues(index: u32, queues: u16, depth: u16) -> Result<Vec<Box<dyn KernelQueueSource>>> {
    let path = PathBuf::from(format!("/dev/ublkc{index}"));
    let refused = |error: Errno| system_error(error, format!("cannot serve {}", path.display()));
    let file =
        rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(refused)?;
    let file = Arc::new(file);
    let source = |queue| {
        let requests = Requests::map(&file, queue, depth).map_err(refused)?;
        Ok(Box::new(UblkSource { file: file.clone(), queue, depth, requests })
            as Box<dyn KernelQueueSource>)
    };
    (0..queues).map(source).collect()
}

/// The requests of a queue, in memory that the kernel writes.
struct Requests {
    memory: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is readable from any thread; the kernel writes a slot's request before its
// command completes.
unsafe impl Send for Requests {}

impl Requests {
    fn map(file: &OwnedFd, queue: u16, depth: u16) -> rustix::io::Result<Requests> {
        let len = (usize::from(depth) * REQUEST).next_multiple_of(PAGE);
        let at = u64::from(queue) * (ROOM * REQUEST).next_multiple_of(PAGE) as u64;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let memory = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len, ProtFlags::READ, flags, file, at)
        }?;
        NonNull::new(memory.cast()).map(|memory| Requests { memory, len }).ok_or(Errno::FAULT)
    }

    fn word(&self, slot: u16, at: usize) -> u32 {
        let offset = usize::from(slot) * REQUEST + at;
        debug_assert!(offset + 4 <= self.len);
        // SAFETY: the slot is in the mapping and its words are aligned; volatile, because the
        // kernel writes them.
        unsafe { self.memory.as_ptr().add(offset).cast::<u32>().read_volatile() }
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no other code uses it.
        let unmapped = unsafe { rustix::mm::munmap(self.memory.as_ptr().cast(), self.len) };
        debug_assert_eq!(unmapped, Ok(()), "a mapping of ours");
    }
}

struct UblkSource {
    file: Arc<OwnedFd>,
    queue: u16,
    depth: u16,
    requests: Requests,
}

impl KernelQueueSource for UblkSource {
    fn attach(self: Box<Self>, env: &Env) -> Result<Rc<dyn KernelQueue>> {
        let ring = ring_of(env)?;
        let UblkSource { file, queue, depth, requests } = *self;
        let is_fetched = (0..depth).map(|_| Cell::new(false)).collect();
        Ok(Rc::new(UblkQueue { file, queue, depth, requests, is_fetched, ring, env: env.clone() }))
    }
}

struct UblkQueue {
    file: Arc<OwnedFd>,
    queue: u16,
    depth: u16,
    requests: Requests,
    /// Which slots have had their first command.
    is_fetched: Vec<Cell<bool>>,
    ring: Rc<Ring>,
    env: Env,
}

impl UblkQueue {
    fn data(&self, slot: u16, offset: u64) -> u64 {
        DATA + (u64::from(self.queue) << QUEUE_BIT | u64::from(slot) << SLOT_BIT | offset)
    }
}

impl KernelQueue for UblkQueue {
    fn depth(&self) -> u16 {
        self.depth
    }

    fn next(&self, slot: u16, answer: i32) -> Io {
        let (io, completion) = self.env.start_operation(None);
        let is_first = !self.is_fetched[usize::from(slot)].replace(true);
        let command = if is_first { FETCH_REQ } else { COMMIT_AND_FETCH_REQ };
        let mut bytes = [0; QUEUE_BYTES as usize];
        bytes[..2].copy_from_slice(&self.queue.to_ne_bytes());
        bytes[2..4].copy_from_slice(&slot.to_ne_bytes());
        bytes[4..8].copy_from_slice(&answer.to_ne_bytes());
        let number = number(3, QUEUE_BYTES, command);
        self.ring.start(Op::Command { completion, file: self.file.clone(), number, bytes });
        io
    }

    fn request(&self, slot: u16) -> KernelRequest {
        let word = |at| u64::from(self.requests.word(slot, at));
        let (op, sectors) = (word(0), word(4));
        let start = word(8) | word(12) << 32;
        let work = match op & 0xFF {
            0 => KernelWork::Read,
            1 => KernelWork::Write,
            2 => KernelWork::Flush,
            3 => KernelWork::Trim,
            5 => KernelWork::Zeroes,
            _ => KernelWork::Unknown,
        };
        // A flush covers the whole disk: the kernel gives no valid range.
        let range = match work {
            KernelWork::Flush => ByteRange::new(ByteOffset(0), ByteCount::ZERO),
            _ => ByteRange::new(ByteOffset(start.saturating_mul(512)), ByteCount(sectors * 512)),
        };
        KernelRequest { work, range, durable: op >> 8 & u64::from(FORCED) != 0 }
    }

    fn take(&self, slot: u16, offset: u64, to: &mut [u8]) -> std::result::Result<(), IoError> {
        let mut done = 0;
        while done < to.len() {
            match rustix::io::pread(
                &*self.file,
                &mut to[done..],
                self.data(slot, offset + done as u64),
            ) {
                Ok(0) => return Err(IoError::new(IoErrorKind::Gone)),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(drive_error(error.raw_os_error())),
            }
        }
        Ok(())
    }

    fn give(&self, slot: u16, offset: u64, from: &[u8]) -> std::result::Result<(), IoError> {
        let mut done = 0;
        while done < from.len() {
            match rustix::io::pwrite(
                &*self.file,
                &from[done..],
                self.data(slot, offset + done as u64),
            ) {
                Ok(0) => return Err(IoError::new(IoErrorKind::Gone)),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(drive_error(error.raw_os_error())),
            }
        }
        Ok(())
    }
}

/// Flag of a durable write (`UBLK_IO_F_FUA`), above the operation in the flags.
const FORCED: u32 = 1 << 5;

/// The ring entry of a queue command.
pub(crate) fn command_entry(
    file: &OwnedFd,
    number: u32,
    bytes: [u8; QUEUE_BYTES as usize],
) -> squeue::Entry {
    opcode::UringCmd16::new(types::Fd(file.as_raw_fd()), number).cmd(bytes).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_told_in_its_own_numbers() {
        // The numbers from the macros of linux/ublk_cmd.h.
        assert_eq!(number(3, CONTROL_BYTES, ADD_DEV), 0xC020_7504);
        assert_eq!(number(2, CONTROL_BYTES, GET_DEV_INFO), 0x8020_7502);
        assert_eq!(number(3, QUEUE_BYTES, FETCH_REQ), 0xC010_7520);
        let new = NewUblk {
            queues: 2,
            mark: 7,
            capacity: ByteCount(1 << 30),
            sector: ByteCount(512),
            minimum_io: ByteCount(4096),
            strip: ByteCount(64 << 10),
            optimal_io: ByteCount(192 << 10),
            read_only: true,
            rotational: false,
        };
        let told = parameters(&new);
        assert_eq!(
            told[8..16],
            [READ_ONLY as u8 | VOLATILE_CACHE as u8 | FUA as u8, 0, 0, 0, 9, 12, 16, 16]
        );
        assert_eq!(told[24..32], (1_u64 << 21).to_ne_bytes());
        let even = parameters(&NewUblk { optimal_io: ByteCount(256 << 10), ..new });
        assert_eq!(even[14], 18);
    }

    #[test]
    fn where_there_is_no_ublk_it_is_said_what_to_do() {
        if let Err(error) = UblkControl::open() {
            let said = error.to_string();
            let advises = ["modprobe ublk_drv", "sudo softroc serve", "leave out '--as ublk'"];
            assert!(advises.iter().any(|advice| said.contains(advice)), "{said}");
        }
    }
}
