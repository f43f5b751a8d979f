//! Requests to the volume: many at once, on every shard, each checked when it completes.

use crate::error::{Error, ErrorKind, Result};
use crate::life::Plan;
use crate::oracle::Issued;
use crate::requests::{Operation, Request, Requests, Targets};
use crate::scene::{Begun, Scene};
use crate::silent;
use crate::stamp::{self, Sector};
use engine::Volume;
use platform::{
    BlockStatus, Buf, Durability, Instant, IoError, IoOutcome, IoRequest, Receiver, Slice, mailbox,
};
use platform_sim::Rng;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteRange};

/// The length of a pause: enough for regions to be marked clean.
const LULL: Duration = Duration::from_secs(8);

/// The state shared by the workers of a life.
struct Shared {
    left: Cell<u64>,
    begun: Cell<u64>,
    /// See [`Plan::cut_at`].
    cut_at: Option<(u64, u64)>,
    /// The end of the current pause: idle regions lose their marks meanwhile.
    lull_at: Cell<u64>,
    lull_until: Cell<Instant>,
    failed: Cell<bool>,
}

/// Sends the planned requests; `volumes` are the volume's handles on each shard. Ends when all are
/// complete.
///
/// # Errors
/// The first violated invariant.
pub async fn run(scene: Rc<Scene>, volumes: Vec<Rc<Volume>>, plan: &Plan) -> Result<()> {
    let life = scene.machine.life.get();
    let mut rng = Rng::new(scene.setup.seed, "workload", &life.to_string());
    let env = volumes[0].shard().env().clone();
    let shared = Rc::new(Shared {
        left: Cell::new(plan.ops),
        begun: Cell::new(0),
        cut_at: plan.cut_at,
        lull_at: Cell::new(if rng.chance(1, 3) { rng.below(plan.ops.max(1)) } else { u64::MAX }),
        lull_until: Cell::default(),
        failed: Cell::new(false),
    });
    let places = Targets::new(&scene.setup, &mut rng);
    let workers = scene.setup.workers;
    let (finished, mut results) = mailbox::mailbox(&env, workers as usize);
    for number in plan.first_worker..plan.first_worker + workers {
        let volume = volumes[number as usize % volumes.len()].clone();
        let requests = Requests::new(&places, &scene.setup, life, number);
        let worker = Worker {
            scene: scene.clone(),
            shared: shared.clone(),
            volume: volume.clone(),
            requests,
        };
        let finished = finished.clone();
        volume.shard().env().spawn("worker", async move {
            let result = worker.run().await;
            // The receiver waits for every worker.
            assert!(finished.send(result).is_ok(), "the receiver waits for every worker");
        });
    }
    drop(finished);
    let mut result = Ok(());
    while let Some(one) = results.receive().await {
        result = result.and(one);
    }
    result
}

struct Worker {
    scene: Rc<Scene>,
    shared: Rc<Shared>,
    volume: Rc<Volume>,
    requests: Requests,
}

impl Worker {
    async fn run(mut self) -> Result<()> {
        let env = self.volume.shard().env().clone();
        loop {
            let left = self.shared.left.get();
            if left == 0 || self.shared.failed.get() {
                return Ok(());
            }
            self.shared.left.set(left - 1);
            let request = self.requests.next();
            if left == self.shared.lull_at.get() {
                self.shared.lull_until.set(env.now() + LULL);
            }
            env.sleep_until(self.shared.lull_until.get()).await;
            if let Some(pause) = request.pause {
                env.sleep(pause).await;
            }
            let begun = self.shared.begun.replace(self.shared.begun.get() + 1);
            if let Some((at, events)) = self.shared.cut_at
                && at == begun
            {
                self.scene.machine.time.stop_in(events);
            }
            if !self.scene.setup.without.sends(request.name) {
                // The time that the omitted request would have taken, so that others keep their
                // timing.
                env.sleep(self.requests.usual_time()).await;
                continue;
            }
            self.scene.count(|tally| tally.ops += 1);
            self.scene.machine.story.requests.borrow_mut().push(request.name);
            let held = |()| self.volume.check_invariants().or_else(Error::wrong_state);
            let result = self.send(request).await.and_then(held);
            if result.is_err() {
                self.shared.failed.set(true);
                return result;
            }
        }
    }

    async fn send(&self, request: Request) -> Result<()> {
        match request.what {
            Operation::Read if request.is_taskless => self.read_without_task(request).await,
            Operation::Read => read(&self.scene, &self.volume, request.range()).await,
            Operation::Status => status(&self.scene, &self.volume, request.range()).await,
            Operation::Write if request.part.is_some() => self.write_bytes(request).await,
            Operation::Write => self.write(request).await,
            Operation::WriteZeroes { .. } => self.write_zeroes(request).await,
            Operation::Trim => self.trim(request).await,
            Operation::Flush => flush(&self.scene, &self.volume).await,
        }
    }

