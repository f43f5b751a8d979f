//! Labels in the DDF structures of SoftROC's drives: damaged, interrupted, changed by other
//! software, restored from others.

#[path = "ddf/image.rs"]
#[allow(dead_code, reason = "the reference images are for other tests")]
mod image;

use image::Image;
use layout::{Level, MirrorArrangement, ParityArrangement};
use ondisk::ddf::{self, DiskState, Effort, HeaderKind, Look, Step, update};
use ondisk::foreign::Glimpse;
use ondisk::{
    Cause, Content, EARLIEST_VERSION, ErrorKind, Found, Init, Label, Member, MemberState, Phase,
    Policy, Runs, SpareLabel, SpareScope, Tail, TailPlace, Telling, Uuid, VERSION, VolumeLabel,
    WriteHole, find, restore,
};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, SectorSize};

const SIZE: u64 = 40 << 20;
const ON: (ByteCount, SectorSize) = (ByteCount(SIZE), SectorSize::B512);

fn uuid(kind: u8, last: u8) -> Uuid {
    let mut bytes = [kind; 16];
    bytes[15] = last;
    Uuid(bytes)
}

fn volume(number: u8, level: Level) -> VolumeLabel {
    VolumeLabel {
        uuid: uuid(0xBB, number),
        name: format!("a-volume-with-a-long-name-{number}"),
        level,
        parity: (level == Level::Raid5).then_some(ParityArrangement::LeftSymmetric),
        mirrors: (level == Level::Raid1e).then_some(MirrorArrangement::Near),
        spans: 1,
        copies: if level == Level::Raid1e { 3 } else { 1 },
        strip_bytes: 65536,
        data_start_bytes: u64::from(number) << 20,
        member_bytes: if level == Level::Raid1e { 12 << 16 } else { 1 << 20 },
        first_region: u32::from(number) * 4,
        regions: 4,
        sector_bytes: 512,
        capacity_bytes: 1 << 19,
        write_hole: WriteHole::Resync,
        init: Init::Background,
        created_unix_s: 1_800_000_000,
        lost: Vec::new(),
        unwritten: Runs::default(),
        initialised_by_bytes: None,
        journal: None,
        relocated: None,
        write_mode: ondisk::WriteMode::default(),
        read_mode: ondisk::ReadMode::default(),
        cache_mode: ondisk::CacheMode::default(),
        drive_cache: ondisk::DriveCache::default(),
        sector_format: ondisk::SectorFormat::default(),
        kept: None,
        data_log: None,
        punctured: Vec::new(),
        excluded: Vec::new(),
        members: None,
        reshape: None,
        follows: None,
        part: None,
    }
}

fn label() -> Label {
    Label {
        array: uuid(0xAA, 0),
        drive: uuid(0xDD, 0),
        generation: 7,
        confirmed: 6,
        phase: Phase::Online,
        clean: true,
        shut_down: false,
        failed: Vec::new(),
        leaving: Vec::new(),
        initialisation_blocks: None,
        tail: TailPlace::End,
        policy: Policy::default(),
        volume: vec![volume(0, Level::Raid5), volume(1, Level::Raid1e)],
        member: (0..4)
            .map(|slot| Member::online(uuid(0xDD, slot), format!("d{slot}"), ON, 1))
            .collect(),
    }
}

fn site() -> ddf::Site {
    Tail::of(ByteCount(SIZE)).unwrap().site(SectorSize::B512).unwrap()
}

fn found(image: &Image) -> Found {
    let mut glimpse = Glimpse::new(ByteCount(image.size));
    loop {
        let found = find(&glimpse);
        let wanted = glimpse.wanted();
        if wanted.is_empty() {
            return found;
        }
        wanted.into_iter().for_each(|range| glimpse.put(range, image.read(range)));
    }
}

fn carried(image: &Image) -> (Label, Rc<ddf::Drive>) {
    match found(image) {
        Found::Carried(carried) => (carried.label().unwrap().clone(), carried.drive.unwrap()),
        other => panic!("{other:?}"),
    }
}

fn steps(image: &Image, label: &Label, own: Uuid) -> Vec<Step> {
    let told = Telling::of(label).unwrap().told(&site(), own).unwrap();
    let old = match found(image) {
        Found::Carried(carried) => carried.drive,
        _ => None,
    };
    told.steps(ByteCount(SIZE), old.as_deref()).unwrap()
}

fn apply(image: &mut Image, steps: &[Step]) {
    for step in steps {
        if let Step::Write { at, bytes } = step {
            image.write(*at, bytes);
        }
    }
}

