//! Measures the generator's cost per I/O: nanoseconds of one core, on a drive that does nothing.
//!
//! `cargo run --release -p storagebench --example generator_cost`
//!
//! Three drives: one that completes within the call; one that completes in batches, as a ring does,
//! so that every I/O needs a wake, a poll and a queue entry; and the second without StorageBench,
//! which shows the cost of the platform layer (operations, executor, clock). The difference of the
//! last two is StorageBench's own cost.

// This measures real time.
#![allow(clippy::disallowed_methods)]

use platform::{
    Address, BufferPool, Completion, Drive, DriveIdentity, DriveInfo, DriveKind, DriveSource, Env,
    Error, ErrorKind, Executor, Instant, IoOutcome, IoRequest, KeptMemory, KeptSize, Listener,
    LocalFuture, Member, Schedule, StateStore, StreamSource, Unpark, Work, World,
};
use smallvec::smallvec;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use storagebench::{Bench, Settings, Target};
use units::{ByteCount, ByteOffset, SectorSize};

struct Real(std::time::Instant);

fn nothing<T>() -> platform::Result<T> {
    Err(Error::new(ErrorKind::NotFound, "this world has one drive only"))
}

impl World for Real {
    fn now(&self) -> Instant {
        Instant { ns: self.0.elapsed().as_nanos() as u64 }
    }
    fn unix_time(&self) -> u64 {
        0
    }
    fn random(&self) -> u64 {
        4 // chosen by fair dice roll
    }
    fn charge(&self, _: Work) -> Duration {
        Duration::ZERO
    }
    fn open_drive<'a>(
        &'a self,
        _: &'a str,
    ) -> LocalFuture<'a, platform::Result<Arc<dyn DriveSource>>> {
        Box::pin(async { nothing() })
    }
    fn open_drive_for_reading<'a>(
        &'a self,
        _: &'a str,
    ) -> LocalFuture<'a, platform::Result<Arc<dyn DriveSource>>> {
        Box::pin(async { nothing() })
    }
    fn create_drive<'a>(
        &'a self,
        _: &'a str,
        _: ByteCount,
    ) -> LocalFuture<'a, platform::Result<()>> {
        Box::pin(async { nothing() })
    }
    fn listen<'a>(&'a self, _: &'a Address) -> LocalFuture<'a, platform::Result<Rc<dyn Listener>>> {
        Box::pin(async { nothing() })
    }
    fn connect<'a>(
        &'a self,
        _: &'a Address,
    ) -> LocalFuture<'a, platform::Result<Box<dyn StreamSource>>> {
        Box::pin(async { nothing() })
    }
    fn kept_memory<'a>(
        &'a self,
        _: &'a str,
        _: Option<KeptSize>,
    ) -> LocalFuture<'a, platform::Result<Option<KeptMemory>>> {
        Box::pin(async { nothing() })
    }
    fn forget_kept_memory<'a>(&'a self, _: &'a str) -> LocalFuture<'a, platform::Result<()>> {
        Box::pin(async { Ok(()) })
    }
    fn boot_id(&self) -> u128 {
        1
    }
    fn state(&self) -> &dyn StateStore {
        unreachable!("nothing here keeps state")
    }
    fn trace(&self, _: &'static str, _: u64, _: u64) {}
}

struct NoThread;
impl Unpark for NoThread {
    fn unpark(&self) {}
}

/// Completes without work, at once or at the next poll of the world.
struct Null {
    info: DriveInfo,
    inline: bool,
    waiting: RefCell<Vec<(Completion, IoOutcome)>>,
    requests: Cell<u64>,
}

impl Null {
    fn new(inline: bool) -> Rc<Null> {
        let info = DriveInfo {
            name: "null".to_owned(),
            identity: DriveIdentity("null".to_owned()),
            kind: DriveKind::Null,
            size: ByteCount(1 << 40),
            logical_sector: SectorSize::B512,
            physical_sector: SectorSize::B512,
            rotational: false,
            read_only: false,
            exclusive: true,
            hardware: platform::Hardware::default(),
        };
        Rc::new(Null { info, inline, waiting: RefCell::default(), requests: Cell::new(0) })
    }
}

