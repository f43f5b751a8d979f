//! The journal of a volume on log devices, in virtual time: the records, and writes when log
//! devices fail.

use crate::common::{self, Bench, Setup, begin, drive, envs, open, range, read, write};
use engine::{JournalOn, JournalPlace, LogDevice, ReportKind, ShardMessage};
use layout::Level;
use ondisk::{Tail, TailPlace, Uuid};
use platform::{Buf, Durability};
use platform_sim::{DriveOptions, Order, Sim, SimDrive, SimOptions};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset};
use write_log::{LogId, Record, scan};

const SIZE: ByteCount = ByteCount(40 << 20);
const LEN: ByteCount = ByteCount(256 << 10);
/// The location of the journal on each device.
const AT: ByteOffset = ByteOffset(1 << 20);
const ID: Uuid = Uuid([9; 16]);
const AFTER: Uuid = Uuid([8; 16]);
/// The drives of the four members.
const DEVICES: [u16; 2] = [4, 5];

fn on_members(id: Uuid) -> JournalPlace {
    JournalPlace {
        id,
        len: LEN,
        on: JournalOn::Members { at: ByteCount(8192), tail: TailPlace::End },
    }
}

async fn on_devices(env: &platform::Env, id: Uuid, devices: &[u16]) -> JournalPlace {
    let mut sources = Vec::new();
    for device in devices {
        sources.push(LogDevice { id: Uuid([*device as u8; 16]), source: open(env, *device).await });
    }
    JournalPlace { id, len: LEN, on: JournalOn::Devices { at: AT, devices: sources } }
}

/// A RAID 5 of four drives with its journal on these devices.
fn run<T: 'static, F: Future<Output = T> + 'static>(
    shards: u16,
    devices: &'static [u16],
    test: impl FnOnce(Bench, Vec<SimDrive>) -> F + 'static,
) -> T {
    let setup = Setup { shards, ..Setup::new(Level::Raid5, 4) };
    let mut options = SimOptions::seeded(u64::from(shards));
    (options.order, options.shards) = (Order::Shuffled, usize::from(shards));
    let mut sim = Sim::new(options);
    (0..6).for_each(|slot| drop(sim.add_drive(&format!("d{slot}"), DriveOptions::sized(SIZE))));
    let drives: Vec<SimDrive> = (0..6).map(|slot| drive(&sim, slot)).collect();
    let envs = envs(&sim, &setup);
    let run = async move {
        let attachment = setup.attachment(&envs[0]).await;
        let journal = Some(on_devices(&envs[0], ID, devices).await);
        test(Bench::attach(envs, engine::Attachment { journal, ..attachment }).await, drives).await
    };
    sim.run(run).expect("no stall")
}

/// The records on a device with this name.
fn on_device(device: &SimDrive, id: Uuid) -> Vec<Record> {
    scan(&device.peek(AT, LEN).expect("readable"), LogId(id.0))
}

fn on_member(member: &SimDrive, id: Uuid) -> Vec<Record> {
    let room = Tail::of(SIZE).expect("a tail").journals();
    scan(&member.peek(room.start + ByteCount(8192), LEN).expect("readable"), LogId(id.0))
}

/// The number of reports of a failed log device.
fn told(bench: &Bench) -> usize {
    bench
        .reports
        .borrow()
        .iter()
        .filter(|report| matches!(report, ReportKind::LogFailed { .. }))
        .count()
}

#[test]
fn a_record_is_on_every_device_before_its_write_begins_and_on_no_member() {
    run(2, &DEVICES, |bench, drives| async move {
        drives[5].stall_next(1, Duration::from_millis(200));
        let written = begin(bench.volume(), 0, 7);
        bench.wait(Duration::from_millis(100)).await;
        assert_eq!(on_device(&drives[4], ID).len(), 1, "the record is on the working device");
        let zero = vec![0; 512];
        assert!(
            drives[..4]
                .iter()
                .all(|member| member.peek(ByteOffset(0), ByteCount(512)).unwrap() == zero)
        );
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!(written.get(), Some(true));
        let [first, second] = [4, 5].map(|device| on_device(&drives[device], ID));
        assert_eq!(first, second);
        assert_eq!(first[0].changes.len(), 2, "data and redundancy");
        assert!(drives[..4].iter().all(|member| on_member(member, ID).is_empty()));
    });
}