    fn may_write(&self, request: &Request) -> bool {
        self.scene.oracle.borrow().may_write(request.first, request.count)
    }

    async fn write(&self, request: Request) -> Result<()> {
        if !self.may_write(&request) {
            return Ok(());
        }
        let (first, count) = (request.first, request.count);
        let issued = self.scene.oracle.borrow_mut().write(first, count);
        let payload = stamps(first, count, issued, request.sector);
        self.send_bytes(request, issued, payload).await
    }

    async fn write_bytes(&self, request: Request) -> Result<()> {
        let issued = self.scene.oracle.borrow_mut().write_bytes(request.range());
        match issued {
            Some((issued, bytes)) => self.send_bytes(request, issued, bytes).await,
            None => Ok(()),
        }
    }

    async fn send_bytes(&self, request: Request, issued: Issued, bytes: Vec<u8>) -> Result<()> {
        let (range, durability) = (request.range(), request.durability);
        let shard = self.volume.shard();
        let _payload = shard.reserve_payload(range.len).await;
        let mut buf = take(&self.volume, range.len)?;
        buf.bytes_mut().copy_from_slice(&bytes);
        let name = format!("write {}", issued.generation.0);
        let begun = self.tell(&name, &request);
        let data = buf.freeze();
        let result = match request.is_taskless {
            true => self.write_without_task(range, data, durability).await,
            false => self.volume.write(range, data, durability).await,
        };
        self.end(&name, (issued, begun), &request, result)
    }

    /// Begins a request as hosts' ports do. An error is the request, which needs a task.
    async fn begin(&self, request: IoRequest) -> std::result::Result<IoOutcome, IoRequest> {
        let (io, completion) = self.volume.shard().env().start_operation(None);
        match self.volume.begin(request, Receiver::Completion(completion)) {
            None => {
                self.scene.count(|tally| tally.taskless += 1);
                Ok(io.await)
            }
            Some((request, _)) => {
                io.abandon();
                Err(request)
            }
        }
    }

    async fn read_without_task(&self, request: Request) -> Result<()> {
        let range = request.range();
        read_by(&self.scene, &self.volume, range, async |buf| {
            let buffers = std::iter::once(buf).collect();
            match self.begin(IoRequest::Read { offset: range.start, buffers }).await {
                Ok(mut outcome) => (outcome.result.map(drop), outcome.buffers.pop()),
                Err(request) => self.volume.read(range, only_buffer(request)).await,
            }
        })
        .await
    }

    async fn write_without_task(
        &self,
        range: ByteRange,
        data: Slice,
        durability: Durability,
    ) -> std::result::Result<(), IoError> {
        let slices = std::iter::once(data.clone()).collect();
        let request = IoRequest::Write { offset: range.start, slices, durability };
        match self.begin(request).await {
            Ok(outcome) => outcome.result.map(drop),
            Err(_) => self.volume.write(range, data, durability).await,
        }
    }

    async fn write_zeroes(&self, request: Request) -> Result<()> {
        if !self.may_write(&request) {
            return Ok(());
        }
        let (range, durability) = (request.range(), request.durability);
        let issued = self.scene.oracle.borrow_mut().write_zeroes(request.first, request.count);
        let name = format!("write {} of zeroes", issued.generation.0);
        let begun = self.tell(&name, &request);
        let result = match request.what {
            Operation::WriteZeroes { as_payload: false } => {
                self.volume.write_zeroes(range, durability).await
            }
            _ => self.volume.write(range, Slice::zero(range.len), durability).await,
        };
        self.end(&name, (issued, begun), &request, result)
    }

    async fn trim(&self, request: Request) -> Result<()> {
        if !self.may_write(&request) {
            return Ok(());
        }
        let issued = self.scene.oracle.borrow_mut().trim(request.first, request.count);
        let name = format!("trim {}", issued.generation.0);
        let begun = self.tell(&name, &request);
        let result = self.volume.trim(request.range()).await;
        self.end(&name, (issued, begun), &request, result)
    }

    /// A request begins.
    fn tell(&self, name: &str, request: &Request) -> Begun {
        let shard = self.volume.shard().index().0;
        self.scene.tell_of(&format!("worker {}", request.name.worker), || {
            let durable = if request.durability == Durability::Durable { ", durable" } else { "" };
            format!("{name} to {request}{durable} (request {}, shard {shard}) ...", request.name)
        });
        self.scene.begin_request()
    }

    fn end(
        &self,
        name: &str,
        (issued, begun): (Issued, Begun),
        request: &Request,
        result: std::result::Result<(), platform::IoError>,
    ) -> Result<()> {
        let range = request.range();
        self.scene.note_write(range);
        match result {
            Ok(()) => {
                let who = format!("worker {}", request.name.worker);
                let is_logged = request.what != Operation::Trim && self.scene.was_logged(begun);
                if is_logged {
                    self.scene.count(|tally| tally.logged += 1);
                }
                let where_it_is = if is_logged { ": a log device has it" } else { "" };
                self.scene.tell_of(&who, || format!("{name} is acknowledged{where_it_is}"));
                let durable = request.durability == Durability::Durable || is_logged;
                self.scene.oracle.borrow_mut().acknowledge(&issued, durable);
                Ok(())
            }
            Err(error) => {
                self.scene.failed(&issued);
                self.scene.judge_error(name, range, begun, error)
            }
        }
    }
}

