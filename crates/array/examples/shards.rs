//! Measures the gain of a second shard: one array in memory, served by one thread and by two, with
//! the same number of outstanding requests per shard. Rounds alternate; it prints medians and the
//! ratios of the rounds. As an upper bound it also measures two independent arrays with a thread
//! each. Their loss is caused by shared memory, caches and clock rates, or by other programs.
//!
//! ```text
//! cargo run --release -p array --example shards -- [LEVEL …] [rounds=9] [seconds=1] [reads=67]
//! ```
//!
//! Half of the requests of each shard are for stripes of the other shard. Reads go to the drives
//! directly; writes go to the shard that owns the stripe.

// This measures real time, on threads.
#![allow(clippy::disallowed_methods)]

use drives::MemoryDrive;
use engine::{
    Attachment, Change, FaultPolicy, RegionSet, Regions, Report, ShardIndex, ShardMessage,
    ShardSeed, Volume, VolumeId, VolumeSpec, VolumeState, unkept,
};
use layout::{Level, Shape};
use platform::{Buf, DriveIdentity, DriveSource, Durability, Env, Instant, mailbox};
use platform_linux::{Settings, spawn_shard};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::error::Error;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, DriveSet, SectorSize, StripSize};

const DRIVES: u16 = 8;
const DRIVE: ByteCount = ByteCount(32 << 20);
const BLOCK: u64 = 8192;
const OUTSTANDING: u64 = 32;
const RAMP: Duration = Duration::from_millis(200);
const VOLUME: VolumeId = VolumeId(0);

type Failure = Box<dyn Error + Send + Sync>;

/// The load and its duration.
#[derive(Clone, Copy)]
struct Work {
    length: Duration,
    /// The percentage of reads.
    reads: u64,
}

/// State shared by all shards of a measurement.
struct Together {
    attachment: Attachment,
    shards: u16,
    work: Work,
    /// The mailbox of each shard, and of the keeper of the array's state.
    senders: Mutex<BTreeMap<u16, mailbox::Sender<ShardMessage>>>,
    reports: Mutex<Option<mailbox::Sender<Report>>>,
    all_here: Arc<Barrier>,
    done: AtomicU64,
    ended: AtomicUsize,
}

fn main() -> Result<(), Failure> {
    let (mut levels, mut rounds, mut seconds, mut reads) = (Vec::new(), 9, 1.0, 67);
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some(("rounds", count)) => rounds = count.parse()?,
            Some(("seconds", length)) => seconds = length.parse()?,
            Some(("reads", percent)) => reads = percent.parse::<u64>()?.min(100),
            _ => levels.push(argument.parse::<Level>()?),
        }
    }
    if levels.is_empty() {
        levels = vec![Level::Raid0, Level::Raid5];
    }
    println!(
        "8 KiB, {reads}/{}, {OUTSTANDING} outstanding for each shard, thousands a second",
        100 - reads
    );
    for level in levels {
        let attachments = [attachment(level)?, attachment(level)?];
        let work = Work { length: Duration::from_secs_f64(seconds), reads };
        let (mut ones, mut twos, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let (mut aparts, mut bounds) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let one = measure(&attachments[0], 1, work, &Arc::new(Barrier::new(1)))?;
            let two = measure(&attachments[0], 2, work, &Arc::new(Barrier::new(2)))?;
            let apart = measure_apart(&attachments, work)?;
            ones.push(one / 1000.0);
            twos.push(two / 1000.0);
            ratios.push(two / one);
            aparts.push(apart / 1000.0);
            bounds.push(apart / one);
        }
        println!(
            "{level}: one shard {}, two {}, ratio {}; two arrays of one shard each {}, ratio {}",
            spread(ones, 0),
            spread(twos, 0),
            spread(ratios, 2),
            spread(aparts, 0),
            spread(bounds, 2)
        );
    }
    Ok(())
}

/// Requests per second of both arrays together, each served by its own shard.
fn measure_apart(attachments: &[Attachment; 2], work: Work) -> Result<f64, Failure> {
    let all_here = Arc::new(Barrier::new(attachments.len()));
    let both = attachments.clone().map(|one| {
        let all_here = all_here.clone();
        std::thread::spawn(move || measure(&one, 1, work, &all_here))
    });
    let mut sum = 0.0;
    for thread in both {
        sum += thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    }
    Ok(sum)
}

fn spread(mut values: Vec<f64>, digits: usize) -> String {
    values.sort_by(f64::total_cmp);
    match values.as_slice() {
        [] => "unknown".to_owned(),
        [low, ..] => {
            let (middle, high) = (values[values.len() / 2], values[values.len() - 1]);
            format!("{middle:.digits$} ({low:.digits$}–{high:.digits$})")
        }
    }
}

/// The array, on drives that keep their data between measurements.
fn attachment(level: Level) -> Result<Attachment, Failure> {
    let shape = Shape::new(level, DriveCount(DRIVES));
    let geometry = shape.geometry(StripSize::KIB_64, DRIVE)?;
    let sources = (0..DRIVES).map(|index| {
        let identity = DriveIdentity(format!("mem:{index}"));
        let drive = MemoryDrive::new("mem", identity, DRIVE, SectorSize::B512);
        Some(Arc::new(drive) as Arc<dyn DriveSource>)
    });
    let spec = VolumeSpec {
        id: VOLUME,
        name: "array".into(),
        geometry,
        sector: SectorSize::B512,
        data_start: ByteOffset::ZERO,
        capacity: geometry.capacity(),
        policy: FaultPolicy::default(),
    };
    let regions = Regions::of(&geometry);
    let mut state = VolumeState::with_drives(&regions, DriveSet::first(geometry.drives()));
    state.apply(&Change::Marked(RegionSet::first(regions.count)));
    Ok(Attachment::new(Arc::new(spec), sources.collect(), state))
}

