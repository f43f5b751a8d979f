//! Refusals before the start, and the protection of existing data.

// Every test uses its part of it.
#[allow(dead_code)]
mod world;

use platform::{Drive, DriveKind, IoErrorKind};
use signatures::{Label, Place};
use std::rc::Rc;
use std::time::Duration;
use storagebench::{Bench, Error, ErrorKind, Measured, Settings, Target};
use units::{ByteCount, SectorSize};
use world::{Fault, Service, TestDrive, TestWorld};

const MIB: u64 = 1 << 20;

fn settings(profile: &str) -> Settings {
    Settings {
        profiles: vec![profile.parse().unwrap()],
        outstanding: "4".parse().unwrap(),
        runtime: Duration::from_millis(100),
        ramp: Duration::ZERO,
        ..Settings::default()
    }
}

fn run_bench(world: &TestWorld, drive: &Rc<TestDrive>, bench: Bench) -> Result<Measured, Error> {
    let env = world.env.clone();
    let target = Target::attached("/dev/sdz", drive.clone() as Rc<dyn Drive>);
    world.run(async move { bench.run(&env, &target).await })
}

fn run(drive: impl FnOnce(TestDrive) -> TestDrive, settings: Settings) -> Result<Measured, Error> {
    let world = TestWorld::new(1);
    let drive = drive(TestDrive::new(&world.env, 8 * MIB, 1, Service::Fixed(100_000)));
    run_bench(&world, &Rc::new(drive), Bench::new(settings))
}

fn refused(outcome: Result<Measured, Error>, kind: ErrorKind, parts: &[&str]) {
    let Err(error) = outcome else { panic!("not refused") };
    let sentence = error.to_string();
    assert_eq!(error.kind, kind, "{sentence}");
    for part in parts {
        assert!(sentence.contains(part), "'{part}' is not in: {sentence}");
    }
}

/// The superblock of an ext4 file system, as far as it is recognised.
fn ext4(drive: TestDrive) -> TestDrive {
    let mut content = vec![0; 4096];
    content[1024] = 16;
    content[1024 + 56..1024 + 58].copy_from_slice(&[0x53, 0xEF]);
    content[1024 + 92] = 4;
    content[1024 + 96] = 0x42;
    content[1024 + 120..1024 + 124].copy_from_slice(b"home");
    drive.content.replace(content);
    drive
}

#[test]
fn a_target_that_holds_something_is_not_written() {
    let world = TestWorld::new(1);
    let drive = Rc::new(ext4(TestDrive::new(&world.env, 8 * MIB, 1, Service::Fixed(1000))));
    refused(
        run_bench(&world, &drive, Bench::new(settings("database"))),
        ErrorKind::HoldsData,
        &[
            "'/dev/sdz' holds an ext4 file system named 'home'",
            "profile 'database'",
            "--destroy-data",
        ],
    );
    assert!(drive.seen.borrow().iter().all(|seen| !seen.write));
}

#[test]
fn preconditioning_is_writing_too() {
    let settings = Settings {
        precondition: storagebench::Precondition::TwiceTheArea,
        ..settings("streaming")
    };
    refused(
        run(ext4, settings),
        ErrorKind::HoldsData,
        &["named 'home'", "preconditioning would overwrite it"],
    );
}

#[test]
fn one_writing_profile_among_many_is_enough_to_be_refused_before_any_runs() {
    let settings = Settings {
        profiles: vec!["streaming".parse().unwrap(), "restore".parse().unwrap()],
        ..settings("streaming")
    };
    refused(run(ext4, settings), ErrorKind::HoldsData, &["profile 'restore'"]);
}

#[test]
fn reading_is_always_fine_and_writing_when_it_is_meant() {
    assert!(run(ext4, settings("streaming")).is_ok());
    let meant = Settings { destroy_data: true, ..settings("database") };
    assert!(run(ext4, meant).is_ok());
    assert!(run(|blank| blank, settings("database")).is_ok());
}

#[test]
fn a_read_only_run_does_not_even_look() {
    let world = TestWorld::new(1);
    let drive = Rc::new(ext4(TestDrive::new(&world.env, 8 * MIB, 1, Service::Fixed(100_000))));
    run_bench(&world, &drive, Bench::new(settings("random,read,4K"))).unwrap();
    assert!(drive.seen.borrow().len() <= 1001 + 4);
}

#[test]
fn the_last_bytes_are_looked_at_too_and_the_callers_labels() {
    const OURS: Label =
        Label { what: "a label of this controller", magic: b"OURS", place: Place::FromEnd(4096) };
    let world = TestWorld::new(1);
    let drive = TestDrive::new(&world.env, 8 * MIB, 1, Service::Fixed(1000));
    let mut content = vec![0; 8 * MIB as usize];
    content[8 * MIB as usize - 4096..][..4].copy_from_slice(b"OURS");
    drive.content.replace(content);
    let drive = Rc::new(drive);
    let bench = Bench::new(settings("restore")).guarding(&[OURS]);
    refused(
        run_bench(&world, &drive, bench),
        ErrorKind::HoldsData,
        &["a label of this controller"],
    );
    assert!(run_bench(&world, &drive, Bench::new(settings("restore"))).is_ok());
}

