//! The sector sizes advertised to hosts, and hosts that ignore them.

use crate::common::{Bench, drive_options};
use controller::{Command, Reply, SectorFormat, SetPolicy, VolumeInfo};
use platform::{BlockTarget, TargetGeometry};
use platform_sim::DriveOptions;
use units::SectorSize;

/// A host with three drives of 4 KiB physical sectors, and `small` with others.
fn bench() -> Bench {
    let mut bench = Bench::in_order(3, 1, 0);
    let large = DriveOptions { physical_sector: SectorSize::B4096, ..drive_options() };
    let small = DriveOptions { physical_sector: SectorSize::B512, ..drive_options() };
    for name in ["a", "b", "c"] {
        bench.sim.add_drive(name, large.clone());
    }
    for name in ["x", "y", "z"] {
        bench.sim.add_drive(name, small.clone());
    }
    bench.boot(&[]);
    bench
}

fn set(bench: &mut Bench, volume: &str, format: SectorFormat) -> Vec<String> {
    let set = SetPolicy {
        volume: volume.to_owned(),
        sector_format: Some(format),
        ..SetPolicy::default()
    };
    match bench.ask(Command::VolumePolicy(set)) {
        Ok(Reply::Volume { notes, .. }) => notes,
        other => panic!("{other:?}"),
    }
}

/// The sizes advertised to a new connection.
fn told(bench: &Bench, volume: &str) -> TargetGeometry {
    bench.shards[0].volume_named(volume).expect("the volume is online").geometry()
}

fn sizes(geometry: &TargetGeometry) -> (u64, u64, u64) {
    let sectors = geometry.host_sectors;
    (sectors.logical.bytes().0, sectors.physical.bytes().0, geometry.smallest_request.0)
}

fn about(volume: &VolumeInfo) -> (String, String) {
    let policy = volume
        .policies
        .iter()
        .find(|policy| policy.name == "sector")
        .expect("the sizes are advertised");
    (policy.configured.clone(), policy.reason.clone())
}

#[test]
fn hosts_that_connect_are_told_what_was_chosen_and_it_outlives_the_controller() {
    let mut bench = bench();
    bench.create_with("large", "raid5", &["a", "b", "c"], |_| {}).expect("it is created");
    bench
        .create_with("small", "raid5", &["x", "y", "z"], |wanted| {
            wanted.sector_format = Some(SectorFormat::Emulated512)
        })
        .expect("it is created");
    assert_eq!(sizes(&told(&bench, "large")), (512, 4096, 1));
    assert_eq!(sizes(&told(&bench, "small")), (512, 4096, 512));
    set(&mut bench, "large", SectorFormat::Native4096);
    assert_eq!(sizes(&told(&bench, "large")), (4096, 4096, 4096));
    let shown = bench.show("large");
    assert_eq!((shown.sector_bytes, shown.physical_sector_bytes), (4096, 4096));
    bench.restart(&["a", "b", "c", "x", "y", "z"]);
    assert_eq!(sizes(&told(&bench, "large")), (4096, 4096, 4096));
    assert_eq!(about(&bench.show("small")).0, "512e");
    assert!(set(&mut bench, "small", SectorFormat::Default)[0].contains("when they reconnect"));
    assert_eq!(sizes(&told(&bench, "small")), (512, 512, 1));
}

/// Writes of any alignment succeed, whatever was advertised: hosts need not respect it.
#[test]
fn a_write_of_less_than_a_sector_is_carried_out_all_the_same() {
    let mut bench = bench();
    bench
        .create_with("v", "raid5", &["a", "b", "c"], |wanted| {
            wanted.sector_format = Some(SectorFormat::Native4096)
        })
        .expect("it is created");
    bench.write("v", 700, 7, 100);
    bench.expect("v", 700, 7, 100);
    bench.expect("v", 800, 0, 100);
}

#[test]
fn hosts_that_are_not_told_of_large_sectors_are_a_warning_that_says_what_to_run() {
    let mut bench = bench();
    bench.create_with("v", "raid5", &["a", "b", "c"], |_| {}).expect("it is created");
    let notes = set(&mut bench, "v", SectorFormat::Native512);
    let warning = "a, b, c have sectors of 4 KiB";
    assert!(
        notes[0].contains(warning) && notes[0].contains("softroc volume set v --sector 512e"),
        "{notes:?}"
    );
    assert!(about(&bench.show("v")).1.contains(warning));
    set(&mut bench, "v", SectorFormat::Emulated512);
    assert!(!about(&bench.show("v")).1.contains(warning));
}

/// A partition that begins at sector 63 makes nearly every write unaligned; a few such writes cause
/// no event.
#[test]
fn writes_that_are_not_aligned_are_told_of_once_and_only_where_drives_have_large_sectors() {
    let mut bench = bench();
    bench.create_with("large", "raid0", &["a", "b", "c"], |_| {}).expect("it is created");
    bench.create_with("small", "raid0", &["x", "y", "z"], |_| {}).expect("it is created");
    let text = "were not aligned to 4 KiB";
    let round = |bench: &mut Bench, start: u64| {
        for at in 0..1000 {
            bench.write("large", start + at % 64 * 8192, 1, 4096);
            bench.write("small", start + at % 64 * 8192, 1, 4096);
        }
        bench.wait(600);
    };
    round(&mut bench, 0);
    assert_eq!(bench.count_events(text), 0);
    round(&mut bench, 63 * 512);
    let events = bench.events();
    let told: Vec<_> = events.iter().filter(|event| event.text.contains(text)).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].text.starts_with("1000 of the last 1000 host writes to 'large'"),
        "{:?}",
        told[0]
    );
    assert!(about(&bench.show("large")).1.contains("are not aligned"));
    assert!(!about(&bench.show("small")).1.contains("are not aligned"));
    round(&mut bench, 63 * 512);
    assert_eq!(bench.count_events(text), 1);
    round(&mut bench, 0);
    assert!(!about(&bench.show("large")).1.contains("are not aligned"));
}
