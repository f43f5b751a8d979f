//! A queue of a ublk disk, as the kernel provides it: one task per slot.
//!
//! While the disk's volume is not served, its requests wait; after a time limit they fail. The disk
//! manager reports the new target ([`GuestMessage::Target`](crate::GuestMessage)), or fails the
//! waiting requests ([`GuestMessage::GiveUp`](crate::GuestMessage)).

use crate::work::{RangeOperation, Work};
use platform::sync::Signal;
use platform::{
    BlockTarget, Connected, Connection, Durability, Env, Hosts, IoError, IoErrorKind, KernelQueue,
    KernelRequest, KernelWork, Peer, Targets,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use units::ByteCount;

/// How long requests wait for a volume that is not served.
const TARGET_WAIT: Duration = Duration::from_secs(120);
/// How long the shards' lists of targets may differ.
const OTHER_SHARDS: Duration = Duration::from_secs(5);
/// The polling interval for the volume.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// See the [module](self).
pub(crate) struct Slots<S: Targets> {
    targets: S,
    hosts: Hosts,
    peer: Peer,
    read_only: bool,
    queue: Rc<dyn KernelQueue>,
    /// The disk's target number. This shard may start to serve the target slightly later.
    wanted: Cell<Option<u64>>,
    work: RefCell<Option<Rc<Work<S::Target>>>>,
    /// Slots whose tasks still run.
    left: Cell<u16>,
    under_way: Cell<u32>,
    /// Requests do not wait for a target that is not served.
    is_given_up: Cell<bool>,
    changed: Signal,
    alive: RefCell<Option<Arc<()>>>,
}

impl<S: Targets> Slots<S> {
    pub fn new(
        (targets, hosts): (S, Hosts),
        peer: Peer,
        read_only: bool,
        queue: Rc<dyn KernelQueue>,
        alive: Arc<()>,
    ) -> Rc<Slots<S>> {
        Rc::new(Slots {
            targets,
            hosts,
            peer,
            read_only,
            left: Cell::new(queue.depth()),
            queue,
            wanted: Cell::new(None),
            work: RefCell::default(),
            under_way: Cell::new(0),
            is_given_up: Cell::new(false),
            changed: Signal::default(),
            alive: RefCell::new(Some(alive)),
        })
    }

    fn env(&self) -> &Env {
        self.targets.env()
    }

    /// Sets the disk's target.
    pub fn set_target(&self, number: u64) {
        self.wanted.set(Some(number));
        self.connect();
    }

    /// The disk will be removed: waiting requests fail, so that the removal does not wait for them.
    pub fn give_up(&self) {
        self.is_given_up.set(true);
    }

    /// Connects to the target as a host, if this shard serves it. Returns whether it does.
    fn connect(&self) -> bool {
        let (env, Some(number)) = (self.env(), self.wanted.get()) else { return false };
        let mut targets = self.targets.targets().into_iter();
        let Some(target) = targets.find(|target| target.number() == number && target.is_served())
        else {
            return false;
        };
        let host: Connected = self.hosts.connect(Connection {
            peer: self.peer.clone(),
            protocol: "ublk",
            target: number,
            asked_for: target.name().to_string(),
            since: env.now(),
            since_unix_s: env.unix_time(),
        });
        let read_only = self.read_only || target.is_read_only();
        let work = Work { env: env.clone(), geometry: target.geometry(), target, host, read_only };
        self.work.replace(Some(Rc::new(work)));
        true
    }

    /// Whether the disk is removed, and no request is in progress.
    pub fn is_over(&self) -> bool {
        self.left.get() == 0
    }

    /// Waits until no request is in progress.
    pub async fn idle(&self) {
        self.changed.wait_until(self.env(), || self.under_way.get() == 0).await;
    }

    /// Periodic check, about once a second.
    pub fn look(&self) {
        let work = self.work.borrow();
        let Some(work) = &*work else { return };
        work.host.look(self.env().now());
    }

    /// Serves every slot until the disk is removed.
    pub fn serve(self: &Rc<Self>) {
        for slot in 0..self.queue.depth() {
            self.env().spawn("disk's slot", self.clone().serve_slot(slot));
        }
    }

    async fn serve_slot(self: Rc<Self>, slot: u16) {
        let mut answer = 0;
        while self.queue.next(slot, answer).await.result.is_ok() {
            self.count(1);
            let request = self.queue.request(slot);
            answer = match self.carry_out(slot, request).await {
                Ok(()) if matches!(request.work, KernelWork::Read | KernelWork::Write) => {
                    request.range.len.0 as i32
                }
                Ok(()) => 0,
                Err(error) => -errno(error),
            };
            self.count(-1);
        }
        self.left.set(self.left.get() - 1);
        if self.is_over() {
            self.work.take();
            self.alive.take();
        }
    }

    fn count(&self, change: i32) {
        self.under_way.set(self.under_way.get().saturating_add_signed(change));
        if let Some(work) = &*self.work.borrow() {
            work.host.set_outstanding(self.under_way.get());
        }
        self.changed.notify(self.env());
    }

    /// The target for requests; waits for a volume that is not served.
    async fn served(&self) -> Result<Rc<Work<S::Target>>, IoError> {
        let until = self.env().now() + TARGET_WAIT;
        loop {
            let work = self.work.borrow().clone();
            match work {
                Some(work) if work.target.is_served() => return Ok(work),
                // Disconnects from the removed target, so that the connection does not block other
                // work.
                _ => drop(self.work.take()),
            }
            if self.connect() {
                continue;
            }
            if self.is_given_up.get() || self.env().now() >= until {
                return Err(IoError::new(IoErrorKind::Gone));
            }
            self.env().sleep(LOOK_EVERY).await;
        }
    }

    async fn carry_out(&self, slot: u16, request: KernelRequest) -> Result<(), IoError> {
        let mut until = None;
        loop {
            let work = self.served().await?;
            let outcome = self.attempt(&work, slot, request).await;
            let is_gone = outcome.is_err_and(|error| error.kind == IoErrorKind::Gone);
            // The target was stopping and may be served again; another shard may see that earlier.
            // A served target that fails with *gone* for longer has lost too many drives.
            let now = self.env().now();
            if !work.target.is_served() {
                until = None;
            }
            let is_final = self.is_given_up.get()
                || work.target.is_served() && now >= *until.get_or_insert(now + OTHER_SHARDS);
            if !is_gone || is_final {
                return outcome;
            }
            self.env().sleep(LOOK_EVERY).await;
        }
    }

    async fn attempt(
        &self,
        work: &Work<S::Target>,
        slot: u16,
        request: KernelRequest,
    ) -> Result<(), IoError> {
        let KernelRequest { work: what, range, durable } = request;
        if range.start.0.checked_add(range.len.0).is_none_or(|end| end > work.geometry.capacity.0) {
            return Err(IoError::new(IoErrorKind::Invalid));
        }
        let durability = if durable { Durability::Durable } else { Durability::Cached };
        let payload = if matches!(what, KernelWork::Read | KernelWork::Write) {
            range.len
        } else {
            ByteCount::ZERO
        };
        let _held = match payload.is_zero() {
            true => None,
            false => Some(work.target.reserve_payload(payload.min(work.piece())).await),
        };
        match what {
            KernelWork::Read => work.read(range, |at, from| self.queue.give(slot, at, from)).await,
            KernelWork::Write => {
                work.write(range, durability, |at, to| self.queue.take(slot, at, to)).await
            }
            KernelWork::Flush => work.target.flush().await,
            KernelWork::Trim => work.change(&[range], RangeOperation::Discard, durability).await,
            KernelWork::Zeroes => work.change(&[range], RangeOperation::Zeroes, durability).await,
            KernelWork::Unknown => Err(IoError::new(IoErrorKind::NotSupported)),
        }
    }
}

/// The Linux error number.
fn errno(error: IoError) -> i32 {
    const EIO: i32 = 5;
    const ENOMEM: i32 = 12;
    const ENOSPC: i32 = 28;
    const EOPNOTSUPP: i32 = 95;
    match error.kind {
        IoErrorKind::OutOfSpace => ENOSPC,
        // ENOMEM: the block layer retries later.
        IoErrorKind::Busy => ENOMEM,
        IoErrorKind::NotSupported => EOPNOTSUPP,
        _ => EIO,
    }
}