/// After a crash the records of the other device count only if the labels say that this one failed.
#[test]
fn a_write_waits_until_a_device_that_lacks_its_record_is_recorded_as_out() {
    run(1, &DEVICES, |bench, drives| async move {
        write(bench.volume(), 0, &[1; 512]).await.expect("written");
        bench.is_deaf.set(true);
        drives[4].fail_now();
        let written = [0, 4096].map(|at| begin(bench.volume(), at, 7));
        bench.wait(Duration::from_secs(1)).await;
        assert!(
            written.iter().all(|written| written.get().is_none()),
            "the failure is not recorded"
        );
        assert_eq!(told(&bench), 1);
        bench.is_deaf.set(false);
        bench.wait(Duration::from_secs(1)).await;
        assert!(written.iter().all(|written| written.get() == Some(true)));
        write(bench.volume(), 512, &[3; 512]).await.expect("the other device takes the record");
        assert_eq!(told(&bench), 1, "reported once");
        assert_eq!(
            on_device(&drives[5], ID).iter().map(|record| record.head.sequence).max(),
            Some(4),
            "one before, two concurrent, one after"
        );
    });
}

/// Another volume's records went to the same devices, and one device failed: the labels of both
/// volumes go on without it. Shards that had not met the failure still planned records on both
/// devices, and `explain` disagreed.
#[test]
fn a_device_that_another_volume_found_to_have_failed_is_not_asked_any_more() {
    run(1, &DEVICES, |bench, drives| async move {
        write(bench.volume(), 0, &[1; 512]).await.expect("written");
        let planned = |bench: &Bench| {
            let volume = bench.volume();
            let health = |stripe| volume.planned_health(stripe);
            let explained = volume.explain(plan::RequestKind::Write, range(0, 512), health);
            explained.expect("a plan").to_string()
        };
        assert!(planned(&bench).contains("2 durable writes"), "{}", planned(&bench));
        let before = on_device(&drives[4], ID);
        let leave = |done| ShardMessage::LeaveLogDevice(common::VOLUME, Uuid([4; 16]), done);
        bench.tell(leave).await;
        assert!(planned(&bench).contains("1 durable write of"), "{}", planned(&bench));
        write(bench.volume(), 4096, &[2; 512]).await.expect("written");
        assert_eq!(on_device(&drives[4], ID), before);
        assert!(on_device(&drives[5], ID).len() > before.len());
        assert_eq!(told(&bench), 0);
    });
}

/// Hosts get no error: a write that waited for a record on the last device is done on the members.
#[test]
fn when_the_last_device_fails_what_waits_goes_to_the_members() {
    run(2, &DEVICES[..1], |bench, drives| async move {
        write(bench.volume(), 0, &[1; 512]).await.expect("written");
        bench.is_deaf.set(true);
        drives[4].fail_now();
        let written: Vec<_> =
            (0..16).map(|number| begin(bench.volume(), number * 4096, 7)).collect();
        bench.wait(Duration::from_secs(1)).await;
        assert!(written.iter().all(|written| written.get().is_none()));
        let unknown = ShardMessage::LoseJournal;
        bench.tell(|done| unknown(common::VOLUME, AFTER, None, done)).await;
        bench.wait(Duration::from_secs(1)).await;
        assert!(
            written.iter().all(|written| written.get().is_none()),
            "the report was about another device"
        );
        let lose =
            |done| ShardMessage::LoseJournal(common::VOLUME, ID, Some(on_members(AFTER)), done);
        bench.is_deaf.set(false);
        let flushes =
            || drives[..4].iter().map(|member| member.stats().flushes).collect::<Vec<_>>();
        let before = flushes();
        bench.tell(lose).await;
        assert!(
            flushes().iter().zip(before).all(|(now, before)| *now > before),
            "the drives have the data"
        );
        bench.wait(Duration::from_secs(1)).await;
        assert!(written.iter().all(|written| written.get() == Some(true)));
        let records: Vec<Record> =
            drives[..4].iter().flat_map(|member| on_member(member, AFTER)).collect();
        assert!(!records.is_empty());
        assert_eq!(read(bench.volume(), 4096, 512).await.expect("readable"), [7; 512]);
    });
}

#[test]
fn a_journal_goes_from_the_members_to_a_device_and_back() {
    run(2, &DEVICES[..1], |bench, drives| async move {
        let on_members = on_members(AFTER);
        bench
            .tell(|done| ShardMessage::SetJournal(common::VOLUME, Some(on_members.clone()), done))
            .await;
        write(bench.volume(), 0, &[1; 512]).await.expect("written");
        assert_eq!(
            drives[..4].iter().map(|member| on_member(member, AFTER).len()).sum::<usize>(),
            2
        );
        assert_eq!(on_device(&drives[4], ID), []);
        let id = Uuid([7; 16]);
        let on_device_again = on_devices(&bench.env, id, &DEVICES[..1]).await;
        let again = || Some(on_device_again.clone());
        bench.tell(|done| ShardMessage::SetJournal(common::VOLUME, again(), done)).await;
        write(bench.volume(), 512, &[1; 512]).await.expect("written");
        assert_eq!(on_device(&drives[4], id).len(), 1);
    });
}

