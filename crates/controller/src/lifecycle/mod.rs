//! The life cycle of volumes and drives: creates, finds, starts, stops, renames and deletes
//! volumes; registers, removes, brings back, replaces and forgets drives.
//!
//! **Owns** no state: its results are in `inventory`, `arrays`, and on the drives ([`Lifecycle`]
//! holds the modules it depends on).
//!
//! **Invariants.** Everything is checked before anything is written. A label says *creating* before
//! any other write, and *online* after all of them. A start raises the generation before it serves.
//! A deletion is recorded on all drives before one is erased.
//!
//! **Callers**: `foreign` and `reconcile`, which create and change arrays with it, and `commands`.
//! Changes run one at a time.

mod along;
mod assemble;
mod candidates;
mod change;
mod create;
mod delete;
mod failed;
mod fewer;
mod grow;
mod logs;
mod preview;
mod repair;
mod rescan;
mod returning;
mod scan;
mod shape;
mod unfinished_imports;

pub(crate) use change::TakeOut;
pub(crate) use failed::{foreign_member, refuse_failed};
pub(crate) use grow::info_on_its_way;
pub use preview::{DriveOperations, Preview, preview};

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use crate::events::Events;
use crate::inventory::{Drive, Inventory};
use crate::signals::Attention;
use platform::Env;
use std::rc::Rc;

/// The module's dependencies.
pub(crate) struct Needs {
    pub(crate) events: Rc<Events>,
    pub(crate) inventory: Rc<Inventory>,
    pub(crate) arrays: Rc<Arrays>,
    pub(crate) attention: Rc<Attention>,
}

/// Creates, finds, starts, stops and deletes volumes.
pub(crate) struct Lifecycle {
    env: Env,
    events: Rc<Events>,
    inventory: Rc<Inventory>,
    arrays: Rc<Arrays>,
    attention: Rc<Attention>,
}

/// The drive of a command, and notes, a sentence each.
pub(crate) type OfDrive = (Rc<Drive>, Vec<String>);

/// The volume of a command, its array, and notes, a sentence each.
pub(crate) type OfVolume = (Rc<Array>, Rc<Volume>, Vec<String>);

impl Lifecycle {
    pub(crate) fn new(env: &Env, needs: Needs) -> Rc<Lifecycle> {
        let Needs { events, inventory, arrays, attention } = needs;
        Rc::new(Lifecycle { env: env.clone(), events, inventory, arrays, attention })
    }
}
