//! The text of labels: golden, coarsened, hostile.

use ondisk::ddf::Extras;
use ondisk::{
    Bay, Cause, Content, EARLIEST_VERSION, ErrorKind, FollowsLabel, Init, JournalLabel, Label,
    Member, MemberState, PartLabel, Phase, Policy, Punctured, Relocated, Replacement, ReshapeLabel,
    Runs, SpareLabel, SpareScope, StandIn, Tail, TailPlace, Uuid, VERSION, VolumeLabel, WriteHole,
    spare_text_of, text_of,
};
use proptest::prelude::*;
use units::{ByteCount, SectorSize};

fn uuid(last: u8) -> Uuid {
    let mut bytes = [0x10; 16];
    bytes[15] = last;
    Uuid(bytes)
}

const ON: (ByteCount, SectorSize) = (ByteCount(64 << 20), SectorSize::B512);

fn volume() -> VolumeLabel {
    VolumeLabel {
        uuid: uuid(0xBB),
        name: "data".into(),
        level: layout::Level::Raid5,
        parity: Some(layout::ParityArrangement::LeftSymmetric),
        mirrors: None,
        spans: 1,
        copies: 1,
        strip_bytes: 65536,
        data_start_bytes: 0,
        member_bytes: 1 << 20,
        first_region: 0,
        regions: 10,
        sector_bytes: 512,
        capacity_bytes: 2 << 20,
        write_hole: WriteHole::Journal,
        init: Init::Background,
        created_unix_s: 1_700_000_000,
        lost: Vec::new(),
        unwritten: Runs::default(),
        initialised_by_bytes: None,
        journal: Some(JournalLabel {
            start_bytes: 1 << 20,
            len_bytes: 2 << 20,
            id: Some(uuid(0xCC)),
            tells_all: true,
            log: None,
        }),
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
    let member = |slot: u8| Member::online(uuid(slot), format!("/drives/{slot}"), ON, 1);
    let mut label = Label {
        array: uuid(0xAA),
        drive: uuid(1),
        generation: 7,
        confirmed: 6,
        phase: Phase::Online,
        clean: false,
        shut_down: false,
        failed: Vec::new(),
        leaving: Vec::new(),
        initialisation_blocks: None,
        tail: TailPlace::End,
        policy: Policy::default(),
        volume: vec![volume()],
        member: (0..3).map(member).collect(),
    };
    let failed = &mut label.member[2];
    (failed.state, failed.since, failed.knew) = (MemberState::Failed, 6, 5);
    (failed.cause, failed.stale) = (Some(Cause::Error), Runs(vec![[3, 5], [9, 10]]));
    label
}

/// A second volume, and every optional field of a label.
fn full_label() -> Label {
    let mut label = label();
    label.volume.push(VolumeLabel {
        uuid: uuid(0xBC),
        name: "more".into(),
        level: layout::Level::Raid1,
        parity: None,
        copies: 3,
        data_start_bytes: 1 << 20,
        first_region: 10,
        regions: 1,
        capacity_bytes: 1 << 20,
        init: Init::Zeroed,
        lost: vec![2],
        unwritten: Runs(vec![[10, 11]]),
        relocated: Some(Relocated { slot: 2, regions: Runs(vec![[10, 11]]) }),
        punctured: vec![Punctured { slot: 1, bytes: vec![[512, 1024], [4096, 8192]] }],
        journal: None,
        write_mode: ondisk::WriteMode::AlwaysWriteBack,
        read_mode: ondisk::ReadMode::ReadAhead,
        cache_mode: ondisk::CacheMode::Cached,
        drive_cache: ondisk::DriveCache::Off,
        sector_format: ondisk::SectorFormat::Emulated512,
        kept: Some(ondisk::KeptLabel { memory: uuid(0xDD), boot: uuid(0xEE) }),
        ..volume()
    });
    label.member[0].enclosure = Some("shelf 1".into());
    let stands_in = StandIn {
        instead_of: "/drives/8".into(),
        bay: Some(Bay { enclosure: "shelf 1".into(), slot: "3".into() }),
        scope: Some(SpareScope::Global),
        revertible: true,
    };
    label.member[0].stands_in = Some(stands_in.clone());
    label.member[0].replacement = Some(Replacement {
        uuid: uuid(0x77),
        name: "/drives/7".into(),
        size_bytes: 64 << 20,
        block_bytes: 512,
        stale: Runs(vec![[0, 11]]),
        stands_in: Some(stands_in),
    });
    label
}

fn spare() -> SpareLabel {
    SpareLabel {
        drive: uuid(9),
        scope: SpareScope::Arrays(vec![uuid(0xAA)]),
        enclosure: Some("shelf 1".into()),
        revertible: true,
        since_unix_s: 1_700_000_000,
    }
}

fn extras(text: &[u8]) -> Extras {
    Extras { version: VERSION, sequence: 7, payload: text.to_vec() }
}

fn content(text: &[u8]) -> ondisk::Result<Content> {
    ondisk::read(&extras(text), uuid(1))
}

/// Encodes and decodes a label.
fn again(label: &Label) -> Label {
    content(&text_of(label).unwrap()).unwrap().label().unwrap().clone()
}

const TEXT: &str = r#"[array]
array = "10101010-1010-1010-1010-1010101010aa"
generation = 7
confirmed = 6
phase = "online"
clean = false

[array.policy]
medium_error_limit = 100
copyback = true
emergency_spare = false
drive_guard = true
mixed_kinds = false
task_share_percent = 30

[[array.volume]]
uuid = "10101010-1010-1010-1010-1010101010bb"
name = "data"
level = "raid5"
parity = "left-symmetric"
spans = 1
copies = 1
strip_bytes = 65536
data_start_bytes = 0
member_bytes = 1048576
first_region = 0
regions = 10
sector_bytes = 512
capacity_bytes = 2097152
write_hole = "journal"
init = "background"
created_unix_s = 1700000000

[array.volume.journal]
start_bytes = 1048576
len_bytes = 2097152
id = "10101010-1010-1010-1010-1010101010cc"
tells_all = true

[[array.member]]
uuid = "10101010-1010-1010-1010-101010101000"
name = "/drives/0"
size_bytes = 67108864
block_bytes = 512
state = "online"
since = 1

[[array.member]]
uuid = "10101010-1010-1010-1010-101010101001"
name = "/drives/1"
size_bytes = 67108864
block_bytes = 512
state = "online"
since = 1

[[array.member]]
uuid = "10101010-1010-1010-1010-101010101002"
name = "/drives/2"
size_bytes = 67108864
block_bytes = 512
state = "failed"
since = 6
knew = 5
cause = "error"
stale = [[3, 5], [9, 10]]
"#;

#[test]
fn a_label_is_this_text() {
    assert_eq!(String::from_utf8(text_of(&label()).unwrap()).unwrap(), TEXT);
    assert_eq!(content(TEXT.as_bytes()), Ok(Content::Member(Box::new(label()))));
}

#[test]
fn everything_that_a_label_may_say_is_read_as_it_was_written() {
    let label = full_label();
    label.check().unwrap();
    assert_eq!(again(&label), label);
    // The replacement carries the same text.
    let replacements = label.for_drive(uuid(0x77));
    assert_eq!((replacements.slot(), replacements.slot_of(uuid(0x77))), (Some(0), None));
    assert_eq!(text_of(&replacements), text_of(&label));
    assert_eq!(
        ondisk::read(&extras(&text_of(&label).unwrap()), uuid(0x77)).unwrap().label(),
        Some(&replacements)
    );
}

#[test]
fn the_label_of_a_spare_is_told_from_that_of_a_member() {
    let spare = SpareLabel { drive: uuid(1), ..spare() };
    for scope in [spare.scope.clone(), SpareScope::Global, SpareScope::Enclosure] {
        let spare = SpareLabel { scope, ..spare.clone() };
        let found = content(&spare_text_of(&spare).unwrap()).unwrap();
        assert_eq!((found.label(), &found), (None, &Content::Spare(spare)));
    }
    for wrong in [
        SpareLabel { scope: SpareScope::Arrays(Vec::new()), ..spare.clone() },
        SpareLabel { scope: SpareScope::Enclosure, enclosure: None, ..spare.clone() },
        SpareLabel { enclosure: Some("a\nb".into()), ..spare.clone() },
    ] {
        let text = spare_text_of(&wrong).unwrap();
        assert_eq!(content(&text).unwrap_err().kind, ErrorKind::Contradiction, "{wrong:?}");
    }
}

#[test]
fn a_label_of_another_version_is_refused_by_its_number() {
    for (version, number) in [(EARLIEST_VERSION - 1, "version 2 "), (VERSION + 1, "version 7 ")] {
        let other = Extras { version, ..extras(TEXT.as_bytes()) };
        let error = ondisk::read(&other, uuid(1)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Version);
        assert!(
            error.context.contains(number) && error.context.contains("versions 3 to 6"),
            "{error}"
        );
    }
}

/// Arrays of earlier releases have versions 3 to 5 on their drives.
#[test]
fn a_label_of_an_earlier_version_means_what_it_meant() {
    for version in EARLIEST_VERSION..VERSION {
        for label in [label(), full_label()] {
            let before = Extras { version, ..extras(&text_of(&label).unwrap()) };
            assert_eq!(ondisk::read(&before, uuid(1)), Ok(Content::Member(Box::new(label))));
        }
        let spare = SpareLabel { drive: uuid(1), ..spare() };
        let before = Extras { version, ..extras(&spare_text_of(&spare).unwrap()) };
        assert_eq!(ondisk::read(&before, uuid(1)), Ok(Content::Spare(spare)));
    }
}

/// The sentence that refuses the full label after this change.
fn wrong(change: fn(&mut Label)) -> String {
    let mut label = full_label();
    change(&mut label);
    label.check().unwrap_err().to_string()
}

#[test]
fn a_label_that_contradicts_itself_is_refused_with_a_sentence() {
    assert!(wrong(|label| label.volume[0].strip_bytes = 5000).contains("5000"));
    assert!(wrong(|label| label.volume[0].capacity_bytes = 1 << 40).contains("capacity"));
    assert!(wrong(|label| label.volume[0].name = "a/b".into()).contains("a/b"));
    assert!(wrong(|label| label.member[0].uuid = label.member[1].uuid).contains("two members"));
    assert!(wrong(|label| label.drive = Uuid([9; 16])).contains("not a member"));
    assert!(wrong(|label| label.member[1].block_bytes = 520).contains("520"));
    assert!(
        wrong(|label| label.member[0].replacement.as_mut().unwrap().size_bytes = 513)
            .contains("513")
    );
    assert!(wrong(|label| label.member.truncate(2)).contains("RAID 5"));
    assert!(wrong(|label| label.member.clear()).contains("0 members"));
    assert!(wrong(|label| label.volume.clear()).contains("0 volumes"));
    assert!(wrong(|label| label.volume[0].spans = 2).contains("2 spans"));
    assert!(wrong(|label| label.volume[1].copies = 2).contains("2"));
    assert!(wrong(|label| label.volume[0].sector_bytes = 520).contains("520"));
    assert!(wrong(|label| label.volume[0].member_bytes += 512).contains("whole strips"));
    assert!(wrong(|label| label.generation = 0).contains("generation"));
    assert!(wrong(|label| label.confirmed = 7).contains("confirmed"));
    assert!(wrong(|label| label.generation = 1 << 40).contains("confirmed"));
    assert!(wrong(|label| label.volume[1].data_start_bytes = 65536).contains("same bytes"));
    assert!(wrong(|label| label.volume[1].data_start_bytes = u64::MAX - 511).contains("begin"));
    assert!(wrong(|label| label.volume[1].data_start_bytes = (1 << 20) + 1).contains("begin"));
    assert!(wrong(|label| label.volume[0].regions = 11).contains("same regions"));
}

#[test]
fn a_label_with_impossible_places_or_lists_is_refused_with_a_sentence() {
    let no_place = "an invalid place";
    assert!(
        wrong(|label| label.volume[0].journal.as_mut().unwrap().len_bytes = 0).contains(no_place)
    );
    assert!(
        wrong(|label| label.volume[0].journal.as_mut().unwrap().start_bytes = 512)
            .contains(no_place)
    );
    assert!(
        wrong(|label| label.volume[0].journal.as_mut().unwrap().start_bytes = 13 << 20)
            .contains(no_place)
    );
    let same = |label: &mut Label| label.volume[1].journal = label.volume[0].journal.clone();
    assert!(wrong(same).contains("same journal"));
    assert!(wrong(|label| label.volume[1].first_region = u32::MAX).contains("regions"));
    assert!(wrong(|label| label.volume[1].regions = 0).contains("regions"));
    assert!(wrong(|label| label.volume[1].name = "data".into()).contains("same name"));
    assert!(wrong(|label| label.volume[1].uuid = label.volume[0].uuid).contains("same name"));
    assert!(wrong(|label| label.volume[1].lost = vec![3]).contains("slots"));
    assert!(wrong(|label| label.volume[1].unwritten = Runs(vec![[9, 11]])).contains("not its own"));
    assert!(wrong(|label| label.volume[1].unwritten = Runs(vec![[11, 10]])).contains("unwritten"));
    assert!(wrong(|label| label.volume[1].punctured[0].slot = 3).contains("slots"));
    assert!(
        wrong(|label| label.volume[1].punctured[0].bytes[0] = [1, 512]).contains("lists blocks")
    );
    assert!(wrong(|label| label.volume[1].punctured[0].bytes.swap(0, 1)).contains("lists blocks"));
    assert!(wrong(|label| label.member[2].stale = Runs(vec![[5, 5]])).contains("stale"));
    assert!(wrong(|label| label.member[2].stale = Runs(vec![[0, u32::MAX]])).contains("stale"));
    assert!(wrong(|label| label.member[2].knew = 6).contains("since"));
    assert!(wrong(|label| label.member[2].since = 8).contains("since"));
    assert!(wrong(|label| label.member[0].enclosure = Some(String::new())).contains("enclosure"));
    assert!(wrong(|label| label.policy.task_share_percent = 0).contains("percent"));
    assert!(wrong(|label| label.policy.task_share_percent = 101).contains("percent"));
}

#[test]
fn the_label_of_the_largest_array_fits() {
    let mut large = label();
    large.volume[0].level = layout::Level::Raid0;
    large.volume[0].parity = None;
    large.member = (0..64).map(|slot| Member::online(uuid(slot), "", ON, 1)).collect();
    large.member.iter_mut().for_each(|member| member.name = "x".repeat(1500));
    large.check().unwrap();
    assert_eq!(again(&large), large);
    large.member.iter_mut().for_each(|member| member.name = "x".repeat(2000));
    let error = text_of(&large).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
    assert!(error.context.contains("there is room for 128 KiB"), "{error}");
}

#[test]
fn sets_of_regions_that_do_not_fit_are_coarser_and_never_wrong() {
    let mut large = label();
    large.volume[0].regions = 1 << 20;
    let every_other = Runs((0..1 << 18).map(|at| [4 * at, 4 * at + 1 + at % 2]).collect());
    large.member[1].stale = every_other.clone();
    large.volume[0].unwritten = every_other.clone();
    let found = again(&large);
    let covers = |run: &[u32; 2]| {
        found.member[1].stale.0.iter().any(|wide| wide[0] <= run[0] && run[1] <= wide[1])
    };
    assert!(every_other.0.iter().all(covers));
    assert!(found.volume[0].unwritten.0.iter().all(|run| every_other.0.contains(run)));
    assert!(found.member[1].stale.0.len() > 100);
}

#[test]
fn as_many_volumes_as_an_array_may_have_fit() {
    let mut many = label();
    many.volume = (0..ondisk::MAX_VOLUMES as u64)
        .map(|number| VolumeLabel {
            uuid: Uuid([number as u8; 16]),
            name: format!("{number:0>64}"),
            data_start_bytes: number << 20,
            first_region: number as u32,
            regions: 1,
            journal: None,
            ..volume()
        })
        .collect();
    many.member[2].stale = Runs::one(0, 64);
    many.check().unwrap();
    assert_eq!(again(&many), many);
    assert_eq!((many.regions(), many.used_bytes()), (64, 64 << 20));
    assert!(many.names().ends_with("and 62 more volumes"));
}

#[test]
fn data_ends_where_the_tail_begins() {
    let tail = Tail::of(ByteCount(100 << 20)).unwrap();
    assert_eq!(tail.start().0, 68 << 20);
    assert!(label().fits(ByteCount(33 << 20)));
    assert!(!label().fits(ByteCount((33 << 20) - 512)));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..9000)) {
        prop_assert!(content(&bytes).is_err());
    }

    #[test]
    fn a_changed_byte_of_the_text_is_read_without_panic(at in 0..TEXT.len(), value in any::<u8>()) {
        let mut bytes = TEXT.as_bytes().to_vec();
        bytes[at] = value;
        if let Ok(found) = content(&bytes) {
            prop_assert!(found.label().is_none_or(|label| label.check().is_ok()));
        }
    }

    #[test]
    fn any_text_with_sound_checksums_is_read_without_panic(
        numbers in prop::array::uniform8(any::<u64>()),
        regions in prop::array::uniform4(any::<u32>()),
        spans in any::<u16>(),
        name in ".*",
        members in 0_usize..4,
    ) {
        let mut label = full_label();
        [label.generation, label.confirmed, ..] = numbers;
        label.member.truncate(members);
        let volume = &mut label.volume[1];
        [_, _, volume.strip_bytes, volume.member_bytes, ..] = numbers;
        [_, _, _, _, volume.capacity_bytes, volume.sector_bytes, ..] = numbers;
        volume.punctured[0].bytes[0] = [numbers[6], numbers[7]];
        volume.data_start_bytes = numbers[7];
        volume.unwritten = Runs(vec![[regions[0], regions[1]]]);
        (volume.first_region, volume.regions) = (regions[2], regions[3]);
        (volume.spans, volume.name) = (spans, name);
        if let Ok(text) = text_of(&label) {
            prop_assert_eq!(content(&text).is_ok(), label.check().is_ok());
        }
    }

    #[test]
    fn a_label_is_read_as_it_was_written(
        generation in 2_u64..1 << 60,
        clean in any::<bool>(),
        name in "[a-z][a-z0-9._-]{0,63}",
        path in ".{0,40}",
    ) {
        let mut label = label();
        (label.generation, label.confirmed, label.clean) = (generation + 8, generation + 7, clean);
        label.volume[0].name = name;
        label.member[0].name = path;
        prop_assert_eq!(again(&label), label);
    }
}

