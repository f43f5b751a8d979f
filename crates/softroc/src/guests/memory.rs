//! Files of memory that a guest's machine shares with this process, and the one in which it is noted what is under way.
//!
//! A file that is made shorter while it is mapped ends whoever touches what was cut off. So each is sealed against that, where its
//! owner allows it (QEMU's memfd does); who may open the socket of a volume is trusted as far as that.

use guests::GuestMemory;
use rustix::fs::{MemfdFlags, SealFlags};
use std::fs::File;
use std::io::Error;
use std::sync::Arc;
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{FileOffset, GuestAddress, GuestRegionMmap, MmapRegion};

/// Where a region of a guest's memory is for the machine, and for the guest.
#[derive(Clone, Copy)]
pub(super) struct Region {
    machine: u64,
    guest: u64,
    len: u64,
}

impl Region {
    /// The guest's address of what the machine has at `address`, if that is in this region.
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
    let mut parts: Vec<(VhostUserMemoryRegion, File)> = regions.iter().copied().zip(files).collect();
    parts.sort_by_key(|(region, _)| region.guest_phys_addr);
    let (mut mapped, mut places) = (Vec::new(), Vec::new());
    for (region, file) in parts {
        let (guest, len) = (region.guest_phys_addr, region.memory_size);
        let part = map_part(file, region.mmap_offset, len)?;
        let part = GuestRegionMmap::new(part, GuestAddress(guest));
        mapped.push(part.ok_or_else(|| Error::other("a region at the end of all addresses"))?);
        places.push(Region { machine: region.user_addr, guest, len });
    }
    let memory = GuestMemory::from_regions(mapped).map_err(Error::other)?;
    Ok((Arc::new(memory), places))
}

/// Maps memory in which it is noted what is under way.
pub(super) fn map_notes(file: File, offset: u64, len: u64) -> Result<Arc<GuestMemory>, Error> {
    let part = GuestRegionMmap::new(map_part(file, offset, len)?, GuestAddress(0));
    let part = part.ok_or_else(|| Error::other("a region at the end of all addresses"))?;
    GuestMemory::from_regions(vec![part]).map(Arc::new).map_err(Error::other)
}

fn map_part(file: File, offset: u64, len: u64) -> Result<MmapRegion, Error> {
    // First it is kept from being made shorter, then measured.
    if let Err(error) = rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK) {
        tracing::debug!("a guest's memory cannot be kept from being made shorter: {error}");
    }
    let size = file.metadata()?.len();
    if offset.checked_add(len).is_none_or(|end| end > size) {
        return Err(Error::other(format!("{len} bytes at {offset} of a file of {size}")));
    }
    let len = usize::try_from(len).map_err(Error::other)?;
    MmapRegion::from_file(FileOffset::new(file, offset), len).map_err(Error::other)
}

/// New memory for notes, of zeroes.
pub(super) fn new_notes(len: u64) -> Result<File, Error> {
    let file =
        rustix::fs::memfd_create("softroc-in-flight", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, len)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(File::from(file))
}
