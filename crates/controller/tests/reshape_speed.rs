//! The speed of a reshape, and its effect on hosts: in virtual time, on modelled SAS disks that
//! keep the data of labels and journals.
//!
//! # The ideal rate
//! A disk that copies reads its part of the volume in the old layout once, parity included, and
//! writes its part in the new one, parity included, each at its sequential rate. The slowest disk
//! of the array does nothing else meanwhile.

use crate::common::{Bench, MIB, volume};
use controller::{Command, CreateVolume, ReshapeVolume};
use engine::Volume;
use models::{Catalog, DriveSpec, HostSpec, LinkShares, Prepared, Server, ServerSpec};
use platform::{Buf, Durability, Member};
use platform_sim::{DriveOptions, Latency, Order, Rng, Sim, SimOptions};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange, SectorSize};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// 2.5 inches, 15,000 revolutions a minute, 6 Gb/s.
const DISK: &str = "SAS-6G-HDD";
/// A shard's part of 512 MiB with two shards.
const MEMORY: ByteCount = ByteCount(256 << 20);

/// A host with one shard and six disks.
struct Disks {
    bench: Bench,
    /// The simulated drives use the timing of this model.
    _server: Server,
}

fn disk() -> DriveSpec {
    Catalog::builtin().drive(DISK).expect("the model is in the catalog").clone()
}

/// The size of the drives.
fn size() -> ByteCount {
    ByteCount(disk().capacity_bytes).align_down(ByteCount(MIB))
}

/// Six disks, each at its own port.
fn machine() -> ServerSpec {
    ServerSpec {
        controller: Catalog::builtin()
            .controller("HBA")
            .expect("the model is in the catalog")
            .clone(),
        drives: vec![disk(); NAMES.len()],
        log: Vec::new(),
        drive_cache: None,
        shares: LinkShares::IN_2016,
        prepared: Prepared { random_percent: 0 },
        host: HostSpec::INFINITELY_FAST,
        fast_path: None,
    }
}

fn disks(seed: u64) -> Disks {
    let size = size();
    let file_drives = DriveOptions {
        logical_sector: SectorSize::B512,
        physical_sector: SectorSize::B512,
        rotational: true,
        cache: ByteCount::ZERO,
        latency: Latency::ZERO,
        // Labels, maps and journals are in the last 32 MiB.
        forgets_below: ByteOffset(size.0 - 32 * MIB),
        ..DriveOptions::sized(size)
    };
    let options =
        SimOptions { order: Order::Fifo, memory: MEMORY, file_drives, ..SimOptions::seeded(seed) };
    let mut bench = Bench::in_order(seed, 1, 0);
    bench.sim = Sim::new(options);
    let server = Server::new(&bench.sim.handle(), &machine());
    bench.boot(&[]);
    for (slot, name) in NAMES.into_iter().enumerate() {
        // Created by the controller, which knows that they are blank.
        let add = Command::DriveAdd { drive: name.into(), size_bytes: Some(size.0) };
        bench.ask(add).expect("created");
        server.pace(slot, &bench.sim.drive(name).expect("the drive exists"));
    }
    Disks { bench, _server: server }
}

/// RAID 5 on the first four.
fn with_a_volume(seed: u64) -> Disks {
    let mut disks = disks(seed);
    let create = CreateVolume {
        name: "data".into(),
        level: "raid5".into(),
        drives: NAMES[..4].iter().map(ToString::to_string).collect(),
        ..CreateVolume::default()
    };
    volume(disks.bench.ask(Command::VolumeCreate(create)));
    disks.bench.wait(5);
    disks
}

/// No reshape here takes longer.
const LAST: Duration = Duration::from_secs(3600);