/// A write had its record on the last log device when another shard found that the device had
/// failed. The drives were flushed for the device's live records, and the write was done
/// afterwards: it was acknowledged as durable by a record that was about to be invalidated.
#[test]
fn a_write_whose_record_is_about_to_be_lost_is_flushed_before_it_is_told_as_durable() {
    // At an end of its stripe, where it takes a task, and inside, where it takes none.
    for at in [0, 512] {
        lose_the_record_of_a_write(at);
    }
}

fn lose_the_record_of_a_write(at: u64) {
    run(1, &DEVICES[..1], move |bench, drives| async move {
        write(bench.volume(), 0, &[1; 512]).await.expect("written");
        // The time for its reads and its writes.
        drives[..4].iter().for_each(|member| member.stall_next(2, Duration::from_millis(200)));
        let (volume, data) = (bench.volume().clone(), Buf::copy_of(&[7; 512]).freeze());
        let written = bench.env.spawn("host", async move {
            volume.write(range(at, 512), data, Durability::Durable).await
        });
        bench.wait(Duration::from_millis(300)).await;
        assert_eq!(
            on_device(&drives[4], ID).iter().filter(|record| !record.changes.is_empty()).count(),
            2
        );
        bench.tell(|done| ShardMessage::HoldLogDevice(common::VOLUME, Uuid([4; 16]), done)).await;
        assert!(!written.is_finished());
        let flushes = || drives[..4].iter().map(|member| member.stats().flushes).sum::<u64>();
        let before = flushes();
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!(written.try_take(), Some(Ok(())));
        assert_eq!(flushes(), before + 4);
        // Later writes wait until the members have a journal.
        let later = begin(bench.volume(), 0, 8);
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!(later.get(), None);
        bench
            .tell(|done| {
                ShardMessage::LoseJournal(common::VOLUME, ID, Some(on_members(AFTER)), done)
            })
            .await;
        assert_eq!(later.get(), Some(true));
    });
}

/// The failure of the device could not be recorded in the labels: the device is used as before.
#[test]
fn a_log_device_that_is_taken_back_has_the_records_that_come() {
    run(1, &DEVICES[..1], |bench, drives| async move {
        write(bench.volume(), 0, &[1; 512]).await.expect("written");
        bench.tell(|done| ShardMessage::HoldLogDevice(common::VOLUME, Uuid([4; 16]), done)).await;
        let written = begin(bench.volume(), 0, 7);
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!(written.get(), None);
        bench
            .tell(|done| ShardMessage::TakeBackLogDevice(common::VOLUME, Uuid([4; 16]), done))
            .await;
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!((written.get(), told(&bench)), (Some(true), 0));
        assert_eq!(on_device(&drives[4], ID).len(), 2);
    });
}

/// A trim of a full stripe has no record, but invalidates the records of its stripe. It gets no
/// error from the failed device.
#[test]
fn when_the_last_device_fails_a_trim_is_done_all_the_same() {
    run(1, &DEVICES[..1], |bench, drives| async move {
        write(bench.volume(), 0, &[1; 512]).await.expect("written");
        drives[4].fail_now();
        bench.is_deaf.set(true);
        let volume = bench.volume().clone();
        let stripe = range(0, volume.layout().geometry().stripe_bytes().0);
        let trimmed = Rc::new(Cell::new(None));
        let ended = trimmed.clone();
        bench.env.spawn("trim", async move { ended.set(Some(volume.trim(stripe).await)) });
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!((trimmed.get(), told(&bench)), (None, 1), "waits until the failure is recorded");
        bench.is_deaf.set(false);
        let lose =
            |done| ShardMessage::LoseJournal(common::VOLUME, ID, Some(on_members(AFTER)), done);
        bench.tell(lose).await;
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!(trimmed.get(), Some(Ok(())));
        assert_eq!(read(bench.volume(), 0, 512).await.expect("readable"), [0; 512]);
    });
}

