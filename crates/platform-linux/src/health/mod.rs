//! What a block device tells of its health: asked for with commands of its own kind.
//!
//! Everything here blocks and runs on a worker thread. The formats are read by pure functions over bytes; asking
//! takes a function that carries a command out, so that a device can be played by a test.

mod ata;
mod nvme;
mod pass_through;
mod scsi;

use crate::sysfs::Interface;
use platform::{DriveHealth, HealthSource, IoError, IoErrorKind};
use std::os::fd::OwnedFd;

/// Why a command was not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refusal {
    /// The kernel does not let this process send it.
    Denied,
    /// The device, or its driver, does not know it.
    Unknown,
    /// The device did not answer.
    Failed(IoError),
}

/// What came back of a SCSI command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Answer {
    /// The SCSI status: zero is good, two is "check condition" with sense data.
    status: u8,
    sense: Vec<u8>,
    /// How many bytes of data came.
    len: usize,
}

/// Carries out a SCSI command that transfers data to us, or none.
type Command<'a> = dyn FnMut(&[u8], &mut [u8]) -> Result<Answer, Refusal> + 'a;

/// Asks a device for its health. One that cannot tell is unknown, which is no error.
///
/// # Errors
/// When the device does not answer.
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
        Interface::Ata => {
            ata::ask(&mut |command, data| pass_through::scsi(fd, command, data), model, sector_bytes)
        }
    };
    match asked {
        Ok(health) => Ok(health),
        Err(Refusal::Denied) => Ok(DriveHealth { source: HealthSource::Denied, ..DriveHealth::default() }),
        Err(Refusal::Unknown) => Ok(DriveHealth::default()),
        Err(Refusal::Failed(error)) => Err(error),
    }
}

/// Switches the volatile write cache of an NVMe device. The kernel flushes one that has such a cache whether it is on or not.
///
/// # Errors
/// `NotSupported` where it has none, or does not let it be switched; why it could not be asked.
pub(crate) fn switch_nvme_cache(fd: &OwnedFd, on: bool) -> Result<(), IoError> {
    pass_through::nvme_set_write_cache(fd, on).map_err(|refusal| match refusal {
        Refusal::Denied => IoError { kind: IoErrorKind::NotSupported, errno: libc::EPERM },
        Refusal::Unknown => IoError::new(IoErrorKind::NotSupported),
        Refusal::Failed(error) => error,
    })
}

/// What an error number of the kernel means for a command.
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

/// An unsigned number, lowest byte first, of at most 16 bytes.
fn int_le(bytes: &[u8]) -> u128 {
    bytes.iter().rev().fold(0, |number, byte| (number << 8) | u128::from(*byte))
}

/// An unsigned number, highest byte first.
fn int_be(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number: u64, byte| number.checked_mul(256).map_or(u64::MAX, |n| n | u64::from(*byte)))
}
