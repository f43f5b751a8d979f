//! Loads on targets of known behaviour, in virtual time: open loops, think time, streams, several
//! targets at once, and verification.

// Every test uses its part of it.
#[allow(dead_code)]
mod world;

use platform::{Buf, Completion, Drive, DriveInfo, DriveKind, Env, Instant, IoOutcome, IoRequest};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use storagebench::{Bench, Ending, ErrorKind, Measured, Row, Settings, Target};
use units::{ByteCount, SectorSize};
use world::{Fault, Service, TestDrive, TestWorld};

const MIB: u64 = 1 << 20;
const US: u64 = 1000;

fn settings(profile: &str, outstanding: &str) -> Settings {
    Settings {
        profiles: vec![profile.parse().unwrap()],
        outstanding: outstanding.parse().unwrap(),
        runtime: Duration::from_secs(10),
        ramp: Duration::from_secs(1),
        confidence_percent: None,
        hollow: true,
        destroy_data: true,
        seed: Some(5),
        ..Settings::default()
    }
}

fn point(servers: usize, service: Service, profile: &str, outstanding: &str) -> Row {
    let world = TestWorld::new(1);
    let drive = Rc::new(TestDrive::new(&world.env, 1 << 30, servers, service));
    let (env, settings) = (world.env.clone(), settings(profile, outstanding));
    let target = Target::attached("t", drive as Rc<dyn Drive>);
    let mut measured =
        world.run(async move { Bench::new(settings).run(&env, &target).await }).unwrap();
    assert_eq!(measured.ending, Ending::Complete);
    measured.rows.remove(0)
}

fn near(value: f64, truth: f64, percent: f64, what: &str) {
    assert!(
        (value - truth).abs() <= truth * percent / 100.0,
        "{what}: {value}, expected {truth} ± {percent} %"
    );
}

#[test]
fn evenly_due_requests_take_as_long_as_the_target() {
    let row = point(4, Service::Fixed(100 * US), "random,read,4K,rate=2000,arrivals=fixed", "64");
    let latency = row.latency_us.unwrap();
    assert_eq!((row.ios, row.outstanding), (20_000, 64));
    near(latency.mean, 100.0, 0.001, "mean");
    near(latency.max, 100.0, 0.001, "max");
    let open = row.open_loop.unwrap();
    assert_eq!((open.rate, open.poisson, open.waited_percent), (2000.0, false, 0.0));
    assert!(open.behind_s < 0.001);
}

/// A queue before one server of constant service time (M/D/1): the mean time in it is known
/// (Pollaczek, Khinchine).
#[test]
fn requests_due_at_random_wait_as_queueing_theory_says() {
    let row = point(1, Service::Fixed(100 * US), "random,read,4K,rate=5000", "512");
    // Half of the capacity: 100 µs of service and 100 µs · 0.5 / (2 · 0.5) of waiting.
    near(row.latency_us.unwrap().mean, 150.0, 2.0, "mean");
    near(row.iops, 5000.0, 2.0, "iops");
    assert_eq!(row.open_loop.unwrap().waited_percent, 0.0);
}

/// A closed loop sends nothing while its target stalls, and hardly shows a stall. An open loop
/// shows it.
#[test]
fn a_stall_is_seen_by_every_request_that_was_due_during_it() {
    struct Stalling(Rc<TestDrive>, Env);
    impl Drive for Stalling {
        fn info(&self) -> &DriveInfo {
            self.0.info()
        }
        fn start(&self, request: IoRequest, completion: Completion) {
            // From second 5 to second 6 no request completes.
            let now = self.1.now().ns;
            if !(5_000_000_000..6_000_000_000).contains(&now) {
                return self.0.start(request, completion);
            }
            let (env, drive) = (self.1.clone(), self.0.clone());
            self.1.spawn("stalled", async move {
                env.sleep_until(Instant { ns: 6_000_000_000 }).await;
                drive.start(request, completion);
            });
        }
    }
    let p99_ms = |profile: &str, outstanding: &str| {
        let world = TestWorld::new(1);
        let drive = Rc::new(TestDrive::new(&world.env, 1 << 30, 4, Service::Fixed(100 * US)));
        let target =
            Target::attached("t", Rc::new(Stalling(drive, world.env.clone())) as Rc<dyn Drive>);
        let (env, settings) = (world.env.clone(), settings(profile, outstanding));
        let measured =
            world.run(async move { Bench::new(settings).run(&env, &target).await }).unwrap();
        measured.rows[0].latency_us.unwrap().p99.unwrap() / 1000.0
    };
    assert!(p99_ms("random,read,4K", "4") < 1.0);
    // A tenth of the requests were due during the stall; one in a hundred waited for more than 0.9
    // s of it.
    near(p99_ms("random,read,4K,rate=1000,arrivals=fixed", "2000"), 900.0, 2.0, "p99");
    // The same with few outstanding: requests without a free task wait too, and that counts.
    near(p99_ms("random,read,4K,rate=1000,arrivals=fixed", "4"), 900.0, 2.0, "p99");
}

