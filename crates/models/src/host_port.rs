//! A volume as the host uses it: behind the host link, with the controller's processor time and its
//! limit of outstanding commands.
//!
//! A command takes processor time and transfers write data over the link; then it reaches the
//! volume. Its completion takes the reverse path, with read data.

use crate::server::Core;
use crate::slots::Slots;
use platform::{
    Completion, Drive, DriveInfo, Env, Instant, IoOutcome, IoRequest, Runners, Service,
};
use platform_sim::Actor;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

/// The number of outstanding host commands if the controller sets no limit.
const MOST_COMMANDS: u64 = 1024;

/// Event tokens: the volume gets the command; with [`ANSWERED`], the host gets the completion.
const ANSWERED: u64 = 1 << 32;

/// An outstanding command.
struct Command {
    completion: Completion,
    stage: Stage,
}

enum Stage {
    /// In transit to the volume.
    Asked(IoRequest),
    /// In the volume.
    Served,
    /// In transit to the host.
    Answered(IoOutcome),
}

struct Inner {
    me: Weak<Inner>,
    core: Rc<Core>,
    most: u64,
    commands: RefCell<Slots<Command>>,
    under_way: Cell<u64>,
    waiting: RefCell<VecDeque<(IoRequest, Completion)>>,
    requests: Runners<(u32, IoRequest)>,
}

/// See the [module](self).
pub(crate) struct HostPort<S> {
    inner: Rc<Inner>,
    volume: Rc<S>,
}

impl<S: Service + 'static> HostPort<S> {
    pub fn new(env: &Env, core: &Rc<Core>, volume: S) -> HostPort<S> {
        let most = match core.controller.most_outstanding {
            0 => MOST_COMMANDS,
            most => most.min(MOST_COMMANDS),
        };
        let volume = Rc::new(volume);
        let inner = Rc::new_cyclic(|me: &Weak<Inner>| Inner {
            me: me.clone(),
            core: core.clone(),
            most,
            commands: RefCell::default(),
            under_way: Cell::new(0),
            waiting: RefCell::default(),
            requests: Runners::new(env, "host port", most as usize),
        });
        let (served, port) = (volume.clone(), Rc::downgrade(&inner));
        inner.requests.run(async move |(tag, request): (u32, IoRequest)| {
            let outcome = served.serve(request).await;
            if let Some(port) = port.upgrade() {
                port.answer(tag, outcome);
            }
        });
        HostPort { inner, volume }
    }
}

impl Inner {
    fn at(&self, ns: u64, token: u64) {
        if let Some(me) = self.me.upgrade() {
            self.core.sim.at(Instant { ns }, me, token);
        }
    }

    /// Accepts a command.
    fn take(&self, request: IoRequest, completion: Completion) {
        self.under_way.set(self.under_way.get() + 1);
        let at_ns = self.core.host_command(self.core.sim.now().ns, &request);
        let tag =
            self.commands.borrow_mut().put(Command { completion, stage: Stage::Asked(request) });
        self.at(at_ns, u64::from(tag));
    }

    /// The volume has completed a command.
    fn answer(&self, tag: u32, outcome: IoOutcome) {
        let read = outcome.buffers.iter().map(|buf| buf.len().0).sum();
        let at_ns = self.core.host_answer(self.core.sim.now().ns, read);
        if let Some(command) = self.commands.borrow_mut().get_mut(tag) {
            command.stage = Stage::Answered(outcome);
            self.at(at_ns, ANSWERED | u64::from(tag));
        }
    }

    /// The completion has reached the host.
    fn finish(&self, tag: u32) {
        let command = self.commands.borrow_mut().take(tag);
        if let Some(Command { completion, stage: Stage::Answered(outcome) }) = command {
            completion.complete(outcome);
            self.under_way.set(self.under_way.get() - 1);
            let next = self.waiting.borrow_mut().pop_front();
            if let Some((request, completion)) = next {
                self.take(request, completion);
            }
        }
    }
}

impl Actor for Inner {
    fn act(self: Rc<Self>, token: u64) {
        let tag = token as u32;
        if token & ANSWERED != 0 {
            return self.finish(tag);
        }
        let asked = self.commands.borrow_mut().get_mut(tag).map(|command| {
            // The volume owns the request now.
            std::mem::replace(&mut command.stage, Stage::Served)
        });
        if let Some(Stage::Asked(request)) = asked {
            self.requests.give((tag, request));
        }
    }
}

impl<S: Service> Drive for HostPort<S> {
    fn info(&self) -> &DriveInfo {
        self.volume.info()
    }

    fn start(&self, request: IoRequest, completion: Completion) {
        let inner = &self.inner;
        if inner.under_way.get() < inner.most {
            inner.take(request, completion);
        } else {
            inner.waiting.borrow_mut().push_back((request, completion));
        }
    }
}
