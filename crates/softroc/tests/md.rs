//! A real Linux md assembles SoftROC's arrays in an emulated machine: `scripts/md-guest` creates
//! its kernel and initial file system, and QEMU runs it without this computer's kernel. md finds
//! level, layout and size in the metadata on the drives, reads the same bytes as SoftROC, also with
//! missing drives, and finds no wrong parity. If md does not know the DDF code, the layout is
//! passed to it, and it must find the same bytes. SoftROC treats arrays that md has written to as
//! foreign. Conversely, arrays of `mdadm --create` are imported, with their data.
//!
//! `MD_TESTS=all` tests all kinds of arrays, otherwise a few; each is one boot.

mod common;

use common::guest::{Guest, Keep, Verdict};
use common::host::Host;
use common::judged::{self, Judged, KINDS, Kind, Known};
use common::{Controller, Folder, have, run};
use std::path::PathBuf;

/// The script of the guest.
const FUNCTIONS: &str = r#"
volumes() { for b in /sys/block/md*; do [ "$(cat $b/size)" = 0 ] || basename $b; done; }
idle() { while [ "$(cat /sys/block/$1/md/sync_action 2>/dev/null || echo idle)" != idle ]; do sleep 0.1; done; }
assemble() { # NAME DRIVE...: nothing is written before something is
    n=$1; shift
    echo 1 >/sys/module/md_mod/parameters/start_ro
    mdadm --assemble /dev/md/c --metadata=ddf "$@" 2>&1 | sed "s/^/SAID $n /"
    mdadm --incremental --run /dev/md/c 2>&1 | sed "s/^/SAID $n /"
}
told() { # NAME LEVEL LAYOUT SIZE_KIB DRIVE...: metadata that leave the data where they are
    n=$1; level=$2; layout=$3; size=$4; shift 4
    echo 1 >/sys/module/md_mod/parameters/start_ro
    mdadm --create /dev/md/c --run --force --assume-clean --metadata=1.0 --bitmap=none --level=$level --layout=$layout \
        --chunk=64 --size=$size --raid-devices=$# "$@" </dev/null 2>&1 | sed "s/^/SAID $n /"
}
look() { # NAME: what was assembled, what it holds, and whether its redundancy agrees
    for d in $(volumes); do
        m=/sys/block/$d/md
        echo "VOLUME $1 $(cat $m/level) $(cat $m/layout) $(cat $m/chunk_size) $(cat $m/raid_disks) $(cat /sys/block/$d/size) $(cat $m/degraded 2>/dev/null || echo 0) $(cat $m/resync_start 2>/dev/null | grep -v 0 || echo none)"
        echo "HASH $1 $(sha256sum </dev/$d)"
        [ $(cat $m/level) = raid0 ] && continue
        mdadm --readwrite /dev/$d; idle $d
        echo check >$m/sync_action; sleep 0.1; idle $d
        echo "MISMATCHES $1 $(cat $m/mismatch_cnt)"
    done
}
change() { # NAME: writes in the middle of a strip, and over its end
    for d in $(volumes); do
        mdadm --readwrite /dev/$d
        yes changed | dd of=/dev/$d bs=1000 count=100 seek=33 iflag=fullblock conv=notrunc 2>/dev/null
        sync
        echo "HASH $1 $(sha256sum </dev/$d)"
    done
}
made() { # NAME LEVEL BITMAP DRIVE...: as mdadm makes it, with lines of numbers at both ends
    n=$1; level=$2; bitmap=--bitmap=$3; shift 3
    [ $level = 0 ] && bitmap=
    mdadm --create /dev/md/c --run --assume-clean --homehost=guest --name=$n --level=$level $bitmap \
        --raid-devices=$# "$@" </dev/null 2>&1 | sed "s/^/SAID $n /"
    for d in $(volumes); do
        last=$(($(cat /sys/block/$d/size) / 2048 - 1))
        seq 1000000 1140000 | dd of=/dev/$d bs=1M count=1 iflag=fullblock 2>/dev/null
        seq 2000000 2140000 | dd of=/dev/$d bs=1M count=1 seek=$last iflag=fullblock 2>/dev/null
        sync
        echo "SECTORS $n $(cat /sys/block/$d/size)"
        echo "FIRST $n $(dd if=/dev/$d bs=1M count=1 2>/dev/null | sha256sum)"
        echo "LAST $n $(dd if=/dev/$d bs=1M count=1 skip=$last 2>/dev/null | sha256sum)"
    done
    end
    mdadm --examine $1 | sed -n "s/^ *\(Data Offset\|Unused Space\) : /EXAMINED $n \1 /p"
}
end() {
    mdadm --wait-clean --scan
    for d in $(volumes); do mdadm --stop /dev/$d; done
    [ -e /dev/md/c ] && mdadm --stop /dev/md/c
}
"#;

