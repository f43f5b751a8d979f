//! The speed of tasks beside hosts, on drives that behave like disks and like flash.

use crate::tasks::{FULL_SPEED, Rig, Setup, TASK, read, write};
use engine::{ShardMessage, TaskKind, TaskPace};
use layout::Level;
use platform::{Env, Instant, IoRequest};
use platform_sim::{DriveOptions, Paced, Pacer, Rng, Sim, SimHandle, SimOptions};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, DriveIndex};

/// A drive that serves operations in order of arrival.
struct Drive {
    sim: SimHandle,
    kind: Kind,
    /// When each actuator or die is free.
    free: RefCell<Vec<Instant>>,
    /// The end of the last operation.
    head: Cell<u64>,
    /// The time for operations of tasks, which are longer than those of hosts here.
    for_tasks: Cell<Duration>,
    /// The number of these operations that began while tasks are to be quiet.
    too_late: Cell<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// One actuator: 4 to 12 ms for a seek, 200 MB/s.
    Disk,
    /// Sixteen dies with pages of 16 KiB: 60 µs to read, 100 µs to program from a buffer.
    Flash,
}

const PAGE: u64 = 16 << 10;
const DIES: usize = 16;

impl Drive {
    fn new(sim: &SimHandle, kind: Kind) -> Rc<Drive> {
        let free = RefCell::new(vec![Instant { ns: 0 }; DIES]);
        Rc::new(Drive {
            sim: sim.clone(),
            kind,
            free,
            head: Cell::new(0),
            for_tasks: Cell::default(),
            too_late: Cell::default(),
        })
    }

    /// Occupies an actuator or a die, from its last operation on. Returns the end.
    fn book(&self, unit: usize, took: Duration) -> Instant {
        let free = &mut self.free.borrow_mut()[unit];
        *free = (*free).max(self.sim.now()) + took;
        *free
    }

    /// The time until the head is at `start`: it passes over short gaps.
    fn position(&self, start: u64) -> Duration {
        match start.checked_sub(self.head.get()) {
            Some(gap) if gap <= 1 << 20 => Duration::from_nanos(gap * 5),
            _ => Duration::from_micros(4000 + (start ^ self.head.get()) / 4096 * 7919 % 8000),
        }
    }
}

impl Pacer for Drive {
    fn begin(&self, request: IoRequest, paced: Paced) {
        let range = request.range();
        let now = self.sim.now();
        // A cycle of the engine is 470 ms long; batches begin in its first 376 ms.
        if range.len > ByteCount(8192) && now.ns % 470_000_000 > 380_000_000 {
            self.too_late.set(self.too_late.get() + 1);
        }
        let end = match (self.kind, &request) {
            (_, IoRequest::Flush) => now + Duration::from_micros(20),
            (Kind::Disk, _) => {
                let took = self.position(range.start.0) + Duration::from_nanos(range.len.0 * 5);
                self.head.set(range.end().0);
                if range.len > ByteCount(8192) {
                    self.for_tasks.set(self.for_tasks.get() + took);
                }
                self.book(0, took)
            }
            (Kind::Flash, _) => {
                let is_read = matches!(request, IoRequest::Read { .. });
                let us = if is_read { 60 } else { 100 };
                let pages = range.start.0 / PAGE..range.end().0.div_ceil(PAGE);
                let ends =
                    pages.map(|page| self.book((page as usize) % DIES, Duration::from_micros(us)));
                let end = ends.max().unwrap_or(now);
                if range.len > ByteCount(8192) {
                    let took = Duration::from_micros(us * (range.len.0 / PAGE) / DIES as u64);
                    self.for_tasks.set(self.for_tasks.get() + took);
                }
                if is_read { end } else { now + Duration::from_micros(20) }
            }
        };
        let sim = self.sim.clone();
        self.sim.after(end.since(now) + Duration::from_micros(10), move || paced.end(&sim));
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    kind: Kind,
    level: Level,
    drives: u16,
    shards: u16,
    member_mib: u64,
}

impl Case {
    fn new(kind: Kind, level: Level, drives: u16) -> Case {
        Case { kind, level, drives, shards: 1, member_mib: 512 }
    }

