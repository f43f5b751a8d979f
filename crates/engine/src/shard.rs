//! One shard of the engine: a thread, a ring, an executor, and the sole owner of its regions.

use crate::attachment::Attachment;
use crate::background::{HostActivity, Running};
use crate::host::Parent;
use crate::members::when_quiet;
use crate::messages::{
    Done, PIECES_AWAY, Piece, PieceOutcome, REPORTS_OPEN, Report, ReportKind, Seat, ShardIndex, ShardMessage,
    Ticket,
};
use crate::task::TaskId;
use crate::volume::{Volume, VolumeId};
use env::locks::StripeLocks;
use env::sync::{Answerer, Credits, Signal, Taken, answer};
use env::{DriveSource, Env, IoError, IoErrorKind, Runners, mailbox};
use state::{Change, RegionIndex};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use units::ByteCount;

/// Tasks that run pieces of requests which are split or come from another shard, at most: how many pieces of those
/// are under way at a time. Each is begun when there is first work for it.
const RUNNERS: usize = 256;

/// Buckets of the stripe lock table: several times the pieces that can be under way.
const LOCK_BUCKETS: usize = 8192;

/// How long a region must be quiet before its dirty mark is cleared, and how often that is looked at.
const QUIET_AFTER: Duration = Duration::from_secs(5);

/// A piece that waits for a runner, and what to do with its outcome.
pub(crate) struct Job {
    pub(crate) piece: Piece,
    pub(crate) then: Then,
}

/// Where the outcome of a piece goes.
pub(crate) enum Then {
    /// To a request of this shard.
    Local(Rc<Parent>, u32),
    /// To a request of another shard.
    Remote(ShardIndex, Ticket),
}

struct Inner {
    env: Env,
    index: ShardIndex,
    count: u16,
    peers: RefCell<Vec<mailbox::Sender<ShardMessage>>>,
    reports: mailbox::Sender<Report>,
    volumes: RefCell<BTreeMap<VolumeId, Rc<Volume>>>,
    locks: StripeLocks,
    /// Memory for what the engine itself needs: old data, old parity, new parity.
    scratch: Credits,
    /// Memory for reads that are not whole sectors. Its holders wait for runners.
    read_edges: Credits,
    /// Memory for writes that are not whole sectors. Its holders are runners, or need none: so they must not
    /// wait for what reads hold that wait for runners.
    write_edges: Credits,
    /// Memory for payloads of host requests: ports take from it before they take a buffer.
    payload: Credits,
    pieces_away: Credits,
    reports_open: Credits,
    away: RefCell<BTreeMap<u32, Rc<Parent>>>,
    next_request: Cell<u32>,
    open_reports: RefCell<BTreeMap<u64, Answerer<Result<(), IoError>>>>,
    next_report: Cell<u64>,
    pieces: Runners<Job>,
    changed: Signal,
    stopping: Cell<bool>,
    tasks: RefCell<BTreeMap<TaskId, Rc<Running>>>,
    hosts: HostActivity,
}

/// A handle to a shard, on its thread. Cheap to clone.
#[derive(Clone)]
pub struct Shard {
    inner: Rc<Inner>,
}

/// How the controller reaches a shard before it runs.
pub struct ShardSeed {
    receiver: mailbox::Receiver<ShardMessage>,
    sender: mailbox::Sender<ShardMessage>,
    env: Env,
}

impl ShardSeed {
    /// A shard's mailbox, large enough for everything `shards` shards may send it at a time.
    pub fn new(env: &Env, shards: u16) -> ShardSeed {
        let capacity = usize::from(shards) * 2 * PIECES_AWAY + REPORTS_OPEN + 64;
        let (sender, receiver) = mailbox::mailbox(env, capacity);
        ShardSeed { receiver, sender, env: env.clone() }
    }

    /// How to send it messages. The first must be [`ShardMessage::Peers`].
    pub fn sender(&self) -> mailbox::Sender<ShardMessage> {
        self.sender.clone()
    }

