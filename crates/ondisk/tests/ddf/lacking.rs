//! Notes on drives with bad blocks, on reshaping volumes, and on an anchor at a wrong place.

use crate::arrays::volumes_of;
use crate::image::Image;
use crate::made::{images, raid5};
use ondisk::ddf::{
    BadBlockLog, BadBlocks, DiskState, Drive, Effort, Look, Section, SectionPlace, VolumeState,
    tell,
};
use ondisk::foreign::{Standing, State};
use units::{ByteCount, ByteOffset, ByteRange};

fn drives() -> Vec<Drive> {
    images(&raid5()).iter().map(Image::drive).collect()
}

fn log(entries: &[(u64, u16)]) -> Option<BadBlockLog> {
    let entry =
        |(lba, blocks): &(u64, u16)| BadBlocks { lba: *lba, spare_offset: 3, blocks: *blocks };
    Some(BadBlockLog {
        spare_blocks: 64,
        first_spare_lba: 9000,
        entries: entries.iter().map(entry).collect(),
    })
}

#[test]
fn blocks_of_the_bad_block_log_count_as_unreadable_on_their_drive() {
    let mut drives = drives();
    drives[1].structure.bad_blocks = log(&[(200, 1), (100, 8)]);
    let volume = volumes_of(&drives).remove(0);
    let member = volume.members.iter().find(|member| member.drive == Some(1)).unwrap();
    let range =
        |from: u64, count: u64| ByteRange::new(ByteOffset(from * 512), ByteCount(count * 512));
    assert_eq!(member.unreadable, [range(100, 8), range(200, 1)]);
    assert_eq!((volume.state, volume.no_writing.len()), (State::Complete, 1));
    assert!(
        volume.reasons[0].contains("disk1 has a list of bad blocks: its sectors 100 to 107, 200 (")
    );
}

#[test]
fn a_bad_block_log_that_cannot_be_used_excludes_its_drive() {
    let unread = |drive: &mut Drive| {
        let index = Section::ALL.iter().position(|section| *section == Section::BadBlocks).unwrap();
        drive.structure.header.places[index] = SectionPlace { offset_blocks: 900, blocks: 1 };
    };
    let empty_run = |drive: &mut Drive| drive.structure.bad_blocks = log(&[(100, 0)]);
    for (damage, expected) in [
        (&unread as &dyn Fn(&mut Drive), "its DDF bad block log cannot be read, or is damaged"),
        (&empty_run, "entry 0 names 0 blocks from block 100 on"),
    ] {
        let mut drives = drives();
        damage(&mut drives[1]);
        let volume = volumes_of(&drives).remove(0);
        let member = volume.members.iter().find(|member| member.drive == Some(1)).unwrap();
        assert_eq!((member.standing, volume.state), (Standing::Excluded, State::Degraded));
        assert!(member.reason.as_ref().unwrap().contains(expected), "{:?}", member.reason);
    }
}

/// Regression: reshaped data were read with the old layout.
#[test]
fn a_volume_whose_layout_was_being_changed_is_not_read() {
    let mut drives = drives();
    for drive in &mut drives {
        let volume = drive.structure.volumes[0].as_mut().unwrap();
        volume.state = VolumeState(volume.state.0 | VolumeState::MORPHING);
    }
    let volume = volumes_of(&drives).remove(0);
    assert_eq!(volume.state, State::NotReadable);
    assert!(
        volume.reasons.iter().any(|why| why.contains("its layout was being changed")),
        "{:?}",
        volume.reasons
    );
}

#[test]
fn an_anchor_that_a_larger_drive_has_before_its_end_is_told() {
    let mut image = images(&raid5()).remove(0);
    image.size += 1 << 20;
    assert!(matches!(image.look(Effort::Usual), Look::Nothing(_)));
    let Look::Found(drive) = image.look(Effort::Search) else { panic!("no anchor found") };
    let notes = tell(&[&drive]).remove(0).notes.join("; ");
    // The anchor is the last block of the smaller drive.
    assert!(notes.contains("holds its DDF anchor 1.00 MiB before its end"), "{notes}");
    let mut drive = images(&raid5()).remove(0).drive();
    let own = drive.structure.own.reference;
    let disk =
        drive.structure.disks.iter_mut().flatten().find(|disk| disk.reference == own).unwrap();
    disk.state = DiskState(disk.state.0 | DiskState::UNRECOVERED_READS);
    let notes = tell(&[&drive]).remove(0).notes.join("; ");
    assert!(notes.contains("had blocks that could not be read"), "{notes}");
}
