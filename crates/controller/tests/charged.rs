//! An error is counted against the drive that caused it, not against the drive that has its slot by
//! then.

use crate::common::{self, Bench, MIB};
use controller::{AddSpare, Command, DriveState, ErrorKind, SetPolicy, VolumeState};
use engine::{Report, ReportKind, ShardIndex};
use platform::{Buf, IoError, IoErrorKind};
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex};

/// Space for the label, and for a volume of several regions.
const DRIVE: u64 = common::DRIVE + 64 * MIB;

/// The second region begins here; another shard owns it.
const ELSEWHERE: u64 = 64 * MIB;

const STRIPE: u64 = 2 * 65536;

/// A volume on some drives with its first two regions written, on two shards; and a drive `r`.
fn bench(seed: u64, level: &str, drives: &[&str]) -> Bench {
    let mut bench = Bench::in_order(seed, 2, 0);
    bench.add_drives(drives, DRIVE);
    bench.add_drives(&["r"], DRIVE);
    bench.boot(&[]);
    bench.ask(Command::DriveAdd { drive: "r".into(), size_bytes: None }).unwrap();
    bench.create("data", level, drives);
    bench.write("data", 0, 1, STRIPE);
    bench.write("data", ELSEWHERE, 1, STRIPE);
    bench.settle("data");
    bench
}

fn replace(drive: &str, with: &str) -> Command {
    Command::DriveReplace { drive: drive.into(), with: with.into(), destroy_data: false }
}

/// Writes of two shards failed on a drive in a rebuild, and both shards reported it. After the
/// first report that drive was dropped. The second report failed the sound drive in the slot: a
/// RAID 0 volume was lost.
#[test]
fn a_replacement_that_fails_on_two_shards_is_dropped_and_the_drive_of_the_slot_stays() {
    for level in ["raid0", "raid1"] {
        let mut bench = bench(1, level, &["a", "b"]);
        bench.ask(replace("data:1", "r")).unwrap();
        bench.sim.drive("r").unwrap().vanish();
        let writes = [0, ELSEWHERE].map(|at| bench.begin_write("data", at, 2, STRIPE));
        for write in &writes {
            bench.sim.finish(write).unwrap().unwrap();
        }
        bench.settle("data");
        let info = bench.show("data");
        assert_eq!((info.state, &*info.drives[1].name), (VolumeState::Optimal, "b"), "{level}");
        assert_eq!(bench.count_events("does not replace drive b"), 1, "{level}");
        bench.expect("data", 0, 2, STRIPE);
        bench.expect("data", ELSEWHERE, 2, STRIPE);
    }
}

/// One shard could not open a replacement drive. The command was refused, but labels named the
/// drive, the other shard wrote to it, and no other drive could take its slot.
#[test]
fn a_drive_that_a_shard_cannot_fill_is_left_by_all() {
    for allowed in 0..2 {
        let mut bench = bench(3, "raid1", &["a", "b"]);
        let drive = bench.sim.drive("r").unwrap();
        drive.allow_attachments(Some(allowed));
        let why = bench.refused(ErrorKind::Failed, replace("data:1", "r"));
        assert!(why.contains("drive r cannot replace it"), "{why}");
        let free = bench.drive("r");
        assert_eq!(
            (free.state, free.volumes),
            (DriveState::Unused, vec![]),
            "{allowed} shards can open it"
        );
        drive.allow_attachments(None);
        bench.restart(&[]);
        assert_eq!(bench.drive("r").state, DriveState::Unused, "its label is erased");
        fill(&mut bench);
    }
}

/// The same where the refusal could not be recorded at once.
#[test]
fn a_drive_that_a_shard_cannot_fill_is_left_when_that_can_be_recorded() {
    let mut late = 0;
    for steps in (0..480).step_by(4) {
        let mut bench = bench(4, "raid1", &["a", "b"]);
        let drive = bench.sim.drive("r").unwrap();
        drive.allow_attachments(Some(1));
        let asked = bench.begin_ask(replace("data:1", "r"));
        for _ in 0..steps {
            bench.sim.step();
        }
        bench.sim.drive("a").unwrap().fail_next(u64::MAX, Some("write"), IoErrorKind::OutOfSpace);
        bench.sim.finish(&asked).unwrap().expect_err("a shard cannot use it");
        let is_taken = bench.drive("r").state != DriveState::Unused;
        late += u32::from(is_taken);
        bench.sim.drive("a").unwrap().cancel_failures();
        bench.wait(10);
        let free = bench.drive("r");
        assert_eq!((free.state, free.volumes), (DriveState::Unused, vec![]), "{steps} events");
        drive.allow_attachments(None);
        fill(&mut bench);
    }
    assert!(late > 1, "{late} could not be recorded");
}

