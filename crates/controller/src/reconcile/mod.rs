//! The reconciler: compares desired with current state, and starts the missing work: hot spares,
//! rebuilds, copybacks, scheduled tasks.
//!
//! **Owns** the lock for changes, shared with operators' commands; the conditions already reported,
//! which are not repeated ([`Reconciler`]).
//!
//! **Invariants.** It decides by the labels alone, never by its own history, so it continues the
//! work of a killed process after a restart. Its changes and those of commands run one at a time.
//!
//! **Callers**: `commands`, which starts it, shares its lock, and queries spares. It begins tasks
//! in `tasks` and puts drives into slots through `lifecycle`.

mod changed;
mod choose;
mod reconciler;
mod returns;
mod spares;

use crate::arrays::Arrays;
use crate::events::Events;
use crate::inventory::Inventory;
use crate::lifecycle::Lifecycle;
use crate::signals::Attention;
use crate::tasks::Tasks;
use ondisk::Uuid;
use platform::sync::Credits;
use platform::{Env, Instant};
use returns::Returns;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The module's dependencies.
pub(crate) struct Needs {
    pub(crate) events: Rc<Events>,
    pub(crate) inventory: Rc<Inventory>,
    pub(crate) arrays: Rc<Arrays>,
    pub(crate) lifecycle: Rc<Lifecycle>,
    pub(crate) tasks: Rc<Tasks>,
    pub(crate) attention: Rc<Attention>,
}

/// Compares desired with current state.
pub(crate) struct Reconciler {
    env: Env,
    events: Rc<Events>,
    inventory: Rc<Inventory>,
    arrays: Rc<Arrays>,
    lifecycle: Rc<Lifecycle>,
    tasks: Rc<Tasks>,
    attention: Rc<Attention>,
    /// Reported conditions, which are not repeated.
    reported: RefCell<BTreeSet<String>>,
    /// How often drives returned by themselves, by their UUID.
    returns: RefCell<BTreeMap<Uuid, Returns>>,
    /// When the controller was started.
    began: Instant,
    /// The lock for changes, held by one command or the reconciler at a time.
    turn: Credits,
}

impl Reconciler {
    pub(crate) fn new(env: &Env, needs: Needs) -> Rc<Reconciler> {
        let Needs { events, inventory, arrays, lifecycle, tasks, attention } = needs;
        Rc::new(Reconciler {
            env: env.clone(),
            events,
            inventory,
            arrays,
            lifecycle,
            tasks,
            attention,
            reported: RefCell::default(),
            returns: RefCell::default(),
            began: env.now(),
            turn: Credits::new(env, 1),
        })
    }

    /// The lock for changes: each change must hold it.
    pub(crate) fn turn(&self) -> &Credits {
        &self.turn
    }
}
