//! A memory disk that outlives the process which serves it. Each request takes some time.

use super::CAPACITY;
use platform::sync::{Credits, Taken};
use platform::{
    BlockTarget, Buf, Durability, Env, HostSectors, IoError, IoOutcome, IoRequest, Receiver, Slice,
    StatusExtent, TargetGeometry, Targets,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteRange, SectorSize};

pub struct Disk {
    pub bytes: RefCell<Vec<u8>>,
    pub read_only: bool,
    /// The disk is not served.
    pub is_away: Cell<bool>,
    pub flushes: Cell<u64>,
    pub changes: Cell<u64>,
    /// The longest range of a call.
    pub longest: Cell<u64>,
    /// Requests that were begun without a task of the caller.
    pub begun: Cell<u64>,
}

impl Disk {
    pub fn new(read_only: bool) -> Disk {
        Disk {
            bytes: RefCell::new(vec![0; CAPACITY as usize]),
            read_only,
            is_away: Cell::default(),
            flushes: Cell::default(),
            changes: Cell::default(),
            longest: Cell::default(),
            begun: Cell::default(),
        }
    }
}

pub fn geometry() -> TargetGeometry {
    TargetGeometry {
        capacity: ByteCount(CAPACITY),
        sector: SectorSize::B512,
        host_sectors: HostSectors { logical: SectorSize::B512, physical: SectorSize::B512 },
        smallest_request: ByteCount(1),
        minimum_io: ByteCount(512),
        strip: ByteCount(4096),
        optimal_io: ByteCount(8192),
        rotational: false,
    }
}

/// The disk, as a process serves it.
pub struct Served {
    env: Env,
    disk: Rc<Disk>,
    credits: Credits,
}

impl Served {
    async fn takes_time(&self, range: ByteRange) -> std::ops::Range<usize> {
        self.disk.longest.set(self.disk.longest.get().max(range.len.0));
        self.env.sleep(Duration::from_micros(1 + self.env.random() % 200)).await;
        let start = range.start.0 as usize;
        start..start + range.len.as_usize()
    }

    fn changed(&self) {
        self.disk.changes.set(self.disk.changes.get() + 1);
    }
}

impl BlockTarget for Served {
    fn number(&self) -> u64 {
        1
    }

    fn name(&self) -> Rc<str> {
        "data".into()
    }

    fn description(&self) -> String {
        "a disk of memory".to_owned()
    }

    fn geometry(&self) -> TargetGeometry {
        geometry()
    }

    fn is_read_only(&self) -> bool {
        self.disk.read_only
    }

    fn is_served(&self) -> bool {
        !self.disk.is_away.get()
    }

    fn begin(
        self: &Rc<Self>,
        request: IoRequest,
        receiver: Receiver,
    ) -> Option<(IoRequest, Receiver)> {
        if self.env.random().is_multiple_of(2) {
            return Some((request, receiver));
        }
        self.disk.begun.set(self.disk.begun.get() + 1);
        let served = self.clone();
        self.env.spawn("disk", async move {
            let range = request.range();
            let (result, buf) = match request {
                IoRequest::Read { mut buffers, .. } => served.read(range, buffers.remove(0)).await,
                IoRequest::Write { mut slices, durability, .. } => {
                    (served.write(range, slices.remove(0), durability).await, None)
                }
                _ => panic!("a transfer"),
            };
            let outcome = IoOutcome { result: result.map(|()| range.len.0), ..IoOutcome::done(0) };
            receiver.complete(outcome.with_buffers(buf.into_iter().collect()));
        });
        None
    }

    async fn read(
        self: &Rc<Self>,
        range: ByteRange,
        mut buf: Buf,
    ) -> (Result<(), IoError>, Option<Buf>) {
        let at = self.takes_time(range).await;
        buf.bytes_mut().copy_from_slice(&self.disk.bytes.borrow()[at]);
        (Ok(()), Some(buf))
    }

    async fn write(
        self: &Rc<Self>,
        range: ByteRange,
        data: Slice,
        durability: Durability,
    ) -> Result<(), IoError> {
        let at = self.takes_time(range).await;
        assert_eq!(durability, Durability::Cached);
        data.copy_to(&mut self.disk.bytes.borrow_mut()[at]);
        self.changed();
        Ok(())
    }

    async fn write_zeroes(self: &Rc<Self>, range: ByteRange, _: Durability) -> Result<(), IoError> {
        let at = self.takes_time(range).await;
        self.disk.bytes.borrow_mut()[at].fill(0);
        self.changed();
        Ok(())
    }

    async fn trim(self: &Rc<Self>, range: ByteRange) -> Result<(), IoError> {
        self.write_zeroes(range, Durability::Cached).await
    }

    async fn flush(self: &Rc<Self>) -> Result<(), IoError> {
        self.disk.flushes.set(self.disk.flushes.get() + 1);
        Ok(())
    }

    async fn status(self: &Rc<Self>, _: ByteRange) -> Result<Vec<StatusExtent>, IoError> {
        Ok(Vec::new())
    }

    async fn reserve_payload(&self, len: ByteCount) -> Taken {
        self.credits.take(len.0).await
    }
}

#[derive(Clone)]
pub struct TestTargets {
    env: Env,
    served: Rc<Served>,
}

impl TestTargets {
    pub fn new(env: &Env, disk: &Rc<Disk>) -> TestTargets {
        let credits = Credits::new(env, env.pool().limit().0 / 2);
        let served = Rc::new(Served { env: env.clone(), disk: disk.clone(), credits });
        TestTargets { env: env.clone(), served }
    }
}

impl Targets for TestTargets {
    type Target = Served;

    fn env(&self) -> &Env {
        &self.env
    }

    fn targets(&self) -> Vec<Rc<Served>> {
        vec![self.served.clone()]
    }

    fn find(&self, name: &str) -> Option<Rc<Served>> {
        (name == "data").then(|| self.served.clone())
    }
}
