//! All levels in all states, tested with external programs. fio writes and verifies over NBD while
//! as many drives are pulled as the level tolerates. They return, or blank ones replace them. The
//! output of nbdcopy is compared with the earlier content, and a check of the whole volume finds no
//! error.
//!
//! With `LEVELS_TESTS=all` each shape of up to six drives loses each maximal set of drives that it
//! survives; otherwise one shape of each level loses two such sets.

mod common;

use common::host::Host;
use common::mounted::{Mounted, can_mount};
use common::{Controller, have, pattern, pattern_file, run};
use layout::{Geometry, Level, Shape};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use units::{ByteCount, DriveCount, DriveIndex, DriveSet, StripSize};

/// The size of the drives: 32 MiB are the reserved tail, so that wide arrays have several regions.
const DRIVE: &str = "64M";
const DRIVE_BYTES: usize = 64 << 20;

/// The size of one run of fio.
const LOAD_BYTES: u64 = 4 << 20;

fn geometry(shape: &Shape) -> Geometry {
    shape.geometry(StripSize::KIB_64, ByteCount::GIB).expect("the shape can be")
}

/// All maximal sets of drives that may be lost.
fn largest_losses(shape: &Shape) -> Vec<DriveSet> {
    let (geometry, all) = (geometry(shape), DriveSet::first(shape.drives));
    let may_lose = |lost: &DriveSet| geometry.survives_set(lost);
    (1..1_u32 << shape.drives.0)
        .map(|bits| {
            shape.drives.indexes().filter(|drive| bits >> drive.0 & 1 == 1).collect::<DriveSet>()
        })
        .filter(|lost| {
            may_lose(lost) && !all.minus(lost).iter().any(|more| may_lose(&lost.with(more)))
        })
        .collect()
}

/// Two of the largest sets, with the fewest common drives.
fn sample_losses(shape: &Shape) -> Vec<DriveSet> {
    let all = largest_losses(shape);
    let Some(first) = all.iter().max_by_key(|lost| lost.count()).copied() else {
        return Vec::new();
    };
    let second = all.iter().max_by_key(|lost| (lost.minus(&first).count(), lost.count())).copied();
    [Some(first), second].into_iter().flatten().collect()
}

/// One shape of each level.
fn sample(level: Level) -> Shape {
    let shape = |drives| Shape::new(level, DriveCount(drives));
    match level {
        Level::Jbod => shape(1),
        Level::Raid0 | Level::Raid1 => shape(3),
        Level::Raid00 | Level::Raid4 => shape(4),
        Level::Raid1e | Level::Raid5 | Level::Raid5ee => shape(5),
        Level::Raid10 => Shape { spans: Some(2), ..shape(6) },
        Level::Raid6 => shape(6),
        Level::Raid50 => Shape { spans: Some(2), ..shape(6) },
        Level::Raid60 => Shape { spans: Some(2), ..shape(8) },
    }
}

/// All shapes of a level with up to six drives, with the default layout; the sample if there is
/// none.
fn all_shapes(level: Level) -> Vec<Shape> {
    let row = level.row();
    let spans: Vec<Option<u16>> =
        if row.is_spanned() { (2..=3).map(Some).collect() } else { vec![None] };
    let copies: Vec<Option<u16>> = match level {
        Level::Raid1e => (2..=6).map(Some).collect(),
        _ => vec![None],
    };
    let mut shapes = Vec::new();
    for drives in 1..=6 {
        for (&spans, &copies) in
            spans.iter().flat_map(|spans| copies.iter().map(move |copies| (spans, copies)))
        {
            let shape = Shape { spans, copies, ..Shape::new(level, DriveCount(drives)) };
            shapes.extend(shape.check().is_ok().then_some(shape));
        }
    }
    if shapes.is_empty() { vec![sample(level)] } else { shapes }
}

/// fio, which repeatedly writes and verifies the second half of a volume until it is stopped.
struct Load {
    end: Arc<AtomicBool>,
    runs: Arc<AtomicU32>,
    fio: std::thread::JoinHandle<()>,
}

