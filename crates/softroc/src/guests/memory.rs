//! Shared memory of a guest's machine, and the memory for records of in-flight requests.
//!
//! An access beyond the end of a truncated mapped file kills the process. So each file is sealed
//! against truncation, if its owner allows it (QEMU's memfd does). Otherwise processes that may
//! open a volume's socket are trusted not to truncate it.

use guests::GuestMemory;
use rustix::fs::{MemfdFlags, SealFlags};
use std::fs::File;
use std::io::Error;
use std::sync::Arc;
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{FileOffset, GuestAddress, GuestRegionMmap, MmapRegion};

/// The addresses of a region of guest memory, in the machine and in the guest.
#[derive(Clone, Copy)]
pub(super) struct Region {
    machine: u64,
    guest: u64,
    len: u64,
}

impl Region {
    /// The guest's address for the machine's `address`, if it is in this region.
    pub(super) fn guest_address(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.machine)?;
        (offset < self.len).then(|| self.guest + offset)
    }
}

/// Maps the regions of a guest's memory.
pub(super) fn map(
    regions: &[VhostUserMemoryRegion],
    files: Vec<File>,
) -> Result<(Arc<GuestMemory>, Vec<Region>), Error> {
    let mut parts: Vec<(VhostUserMemoryRegion, File)> =
        regions.iter().copied().zip(files).collect();
    parts.sort_by_key(|(region, _)| region.guest_phys_addr);
    let (mut mapped, mut places) = (Vec::new(), Vec::new());
    for (region, file) in parts {
        let (guest, len) = (region.guest_phys_addr, region.memory_size);
        let part = map_part(file, region.mmap_offset, len)?;
        let part = GuestRegionMmap::new(part, GuestAddress(guest));
        mapped.push(part.ok_or_else(|| Error::other("a region beyond the address space"))?);
        places.push(Region { machine: region.user_addr, guest, len });
    }
    let memory = GuestMemory::from_regions(mapped).map_err(Error::other)?;
    Ok((Arc::new(memory), places))
}

/// Maps the memory for records of in-flight requests.
pub(super) fn map_notes(file: File, offset: u64, len: u64) -> Result<Arc<GuestMemory>, Error> {
    let part = GuestRegionMmap::new(map_part(file, offset, len)?, GuestAddress(0));
    let part = part.ok_or_else(|| Error::other("a region beyond the address space"))?;
    GuestMemory::from_regions(vec![part]).map(Arc::new).map_err(Error::other)
}

fn map_part(file: File, offset: u64, len: u64) -> Result<MmapRegion, Error> {
    // Seal the file first, then measure it.
    if let Err(error) = rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK) {
        tracing::debug!("cannot seal a guest's memory against truncation: {error}");
    }
    let size = file.metadata()?.len();
    if offset.checked_add(len).is_none_or(|end| end > size) {
        return Err(Error::other(format!("{len} bytes at {offset} of a file of {size}")));
    }
    let len = usize::try_from(len).map_err(Error::other)?;
    MmapRegion::from_file(FileOffset::new(file, offset), len).map_err(Error::other)
}

/// Creates zeroed memory for records of in-flight requests.
pub(super) fn new_notes(len: u64) -> Result<File, Error> {
    let file = rustix::fs::memfd_create(
        "softroc-in-flight",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )?;
    rustix::fs::ftruncate(&file, len)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(File::from(file))
}
