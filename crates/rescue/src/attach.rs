//! Converts a volume that the scan found into an attachment that the engine can serve.

use crate::computed::Computed;
use crate::guess::Candidate;
use crate::scan::{Scan, ScannedVolume};
use crate::sections::{Members, Part, Sections, one_drive};
use drives::Window;
use engine::{Attachment, FaultPolicy, Regions, VolumeId, VolumeSpec, VolumeState};
use layout::Geometry;
use ondisk::foreign::{FoundVolume, Section, Standing, State};
use platform::{DriveSource, LimitsByClass};
use std::sync::Arc;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet, SectorSize};

/// Returns what a shard needs to serve a scanned volume read-only: windows of its current members,
/// each in its slot.
///
/// # Errors
/// A sentence, when some data cannot be read or the engine cannot serve the layout.
pub fn attachment(scan: &Scan, volume: &ScannedVolume, id: VolumeId) -> Result<Attachment, String> {
    let found = &volume.found;
    if found.state == State::NotReadable {
        return Err(found.reasons.last().cloned().unwrap_or_else(|| "it is not readable".into()));
    }
    let (geometry, sources) = match &found.sections[..] {
        [section] if section.within.start == ByteOffset(0) && found.saved.is_empty() => {
            (section.geometry()?, windows(scan, found, section)?)
        }
        sections => {
            let joined = joined(scan, volume, sections, id)?;
            (joined.geometry()?, vec![Some(Arc::new(joined) as Arc<dyn DriveSource>)])
        }
    };
    Ok(attached(id, volume.export.clone(), geometry, found.capacity(), sources))
}

fn attached(
    id: VolumeId,
    name: String,
    geometry: Geometry,
    capacity: ByteCount,
    sources: Members,
) -> Attachment {
    let sector = sources.iter().flatten().map(|source| source.info().logical_sector).max();
    let spec = VolumeSpec {
        id,
        name,
        geometry,
        sector: sector.unwrap_or(SectorSize::B512),
        data_start: ByteOffset(0),
        capacity,
        // A read-only drive is not repaired, so its errors must not fail it.
        policy: FaultPolicy { limits: LimitsByClass::default(), unrepaired_limit: 0 },
    };
    let there = (0..).zip(&sources).filter(|(_, source)| source.is_some());
    let readable: DriveSet = there.map(|(slot, _)| DriveIndex(slot)).collect();
    let state = VolumeState::with_drives(&Regions::of(&geometry), readable);
    Attachment::new(Arc::new(spec), sources, state)
}

/// Returns what a shard needs to serve a guessed volume read-only. `sources` are the drives given
/// to the guess, in their order.
///
/// # Errors
/// A sentence, when the layout needs the missing members.
pub fn guessed_attachment(
    candidate: &Candidate,
    sources: &[Arc<dyn DriveSource>],
    id: VolumeId,
    name: &str,
) -> Result<Attachment, String> {
    let geometry = candidate.geometry;
    let range = ByteRange::new(candidate.start, geometry.member_size());
    let of_slot = |drive: &Option<usize>| {
        let source = drive.and_then(|drive| sources.get(drive))?;
        Some(Arc::new(Window::new(source.clone(), range)) as Arc<dyn DriveSource>)
    };
    let members: Members = candidate.order.iter().map(of_slot).collect();
    let out = (0..)
        .zip(&members)
        .filter(|(_, member)| member.is_none())
        .map(|(slot, _)| DriveIndex(slot));
    if !geometry.survives_set(&out.collect()) {
        return Err("it cannot be read without its missing members".into());
    }
    Ok(attached(id, name.to_owned(), geometry, geometry.capacity(), members))
}

/// The windows of a section's members, in slot order; `None` for members that are missing or stale.
fn windows(scan: &Scan, found: &FoundVolume, section: &Section) -> Result<Members, String> {
    section
        .members
        .iter()
        .map(|(slot, start)| window(scan, found, *slot, *start, section.member_size))
        .collect()
}

fn window(
    scan: &Scan,
    found: &FoundVolume,
    slot: u16,
    start: ByteOffset,
    length: ByteCount,
) -> Result<Option<Arc<dyn DriveSource>>, String> {
    let member =
        found.members.get(usize::from(slot)).filter(|member| member.standing == Standing::Current);
    let Some(member) = member else { return Ok(None) };
    let source = member
        .drive
        .and_then(|drive| scan.drives.get(drive))
        .and_then(|drive| drive.source.clone());
    let Some(source) = source else { return Ok(None) };
    let begin = member
        .data
        .start
        .0
        .checked_add(start.0)
        .filter(|begin| begin.checked_add(length.0).is_some());
    let begin = begin.ok_or("its members' data would lie beyond the end of any drive")?;
    let sector = source.info().logical_sector.bytes();
    if !begin.is_multiple_of(sector.0) {
        return Err(format!(
            "its data begin at byte {begin} of {}, not at a sector",
            source.info().name
        ));
    }
    let window = Window::new(source, ByteRange::new(ByteOffset(begin), length));
    Ok(Some(Arc::new(window.without(&member.unreadable))))
}

fn joined(
    scan: &Scan,
    volume: &ScannedVolume,
    sections: &[Section],
    id: VolumeId,
) -> Result<Sections, String> {
    let found = &volume.found;
    let mut parts: Vec<Part> = Vec::new();
    for section in sections {
        let (geometry, members) = (section.geometry()?, windows(scan, found, section)?);
        if !geometry.level().has_parity() {
            parts.push((geometry, section.within, members));
            continue;
        }
        let name = format!("{} {geometry}", found.record.name);
        let array = Computed::new(attached(id, name, geometry, geometry.capacity(), members));
        let array: Arc<dyn DriveSource> = Arc::new(array);
        parts.push((one_drive(geometry.capacity())?, section.within, vec![Some(array)]));
    }
    // The sections are those before and after the saved range; each starts at its volume offset.
    let end = found.saved.last().map(|(bytes, _)| bytes.end());
    let behind = |(_, within, _): &Part| end.is_some_and(|end| within.start >= end);
    let behind = parts.iter().position(behind).unwrap_or(parts.len());
    for (bytes, at) in found.saved.iter().rev() {
        let source =
            volume.backup.clone().ok_or("a part of its data is in a file that was not given")?;
        let window = Window::new(source, ByteRange::new(*at, bytes.len));
        let whole = ByteRange::new(ByteOffset(0), bytes.len);
        parts.insert(behind, (one_drive(bytes.len)?, whole, vec![Some(Arc::new(window))]));
    }
    Ok(Sections::new(&found.record.name, parts))
}
