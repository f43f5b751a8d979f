//! A shard's resources: environment, locks, memory, and channels to the controller and to its
//! peers.

use crate::messages::{REPORTS_OPEN, REQUESTS_AWAY, Report, ReportKind, ShardIndex, ShardMessage};
use crate::shard::{CellRoom, CleanRoom, HostActivity};
use crate::volume::VolumeId;
use platform::locks::StripeLocks;
use platform::mailbox::Full;
use platform::sync::{Answerer, Credits, Signal, Taken, answer};
use platform::{Buf, Env, IoError, IoErrorKind, mailbox};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use units::ByteCount;
use volume_state::RegionIndex;

/// Buckets of the stripe lock table: several times the possible stripe requests in progress.
const LOCK_BUCKETS: usize = 8192;

/// The delay before a reply to a shard with a full mailbox is sent again.
const ANSWER_AGAIN_AFTER: Duration = Duration::from_millis(1);

struct Inner {
    env: Env,
    index: ShardIndex,
    count: u16,
    peers: RefCell<Vec<mailbox::Sender<ShardMessage>>>,
    reports: mailbox::Sender<Report>,
    locks: StripeLocks,
    cells: Rc<CellRoom>,
    clean: Rc<CleanRoom>,
    open_reports: RefCell<BTreeMap<u64, Answerer<Result<(), IoError>>>>,
    next_report: Cell<u64>,
    changed: Signal,
    stopping: Cell<bool>,
    hosts: HostActivity,
}

/// A user's shares of the bounded resources of a shard. Each volume is a user: while its drives do
/// not respond, its requests keep their resources, and other volumes continue with their own
/// [parts](platform::Parts).
///
/// Half of the shard's pool is for payloads of hosts, a sixteenth each for reads and writes of
/// partial sectors, the rest for plans. They are reserved in this order only, which prevents
/// deadlocks. The cache's memory is not part of the pool.
struct Bounded {
    /// Memory for plans: old data, old parity, new parity.
    scratch: Credits,
    /// Memory for reads of partial sectors. Its owners wait for runners.
    read_edges: Credits,
    /// Memory for writes of partial sectors. Its owners are runners, or need none: so they must not
    /// wait for the memory of reads, which wait for runners.
    write_edges: Credits,
    /// Memory for payloads of host requests: ports reserve it before they take a buffer.
    payload: Credits,
    /// Reports that the controller has not finished.
    reports_open: Credits,
    /// Stripe requests at other shards.
    requests_away: Credits,
}

impl Bounded {
    fn new(env: &Env) -> Bounded {
        let memory = env.pool().limit().0;
        Bounded {
            scratch: Credits::new(env, memory / 8 * 3),
            read_edges: Credits::new(env, memory / 16),
            write_edges: Credits::new(env, memory / 16),
            payload: Credits::new(env, memory / 2),
            reports_open: Credits::new(env, REPORTS_OPEN as u64),
            requests_away: Credits::new(env, REQUESTS_AWAY as u64),
        }
    }

    fn join(&self) -> Bounded {
        Bounded {
            scratch: self.scratch.join(),
            read_edges: self.read_edges.join(),
            write_edges: self.write_edges.join(),
            payload: self.payload.join(),
            reports_open: self.reports_open.join(),
            requests_away: self.requests_away.join(),
        }
    }
}

/// The resources of a shard. Cheap to clone.
#[derive(Clone)]
pub struct Resources {
    inner: Rc<Inner>,
    bounded: Rc<Bounded>,
}

impl Resources {
    /// The resources of a shard, for users other than volumes.
    pub(crate) fn new(
        env: &Env,
        index: ShardIndex,
        count: u16,
        reports: mailbox::Sender<Report>,
    ) -> Resources {
        let inner = Inner {
            index,
            count,
            peers: RefCell::default(),
            reports,
            locks: StripeLocks::new(env, LOCK_BUCKETS),
            cells: CellRoom::new(env),
            clean: CleanRoom::new(env),
            open_reports: RefCell::default(),
            next_report: Cell::new(0),
            changed: Signal::default(),
            stopping: Cell::new(false),
            hosts: HostActivity::default(),
            env: env.clone(),
        };
        Resources { inner: Rc::new(inner), bounded: Rc::new(Bounded::new(env)) }
    }

