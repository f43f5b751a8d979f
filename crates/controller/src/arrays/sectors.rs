//! The sector size that a volume advertises to hosts, and the alignment of their writes.
//!
//! Drives with physical sectors of 4 KiB perform a partial write of one by reading it first, which
//! costs one more disk rotation. Hosts avoid that if the volume advertises the sectors. A change
//! applies to hosts that connect later; connected hosts continue with the sectors of their
//! connection. Any byte range is accepted, whatever was advertised.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::{Error, ErrorKind, Result};
use engine::ToldSectors;
use ondisk::{SectorFormat, VolumeLabel};
use platform::{HostSectors, Operation};
use std::cell::Cell;
use std::rc::Rc;
use units::{ByteCount, SectorSize};

/// The minimum number of writes since the last check that allows a statement about a host's
/// alignment.
const ENOUGH_WRITES: u64 = 1000;

/// A host with aligned partitions sends almost no unaligned writes; with unaligned ones, nearly all
/// are unaligned.
const UNALIGNED_SHARE_PERCENT: u64 = 10;

/// The advertised sectors of a volume, and whether hosts align to them.
#[derive(Default)]
pub(crate) struct Sectors {
    told: ToldSectors,
    /// Writes, and the unaligned ones among them, at the last check.
    seen: Cell<(u64, u64)>,
    /// Whether too many were unaligned.
    is_unaligned: Cell<bool>,
}

/// The advertised sectors of a format on drives with these sectors.
fn of_format(format: SectorFormat, of_drives: HostSectors) -> HostSectors {
    let (logical, physical) = match format {
        SectorFormat::Default => return of_drives,
        SectorFormat::Native512 => (SectorSize::B512, SectorSize::B512),
        SectorFormat::Emulated512 => (SectorSize::B512, SectorSize::B4096),
        SectorFormat::Native4096 => (SectorSize::B4096, SectorSize::B4096),
    };
    HostSectors { logical, physical }
}

/// The drives of an array that are open and have physical sectors of 4 KiB.
fn with_large_sectors(array: &Array) -> Vec<String> {
    let drives = (0..array.label().member.len()).filter_map(|slot| array.drive(slot));
    let is_large = |drive: &Rc<crate::inventory::Drive>| {
        drive.access().is_some_and(|access| access.info().physical_sector == SectorSize::B4096)
    };
    drives.filter(is_large).map(|drive| drive.name.clone()).collect()
}

/// The sectors that are advertised to hosts that connect now.
pub(crate) fn host_sectors(array: &Array, volume: &Volume) -> HostSectors {
    let label = volume.label();
    let logical = SectorSize::from_bytes(label.sector_bytes).unwrap_or_default();
    let largest =
        if with_large_sectors(array).is_empty() { SectorSize::B512 } else { SectorSize::B4096 };
    of_format(label.sector_format, HostSectors { logical, physical: largest.max(logical) })
}

/// For shards: the sectors that a volume advertises, according to its current label.
pub(super) fn told(array: &Array, volume: &Volume) -> ToldSectors {
    let is_default = volume.label().sector_format == SectorFormat::Default;
    volume.sectors.told.set((!is_default).then(|| host_sectors(array, volume)));
    volume.sectors.told.clone()
}

/// Its meaning, and its problems: clauses.
pub(crate) fn about(array: &Array, volume: &Volume) -> String {
    let HostSectors { logical, physical } = host_sectors(array, volume);
    let mut text = format!(
        "sectors reported to hosts: {} logical, {} physical",
        logical.bytes(),
        physical.bytes()
    );
    let name = volume.name();
    if let Some(warning) = not_told(array, volume) {
        text.push_str("; ");
        text.push_str(&warning);
    }
    if volume.sectors.is_unaligned.get() {
        text.push_str(&format!("; many host writes to '{name}' are not aligned to 4 KiB"));
    }
    text
}

/// The note that the drives' large sectors are not advertised to hosts.
pub(crate) fn not_told(array: &Array, volume: &Volume) -> Option<String> {
    let drives = with_large_sectors(array);
    let is_told = host_sectors(array, volume).physical == SectorSize::B4096;
    let name = volume.name();
    (!is_told && !drives.is_empty()).then(|| {
        format!(
            "'{name}' does not report to hosts that {} {} sectors of 4 KiB: each unaligned write \
            also costs a read; run 'softroc volume set {name} --sector 512e'",
            drives.join(", "),
            if drives.len() == 1 { "has" } else { "have" },
        )
    })
}

/// Checks whether a volume of that size can have that format.
///
/// # Errors
/// When it cannot: the reason, and what to do.
pub(crate) fn check_format(name: &str, format: SectorFormat, capacity: ByteCount) -> Result<()> {
    if format != SectorFormat::Native4096 || capacity.is_aligned(SectorSize::B4096.bytes()) {
        return Ok(());
    }
    let sentence = format!(
        "'{name}' would have {} bytes, which is not a multiple of 4 KiB; use '--sector 512e' \
        ('softroc volume set {name} --sector 512e' for an existing volume), or a --size of {} \
        bytes",
        capacity.0,
        capacity.align_up(SectorSize::B4096.bytes()).0
    );
    Err(Error::new(ErrorKind::Invalid, sentence))
}

