//! A write-back volume with a log device in virtual time: the latency of durable writes, and the
//! memory of a cache.
//!
//! `CACHE_TESTS=all` runs the second one for a day.

use array::{Choices, WriteHole, assemble};
use engine::Volume;
use layout::{Level, Shape};
use models::{Catalog, HostSpec, LinkShares, Prepared, Server, ServerSpec};
use platform::{Drive, Durability, Env, Member, Slice, Slices};
use platform_sim::{Order, Rng, Sim, SimOptions};
use predict::parse_drives;
use std::alloc::{GlobalAlloc, Layout, System};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use storagebench::{Bench, Ladder, Settings, Target};
use units::{ByteCount, ByteOffset, DriveCount, StripSize};

/// The system's allocator with a count of allocated bytes.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed unchanged to the system's allocator; counting touches no memory of
// the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller fulfils the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller fulfils the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The tests share one allocator count.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn live() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// A volume of that level behind SoftROC's own controller, with this cache and an NVMe drive for
/// its log.
async fn volume(
    env: &Env,
    server: &Server,
    level: Level,
    drives: u16,
    cache: ByteCount,
) -> (Rc<Volume>, Rc<dyn Drive>) {
    let shape = Shape::new(level, DriveCount(drives));
    let strip = StripSize::new(ByteCount(64 << 10)).expect("a strip");
    let choices = Choices {
        write_back: Some(cache),
        write_hole: WriteHole::OnDevices(server.log()),
        ..Choices::default()
    };
    let service = assemble(env, &shape, strip, server.drives(), choices).await.expect("assembled");
    let volume = service.volume().clone();
    (volume, server.host_port(env, service))
}

fn simulated(seed: u64, drives: &str) -> (Sim, Server) {
    let catalog = Catalog::builtin();
    let spec = ServerSpec {
        controller: catalog.controller("HBA").expect("known").clone(),
        drives: parse_drives(catalog, drives).expect("known"),
        log: parse_drives(catalog, "NVMe-SSD").expect("known"),
        drive_cache: None,
        shares: LinkShares::IN_2016,
        prepared: Prepared { random_percent: 100 },
        host: HostSpec::INFINITELY_FAST,
        fast_path: None,
    };
    let memory = ByteCount(1 << 30);
    let sim = Sim::new(SimOptions { seed, order: Order::Fifo, memory, ..SimOptions::default() });
    let server = Server::new(&sim.handle(), &spec);
    (sim, server)
}

/// The mean latency of consecutive durable writes of 8 KiB at random offsets.
async fn mean_latency(env: &Env, drive: &Member, rng: &mut Rng) -> Duration {
    const COUNT: u32 = 400;
    let places = drive.info().size.0 / 8192;
    let began = env.now();
    for _ in 0..COUNT {
        let at = ByteOffset(rng.below(places) * 8192);
        let payload = Slices::from_iter([Slice::hollow(ByteCount(8192))]);
        drive.write(at, payload, Durability::Durable).await.result.expect("written");
    }
    env.now().since(began) / COUNT
}

/// The commit latency of a database: a log device replaces the disks, of which RAID 6 needs six
/// I/Os for such a write.
#[test]
fn a_durable_write_costs_little_more_than_a_write_to_the_log_device() {
    let _alone = ONE_AT_A_TIME.lock();
    let (mut sim, server) = simulated(1, "8xSavvio10K.2");
    let env = sim.env();
    let (plain, durable) = sim
        .run(async move {
            let mut rng = Rng::new(1, "durable writes", "");
            let (shape, strip) = (Shape::new(Level::Jbod, DriveCount(1)), StripSize::MAX);
            let alone = assemble(&env, &shape, strip, server.log(), Choices::default())
                .await
                .expect("assembled");
            let plain =
                mean_latency(&env, &Member::new(&env, server.host_port(&env, alone)), &mut rng)
                    .await;
            let (_, host) = volume(&env, &server, Level::Raid6, 8, ByteCount(256 << 20)).await;
            (plain, mean_latency(&env, &Member::new(&env, host), &mut rng).await)
        })
        .expect("it ends");
    let ratio = durable.as_secs_f64() / plain.as_secs_f64();
    println!("8 KiB, durable: {durable:.1?} on RAID 6, {plain:.1?} on the log device: {ratio:.2}");
    assert!(ratio <= 1.3, "{durable:?} on RAID 6, {plain:?} on the log device");
}

/// Random writes keep the cache at its mark, and no table grows.
#[test]
fn a_cache_takes_no_more_memory_however_long_it_is_full() {
    const CACHE: ByteCount = ByteCount(256 << 20);
    let _alone = ONE_AT_A_TIME.lock();
    let is_all = std::env::var("CACHE_TESTS").is_ok_and(|value| value == "all");
    let (rounds, minutes) = if is_all { (24, 60) } else { (4, 2) };
    let (mut sim, server) = simulated(2, "3xSavvio10K.2");
    let env = sim.env();
    let (before, after_each, marks) = sim
        .run(async move {
            let before = live();
            let (cached, host) = volume(&env, &server, Level::Raid5, 3, CACHE).await;
            let target = Target::attached("cached", host);
            let (mut after_each, mut marks) = (Vec::with_capacity(rounds), 0);
            for round in 0..rounds {
                let settings = Settings {
                    profiles: vec!["random,0%read,8K".parse().expect("a profile")],
                    outstanding: Ladder::new(vec![32]).expect("a ladder"),
                    runtime: Duration::from_secs(minutes * 60),
                    destroy_data: true,
                    hollow: true,
                    confidence_percent: None,
                    seed: Some(round as u64),
                    ..Settings::default()
                };
                Bench::new(settings).run(&env, &target).await.expect("measured");
                marks += u32::from(cached.is_destaging_for_room());
                after_each.push(live());
            }
            (before, after_each, marks)
        })
        .expect("it ends");
    let tables = after_each.iter().map(|live| live.saturating_sub(before)).collect::<Vec<_>>();
    println!(
        "with a cache of {CACHE}, after each of {rounds} times {minutes} minutes: {tables:?} bytes"
    );
    assert!(marks > 0, "the load never filled the cache to its mark");
    let (full, last) = (tables[rounds / 4], tables[rounds - 1]);
    assert!(last <= full + full / 50, "allocated memory grows: {tables:?}");
    // The limit in docs/operate/cache.md, for the worst load: small writes, each in a stripe of its
    // own. It includes the memory of the benchmark.
    let most = CACHE.0 as usize / 100 * 15;
    assert!(
        tables.iter().all(|out| *out <= most),
        "tables take more than 15 % of the cache: {tables:?}"
    );
}