    /// The same for a volume.
    pub(crate) fn for_volume(&self) -> Resources {
        Resources { inner: self.inner.clone(), bounded: Rc::new(self.bounded.join()) }
    }

    /// The shard's environment.
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// The shard's index.
    pub fn index(&self) -> ShardIndex {
        self.inner.index
    }

    /// The number of shards.
    pub fn count(&self) -> u16 {
        self.inner.count
    }

    /// Waits for memory for a host's payload of `len` bytes. Reserve it before the buffer is taken,
    /// and hold it until the buffer is dropped.
    pub async fn reserve_payload(&self, len: ByteCount) -> Taken {
        self.bounded.payload.take(platform::BufferPool::block_size(len).0).await
    }

    /// Total memory for payloads.
    pub(crate) fn payload_total(&self) -> ByteCount {
        ByteCount(self.bounded.payload.total())
    }

    pub(crate) async fn reserve_scratch(&self, bytes: ByteCount) -> Taken {
        self.bounded.scratch.take(bytes.0).await
    }

    /// The same, if it is available at once.
    pub(crate) fn try_reserve_scratch(&self, bytes: ByteCount) -> Option<Taken> {
        self.bounded.scratch.try_take(bytes.0)
    }

    /// Waits for a credit to send a stripe request to another shard.
    pub(crate) async fn reserve_away(&self) -> Taken {
        self.bounded.requests_away.take(1).await
    }

    pub(crate) async fn reserve_read_edges(&self, len: ByteCount) -> Taken {
        self.bounded.read_edges.take(platform::BufferPool::block_size(len).0).await
    }

    pub(crate) async fn reserve_write_edges(&self, len: ByteCount) -> Taken {
        self.bounded.write_edges.take(platform::BufferPool::block_size(len).0 + 4096).await
    }

    pub(crate) fn cells(&self) -> &Rc<CellRoom> {
        &self.inner.cells
    }

    /// The read cache.
    pub(crate) fn clean(&self) -> &Rc<CleanRoom> {
        &self.inner.clean
    }

    pub(crate) fn scratch_total(&self) -> ByteCount {
        ByteCount(self.bounded.scratch.total())
    }

    /// A buffer for plans; the caller has reserved its memory.
    pub(crate) fn scratch_buffer(&self, len: ByteCount, hollow: bool) -> Buf {
        if hollow { Buf::hollow(len) } else { self.env().pool().take_reserved(len) }
    }

    pub(crate) fn locks(&self) -> &StripeLocks {
        &self.inner.locks
    }

    /// Notified when a volume has lost its last user.
    pub(crate) fn changed(&self) -> &Signal {
        &self.inner.changed
    }

    pub(crate) fn hosts(&self) -> &HostActivity {
        &self.inner.hosts
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.inner.stopping.get()
    }

    pub(crate) fn set_peers(&self, peers: Vec<mailbox::Sender<ShardMessage>>) {
        *self.inner.peers.borrow_mut() = peers;
    }

    /// Sends another shard a message that must arrive. Mailboxes are sized for all credits; a full
    /// one is a defect.
    ///
    /// # Errors
    /// Returns the message if the shard does not accept it: requests that wait for its reply must
    /// fail.
    pub(crate) fn send_to(
        &self,
        to: ShardIndex,
        message: ShardMessage,
    ) -> Result<(), Box<ShardMessage>> {
        let peers = self.inner.peers.borrow();
        let sent = match peers.get(usize::from(to.0)) {
            Some(peer) => peer.send(message).map_err(|Full(message)| message),
            None => Err(message),
        };
        sent.map_err(|message| {
            if !self.inner.stopping.get() {
                tracing::error!(
                    from = self.inner.index.0,
                    to = to.0,
                    "a shard's mailbox is full or gone"
                );
            }
            Box::new(message)
        })
    }