impl Arrays {
    /// `volume set --sector`. Returns notes for the operator.
    ///
    /// # Errors
    /// When the volume cannot have it, or it cannot be recorded.
    pub(crate) async fn set_sector_format(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        format: SectorFormat,
    ) -> Result<Vec<String>> {
        let _starting = array.starting_turn().await;
        let name = volume.name();
        self.check_can_record(array, &name)?;
        check_format(&name, format, ByteCount(volume.label().capacity_bytes))?;
        let previous = volume.label().sector_format;
        if previous == format {
            return Ok(not_told(array, volume).into_iter().collect());
        }
        let before = host_sectors(array, volume).logical;
        self.relabel(array, volume, |label: &mut VolumeLabel| label.sector_format = format).await?;
        told(array, volume);
        let is_another = host_sectors(array, volume).logical != before;
        let partitions = format!(
            "partition tables count in logical sectors, and their size changed: existing \
            partitions of '{name}' are not found; if it has partitions, run 'softroc volume set \
            {name} --sector {}' before any host writes to it",
            previous.name()
        );
        let text = format!("the sector format of '{name}' is {} now", format.name());
        let effect = "the sector format applies to new host connections; connected hosts keep the \
                      previous format";
        self.events.report(EventCode::VolumeSectors, &name, "an operator changed it", effect, text);
        let note =
            format!("connected hosts of '{name}' see the new sector format when they reconnect");
        Ok(not_told(array, volume)
            .into_iter()
            .chain(is_another.then_some(partitions))
            .chain([note])
            .collect())
    }

    /// Checks whether hosts align their writes to the drives' sectors, and reports those that do
    /// not.
    pub(crate) fn look_at_alignment(&self) {
        for array in self.all().iter().filter(|array| array.is_running()) {
            let drives = with_large_sectors(array);
            for volume in array.volumes().iter().filter(|_| !drives.is_empty()) {
                self.look_at_writes(volume, &drives);
            }
        }
    }

    fn look_at_writes(&self, volume: &Volume, drives: &[String]) {
        let operations = Operation::ALL.into_iter().zip(volume.meter().traffic.done());
        let of_writes = operations.filter(|(operation, _)| *operation == Operation::Write);
        let writes: u64 = of_writes.map(|(_, done)| done.completed).sum();
        let unaligned = volume.meter().counters().unaligned_writes;
        let (writes_before, unaligned_before) = volume.sectors.seen.get();
        let (more, bad) =
            (writes.saturating_sub(writes_before), unaligned.saturating_sub(unaligned_before));
        if more < ENOUGH_WRITES {
            return;
        }
        volume.sectors.seen.set((writes, unaligned));
        let is_unaligned = bad * 100 > more * UNALIGNED_SHARE_PERCENT;
        if volume.sectors.is_unaligned.replace(is_unaligned) || !is_unaligned {
            return;
        }
        let name = volume.name();
        let text =
            format!("{bad} of the last {more} host writes to '{name}' were not aligned to 4 KiB");
        let cause = format!("{} has sectors of 4 KiB", drives.join(", "));
        let effect = "each unaligned write also costs a read; align partitions and file systems to \
                      1 MiB ('fdisk -l' shows their start)";
        self.events.report(EventCode::VolumeUnaligned, &name, &cause, effect, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_says_what_hosts_see_and_default_what_drives_have() {
        let small = HostSectors { logical: SectorSize::B512, physical: SectorSize::B512 };
        let mixed = HostSectors { physical: SectorSize::B4096, ..small };
        let large = HostSectors { logical: SectorSize::B4096, physical: SectorSize::B4096 };
        for of_drives in [small, mixed, large] {
            assert_eq!(of_format(SectorFormat::Default, of_drives), of_drives);
            assert_eq!(of_format(SectorFormat::Native512, of_drives), small);
            assert_eq!(of_format(SectorFormat::Emulated512, of_drives), mixed);
            assert_eq!(of_format(SectorFormat::Native4096, of_drives), large);
        }
    }

    #[test]
    fn sectors_of_4_kib_need_a_whole_number_of_them() {
        let check = |format, bytes| {
            check_format("v", format, ByteCount(bytes)).map_err(|error| error.message)
        };
        assert_eq!(check(SectorFormat::Native4096, 1 << 20), Ok(()));
        assert_eq!(check(SectorFormat::Emulated512, (1 << 20) + 512), Ok(()));
        let refused = check(SectorFormat::Native4096, (1 << 20) + 512).unwrap_err();
        assert!(
            refused.contains("1049088 bytes") && refused.contains("--sector 512e"),
            "{refused}"
        );
    }
}