/// The data of a write of whole sectors.
pub(crate) fn stamps(first: Sector, count: u64, issued: Issued, sector: u64) -> Vec<u8> {
    let mut bytes = vec![0; (sector * count) as usize];
    for (index, bytes) in bytes.chunks_exact_mut(sector as usize).enumerate() {
        stamp::fill(bytes, Sector(first.0 + index as u64), issued.generation);
    }
    bytes
}

pub(crate) fn take(volume: &Volume, len: ByteCount) -> Result<Buf> {
    volume.shard().env().pool().take(len).ok_or_else(|| {
        let text = format!("no memory for a reserved payload of {len}");
        Error::new(ErrorKind::NeedlessError, text)
    })
}

/// The buffer of a read that needs a task.
fn only_buffer(request: IoRequest) -> Buf {
    match request {
        IoRequest::Read { mut buffers, .. } if buffers.len() == 1 => buffers.remove(0),
        request => unreachable!("a read comes back as it was sent, not as {request:?}"),
    }
}

/// Reads a range and checks every sector.
///
/// # Errors
/// When a sector has a value that is not allowed, or the read must not fail.
pub async fn read(scene: &Scene, volume: &Rc<Volume>, range: ByteRange) -> Result<()> {
    read_by(scene, volume, range, |buf| volume.read(range, buf)).await
}

/// The same, by this function.
async fn read_by(
    scene: &Scene,
    volume: &Volume,
    range: ByteRange,
    read: impl AsyncFnOnce(Buf) -> (std::result::Result<(), IoError>, Option<Buf>),
) -> Result<()> {
    let _payload = volume.shard().reserve_payload(range.len).await;
    let buf = take(volume, range.len)?;
    let begun = scene.oracle.borrow_mut().begin_read();
    let request = scene.begin_request();
    let (result, buf) = read(buf).await;
    match (result, buf) {
        (Ok(()), Some(buf)) => {
            silent::note_strays(scene);
            let checked = scene.oracle.borrow_mut().check(begun, range.start, buf.bytes());
            checked.map_err(|violation| scene.wrong_data("a read", &violation))
        }
        (Ok(()), None) => Err(Error::new(
            ErrorKind::NeedlessError,
            format!("a read of {range:?} kept its buffer"),
        )),
        (Err(error), _) => {
            scene.oracle.borrow_mut().abandon_read(begun);
            scene.judge_error("a read", range, request, error)
        }
    }
}

/// Queries the block status of a range, and checks every sector that is reported as zeros.
///
/// # Errors
/// When a sector cannot be zeros, the reply does not cover the range, or the request must not fail.
pub async fn status(scene: &Scene, volume: &Rc<Volume>, range: ByteRange) -> Result<()> {
    let begun = scene.oracle.borrow_mut().begin_read();
    let request = scene.begin_request();
    match volume.status(range).await {
        Ok(extents) => {
            silent::note_strays(scene);
            let covered: u64 = extents.iter().map(|extent| extent.len.0).sum();
            let is_of_range = range.len.0 >= covered && covered > 0;
            let (mut at, mut zeros) = (range.start, Vec::new());
            for extent in extents {
                let of = ByteRange::new(at, extent.len);
                zeros.extend((extent.status != BlockStatus::Data).then_some(of));
                at = of.end();
            }
            let checked = scene.oracle.borrow_mut().check_zeros(begun, &zeros);
            checked.map_err(|violation| scene.wrong_data("a block status", &violation))?;
            match is_of_range {
                true => Ok(()),
                false => {
                    Error::wrong_state(format!("the status of {range:?} is of {covered} bytes"))
                }
            }
        }
        Err(error) => {
            scene.oracle.borrow_mut().abandon_read(begun);
            scene.judge_error("a block status", range, request, error)
        }
    }
}

/// Flushes the volume.
///
/// # Errors
/// When it must not fail.
pub async fn flush(scene: &Scene, volume: &Rc<Volume>) -> Result<()> {
    let begun = scene.oracle.borrow_mut().begin_flush();
    let settled = scene.settled();
    let request = scene.begin_request();
    match volume.flush().await {
        Ok(()) => {
            scene.oracle.borrow_mut().acknowledge_flush(begun, scene.setup.has_cache());
            scene.flushed(&settled);
            scene.on_log.is_flushed();
            scene.tell(|| "a flush is acknowledged".to_owned());
            Ok(())
        }
        Err(error) => scene.judge_error("a flush", ByteRange::default(), request, error),
    }
}