    /// Begins to run it. Half the memory of the shard's pool is for payloads of hosts, a sixteenth each for
    /// reads and writes that are not whole sectors, the rest for what plans need. They are taken in this order and no other, so
    /// that nobody waits for memory held by somebody who waits for his.
    pub fn start(self, index: ShardIndex, count: u16, reports: mailbox::Sender<Report>) -> Shard {
        let env = self.env;
        let memory = env.pool().limit().0;
        let shard = Shard {
            inner: Rc::new(Inner {
                index,
                count,
                peers: RefCell::default(),
                reports,
                volumes: RefCell::default(),
                locks: StripeLocks::new(&env, LOCK_BUCKETS),
                scratch: Credits::new(&env, memory / 8 * 3),
                read_edges: Credits::new(&env, memory / 16),
                write_edges: Credits::new(&env, memory / 16),
                payload: Credits::new(&env, memory / 2),
                pieces_away: Credits::new(&env, PIECES_AWAY as u64),
                reports_open: Credits::new(&env, REPORTS_OPEN as u64),
                away: RefCell::default(),
                next_request: Cell::new(0),
                open_reports: RefCell::default(),
                next_report: Cell::new(0),
                pieces: Runners::new(&env, "piece runner", RUNNERS),
                changed: Signal::default(),
                stopping: Cell::new(false),
                tasks: RefCell::default(),
                hosts: HostActivity::default(),
                env: env.clone(),
            }),
        };
        let runner = shard.clone();
        shard.inner.pieces.run(async move |job| runner.run_piece(job).await);
        env.spawn("shard messages", Served(shard.clone()).receive_messages(self.receiver));
        env.spawn("dirty region cleaner", shard.clone().clean_regions());
        shard
    }
}

impl Shard {
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

    /// A volume by its number, if it is served.
    pub fn volume(&self, id: VolumeId) -> Option<Rc<Volume>> {
        self.inner.volumes.borrow().get(&id).cloned()
    }

    /// A volume by its name, if hosts may use it.
    pub fn volume_named(&self, name: &str) -> Option<Rc<Volume>> {
        let volumes = self.inner.volumes.borrow();
        volumes.values().find(|volume| volume.spec().name == name && !volume.hidden).cloned()
    }

    /// Every volume that hosts may use, by number.
    pub fn volumes(&self) -> Vec<Rc<Volume>> {
        self.inner.volumes.borrow().values().filter(|volume| !volume.hidden).cloned().collect()
    }

    /// Waits for memory for a host's payload of `len` bytes. Take it before the buffer, and hold it until the
    /// buffer is dropped.
    pub async fn reserve_payload(&self, len: ByteCount) -> Taken {
        self.inner.payload.take(env::BufferPool::block_size(len).0).await
    }

    pub(crate) async fn reserve_scratch(&self, bytes: ByteCount) -> Taken {
        self.inner.scratch.take(bytes.0).await
    }

    pub(crate) async fn reserve_read_edges(&self, len: ByteCount) -> Taken {
        self.inner.read_edges.take(env::BufferPool::block_size(len).0).await
    }

    pub(crate) async fn reserve_write_edges(&self, len: ByteCount) -> Taken {
        self.inner.write_edges.take(env::BufferPool::block_size(len).0 + 4096).await
    }

    pub(crate) fn scratch_total(&self) -> ByteCount {
        ByteCount(self.inner.scratch.total())
    }

    pub(crate) fn locks(&self) -> &StripeLocks {
        &self.inner.locks
    }

    /// Told when a volume has lost its last user.
    pub(crate) fn changed(&self) -> &Signal {
        &self.inner.changed
    }

    /// Gives a piece to the next free runner.
    pub(crate) fn enqueue(&self, job: Job) {
        self.inner.pieces.give(job);
    }

