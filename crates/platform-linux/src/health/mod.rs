//! Health queries of block devices, with commands of their protocol.
//!
//! All functions block and run on a worker thread. Pure functions parse the formats. A query takes
//! a function that sends commands, so that tests can emulate a device.

mod ata;
mod nvme;
mod pass_through;
mod scsi;

use crate::sysfs::Interface;
use platform::{DriveHealth, HealthSource, IoError, IoErrorKind};
use std::os::fd::OwnedFd;

/// Why a command was not performed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refusal {
    /// The kernel does not permit this process to send it.
    Denied,
    /// The device or its driver does not support it.
    Unknown,
    /// The device did not respond.
    Failed(IoError),
}

/// The answer to a SCSI command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Answer {
    /// The SCSI status: 0 is good, 2 is "check condition" with sense data.
    status: u8,
    sense: Vec<u8>,
    /// The number of data bytes received.
    len: usize,
}

/// Sends a SCSI command that reads data, or none.
type Command<'a> = dyn FnMut(&[u8], &mut [u8]) -> Result<Answer, Refusal> + 'a;

/// Queries a device's health. An unsupported query gives an unknown health, which is no error.
///
/// # Errors
/// If the device does not respond.
pub(crate) fn ask(
    fd: &OwnedFd,
    interface: Interface,
    model: &str,
    sector_bytes: u64,
) -> Result<DriveHealth, IoError> {
    let asked = match interface {
        Interface::Unknown => Err(Refusal::Unknown),
        Interface::Nvme => nvme::ask(|log| pass_through::nvme_health_log(fd, log)),
        Interface::Scsi => scsi::ask(&mut |command, data| pass_through::scsi(fd, command, data)),
        Interface::Ata => ata::ask(
            &mut |command, data| pass_through::scsi(fd, command, data),
            model,
            sector_bytes,
        ),
    };
    match asked {
        Ok(health) => Ok(health),
        Err(Refusal::Denied) => {
            Ok(DriveHealth { source: HealthSource::Denied, ..DriveHealth::default() })
        }
        Err(Refusal::Unknown) => Ok(DriveHealth::default()),
        Err(Refusal::Failed(error)) => Err(error),
    }
}

/// Switches the volatile write cache of an NVMe device. The kernel flushes a device with such a
/// cache even while it is off.
///
/// # Errors
/// `NotSupported` if the device has none, or cannot switch it; otherwise why the command failed.
pub(crate) fn switch_nvme_cache(fd: &OwnedFd, on: bool) -> Result<(), IoError> {
    pass_through::nvme_set_write_cache(fd, on).map_err(|refusal| match refusal {
        Refusal::Denied => IoError { kind: IoErrorKind::NotSupported, errno: libc::EPERM },
        Refusal::Unknown => IoError::new(IoErrorKind::NotSupported),
        Refusal::Failed(error) => error,
    })
}

/// The meaning of a kernel error number for a command.
fn refusal_of(errno: i32) -> Refusal {
    match errno {
        libc::EPERM | libc::EACCES => Refusal::Denied,
        libc::ENOTTY | libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS => Refusal::Unknown,
        _ => Refusal::Failed(crate::errno::drive_error(errno)),
    }
}

fn gone() -> Refusal {
    Refusal::Failed(IoError::new(IoErrorKind::Gone))
}

/// An unsigned little-endian number of at most 16 bytes.
fn int_le(bytes: &[u8]) -> u128 {
    bytes.iter().rev().fold(0, |number, byte| (number << 8) | u128::from(*byte))
}

/// An unsigned big-endian number.
fn int_be(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number: u64, byte| {
        number.checked_mul(256).map_or(u64::MAX, |n| n | u64::from(*byte))
    })
}