/// To another level, with this many more disks.
type Way = (&'static str, usize);

const WAYS: [Way; 2] = [("raid5", 1), ("raid6", 2)];

impl Disks {
    fn begin(&mut self, (level, more): Way) {
        let order = ReshapeVolume {
            volume: "data".into(),
            level: (level != "raid5").then(|| level.into()),
            add: NAMES[4..4 + more].iter().map(ToString::to_string).collect(),
            ..ReshapeVolume::default()
        };
        self.bench.ask(Command::VolumeReshape(order)).expect("the reshape begins");
    }

    fn moved(&mut self) -> u64 {
        self.bench.show("data").reshape.expect("the volume is reshaping").moved_bytes
    }

    /// The time in seconds when this many more windows have moved, and the bytes moved by then.
    fn after_windows(&mut self, count: usize) -> (f64, u64) {
        let mut moved = self.moved();
        for _ in 0..count {
            let before = moved;
            while moved == before {
                let until = self.bench.sim.now() + Duration::from_millis(5);
                self.bench.sim.run_until(until).expect("no stall");
                assert!(
                    until.ns < LAST.as_nanos() as u64,
                    "no progress of the reshape at {before}"
                );
                moved = self.moved();
            }
        }
        (self.bench.sim.now().ns as f64 / 1e9, moved)
    }
}

/// A disk's sequential read and write rates, in bytes per second.
fn rates() -> (f64, f64) {
    const LEN: u64 = 256 * MIB;
    let rate = |writes: bool| {
        let mut sim = Sim::new(SimOptions::seeded(1));
        let (env, server) = (sim.env(), Server::new(&sim.handle(), &machine()));
        let took = sim.run(async move {
            let drive = Member::new(&env, server.drives()[0].attach(&env).expect("attached"));
            let (began, next) = (env.now(), Rc::new(Cell::new(0)));
            let tasks = (0..4).map(|_| {
                let (drive, next) = (drive.clone(), next.clone());
                env.spawn("copy", async move {
                    while next.get() < LEN {
                        let at = ByteOffset(next.replace(next.get() + MIB));
                        let buf = Buf::unpooled(ByteCount(MIB));
                        let done = match writes {
                            true => {
                                let slices = [buf.freeze()].into_iter().collect();
                                drive.write(at, slices, Durability::Cached).await
                            }
                            false => drive.read(at, [buf].into_iter().collect()).await,
                        };
                        done.result.expect("the measurement succeeds");
                    }
                })
            });
            let tasks: Vec<_> = tasks.collect();
            for task in tasks {
                task.await;
            }
            env.now().since(began).as_secs_f64()
        });
        LEN as f64 / took.expect("no stall")
    };
    (rate(false), rate(true))
}

/// No host I/O: the disks do hardly anything but copy.
#[test]
fn an_idle_volume_is_moved_at_the_rate_at_which_its_disks_copy() {
    let (reads, writes) = rates();
    for way in WAYS {
        let mut disks = with_a_volume(2);
        disks.begin(way);
        // The first windows are saved first, and are small until there is space for larger ones.
        while disks.moved() < 1536 * MIB {
            disks.bench.wait(1);
            assert!(
                disks.bench.sim.now().ns < LAST.as_nanos() as u64,
                "no progress of the reshape"
            );
        }
        let (began, before) = disks.after_windows(1);
        let (ended, after) = disks.after_windows(6);
        let moved = (after - before) as f64;
        // Three strips of data in a row before, and four afterwards.
        let could = 1.0 / (1.0 / 3.0 / reads + 1.0 / 4.0 / writes);
        let does = moved / (ended - began);
        println!(
            "RAID 5 of 4 to {way:?}: {:.0} MiB/s; disks that read {:.0} and write {:.0} MiB/s \
                could do {:.0}: {:.2}",
            does / MIB as f64,
            reads / MIB as f64,
            writes / MIB as f64,
            could / MIB as f64,
            does / could
        );
        assert!(does >= 0.8 * could, "{way:?}: {does} bytes per second of {could} possible");
    }
}

/// The latency of each host request, in nanoseconds.
type Waits = Rc<RefCell<Vec<u64>>>;

/// A host with the database profile: 8 KiB, random, two of three are reads.
async fn host(volume: Rc<Volume>, number: u64, bytes: u64, waits: Waits) {
    const LEN: ByteCount = ByteCount(8 << 10);
    let (env, mut rng) = (volume.shard().env().clone(), Rng::new(number, "host", ""));
    loop {
        let range = ByteRange::new(ByteOffset(rng.below(bytes / LEN.0) * LEN.0), LEN);
        let began = env.now();
        match rng.chance(1, 3) {
            true => {
                let data = Buf::copy_of(&[7; LEN.0 as usize]).freeze();
                volume.write(range, data, Durability::Cached).await.expect("the write succeeds");
            }
            false => volume.read(range, Buf::unpooled(LEN)).await.0.expect("the read succeeds"),
        }
        waits.borrow_mut().push(env.now().since(began).as_nanos() as u64);
    }
}

/// The p99 latency in milliseconds, and the number of requests.
fn p99(waits: &Waits) -> (f64, usize) {
    let mut waits = waits.take();
    waits.sort_unstable();
    (waits[waits.len() * 99 / 100] as f64 / 1e6, waits.len())
}

/// A database with eight outstanding requests is slowed down only by the task's share of the disks'
/// time.
#[test]
fn hosts_beside_a_move_wait_hardly_longer() {
    const MEASURED: u64 = 60;
    for way in WAYS {
        let mut disks = with_a_volume(3);
        let volume = disks.bench.shards[0].volume_named("data").expect("the volume is online");
        let (bytes, waits) = (disks.bench.show("data").capacity_bytes, Waits::default());
        for number in 0..8 {
            let host = host(volume.clone(), number, bytes, waits.clone());
            volume.shard().env().clone().spawn("host", host);
        }
        disks.bench.wait(20);
        waits.take();
        disks.bench.wait(MEASURED);
        let (without, requests) = p99(&waits);
        disks.begin(way);
        disks.bench.wait(5);
        waits.take();
        let before = disks.moved();
        disks.bench.wait(MEASURED);
        let moved = disks.moved() - before;
        let (beside, requests_beside) = p99(&waits);
        println!(
            "RAID 5 of 4 to {way:?} beside a database: p99 {beside:.1} ms, {without:.1} ms \
             without it: {:.2}; {requests_beside} requests, and {requests} without it; {:.1} \
             MiB/s are moved",
            beside / without,
            moved as f64 / MIB as f64 / MEASURED as f64
        );
        assert!(moved > 0, "{way:?}: the reshape proceeds under host I/O");
        assert!(
            beside <= 1.5 * without,
            "{way:?}: p99 of {beside} ms, and {without} ms without the reshape"
        );
    }
}