/// Adds an array that the guest checks, with a name.
fn look_at(guest: &mut Guest, name: &str, kind: Kind, drives: &[String]) {
    let drives = drives.join(" ");
    let assemble = match kind.known {
        Known::Structures(..) => format!("assemble {name} {drives}"),
        Known::Explicit(level, layout) => {
            format!("told {name} {level} {layout} {} {drives}", judged::MEMBER_BYTES >> 10)
        }
    };
    guest.script += &format!("{assemble}; look {name}; end\n");
}

/// A guest with the functions of these tests.
fn guest() -> Option<Guest> {
    let mut guest = Guest::new("the guest with Linux md")?;
    guest.script += FUNCTIONS;
    Some(guest)
}

/// The hash of a volume's content, read through SoftROC, as `sha256sum` prints it.
fn hash_of(controller: &Controller, volume: &str) -> String {
    let copy = controller.folder.file("copy.img");
    run("nbdcopy", &[&controller.uri(volume), &copy]);
    let said = run("sh", &["-c", "sha256sum <\"$1\"", "sh", &copy]);
    said.trim_end().to_owned()
}

fn takes_all() -> bool {
    std::env::var("MD_TESTS").is_ok_and(|which| which == "all")
}

/// All kinds, or RAID 1E on an odd number of drives, 10, 5, 6, and one whose layout is passed to
/// md.
fn kinds() -> Vec<Kind> {
    let sample = ["raid10-4", "raid1e-5", "raid5-4ls", "raid5-4rs", "raid6-5dnc"];
    KINDS.into_iter().filter(|kind| takes_all() || sample.contains(&kind.name().as_str())).collect()
}

/// The remaining drives of an array: without the second, and without the last if it survives two
/// failures.
fn left(kind: Kind, drives: &[String]) -> Vec<String> {
    let lost = [1, kind.drives - 1];
    let lost = &lost[..kind.survives()];
    drives
        .iter()
        .enumerate()
        .filter(|(slot, _)| !lost.contains(slot))
        .map(|(_, drive)| drive.clone())
        .collect()
}

fn copies(judged: &Judged, folder: &Folder) -> Vec<PathBuf> {
    let copy = |drive: &PathBuf| {
        let copy = folder.0.join(drive.file_name().expect("a file"));
        std::fs::copy(drive, &copy).expect("a copy");
        copy
    };
    judged.drives.iter().map(copy).collect()
}