/// A RAID 5 on three of four drives that reshapes to all four.
fn on_its_way() -> Label {
    let mut label = label();
    label.member[2] = Member::online(uuid(2), "/drives/2", ON, 1);
    label.member.push(Member::online(uuid(3), "/drives/3", ON, 1));
    let old = VolumeLabel { members: Some(3), ..volume() };
    let part = |last: u8, saves: bool| VolumeLabel {
        uuid: uuid(last),
        name: format!("data+{last}"),
        first_region: u32::from(last),
        regions: 1,
        journal: None,
        part: Some(PartLabel { of: old.uuid, saves }),
        ..volume()
    };
    let save = VolumeLabel {
        data_start_bytes: 10 << 20,
        member_bytes: 1 << 20,
        capacity_bytes: 2 << 20,
        ..part(21, true)
    };
    let reshape = ReshapeLabel {
        to: uuid(20),
        save: uuid(21),
        begun: true,
        moved_bytes: 1 << 19,
        saved_bytes: 1 << 17,
        down: false,
    };
    label.volume =
        vec![VolumeLabel { reshape: Some(reshape), ..old.clone() }, part(20, false), save];
    label
}

#[test]
fn a_volume_on_its_way_comes_back_as_it_was_written() {
    let label = on_its_way();
    assert_eq!(label.check(), Ok(()));
    let text = text_of(&label).expect("it fits");
    let again = ondisk::read(&extras(&text), label.drive).expect("it can be read");
    assert_eq!(again.label(), Some(&label));
    // Other software finds its space reserved, and no volume.
    let size = ByteCount(64 << 20);
    let site = Tail::of(size).and_then(|tail| tail.site(SectorSize::B512)).expect("a tail");
    let told = ondisk::Telling::of(&label)
        .and_then(|telling| telling.told(&site, uuid(1)))
        .expect("it can be described");
    assert_eq!(told.structure.volumes.iter().flatten().count(), 0);
    assert_eq!(told.structure.parts().count(), 0);
    assert_eq!(label.names(), "'data'", "parts are not listed");
    assert_eq!(label.used_bytes(), 1 << 20, "saved windows are in the journals' space");
    assert!(label.volume[0].survives(4, &ondisk::slots([2, 3])), "it is not on that drive");
}

