//! The queues of one shard: started, changed and stopped by who speaks with the guest's machine; and which targets there are to
//! speak about.

use crate::GuestMemory;
use crate::config::{Disk, Negotiated};
use crate::in_flight::InFlight;
use crate::kernel::Slots;
use crate::queue::{Parts, Queue};
use crate::ring::{Ring, RingPlace};
use platform::{
    BlockTarget, Connection, Env, Hosts, KernelQueueSource, Peer, StreamSource, Targets, mailbox,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Messages to a shard that may wait at a time.
const MAILBOX_ROOM: usize = 1024;
/// How often queues are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often is looked which targets there are.
const OFFER_EVERY: Duration = Duration::from_millis(250);

/// A queue's number; no other queue of this process has it, then or later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct QueueId(pub u64);

impl QueueId {
    /// One that no queue has had.
    #[allow(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> QueueId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        QueueId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// What a shard is told of guests' queues.
pub enum GuestMessage {
    /// Serve a queue.
    Start(Box<QueueStart>),
    /// Call its guest by this from now on.
    Call(QueueId, Option<Box<dyn StreamSource>>),
    /// Its guest's memory is this from now on.
    Memory(QueueId, Arc<GuestMemory>),
    /// Take no more requests of a queue. When all that were taken are answered, the next entry of its available ring is told; nothing
    /// is, if it could not be served.
    Stop(QueueId, mpsc::Sender<u16>),
    /// Serve a queue of the kernel, until its disk is gone.
    Kernel(Box<KernelStart>),
    /// The disk with this queue is the target of that number from now on.
    Target(QueueId, u64),
    /// Requests of that queue that wait for a target which is not served fail, from now on.
    GiveUp(QueueId),
    /// Tells when nothing of the kernel's queues is under way.
    Idle(mailbox::Sender<()>),
}

/// A queue of the kernel that is to be served.
pub struct KernelStart {
    /// Its number.
    pub queue: QueueId,
    /// The number of its target.
    pub target: u64,
    /// The disk.
    pub peer: Peer,
    /// Nothing can be written to it.
    pub read_only: bool,
    /// The queue.
    pub source: Box<dyn KernelQueueSource>,
    /// Dropped when the disk is gone.
    pub alive: Arc<()>,
}

/// A queue that is to be served.
pub struct QueueStart {
    /// Its number.
    pub queue: QueueId,
    /// The number of its target.
    pub target: u64,
    /// Who is at the other end.
    pub peer: Peer,
    /// What the guest was told of its disk.
    pub disk: Disk,
    /// What the guest chose.
    pub negotiated: Negotiated,
    /// The guest's memory.
    pub memory: Arc<GuestMemory>,
    /// Where the queue lies in it.
    pub ring: RingPlace,
    /// Where it is noted which requests are under way.
    pub in_flight: Option<InFlight>,
    /// The guest signals when it has made something available.
    pub kick: Box<dyn StreamSource>,
    /// Signalled when something was answered; without it the guest looks by itself.
    pub call: Option<Box<dyn StreamSource>>,
}

/// The mailbox of a shard's queues, made on its shard.
pub fn guest_mailbox(env: &Env) -> (mailbox::Sender<GuestMessage>, mailbox::Receiver<GuestMessage>) {
    mailbox::mailbox(env, MAILBOX_ROOM)
}

struct Port<S: Targets> {
    targets: S,
    hosts: Hosts,
    queues: RefCell<BTreeMap<QueueId, Rc<Queue<S>>>>,
    slots: RefCell<BTreeMap<QueueId, Rc<Slots<S>>>>,
}

/// Serves the queues that come through `messages`, until nobody can send any more. Guests are among `hosts` while they are served.
pub async fn serve_guests<S: Targets>(
    targets: S,
    hosts: Hosts,
    mut messages: mailbox::Receiver<GuestMessage>,
) {
    let env = targets.env().clone();
    let port = Rc::new(Port { targets, hosts, queues: RefCell::default(), slots: RefCell::default() });
    let watch = Rc::downgrade(&port);
    env.spawn("guest watch", {
        let env = env.clone();
        async move {
            loop {
                env.sleep(LOOK_EVERY).await;
                let Some(port) = watch.upgrade() else { return };
                port.queues.borrow().values().for_each(|queue| queue.look());
                port.slots.borrow_mut().retain(|_, slots| !slots.is_over());
                port.slots.borrow().values().for_each(|slots| slots.look());
            }
        }
    });
    while let Some(message) = messages.receive().await {
        port.hear(&env, message);
    }
    port.queues.take().values().for_each(|queue| queue.stop());
}

impl<S: Targets> Port<S> {
    fn hear(self: &Rc<Self>, env: &Env, message: GuestMessage) {
        match message {
            GuestMessage::Start(start) => match self.queue(env, *start) {
                Ok((id, queue)) => {
                    self.queues.borrow_mut().insert(id, queue.clone());
                    env.spawn("guest queue", queue.serve());
                }
                Err(why) => tracing::warn!("a guest's queue is not served: {why}"),
            },
            GuestMessage::Call(id, call) => {
                let Some(queue) = self.queues.borrow().get(&id).cloned() else { return };
                match call.map(|call| call.attach(env)).transpose() {
                    Ok(call) => queue.set_call(call),
                    Err(error) => tracing::warn!("a guest cannot be called any more: {error}"),
                }
            }
            GuestMessage::Memory(id, memory) => {
                if let Some(queue) = self.queues.borrow().get(&id) {
                    queue.set_memory(memory);
                }
            }
            GuestMessage::Kernel(start) => self.start_kernel(env, *start),
            GuestMessage::Target(id, number) => {
                if let Some(slots) = self.slots.borrow().get(&id) {
                    slots.set_target(number);
                }
            }
            GuestMessage::GiveUp(id) => {
                if let Some(slots) = self.slots.borrow().get(&id) {
                    slots.give_up();
                }
            }
            GuestMessage::Idle(told) => {
                let all: Vec<_> = self.slots.borrow().values().cloned().collect();
                env.spawn("disks' slots are idle", async move {
                    for slots in all {
                        slots.idle().await;
                    }
                    if told.send(()).is_err() {
                        tracing::debug!("nobody waits for the kernel's queues any more");
                    }
                });
            }
            GuestMessage::Stop(id, told) => {
                let Some(queue) = self.queues.borrow_mut().remove(&id) else { return };
                queue.stop();
                env.spawn("guest queue stops", async move {
                    let next = queue.stopped().await;
                    if told.send(next).is_err() {
                        tracing::debug!("nobody waits for a guest's queue any more");
                    }
                });
            }
        }
    }

    fn start_kernel(&self, env: &Env, start: KernelStart) {
        let KernelStart { queue: id, target, peer, read_only, source, alive } = start;
        match source.attach(env) {
            Ok(queue) => {
                let slots =
                    Slots::new((self.targets.clone(), self.hosts.clone()), peer, read_only, queue, alive);
                slots.set_target(target);
                slots.serve();
                self.slots.borrow_mut().insert(id, slots);
            }
            Err(error) => tracing::warn!(disk = %peer, "a queue of the kernel is not served: {error}"),
        }
    }

    fn queue(&self, env: &Env, start: QueueStart) -> Result<(QueueId, Rc<Queue<S>>), String> {
        let mut targets = self.targets.targets().into_iter();
        let target = targets
            .find(|target| target.number() == start.target)
            .ok_or("its volume is not served any more")?;
        let now = Disk { geometry: target.geometry(), ..start.disk };
        if !now.is_same(&start.disk) {
            return Err(format!("'{}' is not what the guest was told", target.name()));
        }
        let ring = Ring::new(&start.memory, start.ring, start.negotiated).map_err(|broken| broken.0)?;
        let attach = |source: Box<dyn StreamSource>| source.attach(env).map_err(|error| error.to_string());
        let kick = attach(start.kick)?;
        let call = start.call.map(attach).transpose()?;
        let connection = Connection {
            peer: start.peer,
            protocol: "vhost-user",
            target: target.number(),
            asked_for: target.name().to_string(),
            since: env.now(),
            since_unix_s: env.unix_time(),
        };
        let parts = Parts {
            read_only: start.disk.read_only || target.is_read_only(),
            target,
            host: self.hosts.connect(connection),
            negotiated: start.negotiated,
            ring,
            memory: start.memory,
            in_flight: start.in_flight,
            kick,
            call,
        };
        Ok((start.queue, Queue::new(self.targets.clone(), parts)))
    }
}

/// A target that guests may have as a disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offered {
    /// Its number.
    pub target: u64,
    /// Its name.
    pub name: String,
    /// What a guest is told of it.
    pub disk: Disk,
}

/// Tells which targets there are, whenever that changes, until `tell` says that nobody listens.
pub async fn offer<S: Targets>(targets: S, tell: impl Fn(Vec<Offered>) -> bool) {
    let mut told = None;
    loop {
        let offered = |target: &Rc<S::Target>| Offered {
            target: target.number(),
            name: target.name().to_string(),
            disk: Disk { geometry: target.geometry(), read_only: target.is_read_only() },
        };
        let now: Vec<Offered> =
            targets.targets().iter().filter(|target| target.is_served()).map(offered).collect();
        if told.as_ref() != Some(&now) && !tell(now.clone()) {
            return;
        }
        told = Some(now);
        targets.env().sleep(OFFER_EVERY).await;
    }
}