#[test]
fn a_target_that_cannot_keep_up_is_seen_to_fall_behind() {
    let row = point(1, Service::Fixed(1000 * US), "random,read,4K,rate=2000,arrivals=fixed", "16");
    let open = row.open_loop.unwrap();
    near(row.iops, 1000.0, 0.1, "iops");
    assert!(open.waited_percent > 99.0, "{open:?}");
    // After 11 seconds, 11,000 of 22,000 requests are done: the next one was due 5.5 seconds ago.
    near(open.behind_s, 5.5, 1.0, "behind");
}

#[test]
fn think_time_makes_room_between_requests() {
    let row = point(4, Service::Fixed(100 * US), "random,read,4K,think=900us", "1");
    near(row.iops, 1000.0, 0.01, "iops");
    near(row.latency_us.unwrap().mean, 100.0, 0.001, "mean");
    // Four requests and a pause: 4 · 100 µs + 1.6 ms.
    let row = point(4, Service::Fixed(100 * US), "random,read,4K,think=1.6ms:4", "2");
    near(row.iops, 4000.0, 0.1, "iops");
}

#[test]
fn throughput_of_mixed_blocks_is_counted_in_bytes() {
    let row = point(4, Service::Fixed(100 * US), "random,read,4K/75:64K/25", "4");
    near(row.iops, 40_000.0, 0.1, "iops");
    near(row.throughput_mib_s, 40_000.0 * (0.75 * 4.0 + 0.25 * 64.0) / 1024.0, 0.7, "throughput");
    let blocks = row.blocks.unwrap();
    assert_eq!((row.block_bytes, blocks[0].bytes, blocks[1].share), (None, 4096, 0.25));
}

#[test]
fn a_moving_hot_spot_follows_the_clock() {
    let world = TestWorld::new(1);
    let drive = Rc::new(TestDrive::new(&world.env, 100 * MIB, 4, Service::Fixed(1000 * US)));
    let target = Target::attached("t", drive.clone() as Rc<dyn Drive>);
    let (env, settings) =
        (world.env.clone(), settings("random,read,4K,hot=100%:10%,moves=1s", "4"));
    world.run(async move { Bench::new(settings).run(&env, &target).await }).unwrap();
    for seen in drive.seen.borrow().iter() {
        let start = seen.at_ns / 1_000_000_000 % 10 * 10 * MIB;
        assert!((start..start + 10 * MIB).contains(&seen.offset), "{seen:?}");
    }
}

#[test]
fn streams_are_served_by_their_own_outstanding_ios() {
    let world = TestWorld::new(1);
    let drive = Rc::new(TestDrive::new(&world.env, 64 * MIB, 4, Service::Fixed(100 * US)));
    let target = Target::attached("t", drive.clone() as Rc<dyn Drive>);
    let (env, settings) = (world.env.clone(), settings("sequential,read,64K,streams=4x16M", "4"));
    world.run(async move { Bench::new(settings).run(&env, &target).await }).unwrap();
    let mut next = [0_u64; 4];
    for seen in drive.seen.borrow().iter() {
        let stream = (seen.offset / (16 * MIB)) as usize;
        assert_eq!(seen.offset % (16 * MIB), next[stream]);
        next[stream] = (next[stream] + 65_536) % (16 * MIB);
    }
}

