//! Metrics: they agree with the events, continue when a volume is attached again, and cost no drive
//! I/O.

use crate::common::{self, Bench, MIB, drive_options, names};
use controller::{
    Command, DriveMetrics, MetricsInfo, Reply, StartTask, Startable, VolumeMetrics, WorkInfo,
};
use platform::{HealthScript, Instant};
use platform_sim::DriveOptions;
use std::time::Duration;
use units::ByteCount;

fn metrics(bench: &mut Bench) -> MetricsInfo {
    match bench.ask(Command::Metrics {}) {
        Ok(Reply::Metrics { metrics }) => *metrics,
        other => panic!("{other:?}"),
    }
}

fn volume<'m>(metrics: &'m MetricsInfo, name: &str) -> &'m VolumeMetrics {
    metrics
        .volumes
        .iter()
        .find(|volume| volume.volume.name == name)
        .expect("the volume has metrics")
}

fn drive<'m>(metrics: &'m MetricsInfo, name: &str) -> &'m DriveMetrics {
    metrics.drives.iter().find(|drive| drive.drive.name == name).expect("the drive has metrics")
}

fn work<'w>(work: &'w [WorkInfo], operation: &str) -> &'w WorkInfo {
    work.iter()
        .find(|work| work.operation == operation)
        .expect("operations of each kind have metrics")
}

