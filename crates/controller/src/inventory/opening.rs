//! Opens drives: at a start the registered ones, before a command those that it names.
//!
//! # Invariants
//! - At a start all drives are probed at the same time, each up to the limit of its kind
//!   ([`probe::start_limit`]). A drive without a response is *awaited*: an array that it may belong
//!   to does not start without it before that limit (`lifecycle::assemble`).
//! - Of two names of one drive the one registered first is used: the next probe starts after the
//!   response of the previous drive, or after [`probe::USUAL`].
//! - A drive that a command names is opened before the command takes the lock for changes. A drive
//!   that does not respond becomes a *newcomer*: the command is refused, and finds the drive open
//!   when it is repeated. A newcomer that no command uses is closed after a while.

use super::probe;
use super::{Drive, Inventory, is_volatile};
use crate::interface::{Error, ErrorKind};
use crate::signals::wait_or;
use platform::JoinHandle;
use platform::sync::Signal;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use units::ByteCount;

/// How long a start waits for drives before it starts the complete arrays.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// First probes that are running.
#[derive(Default)]
pub(super) struct Opening {
    awaited: RefCell<Vec<Rc<Drive>>>,
    /// The number of completed first probes.
    ended: Cell<u64>,
    changed: Signal,
}

/// An unregistered drive that a command names.
pub(super) struct Newcomer {
    drive: Rc<Drive>,
    /// Whether it was present and had responded at the last check of newcomers.
    is_old: Cell<bool>,
}

impl Newcomer {
    pub(super) fn is_one_of(&self, drives: &[Rc<Drive>]) -> bool {
        drives.iter().any(|drive| Rc::ptr_eq(drive, &self.drive))
    }
}

impl Inventory {
    /// Begins to open registered and given drives. Returns when all have responded, or after a
    /// moment: then [some are awaited](Self::awaited).
    pub(crate) async fn open_known_drives(self: &Rc<Self>, given: &[String]) {
        self.load_failed().await;
        self.load_seen().await;
        self.load_deleted().await;
        let hints = self.load_hints().await;
        self.load_numbers(&hints.serial).await;
        let patience = self.env.now() + FIRST_WAIT;
        for spec in hints.drives.iter().chain(given) {
            if self.drive_called(spec).is_some() && !is_volatile(spec) {
                continue;
            }
            let drive = self.new_drive(spec);
            hints
                .sizes
                .get(spec)
                .into_iter()
                .for_each(|size| drive.set_earlier_size(ByteCount(*size)));
            drive.wants_room.set(hints.want_room.contains(spec));
            self.drives.borrow_mut().push(drive.clone());
            self.opening.awaited.borrow_mut().push(drive.clone());
            drive.set_problem(Some(opening(&drive)));
            drive.is_unchecked.set(!hints.drives.contains(spec));
            self.env.spawn("first look", self.clone().first_look(drive.clone()));
            let until = patience.min(self.env.now() + probe::USUAL);
            wait_or(&self.env, &self.opening.changed, || !self.is_awaited(&drive), until).await;
        }
        let until = patience.max(self.env.now() + probe::USUAL);
        wait_or(
            &self.env,
            &self.opening.changed,
            || self.opening.awaited.borrow().is_empty(),
            until,
        )
        .await;
        self.events.leave_to_health(self.store_drives().await);
    }

    /// The first probe of a drive.
    async fn first_look(self: Rc<Self>, drive: Rc<Drive>) {
        drive.look_within(&self.env, probe::start_limit(&drive.spec)).await;
        self.let_wanted_grow(&drive).await;
        self.keeps_given(&drive).await;
        self.opening.awaited.borrow_mut().retain(|other| !Rc::ptr_eq(other, &drive));
        self.opening.ended.set(self.opening.ended.get() + 1);
        self.opening.changed.notify(&self.env);
    }

    /// Drives that were registered at the start and have not responded yet.
    pub(crate) fn awaited(&self) -> Vec<Rc<Drive>> {
        self.opening.awaited.borrow().clone()
    }

    /// Whether a drive is awaited.
    pub(super) fn is_awaited(&self, drive: &Rc<Drive>) -> bool {
        self.opening.awaited.borrow().iter().any(|other| Rc::ptr_eq(other, drive))
    }

