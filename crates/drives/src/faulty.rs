//! A drive that misbehaves on demand: another drive behind a script of faults.
//!
//! The script is shared, so that a test or an operator changes it while the drive is at work. A request is
//! judged once, when it starts: by the first rule that fits it and is not used up. What is under way when
//! the drive is [taken away](FaultScript::set_gone) fails when its time comes.

use crate::request::give_back;
use env::{
    Completion, Drive, DriveHealth, DriveInfo, DriveSource, Env, HealthScript, Instant, IoError, IoErrorKind,
    IoOutcome, IoRequest, Result,
};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;
use units::{ByteCount, ByteRange};

/// Which kind of request a rule is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Write zeroes.
    WriteZeroes,
    /// Trims.
    Trim,
    /// Flushes.
    Flush,
    /// Status requests.
    Status,
    /// Questions for its health.
    Health,
    /// Turning its light on or off.
    Locate,
}

impl OpKind {
    fn of(request: &IoRequest) -> OpKind {
        match request {
            IoRequest::Read { .. } => OpKind::Read,
            IoRequest::Write { .. } => OpKind::Write,
            IoRequest::WriteZeroes { .. } => OpKind::WriteZeroes,
            IoRequest::Trim { .. } => OpKind::Trim,
            IoRequest::Flush => OpKind::Flush,
            IoRequest::Status { .. } => OpKind::Status,
            IoRequest::Health => OpKind::Health,
            IoRequest::Locate { .. } => OpKind::Locate,
        }
    }
}

/// What happens to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It is not carried out and fails.
    Fail(IoErrorKind),
    /// It is carried out that much later.
    Delay(Duration),
    /// It is carried out at once and answered that much later.
    Late(Duration),
    /// It is not carried out until the script [releases](FaultScript::release) it: for ever, if it never does.
    Hold,
    /// It is carried out at once and not answered until the script releases it.
    HoldAnswer,
}

/// Which requests meet which fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultRule {
    /// Only this kind; `None`: every kind.
    pub kind: Option<OpKind>,
    /// Only requests that touch this range of the drive; `None`: all. A flush touches nothing.
    pub range: Option<ByteRange>,
    /// So many fitting requests pass unharmed first.
    pub skip: u64,
    /// So many then meet the fault; `None`: all.
    pub count: Option<u64>,
    /// The fault.
    pub fault: Fault,
}

impl FaultRule {
    /// Every request meets `fault`.
    pub fn always(fault: Fault) -> FaultRule {
        FaultRule { kind: None, range: None, skip: 0, count: None, fault }
    }

    /// Only requests of this kind.
    #[must_use]
    pub fn on(mut self, kind: OpKind) -> FaultRule {
        self.kind = Some(kind);
        self
    }

    /// Only requests that touch this range.
    #[must_use]
    pub fn within(mut self, range: ByteRange) -> FaultRule {
        self.range = Some(range);
        self
    }

    /// Only the fitting request with this number, counted from zero.
    #[must_use]
    pub fn nth(mut self, number: u64) -> FaultRule {
        (self.skip, self.count) = (number, Some(1));
        self
    }

    fn fits(&self, request: &IoRequest) -> bool {
        self.kind.is_none_or(|kind| kind == OpKind::of(request))
            && self.range.is_none_or(|range| range.overlaps(request.range()))
    }