fn drive_of(label: &Label, slot: u8) -> Image {
    let mut image = Image::blank(SIZE);
    let steps = steps(&image, label, uuid(0xDD, slot));
    apply(&mut image, &steps);
    image
}

fn damage(image: &mut Image, kind: HeaderKind) {
    let at = if kind == HeaderKind::Primary { site().primary() } else { site().secondary() };
    image.damage(at.0 + 512 + 40);
    image.damage(at.0 + 100);
}

#[test]
fn a_label_comes_back_from_each_drive_and_says_which_it_is() {
    let label = label();
    label.check().unwrap();
    for slot in 0..4 {
        let (found, drive) = carried(&drive_of(&label, slot));
        assert_eq!(found, label.for_drive(uuid(0xDD, slot)));
        assert!(!drive.needs_repair());
    }
    assert_eq!(found(&Image::blank(SIZE)), Found::Blank);
}

#[test]
fn ddf_says_of_drives_and_volumes_what_the_label_says() {
    let mut label = label();
    label.clean = false;
    label.member[1].stale = Runs::one(5, 6);
    let out = &mut label.member[3];
    (out.state, out.since, out.knew, out.cause) = (MemberState::Failed, 7, 6, Some(Cause::Missing));
    let structure = Telling::of(&label).unwrap().told(&site(), uuid(0xDD, 0)).unwrap().structure;
    let states: Vec<u16> = structure.disks.iter().flatten().map(|disk| disk.state.0).collect();
    let rebuilding = DiskState::ONLINE | DiskState::REBUILDING;
    assert_eq!(states, [DiskState::ONLINE, rebuilding, DiskState::ONLINE, DiskState::MISSING]);
    let part = structure.parts().next().unwrap();
    assert_eq!((part.primary_level, part.qualifier, part.elements.len()), (5, 3, 4));
    assert_eq!(structure.parts().count(), 1, "DDF cannot describe three copies");
    let others = structure.slots.iter().filter(|slot| matches!(slot, ddf::Slot::Other(_)));
    assert_eq!(others.count(), 1, "its space is reserved");
    let volumes: Vec<_> = structure.volumes.iter().flatten().collect();
    assert_eq!(volumes.len(), 1);
    assert_eq!(volumes[0].name.text(), "a-volume-with-a-");
    assert_eq!(volumes[0].state.condition(), ddf::Condition::Degraded);
    assert!(volumes[0].state.is_inconsistent());
}

/// Regression: a volume that was written to without a drive, and then shut down cleanly, was marked
/// not consistent for the drive's stale regions. Linux md did not start it, since its parity was
/// doubtful and a drive was missing.
#[test]
fn what_a_drive_that_is_out_has_missed_makes_no_volume_inconsistent() {
    let mut label = label();
    label.clean = true;
    let region = label.volume[0].first_region;
    let out = &mut label.member[3];
    (out.state, out.since, out.knew, out.cause) = (MemberState::Failed, 7, 6, Some(Cause::Error));
    out.stale = Runs::one(region, region + 1);
    let structure = Telling::of(&label).unwrap().told(&site(), uuid(0xDD, 0)).unwrap().structure;
    let volume = structure.volumes.iter().flatten().next().unwrap();
    assert_eq!(volume.state.condition(), ddf::Condition::Degraded);
    assert!(!volume.state.is_inconsistent());
}

#[test]
fn a_damaged_copy_is_made_up_for_by_the_other_and_the_anchor_by_either() {
    let whole = drive_of(&label(), 1);
    for kind in [HeaderKind::Primary, HeaderKind::Secondary] {
        let mut image = whole.clone();
        damage(&mut image, kind);
        let (_, drive) = carried(&image);
        assert!(drive.needs_repair());
        apply(&mut image, &ddf::repair(&drive).unwrap());
        assert_eq!(image.sectors, whole.sectors);
    }
    let mut image = whole.clone();
    image.damage(SIZE - 512 + 40);
    assert!(carried(&image).1.needs_repair());
    image.unreadable.push((SIZE - 512) / 512);
    assert_eq!(carried(&image).0, carried(&whole).0);
    // But an anchor that was removed on purpose is not restored.
    let mut image = whole.clone();
    image.write(ByteOffset(SIZE - 512), &[0; 512]);
    assert_eq!(found(&image), Found::Blank);
}

