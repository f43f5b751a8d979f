//! What to do when bytes cannot be had: other copies, redundancy, less at a time; and what becomes of blocks that nothing
//! gives back.
//!
//! [`Recovery`] stands on [`Stripes`].

mod confirm;
mod forced;
mod giving_up;
mod ladder;
mod reading;
mod repair;

pub(crate) use ladder::{MOVE, WRITE};
pub(crate) use repair::Mend;

use crate::stripe::Stripes;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Deref;
use std::rc::Rc;
use units::StripeIndex;

/// Requests on stripes, with what it takes to serve them when drives fail.
pub struct Recovery {
    stripes: Rc<Stripes>,
    /// Stripes that wait to be repaired.
    repairing: RefCell<BTreeSet<StripeIndex>>,
    /// Whether a task resyncs unsynced regions.
    pub(crate) resyncing: Cell<bool>,
    /// Whether a task initialises what no host has written.
    pub(crate) initialising_rest: Cell<bool>,
}

impl Deref for Recovery {
    type Target = Rc<Stripes>;

    fn deref(&self) -> &Rc<Stripes> {
        &self.stripes
    }
}

impl Recovery {
    pub(crate) fn new(stripes: Rc<Stripes>) -> Rc<Recovery> {
        Rc::new(Recovery {
            stripes,
            repairing: RefCell::default(),
            resyncing: Cell::new(false),
            initialising_rest: Cell::new(false),
        })
    }
}