    /// The same for a reply that a request of the other shard waits for: it is sent again until
    /// there is space. Only a stop of that shard ends the attempts; all others stop with it.
    pub(crate) fn answer_to(&self, to: ShardIndex, answer: ShardMessage) {
        let Err(mut answer) = self.send_to(to, answer) else { return };
        let shard = self.clone();
        self.env().spawn("answer another shard", async move {
            while !shard.is_stopping() {
                shard.env().sleep(ANSWER_AGAIN_AFTER).await;
                match shard.send_to(to, *answer) {
                    Ok(()) => return,
                    Err(back) => answer = back,
                }
            }
        });
    }

    /// Sends another shard a message that may be lost.
    pub(crate) fn tell_peer(&self, peer: ShardIndex, message: ShardMessage) {
        if let Some(sender) = self.inner.peers.borrow().get(usize::from(peer.0))
            && sender.send(message).is_err()
        {
            tracing::debug!(peer = peer.0, "a shard is too busy to be asked about hosts");
        }
    }

    /// Sends a report to the controller, and waits until it is finished.
    ///
    /// # Errors
    /// The controller's error, or `Gone` if the controller has stopped.
    pub(crate) async fn report(&self, volume: VolumeId, kind: ReportKind) -> Result<(), IoError> {
        let credit = self.bounded.reports_open.take(1).await;
        self.report_with(credit, volume, kind).await
    }

    async fn report_with(
        &self,
        credit: Taken,
        volume: VolumeId,
        kind: ReportKind,
    ) -> Result<(), IoError> {
        let (inner, _credit) = (&self.inner, credit);
        let number = inner.next_report.get();
        inner.next_report.set(number + 1);
        let (answerer, reply) = answer(&inner.env);
        inner.open_reports.borrow_mut().insert(number, answerer);
        let report = Report { from: inner.index, number, volume, kind };
        if inner.reports.send(report).is_err() {
            inner.open_reports.borrow_mut().remove(&number);
            return Err(IoError::new(IoErrorKind::Gone));
        }
        reply.await.unwrap_or(Err(IoError::new(IoErrorKind::Gone)))
    }

    /// Sends a report to the controller, if `still` is true when there is a credit for it.
    pub(crate) async fn report_if(
        &self,
        volume: VolumeId,
        kind: ReportKind,
        still: impl Fn() -> bool,
    ) {
        let credit = self.bounded.reports_open.take(1).await;
        if still()
            && let Err(error) = self.report_with(credit, volume, kind).await
        {
            tracing::debug!(volume = volume.0, "a report failed: {error}");
        }
    }

    pub(crate) async fn mark_dirty(
        &self,
        volume: VolumeId,
        region: RegionIndex,
    ) -> Result<(), IoError> {
        self.report(volume, ReportKind::MarkDirty(region.into())).await
    }

    pub(crate) async fn report_unsynced(&self, id: VolumeId, name: &str, region: RegionIndex) {
        if let Err(error) = self.report(id, ReportKind::Unsynced(region.into())).await {
            tracing::error!(
                volume = name,
                region = region.0,
                "could not record the region as unsynced: {error}"
            );
        }
    }

    /// Sends a report without a wait in the caller's task.
    pub(crate) fn report_later(&self, id: VolumeId, name: Rc<str>, kind: ReportKind) {
        let shard = self.clone();
        self.inner.env.spawn("report", async move {
            if let Err(error) = shard.report(id, kind).await {
                tracing::debug!(volume = %name, "a report failed: {error}");
            }
        });
    }

    /// The controller has finished a report.
    pub(crate) fn report_done(&self, report: u64, result: Result<(), IoError>) {
        let answerer = self.inner.open_reports.borrow_mut().remove(&report);
        if let Some(answerer) = answerer {
            answerer.give(result);
        }
    }

    /// No new work begins from now on, and no other shard is reached.
    pub(crate) fn stop(&self) {
        let inner = &self.inner;
        inner.stopping.set(true);
        inner.changed.notify(&inner.env);
        drop(inner.peers.take());
    }

    /// Ends all waits for the controller: no reply will arrive.
    pub(crate) fn forget_reports(&self) {
        drop(self.inner.open_reports.take());
    }
}
