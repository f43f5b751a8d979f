//! Notifications of changes.

use super::wait_or;
use platform::Env;
use platform::sync::Signal;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Counts changes for the reconciler, and wakes tasks that wait for a change.
pub(crate) struct Attention {
    env: Env,
    /// The number of changes.
    seen: Cell<u64>,
    /// Whether the reconciler has scheduled another check.
    looking_again: Cell<bool>,
    /// Whether the controller is shutting down: no new work starts.
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

    /// Notifies the reconciler of a change.
    pub(crate) fn look_after(&self) {
        self.seen.set(self.seen.get() + 1);
        self.notify();
    }

    /// Wakes tasks that wait for a change.
    pub(crate) fn notify(&self) {
        self.changed.notify(&self.env);
    }

    /// The number of changes for the reconciler.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.get()
    }

    /// Notified when there may be work to start or state to store.
    pub(crate) fn changed(&self) -> &Signal {
        &self.changed
    }

    /// Schedules another check by the reconciler after that time, even without a change.
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

    /// Starts the shutdown: no new work starts from now on.
    pub(crate) fn close(&self) {
        self.closing.set(true);
        self.notify();
    }

    /// Whether the controller is shutting down.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.get()
    }
}
