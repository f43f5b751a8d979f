//! The UPS: the power state that `upsd` of Network UPS Tools reports, and its effect on volumes.
//!
//! **Owns** the connection to `upsd`, and the last reported state.
//!
//! **Invariants.** A UPS that does not respond gives no protection: volumes then behave as on
//! battery. A UPS that does not respond delays no host.
//!
//! **Callers**: `commands`.

mod protocol;

use crate::arrays::Arrays;
use crate::arrays::protection::Protection;
use crate::events::{EventCode, Events};
use crate::interface::{ProtectionState, UpsAddress, UpsInfo};
use crate::signals::wait_or;
use platform::sync::Signal;
use platform::{Address, Buf, Env, Stream};
use smallvec::smallvec;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use units::ByteCount;

/// The polling interval.
const EVERY: Duration = Duration::from_secs(2);

/// The time limit of a connection attempt, and of one reply.
const LIMIT: Duration = Duration::from_secs(5);

/// How long a start waits for the first reply.
const FIRST: Duration = Duration::from_secs(1);

/// Contact is lost after this many attempts without a reply.
const ATTEMPTS: u32 = 3;

/// See the [module](self).
pub(crate) struct Ups {
    env: Env,
    events: Rc<Events>,
    arrays: Rc<Arrays>,
    address: UpsAddress,
    stream: RefCell<Option<Rc<dyn Stream>>>,
    heard: RefCell<UpsInfo>,
    /// Consecutive attempts without a reply.
    unanswered: Cell<u32>,
    /// Notified when the first reply has arrived or timed out.
    heard_first: Signal,
    /// Whether a connection attempt is running. A hanging attempt costs one task; no other attempt
    /// is started meanwhile.
    is_connecting: Cell<bool>,
    connected: Signal,
}

impl Ups {
    /// The UPS at that address, not polled yet.
    pub(crate) fn new(
        env: &Env,
        address: UpsAddress,
        events: Rc<Events>,
        arrays: Rc<Arrays>,
    ) -> Rc<Ups> {
        let heard = RefCell::new(UpsInfo {
            name: address.to_string(),
            state: ProtectionState::Missing,
            reason: NOT_ASKED.to_owned(),
            since_unix_s: env.unix_time(),
        });
        let (stream, unanswered) = (RefCell::default(), Cell::new(ATTEMPTS));
        let (heard_first, is_connecting, connected) = Default::default();
        let env = env.clone();
        Rc::new(Ups {
            env,
            events,
            arrays,
            address,
            stream,
            heard,
            unanswered,
            heard_first,
            is_connecting,
            connected,
        })
    }

    /// The last reported state.
    pub(crate) fn info(&self) -> UpsInfo {
        self.heard.borrow().clone()
    }

    /// Waits for the first reply before volumes are started, so that they start with the current
    /// state. A start is delayed by at most [`FIRST`]; until a reply arrives, volumes behave as
    /// without a UPS.
    pub(crate) async fn first_answer(&self) {
        let until = self.env.now() + FIRST;
        wait_or(&self.env, &self.heard_first, || self.heard.borrow().reason != NOT_ASKED, until)
            .await;
    }

    /// Polls the UPS for ever.
    pub(crate) async fn watch(self: Rc<Self>) {
        loop {
            let (state, reason) = self.look().await;
            let has_changed = self.hear(state, reason);
            self.heard_first.notify(&self.env);
            if has_changed || state == ProtectionState::Failed {
                // Data written while the battery runs out must reach the drives, too.
                self.arrays.follow_protection().await;
            }
            self.env.sleep(EVERY).await;
        }
    }

    /// The current state; the previous one as long as the reply may only be late.
    async fn look(self: &Rc<Self>) -> (ProtectionState, String) {
        match self.ask().await {
            Ok(status) => {
                self.unanswered.set(0);
                let (state, clause) = protocol::meaning(&status);
                (state, format!("the UPS {} {clause}", self.address))
            }
            Err(why) => {
                self.disconnect();
                self.unanswered.set(self.unanswered.get().saturating_add(1));
                if self.unanswered.get() < ATTEMPTS {
                    let heard = self.heard.borrow();
                    return (heard.state, heard.reason.clone());
                }
                (
                    ProtectionState::Missing,
                    format!("there is no contact with the UPS {}: {why}", self.address),
                )
            }
        }
    }

