//! Reshape commands for several volumes on one array: what they report before they begin, and which
//! are refused.

use crate::common::MIB;
use crate::reshape::reshape;
use crate::reshape_along::{
    ADDS, REMOVES, Scene, arrive, beside, delete, expect_content, prepared,
};
use controller::{Command, DriveState, ErrorKind, Reply, ReshapeVolume, SetPolicy, WriteMode};

#[test]
fn a_dry_run_tells_of_all_volumes_that_move_along() {
    let size = 6 * MIB;
    let mut bench = prepared(ADDS, 1, size);
    let before: Vec<_> = ADDS.names().map(|name| bench.show(name)).collect();
    let order = ReshapeVolume { dry_run: true, ..ADDS.order() };
    let Ok(Reply::Reshape { reshape: told, notes }) = bench.ask(Command::VolumeReshape(order))
    else {
        panic!("a reshape reply")
    };
    assert!(told.to.capacity_bytes > size && told.estimated_s.is_some_and(|seconds| seconds > 0));
    for (other, name) in told.along.iter().zip(["more", "last"]) {
        assert_eq!((other.volume.as_str(), other.from.capacity_bytes), (name, size));
        assert_eq!((other.to.capacity_bytes, other.to.drives, other.from.drives), (size, 4, 3));
        assert!(other.estimated_s.is_some_and(|seconds| seconds > 0));
    }
    let [note] = notes.as_slice() else { panic!("{notes:?}") };
    assert!(
        note.contains("'more', 'last'") && note.contains("softroc volume expand more"),
        "{note}"
    );
    assert_eq!(ADDS.names().map(|name| bench.show(name)).collect::<Vec<_>>(), before);
    // That space is free afterwards.
    reshape(&mut bench, ADDS.order());
    arrive(&mut bench, ADDS);
    let more = || ReshapeVolume { volume: "more".into(), ..ReshapeVolume::default() };
    let grown = reshape(&mut bench, more());
    assert!(grown.to.capacity_bytes > size * 5 / 4 && grown.along.is_empty(), "{grown:?}");
    arrive(&mut bench, ADDS);
    expect_content(&mut bench, ADDS, size);
}

/// A reshape that one volume does not allow is refused for all, with the volume's name and the
/// nearest alternative.
#[test]
fn an_order_that_a_volume_cannot_follow_is_refused_with_the_nearest_way() {
    let size = 3 * MIB;
    let cases: [(Scene, &[&str]); 5] = [
        (
            Scene {
                drives: 2,
                volumes: &[("data", "raid0"), ("more", "raid1")],
                add: &["c"],
                ..ADDS
            },
            &["'more'", "softroc volume migrate more --level raid5 --add c'"],
        ),
        (
            Scene {
                drives: 2,
                volumes: &[("data", "raid0"), ("more", "raid1")],
                add: &["c", "d"],
                ..ADDS
            },
            &["'more'", "softroc volume migrate more --level raid10 --add c d'"],
        ),
        (
            Scene {
                drives: 4,
                volumes: &[("data", "raid5"), ("more", "raid10")],
                add: &["e"],
                ..ADDS
            },
            &["'more'", "softroc volume migrate more --level raid6 --add e'"],
        ),
        (
            Scene {
                drives: 3,
                volumes: &[("data", "raid5"), ("more", "raid1e")],
                add: &["d"],
                ..ADDS
            },
            &["'more'", "softroc volume delete more'"],
        ),
        (
            Scene {
                drives: 4,
                volumes: &[("data", "raid5"), ("more", "raid6")],
                remove: &["d"],
                ..REMOVES
            },
            &["'more'", "softroc volume migrate more --level raid5 --remove d"],
        ),
    ];
    for (scene, expected) in cases {
        let mut bench = prepared(scene, 1, size);
        let before: Vec<_> = scene.names().map(|name| bench.show(name)).collect();
        for dry_run in [true, false] {
            let order = ReshapeVolume { dry_run, ..scene.order() };
            let why = bench.refused(ErrorKind::Invalid, Command::VolumeReshape(order));
            assert!(expected.iter().all(|part| why.contains(part)), "{scene:?}: {why}");
        }
        assert_eq!(scene.names().map(|name| bench.show(name)).collect::<Vec<_>>(), before);
        assert_eq!(bench.drive("f").state, DriveState::Unused);
    }
}

/// A volume whose data does not fit in its range on fewer drives, with another one right behind it.
#[test]
fn a_volume_that_has_no_room_on_fewer_drives_is_named_with_what_there_is() {
    let (scene, size) = (REMOVES, 3 * MIB);
    let mut bench = prepared(scene, 1, size);
    for name in ["gap", "wall"] {
        bench.create_with(name, "raid0", &[], beside(2 * size)).expect("there is space");
    }
    delete(&mut bench, "gap");
    let (more, wall) = (bench.show("more"), bench.show("wall"));
    assert_eq!(more.data_start_bytes + more.member_bytes, wall.data_start_bytes);
    let why = bench.refused(ErrorKind::WrongState, Command::VolumeReshape(scene.order()));
    let room = size / 3 * 2;
    let command =
        format!("run 'softroc volume migrate more --remove d --size {room} --destroy-data'");
    assert!(why.contains("'more'") && why.contains(&command), "{why}");
    let leads = ReshapeVolume {
        volume: "more".into(),
        size_bytes: Some(room),
        destroy_data: true,
        ..scene.order()
    };
    let told = reshape(&mut bench, leads);
    let along: Vec<&str> = told.along.iter().map(|other| other.volume.as_str()).collect();
    assert_eq!((told.to.capacity_bytes, along.as_slice()), (room, &["data", "last", "wall"][..]));
}

/// Any write-back volume is named.
#[test]
fn a_volume_that_answers_writes_from_its_cache_does_not_move_along() {
    let (scene, size) = (ADDS, 3 * MIB);
    let mut bench = prepared(scene, 1, size);
    bench.cache_size = units::ByteCount(4 * MIB);
    bench.restart(&[]);
    scene.names().for_each(|name| bench.settle(name));
    let set = |write_mode| {
        let set = SetPolicy {
            volume: "last".into(),
            write_mode: Some(write_mode),
            ..SetPolicy::default()
        };
        Command::VolumePolicy(set)
    };
    bench.ask(set(WriteMode::WriteBack)).expect("the policy is set");
    let why = bench.refused(ErrorKind::WrongState, Command::VolumeReshape(scene.order()));
    assert!(why.contains("softroc volume set last --write-mode write-through"), "{why}");
    bench.ask(set(WriteMode::WriteThrough)).expect("the policy is set");
    bench.settle("last");
    reshape(&mut bench, scene.order());
    bench.refused(ErrorKind::WrongState, set(WriteMode::WriteBack));
    arrive(&mut bench, scene);
    expect_content(&mut bench, scene, size);
}