    /// The number of drives that have responded since the start, or are not awaited any more.
    pub(crate) fn answers(&self) -> u64 {
        self.opening.ended.get()
    }

    /// Waits until there are more [responses](Self::answers) than the caller has processed.
    pub(crate) async fn next_answer(&self, taken_in: u64, goes_on: impl Fn() -> bool) {
        let is_more = || self.opening.ended.get() > taken_in || !goes_on();
        self.opening.changed.wait_until(&self.env, is_more).await;
    }

    /// Wakes tasks that wait for a response, so that they check whether to continue.
    pub(crate) fn wait_no_longer(&self) {
        self.opening.changed.notify(&self.env);
    }

    /// Probes drives, all at the same time.
    pub(crate) async fn look_at(&self, drives: Vec<Rc<Drive>>) {
        let look = |drive: Rc<Drive>| {
            let env = self.env.clone();
            self.env.spawn("look", async move { drive.look(&env).await })
        };
        let looks: Vec<JoinHandle<()>> = drives.into_iter().map(look).collect();
        for look in looks {
            look.await;
        }
    }

    /// An unregistered drive of that name: the newcomer, if an earlier command named it.
    pub(crate) fn unregistered(&self, name: String, spec: &str) -> Rc<Drive> {
        let newcomers = self.newcomers.borrow();
        let same = newcomers
            .iter()
            .find(|newcomer| newcomer.drive.name == name && newcomer.drive.spec == spec);
        same.map_or_else(
            || Rc::new(Drive::new(name, spec, &self.attention, &self.drives)),
            |newcomer| newcomer.drive.clone(),
        )
    }

    /// An unregistered drive that a command is going to name.
    pub(crate) fn newcomer(&self, spec: &str) -> Rc<Drive> {
        let drive = self.unregistered(spec.to_owned(), spec);
        let is_new =
            self.newcomers.borrow().iter().all(|newcomer| !Rc::ptr_eq(&newcomer.drive, &drive));
        if is_new {
            self.newcomers
                .borrow_mut()
                .push(Newcomer { drive: drive.clone(), is_old: Cell::new(false) });
        }
        drive
    }

    /// Closes newcomers that have responded and were not used since the previous call.
    pub(crate) fn drop_newcomers(&self) {
        self.newcomers.borrow_mut().retain(|newcomer| {
            let stays = newcomer.drive.is_probed() || !newcomer.is_old.replace(true);
            if !stays {
                newcomer.drive.close();
            }
            stays
        });
    }

    /// After a command: [releases](Self::let_newcomer_go) the drives that were probed for it and
    /// not registered, so that others can use them.
    pub(crate) fn let_untaken_go(&self, looked: &[Rc<Drive>]) {
        let is_registered =
            |drive: &Rc<Drive>| self.drives.borrow().iter().any(|one| Rc::ptr_eq(one, drive));
        looked
            .iter()
            .filter(|drive| !is_registered(drive))
            .for_each(|drive| self.let_newcomer_go(drive));
    }

    /// Whether a drive that was given at the start stays registered: not if it is a file that is
    /// not a drive. It may be opened long after the start.
    pub(crate) async fn keeps_given(&self, drive: &Rc<Drive>) -> bool {
        if drive.access().is_none() || !drive.is_unchecked.replace(false) {
            return true;
        }
        let Err(why) = drive.check_made_for_a_drive(&self.env).await else { return true };
        tracing::error!("{why}");
        drive.close();
        self.drives.borrow_mut().retain(|other| !Rc::ptr_eq(other, drive));
        self.events.leave_to_health(self.store_drives().await);
        false
    }

    /// Closes an unregistered drive of a command, unless it has not responded yet: a repeated
    /// command may find it then.
    pub(super) fn let_newcomer_go(&self, drive: &Rc<Drive>) {
        let mut newcomers = self.newcomers.borrow_mut();
        let is_it = |newcomer: &Newcomer| Rc::ptr_eq(&newcomer.drive, drive);
        if !(drive.is_probed() && newcomers.iter().any(is_it)) {
            drive.close();
            newcomers.retain(|newcomer| !is_it(newcomer));
        }
    }
}

/// The error that a drive is being opened.
fn opening(drive: &Drive) -> Error {
    let sentence = format!("drive {} is being opened and has not responded yet", drive.name);
    Error::new(ErrorKind::Unavailable, sentence)
}