impl Drive for Null {
    fn info(&self) -> &DriveInfo {
        &self.info
    }
    fn start(&self, request: IoRequest, completion: Completion) {
        self.requests.set(self.requests.get() + 1);
        let len = request.range().len.0;
        let outcome = match request {
            IoRequest::Read { buffers, .. } => IoOutcome::done(len).with_buffers(buffers),
            _ => IoOutcome::done(len),
        };
        if self.inline {
            completion.complete(outcome);
        } else {
            self.waiting.borrow_mut().push((completion, outcome));
        }
    }
}

/// CPU time of this process: independent of other load on a shared machine.
fn cpu_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|ns| ns.parse().ok())
        .expect("Linux tells in /proc/self/schedstat")
}

/// Runs until `future` is done; returns the nanoseconds per request.
fn cost<T: 'static>(
    null: &Rc<Null>,
    future: impl FnOnce(Env, Rc<Null>) -> LocalFuture<'static, T>,
) -> f64 {
    let executor = Executor::new(Schedule::Fifo, Arc::new(NoThread));
    let world = Rc::new(Real(std::time::Instant::now()));
    let env = Env::new(executor.clone(), world.clone(), BufferPool::new(ByteCount(256 << 20)));
    let task = env.spawn("the measurement", future(env.clone(), null.clone()));
    let began = cpu_ns();
    let mut batch = Vec::new();
    while task.try_take().is_none() {
        executor.run_ready(256);
        std::mem::swap(&mut batch, &mut *null.waiting.borrow_mut());
        batch.drain(..).for_each(|(completion, outcome)| completion.complete(outcome));
        executor.fire_timers(world.now());
    }
    (cpu_ns() - began) / null.requests.get() as f64
}

fn bench(profile: &'static str, outstanding: &'static str, inline: bool) -> f64 {
    cost(&Null::new(inline), move |env, null| {
        Box::pin(async move {
            let settings = Settings {
                profiles: vec![profile.parse().expect("a profile")],
                outstanding: outstanding.parse().expect("a ladder"),
                runtime: Duration::from_millis(700),
                ramp: Duration::from_millis(100),
                ..Settings::default()
            };
            Bench::new(settings)
                .run(&env, &Target::attached("null", null))
                .await
                .expect("a null drive works")
        })
    })
}

/// The minimum of a closed loop on the platform layer: start, await, read the clock.
fn seam_alone(outstanding: u32) -> f64 {
    cost(&Null::new(false), move |env, null| {
        Box::pin(async move {
            let end = env.now() + Duration::from_millis(800);
            let member = Member::new(&env, null);
            let tasks: Vec<_> = (0..outstanding)
                .map(|_| {
                    let (member, env) = (member.clone(), env.clone());
                    let mut buf = env.pool().take(ByteCount(4096));
                    env.clone().spawn("one outstanding", async move {
                        while env.now() < end {
                            let Some(read) = buf.take() else { return };
                            let mut outcome = member.read(ByteOffset(0), smallvec![read]).await;
                            buf = outcome.buffers.pop();
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
        })
    })
}

fn main() {
    let median = |figure: &dyn Fn() -> f64| {
        let mut figures: Vec<f64> = (0..5).map(|_| figure()).collect();
        figures.sort_by(f64::total_cmp);
        figures[2]
    };
    let clock = median(&|| {
        let (world, began) = (Real(std::time::Instant::now()), cpu_ns());
        (0..1_000_000).for_each(|_| {
            std::hint::black_box(world.now());
        });
        (cpu_ns() - began) / 1e6
    });
    println!("ns of a core per I/O, medians of 5; a look at the clock takes {clock:.1}");
    for outstanding in ["1", "32", "512"] {
        let seam = median(&|| seam_alone(outstanding.parse().expect("a number")));
        println!("{outstanding:>4} outstanding, the seam alone, in batches   {seam:6.1}");
        for profile in ["random,read,4K", "database", "random,write,4K", "streaming"] {
            let batched = median(&|| bench(profile, outstanding, false));
            let inline = median(&|| bench(profile, outstanding, true));
            println!(
                "{outstanding:>4} outstanding, {profile:16} in batches {batched:6.1}, within the \
                    call {inline:6.1}"
            );
        }
    }
}