#[test]
fn linux_md_reads_what_softroc_wrote_and_what_it_changes_is_foreign() {
    if !have("nbdcopy") {
        return;
    }
    let Some(mut guest) = guest() else { return };
    let mut controller = Controller::new("md");
    let mut all: Vec<Judged> =
        kinds().into_iter().map(|kind| judged::make(&controller, kind)).collect();
    all.push(moved(&controller));
    let hashes: Vec<String> = all.iter().map(|judged| hash_of(&controller, &judged.name)).collect();
    // One more array, written to while a drive was offline.
    let degraded = judged::make(&controller, Kind { arrangement: None, ..kind_of("raid5") });
    controller.softroc(&["drive", "fail", &format!("{}:2", degraded.name)]).ok();
    judged::write(&controller, &degraded.name, 77_777, &common::pattern(9, 300_001));
    let degraded_hash = hash_of(&controller, &degraded.name);
    controller.stop();

    for judged in &all {
        let drives = guest.give(&judged.drives, Keep::Nothing);
        look_at(&mut guest, &judged.name, judged.kind, &drives);
        if judged.kind.is_redundant() && matches!(judged.kind.known, Known::Structures(..)) {
            let name = format!("{}-without", judged.name);
            look_at(&mut guest, &name, judged.kind, &left(judged.kind, &drives));
        }
    }
    let drives = guest.give(&degraded.drives, Keep::Nothing);
    look_at(
        &mut guest,
        "degraded",
        Kind { known: Known::Structures("raid5", 2), ..degraded.kind },
        &drives,
    );
    let changed = all.iter().find(|judged| judged.kind.level == "raid6").expect("it is among them");
    let machine = Folder::new("md-changed");
    let changed_drives = copies(changed, &machine);
    let drives = guest.give(&changed_drives, Keep::Everything).join(" ");
    guest.script += &format!("assemble changed {drives}; change changed; end\n");

    let verdict = guest.run();
    for (judged, hash) in all.iter().zip(&hashes) {
        expect_verdict(&verdict, judged, hash);
    }
    verdict.expect("HASH", "degraded", &degraded_hash);
    expect_foreign(&verdict, &changed.name, &changed_drives);
}

/// A volume that was migrated from RAID 5 on three drives to RAID 6 on five while in use.
fn moved(controller: &Controller) -> Judged {
    let kind = Kind { drives: 3, arrangement: None, ..kind_of("raid5") };
    let Judged { name, mut drives, .. } = judged::make(controller, kind);
    controller.softroc(&["volume", "set", &name, "--write-mode", "write-through"]).ok();
    let more = controller.file_drives_of(judged::DRIVE, 2);
    let mut migrate = vec!["volume", "migrate", &name, "--level", "raid6", "--add"];
    migrate.extend(more.iter().map(String::as_str));
    controller.softroc(&migrate).ok();
    controller.wait_optimal(&name);
    let capacity = controller.capacity(&name);
    // In its new space.
    judged::write(controller, &name, capacity - 77_777, &common::pattern(5, 77_777));
    drives.extend(more.into_iter().map(PathBuf::from));
    let arrangement = Some("ddf-n-continue");
    let kind = Kind {
        arrangement,
        level: "raid6",
        drives: 5,
        known: Known::Structures("raid6", 10),
        ..kind
    };
    Judged { kind, name, drives, capacity }
}

fn kind_of(level: &str) -> Kind {
    *KINDS.iter().find(|kind| kind.level == level).expect("there is one of that level")
}

fn expect_verdict(verdict: &Verdict, judged: &Judged, hash: &str) {
    let Judged { kind, name, capacity, .. } = judged;
    verdict.expect("HASH", name, hash);
    if kind.is_redundant() {
        verdict.expect("MISMATCHES", name, "0");
    }
    let Known::Structures(level, layout) = kind.known else { return };
    // Level, layout, strip, drives, sectors, missing drives, position of a pending resync.
    let strip = judged::STRIP_BYTES;
    let of = |missing: usize| {
        format!("{level} {layout} {strip} {} {} {missing} none", kind.drives, capacity / 512)
    };
    verdict.expect("VOLUME", name, &of(0));
    if kind.is_redundant() {
        let without = format!("{name}-without");
        verdict.expect("VOLUME", &without, &of(kind.survives()));
        verdict.expect("HASH", &without, hash);
    }
}

