//! Measures the CPU cost of a request in the engine, in instructions: a fixed sequence of requests
//! to an array in memory, 32 outstanding.
//!
//! ```text
//! cargo build --release -p array --example request_cost
//! for n in 20000 40000; do
//!   valgrind --tool=cachegrind --cache-sim=no \
//!     target/release/examples/request_cost raid5 mem:32M $n
//! done
//! ```
//!
//! The cost of a request is the difference of two counts, divided by the difference of the
//! requests. It includes copying the bytes: about three hundred instructions for 8 KiB.
//!
//! With `ahead`, one task reads sequentially, with 8 MiB of read-ahead memory: `request_cost raid0
//! mem:256M 20000 64K 100 ahead`. It also shows page faults (`perf stat -e minor-faults`).
//!
//! With `absorbed`, a write-back cache of 64 MiB acknowledges and destages the writes; with
//! `absorbed-in-order` they are also sequential: `request_cost raid0 mem:32M 20000 64K 0
//! absorbed-in-order`.

use array::{Choices, assemble};
use engine::ReadTerms;
use layout::{Level, Shape};
use platform::{Buf, Durability, Env, Member};
use platform_sim::{Sim, SimOptions};
use smallvec::smallvec;
use std::cell::Cell;
use std::error::Error;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, DriveCount, StripSize};

const DRIVES: u16 = 8;
const OUTSTANDING: u64 = 32;
const AHEAD: ReadTerms = ReadTerms { read_ahead: true, cached: false, most_ahead: None };
const ROOM: ByteCount = ByteCount(8 << 20);
const CELLS: ByteCount = ByteCount(64 << 20);

/// The load, and the part of the engine that it measures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Random requests without cache hits.
    Direct,
    /// Sequential reads with read-ahead.
    Ahead,
    /// Writes that are acknowledged from the cache, random or sequential.
    Absorbed { in_order: bool },
}

impl Way {
    fn named(name: Option<&str>) -> Result<Way, String> {
        match name {
            None => Ok(Way::Direct),
            Some("ahead") => Ok(Way::Ahead),
            Some("absorbed") => Ok(Way::Absorbed { in_order: false }),
            Some("absorbed-in-order") => Ok(Way::Absorbed { in_order: true }),
            Some(other) => {
                Err(format!("'{other}' is not 'ahead', 'absorbed' or 'absorbed-in-order'"))
            }
        }
    }

    fn choices(self) -> Choices {
        match self {
            Way::Direct => Choices::default(),
            Way::Ahead => Choices { reads: AHEAD, read_room: ROOM, ..Choices::default() },
            Way::Absorbed { .. } => {
                Choices { write_back: Some(CELLS), has_bytes: true, ..Choices::default() }
            }
        }
    }

    fn is_in_order(self) -> bool {
        matches!(self, Way::Ahead | Way::Absorbed { in_order: true })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let field = |index: usize, usual: &str| {
        arguments.get(index).cloned().unwrap_or_else(|| usual.to_owned())
    };
    let (level, drive) = (field(0, "raid5").parse::<Level>()?, field(1, "mem:32M"));
    let requests: u64 = field(2, "10000").parse()?;
    let (block, reads) = (field(3, "8K").parse::<ByteCount>()?, field(4, "67").parse::<u64>()?);
    let way = Way::named(arguments.get(5).map(String::as_str))?;
    let mut sim = Sim::new(SimOptions { seed: 7, ..SimOptions::default() });
    let env = sim.env();
    sim.run(async move {
        let drives = if level == Level::Raid1 { 2 } else { DRIVES };
        let mut sources = Vec::new();
        for _ in 0..drives {
            sources.push(drives::open(&env, &drive).await?);
        }
        let shape = Shape::new(level, DriveCount(drives));
        let volume = assemble(&env, &shape, StripSize::KIB_64, sources, way.choices()).await?;
        let volume = Rc::new(Member::new(&env, Rc::new(volume.as_drive())));
        let left = Rc::new(Cell::new(requests));
        let next = way.is_in_order().then(Rc::default);
        let load = |task| Load {
            volume: volume.clone(),
            left: left.clone(),
            block,
            reads,
            random: task,
            next: next.clone(),
        };
        let outstanding = if way == Way::Ahead { 1 } else { OUTSTANDING };
        let tasks: Vec<_> =
            (0..outstanding).map(|task| env.spawn("load", load(task).run(env.clone()))).collect();
        for task in tasks {
            task.await?;
        }
        println!(
            "{requests} requests of {block}, {reads} % of them reads, to {level} on {drives} \
            × {drive}"
        );
        Ok(())
    })?
}

/// One outstanding request at a time, until all are done.
struct Load {
    volume: Rc<Member>,
    left: Rc<Cell<u64>>,
    block: ByteCount,
    reads: u64,
    random: u64,
    /// The next block of a sequential load.
    next: Option<Rc<Cell<u64>>>,
}

impl Load {
    async fn run(mut self, env: Env) -> Result<(), Box<dyn Error>> {
        let blocks = self.volume.info().size.0 / self.block.0;
        let mut buf = Buf::unpooled(self.block);
        let payload = Buf::copy_of(&vec![0xA5; self.block.as_usize()]).freeze();
        while self.left.get() > 0 {
            self.left.set(self.left.get() - 1);
            let (state, number) = platform::sync::split_mix(self.random);
            self.random = state;
            let place = match &self.next {
                Some(next) => next.replace(next.get() + 1),
                None => number >> 8,
            };
            let offset = ByteOffset(place % blocks * self.block.0);
            if (number & 0xFF) * 100 < self.reads * 256 {
                let mut outcome = self.volume.read(offset, smallvec![buf]).await;
                outcome.result?;
                buf = outcome.buffers.pop().ok_or("the buffer did not come back")?;
            } else {
                self.volume
                    .write(offset, smallvec![payload.clone()], Durability::Cached)
                    .await
                    .result?;
            }
            if number.is_multiple_of(16) {
                env.yield_now().await;
            }
        }
        Ok(())
    }
}
