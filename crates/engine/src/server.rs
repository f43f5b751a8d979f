//! One shard of the engine: a thread, a ring, an executor, and the sole owner of its regions.

use crate::attachment::{Attachment, DataLogTerms, JournalPlace, ReshapeOrder};
use crate::background::{Tasks, reshape};
use crate::host::{Exchange, Job, Then, Volume, begin_reshape, end_reshape, show_reshaped};
use crate::members::when_quiet;
use crate::messages::{
    Done, REPORTS_OPEN, REQUESTS_AWAY, Report, ReportKind, Seat, ShardIndex, ShardMessage,
    StripeOutcome, answer_control,
};
use crate::shard::Resources;
use crate::volume::{VolumeId, worst_scratch};
use platform::{DriveSource, Env, IoError, IoErrorKind, Targets, mailbox};

use layout::Geometry;
use ondisk::Uuid;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use volume_state::Change;

/// How long a region must be quiet before its dirty mark is cleared, and how often that is looked
/// at.
const QUIET_AFTER: Duration = Duration::from_secs(5);

struct Inner {
    resources: Resources,
    exchange: Rc<Exchange>,
    volumes: RefCell<BTreeMap<VolumeId, Rc<Volume>>>,
    tasks: Rc<Tasks>,
}

/// A handle to a shard, on its thread. Cheap to clone.
#[derive(Clone)]
pub struct Shard {
    inner: Rc<Inner>,
}

impl Deref for Shard {
    type Target = Resources;

    fn deref(&self) -> &Resources {
        &self.inner.resources
    }
}

/// Ports find volumes here.
impl Targets for Shard {
    type Target = Volume;

    fn env(&self) -> &Env {
        self.inner.resources.env()
    }

    fn targets(&self) -> Vec<Rc<Volume>> {
        self.volumes()
    }

    fn find(&self, name: &str) -> Option<Rc<Volume>> {
        self.volume_named(name)
    }
}

/// A shard's mailbox before the shard runs.
pub struct ShardSeed {
    receiver: mailbox::Receiver<ShardMessage>,
    sender: mailbox::Sender<ShardMessage>,
    env: Env,
}

impl ShardSeed {
    /// A shard's mailbox, large enough for all messages that `shards` shards may send at a time.
    pub fn new(env: &Env, shards: u16) -> ShardSeed {
        let capacity = usize::from(shards) * 2 * REQUESTS_AWAY + REPORTS_OPEN + 64;
        let (sender, receiver) = mailbox::mailbox(env, capacity);
        ShardSeed { receiver, sender, env: env.clone() }
    }

    /// The sender of its messages. The first must be [`ShardMessage::Peers`].
    pub fn sender(&self) -> mailbox::Sender<ShardMessage> {
        self.sender.clone()
    }

    /// Starts the shard. [`Resources`] describes how it divides its memory.
    pub fn start(self, index: ShardIndex, count: u16, reports: mailbox::Sender<Report>) -> Shard {
        let env = self.env;
        let resources = Resources::new(&env, index, count, reports);
        let shard = Shard {
            inner: Rc::new(Inner {
                exchange: Exchange::new(&resources),
                volumes: RefCell::default(),
                tasks: Rc::default(),
                resources,
            }),
        };
        let runner = shard.clone();
        shard.inner.exchange.run(async move |job| runner.run_job(job).await);
        env.spawn("shard messages", Served(shard.clone()).receive_messages(self.receiver));
        env.spawn("dirty region cleaner", shard.clone().clean_regions());
        shard
    }
}

impl Shard {
    /// A volume by its number, if it is served.
    pub fn volume(&self, id: VolumeId) -> Option<Rc<Volume>> {
        self.inner.volumes.borrow().get(&id).cloned()
    }

    /// A volume by its name, if hosts may use it.
    pub fn volume_named(&self, name: &str) -> Option<Rc<Volume>> {
        let volumes = self.inner.volumes.borrow();
        volumes.values().find(|volume| *volume.name() == *name && !volume.is_hidden()).cloned()
    }

