//! The room of commands, the top one: what every interface asks is taken here, carried out by the rooms below, and
//! answered. It also starts the controller: it alone joins the rooms.
//!
//! **Owns** the commands that wait for their turn, whether the controller is stopping, and the revisions of what is said ([`Commands`]).
//!
//! **Invariants.** A question is answered at once, from what the rooms below know. Changes are carried out one after the
//! other, in turn with the reconciler. Every command is answered, also while the controller stops; an order when it is in the audit
//! trail. The event of a change says who asked for it.
//!
//! **Who may call it**: interfaces, through [`ControllerHandle`]; no other room.

mod audit;
mod disks;
mod explain;
mod explain_cache;
mod handle;
mod info;
mod metrics;
mod numbering;
mod on_its_way;
mod queue;
mod report;
mod revisions;
mod start;
mod stop;

pub use handle::{Answer, Asked, ControllerHandle, Note, Occurrence, Phase, Request, Unfinished};
pub use start::{Controller, Options};

use crate::arrays::Arrays;
use crate::audit::Audit;
use crate::events::Events;
use crate::foreign::Foreign;
use crate::inventory::Inventory;
use crate::lifecycle::Lifecycle;
use crate::policy::Policies;
use crate::reconcile::Reconciler;
use crate::signals::Attention;
use crate::tasks::Tasks;
use crate::ups::Ups;
use platform::Env;
use platform::sync::Signal;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// Commands that may wait in the mailbox at a time, and changes that may wait for their turn.
const COMMANDS_WAITING: usize = 256;

/// Events and records of interfaces that may wait.
const NOTES_WAITING: usize = 1024;

/// Takes commands and answers them.
pub(crate) struct Commands {
    env: Env,
    events: Rc<Events>,
    audit: Rc<Audit>,
    inventory: Rc<Inventory>,
    arrays: Rc<Arrays>,
    lifecycle: Rc<Lifecycle>,
    foreign: Rc<Foreign>,
    policies: Policies,
    tasks: Rc<Tasks>,
    reconciler: Rc<Reconciler>,
    attention: Rc<Attention>,
    ups: Option<Rc<Ups>>,
    attached: disks::Attached,
    changes: RefCell<VecDeque<queue::Change>>,
    change_waiting: Signal,
    /// Changes whose drives are looked at before they wait for the lock.
    preparing: Cell<usize>,
    stopping: Cell<bool>,
    /// How far the start has come, and those who are answered when it has come further.
    phase: Cell<Phase>,
    until: RefCell<Vec<(Phase, Answer)>>,
    unfinished: Arc<handle::Unfinished>,
    nbd: Vec<String>,
    started_unix_s: u64,
    revisions: revisions::Revisions,
}
