//! The room that compares what is wanted with what there is, and has done what is missing: spares stand in, drives are
//! rebuilt, copied and given back, what is due begins.
//!
//! **Owns** the turn to make changes, which it shares with the commands of operators; what it has reported and does not
//! repeat ([`Reconciler`]).
//!
//! **Invariants.** It decides by what labels say, never by what it did before, so it takes up after a restart what a
//! process left that was killed. It and the commands change things one after the other.
//!
//! **Who may call it**: `commands`, which starts it, takes turns with it, and asks for spares. It begins tasks in `tasks`
//! and puts drives into slots through `lifecycle`.

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

/// What the room needs of others.
pub(crate) struct Needs {
    pub(crate) events: Rc<Events>,
    pub(crate) inventory: Rc<Inventory>,
    pub(crate) arrays: Rc<Arrays>,
    pub(crate) lifecycle: Rc<Lifecycle>,
    pub(crate) tasks: Rc<Tasks>,
    pub(crate) attention: Rc<Attention>,
}

/// Compares what is wanted with what there is.
pub(crate) struct Reconciler {
    env: Env,
    events: Rc<Events>,
    inventory: Rc<Inventory>,
    arrays: Rc<Arrays>,
    lifecycle: Rc<Lifecycle>,
    tasks: Rc<Tasks>,
    attention: Rc<Attention>,
    /// What it has reported already and does not repeat.
    reported: RefCell<BTreeSet<String>>,
    /// How often drives came back by themselves, by their UUID.
    returns: RefCell<BTreeMap<Uuid, Returns>>,
    /// When the controller was started.
    began: Instant,
    /// The turn to make changes: commands and the reconciler, one after the other.
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

    /// The turn to make changes: whoever makes one takes it.
    pub(crate) fn turn(&self) -> &Credits {
        &self.turn
    }
}