    /// Every volume that hosts may use, by number.
    pub fn volumes(&self) -> Vec<Rc<Volume>> {
        self.inner.volumes.borrow().values().filter(|volume| !volume.is_hidden()).cloned().collect()
    }

    async fn run_job(&self, Job { request, then }: Job) {
        let outcome = match self.volume(request.volume) {
            Some(volume) => volume.run(request).await,
            None => {
                StripeOutcome::new(Err(IoError::new(IoErrorKind::Gone)), request.work.into_buffer())
            }
        };
        match then {
            Then::Local(parent, number) => parent.finish(self.env(), number, outcome),
            Then::Remote(shard, ticket) => {
                self.inner
                    .resources
                    .answer_to(shard, ShardMessage::StripeRequestDone { ticket, outcome });
            }
        }
    }

    fn take(&self, message: ShardMessage) {
        use ShardMessage::*;
        let inner = &self.inner;
        match message {
            Peers(peers) => inner.resources.set_peers(peers),
            StripeRequest { from, ticket, request } => {
                inner.exchange.enqueue(Job { request, then: Then::Remote(from, ticket) });
            }
            StripeRequestDone { ticket, outcome } => inner.exchange.came_back(ticket, outcome),
            CanServe(volume, done) => {
                answer_control(&done, self.check_memory(&volume.0, &volume.1))
            }
            Attach(attachment, done) => answer_control(&done, self.attach(&attachment)),
            Detach(id, leaving, done) => {
                self.env().spawn("detach", self.clone().detach(id, leaving, done));
            }
            Apply(id, change, drive, done) => self.take_change(id, &change, drive, done),
            SetPolicy(id, policy, done) => {
                self.change(id, &done, |volume| volume.set_policy(policy))
            }
            SetJournal(id, place, done) => {
                self.env().spawn("change the journal", self.clone().set_journal(id, place, done));
            }
            LoseJournal(id, lost, place, done) => self.lose_journal(id, lost, place.as_ref(), done),
            LeaveLogDevice(id, device, done) => self.leave_log_device(id, device, &done),
            HoldLogDevice(id, device, done) => self.hold_log_device(id, device, done),
            TakeBackLogDevice(id, device, done) => self.take_back_log_device(id, device, &done),
            ReadRoom(room) => inner.resources.clean().set_room(room),
            SetReads(id, terms, done) => {
                answer_control(&done, self.volume_or(id).map(|volume| volume.set_reads(terms)));
            }
            Cells(share) => inner.resources.cells().take_over(share),
            SetAbsorb(id, absorb, index, done) => {
                let work = async move |volume: Rc<Volume>| volume.set_absorb(absorb, index).await;
                self.env().spawn("set what is answered", self.clone().answer_with(id, done, work));
            }
            SetDataLog(id, terms, done) => self.set_data_log(id, &terms, done),
            Drain(id, done) => {
                let work = async move |volume: Rc<Volume>| volume.drain_and_flush().await;
                self.env().spawn("drain the cache", self.clone().answer_with(id, done, work));
            }
            DiscardCells(index, done) => {
                inner.resources.cells().discard(index);
                answer_control(&done, Ok(()));
            }
            LeaveCells(done) => answer_control(&done, inner.resources.cells().leave()),
            Rename(id, name, done) => self.change(id, &done, |volume| volume.rename(&name)),
            Reshape(id, order, done) => self.reshape(id, order, done),
            EndReshape(id, leaving, done) => self.end_reshape(id, leaving, &done),
            StartTask(order, done) => {
                let result = self
                    .volume_or(order.volume)
                    .and_then(|volume| inner.tasks.start(&volume, *order));
                answer_control(&done, result);
            }
            AskHosts { from } => self.look_for_hosts(from),
            HostsAround(requests) => self.hosts_seen(&requests),
            SetPace(task, pace) => inner.tasks.set_pace(&inner.resources, task, pace),
            StopTask(task, done) => inner.tasks.stop(&inner.resources, task, done),
            ReportDone { report, result } => inner.resources.report_done(report, result),
        }
    }

