//! Metadata of arrays, partition tables and file systems, on drives as [`drives`](crate::drives)
//! describes them.

use crate::drives::{Disk, SEARCH, Sealer, decode};
use ondisk::ddf::{
    Drive, Effort, Extras, Look, Slot, Step, Structure, clear, look, repair, tell, update,
};
use ondisk::foreign::{
    FoundMember, FoundVolume, Glimpse, Section, Seen, State, Told, partitions, read, reconcile,
    search,
};
use signatures::{Ends, inspect};
use units::{ByteCount, ByteOffset};

/// More rounds than any decoder needs: the longest chain is that of partitions in an extended one.
const ROUNDS: usize = 160;

/// A search reads 32 MiB; drives that are searched are smaller, to allow many runs.
const MOST_SEARCHED: u64 = 1 << 20;

fn looked(disk: &mut Disk, search: bool) -> Look {
    let effort = if search && disk.size <= MOST_SEARCHED { Effort::Search } else { Effort::Usual };
    let (mut glimpse, mut sealer) = (disk.glimpse(), Sealer::default());
    for _ in 0..ROUNDS {
        match look(&glimpse, effort) {
            Look::NotYet => assert!(disk.satisfy(&mut glimpse, &mut sealer), "no range is wanted"),
            done => return done,
        }
    }
    panic!("the search does not end")
}

/// SNIA DDF: find, decode, rewrite, repair, remove.
pub(super) fn ddf(input: &[u8]) {
    let (flags, mut disks) = decode(input);
    let search = flags & SEARCH != 0;
    let mut found: Vec<(usize, Drive)> = Vec::new();
    for (index, disk) in disks.iter_mut().enumerate() {
        if disk.seals {
            let _ = looked(disk, search);
            disk.seals = false;
        }
        if let Look::Found(drive) = looked(disk, search) {
            found.push((index, *drive));
        }
    }
    let drives: Vec<&Drive> = found.iter().map(|(_, drive)| drive).collect();
    volumes(tell(&drives).into_iter().zip(&drives).map(|(told, drive)| (drive.size, told)));
    for (index, drive) in &found {
        let _ = drive.structure.vendor_log.as_ref().map(Extras::of);
        rewritten(&disks[*index], drive);
        repaired(&disks[*index], drive);
        removed(&disks[*index], drive);
    }
}

fn apply(disk: &Disk, steps: &[Step]) -> Disk {
    let mut disk = disk.clone();
    for step in steps {
        if let Step::Write { at, bytes } = step {
            disk.write(*at, bytes);
        }
    }
    disk
}

/// Encoded content decodes to the same.
fn rewritten(disk: &Disk, drive: &Drive) {
    let mut next = drive.structure.clone();
    next.header.sequence = next.header.sequence.wrapping_add(1);
    next.header.open = 0;
    let Ok(steps) = update(drive.size, Some(drive), &next) else { return };
    same(apply(disk, &steps), &next);
}

/// A repair keeps the content that it used, and leaves nothing to repair.
fn repaired(disk: &Disk, drive: &Drive) {
    let Ok(steps) = repair(drive) else { return };
    let sound = Structure {
        header: ondisk::ddf::Header { open: 0, ..drive.structure.header.clone() },
        ..drive.structure.clone()
    };
    if !steps.is_empty() {
        same(apply(disk, &steps), &sound);
    }
}

fn same(mut disk: Disk, expected: &Structure) {
    match looked(&mut disk, false) {
        Look::Found(again) => {
            // A repair must not discard a record that is damaged in both copies: it writes the
            // original bytes.
            let is_damaged = |slot: &Slot| matches!(slot, Slot::Damaged(..));
            let keeps_damage = expected.slots.iter().any(is_damaged);
            assert!(
                keeps_damage || !again.needs_repair(),
                "a new structure needs repair: {:?}",
                again.copies
            );
            let (is, was) = (&again.structure, expected);
            assert_eq!((&is.coding, &is.header), (&was.coding, &was.header), "the header differs");
            assert_eq!(is.slots, was.slots, "the records differ");
            assert_eq!(
                (&is.own, is.bad_blocks.clone().unwrap_or_default()),
                (&was.own, was.bad_blocks.clone().unwrap_or_default()),
                "the drive's own data differ"
            );
            assert_eq!((&is.disks, &is.volumes), (&was.disks, &was.volumes), "the groups differ");
            assert!(is.controller == was.controller, "the controller differs");
            // An unreadable log is written empty.
            let is_kept = was.vendor_log.is_none() || is.vendor_log == was.vendor_log;
            assert!(is_kept, "the encoded log decodes differently");
        }
        other => panic!("the encoded structure is not found: {other:?}"),
    }
}