#[test]
fn several_targets_at_once_each_get_their_outstanding_ios() {
    let world = TestWorld::new(1);
    let drives = [1, 2].map(|servers| {
        Rc::new(TestDrive::new(&world.env, 64 * MIB, servers, Service::Fixed(100 * US)))
    });
    let targets = drives.clone().map(|drive| Target::attached("t", drive as Rc<dyn Drive>));
    let (env, settings) =
        (world.env.clone(), Settings { workers: 2, ..settings("random,read,4K", "4") });
    let measured =
        world.run(async move { Bench::new(settings).run_together(&env, &targets).await }).unwrap();
    let row = &measured.rows[0];
    assert_eq!((row.target.as_str(), row.outstanding, row.workers), ("t + t", 8, 4));
    near(row.iops, 30_000.0, 0.1, "iops");
    for drive in &drives {
        assert_eq!(*drive.time_at.borrow().last_key_value().unwrap().0, 4);
    }
}

#[test]
fn of_several_targets_the_one_that_fails_is_named() {
    let world = TestWorld::new(1);
    let good = Rc::new(TestDrive::new(&world.env, 64 * MIB, 1, Service::Fixed(100 * US)));
    let bad = TestDrive::new(&world.env, 64 * MIB, 1, Service::Fixed(100 * US));
    let bad = Rc::new(bad.with_fault(Fault::After(50_000, platform::IoErrorKind::Gone)));
    let targets = [("good", good), ("bad", bad)]
        .map(|(name, drive)| Target::attached(name, drive as Rc<dyn Drive>));
    let (env, settings) = (world.env.clone(), settings("random,read,4K", "1"));
    let measured =
        world.run(async move { Bench::new(settings).run_together(&env, &targets).await }).unwrap();
    let Ending::Failed(sentence) = &measured.ending else { panic!("{:?}", measured.ending) };
    assert!(
        sentence.starts_with("the measurement of 'bad' ended 5.0 s into 'random,100%read,4K'"),
        "{sentence}"
    );
}

/// A drive with content, which corrupts one write or read as `Evil` says.
struct Memory {
    info: DriveInfo,
    content: RefCell<Vec<u8>>,
    evil: Evil,
    requests: Cell<u64>,
    env: Env,
}

#[derive(Clone, Copy, PartialEq)]
enum Evil {
    Not,
    LosesAWrite,
    MisdirectsAWrite,
    FlipsABit,
}

impl Memory {
    fn new(env: &Env, evil: Evil) -> Rc<Memory> {
        let info = TestDrive::new(env, 4 * MIB, 1, Service::None)
            .with_info(|info| info.kind = DriveKind::Memory);
        Rc::new(Memory {
            info: info.info().clone(),
            content: RefCell::new(vec![0; 4 << 20]),
            evil,
            requests: Cell::new(0),
            env: env.clone(),
        })
    }

    fn apply(&self, request: IoRequest) -> IoOutcome {
        let number = self.requests.get() + 1;
        self.requests.set(number);
        let (range, mut content) = (request.range(), self.content.borrow_mut());
        let mut at = range.start.0 as usize;
        match request {
            IoRequest::Read { mut buffers, .. } => {
                for buf in &mut buffers {
                    let bytes: &mut [u8] = Buf::bytes_mut(buf);
                    bytes.copy_from_slice(&content[at..at + bytes.len()]);
                    at += bytes.len();
                }
                IoOutcome::done(range.len.0).with_buffers(buffers)
            }
            IoRequest::Write { slices, .. } => {
                let bytes: Vec<u8> =
                    slices.iter().flat_map(|slice| slice.solid().unwrap()).copied().collect();
                let hit = number > 1000;
                match self.evil {
                    Evil::LosesAWrite if hit && content[at..].starts_with(b"StorVrfy") => {
                        return IoOutcome::done(range.len.0);
                    }
                    Evil::MisdirectsAWrite if hit && content[at..].starts_with(b"StorVrfy") => {
                        at = (at + (1 << 20)) % (4 << 20)
                    }
                    _ => {}
                }
                content[at..at + bytes.len()].copy_from_slice(&bytes);
                if self.evil == Evil::FlipsABit && hit {
                    content[at + bytes.len() - 1] ^= 4;
                }
                IoOutcome::done(range.len.0)
            }
            _ => IoOutcome::done(0),
        }
    }
}