    fn attach(&self, attachment: &Attachment) -> Result<(), String> {
        let volume =
            Volume::attach(&self.inner.resources.for_volume(), &self.inner.exchange, attachment)
                .map_err(|error| error.to_string())?;
        self.check_memory(&volume.name(), volume.geometry())?;
        let (recovery, env) = (Rc::downgrade(volume.recovery()), self.env().clone());
        volume.when_unsynced(move || {
            if let Some(recovery) = recovery.upgrade() {
                env.spawn("resync after a failed write", crate::background::resync(recovery));
            }
        });
        self.inner.volumes.borrow_mut().insert(volume.spec().id, volume.clone());
        if !volume.state().unsynced().is_empty() {
            self.env().spawn("resync", crate::background::resync(volume.recovery().clone()));
        }
        if attachment.initialises && !volume.state().is_initialised() {
            let rest = crate::background::initialise_rest(volume.recovery().clone());
            self.env().spawn("background initialisation", rest);
        }
        Ok(())
    }

    /// Checks that there is memory for one stripe of a volume.
    fn check_memory(&self, name: &str, geometry: &Geometry) -> Result<(), String> {
        let (need, has) = (worst_scratch(geometry), self.scratch_total());
        if need > has {
            return Err(format!(
                "volume '{name}' needs {need} of memory for one stripe, but a shard has {has} for \
                    that; start with a larger --memory"
            ));
        }
        Ok(())
    }

    /// Changes a volume at once, if it is served, and replies.
    fn change(&self, id: VolumeId, done: &Done, change: impl FnOnce(&Volume)) {
        if let Some(volume) = self.volume(id) {
            change(&volume);
        }
        answer_control(done, Ok(()));
    }

    fn volume_or(&self, id: VolumeId) -> Result<Rc<Volume>, String> {
        self.volume(id).ok_or_else(|| format!("volume {} is no longer served here", id.0))
    }

    fn take_change(
        &self,
        id: VolumeId,
        change: &Change,
        drive: Option<Arc<dyn DriveSource>>,
        done: Option<Done>,
    ) {
        let env = self.env();
        let answer = |result| {
            if let Some(done) = &done {
                answer_control(done, result);
            }
        };
        let brings_drive = drive.is_some();
        let Some(volume) = self.volume(id) else {
            // A volume that is not served has no state to keep, and a new drive is not used.
            return answer(if brings_drive { self.volume_or(id).map(drop) } else { Ok(()) });
        };
        let left = match volume.take_change(change, drive) {
            Ok(left) => left,
            Err(why) => return answer(Err(why)),
        };
        match change {
            Change::Drive { .. } | Change::Promoted { .. } => volume.renew_journal_later(),
            Change::Marked(regions) => volume.note_marked(regions),
            Change::Uninitialised(_) => {
                let rest = crate::background::initialise_rest(volume.recovery().clone());
                env.spawn("background initialisation", rest);
            }
            Change::Unsynced(_) => {
                env.spawn("resync", crate::background::resync(volume.recovery().clone()));
            }
            Change::Forced(_) | Change::ForcedByLog(_) => {
                env.spawn(
                    "resync of regions with stale parity accepted",
                    crate::background::resync(volume.recovery().clone()),
                );
            }
            _ => {}
        }
        match left {
            None => answer(Ok(())),
            Some(left) => {
                env.spawn(
                    "swapped drive",
                    when_quiet(self.inner.resources.clone(), Some(left), done),
                );
            }
        }
    }