    fn run<T: 'static, F: Future<Output = T> + 'static>(
        self,
        act: impl FnOnce(Rig, Vec<Rc<Drive>>) -> F + 'static,
    ) -> T {
        let member = ByteCount::MIB * self.member_mib;
        let setup = Setup { level: self.level, drives: self.drives, shards: self.shards, member };
        let mut options =
            SimOptions { seed: 17, memory: ByteCount::MIB * 128, ..SimOptions::default() };
        options.shards = usize::from(self.shards);
        let mut sim = Sim::new(options);
        let mut drives = Vec::new();
        for drive in 0..self.drives {
            let options = DriveOptions {
                forgets_below: ByteOffset(member.0),
                rotational: self.kind == Kind::Disk,
                ..DriveOptions::sized(member)
            };
            let drive = sim.add_drive(&format!("d{drive}"), options);
            drives.push(Drive::new(&sim.handle(), self.kind));
            drive.pace_by(drives[drives.len() - 1].clone());
        }
        let envs = crate::tasks::envs(&sim, &setup);
        sim.run(async move { act(setup.serve(envs, Some(DriveIndex(1))).await, drives).await })
            .expect("no stall")
    }
}

/// Hosts with random requests of 8 KiB, 67 % reads.
#[derive(Default)]
struct Hosts {
    latencies: RefCell<Vec<Duration>>,
    in_progress: Cell<usize>,
    stopped: Cell<bool>,
}

impl Hosts {
    fn request(self: &Rc<Hosts>, rig: &Rig, rng: &mut Rng) -> impl Future<Output = ()> + use<> {
        let volume = rig.volumes[0].clone();
        let (hosts, env) = (self.clone(), rig.env.clone());
        let at = rng.below(volume.spec().capacity.0 / 8192) * 8192;
        let is_read = rng.below(100) < 67;
        async move {
            hosts.in_progress.set(hosts.in_progress.get() + 1);
            let began = env.now();
            match is_read {
                true => drop(read(&volume, at, 8192).await.expect("readable")),
                false => write(&volume, at, &[7; 8192]).await.expect("writable"),
            }
            hosts.latencies.borrow_mut().push(env.now().since(began));
            hosts.in_progress.set(hosts.in_progress.get() - 1);
        }
    }

    /// The most requests per second, with 32 outstanding.
    async fn most(rig: Rig, time: Duration) -> f64 {
        let hosts = Rc::new(Hosts::default());
        let rig = Rc::new(rig);
        for worker in 0..32 {
            let (hosts, rig) = (hosts.clone(), rig.clone());
            let mut rng = Rng::new(3, "host", &worker.to_string());
            let env = rig.env.clone();
            env.spawn("host", async move {
                while !hosts.stopped.get() {
                    hosts.request(&rig, &mut rng).await;
                }
            });
        }
        rig.env.sleep(time).await;
        hosts.stopped.set(true);
        let count = hosts.latencies.borrow().len();
        while hosts.in_progress.get() > 0 {
            rig.env.sleep(Duration::from_millis(1)).await;
        }
        count as f64 / time.as_secs_f64()
    }

    /// Requests that arrive at this rate, at random.
    fn arrive(rig: &Rc<Rig>, per_second: f64) -> Rc<Hosts> {
        let hosts = Rc::new(Hosts::default());
        let (rig, all) = (rig.clone(), hosts.clone());
        let mut rng = Rng::new(4, "host", "");
        let env = rig.env.clone();
        env.clone().spawn("hosts", async move {
            while !all.stopped.get() {
                let chance = (rng.below(1 << 30) + 1) as f64 / f64::from(1 << 30);
                env.sleep(Duration::from_secs_f64(-chance.ln() / per_second)).await;
                if all.in_progress.get() < 500 {
                    env.spawn("request", all.request(&rig, &mut rng));
                }
            }
        });
        hosts
    }