    /// Counts a fitting request; whether it meets the fault.
    fn meets(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        match &mut self.count {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }
}

#[derive(Default)]
struct Script {
    rules: Vec<FaultRule>,
    gone: bool,
    injected: u64,
    /// How often held requests were released; those held since wait for the next time.
    releases: u64,
    held: Vec<Waker>,
    health: Option<HealthScript>,
    /// Bytes that it was given to write, for its wear.
    written: ByteCount,
}

/// The faults of a drive, shared between it and whoever directs it, on any thread.
#[derive(Clone, Default)]
pub struct FaultScript {
    shared: Arc<Mutex<Script>>,
}

impl FaultScript {
    /// A script without faults.
    pub fn new() -> FaultScript {
        FaultScript::default()
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a rule behind those there are.
    pub fn add(&self, rule: FaultRule) {
        self.script().rules.push(rule);
    }

    /// Removes every rule. What is held stays held.
    pub fn clear(&self) {
        self.script().rules.clear();
    }

    /// Takes the whole drive away, or gives it back: while it is gone everything fails.
    pub fn set_gone(&self, gone: bool) {
        self.script().gone = gone;
    }

    /// From now on the drive tells this of its health; `None`: what the drive behind it tells.
    pub fn set_health(&self, health: Option<HealthScript>) {
        self.script().health = health;
    }

    /// The answer to a question for its health, if the script has one.
    fn health(&self, now: Instant) -> Option<DriveHealth> {
        let script = self.script();
        script.health.as_ref().map(|health| health.at(now, script.written))
    }

    /// Lets everything go that is held now.
    pub fn release(&self) {
        let mut script = self.script();
        script.releases += 1;
        let held = std::mem::take(&mut script.held);
        drop(script);
        held.into_iter().for_each(Waker::wake);
    }

    /// How many requests have met a fault, those that found the drive gone included.
    pub fn injected(&self) -> u64 {
        self.script().injected
    }

    fn is_gone(&self) -> bool {
        self.script().gone
    }

    fn judge(&self, request: &IoRequest) -> Option<Fault> {
        let mut script = self.script();
        if let IoRequest::Write { .. } | IoRequest::WriteZeroes { .. } = request {
            script.written += request.range().len;
        }
        let fault = match script.gone {
            true => Some(Fault::Fail(IoErrorKind::Gone)),
            false => {
                let rules = script.rules.iter_mut();
                rules.filter(|rule| rule.fits(request)).find_map(|rule| rule.meets().then_some(rule.fault))
            }
        };
        script.injected += u64::from(fault.is_some());
        fault
    }

    async fn released(&self, held_since: u64) {
        poll_fn(|context| {
            let mut script = self.script();
            if script.releases != held_since {
                return Poll::Ready(());
            }
            script.held.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// A drive behind a script of faults.
pub struct FaultyDrive {
    inner: Arc<dyn DriveSource>,
    script: FaultScript,
}

impl FaultyDrive {
    /// `inner`, as far as `script` lets it.
    pub fn new(inner: Arc<dyn DriveSource>, script: FaultScript) -> FaultyDrive {
        FaultyDrive { inner, script }
    }
}

impl DriveSource for FaultyDrive {
    fn info(&self) -> &DriveInfo {
        self.inner.info()
    }

    fn attach(&self, env: &Env) -> Result<Rc<dyn Drive>> {
        let inner = self.inner.attach(env)?;
        Ok(Rc::new(Attached { behind: Behind { inner, script: self.script.clone(), env: env.clone() } }))
    }
}

struct Attached {
    behind: Behind,
}

impl Drive for Attached {
    fn info(&self) -> &DriveInfo {
        self.behind.inner.info()
    }

    fn start(&self, request: IoRequest, completion: Completion) {
        match self.behind.script.judge(&request) {
            None => self.behind.start(request, completion),
            Some(Fault::Fail(kind)) => give_back(request, completion, Err(IoError::new(kind))),
            Some(fault @ (Fault::Delay(_) | Fault::Hold)) => {
                let (behind, pause) = (self.behind.clone(), self.pause(fault));
                self.behind.env.spawn("delayed request", async move {
                    pause.await;
                    if behind.script.is_gone() {
                        give_back(request, completion, Err(IoError::new(IoErrorKind::Gone)));
                    } else {
                        behind.start(request, completion);
                    }
                });
            }
            Some(fault @ (Fault::Late(_) | Fault::HoldAnswer)) => {
                let (io, inner_completion) = self.behind.env.start_operation(None);
                self.behind.start(request, inner_completion);
                let pause = self.pause(fault);
                let script = self.behind.script.clone();
                self.behind.env.spawn("late answer", async move {
                    let mut outcome = io.await;
                    pause.await;
                    if script.is_gone() {
                        outcome.result = Err(IoError::new(IoErrorKind::Gone));
                    }
                    completion.complete(outcome);
                });
            }
        }
    }
}

/// What a request meets when it is carried out.
#[derive(Clone)]
struct Behind {
    inner: Rc<dyn Drive>,
    script: FaultScript,
    env: Env,
}

impl Behind {
    fn start(&self, request: IoRequest, completion: Completion) {
        if matches!(request, IoRequest::Health)
            && let Some(health) = self.script.health(self.env.now())
        {
            return completion.complete(IoOutcome::with_health(health));
        }
        self.inner.start(request, completion);
    }
}

impl Attached {
    /// The time a fault takes, from now on.
    fn pause(&self, fault: Fault) -> impl Future<Output = ()> + 'static {
        let (env, script) = (self.behind.env.clone(), self.behind.script.clone());
        let held_since = script.script().releases;
        async move {
            match fault {
                Fault::Delay(time) | Fault::Late(time) => env.sleep(time).await,
                Fault::Hold | Fault::HoldAnswer => script.released(held_since).await,
                Fault::Fail(_) => {}
            }
        }
    }
}