/// An idle RAID 5 on two shards.
fn served(seed: u64) -> Bench {
    let mut bench = Bench::new(seed, 2, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.write("data", 0, 1, MIB);
    bench.settle("data");
    bench
}

#[test]
fn requests_are_counted_on_whichever_shard_a_host_is() {
    let mut bench = served(1);
    let before = metrics(&mut bench);
    // Reads arrive at the last shard, writes at the first.
    (0..5).for_each(|at| drop(bench.try_read("data", at * 4096, 4096).unwrap()));
    bench.write("data", 0, 7, 3 * 4096);
    bench.write("data", 512, 8, 100);
    let after = metrics(&mut bench);
    let of = |operation| {
        let [before, after] =
            [&before, &after].map(|metrics| work(&volume(metrics, "data").work, operation).clone());
        (
            after.completed - before.completed,
            after.bytes - before.bytes,
            after.time_ns - before.time_ns,
        )
    };
    let (reads, read_bytes, read_ns) = of("read");
    assert_eq!((reads, read_bytes), (5, 5 * 4096));
    let (writes, written_bytes, write_ns) = of("write");
    assert_eq!((writes, written_bytes), (2, 3 * 4096 + 100));
    // A drive takes at least 20 µs, and a RAID 5 write reads before it writes.
    assert!(read_ns >= 5 * 20_000 && write_ns >= 2 * 40_000, "{read_ns} {write_ns}");
    for metrics in [&before, &after] {
        for kind in &volume(metrics, "data").work {
            assert_eq!(kind.buckets.iter().sum::<u64>(), kind.completed, "{kind:?}");
            assert_eq!(kind.buckets.len(), metrics.bucket_bounds_ns.len() + 1);
            assert_eq!((kind.outstanding, kind.failed), (0, 0), "{kind:?}");
        }
    }
    let data = volume(&after, "data");
    assert_eq!((data.volume.may_lose, data.may_lose_when_optimal), (1, 1));
    assert!(data.fast_path >= 5, "{}", data.fast_path);
}

#[test]
fn what_drives_were_asked_is_what_is_counted_of_them() {
    let mut bench = served(2);
    (0..20).for_each(|at| bench.write("data", at * 12_288, 3, 4096));
    for name in names(3) {
        let told = metrics(&mut bench);
        let told = &drive(&told, &name).work;
        let stats = bench.sim.drive(&name).unwrap().stats();
        let counted = |operation| work(told, operation).completed;
        assert_eq!((counted("read"), counted("write")), (stats.reads, stats.writes), "{name}");
        assert_eq!((counted("flush"), counted("trim")), (stats.flushes, stats.trims), "{name}");
        assert_eq!(work(told, "read").bytes, stats.read_bytes, "{name}");
        assert!(work(told, "write").bytes >= stats.written_bytes, "zeros count too: {name}");
        assert!(work(told, "write").time_ns >= 20_000 * counted("write"), "{name}");
    }
}

#[test]
fn counters_go_on_when_a_volume_is_served_anew() {
    let mut bench = served(3);
    let written = |bench: &mut Bench| work(&volume(&metrics(bench), "data").work, "write").bytes;
    let before = written(&mut bench);
    assert!(before >= MIB);
    // While all of a volume is zeroed, hosts cannot use it: it is detached from the shards, and
    // attached again.
    let (what, volume) = (Startable::InitFull, Some("data".to_owned()));
    bench.ask(Command::TaskStart(StartTask { what, volume, ..StartTask::default() })).unwrap();
    bench.wait(120);
    bench.expect("data", 0, 0, 4096);
    assert_eq!(
        written(&mut bench),
        before,
        "the counts are kept, and these zeros are no host write"
    );
    bench.write("data", 0, 3, 4096);
    assert_eq!(written(&mut bench), before + 4096);
}

#[test]
fn requests_that_fail_and_requests_under_way_are_told() {
    let mut bench = served(4);
    for name in ["a", "b", "c"] {
        bench.sim.drive(name).unwrap().hold();
    }
    let writing = bench.begin_write("data", 0, 9, 4096);
    let until = bench.sim.now() + Duration::from_millis(10);
    bench.sim.run_until(until).unwrap();
    let told = metrics(&mut bench);
    assert_eq!(
        work(&volume(&told, "data").work, "write").outstanding,
        1,
        "the write is in progress"
    );
    for name in ["a", "b", "c"] {
        bench.sim.drive(name).unwrap().release();
    }
    bench.sim.finish(&writing).unwrap().unwrap();
    assert_eq!(work(&volume(&metrics(&mut bench), "data").work, "write").outstanding, 0);
    for name in ["a", "b"] {
        bench.sim.drive(name).unwrap().fail_now();
    }
    bench.try_read("data", 0, MIB).expect_err("two drives of RAID 5 are gone");
    let told = metrics(&mut bench);
    assert!(work(&volume(&told, "data").work, "read").failed >= 1);
    let failed = |name| drive(&told, name).work.iter().map(|work| work.failed).sum::<u64>();
    assert!(failed("a") + failed("b") >= 1 && failed("c") == 0);
}

#[test]
fn health_is_told_as_the_drive_told_it_and_when() {
    let mut bench = Bench::new(5, 1, 1);
    let failing = HealthScript::failing_from(Instant { ns: 1 });
    bench.sim.add_drive("w", DriveOptions { health: Some(failing), ..drive_options() });
    bench.boot(&[]);
    for name in ["a", "w"] {
        bench.ask(Command::DriveAdd { drive: name.into(), size_bytes: None }).unwrap();
    }
    assert_eq!(
        drive(&metrics(&mut bench), "w").drive.health,
        None,
        "the policy was not queried yet"
    );
    bench.wait(30);
    let told = metrics(&mut bench);
    let health = drive(&told, "w").drive.health.clone().expect("it was queried");
    assert_eq!(health.predicted_failure, Some(true));
    assert!(health.asked_unix_s + 30 >= bench.sim.env().unix_time());
    let events =
        |code: &str| told.events.iter().find(|count| count.code == code).map(|count| count.count);
    assert_eq!(events("controller.started"), Some(1));
    assert_eq!(events("drive.predicts-failure"), Some(1));
    assert_eq!(events("drive.failed"), None);
}

/// The largest supported controller: 240 drives and 64 volumes.
#[test]
fn no_drive_is_asked_anything_however_many_there_are() {
    let mut bench = Bench::new(6, 2, 0);
    let names: Vec<String> = (0..240).map(|number| format!("d{number:03}")).collect();
    for name in &names {
        let health = Some(HealthScript::default());
        let size = ByteCount(common::DRIVE);
        bench.sim.add_drive(name, DriveOptions { health, size, ..drive_options() });
    }
    bench.boot(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for (number, drives) in names.chunks(3).take(64).enumerate() {
        let drives: Vec<&str> = drives.iter().map(String::as_str).collect();
        bench.create_resyncing(&format!("v{number:02}"), "raid5", &drives);
    }
    bench.wait(60);
    let asked = |bench: &Bench| -> u64 {
        names.iter().map(|name| bench.sim.drive(name).unwrap().stats().started).sum()
    };
    let (started, events) = (asked(&bench), bench.sim.events());
    let told = metrics(&mut bench);
    assert_eq!((told.drives.len(), told.volumes.len()), (240, 64));
    bench.ask(Command::Health {}).expect("the overall health is known");
    assert_eq!(asked(&bench), started, "a scrape caused drive I/O");
    assert!(
        bench.sim.events() - events < 100,
        "{} events for two queries",
        bench.sim.events() - events
    );
    assert!(told.drives.iter().all(|drive| drive.drive.health.is_some() && drive.work.len() == 4));
}

/// Slow responses of a drive showed only in a slightly higher mean.
#[test]
fn operations_that_take_longer_than_redundancy_waits_are_told_with_the_drive() {
    let mut bench = served(6);
    let slow_of = |bench: &mut Bench, name: &str| {
        let told = bench.drive(name).work.expect("a query for one drive has the details");
        assert_eq!(
            told.slow_ns, 2_000_000_000,
            "the usual limit for reads that redundancy can serve"
        );
        for of in &told.operations {
            assert_eq!(of.buckets.len(), told.bucket_bounds_ns.len() + 1);
            let bounds = told.bucket_bounds_ns.iter().chain([&u64::MAX]);
            let longer = bounds.zip(&of.buckets).filter(|(bound, _)| **bound > told.slow_ns);
            assert_eq!(of.slow, Some(longer.map(|(_, count)| count).sum()), "{of:?}");
        }
        let listed = metrics(bench);
        assert_eq!(drive(&listed, name).work, told.operations, "monitoring gets the same");
        let slow = |operation| work(&told.operations, operation).slow.expect("counted for drives");
        ["read", "write", "flush", "trim"].map(slow)
    };
    let before = slow_of(&mut bench, "b");
    assert_eq!(before, [0; 4]);
    for (stall_s, is_slow) in [(1, false), (3, true)] {
        bench.sim.drive("b").unwrap().stall_next(1, Duration::from_secs(stall_s));
        bench.write("data", 0, 2, MIB);
        bench.settle("data");
        let [read, write, flush, trim] = slow_of(&mut bench, "b");
        assert_eq!(read + write + flush + trim, u64::from(is_slow), "after {stall_s} s");
    }
    assert_eq!(slow_of(&mut bench, "a"), [0; 4]);
    let Ok(Reply::Drives { drives }) = bench.ask(Command::DriveList {}) else { panic!("listed") };
    assert!(drives.iter().all(|drive| drive.work.is_none()), "a list is short");
}

/// They feed the history.
#[test]
fn counters_alone_are_those_of_the_metrics() {
    let mut bench = served(9);
    bench.write("data", 0, 7, 3 * 4096);
    let metrics = metrics(&mut bench);
    let Ok(Reply::Counters { counters }) = bench.ask(Command::Counters {}) else {
        panic!("counters")
    };
    let [told] = &counters.volumes[..] else { panic!("{:?}", counters.volumes) };
    assert_eq!(told.uuid, volume(&metrics, "data").volume.uuid);
    assert_eq!(told.work, volume(&metrics, "data").work);
    assert_eq!(counters.drives.len(), 3);
    for told in &counters.drives {
        let counted: Vec<u64> = told.work.iter().map(|work| work.completed).collect();
        let expected: Vec<u64> =
            drive(&metrics, &told.name).work.iter().map(|work| work.completed).collect();
        assert_eq!(counted, expected, "{}", told.name);
        assert!(!told.identity.is_empty());
    }
}