    /// The p99 of the requests since the last call.
    fn take_p99(&self) -> Duration {
        let mut sorted = self.latencies.take();
        sorted.sort_unstable();
        sorted.get(sorted.len() * 99 / 100).copied().unwrap_or_default()
    }

    async fn stop(&self, env: &Env) {
        self.stopped.set(true);
        while self.in_progress.get() > 0 {
            env.sleep(Duration::from_millis(1)).await;
        }
    }
}

const REBUILD: TaskKind = TaskKind::Rebuild { slot: DriveIndex(1) };

/// Of each drive.
fn mib_s(case: Case, bytes: u64, time: Duration) -> f64 {
    bytes as f64 / f64::from(case.drives) / f64::from(1 << 20) / time.as_secs_f64()
}

fn idle_speed(case: Case) -> f64 {
    case.run(async move |rig, _| {
        let began = rig.env.now();
        rig.start(REBUILD, FULL_SPEED).await;
        rig.outcomes().await;
        mib_s(case, rig.progress().drive_bytes, rig.env.now().since(began))
    })
}

/// Speed and latencies of a rebuild beside hosts, measured for `time` after a quarter of it.
fn beside(case: Case, per_second: f64, share: Option<u8>, time: Duration) -> (f64, Duration) {
    case.run(async move |rig, _| {
        let rig = Rc::new(rig);
        let hosts = Hosts::arrive(&rig, per_second);
        rig.env.sleep(Duration::from_millis(500)).await;
        if let Some(share_percent) = share {
            rig.start(REBUILD, TaskPace { share_percent, ..FULL_SPEED }).await;
        }
        rig.env.sleep(time / 4).await;
        hosts.take_p99();
        let before = rig.progress().drive_bytes;
        rig.env.sleep(time).await;
        let done = rig.progress().drive_bytes - before;
        assert!(rig.told.outcomes.borrow().is_empty(), "the rebuild lasts");
        let p99 = hosts.take_p99();
        hosts.stop(&rig.env).await;
        (mib_s(case, done, time), p99)
    })
}

/// The requests of half load: half of what 32 outstanding requests reach.
fn half_load(case: Case, time: Duration) -> f64 {
    case.run(async move |rig, _| Hosts::most(rig, time).await) / 2.0
}

const LONG_MIB: u64 = 16 << 10;

/// The p99 of hosts at half load rises by at most half, and the rebuild goes on.
#[test]
fn a_rebuild_leaves_hosts_their_p99() {
    let s = Duration::from_secs(1);
    for (kind, probe, time, least) in
        [(Kind::Disk, 10 * s, 40 * s, 0.05), (Kind::Flash, s / 5, 2 * s, 0.1)]
    {
        let case = Case::new(kind, Level::Raid5, 5);
        let (idle, load) = (idle_speed(case), half_load(case, probe));
        let long = Case { member_mib: LONG_MIB, ..case };
        let (_, alone) = beside(long, load, None, time);
        let (speed, with) = beside(long, load, Some(100), time);
        assert!(with <= alone * 3 / 2, "{kind:?}: {alone:?} without, {with:?} with a rebuild");
        assert!(speed >= idle * least, "{kind:?}: {speed} MiB/s, {idle} MiB/s without hosts");
    }
}

/// Hosts at half load on a mirror of disks notice every batch: feedback alone leaves less.
#[test]
fn a_rebuild_does_not_fall_below_its_floor() {
    let case = Case { member_mib: LONG_MIB, ..Case::new(Kind::Disk, Level::Raid1, 2) };
    let (idle, speed, limited) = case.run(async move |rig, _| {
        let rig = Rc::new(rig);
        let measure = async |time: Duration| {
            let before = rig.progress().drive_bytes;
            rig.env.sleep(time).await;
            mib_s(case, rig.progress().drive_bytes - before, time)
        };
        rig.start(REBUILD, TaskPace { share_percent: 60, ..FULL_SPEED }).await;
        rig.env.sleep(Duration::from_secs(1)).await;
        let idle = measure(Duration::from_secs(3)).await;
        let hosts = Hosts::arrive(&rig, 60.0);
        rig.env.sleep(Duration::from_secs(10)).await;
        let speed = measure(Duration::from_secs(60)).await;
        let low = TaskPace { share_percent: 1, ..FULL_SPEED };
        rig.shards
            .iter()
            .for_each(|shard| assert!(shard.send(ShardMessage::SetPace(TASK, low)).is_ok()));
        rig.env.sleep(Duration::from_secs(5)).await;
        let limited = measure(Duration::from_secs(60)).await;
        hosts.stop(&rig.env).await;
        (idle, speed, limited)
    });
    assert!(speed >= idle * 0.05, "{speed} MiB/s, {idle} MiB/s without hosts");
    assert!(speed < idle * 0.1, "hosts suffer: {speed} MiB/s, {idle} MiB/s without hosts");
    assert!(limited < idle * 0.02, "the operator's limit has precedence: {limited} MiB/s");
}

/// The share of the drives' time that a rebuild takes beside hosts, if it is less than the floor.
#[test]
fn a_rebuild_takes_no_more_than_its_share() {
    let share = |shards: u16, share_percent: u8| {
        let case = Case { shards, member_mib: LONG_MIB, ..Case::new(Kind::Flash, Level::Raid5, 5) };
        case.run(async move |rig, drives| {
            let (rig, time) = (Rc::new(rig), Duration::from_secs(2));
            let hosts = Hosts::arrive(&rig, 2000.0);
            rig.env.sleep(Duration::from_millis(500)).await;
            rig.start(REBUILD, TaskPace { share_percent, ..FULL_SPEED }).await;
            rig.env.sleep(Duration::from_secs(6)).await;
            let busy = |drives: &[Rc<Drive>]| drives.iter().map(|d| d.for_tasks.get()).max();
            let before = busy(&drives).unwrap_or_default();
            drives.iter().for_each(|drive| drive.too_late.set(0));
            rig.env.sleep(time).await;
            let took = busy(&drives).unwrap_or_default().saturating_sub(before);
            let too_late: usize = drives.iter().map(|drive| drive.too_late.get()).sum();
            assert_eq!(too_late, 0, "hosts have their quiet part of the cycle");
            hosts.stop(&rig.env).await;
            took.as_secs_f64() / time.as_secs_f64()
        })
    };
    for shards in [1, 2] {
        let (low, high) = (share(shards, 1), share(shards, 4));
        assert!((0.004..0.01).contains(&low), "{shards} shards, 1 %: {low}");
        assert!((0.016..0.04).contains(&high), "{shards} shards, 4 %: {high}");
    }
}

/// Hosts that suffered become few, and then idle.
#[test]
fn a_rebuild_gets_faster_when_hosts_get_quieter() {
    let case = Case { member_mib: LONG_MIB, ..Case::new(Kind::Disk, Level::Raid1, 2) };
    let speeds = case.run(async move |rig, _| {
        let rig = Rc::new(rig);
        let pace = TaskPace { share_percent: 100, ..FULL_SPEED };
        rig.start(REBUILD, pace).await;
        let mut speeds = Vec::new();
        for per_second in [100.0, 15.0, 0.0] {
            let hosts = (per_second > 0.0).then(|| Hosts::arrive(&rig, per_second));
            rig.env.sleep(Duration::from_secs(if hosts.is_some() { 60 } else { 1 })).await;
            let (before, time) = (rig.progress().drive_bytes, Duration::from_secs(10));
            rig.env.sleep(time).await;
            speeds.push(mib_s(case, rig.progress().drive_bytes - before, time));
            if let Some(hosts) = hosts {
                hosts.stop(&rig.env).await;
            }
        }
        speeds
    });
    assert!(speeds[1] > speeds[0] * 2.0 && speeds[2] > speeds[1] * 1.5, "{speeds:?}");
}
