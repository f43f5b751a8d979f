//! What changed, for whoever looks after it.

use super::wait_or;
use platform::Env;
use platform::sync::Signal;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Counts what the reconciler should look at, and wakes those who wait for something to change.
pub(crate) struct Attention {
    env: Env,
    /// Counts what changed.
    seen: Cell<u64>,
    /// Whether somebody looks again by himself before long.
    looking_again: Cell<bool>,
    /// Nothing begins any more.
    closing: Cell<bool>,
    changed: Signal,
}

impl Attention {
    pub(crate) fn new(env: &Env) -> Rc<Attention> {
        Rc::new(Attention {
            env: env.clone(),
            seen: Cell::new(0),
            looking_again: Cell::new(false),
            closing: Cell::new(false),
            changed: Signal::default(),
        })
    }

    /// Something changed that the reconciler should look at.
    pub(crate) fn look_after(&self) {
        self.seen.set(self.seen.get() + 1);
        self.notify();
    }

    /// Something changed that somebody may wait for.
    pub(crate) fn notify(&self) {
        self.changed.notify(&self.env);
    }

    /// How often there was something to look at.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.get()
    }

    /// Notified when there may be something to begin, or to store.
    pub(crate) fn changed(&self) -> &Signal {
        &self.changed
    }

    /// The reconciler looks again after that time, though nothing changes.
    pub(crate) fn look_again_in(self: &Rc<Self>, time: Duration) {
        if self.looking_again.replace(true) {
            return;
        }
        let attention = self.clone();
        self.env.spawn("look again", async move {
            let until = attention.env.now() + time;
            wait_or(&attention.env, &attention.changed, || attention.is_closing(), until).await;
            attention.looking_again.set(false);
            attention.look_after();
        });
    }

    /// The controller is shutting down: nothing begins any more.
    pub(crate) fn close(&self) {
        self.closing.set(true);
        self.notify();
    }

    /// Whether the controller is shutting down.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.get()
    }
}