#[test]
fn a_drive_with_both_copies_damaged_is_told_what_it_is_by_the_others() {
    let label = label();
    let mut image = drive_of(&label, 2);
    damage(&mut image, HeaderKind::Primary);
    damage(&mut image, HeaderKind::Secondary);
    let Found::Headless(headless) = found(&image) else { panic!("{:?}", found(&image)) };
    let others: Vec<Label> = [0, 1, 3].map(|slot| label.for_drive(uuid(0xDD, slot))).into();
    let all: Vec<&Label> = others.iter().collect();
    assert_eq!(restore(&headless, &all), Ok(label.for_drive(uuid(0xDD, 2))));
    assert!(restore(&headless, &[]).unwrap_err().contains("no other drive"));
    // The array was used without the drive, or has another history.
    let later = Label { generation: 8, confirmed: 7, ..label.clone() };
    let error = restore(&headless, &[&later.for_drive(uuid(0xDD, 0))]).unwrap_err();
    assert!(error.contains("of the array is 7") && error.contains("the newest is 8"), "{error}");
    let other = Label { clean: false, ..label.clone() };
    assert!(restore(&headless, &[&other]).is_err());
    let nobody = ondisk::Headless { witness: None, ..headless };
    assert!(restore(&nobody, &all).unwrap_err().contains("lost too"));
    // A log that is lost in both copies is decisive.
    let mut image = drive_of(&label, 2);
    for at in [site().primary(), site().secondary()] {
        image.damage(at.0 + 618 * 512 + 100);
    }
    let Found::Headless(headless) = found(&image) else { panic!("{:?}", found(&image)) };
    assert_eq!(restore(&headless, &all[..1]), Ok(label.for_drive(uuid(0xDD, 2))));
}

#[test]
fn a_structure_that_other_software_has_changed_is_foreign() {
    let mut image = drive_of(&label(), 0);
    let drive = carried(&image).1;
    let mut theirs = drive.structure.clone();
    theirs.header.sequence += 1;
    apply(&mut image, &update(ByteCount(SIZE), Some(&drive), &theirs).unwrap());
    assert!(matches!(found(&image), Found::Foreign(_)), "{:?}", found(&image));
}

#[test]
fn a_label_of_an_earlier_version_is_refused_by_its_number() {
    for (at, version) in [(0, 1_u32), (1 << 20, 2)] {
        let mut image = Image::blank(SIZE);
        let mut head = [0; 512];
        head[..8].copy_from_slice(b"SoftROC\0");
        head[8..12].copy_from_slice(&version.to_le_bytes());
        image.write(site().tail() + ByteCount(at), &head);
        let Found::Bad(error) = found(&image) else { panic!("{:?}", found(&image)) };
        assert_eq!(error.kind, ErrorKind::Version);
        assert!(error.context.contains(&format!("version {version}")), "{error}");
        // A structure that is present takes precedence over remains in the workspace.
        let steps = steps(&image, &label(), uuid(0xDD, 0));
        apply(&mut image, &steps);
        carried(&image);
    }
}

/// The drive of a label with another version of its text.
fn drive_of_version(label: &Label, slot: u8, version: u32) -> Image {
    let mut told = Telling::of(label).unwrap().told(&site(), uuid(0xDD, slot)).unwrap();
    let written = ddf::Extras::of(told.structure.vendor_log.as_ref().unwrap()).unwrap().unwrap();
    told.structure.vendor_log = Some(ddf::Extras { version, ..written }.log().unwrap());
    let mut image = Image::blank(SIZE);
    apply(&mut image, &told.steps(ByteCount(SIZE), None).unwrap());
    image
}

/// The versions of the two copies: the bytes that an earlier release checks first.
fn versions(image: &Image) -> [u32; 2] {
    [site().primary(), site().secondary()].map(|copy| {
        let log = units::ByteRange::new(copy + ByteCount(618 * 512), ByteCount(512));
        let head = image.read(log).unwrap();
        assert_eq!(head[32..40], *b"SRoCext\0");
        u32::from_be_bytes(head[40..44].try_into().unwrap())
    })
}

#[test]
fn a_label_of_an_earlier_version_is_used_and_becomes_the_newest_at_the_next_change() {
    (EARLIEST_VERSION..VERSION).for_each(becomes_the_newest);
}