    /// Records the reported state. Returns whether it changed.
    fn hear(&self, state: ProtectionState, reason: String) -> bool {
        self.arrays.set_protection(match state {
            ProtectionState::Optimal | ProtectionState::Charging => Protection::Good,
            ProtectionState::Degraded | ProtectionState::Missing => {
                Protection::Doubtful(reason.clone())
            }
            ProtectionState::Failed => Protection::Ending(reason.clone()),
        });
        let heard = self.heard.borrow();
        // The reason for a lost contact may differ between attempts.
        let is_same =
            heard.state == state && (state == ProtectionState::Missing || heard.reason == reason);
        if is_same && heard.reason != NOT_ASKED {
            return false;
        }
        drop(heard);
        let (code, effect) = match state {
            ProtectionState::Optimal => {
                (EventCode::ProtectionOptimal, "volumes use their configured write modes")
            }
            ProtectionState::Charging => {
                (EventCode::ProtectionCharging, "volumes use their configured write modes")
            }
            ProtectionState::Degraded => (EventCode::ProtectionDegraded, DOUBTFUL),
            ProtectionState::Missing => (EventCode::ProtectionMissing, DOUBTFUL),
            ProtectionState::Failed => (
                EventCode::ProtectionFailed,
                "all dirty data is written to the drives, and all volumes are write-through",
            ),
        };
        self.events.report(code, &self.address.name, &reason, effect, reason.clone());
        *self.heard.borrow_mut() = UpsInfo {
            name: self.address.to_string(),
            state,
            reason,
            since_unix_s: self.env.unix_time(),
        };
        true
    }

    fn disconnect(&self) {
        if let Some(stream) = self.stream.take() {
            stream.shutdown();
        }
    }

    /// One query and its reply: the words of the state.
    ///
    /// # Errors
    /// Why there is no reply: a clause.
    async fn ask(self: &Rc<Self>) -> Result<String, String> {
        let stream = self.connected().await?;
        let over = Rc::new(Cell::new(false));
        let (sleeper, watched, is_over) = (self.env.clone(), Rc::downgrade(&stream), over.clone());
        self.env.spawn("ups limit", async move {
            sleeper.sleep(LIMIT).await;
            if let (false, Some(stream)) = (is_over.get(), watched.upgrade()) {
                stream.shutdown();
            }
        });
        let line = self.exchange(&stream).await;
        over.set(true);
        protocol::answer(&self.address, &line?)
    }

    async fn connected(self: &Rc<Self>) -> Result<Rc<dyn Stream>, String> {
        if let Some(stream) = &*self.stream.borrow() {
            return Ok(stream.clone());
        }
        let failed = Rc::new(RefCell::new(None));
        if !self.is_connecting.replace(true) {
            let (this, failed) = (self.clone(), failed.clone());
            self.env.spawn("ups connection", async move {
                match this.connect().await {
                    Ok(stream) => drop(this.stream.replace(Some(stream))),
                    Err(why) => drop(failed.replace(Some(why))),
                }
                this.is_connecting.set(false);
                this.connected.notify(&this.env);
            });
        }
        let until = self.env.now() + LIMIT;
        wait_or(&self.env, &self.connected, || !self.is_connecting.get(), until).await;
        let stream = self.stream.borrow().clone();
        stream.ok_or_else(|| failed.take().unwrap_or_else(|| "it does not respond".to_owned()))
    }

    async fn connect(&self) -> Result<Rc<dyn Stream>, String> {
        let address = Address::Tcp { host: self.address.host.clone(), port: self.address.port };
        let source = self.env.world().connect(&address).await.map_err(|error| error.to_string())?;
        source.attach(&self.env).map_err(|error| error.to_string())
    }

    /// Sends the query, and receives a line.
    async fn exchange(&self, stream: &Rc<dyn Stream>) -> Result<String, String> {
        let question = protocol::question(&self.address);
        let sent = stream.send(smallvec![Buf::copy_of(question.as_bytes()).freeze()]).await;
        sent.result.map_err(|error| error.to_string())?;
        let (mut line, mut buf) = (Vec::new(), Buf::unpooled(ByteCount(256)));
        while !line.contains(&b'\n') && line.len() < protocol::LONGEST_LINE {
            let mut outcome = stream.receive(buf).await;
            match (outcome.result, outcome.buffers.pop()) {
                (Ok(count @ 1..), Some(back)) => {
                    line.extend_from_slice(&back.bytes()[..count as usize]);
                    buf = back;
                }
                (Err(error), _) => return Err(error.to_string()),
                _ => return Err("it does not respond".to_owned()),
            }
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }
}

/// The state of a UPS before its first poll.
const NOT_ASKED: &str = "it has not been queried yet";

const DOUBTFUL: &str =
    "dirty data is written to the drives; volumes are write-through, except always-write-back ones";