impl Load {
    fn start(bed: &Bed) -> Load {
        let (end, runs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let half = bed.capacity / 2;
        let (uri, size) = (bed.controller.uri("v"), LOAD_BYTES.min(half));
        let fio = std::thread::spawn({
            let (end, runs) = (end.clone(), runs.clone());
            move || {
                // The last run is completed and verified like all others.
                for seed in 1.. {
                    verified_run(&uri, half, size, seed);
                    runs.store(seed, Ordering::Relaxed);
                    if end.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        });
        Load { end, runs, fio }
    }

    /// Waits until it is running.
    fn wait(&self) {
        while self.runs.load(Ordering::Relaxed) == 0 && !self.fio.is_finished() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn finish(self) {
        self.end.store(true, Ordering::Relaxed);
        self.fio.join().expect("fio verifies its data");
    }
}

/// fio cannot order overlapping writes: all blocks of a run have one size.
fn verified_run(uri: &str, offset: u64, size: u64, seed: u32) {
    let block = ["4k", "12k", "192k", "64k"][seed as usize % 4];
    let said = run(
        "fio",
        &[
            "--name=load",
            "--thread",
            "--ioengine=nbd",
            &format!("--uri={uri}"),
            &format!("--offset={}", offset.next_multiple_of(192 << 10)),
            &format!("--size={}", size / 2),
            "--rw=randrw",
            &format!("--bs={block}"),
            "--iodepth=8",
            "--rate=8m",
            "--verify=crc32c",
            "--do_verify=1",
            "--verify_fatal=1",
            "--verify_state_save=0",
            &format!("--randseed={seed}"),
            "--fsync=64",
        ],
    );
    assert!(said.contains("err= 0"), "{said}");
}

/// A volume under test. Its first half has a pattern that is not overwritten.
struct Bed {
    controller: Controller,
    shape: Shape,
    capacity: u64,
    replacements: usize,
}

impl Bed {
    fn new(shape: Shape) -> Bed {
        let controller =
            Controller::with(&format!("{}-{}", shape.level, shape.drives), &["--shards", "2"]);
        let paths = controller.file_drives_of(DRIVE, shape.drives.as_usize());
        let mut arguments: Vec<String> =
            ["volume", "create", "v", "--level", shape.level.name(), "--strip", "64K"]
                .map(String::from)
                .into();
        arguments
            .extend(shape.spans.iter().flat_map(|spans| ["--spans".to_owned(), spans.to_string()]));
        arguments.extend(
            shape.copies.iter().flat_map(|copies| ["--copies".to_owned(), copies.to_string()]),
        );
        arguments.push("--drives".into());
        arguments.extend(paths);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        controller.softroc(&arguments).ok();
        let capacity = controller.capacity("v");
        let bed = Bed { controller, shape, capacity, replacements: 0 };
        pattern_file(&bed.controller.folder.0.join("pattern.img"), 1, bed.capacity as usize / 2);
        run("nbdcopy", &["--flush", &bed.file("pattern.img"), &bed.controller.uri("v")]);
        bed
    }

    fn file(&self, name: &str) -> String {
        self.controller.folder.file(name)
    }

    /// Reads the whole export; its first half must be the pattern.
    fn image(&self, name: &str) -> String {
        let path = self.file(name);
        run("nbdcopy", &["--connections=4", &self.controller.uri("v"), &path]);
        let half = (self.capacity / 2).to_string();
        run("cmp", &["-n", &half, &self.file("pattern.img"), &path]);
        path
    }

    fn slot(drive: DriveIndex) -> String {
        format!("v:{drive}")
    }

    /// Pulls drives while fio writes, and returns the failed ones. One more is rejected, except
    /// after a rebuild into a distributed spare.
    fn pull(&self, lost: &DriveSet, load: &Load) -> DriveSet {
        load.wait();
        let all = DriveSet::first(self.shape.drives);
        let mut out = *lost;
        lost.iter().for_each(|drive| self.fail(drive));
        if !lost.is_empty() {
            assert_eq!(self.controller.show("v")["state"], "degraded");
        }
        if geometry(&self.shape).spare_strips() > 0 {
            self.wait_until(|show| show["may_lose"] == 1);
            let more = all.minus(lost).iter().next().expect("there are others");
            self.fail(more);
            out.insert(more);
        }
        for drive in all.minus(&out).iter() {
            let said = self.controller.softroc(&["drive", "fail", &Bed::slot(drive)]).refused();
            assert!(said.contains("needs drive"), "{said}");
        }
        out
    }

    fn fail(&self, drive: DriveIndex) {
        self.controller.softroc(&["drive", "fail", &Bed::slot(drive)]).ok();
    }

    fn wait_until(&self, is_so: impl Fn(&serde_json::Value) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(300);
        loop {
            let show = self.controller.show("v");
            if is_so(&show) {
                return;
            }
            assert!(Instant::now() < deadline, "it never is: {show}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The pulled drives return.
    fn bring_back(&self, lost: &DriveSet) {
        for drive in lost.iter() {
            self.controller.softroc(&["drive", "online", &Bed::slot(drive)]).ok();
        }
    }

    /// Other drives replace them; their content is ignored.
    fn replace(&mut self, lost: &DriveSet) {
        for drive in lost.iter() {
            self.replacements += 1;
            let path = self.file(&format!("new{}.img", self.replacements));
            pattern_file(path.as_ref(), 100 + self.replacements as u64, DRIVE_BYTES);
            let slot = Bed::slot(drive);
            self.controller
                .softroc(&["drive", "replace", &slot, "--with", &path, "--destroy-data"])
                .ok();
        }
    }

    /// A check of the whole volume finds no inconsistency.
    fn check(&self) {
        let begun = self.controller.json(&["task", "start", "check", "v"])["task"].clone();
        let check = self.controller.wait_task(&begun);
        assert_eq!((&check["state"], &check["percent"]), (&"done".into(), &100.into()), "{check}");
        for what in ["mismatches", "unreadable", "unrecoverable_bytes"] {
            assert_eq!(check["found"][what], 0, "{check}");
        }
    }
}

/// Loses and restores the drives, one set after the other; alternately the old drives return and
/// new ones replace them.
fn judge(shape: Shape, losses: &[DriveSet]) {
    let mut bed = Bed::new(shape);
    if losses.is_empty() {
        let load = Load::start(&bed);
        bed.pull(&DriveSet::EMPTY, &load);
        load.finish();
        bed.image("image.img");
    }
    for (round, lost) in losses.iter().enumerate() {
        let load = Load::start(&bed);
        let lost = &bed.pull(lost, &load);
        if round % 2 == 0 {
            load.finish();
            let before = bed.image("before.img");
            bed.bring_back(lost);
            bed.controller.wait_optimal("v");
            run("cmp", &[&before, &bed.image("after.img")]);
        } else {
            bed.replace(lost);
            bed.controller.wait_optimal("v");
            load.finish();
        }
        bed.check();
    }
    // The rebuilt drives are now the source of the others.
    if let [first, _, ..] = losses {
        let before = bed.image("before.img");
        first.iter().for_each(|drive| bed.fail(drive));
        run("cmp", &[&before, &bed.image("after.img")]);
    }
}

fn judge_level(level: Level) {
    if !["fio", "nbdcopy", "cmp"].iter().all(|program| have(program)) {
        return;
    }
    if std::env::var_os("LEVELS_TESTS").is_none_or(|tests| tests != "all") {
        let shape = sample(level);
        return judge(shape, &sample_losses(&shape));
    }
    for shape in all_shapes(level) {
        let losses = largest_losses(&shape);
        eprintln!("{}: {} losses", geometry(&shape), losses.len());
        judge(shape, &losses);
    }
}

#[test]
fn jbod_keeps_what_was_written() {
    judge_level(Level::Jbod);
}

#[test]
fn raid0_keeps_what_was_written() {
    judge_level(Level::Raid0);
}

#[test]
fn raid00_keeps_what_was_written() {
    judge_level(Level::Raid00);
}

#[test]
fn raid1_survives_its_losses_and_rebuilds() {
    judge_level(Level::Raid1);
}

#[test]
fn raid1e_survives_its_losses_and_rebuilds() {
    judge_level(Level::Raid1e);
}

#[test]
fn raid10_survives_its_losses_and_rebuilds() {
    judge_level(Level::Raid10);
}

#[test]
fn raid4_survives_its_losses_and_rebuilds() {
    judge_level(Level::Raid4);
}

#[test]
fn raid5_survives_its_losses_and_rebuilds() {
    judge_level(Level::Raid5);
}

#[test]
fn raid5ee_survives_its_losses_and_rebuilds() {
    judge_level(Level::Raid5ee);
}

#[test]
fn raid6_survives_its_losses_and_rebuilds() {
    judge_level(Level::Raid6);
}

#[test]
fn raid50_survives_its_losses_and_rebuilds() {
    judge_level(Level::Raid50);
}

#[test]
fn raid60_survives_its_losses_and_rebuilds() {
    judge_level(Level::Raid60);
}

#[test]
fn the_sample_has_every_level_and_loses_as_many_drives_as_it_survives() {
    for level in Level::ALL {
        let (shape, losses) = (sample(level), sample_losses(&sample(level)));
        assert_eq!(losses.is_empty(), !level.is_redundant(), "{level}");
        let most = geometry(&shape).survives().at_most;
        assert!(losses.iter().all(|lost| level.is_redundant() && lost.count() <= most), "{level}");
        assert!(losses.first().is_none_or(|lost| lost.count() == most), "{level}");
    }
}

#[test]
fn a_file_system_lives_through_losses_and_rebuilds() {
    if !can_mount() {
        return;
    }
    let controller = Controller::with("ext4-raid6", &["--shards", "2"]);
    controller.volume("v", "raid6", 5);
    let mounted = match Mounted::new(&controller, "v") {
        Err(why) => return common::not_possible("a file system on it", &why),
        Ok(mounted) => mounted,
    };
    let copy = |name: &str| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let target = format!("{}/{name}", mounted.mount);
        run("cp", &["-r", source, &target]);
        run("sync", &[&mounted.mount]);
        run("diff", &["-r", source, &target]);
    };
    copy("all drives");
    for drive in ["v:1", "v:3"] {
        controller.softroc(&["drive", "fail", drive]).ok();
    }
    copy("two lost");
    let blank = controller.folder.file("blank.img");
    controller.softroc(&["drive", "add", "--create", common::DRIVE, &blank]).ok();
    controller.softroc(&["drive", "replace", "v:1", "--with", &blank]).ok();
    controller.softroc(&["drive", "online", "v:3"]).ok();
    copy("while they are rebuilt");
    controller.wait_optimal("v");
    // All data are read from rebuilt drives.
    for drive in ["v:0", "v:2"] {
        controller.softroc(&["drive", "fail", drive]).ok();
    }
    run("umount", &[&mounted.mount]);
    run("fsck.ext4", &["-f", "-n", &mounted.device]);
    run("mount", &[&mounted.device, &mounted.mount]);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    for name in ["all drives", "two lost", "while they are rebuilt"] {
        run("diff", &["-r", source, &format!("{}/{name}", mounted.mount)]);
    }
    run("umount", &[&mounted.mount]);
}

/// A returning drive is stale by its label: one of four regions was written without it, and only
/// that region is rebuilt. Deliberately damaged bytes show that the others are unchanged.
#[test]
fn a_drive_that_comes_back_is_given_only_what_it_missed() {
    const REGIONS: u64 = 4;
    const REGION: u64 = 64 << 20;
    const WRITTEN: u64 = 2;
    let mut controller = Controller::with("stale", &["--shards", "2"]);
    let paths = controller.file_drives_of("160M", 3);
    controller.create("v", "raid5", &paths).ok();
    let info = controller.show("v");
    assert_eq!(info["capacity_bytes"], REGIONS * REGION);
    for region in 0..REGIONS {
        write(&controller, region * REGION, &pattern(region, 1 << 20));
    }
    controller.stop();
    let away = controller.folder.file("away.img");
    std::fs::rename(&paths[1], &away).expect("the drive is taken away");
    controller.start();
    assert_eq!(controller.show("v")["drives"][1]["state"], "missing");
    write(&controller, WRITTEN * REGION, &pattern(100, 1 << 20));
    controller.stop();

    // Damage the drive, in an unchanged region and in the written one.
    let file =
        std::fs::File::options().read(true).write(true).open(&away).expect("the drive is a file");
    let start = info["data_start_bytes"].as_u64().expect("where the data begins");
    let share = info["member_bytes"].as_u64().expect("what the volume has of the drive") / REGIONS;
    let place = |region: u64| start + region * share + 4096;
    let before = bytes_at(&file, place(1));
    let spoilt = spoil(&file, [place(1), place(WRITTEN)]);

    std::fs::rename(&away, &paths[1]).expect("the drive is back");
    controller.start();
    assert!(
        read(&controller, WRITTEN * REGION) == pattern(100, 1 << 20),
        "the stale drive was believed"
    );
    let drive = controller.show("v")["drives"][1].clone();
    assert_eq!((&drive["state"], &drive["stale_regions"]), (&"stale".into(), &1.into()), "{drive}");
    controller.softroc(&["drive", "online", "v:1"]).ok();
    controller.wait_optimal("v");
    let tasks = controller.tasks();
    let rebuild = tasks.iter().find(|task| task["kind"] == "rebuild").expect("it was rebuilt");
    let rebuild = controller.wait_task(rebuild);
    assert_eq!(rebuild["state"], "done", "{rebuild}");
    for blocks in ["total_blocks", "done_blocks"] {
        assert_eq!(rebuild[blocks], share / 512, "one region's share of the drive: {rebuild}");
    }
    controller.stop();
    assert!(bytes_at(&file, place(1)) == spoilt, "a region was written that had missed nothing");
    assert!(
        bytes_at(&file, place(WRITTEN)) != spoilt,
        "the region that was missed was not rebuilt"
    );
    file.write_all_at(&before, place(1)).expect("it is as it was");
    file.sync_all().expect("it is as it was for good");

    controller.start();
    controller.softroc(&["drive", "fail", "v:0"]).ok();
    for region in 0..REGIONS {
        let expected = pattern(if region == WRITTEN { 100 } else { region }, 1 << 20);
        assert!(read(&controller, region * REGION) == expected, "region {region}");
    }
}

/// Overwrites blocks of a drive. Returns the data that each of them has now.
fn spoil(drive: &std::fs::File, places: [u64; 2]) -> Vec<u8> {
    let spoilt = pattern(7, 512);
    for place in places {
        drive.write_all_at(&spoilt, place).expect("it is spoilt");
    }
    drive.sync_all().expect("it is spoilt for good");
    spoilt
}

fn write(controller: &Controller, at: u64, data: &[u8]) {
    let mut host = Host::connect(&controller.nbd_socket(), "v").expect("the volume is served");
    host.write(at, data).expect("it is written");
    host.flush().expect("it is flushed");
}

fn read(controller: &Controller, at: u64) -> Vec<u8> {
    let mut host = Host::connect(&controller.nbd_socket(), "v").expect("the volume is served");
    host.read(at, 1 << 20).expect("it is read")
}

fn bytes_at(file: &std::fs::File, offset: u64) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    file.read_exact_at(&mut bytes, offset).expect("the drive has that much");
    bytes
}
