//! Recovery from unreadable data: other copies, redundancy, smaller requests; and punctured blocks.
//!
//! [`Recovery`] is built on [`Stripes`].

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

/// Requests on stripes, with recovery from drive faults.
pub struct Recovery {
    stripes: Rc<Stripes>,
    /// Stripes that are queued for repair.
    repairing: RefCell<BTreeSet<StripeIndex>>,
    /// Whether a task resyncs unsynced regions.
    pub(crate) resyncing: Cell<bool>,
    /// Whether a task initialises stripes that no host has written.
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