/// A write that waited for a record on the last device has it on the members. If the journal is to
/// be removed, this record is invalidated as well: a replay would undo later writes.
#[test]
fn a_journal_that_is_lost_while_it_goes_leaves_nothing_that_counts_on_the_members() {
    run(2, &DEVICES[..1], |bench, drives| async move {
        write(bench.volume(), 0, &[1; 512]).await.expect("written");
        drives[4].fail_now();
        bench.is_deaf.set(true);
        let written: Vec<_> =
            (0..16).map(|number| begin(bench.volume(), number * 4096, 7)).collect();
        let (bench, gone) = (Rc::new(bench), Rc::new(Cell::new(None)));
        let (asking, ended) = (bench.clone(), gone.clone());
        bench.env.spawn("the journal goes", async move {
            let none = |done| ShardMessage::SetJournal(common::VOLUME, None, done);
            ended.set(Some(asking.ask(none).await.is_ok()));
        });
        bench.wait(Duration::from_secs(1)).await;
        assert!(written.iter().all(|written| written.get().is_none()));
        bench.is_deaf.set(false);
        let lose =
            |done| ShardMessage::LoseJournal(common::VOLUME, ID, Some(on_members(AFTER)), done);
        bench.tell(lose).await;
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!(gone.get(), Some(true));
        assert!(written.iter().all(|written| written.get() == Some(true)));
        let records: Vec<Record> =
            drives[..4].iter().flat_map(|member| on_member(member, AFTER)).collect();
        assert!(records.iter().any(|record| !record.changes.is_empty()));
        for ring in 0..2 {
            let of_ring = || records.iter().filter(|record| record.head.ring == ring);
            let counts_from = of_ring().map(|record| record.head.tail).max().unwrap_or_default();
            let counting = of_ring().filter(|record| record.head.sequence >= counts_from);
            assert_eq!(
                counting.filter(|record| !record.changes.is_empty()).count(),
                0,
                "ring {ring}"
            );
        }
    });
}

/// Found by torture: a volume that never responded again. A flush had begun with the journal on a
/// device that then failed. The flush invalidated record numbers of that journal in the next one,
/// which begins at one again: its records did not count, and were never freed.
#[test]
fn a_flush_says_nothing_of_the_records_of_a_journal_that_came_while_it_ran() {
    run(1, &DEVICES[..1], |bench, drives| async move {
        for number in 0..8 {
            write(bench.volume(), number * 4096, &[1; 512]).await.expect("written");
        }
        drives[0].stall_next(1, Duration::from_millis(200));
        let volume = bench.volume().clone();
        let flushed = bench.env.spawn("flush", async move { volume.flush().await });
        bench.wait(Duration::from_millis(50)).await;
        assert!(!flushed.is_finished());
        let lose =
            |done| ShardMessage::LoseJournal(common::VOLUME, ID, Some(on_members(AFTER)), done);
        bench.tell(lose).await;
        assert_eq!(flushed.try_take(), Some(Ok(())));
        write(bench.volume(), 0, &[7; 512]).await.expect("written");
        let records: Vec<Record> =
            drives[..4].iter().flat_map(|member| on_member(member, AFTER)).collect();
        assert_eq!(records.len(), 2);
        assert!(
            records.iter().all(|record| record.head.tail <= record.head.sequence),
            "the record is live"
        );
        bench.tell(|done| ShardMessage::SetJournal(common::VOLUME, None, done)).await;
        assert_eq!(begin(bench.volume(), 0, 9).get(), None);
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!(read(bench.volume(), 0, 512).await.expect("readable"), [9; 512]);
    });
}

/// A journal moves to a log device. Shards that already use the device find that it failed before
/// this shard has switched: it would have written records to a journal that no label names.
#[test]
fn a_journal_that_is_lost_before_it_has_come_does_not_come() {
    run(1, &DEVICES[..1], |bench, drives| async move {
        write(bench.volume(), 0, &[1; 512]).await.expect("written");
        let (bench, coming) = (Rc::new(bench), Uuid([7; 16]));
        let place = on_devices(&bench.env, coming, &DEVICES[1..]).await;
        drives[0].stall_next(1, Duration::from_millis(200));
        let asking = bench.clone();
        let given = bench.env.spawn("a journal comes", async move {
            asking
                .ask(|done| ShardMessage::SetJournal(common::VOLUME, Some(place.clone()), done))
                .await
        });
        bench.wait(Duration::from_millis(50)).await;
        assert!(!given.is_finished());
        let lose =
            |done| ShardMessage::LoseJournal(common::VOLUME, coming, Some(on_members(AFTER)), done);
        bench.tell(lose).await;
        assert_eq!(given.try_take(), Some(Ok(())));
        write(bench.volume(), 0, &[7; 512]).await.expect("written");
        assert_eq!(on_device(&drives[5], coming), []);
        let records = drives[..4].iter().map(|member| on_member(member, AFTER).len());
        assert_eq!(records.sum::<usize>(), 2);
    });
}
