//! The room of beginnings and ends: volumes are made, found, started, stopped, renamed and deleted; drives are
//! registered, taken out, brought back, replaced and forgotten.
//!
//! **Owns** no state of its own: what it makes is in `inventory`, `arrays`, and on the drives ([`Lifecycle`] holds the
//! way to them).
//!
//! **Invariants.** Everything is checked before anything is written. A label says *creating* before anything else is
//! written, and *online* after everything; a start raises the generation before it serves; a deletion says so on all
//! drives before it erases one.
//!
//! **Who may call it**: `foreign` and `reconcile`, which make and change arrays by it, and `commands`. One change is
//! carried out at a time.

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

/// What the room needs of others.
pub(crate) struct Needs {
    pub(crate) events: Rc<Events>,
    pub(crate) inventory: Rc<Inventory>,
    pub(crate) arrays: Rc<Arrays>,
    pub(crate) attention: Rc<Attention>,
}

/// Makes volumes, finds them, starts and ends them.
pub(crate) struct Lifecycle {
    env: Env,
    events: Rc<Events>,
    inventory: Rc<Inventory>,
    arrays: Rc<Arrays>,
    attention: Rc<Attention>,
}

/// A drive that a command was about, and notes, a sentence each.
pub(crate) type OfDrive = (Rc<Drive>, Vec<String>);

/// A volume that a command was about, its array, and notes, a sentence each.
pub(crate) type OfVolume = (Rc<Array>, Rc<Volume>, Vec<String>);

impl Lifecycle {
    pub(crate) fn new(env: &Env, needs: Needs) -> Rc<Lifecycle> {
        let Needs { events, inventory, arrays, attention } = needs;
        Rc::new(Lifecycle { env: env.clone(), events, inventory, arrays, attention })
    }
}