fn becomes_the_newest(version: u32) {
    let old = label();
    let new = Label { generation: 8, confirmed: 7, clean: false, ..old.clone() };
    let before = drive_of_version(&old, 1, version);
    assert_eq!(
        (versions(&before), carried(&before).0),
        ([version; 2], old.for_drive(uuid(0xDD, 1)))
    );
    let steps = steps(&before, &new, uuid(0xDD, 1));
    for cut in 0..=steps.len() {
        let mut image = before.clone();
        apply(&mut image, &steps[..cut]);
        let said = [&old, &new].map(|label| label.for_drive(uuid(0xDD, 1)));
        assert!(said.contains(&carried(&image).0), "cut at {cut}");
    }
    let mut image = before;
    apply(&mut image, &steps);
    // An earlier release refuses it by this number.
    assert_eq!((versions(&image), carried(&image).0), ([VERSION; 2], new.for_drive(uuid(0xDD, 1))));
    // A damaged copy is repaired with the version of the other copy.
    let mut image = drive_of_version(&old, 1, version);
    damage(&mut image, HeaderKind::Primary);
    let (_, drive) = carried(&image);
    apply(&mut image, &ddf::repair(&drive).unwrap());
    assert_eq!(versions(&image), [version; 2]);
    // Both copies are lost: the others identify the drive, whatever their version.
    for kind in [HeaderKind::Primary, HeaderKind::Secondary] {
        damage(&mut image, kind);
    }
    let Found::Headless(headless) = found(&image) else { panic!("{:?}", found(&image)) };
    assert_eq!(
        restore(&headless, &[&old.for_drive(uuid(0xDD, 0))]),
        Ok(old.for_drive(uuid(0xDD, 1)))
    );
}

#[test]
fn a_label_of_a_later_version_is_refused_by_its_number() {
    let Found::Bad(error) = found(&drive_of_version(&label(), 1, VERSION + 1)) else {
        panic!("it was read")
    };
    assert_eq!(error.kind, ErrorKind::Version);
    assert!(
        error.context.contains("version 7") && error.context.contains("versions 3 to 6"),
        "{error}"
    );
}

#[test]
fn a_spare_is_a_group_of_its_own() {
    let spare = SpareLabel {
        drive: uuid(0xDD, 9),
        scope: SpareScope::Arrays(vec![uuid(0xAA, 0)]),
        enclosure: None,
        revertible: true,
        since_unix_s: 1_800_000_000,
    };
    let told = Telling::of_spare(&spare, &site()).unwrap().told(&site(), spare.drive).unwrap();
    assert!(told.structure.spare().is_some());
    let mut image = Image::blank(SIZE);
    apply(&mut image, &told.steps(ByteCount(SIZE), None).unwrap());
    let Found::Carried(carried) = found(&image) else { panic!("{:?}", found(&image)) };
    assert_eq!(carried.content, Content::Spare(spare));
}

#[test]
fn a_change_that_is_cut_off_at_any_write_leaves_what_was_or_what_is_to_be() {
    let old = label();
    let mut new = old.clone();
    (new.generation, new.confirmed, new.policy.copyback) = (8, 7, false);
    new.volume[0].unwritten = Runs::one(1, 3);
    let before = drive_of(&old, 1);
    let steps = steps(&before, &new, uuid(0xDD, 1));
    let bytes: usize = steps
        .iter()
        .map(|step| if let Step::Write { bytes, .. } = step { bytes.len() } else { 0 })
        .sum();
    assert!(bytes < 32 << 10, "{bytes} bytes: only changed parts of the log are written");
    for cut in 0..=steps.len() {
        let mut image = before.clone();
        apply(&mut image, &steps[..cut]);
        // The interrupted write was done in part.
        if let Some(Step::Write { at, bytes }) = steps.get(cut) {
            image.write(*at, &bytes[..bytes.len() / 1024 * 512]);
        }
        let label = carried(&image).0;
        assert!(
            label == old.for_drive(label.drive) || label == new.for_drive(label.drive),
            "cut at {cut}"
        );
        assert_eq!(label.generation == 8, label.policy != old.policy);
    }
    let mut image = before;
    apply(&mut image, &steps);
    assert_eq!(carried(&image).0.generation, 8);
}

#[test]
fn what_marks_a_drive_is_all_that_has_to_go() {
    let mut image = drive_of(&label(), 0);
    for place in Tail::of(ByteCount(SIZE)).unwrap().marks() {
        image.write(place.start, &vec![0; place.len.as_usize()]);
    }
    assert_eq!(found(&image), Found::Blank);
    assert!(matches!(image.look(Effort::Search), Look::Nothing(_)));
}

/// Software that keeps the group and raises the sequence, but drops the vendor log, leaves a
/// witness that is older than its changes: the former label must not be restored.
#[test]
fn a_log_that_other_software_took_away_is_no_loss_of_ours() {
    let mut image = drive_of(&label(), 0);
    let drive = carried(&image).1;
    let mut theirs = drive.structure.clone();
    theirs.header.sequence += 1;
    theirs.vendor_log.as_mut().unwrap().owner = *b"OTHERS  ";
    apply(&mut image, &update(ByteCount(SIZE), Some(&drive), &theirs).unwrap());
    assert!(matches!(found(&image), Found::Foreign(_)));
    // If both copies are damaged afterwards, the state of the drive is unknown.
    image.damage(site().primary().0 + 512 + 40);
    image.damage(site().secondary().0 + 512 + 41);
    assert!(matches!(found(&image), Found::Bad(_)));
}