    async fn detach(self, id: VolumeId, leaving: Vec<(Seat, Done)>, done: Done) {
        let inner = &self.inner;
        let volume = self.volume(id);
        let mut left = Ok(());
        if let Some(volume) = &volume {
            volume.closing.set(true);
            volume.close_promises();
            volume.moving().inspect(|moving| moving.give_up(self.env()));
            inner.tasks.stop_all_of(&inner.resources, id);
            self.changed().wait_until(self.env(), || volume.users.get() == 0).await;
            let drained = match volume.promises_by_log() {
                // Then no record in it is needed.
                true => volume.drain_and_flush().await,
                false => volume.empty_cache().await,
            };
            if let Err(error) = drained {
                let (name, dirty) = (volume.name(), volume.cache_counters().dirty);
                left = Err(format!(
                    "{dirty} that hosts wrote to volume '{name}' cannot be written: {error}"
                ));
            }
            inner.volumes.borrow_mut().remove(&id);
            volume.close_cache();
            volume.close_reads();
            inner.exchange.dismiss(id);
        }
        self.let_go(volume.as_ref(), leaving);
        answer_control(&done, left);
    }

    async fn set_journal(self, id: VolumeId, place: Option<JournalPlace>, done: Done) {
        let result = match self.volume_or(id) {
            Ok(volume) => match volume.enter() {
                Ok(_user) => volume.change_journal(place.as_ref()).await,
                Err(error) => Err(error.to_string()),
            },
            Err(why) => Err(why),
        };
        answer_control(&done, result);
    }

    /// Runs before the next message: requests that wait for a failed device use the new setting.
    fn set_data_log(&self, id: VolumeId, terms: &DataLogTerms, done: Done) {
        match self.volume_or(id).and_then(|volume| volume.set_data_log(terms)) {
            Ok(Some(left)) => {
                self.env().spawn("a data log is left", async move {
                    left.quiet().await;
                    answer_control(&done, Ok(()));
                });
            }
            other => answer_control(&done, other.map(drop)),
        }
    }

    fn leave_log_device(&self, id: VolumeId, device: Uuid, done: &Done) {
        self.change(id, done, |volume| volume.leave_log_device(device));
    }

    fn hold_log_device(&self, id: VolumeId, device: Uuid, done: Done) {
        let work = async move |volume: Rc<Volume>| volume.hold_log_device(device).await;
        self.env().spawn("hold a log device", self.clone().answer_with(id, done, work));
    }

    fn take_back_log_device(&self, id: VolumeId, device: Uuid, done: &Done) {
        self.change(id, done, |volume| volume.take_back_log_device(device));
    }

    fn lose_journal(&self, id: VolumeId, lost: Uuid, place: Option<&JournalPlace>, done: Done) {
        match self.volume_or(id).and_then(|volume| volume.lose_journal(lost, place)) {
            Ok(true) => {
                let settle = async |volume: Rc<Volume>| volume.settle_lost_journal().await;
                let settled = self.clone().answer_with(id, done, settle);
                self.env().spawn("settle what a lost journal had", settled);
            }
            other => answer_control(&done, other.map(drop)),
        }
    }

    fn reshape(&self, id: VolumeId, order: ReshapeOrder, done: Done) {
        let ReshapeOrder::Begin(place) = order else {
            let work = async move |volume: Rc<Volume>| reshape(&volume, order).await;
            self.env().spawn("reshape", self.clone().answer_with(id, done, work));
            return;
        };
        let three = self.volume_or(id).and_then(|volume| {
            Ok((volume, self.volume_or(place.to)?, self.volume_or(place.save)?))
        });
        let (volume, to, save) = match three {
            Ok(three) => three,
            Err(why) => return answer_control(&done, Err(why)),
        };
        self.env().spawn("begin a reshape", async move {
            let begun = begin_reshape(&volume, &place, &to, &save);
            // A window that was found saved is closed already: reserve memory for its copy before
            // hosts can wait for it.
            let copies = volume.shard().index().0 == 0 && !place.moved.saved.is_zero();
            if begun.is_ok()
                && copies
                && reshape(&volume, ReshapeOrder::Reserve(place.moved.saved)).await.is_err()
            {
                return answer_control(&done, Err(format!("'{}' is not reshaping", volume.name())));
            }
            if begun.is_ok() {
                show_reshaped(&volume).await;
            }
            answer_control(&done, begun);
        });
    }