    /// Sends a piece to the shard that owns its stripe; its outcome comes back to `parent`.
    pub(crate) async fn send_away(&self, to: ShardIndex, piece: Piece, parent: &Rc<Parent>, number: u32) {
        let inner = &self.inner;
        let credit = inner.pieces_away.take(1).await;
        parent.hold_credit(number, credit);
        let request = match parent.request.get() {
            Some(request) => request,
            None => {
                let mut request = inner.next_request.get();
                while inner.away.borrow().contains_key(&request) {
                    request = request.wrapping_add(1);
                }
                inner.next_request.set(request.wrapping_add(1));
                parent.request.set(Some(request));
                inner.away.borrow_mut().insert(request, parent.clone());
                request
            }
        };
        let ticket = Ticket { request, piece: number };
        let message = ShardMessage::Piece { from: inner.index, ticket, piece };
        self.send_to(to, message);
    }

    pub(crate) fn forget_away(&self, request: u32) {
        self.inner.away.borrow_mut().remove(&request);
    }

    /// Mailboxes are dimensioned for every credit there is; one that is full is a defect.
    fn send_to(&self, to: ShardIndex, message: ShardMessage) {
        let peers = self.inner.peers.borrow();
        let sent = peers.get(usize::from(to.0)).map(|peer| peer.send(message));
        if !matches!(sent, Some(Ok(()))) && !self.inner.stopping.get() {
            tracing::error!(from = self.inner.index.0, to = to.0, "a shard's mailbox is full or gone");
        }
    }

    /// Tells the controller, and waits until it has dealt with it.
    ///
    /// # Errors
    /// What the controller met, or `Gone` if there is none any more.
    pub(crate) async fn report(&self, volume: VolumeId, kind: ReportKind) -> Result<(), IoError> {
        let credit = self.inner.reports_open.take(1).await;
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
        let credit = self.inner.reports_open.take(1).await;
        if still()
            && let Err(error) = self.report_with(credit, volume, kind).await
        {
            tracing::debug!(volume = volume.0, "a report came to nothing: {error}");
        }
    }

    pub(crate) async fn mark_dirty(&self, volume: VolumeId, region: RegionIndex) -> Result<(), IoError> {
        self.report(volume, ReportKind::MarkDirty(region.into())).await
    }

    pub(crate) async fn report_unsynced(&self, volume: &Rc<Volume>, region: RegionIndex) {
        let id = volume.spec().id;
        if let Err(error) = self.report(id, ReportKind::Unsynced(region.into())).await {
            tracing::error!(volume = %volume.spec().name, region = region.0, "nobody remembers not to trust it: {error}");
        }
    }

    /// Reports without waiting in the caller's task.
    pub(crate) fn report_later(&self, volume: &Rc<Volume>, kind: ReportKind) {
        let (shard, volume) = (self.clone(), volume.clone());
        self.inner.env.spawn("report", async move {
            if let Err(error) = shard.report(volume.spec().id, kind).await {
                tracing::debug!(volume = %volume.spec().name, "a report came to nothing: {error}");
            }
        });
    }

    async fn run_piece(&self, Job { piece, then }: Job) {
        let outcome = match self.volume(piece.volume) {
            Some(volume) => volume.run_piece(piece).await,
            None => PieceOutcome {
                result: Err(IoError::new(IoErrorKind::Gone)),
                buffer: piece.kind.into_buffer(),
            },
        };
        match then {
            Then::Local(parent, number) => parent.finish(&self.inner.env, number, outcome),
            Then::Remote(shard, ticket) => {
                self.send_to(shard, ShardMessage::PieceDone { ticket, outcome });
            }
        }
    }