/// Regression: the anchor of a headless drive was zeroed before its copies were rewritten: after a
/// kill in between the drive belonged to no array.
#[test]
fn writing_a_headless_drive_anew_may_be_cut_off_anywhere() {
    let old = label();
    let mut headless = drive_of(&old, 2);
    damage(&mut headless, HeaderKind::Primary);
    damage(&mut headless, HeaderKind::Secondary);
    let new = Label { generation: 8, confirmed: 7, clean: false, ..old.clone() };
    let told = Telling::of(&new).unwrap().told(&site(), uuid(0xDD, 2)).unwrap();
    let steps = told.steps_for_headless(ByteCount(SIZE)).unwrap();
    for cut in 0..=steps.len() {
        let mut image = headless.clone();
        apply(&mut image, &steps[..cut]);
        if let Some(Step::Write { at, bytes }) = steps.get(cut) {
            image.write(*at, &bytes[..bytes.len() / 1024 * 512]);
        }
        match found(&image) {
            // The others still carry the old label.
            Found::Headless(headless) => {
                assert_eq!(
                    restore(&headless, &[&old]),
                    Ok(old.for_drive(uuid(0xDD, 2))),
                    "cut at {cut}"
                );
            }
            Found::Carried(carried) => {
                let said = [&old, &new].map(|label| label.for_drive(uuid(0xDD, 2)));
                assert!(said.iter().any(|label| carried.label() == Some(label)), "cut at {cut}");
            }
            other => panic!("cut at {cut}: {other:?}"),
        }
    }
}

#[test]
fn a_damaged_anchor_of_4096_bytes_is_made_up_for_as_well() {
    let site = Tail::of(ByteCount(SIZE)).unwrap().site(SectorSize::B4096).unwrap();
    let mut label = label();
    label.volume.pop();
    label.member.iter_mut().for_each(|member| member.block_bytes = 4096);
    let told = Telling::of(&label).unwrap().told(&site, uuid(0xDD, 1)).unwrap();
    let mut image = Image::blank(SIZE);
    apply(&mut image, &told.steps(ByteCount(SIZE), None).unwrap());
    image.damage(SIZE - 4096 + 40);
    let (found, drive) = carried(&image);
    assert_eq!(found, label.for_drive(uuid(0xDD, 1)));
    assert!(drive.needs_repair());
}

/// A drive of an array that was imported with data up to the end of its drives: its tail lies
/// before them.
fn drive_in_front(label: &Label, site: &ddf::Site) -> Image {
    let told = Telling::of(label).unwrap().told(site, uuid(0xDD, 1)).unwrap();
    let mut image = Image::blank(SIZE);
    apply(&mut image, &told.steps(ByteCount(SIZE), None).unwrap());
    image
}

#[test]
fn a_tail_in_front_is_found_by_its_anchor_or_its_copies_and_restored_by_its_witness() {
    for place in [TailPlace::Front, TailPlace::FrontWithAnchor] {
        let mut label = Label { tail: place, ..label() };
        assert!(label.check().is_err(), "its volumes overlap the tail");
        label.volume.iter_mut().for_each(|volume| volume.data_start_bytes += 33 << 20);
        label.check().unwrap();
        let own = label.for_drive(uuid(0xDD, 1));
        let site = Tail::at(ByteCount(SIZE), place).unwrap().site(SectorSize::B512).unwrap();
        let image = drive_in_front(&label, &site);
        let (is, drive) = carried(&image);
        assert_eq!((&is, drive.anchor.at, drive.structure.place()), (&own, site.anchor(), place));
        assert!(!drive.needs_repair());

        let mut image = drive_in_front(&label, &site);
        image.damage(site.anchor().0 + 100);
        let (is, drive) = carried(&image);
        assert_eq!((&is, drive.needs_repair()), (&own, true), "its anchor is damaged");

        let mut image = drive_in_front(&label, &site);
        for at in [site.primary(), site.secondary()] {
            image.damage(at.0 + 512 + 40);
            image.damage(at.0 + 100);
        }
        let Found::Headless(headless) = found(&image) else { panic!("{:?}", found(&image)) };
        assert_eq!((headless.tail, restore(&headless, &[&label])), (place, Ok(own)));

        let elsewhere = Label { tail: TailPlace::End, ..label };
        assert!(
            matches!(found(&drive_in_front(&elsewhere, &site)), Found::Bad(_)),
            "it records another place"
        );
    }
}
