//! The queues of one shard, which the vhost-user back-end starts, changes and stops, and the list
//! of targets for guests.

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

/// The capacity of a shard's mailbox.
const MAILBOX_ROOM: usize = 1024;
/// The interval of the periodic queue check.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The interval of the check for new targets.
const OFFER_EVERY: Duration = Duration::from_millis(250);

/// A queue's number, unique in this process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct QueueId(pub u64);

impl QueueId {
    /// An unused number.
    #[allow(clippy::new_without_default, reason = "each call returns another number")]
    pub fn new() -> QueueId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        QueueId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Messages to a shard about guests' queues.
pub enum GuestMessage {
    /// Serve a queue.
    Start(Box<QueueStart>),
    /// Use this event to call the guest.
    Call(QueueId, Option<Box<dyn StreamSource>>),
    /// The guest's memory has changed.
    Memory(QueueId, Arc<GuestMemory>),
    /// Stop a queue. When its requests are complete, the sender receives the next entry of the
    /// available ring, or nothing if the queue was not served.
    Stop(QueueId, mpsc::Sender<u16>),
    /// Serve a ublk queue, until its disk is removed.
    Kernel(Box<KernelStart>),
    /// The queue's disk now belongs to the target of that number.
    Target(QueueId, u64),
    /// Fail the queue's requests that wait for a target which is not served.
    GiveUp(QueueId),
    /// Report when no ublk request is in progress.
    Idle(mailbox::Sender<()>),
}

/// A ublk queue to serve.
pub struct KernelStart {
    /// The queue's number.
    pub queue: QueueId,
    /// The target's number.
    pub target: u64,
    /// The disk.
    pub peer: Peer,
    /// The disk rejects writes.
    pub read_only: bool,
    /// The queue.
    pub source: Box<dyn KernelQueueSource>,
    /// Dropped when the disk is removed.
    pub alive: Arc<()>,
}

/// A virtqueue to serve.
pub struct QueueStart {
    /// The queue's number.
    pub queue: QueueId,
    /// The target's number.
    pub target: u64,
    /// The guest's identity.
    pub peer: Peer,
    /// The disk that the guest was offered.
    pub disk: Disk,
    /// The features that the guest accepted.
    pub negotiated: Negotiated,
    /// The guest's memory.
    pub memory: Arc<GuestMemory>,
    /// The queue's addresses in the memory.
    pub ring: RingPlace,
    /// The in-flight records.
    pub in_flight: Option<InFlight>,
    /// The guest signals this event for new requests.
    pub kick: Box<dyn StreamSource>,
    /// Signalled for completions; without it the guest polls.
    pub call: Option<Box<dyn StreamSource>>,
}

/// The mailbox of a shard's queues, created on that shard.
pub fn guest_mailbox(
    env: &Env,
) -> (mailbox::Sender<GuestMessage>, mailbox::Receiver<GuestMessage>) {
    mailbox::mailbox(env, MAILBOX_ROOM)
}

struct Port<S: Targets> {
    targets: S,
    hosts: Hosts,
    queues: RefCell<BTreeMap<QueueId, Rc<Queue<S>>>>,
    slots: RefCell<BTreeMap<QueueId, Rc<Slots<S>>>>,
}

/// Serves the queues received through `messages`, until all senders are dropped. Guests appear in
/// `hosts` while they are served.
pub async fn serve_guests<S: Targets>(
    targets: S,
    hosts: Hosts,
    mut messages: mailbox::Receiver<GuestMessage>,
) {
    let env = targets.env().clone();
    let port =
        Rc::new(Port { targets, hosts, queues: RefCell::default(), slots: RefCell::default() });
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
                Err(why) => tracing::warn!("cannot serve a guest's queue: {why}"),
            },
            GuestMessage::Call(id, call) => {
                let Some(queue) = self.queues.borrow().get(&id).cloned() else { return };
                match call.map(|call| call.attach(env)).transpose() {
                    Ok(call) => queue.set_call(call),
                    Err(error) => {
                        tracing::warn!("cannot call a guest; its requests may hang: {error}")
                    }
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
                        tracing::debug!("ublk queues are idle; the requester no longer waits");
                    }
                });
            }
            GuestMessage::Stop(id, told) => {
                let Some(queue) = self.queues.borrow_mut().remove(&id) else { return };
                queue.stop();
                env.spawn("guest queue stops", async move {
                    let next = queue.stopped().await;
                    if told.send(next).is_err() {
                        tracing::debug!("a guest's queue stopped; the requester no longer waits");
                    }
                });
            }
        }
    }

    fn start_kernel(&self, env: &Env, start: KernelStart) {
        let KernelStart { queue: id, target, peer, read_only, source, alive } = start;
        match source.attach(env) {
            Ok(queue) => {
                let slots = Slots::new(
                    (self.targets.clone(), self.hosts.clone()),
                    peer,
                    read_only,
                    queue,
                    alive,
                );
                slots.set_target(target);
                slots.serve();
                self.slots.borrow_mut().insert(id, slots);
            }
            Err(error) => tracing::warn!(disk = %peer, "cannot serve a ublk queue: {error}"),
        }
    }

    fn queue(&self, env: &Env, start: QueueStart) -> Result<(QueueId, Rc<Queue<S>>), String> {
        let mut targets = self.targets.targets().into_iter();
        let target = targets
            .find(|target| target.number() == start.target)
            .ok_or("its volume is not served any more")?;
        let now = Disk { geometry: target.geometry(), ..start.disk };
        if !now.is_same(&start.disk) {
            return Err(format!(
                "'{}' differs from the disk that the guest was offered",
                target.name()
            ));
        }
        let ring =
            Ring::new(&start.memory, start.ring, start.negotiated).map_err(|broken| broken.0)?;
        let attach =
            |source: Box<dyn StreamSource>| source.attach(env).map_err(|error| error.to_string());
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

/// A target that is offered to guests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offered {
    /// The target's number.
    pub target: u64,
    /// The target's name.
    pub name: String,
    /// The disk's properties.
    pub disk: Disk,
}

/// Reports the list of targets on each change, until `tell` returns false.
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