    fn take(&self, message: ShardMessage) {
        let inner = &self.inner;
        match message {
            ShardMessage::Peers(peers) => *inner.peers.borrow_mut() = peers,
            ShardMessage::Piece { from, ticket, piece } => {
                self.enqueue(Job { piece, then: Then::Remote(from, ticket) });
            }
            ShardMessage::PieceDone { ticket, outcome } => {
                let parent = inner.away.borrow().get(&ticket.request).cloned();
                if let Some(parent) = parent {
                    parent.finish(&inner.env, ticket.piece, outcome);
                }
            }
            ShardMessage::Attach(attachment, done) => answer_control(&done, self.attach(&attachment)),
            ShardMessage::Detach(id, leaving, done) => {
                inner.env.spawn("detach", self.clone().detach(id, leaving, done));
            }
            ShardMessage::Apply(id, change, drive, done) => self.take_change(id, &change, drive, done),
            ShardMessage::SetPolicy(id, policy, done) => {
                if let Some(volume) = self.volume(id) {
                    volume.set_policy(policy);
                }
                answer_control(&done, Ok(()));
            }
            ShardMessage::StartTask(order, done) => {
                let result =
                    self.volume_or(order.volume).and_then(|volume| crate::background::start(&volume, *order));
                answer_control(&done, result);
            }
            ShardMessage::AskHosts { from } => self.look_for_hosts(from),
            ShardMessage::HostsAround => self.hosts_seen(),
            ShardMessage::SetPace(task, pace) => crate::background::set_pace(self, task, pace),
            ShardMessage::StopTask(task, done) => crate::background::stop(self, task, done),
            ShardMessage::ReportDone { report, result } => {
                let answerer = inner.open_reports.borrow_mut().remove(&report);
                if let Some(answerer) = answerer {
                    answerer.give(result);
                }
            }
        }
    }

    fn attach(&self, attachment: &Attachment) -> Result<(), String> {
        let volume = Volume::attach(self, attachment).map_err(|error| error.to_string())?;
        let need = volume.worst_scratch();
        if need > self.scratch_total() {
            return Err(format!(
                "volume '{}' needs {need} of memory for one stripe, but a shard has {} for that; start with a larger --memory",
                volume.spec().name,
                self.scratch_total()
            ));
        }
        self.inner.volumes.borrow_mut().insert(volume.spec().id, volume.clone());
        if !volume.state().unsynced().is_empty() {
            self.inner.env.spawn("resync", crate::background::resync(volume));
        }
        Ok(())
    }

    fn volume_or(&self, id: VolumeId) -> Result<Rc<Volume>, String> {
        self.volume(id).ok_or_else(|| format!("volume {} is not served here any more", id.0))
    }

    fn take_change(
        &self,
        id: VolumeId,
        change: &Change,
        drive: Option<Arc<dyn DriveSource>>,
        done: Option<Done>,
    ) {
        let env = &self.inner.env;
        let answer = |result| {
            if let Some(done) = &done {
                answer_control(done, result);
            }
        };
        let brings_drive = drive.is_some();
        let Some(volume) = self.volume(id) else {
            // Of a volume that is not served there is nothing to be kept; a drive that comes is used by nobody.
            return answer(if brings_drive { self.volume_or(id).map(drop) } else { Ok(()) });
        };
        let left = match volume.take_change(change, drive) {
            Ok(left) => left,
            Err(why) => return answer(Err(why)),
        };
        match change {
            Change::Drive { .. } | Change::Promoted { .. } => self.renew_journal(id),
            Change::Unsynced(_) => {
                env.spawn("resync", crate::background::resync(volume));
            }
            Change::Forced(_) | Change::ForcedByLog(_) => {
                env.spawn("resync of what is forced", crate::background::resync(volume));
            }
            _ => {}
        }
        match left {
            None => answer(Ok(())),
            Some(left) => {
                env.spawn("swapped drive", when_quiet(self.clone(), Some(left), done));
            }
        }
    }

    pub(crate) fn task(&self, task: TaskId) -> Option<Rc<Running>> {
        self.inner.tasks.borrow().get(&task).cloned()
    }

