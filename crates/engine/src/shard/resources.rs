//! What a shard gives to whatever runs on it: its world, locks, memory, and the ways to the controller and to its peers.

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

/// Buckets of the stripe lock table: several times the stripe requests that can be under way.
const LOCK_BUCKETS: usize = 8192;

/// How long an answer waits that another shard had no room for.
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

/// A user's shares of everything that is bounded on a shard. Each volume is a user: while its drives do not answer, its requests keep
/// what they have taken, and other volumes go on with their own [parts](platform::Parts).
///
/// Half of the shard's pool is for payloads of hosts, a sixteenth each for reads and writes that are not whole sectors, the
/// rest for what plans need. They are taken in this order and no other, so that nobody waits for memory held by somebody who
/// waits for his. The cache's memory is not of the pool.
struct Bounded {
    /// Memory for what the engine itself needs: old data, old parity, new parity.
    scratch: Credits,
    /// Memory for reads that are not whole sectors. Its holders wait for runners.
    read_edges: Credits,
    /// Memory for writes that are not whole sectors. Its holders are runners, or need none: so they must not
    /// wait for what reads hold that wait for runners.
    write_edges: Credits,
    /// Memory for payloads of host requests: ports take from it before they take a buffer.
    payload: Credits,
    /// Reports that the controller has not dealt with.
    reports_open: Credits,
    /// Stripe requests that other shards have.
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

/// What a shard gives to whatever runs on it. Cheap to clone.
#[derive(Clone)]
pub struct Resources {
    inner: Rc<Inner>,
    bounded: Rc<Bounded>,
}

impl Resources {
    /// Those of a shard, for what belongs to no volume.
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

    /// The shard's world.
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// Which it is.
    pub fn index(&self) -> ShardIndex {
        self.inner.index
    }

    /// How many there are.
    pub fn count(&self) -> u16 {
        self.inner.count
    }

    /// Waits for memory for a host's payload of `len` bytes. Take it before the buffer, and hold it until the
    /// buffer is dropped.
    pub async fn reserve_payload(&self, len: ByteCount) -> Taken {
        self.bounded.payload.take(platform::BufferPool::block_size(len).0).await
    }

    /// Memory for payloads, used or not.
    pub(crate) fn payload_total(&self) -> ByteCount {
        ByteCount(self.bounded.payload.total())
    }

    pub(crate) async fn reserve_scratch(&self, bytes: ByteCount) -> Taken {
        self.bounded.scratch.take(bytes.0).await
    }

    /// Waits until one more stripe request may be with another shard.
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

    /// What is kept of what drives hold too.
    pub(crate) fn clean(&self) -> &Rc<CleanRoom> {
        &self.inner.clean
    }

    pub(crate) fn scratch_total(&self) -> ByteCount {
        ByteCount(self.bounded.scratch.total())
    }

    /// Memory for the engine's own use; the caller has reserved it.
    pub(crate) fn scratch_buffer(&self, len: ByteCount, hollow: bool) -> Buf {
        if hollow { Buf::hollow(len) } else { self.env().pool().take_reserved(len) }
    }

    pub(crate) fn locks(&self) -> &StripeLocks {
        &self.inner.locks
    }

    /// Told when a volume has lost its last user.
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

    /// Sends another shard a message that it must get. Mailboxes are dimensioned for every credit there is; one that is
    /// full is a defect.
    ///
    /// # Errors
    /// Gives the message back when the shard does not take it: what waits for an answer to it must fail.
    pub(crate) fn send_to(&self, to: ShardIndex, message: ShardMessage) -> Result<(), Box<ShardMessage>> {
        let peers = self.inner.peers.borrow();
        let sent = match peers.get(usize::from(to.0)) {
            Some(peer) => peer.send(message).map_err(|Full(message)| message),
            None => Err(message),
        };
        sent.map_err(|message| {
            if !self.inner.stopping.get() {
                tracing::error!(from = self.inner.index.0, to = to.0, "a shard's mailbox is full or gone");
            }
            Box::new(message)
        })
    }

    /// The same of an answer, which a request of the other shard waits for: where there is no room for it, it is sent again until there
    /// is. Only a shard that stops gives it up, for all others stop with it.
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

    /// Tells another shard something that costs nothing if it is lost.
    pub(crate) fn tell_peer(&self, peer: ShardIndex, message: ShardMessage) {
        if let Some(sender) = self.inner.peers.borrow().get(usize::from(peer.0))
            && sender.send(message).is_err()
        {
            tracing::debug!(peer = peer.0, "a shard is too busy to be asked about hosts");
        }
    }

    /// Tells the controller, and waits until it has dealt with it.
    ///
    /// # Errors
    /// What the controller met, or `Gone` if there is none any more.
    pub(crate) async fn report(&self, volume: VolumeId, kind: ReportKind) -> Result<(), IoError> {
        let credit = self.bounded.reports_open.take(1).await;
        self.report_with(credit, volume, kind).await
    }

    async fn report_with(&self, credit: Taken, volume: VolumeId, kind: ReportKind) -> Result<(), IoError> {
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

    /// Tells the controller, if that is `still` true when there is room for it.
    pub(crate) async fn report_if(&self, volume: VolumeId, kind: ReportKind, still: impl Fn() -> bool) {
        let credit = self.bounded.reports_open.take(1).await;
        if still()
            && let Err(error) = self.report_with(credit, volume, kind).await
        {
            tracing::debug!(volume = volume.0, "a report came to nothing: {error}");
        }
    }

    pub(crate) async fn mark_dirty(&self, volume: VolumeId, region: RegionIndex) -> Result<(), IoError> {
        self.report(volume, ReportKind::MarkDirty(region.into())).await
    }

    pub(crate) async fn report_unsynced(&self, id: VolumeId, name: &str, region: RegionIndex) {
        if let Err(error) = self.report(id, ReportKind::Unsynced(region.into())).await {
            tracing::error!(volume = name, region = region.0, "nobody remembers not to trust it: {error}");
        }
    }

    /// Reports without waiting in the caller's task.
    pub(crate) fn report_later(&self, id: VolumeId, name: Rc<str>, kind: ReportKind) {
        let shard = self.clone();
        self.inner.env.spawn("report", async move {
            if let Err(error) = shard.report(id, kind).await {
                tracing::debug!(volume = %name, "a report came to nothing: {error}");
            }
        });
    }

    /// The controller has dealt with a report.
    pub(crate) fn report_done(&self, report: u64, result: Result<(), IoError>) {
        let answerer = self.inner.open_reports.borrow_mut().remove(&report);
        if let Some(answerer) = answerer {
            answerer.give(result);
        }
    }

    /// Nothing new is begun from now on. Nobody is reached any more.
    pub(crate) fn stop(&self) {
        let inner = &self.inner;
        inner.stopping.set(true);
        inner.changed.notify(&inner.env);
        drop(inner.peers.take());
    }

    /// Whoever waits for the controller waits in vain.
    pub(crate) fn forget_reports(&self) {
        drop(self.inner.open_reports.take());
    }
}