/// One invalid field of a reshaping volume.
type Wrong = (&'static str, fn(&mut Label));

#[test]
fn a_volume_on_its_way_that_cannot_be_is_refused() {
    let wrong: [Wrong; 8] = [
        ("no part", |label| drop(label.volume.pop())),
        ("parts of nothing", |label| label.volume[0].reshape = None),
        ("more than there is", |label| reshape(label).moved_bytes = 2 << 20),
        ("the other part", |label| reshape(label).to = uuid(21)),
        ("in a journal", |label| label.volume[2].data_start_bytes = 2 << 20),
        ("beyond the journals", |label| label.volume[2].data_start_bytes = Tail::JOURNALS.0),
        ("somewhere else", |label| label.volume[1].data_start_bytes = 4096),
        ("on more drives", |label| label.volume[0].members = Some(5)),
    ];
    for (what, make) in wrong {
        let mut label = on_its_way();
        make(&mut label);
        assert!(label.check().is_err(), "{what}");
    }
}

/// A second volume is queued for a reshape to four drives; now it is on three of them.
fn beside_one_that_follows() -> Label {
    let mut label = on_its_way();
    let follows = FollowsLabel { to: uuid(30), members: 4 };
    label.volume.push(VolumeLabel {
        uuid: uuid(31),
        name: "more".into(),
        data_start_bytes: 16 << 20,
        first_region: 40,
        regions: 1,
        journal: None,
        members: Some(3),
        follows: Some(follows),
        ..volume()
    });
    label
}

#[test]
fn a_volume_that_follows_others_comes_back_as_it_was_written() {
    let label = beside_one_that_follows();
    assert_eq!(label.check(), Ok(()));
    let text = text_of(&label).expect("it fits");
    let again = ondisk::read(&extras(&text), label.drive).expect("it can be read");
    assert_eq!(again.label(), Some(&label));
    let text = String::from_utf8(text).expect("it is text");
    let unknown = text.replace("[array.volume.follows]\n", "[array.volume.follows]\nsoon = true\n");
    assert_ne!(unknown, text);
    assert!(ondisk::read(&extras(unknown.as_bytes()), label.drive).is_err(), "unknown field");
    let wrong: [Wrong; 5] = [
        ("to no drives", |label| last(label).members = 0),
        ("to more drives", |label| last(label).members = 5),
        ("as an existing volume", |label| last(label).to = uuid(21)),
        ("a part", |label| {
            label.volume[1].follows = Some(FollowsLabel { to: uuid(32), members: 4 })
        }),
        ("to another part than it has", |label| {
            label.volume[0].follows = Some(FollowsLabel { to: uuid(32), members: 4 });
        }),
    ];
    for (what, make) in wrong {
        let mut label = beside_one_that_follows();
        make(&mut label);
        assert!(label.check().is_err(), "{what}");
    }
}

fn last(label: &mut Label) -> &mut FollowsLabel {
    label.volume.last_mut().and_then(|of| of.follows.as_mut()).expect("it follows")
}

fn reshape(label: &mut Label) -> &mut ReshapeLabel {
    label.volume[0].reshape.as_mut().expect("reshaping")
}
