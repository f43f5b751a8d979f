//! Drives that are opened: at a start those that are registered, before a command those that it names.
//!
//! # Invariants
//! - At a start all drives are looked at at the same time, each for as long as a drive of its kind may take ([`probe::start_limit`]). A drive that has not
//!   answered yet is *awaited*: an array that it may belong to is not started without it before that time is over (`lifecycle::assemble`).
//! - Of two names of one drive the one that is registered first is used: the next drive is looked at when the one before has answered, or has not for
//!   [`probe::USUAL`].
//! - A drive that a command names is opened before the command takes the lock of changes. One that does not answer is a *newcomer* until it does: the
//!   command is refused, and finds the drive open when it is given again. A newcomer that no command takes is closed after a while.

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

/// How long a start waits for drives before it starts the arrays that are complete.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// First looks that are not over.
#[derive(Default)]
pub(super) struct Opening {
    awaited: RefCell<Vec<Rc<Drive>>>,
    /// How many first looks are over.
    ended: Cell<u64>,
    changed: Signal,
}

/// A drive that a command names, and that is not registered.
pub(super) struct Newcomer {
    drive: Rc<Drive>,
    /// Whether it was there, and answered, when newcomers were looked through last.
    is_old: Cell<bool>,
}

impl Newcomer {
    pub(super) fn is_one_of(&self, drives: &[Rc<Drive>]) -> bool {
        drives.iter().any(|drive| Rc::ptr_eq(drive, &self.drive))
    }
}

impl Inventory {
    /// Begins to open the drives that are registered, and those given. Returns when all have answered, or after a moment: then
    /// [some are awaited](Self::awaited).
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
            hints.sizes.get(spec).into_iter().for_each(|size| drive.set_earlier_size(ByteCount(*size)));
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
        wait_or(&self.env, &self.opening.changed, || self.opening.awaited.borrow().is_empty(), until).await;
        self.events.leave_to_health(self.store_drives().await);
    }

    /// The first look at a drive.
    async fn first_look(self: Rc<Self>, drive: Rc<Drive>) {
        drive.look_within(&self.env, probe::start_limit(&drive.spec)).await;
        self.let_wanted_grow(&drive).await;
        self.keeps_given(&drive).await;
        self.opening.awaited.borrow_mut().retain(|other| !Rc::ptr_eq(other, &drive));
        self.opening.ended.set(self.opening.ended.get() + 1);
        self.opening.changed.notify(&self.env);
    }

    /// Drives that were registered at the start and have not answered yet.
    pub(crate) fn awaited(&self) -> Vec<Rc<Drive>> {
        self.opening.awaited.borrow().clone()
    }

    /// Whether a drive is one of them.
    pub(super) fn is_awaited(&self, drive: &Rc<Drive>) -> bool {
        self.opening.awaited.borrow().iter().any(|other| Rc::ptr_eq(other, drive))
    }

    /// How many drives have answered since the start, or are not awaited any more.
    pub(crate) fn answers(&self) -> u64 {
        self.opening.ended.get()
    }

    /// Waits until there are more [answers](Self::answers) than those that the caller has taken in.
    pub(crate) async fn next_answer(&self, taken_in: u64, goes_on: impl Fn() -> bool) {
        let is_more = || self.opening.ended.get() > taken_in || !goes_on();
        self.opening.changed.wait_until(&self.env, is_more).await;
    }

    /// Has those look again whether they go on that wait for an answer.
    pub(crate) fn wait_no_longer(&self) {
        self.opening.changed.notify(&self.env);
    }

    /// Looks at drives, all at the same time.
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

    /// A drive of that name that is not registered: the newcomer, if a command has named it before.
    pub(crate) fn unregistered(&self, name: String, spec: &str) -> Rc<Drive> {
        let newcomers = self.newcomers.borrow();
        let same =
            newcomers.iter().find(|newcomer| newcomer.drive.name == name && newcomer.drive.spec == spec);
        same.map_or_else(
            || Rc::new(Drive::new(name, spec, &self.attention, &self.drives)),
            |newcomer| newcomer.drive.clone(),
        )
    }

    /// A drive that a command is going to name, and that is not registered.
    pub(crate) fn newcomer(&self, spec: &str) -> Rc<Drive> {
        let drive = self.unregistered(spec.to_owned(), spec);
        let is_new = self.newcomers.borrow().iter().all(|newcomer| !Rc::ptr_eq(&newcomer.drive, &drive));
        if is_new {
            self.newcomers.borrow_mut().push(Newcomer { drive: drive.clone(), is_old: Cell::new(false) });
        }
        drive
    }

    /// Closes newcomers that have answered and were not taken by a command since this was called last.
    pub(crate) fn drop_newcomers(&self) {
        self.newcomers.borrow_mut().retain(|newcomer| {
            let stays = newcomer.drive.is_probed() || !newcomer.is_old.replace(true);
            if !stays {
                newcomer.drive.close();
            }
            stays
        });
    }

    /// A command is done: drives that were looked at for it and that it has not registered are [let go](Self::let_newcomer_go), so that
    /// others can use them.
    pub(crate) fn let_untaken_go(&self, looked: &[Rc<Drive>]) {
        let is_registered = |drive: &Rc<Drive>| self.drives.borrow().iter().any(|one| Rc::ptr_eq(one, drive));
        looked.iter().filter(|drive| !is_registered(drive)).for_each(|drive| self.let_newcomer_go(drive));
    }

    /// Whether a drive that was given at the start stays registered: not if it is a file that was not made for a drive. It may be opened long after
    /// the start.
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

    /// A drive that a command named is not registered: it is closed, but for one that has not answered yet, which the command may find when it is given again.
    pub(super) fn let_newcomer_go(&self, drive: &Rc<Drive>) {
        let mut newcomers = self.newcomers.borrow_mut();
        let is_it = |newcomer: &Newcomer| Rc::ptr_eq(&newcomer.drive, drive);
        if !(drive.is_probed() && newcomers.iter().any(is_it)) {
            drive.close();
            newcomers.retain(|newcomer| !is_it(newcomer));
        }
    }
}

/// That a drive is being opened.
fn opening(drive: &Drive) -> Error {
    let sentence = format!("drive {} is being opened and has not answered yet", drive.name);
    Error::new(ErrorKind::Unavailable, sentence)
}