    fn end_reshape(&self, id: VolumeId, leaving: Vec<(Seat, Done)>, done: &Done) {
        let ended = self.volume_or(id).and_then(|volume| end_reshape(&volume).map(|()| volume));
        if let Ok(volume) = &ended {
            self.inner.volumes.borrow_mut().remove(&id);
            volume.close_cache();
            volume.close_reads();
            self.inner.exchange.dismiss(id);
        }
        self.let_go(ended.as_ref().ok(), leaving);
        answer_control(done, ended.map(drop));
    }

    /// Replies for each seat of a volume that is not served when its drive has returned all
    /// operations.
    fn let_go(&self, volume: Option<&Rc<Volume>>, leaving: Vec<(Seat, Done)>) {
        for (seat, quiet) in leaving {
            let member = volume.and_then(|volume| volume.members.at(seat));
            match member.filter(|member| member.outstanding() > 0) {
                Some(member) => {
                    self.env().spawn(
                        "drive leaves",
                        when_quiet(self.inner.resources.clone(), Some(member), Some(quiet)),
                    );
                }
                None => answer_control(&quiet, Ok(())),
            }
        }
    }

    /// Runs work on a volume as one of its users, and replies.
    async fn answer_with(
        self,
        id: VolumeId,
        done: Done,
        work: impl AsyncFnOnce(Rc<Volume>) -> Result<(), IoError>,
    ) {
        let result = match self.volume_or(id) {
            Ok(volume) => match volume.clone().enter() {
                Ok(_user) => work(volume).await.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            },
            Err(why) => Err(why),
        };
        answer_control(&done, result);
    }

    async fn clean_regions(self) {
        let inner = &self.inner;
        while !self.is_stopping() {
            self.env().sleep(QUIET_AFTER).await;
            let now = self.env().now();
            let before =
                platform::Instant { ns: now.ns.saturating_sub(QUIET_AFTER.as_nanos() as u64) };
            let volumes: Vec<Rc<Volume>> = inner.volumes.borrow().values().cloned().collect();
            for volume in volumes {
                let quiet = volume.take_quiet(before);
                if quiet.is_empty() {
                    continue;
                }
                // Sent in this poll: a write that marks a region again must come later in the
                // mailbox.
                if let Err(error) = self.report(volume.spec().id, ReportKind::Quiet(quiet)).await {
                    tracing::debug!("quiet regions stay marked: {error}");
                }
            }
        }
    }

    /// Stops the shard's tasks; every volume has been detached before.
    pub fn stop(&self) {
        let inner = &self.inner;
        inner.exchange.close();
        inner.resources.stop();
        drop(inner.volumes.take());
    }
}

/// A shard that receives messages. Its volumes own it in turn: dropping this breaks the cycle, also
/// after a kill, in whatever state the tasks were dropped.
struct Served(Shard);

impl Served {
    async fn receive_messages(self, mut receiver: mailbox::Receiver<ShardMessage>) {
        /// The number of messages after which other tasks run: each message may be executed at
        /// once.
        const MESSAGES: usize = 64;
        let (shard, mut count) = (&self.0, 0);
        while let Some(message) = receiver.receive().await {
            shard.take(message);
            if shard.is_stopping() {
                break;
            }
            count += 1;
            if count % MESSAGES == 0 {
                shard.env().yield_now().await;
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let inner = &self.0.inner;
        self.0.stop();
        // Dropped without a borrow: the last owner of a volume may use its shard.
        inner.tasks.forget_all();
        inner.exchange.forget_all();
        inner.resources.forget_reports();
    }
}