#[test]
fn a_file_of_unknown_content_is_somebodys_but_a_test_file_may_be_written_again() {
    let file = |content: Vec<u8>| {
        move |drive: TestDrive| {
            drive.content.replace(content);
            drive.with_info(|info| info.kind = DriveKind::File)
        }
    };
    let thesis = b"My thesis, in which I show".repeat(1000);
    refused(
        run(file(thesis.clone()), settings("database")),
        ErrorKind::HoldsData,
        &["data that is not from an earlier run"],
    );
    let mut test_file = vec![0; 65536];
    test_file[16384..16392].copy_from_slice(b"StorBnch");
    test_file[16392..20000].fill(0xA5);
    assert!(run(file(test_file), settings("database")).is_ok());
    assert!(run(file(Vec::new()), settings("database")).is_ok());
    // A file whose first MiB is empty is refused too.
    let mut later = vec![0; 8 * MIB as usize];
    later[3 * MIB as usize..4 * MIB as usize].fill(0x42);
    refused(
        run(file(later.clone()), settings("database")),
        ErrorKind::HoldsData,
        &["data that is not from"],
    );
    let page = |page: &mut [u8]| page[..8].copy_from_slice(b"StorBnch");
    later[3 * MIB as usize..4 * MIB as usize].chunks_mut(4096).for_each(page);
    assert!(run(file(later), settings("database")).is_ok());
    // A whole drive with unknown content is accepted: wiped drives look the same.
    assert!(
        run(
            |drive| {
                drive.content.replace(thesis);
                drive
            },
            settings("database")
        )
        .is_ok()
    );
}

#[test]
fn a_volume_is_somebodys_as_soon_as_it_holds_anything_anywhere() {
    let volume = |content: Vec<u8>| {
        move |drive: TestDrive| {
            drive.content.replace(content);
            drive.with_info(|info| info.kind = DriveKind::Remote)
        }
    };
    assert!(run(volume(Vec::new()), settings("database")).is_ok());
    // One page, outside of the offsets that are always read.
    let mut content = vec![0; 8 * MIB as usize];
    content[3 * MIB as usize + 20480..][..4096].fill(0x42);
    refused(
        run(volume(content.clone()), settings("database")),
        ErrorKind::HoldsData,
        &["'/dev/sdz' holds data that is not from an earlier run, and", "--destroy-data"],
    );
    assert!(run(volume(content.clone()), settings("streaming")).is_ok());
    content[3 * MIB as usize + 20480..][..8].copy_from_slice(b"StorBnch");
    assert!(run(volume(content), settings("database")).is_ok());
}

#[test]
fn what_cannot_be_read_is_not_overwritten_either() {
    let broken = |drive: TestDrive| drive.with_fault(Fault::Every(3, IoErrorKind::Medium));
    refused(
        run(broken, settings("restore")),
        ErrorKind::Unreachable,
        &["'/dev/sdz' cannot be read at byte 262144 (medium error)"],
    );
}

#[test]
fn a_model_holds_nothing() {
    let world = TestWorld::new(1);
    let drive = TestDrive::new(&world.env, 8 * MIB, 1, Service::Fixed(100_000));
    let drive = Rc::new(drive.with_info(|info| info.kind = DriveKind::Model));
    run_bench(&world, &drive, Bench::new(Settings { hollow: true, ..settings("restore") }))
        .unwrap();
    assert!(drive.seen.borrow().iter().all(|seen| seen.write));
}

#[test]
fn wrong_settings_get_a_sentence_that_names_the_value() {
    let with = |change: fn(&mut Settings)| {
        let mut settings = settings("database");
        change(&mut settings);
        run(|drive| drive, settings)
    };
    refused(with(|s| s.profiles.clear()), ErrorKind::BadSettings, &["no load profile"]);
    refused(with(|s| s.runtime = Duration::ZERO), ErrorKind::BadSettings, &["run time"]);
    refused(with(|s| s.workers = 0), ErrorKind::BadSettings, &["worker"]);
    let area_of = |area: &str| {
        run(|drive| drive, Settings { area: area.parse().unwrap(), ..settings("database") })
    };
    refused(
        area_of("4M..9M"),
        ErrorKind::TooSmall,
        &["'/dev/sdz': the area 4M..9M is not within the 8 MiB of the target"],
    );
    refused(area_of("9M.."), ErrorKind::TooSmall, &["'/dev/sdz'", "is not within"]);
    refused(area_of("100..1M"), ErrorKind::Misaligned, &["byte 100", "512 B sectors"]);
    refused(area_of("0..4K"), ErrorKind::TooSmall, &["has 4 KiB, less than one block of 8 KiB"]);
    refused(
        run(
            |drive| drive.with_info(|info| info.logical_sector = SectorSize::B4096),
            settings("random,read,512"),
        ),
        ErrorKind::Misaligned,
        &["'/dev/sdz'", "blocks of 512 B", "4 KiB sectors"],
    );
    refused(
        run(|drive| drive.with_info(|info| info.read_only = true), settings("database")),
        ErrorKind::ReadOnly,
        &["'/dev/sdz' is read-only", "'database' writes"],
    );
    refused(
        run(
            |drive| drive,
            Settings { outstanding: "1,1024".parse().unwrap(), ..settings("random,read,8M") },
        ),
        ErrorKind::OutOfMemory,
        &["1024 outstanding I/Os needs 8 GiB of buffers, and 1 GiB is free"],
    );
}

#[test]
fn requests_stay_within_the_area_and_the_buffers_go_home() {
    let world = TestWorld::new(1);
    let drive = Rc::new(TestDrive::new(&world.env, 8 * MIB, 1, Service::Fixed(10_000)));
    let area = format!("1M..{}", 3 * MIB + 512).parse().unwrap();
    let settings = Settings { area, destroy_data: true, ..settings("database") };
    run_bench(&world, &drive, Bench::new(settings)).unwrap();
    let seen = drive.seen.borrow();
    assert!(seen.iter().all(|seen| seen.offset >= MIB && seen.offset + 8192 <= 3 * MIB));
    assert!(
        seen.iter().any(|seen| seen.offset == MIB)
            && seen.iter().any(|seen| seen.offset == 3 * MIB - 8192)
    );
    assert_eq!(world.env.pool().used(), ByteCount::ZERO);
}