impl Drive for Memory {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn start(&self, request: IoRequest, completion: Completion) {
        // The transfer happens at a time between start and end.
        let outcome = self.apply(request);
        let (env, wait) = (self.env.clone(), self.env.random() % 4_000_000);
        self.env.spawn("a request", async move {
            env.sleep(Duration::from_nanos(wait)).await;
            completion.complete(outcome);
        });
    }
}

fn verified(evil: Evil, profile: &str) -> Measured {
    let world = TestWorld::new(3);
    let memory = Memory::new(&world.env, evil);
    let settings = Settings {
        runtime: Duration::from_secs(2),
        ramp: Duration::ZERO,
        hollow: false,
        verify: true,
        ..settings(profile, "8")
    };
    let target = Target::attached("t", memory as Rc<dyn Drive>);
    let env = world.env.clone();
    world.run(async move { Bench::new(settings).run(&env, &target).await }).unwrap()
}

#[test]
fn a_good_target_is_verified_whatever_overlaps() {
    for profile in
        ["database", "restore", "random,50%read,512/30:4K/40:64K/30,align=512,compressible=50%"]
    {
        let measured = verified(Evil::Not, profile);
        assert_eq!(measured.ending, Ending::Complete, "{profile}");
        let verified = measured.verified.unwrap();
        // Nearly every block was written at some time; all of those were read once at the end.
        assert!(
            (15 * MIB / 4..=4 * MIB).contains(&verified.read_back_bytes),
            "{profile}: {verified}"
        );
        assert_eq!(verified.checked_bytes > 5 * MIB, profile != "restore", "{profile}: {verified}");
    }
}

#[test]
fn a_lie_ends_the_run_with_what_and_where() {
    // A misdirected write appears as a lost write at one address, or as a foreign unit at the
    // other.
    for (evil, parts) in [
        (Evil::LosesAWrite, ["an older one: a write was lost"; 2]),
        (Evil::MisdirectsAWrite, ["an older one: a write was lost", "of the block at byte"]),
        (Evil::FlipsABit, ["its content is damaged: its checksum is"; 2]),
    ] {
        let measured = verified(evil, "database");
        let Ending::Failed(sentence) = &measured.ending else { panic!("{:?}", measured.ending) };
        assert!(sentence.starts_with("the measurement of 't' ended 0."), "{sentence}");
        assert!(sentence.contains("gave wrong data: the 8 KiB at byte"), "{sentence}");
        assert!(parts.iter().any(|part| sentence.contains(part)), "{sentence}");
        let first = measured.rows[0].first_error.as_ref().unwrap();
        assert!(first.contains("gave wrong data"), "{first}");
    }
}

#[test]
fn what_nothing_reads_while_it_runs_is_found_when_it_is_read_back() {
    let measured = verified(Evil::FlipsABit, "random,write,4K");
    let Ending::Failed(sentence) = &measured.ending else { panic!("{:?}", measured.ending) };
    assert!(sentence.starts_with("the final read of 't' ended: a read of"), "{sentence}");
}

#[test]
fn what_keeps_nothing_cannot_be_verified() {
    let world = TestWorld::new(3);
    let drive = TestDrive::new(&world.env, MIB, 1, Service::None).with_info(|info| {
        info.kind = DriveKind::Null;
        info.logical_sector = SectorSize::B512;
    });
    let target = Target::attached("n", Rc::new(drive) as Rc<dyn Drive>);
    let settings = Settings { verify: true, hollow: false, ..settings("database", "1") };
    let env = world.env.clone();
    let error =
        world.run(async move { Bench::new(settings).run(&env, &target).await }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadSettings);
    assert!(error.to_string().contains("'n' stores nothing"), "{error}");
    assert_eq!(ByteCount::MIB.0, MIB);
}