/// Requests per second of `shards` shards; they start together, at the barrier.
fn measure(
    attachment: &Attachment,
    shards: u16,
    work: Work,
    all_here: &Arc<Barrier>,
) -> Result<f64, Failure> {
    let together = Arc::new(Together {
        attachment: attachment.clone(),
        shards,
        work,
        senders: Mutex::default(),
        reports: Mutex::default(),
        all_here: all_here.clone(),
        done: AtomicU64::new(0),
        ended: AtomicUsize::new(0),
    });
    let threads: Vec<_> = (0..shards)
        .map(|index| {
            let together = together.clone();
            let settings = Settings::with_memory(ByteCount(64 << 20));
            spawn_shard(&format!("shard {index}"), settings, move |env| {
                let seed = begin(&env, &together, index);
                run(env, together, index, seed)
            })
        })
        .collect::<Result<_, _>>()?;
    for thread in threads {
        thread.join()??;
    }
    Ok(together.done.load(Ordering::Relaxed) as f64 / work.length.as_secs_f64())
}

/// Sets up the shard's mailbox, and on the first shard a substitute for the controller. Waits for
/// all shards.
fn begin(env: &Env, together: &Together, index: u16) -> ShardSeed {
    let seed = ShardSeed::new(env, together.shards);
    let count = usize::from(together.shards);
    together
        .senders
        .lock()
        .unwrap_or_else(|poison| poison.into_inner())
        .insert(index, seed.sender());
    let mut inbox = None;
    if index == 0 {
        let (sender, receiver) = mailbox::mailbox::<Report>(env, count * engine::REPORTS_OPEN);
        *together.reports.lock().unwrap_or_else(|poison| poison.into_inner()) = Some(sender);
        inbox = Some(receiver);
    }
    together.all_here.wait();
    if let Some(inbox) = inbox {
        let states = BTreeMap::from([(VOLUME, together.attachment.state.clone())]);
        env.spawn("keeper", unkept::keep(env.clone(), inbox, peers(together), states));
    }
    seed
}

fn peers(together: &Together) -> Vec<mailbox::Sender<ShardMessage>> {
    together.senders.lock().unwrap_or_else(|poison| poison.into_inner()).values().cloned().collect()
}

/// Serves the array and sends requests to it, until all shards are done.
async fn run(
    env: Env,
    together: Arc<Together>,
    index: u16,
    seed: ShardSeed,
) -> Result<(), Failure> {
    let reports = together.reports.lock().unwrap_or_else(|poison| poison.into_inner()).clone();
    let (reports, to_itself) = (reports.ok_or("no controller")?, seed.sender());
    let shard = seed.start(ShardIndex(index), together.shards, reports);
    let send = |message| to_itself.send(message).map_err(|_| "the shard takes no messages");
    send(ShardMessage::Peers(peers(&together)))?;
    let (done, mut answers) = mailbox::mailbox(&env, 1);
    send(ShardMessage::Attach(Box::new(together.attachment.clone()), done))?;
    answers.receive().await.ok_or("no answer")??;
    let volume = shard.volume(VOLUME).ok_or("the volume is not served")?;
    let begins = env.now() + RAMP;
    let made: Rc<Cell<u64>> = Rc::default();
    let tasks: Vec<_> = (0..OUTSTANDING)
        .map(|task| {
            let seed = u64::from(index) << 32 | task;
            let load = Load {
                volume: volume.clone(),
                begins,
                ends: begins + together.work.length,
                reads: together.work.reads,
                made: made.clone(),
            };
            env.spawn("outstanding", load.run(env.clone(), seed))
        })
        .collect();
    for task in tasks {
        task.await?;
    }
    together.done.fetch_add(made.get(), Ordering::Relaxed);
    together.ended.fetch_add(1, Ordering::Relaxed);
    // Other shards may still send requests to this one.
    while together.ended.load(Ordering::Relaxed) < usize::from(together.shards) {
        env.sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// One outstanding request at a time.
struct Load {
    volume: Rc<Volume>,
    begins: Instant,
    ends: Instant,
    reads: u64,
    made: Rc<Cell<u64>>,
}

impl Load {
    async fn run(self, env: Env, mut random: u64) -> Result<(), Failure> {
        let blocks = self.volume.spec().capacity.0 / BLOCK;
        let mut buf = Buf::unpooled(ByteCount(BLOCK));
        let payload = Buf::copy_of(&[0xA5; BLOCK as usize]).freeze();
        loop {
            let (state, number) = platform::sync::split_mix(random);
            random = state;
            let range =
                ByteRange::new(ByteOffset((number >> 8) % blocks * BLOCK), ByteCount(BLOCK));
            if (number & 0xFF) * 100 < self.reads * 256 {
                let (result, back) = self.volume.read(range, buf).await;
                result?;
                buf = back.ok_or("a drive kept the buffer")?;
            } else {
                self.volume.write(range, payload.clone(), Durability::Cached).await?;
            }
            let now = env.now();
            match now {
                _ if now >= self.ends => return Ok(()),
                _ if now >= self.begins => self.made.set(self.made.get() + 1),
                _ => {}
            }
            if number.is_multiple_of(16) {
                env.yield_now().await;
            }
        }
    }
}
