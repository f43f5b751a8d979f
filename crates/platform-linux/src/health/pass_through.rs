//! Device commands through the kernel: `NVME_IOCTL_ADMIN_CMD` (linux/nvme_ioctl.h) and `SG_IO`
//! (scsi/sg.h).

use super::nvme::LOG_BYTES;
use super::{Answer, Refusal, gone, refusal_of};
use platform::{IoError, IoErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};

/// The time limit of a command, so that several fit into the time limit of an operation.
const TIME_LIMIT_MS: u32 = 5000;

/// `_IOWR('N', 0x41, struct nvme_admin_cmd)`.
const NVME_IOCTL_ADMIN_CMD: u32 = 0xC048_4E41;
const SG_IO: u32 = 0x2285;

/// `struct nvme_passthru_cmd`.
#[repr(C)]
#[derive(Default)]
struct NvmeCommand {
    opcode: u8,
    flags: u8,
    rsvd1: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}
const _: () = assert!(size_of::<NvmeCommand>() == 72);

/// Get Log Page (opcode 02h) of the SMART / Health Information page (02h) of the whole controller.
pub(super) fn nvme_health_log(fd: &OwnedFd, log: &mut [u8; LOG_BYTES]) -> Result<(), Refusal> {
    let dwords = (LOG_BYTES / 4 - 1) as u32;
    let mut command = NvmeCommand {
        opcode: 0x02,
        nsid: u32::MAX,
        addr: log.as_mut_ptr() as u64,
        data_len: LOG_BYTES as u32,
        cdw10: (dwords << 16) | 0x02,
        timeout_ms: TIME_LIMIT_MS,
        ..NvmeCommand::default()
    };
    // SAFETY: the address and the length are those of `log`, which outlives the call.
    unsafe { nvme_admin(fd, &mut command) }
}

/// Sends an admin command to an NVMe controller.
///
/// # Errors
/// [`Refusal::Unknown`] if the device returns a status: it does not support the page or the
/// feature.
///
/// # Safety
/// The memory at the command's address, of its length, must be writable until this returns.
unsafe fn nvme_admin(fd: &OwnedFd, command: &mut NvmeCommand) -> Result<(), Refusal> {
    // SAFETY: the structure has the kernel's layout and outlives the call; the caller ensures the
    // memory it points to.
    let status = unsafe {
        libc::ioctl(fd.as_raw_fd(), NVME_IOCTL_ADMIN_CMD as _, std::ptr::from_mut(command))
    };
    match status {
        0 => Ok(()),
        ..0 => Err(refusal_of(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))),
        _ => Err(Refusal::Unknown),
    }
}

/// Set Features (opcode 09h) of the volatile write cache (feature 06h; NVM Express Base
/// Specification 2.0, section 5.27.1.4): bit 0 of double word 11 enables it. Not saved across
/// controller resets.
pub(super) fn nvme_set_write_cache(fd: &OwnedFd, on: bool) -> Result<(), Refusal> {
    let mut command = NvmeCommand {
        opcode: 0x09,
        cdw10: 0x06,
        cdw11: u32::from(on),
        timeout_ms: TIME_LIMIT_MS,
        ..NvmeCommand::default()
    };
    // SAFETY: the command has no data.
    unsafe { nvme_admin(fd, &mut command) }
}

/// `struct sg_io_hdr`.
#[repr(C)]
struct SgIo {
    interface_id: i32,
    dxfer_direction: i32,
    cmd_len: u8,
    mx_sb_len: u8,
    iovec_count: u16,
    dxfer_len: u32,
    dxferp: *mut u8,
    cmdp: *const u8,
    sbp: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: i32,
    usr_ptr: *mut u8,
    status: u8,
    masked_status: u8,
    msg_status: u8,
    sb_len_wr: u8,
    host_status: u16,
    driver_status: u16,
    resid: i32,
    duration_ms: u32,
    info: u32,
}

const SG_DXFER_NONE: i32 = -1;
const SG_DXFER_FROM_DEV: i32 = -3;

/// Host adapter results (`DID_*`): no connection, bad target, transport lost.
const HOST_GONE: [u16; 4] = [0x01, 0x04, 0x0f, 0x11];
/// Bus busy, command timed out or aborted.
const HOST_TIMED_OUT: [u16; 3] = [0x02, 0x03, 0x05];

/// Sends a SCSI command that reads into `data`.
pub(super) fn scsi(fd: &OwnedFd, command: &[u8], data: &mut [u8]) -> Result<Answer, Refusal> {
    let mut sense = [0u8; 64];
    let mut header = SgIo {
        interface_id: i32::from(b'S'),
        dxfer_direction: if data.is_empty() { SG_DXFER_NONE } else { SG_DXFER_FROM_DEV },
        cmd_len: command.len() as u8,
        mx_sb_len: sense.len() as u8,
        iovec_count: 0,
        dxfer_len: data.len() as u32,
        dxferp: data.as_mut_ptr(),
        cmdp: command.as_ptr(),
        sbp: sense.as_mut_ptr(),
        timeout_ms: TIME_LIMIT_MS,
        flags: 0,
        pack_id: 0,
        usr_ptr: std::ptr::null_mut(),
        status: 0,
        masked_status: 0,
        msg_status: 0,
        sb_len_wr: 0,
        host_status: 0,
        driver_status: 0,
        resid: 0,
        duration_ms: 0,
        info: 0,
    };
    // SAFETY: the structure has the kernel's layout; it and all memory it points to outlive the
    // call.
    if unsafe { libc::ioctl(fd.as_raw_fd(), SG_IO as _, &raw mut header) } != 0 {
        return Err(refusal_of(
            std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
        ));
    }
    match header.host_status {
        0 => {}
        status if HOST_GONE.contains(&status) => return Err(gone()),
        status if HOST_TIMED_OUT.contains(&status) => {
            return Err(Refusal::Failed(IoError::new(IoErrorKind::TimedOut)));
        }
        // The adapter did not perform the command: some do not support ATA pass-through.
        _ => return Err(Refusal::Unknown),
    }
    let missing = usize::try_from(header.resid).unwrap_or(0);
    let sense = sense[..usize::from(header.sb_len_wr).min(sense.len())].to_vec();
    Ok(Answer { status: header.status, sense, len: data.len().saturating_sub(missing) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn the_structure_is_the_kernels() {
        assert_eq!((size_of::<SgIo>(), std::mem::offset_of!(SgIo, host_status)), (88, 68));
    }

    #[test]
    fn a_file_takes_no_commands() {
        let path = std::env::temp_dir().join(format!("pass-through-{}", std::process::id()));
        let file = OwnedFd::from(std::fs::File::create(&path).unwrap());
        assert_eq!(nvme_health_log(&file, &mut [0; LOG_BYTES]), Err(Refusal::Unknown));
        assert_eq!(scsi(&file, &[0; 6], &mut []), Err(Refusal::Unknown));
        std::fs::remove_file(path).unwrap();
    }
}
