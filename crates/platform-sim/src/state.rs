//! Small durable state, in memory.
//!
//! A store takes time. If the process ends or the power fails before it completes, the old or the
//! new content is left; of an append, any beginning of the piece. Completed stores are durable.

use crate::core::{Action, Core};
use crate::rng::Rng;
use platform::{Error, ErrorKind, LocalFuture, StateStore};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

enum StateChange {
    Store(Vec<u8>),
    Replace { content: Vec<u8>, previous: String },
    SetAside(String),
    Append(Vec<u8>),
}

struct Pending {
    process: u64,
    name: String,
    change: StateChange,
}

/// The files and the pending stores.
pub(crate) struct StateFiles {
    files: BTreeMap<String, Vec<u8>>,
    /// Unreadable names and the reason: a folder, or missing permissions. They cannot be replaced.
    unreadable: BTreeMap<String, &'static str>,
    pending: BTreeMap<u64, Pending>,
    next: u64,
    rng: Rng,
    /// The number of next stores that fail.
    pub failures: u64,
    /// While set, stores neither complete nor fail.
    pub is_silent: bool,
}

/// How often a blocked store checks whether it may continue.
const SILENT: Duration = Duration::from_millis(10);

impl StateFiles {
    pub fn new(seed: u64) -> StateFiles {
        StateFiles {
            files: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            pending: BTreeMap::new(),
            next: 0,
            rng: Rng::new(seed, "state", ""),
            failures: 0,
            is_silent: false,
        }
    }

    pub fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.files
    }

    pub fn make_unreadable(&mut self, name: &str, why: &'static str) {
        self.files.remove(name);
        self.unreadable.insert(name.to_owned(), why);
    }

    pub fn is_unreadable(&self, name: &str) -> bool {
        self.unreadable.contains_key(name)
    }

    fn has(&self, name: &str) -> bool {
        self.files.contains_key(name) || self.unreadable.contains_key(name)
    }

    /// Why a change of that name fails.
    fn refusal(&self, name: &str, change: &StateChange) -> Option<Error> {
        let why =
            self.unreadable.get(name).filter(|_| !matches!(change, StateChange::SetAside(_)))?;
        Some(Error::new(ErrorKind::Denied, format!("cannot store '{name}': {why}")))
    }

    pub fn put(&mut self, name: &str, content: Option<Vec<u8>>) {
        self.unreadable.remove(name);
        match content {
            Some(content) => self.files.insert(name.to_owned(), content),
            None => self.files.remove(name),
        };
    }

    fn apply(&mut self, pending: Pending) {
        match pending.change {
            StateChange::Store(content) => {
                self.files.insert(pending.name, content);
            }
            StateChange::Replace { content, previous } => {
                if let Some(before) = self.files.insert(pending.name, content) {
                    self.files.insert(previous, before);
                }
            }
            StateChange::SetAside(aside) => {
                if let Some(content) = self.files.remove(&pending.name) {
                    self.files.insert(aside.clone(), content);
                }
                if let Some(why) = self.unreadable.remove(&pending.name) {
                    self.unreadable.insert(aside, why);
                }
            }
            StateChange::Append(piece) => self.files.entry(pending.name).or_default().extend(piece),
        }
    }

    /// Handles the end of a process during a store.
    pub fn process_died(&mut self, process: u64) {
        for (key, mut pending) in std::mem::take(&mut self.pending) {
            if pending.process != process {
                self.pending.insert(key, pending);
                continue;
            }
            let lands = match &mut pending.change {
                StateChange::Store(_) | StateChange::SetAside(_) => self.rng.chance(1, 2),
                StateChange::Replace { previous, .. } => match self.rng.between(0, 2) {
                    0 => false,
                    1 => true,
                    // The old content has its second name, and the new one has not replaced it yet.
                    _ => {
                        if let Some(before) = self.files.get(&pending.name).cloned() {
                            self.files.insert(previous.clone(), before);
                        }
                        false
                    }
                },
                StateChange::Append(piece) => {
                    piece.truncate(self.rng.between(0, piece.len() as u64) as usize);
                    !piece.is_empty()
                }
            };
            if lands {
                self.apply(pending);
            }
        }
    }
}

/// The state store of a process.
pub(crate) struct SimState {
    pub core: Rc<Core>,
    pub process: u64,
}

pub(crate) fn check(name: &str) -> platform::Result<()> {
    let plain = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']);
    if plain {
        return Ok(());
    }
    Err(Error::new(ErrorKind::BadName, format!("'{name}' is not a plain file name")))
}

impl SimState {
    async fn change(&self, name: &str, change: StateChange) -> platform::Result<()> {
        check(name)?;
        while self.core.state.borrow().is_silent {
            self.core.wait(SILENT).await;
        }
        let (key, delay, fails) = {
            let mut state = self.core.state.borrow_mut();
            let state = &mut *state;
            if let Some(error) = state.refusal(name, &change) {
                return Err(error);
            }
            let key = state.next;
            state.next += 1;
            // A rename takes no space.
            let takes_room = !matches!(change, StateChange::SetAside(_));
            let fails = takes_room && state.failures > 0;
            state.failures = state.failures.saturating_sub(u64::from(takes_room));
            if !fails {
                state
                    .pending
                    .insert(key, Pending { process: self.process, name: name.to_owned(), change });
            }
            (key, self.core.options.state_latency.draw(&mut state.rng), fails)
        };
        // It completes even without a waiter, unless the process ends first.
        let sim = self.core.id();
        let land = move || {
            if let Some(core) = sim.core() {
                let mut state = core.state.borrow_mut();
                if let Some(pending) = state.pending.remove(&key) {
                    state.apply(pending);
                }
            }
        };
        self.core.schedule(delay, Action::Call(Box::new(land)));
        self.core.wait(delay).await;
        if fails {
            return Err(Error::new(
                ErrorKind::OutOfSpace,
                format!("no space left to store '{name}'; free some and try again"),
            ));
        }
        Ok(())
    }
}

impl StateStore for SimState {
    fn load<'a>(&'a self, name: &'a str) -> LocalFuture<'a, platform::Result<Option<Vec<u8>>>> {
        Box::pin(async move {
            check(name)?;
            let state = self.core.state.borrow();
            match state.unreadable.get(name) {
                Some(why) => {
                    Err(Error::new(ErrorKind::Denied, format!("cannot read '{name}': {why}")))
                }
                None => Ok(state.files.get(name).cloned()),
            }
        })
    }

    fn store<'a>(
        &'a self,
        name: &'a str,
        content: Vec<u8>,
    ) -> LocalFuture<'a, platform::Result<()>> {
        Box::pin(self.change(name, StateChange::Store(content)))
    }

    fn replace<'a>(
        &'a self,
        name: &'a str,
        previous: &'a str,
        content: Vec<u8>,
    ) -> LocalFuture<'a, platform::Result<()>> {
        Box::pin(self.change(name, StateChange::Replace { content, previous: previous.to_owned() }))
    }

    fn set_aside<'a>(
        &'a self,
        name: &'a str,
        aside: &'a str,
    ) -> LocalFuture<'a, platform::Result<bool>> {
        Box::pin(async move {
            check(aside)?;
            if self.core.state.borrow().has(aside) {
                return Ok(false);
            }
            self.change(name, StateChange::SetAside(aside.to_owned())).await.map(|()| true)
        })
    }

    fn append<'a>(
        &'a self,
        name: &'a str,
        content: Vec<u8>,
    ) -> LocalFuture<'a, platform::Result<()>> {
        Box::pin(self.change(name, StateChange::Append(content)))
    }
}