/// Drives that md wrote to: SoftROC serves no volume of them and says why, and `rescue` reads md's
/// content.
fn expect_foreign(verdict: &Verdict, volume: &str, drives: &[PathBuf]) {
    let paths: Vec<&str> =
        drives.iter().map(|drive| drive.to_str().expect("paths are text")).collect();
    let mut controller = Controller::unstarted("md-foreign");
    controller.arguments.push("--drives".to_owned());
    controller.arguments.extend(paths.iter().map(|path| (*path).to_owned()));
    controller.start();
    let volumes = controller.json(&["volume", "list"]);
    assert!(volumes["volumes"].as_array().is_some_and(Vec::is_empty), "{volumes}");
    let listed = controller.softroc(&["drive", "list"]).ok();
    let listed_json = controller.json(&["drive", "list"]).to_string();
    let why = "other software has changed";
    assert!(listed_json.matches(why).count() >= drives.len(), "{listed_json}\n{listed}");
    controller.stop();

    let mut arguments = vec!["rescue", "--json"];
    arguments.extend(&paths);
    let found = common::softroc(&arguments).ok();
    let found: serde_json::Value = serde_json::from_str(&found).expect("JSON");
    let rescued = &found["volumes"][0];
    assert_eq!(
        (&rescued["name"], &rescued["state"]),
        (&volume.into(), &"complete".into()),
        "{found}"
    );
    assert!(verdict.of("HASH", "changed").is_some(), "{}", verdict.0);
}

/// Arrays of mdadm with defaults: level, number and size of drives, bitmap. 32 GiB is the smallest
/// size for which mdadm leaves 33 MiB before the data; the remainder is less than a strip.
const MADE: [(&str, &str, usize, u64, &str); 9] = [
    ("m0", "0", 3, MORE, "none"),
    ("m1", "1", 2, MORE, "internal"),
    ("m10", "10", 4, MORE, "internal"),
    ("m10odd", "10", 3, MORE, "none"),
    ("m4", "4", 3, MORE, "none"),
    ("m5", "5", 3, MORE, "internal"),
    ("m6", "6", 4, MORE, "internal"),
    ("m1full", "1", 2, FULL, "none"),
    ("m5full", "5", 3, FULL, "internal"),
];
const FULL: u64 = 32 << 30;
const MORE: u64 = FULL + (300 << 10);

/// The hash of a MiB of a volume, as `sha256sum` prints it.
fn hash_at(controller: &Controller, volume: &str, at: u64) -> String {
    let mut host = Host::connect(&controller.nbd_socket(), volume).expect("the volume is served");
    let part = controller.folder.file("part.img");
    std::fs::write(&part, host.read(at, 1 << 20).expect("it is read")).expect("a file");
    run("sh", &["-c", "sha256sum <\"$1\"", "sh", &part]).trim_end().to_owned()
}

#[test]
fn arrays_as_mdadm_makes_them_are_imported_with_their_data() {
    let Some(mut guest) = guest() else { return };
    let folder = Folder::new("md-made");
    let mut all: Vec<(&str, Vec<PathBuf>)> = Vec::new();
    for (name, level, count, size, bitmap) in MADE {
        let drives: Vec<PathBuf> =
            (0..count).map(|slot| folder.0.join(format!("{name}.{slot}.img"))).collect();
        for drive in &drives {
            std::fs::File::create(drive)
                .and_then(|file| file.set_len(size))
                .expect("a sparse file");
        }
        let given = guest.give(&drives, Keep::Everything).join(" ");
        guest.script += &format!("made {name} {level} {bitmap} {given}\n");
        all.push((name, drives));
    }
    let verdict = guest.run();

    let controller = Controller::new("md-made");
    for (name, drives) in &all {
        let mut add = vec!["drive", "add"];
        add.extend(drives.iter().map(|drive| drive.to_str().expect("paths are text")));
        controller.softroc(&add).ok();
        let text = controller.softroc(&["foreign", "import", name, "--yes"]).ok();
        let capacity = controller.capacity(name);
        verdict.expect("SECTORS", name, &(capacity / 512).to_string());
        let last = (capacity / (1 << 20) - 1) << 20;
        let expect = |what: &str| {
            verdict.expect("FIRST", name, &hash_at(&controller, name, 0));
            verdict.expect("LAST", name, &hash_at(&controller, name, last));
            assert_ne!(controller.show(name)["state"], "offline", "{what}: {text}");
        };
        expect("imported");
        if *name != "m0" {
            controller.softroc(&["drive", "fail", &format!("{name}:1")]).ok();
            expect("without a drive");
        }
    }
}