/// A removed structure is no longer found at the regular places of anchors.
fn removed(disk: &Disk, drive: &Drive) {
    for step in clear(drive) {
        if let Step::Write { at, bytes } = step {
            let end = at.0.checked_add(bytes.len() as u64);
            assert!(end.is_some_and(|end| end <= disk.size), "a write past the end at {at}");
        }
    }
}

/// Linux md, Intel's firmware RAID; at regular places, and in a search.
pub(super) fn foreign(input: &[u8]) {
    let (flags, disks) = decode(input);
    let told: Vec<(ByteCount, Told)> = disks
        .into_iter()
        .map(|mut disk| {
            let (mut glimpse, mut sealer) = (disk.glimpse(), Sealer::default());
            let searches = flags & SEARCH != 0 && disk.size <= MOST_SEARCHED;
            let ask = |glimpse: &Glimpse| {
                let mut told = read(glimpse);
                if searches {
                    told.extend(search(glimpse));
                }
                told
            };
            for _ in 0..ROUNDS {
                let told = ask(&glimpse);
                if !disk.satisfy(&mut glimpse, &mut sealer) {
                    return (glimpse.size(), told);
                }
            }
            panic!("the decoder does not end")
        })
        .collect();
    volumes(told.into_iter());
}

/// Partition tables alone: their chains are long.
pub(super) fn partition_tables(input: &[u8]) {
    for mut disk in decode(input).1 {
        let (mut glimpse, mut sealer) = (disk.glimpse(), Sealer::default());
        let mut rounds = 0;
        loop {
            let found = partitions(&glimpse);
            assert!(found.len() <= 128);
            for range in &found {
                let end = range.start.0.checked_add(range.len.0);
                assert!(end.is_some_and(|end| end <= disk.size) && !range.is_empty(), "{range:?}");
            }
            if !disk.satisfy(&mut glimpse, &mut sealer) {
                break;
            }
            rounds += 1;
            assert!(rounds < ROUNDS, "the decoder does not end");
        }
    }
}

/// Combines the records of several drives.
fn volumes(told: impl Iterator<Item = (ByteCount, Told)>) {
    let mut seen = Vec::new();
    for (drive, (size, told)) in told.enumerate() {
        let name = format!("drive {drive}");
        seen.extend(told.records.into_iter().map(|record| Seen {
            drive,
            name: name.clone(),
            size,
            record,
        }));
    }
    let found = reconcile(&seen);
    assert!(found.len() <= seen.len());
    found.iter().for_each(volume);
}

fn volume(found: &FoundVolume) {
    assert!(found.members.len() == usize::from(found.record.slots));
    assert!(found.state != State::Complete || found.out().is_empty());
    let capacity =
        found.sections.iter().try_fold(0_u64, |sum, section| sum.checked_add(section.within.len.0));
    assert_eq!(capacity, Some(found.capacity().0));
    found.sections.iter().for_each(section);
    found.members.iter().for_each(member);
}

/// Unreadable ranges are within the member's data, in order.
fn member(member: &FoundMember) {
    assert!(
        member.unreadable.iter().all(|range| !range.is_empty() && member.data.contains(*range))
    );
    let in_order = member.unreadable.windows(2).all(|pair| pair[0].end() <= pair[1].start);
    assert!(in_order, "{:?}", member.unreadable);
}

/// Every byte of a section is within its members.
fn section(section: &Section) {
    let geometry = section.geometry().expect("a section can be laid out");
    assert_eq!(geometry.drives().as_usize(), section.members.len());
    let end = section.within.start.0.checked_add(section.within.len.0);
    assert!(end.is_some_and(|end| end <= geometry.capacity().0), "{:?}", section.within);
    let Some(last) = end.filter(|_| !section.within.is_empty()) else { return };
    for at in [section.within.start.0, last / 2, last - 1] {
        let (stripe, within) = geometry.stripe_of(ByteOffset(at));
        let (data, _) = geometry.strip_of(within);
        for copy in 0..geometry.copies() {
            let cell = geometry.data_cell(stripe, data, layout::CopyIndex(copy));
            assert!(cell.drive.as_usize() < section.members.len());
            assert!(
                cell.offset.0 + geometry.strip().bytes().0 <= section.member_size.0,
                "{cell:?}"
            );
        }
    }
}

/// The content of a drive by its ends: a size, the share of the beginning, both ends.
pub(super) fn signatures(input: &[u8]) {
    let Some((head, bytes)) = input.split_at_checked(10) else { return };
    let size = u64::from_le_bytes(head[..8].try_into().expect("eight bytes"));
    let split = usize::from(u16::from_le_bytes([head[8], head[9]])).min(bytes.len());
    let size = size.max(bytes.len() as u64);
    let (first, last) = bytes.split_at(split);
    for finding in inspect(&Ends::new(ByteCount(size), first, last), &[]) {
        assert!(finding.offset.0 < size && !finding.what.is_empty());
        let _ = finding.to_string();
    }
}