/// The same drive takes the slot as soon as all shards can use it.
fn fill(bench: &mut Bench) {
    bench.write("data", 0, 2, STRIPE);
    bench.ask(replace("data:1", "r")).expect("the earlier attempt leaves nothing behind");
    bench.settle("data");
    for _ in 0..60 {
        bench.wait(1);
    }
    let info = bench.show("data");
    assert_eq!((info.state, &*info.drives[1].name), (VolumeState::Optimal, "r"));
    bench.expect("data", 0, 2, STRIPE);
    bench.expect("data", ELSEWHERE, 1, STRIPE);
}

/// A drive hung. A host's request timed out first: the drive was removed, failed soon, and a hot
/// spare took its slot. Then the controller's own flush of the old drive timed out, and the spare
/// was failed for it.
#[test]
fn a_flush_that_a_drive_did_not_answer_is_not_charged_to_the_spare_that_took_its_slot() {
    let mut bench = bench(2, "raid5", &["a", "b", "c"]);
    bench.ask(Command::SpareAdd(AddSpare { drive: "r".into(), ..AddSpare::default() })).unwrap();
    let policy =
        SetPolicy { volume: "data".into(), suspend_limit_s: Some(1), ..SetPolicy::default() };
    bench.ask(Command::VolumePolicy(policy)).unwrap();
    bench.write("data", 0, 2, STRIPE);
    bench.wait(1);
    let hung = bench.sim.drive("b").unwrap();
    hung.hold();
    let volume = bench.shards[0].volume_named("data").unwrap();
    let range = ByteRange::new(ByteOffset(0), ByteCount(3 * STRIPE));
    let env = volume.shard().env().clone();
    let reading =
        env.spawn("read", async move { volume.read(range, Buf::unpooled(range.len)).await.0 });
    // The region is idle by now, and is about to be unmarked.
    bench.wait(15);
    let asked = hung.in_flight();
    assert!(asked >= 2, "the drive got a read and a flush: {asked}");
    bench.wait(60);
    bench.sim.finish(&reading).unwrap().unwrap();
    let info = bench.show("data");
    assert_eq!((info.state, &*info.drives[1].name), (VolumeState::Optimal, "r"));
    assert_eq!(bench.count_events("failed ("), 1, "{:?}", bench.events());
    bench.expect("data", 0, 2, STRIPE);
}

/// A drive vanished during its replacement, and two shards reported it. After the first report it
/// was removed, and the replacement took the slot at once; the second report failed the
/// replacement.
#[test]
fn a_failure_that_a_second_shard_tells_late_is_not_charged_to_the_drive_that_took_over() {
    let mut bench = bench(3, "raid1", &["a", "b"]);
    bench.ask(replace("data:1", "r")).unwrap();
    bench.sim.drive("b").unwrap().vanish();
    bench.write("data", 0, 2, STRIPE);
    bench.wait(1);
    assert_eq!(bench.show("data").drives[1].name, "r");
    let (drive, error) = (DriveIndex(1), IoError::new(IoErrorKind::TimedOut));
    let kind = ReportKind::DriveFailed { drive, swaps: 0, error, operation: "write" };
    let volume = bench.shards[1].volume_named("data").unwrap().spec().id;
    let late = Report { from: ShardIndex(1), number: u64::MAX, volume, kind };
    assert!(bench.reports.as_ref().unwrap().send(late).is_ok());
    bench.wait(30);
    let info = bench.show("data");
    assert_eq!((info.state, &*info.drives[1].name), (VolumeState::Optimal, "r"));
    bench.ask(crate::common::take_offline("a")).unwrap();
    bench.expect("data", 0, 2, STRIPE);
    bench.expect("data", ELSEWHERE, 1, STRIPE);
}
