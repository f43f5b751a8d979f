//! The settings in effect for each preset, on each level, in each state: a golden text. To
//! regenerate it after a change: `SOFTROC_WRITE_DOCS=1 cargo test -p controller --test controller
//! presets::`.

#![allow(clippy::disallowed_methods, reason = "the text is compared with a file of the sources")]

use crate::common::{Bench, MIB, names};
use controller::{Command, DriveCache, Preset, SetPolicy, VolumeState};
use layout::Level;
use std::fmt::Write as _;
use std::path::Path;
use units::ByteCount;

/// As many drives as any level needs.
const DRIVES: usize = 8;

const TOLD: [&str; 6] =
    ["preset", "read-mode", "write-mode", "cache-mode", "drive-cache", "fast-path"];

fn line_of(bench: &mut Bench, health: &str) -> String {
    let volume = bench.show("data");
    let mut line = format!("  {health} ({})\n", volume.state);
    for name in TOLD {
        let policy = volume
            .policies
            .iter()
            .find(|policy| policy.name == name)
            .expect("the policy is listed");
        let configured = match policy.configured == policy.current {
            true => String::new(),
            false => format!(" (configured: {})", policy.configured),
        };
        writeln!(line, "    {name}: {}{configured}: {}", policy.current, policy.reason)
            .expect("text");
    }
    line
}

/// The policies of a volume with that level and preset: optimal, with one failed drive, and with so
/// many that it is offline.
fn told(level: Level, preset: Preset) -> String {
    let mut bench = Bench::in_order(7, 1, DRIVES);
    bench.cache_size = ByteCount(MIB);
    bench.read_cache = ByteCount(MIB);
    bench.boot(&[]);
    let all = names(DRIVES);
    // The smallest sufficient number of drives.
    let made = (1..=DRIVES).find(|count| {
        let drives: Vec<&str> = all[..*count].iter().map(String::as_str).collect();
        let created = bench.create_with("data", level.name(), &drives, |wanted| {
            let settings = preset.settings();
            wanted.read_mode = Some(settings.read_mode);
            wanted.write_mode = Some(settings.write_mode);
            wanted.cache_mode = Some(settings.cache_mode);
            wanted.drive_cache = Some(settings.drive_cache);
        });
        created.is_ok()
    });
    let made = made.unwrap_or_else(|| panic!("{level} needs more than {DRIVES} drives"));
    bench.settle("data");
    let mut text =
        format!("{level} of {made}, {}\n{}", preset.name(), line_of(&mut bench, "all drives"));
    for (lost, name) in all[..made].iter().enumerate() {
        bench.sim.drive(name).expect("the drive exists").fail_now();
        // I/O that detects the failure.
        drop(bench.try_write("data", 0, 1, MIB / 2));
        bench.wait(120);
        let state = bench.show("data").state;
        match state {
            VolumeState::Degraded if lost == 0 => {
                text.push_str(&line_of(&mut bench, "without a drive"))
            }
            VolumeState::Offline => {
                text.push_str(&line_of(&mut bench, "without too many"));
                break;
            }
            _ => {}
        }
    }
    text
}

#[test]
fn what_is_in_effect_of_every_preset_on_every_level_in_every_health() {
    let mut made = String::new();
    for level in Level::ALL {
        for preset in Preset::ALL {
            made.push_str(&told(level, *preset));
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/presets.txt");
    if std::env::var_os("SOFTROC_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        std::fs::write(&path, &made).expect("written");
    }
    let kept = std::fs::read_to_string(&path).expect("the golden text");
    assert!(kept == made, "{} is not current: see the top of this test\n{made}", path.display());
}

fn set_drive_cache(bench: &mut Bench, volume: &str, wish: DriveCache) {
    let set =
        SetPolicy { volume: volume.to_owned(), drive_cache: Some(wish), ..SetPolicy::default() };
    bench.ask(Command::VolumePolicy(set)).expect("the policy is set");
}

fn drive_cache(bench: &mut Bench, volume: &str) -> (String, String) {
    let policies = bench.show(volume).policies;
    let policy = policies
        .into_iter()
        .find(|policy| policy.name == "drive-cache")
        .expect("the policy is listed");
    (policy.current, policy.reason)
}

#[test]
fn with_the_drives_caches_off_a_write_that_is_answered_outlives_a_power_cut_without_a_flush() {
    for seed in 0..8 {
        let mut bench = Bench::in_order(seed, 2, 3);
        bench.boot(&[]);
        bench
            .create_with("data", "raid5", &["a", "b", "c"], |wanted| {
                wanted.drive_cache = Some(DriveCache::Off)
            })
            .expect("made");
        bench.settle("data");
        assert_eq!(drive_cache(&mut bench, "data").0, "off");
        for number in 0..20 {
            bench.write("data", number * 9000, 10 + number as u8, 5000);
        }
        // A power cut resets the setting: it is restored before hosts use the volume.
        for _ in 0..2 {
            bench.power_cycle(&["a", "b", "c"]);
            assert!(!bench.sim.drive("a").expect("the drive exists").has_write_cache());
            bench.write("data", 0, 10, 5000);
        }
        for number in 0..20 {
            bench.expect("data", number * 9000, 10 + number as u8, 5000);
        }
    }
}

#[test]
fn a_volume_that_wants_the_drives_caches_off_has_its_way_beside_one_that_wants_them_on() {
    let mut bench = Bench::in_order(3, 1, 3);
    bench.boot(&[]);
    for (name, wish) in [("one", DriveCache::On), ("two", DriveCache::Off)] {
        bench
            .create_with(name, "raid5", &["a", "b", "c"], |wanted| {
                wanted.drive_cache = Some(wish);
                wanted.size_bytes = Some(256 << 10);
            })
            .expect("created");
    }
    let (current, why) = drive_cache(&mut bench, "one");
    assert!(current == "off" && why.contains("'two'"), "{current}: {why}");
    assert!(!bench.sim.drive("b").expect("the drive exists").has_write_cache());
    set_drive_cache(&mut bench, "two", DriveCache::Unchanged);
    assert!(
        bench.sim.drive("b").expect("the drive exists").has_write_cache(),
        "no volume wants them off any more"
    );
    assert_eq!(drive_cache(&mut bench, "two").0, "on");
    set_drive_cache(&mut bench, "one", DriveCache::Off);
    assert!(bench.events().iter().any(|event| event.code == "volume.drive-cache-changed"));
    assert!(!bench.sim.drive("c").expect("the drive exists").has_write_cache());
}

/// The command line and the console alone chose a preset: StorCLI, Redfish and the API created
/// write-through volumes.
#[test]
fn a_volume_without_chosen_settings_has_the_default_preset() {
    let mut bench = Bench::in_order(8, 1, 3);
    bench.cache_size = ByteCount(MIB);
    bench.boot(&[]);
    let open = |wanted: &mut controller::CreateVolume| {
        (wanted.write_mode, wanted.read_mode) = (None, None);
        (wanted.cache_mode, wanted.drive_cache) = (None, None);
    };
    bench.create_with("data", "raid5", &["a", "b", "c"], open).expect("it is created");
    let policies = bench.show("data").policies;
    let defaults = controller::default_policies(["a", "b", "c"]);
    for (name, value) in &defaults {
        let policy = policies.iter().find(|policy| policy.name == *name);
        assert_eq!(policy.map(|policy| policy.configured.as_str()), Some(value.as_str()), "{name}");
    }
    assert!(defaults.contains(&("preset".to_owned(), "performance".to_owned())), "{defaults:?}");
}
