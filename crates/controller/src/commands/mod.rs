//! Commands: the top module. It receives the commands of all interfaces, executes them with the
//! modules below, and replies. It also starts the controller and connects all modules.
//!
//! **Owns** the queue of commands, the shutdown state, and the revisions of descriptions
//! ([`Commands`]).
//!
//! **Invariants.** A query is answered at once from the state of the modules below. Changes run one
//! at a time, under a lock shared with the reconciler. Every command gets a reply, even during
//! shutdown; the reply to an order is sent once it is in the audit trail. The event of a change
//! names the caller.
//!
//! **Callers**: interfaces, through [`ControllerHandle`]; no other module.

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

/// The maximum number of commands in the mailbox, and of changes in the queue.
const COMMANDS_WAITING: usize = 256;

/// The maximum number of waiting events and records of interfaces.
const NOTES_WAITING: usize = 1024;

/// Receives commands and replies to them.
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
    /// Changes whose drives are probed before they wait for the lock.
    preparing: Cell<usize>,
    stopping: Cell<bool>,
    /// The phase of the start, and the callers that wait for a later phase.
    phase: Cell<Phase>,
    until: RefCell<Vec<(Phase, Answer)>>,
    unfinished: Arc<handle::Unfinished>,
    nbd: Vec<String>,
    started_unix_s: u64,
    revisions: revisions::Revisions,
}