    pub(crate) fn add_task(&self, running: &Rc<Running>) {
        self.inner.tasks.borrow_mut().insert(running.id, running.clone());
    }

    pub(crate) fn remove_task(&self, task: TaskId) {
        self.inner.tasks.borrow_mut().remove(&task);
    }

    pub(crate) fn hosts(&self) -> &HostActivity {
        &self.inner.hosts
    }

    /// Tells another shard something that costs nothing if it is lost.
    pub(crate) fn tell_peer(&self, peer: ShardIndex, message: ShardMessage) {
        if let Some(sender) = self.inner.peers.borrow().get(usize::from(peer.0))
            && sender.send(message).is_err()
        {
            tracing::debug!(peer = peer.0, "a shard is too busy to be asked about hosts");
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.inner.stopping.get()
    }

    async fn detach(self, id: VolumeId, leaving: Vec<(Seat, Done)>, done: Done) {
        let inner = &self.inner;
        let volume = self.volume(id);
        if let Some(volume) = &volume {
            volume.closing.set(true);
            let of_volume = |task: &&Rc<Running>| task.volume.spec().id == id;
            inner.tasks.borrow().values().filter(of_volume).for_each(|task| task.pace.stop(&inner.env));
            inner.changed.wait_until(&inner.env, || volume.users.get() == 0).await;
            inner.volumes.borrow_mut().remove(&id);
        }
        for (seat, quiet) in leaving {
            let member = volume.as_ref().and_then(|volume| volume.members.at(seat));
            match member.filter(|member| member.outstanding() > 0) {
                Some(member) => {
                    inner.env.spawn("drive leaves", when_quiet(self.clone(), Some(member), Some(quiet)));
                }
                None => answer_control(&quiet, Ok(())),
            }
        }
        answer_control(&done, Ok(()));
    }

    async fn clean_regions(self) {
        let inner = &self.inner;
        while !inner.stopping.get() {
            inner.env.sleep(QUIET_AFTER).await;
            let now = inner.env.now();
            let before = env::Instant { ns: now.ns.saturating_sub(QUIET_AFTER.as_nanos() as u64) };
            let volumes: Vec<Rc<Volume>> = inner.volumes.borrow().values().cloned().collect();
            for volume in volumes {
                let quiet = volume.dirty.take_quiet(before, volume.state().unsynced());
                if quiet.is_empty() {
                    continue;
                }
                // Sent in this very poll: a write that marks a region again must come after it in the mailbox.
                if let Err(error) = self.report(volume.spec().id, ReportKind::Quiet(quiet)).await {
                    tracing::debug!("quiet regions stay marked: {error}");
                }
            }
        }
    }

    /// Ends the shard's tasks; every volume has been detached before.
    pub fn stop(&self) {
        let inner = &self.inner;
        inner.stopping.set(true);
        inner.pieces.close();
        inner.changed.notify(&inner.env);
        drop((inner.volumes.take(), inner.peers.take()));
    }
}

/// A shard whose messages are received. What it serves holds it in turn: that is let go when nobody receives them any more, also
/// where its process was killed, and the tasks were dropped wherever they were.
struct Served(Shard);

impl Served {
    async fn receive_messages(self, mut receiver: mailbox::Receiver<ShardMessage>) {
        let shard = &self.0;
        while let Some(message) = receiver.receive().await {
            shard.take(message);
            if shard.inner.stopping.get() {
                break;
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let inner = &self.0.inner;
        self.0.stop();
        // Dropped with nothing borrowed: the last of a volume may look at its shard.
        drop((inner.tasks.take(), inner.away.take(), inner.open_reports.take()));
    }
}

/// The controller counts the answers of all shards; one that cannot be sent means it stopped waiting.
pub(crate) fn answer_control(done: &Done, result: Result<(), String>) {
    if done.send(result).is_err() {
        tracing::warn!("nobody waits for the answer to a control message");
    }
}
