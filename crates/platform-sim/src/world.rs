//! The simulated platform for one shard of one process.

use crate::core::Core;
use crate::drive::{DriveCell, not_found};
use crate::kept;
use crate::network;
use crate::rng::Rng;
use crate::state::SimState;
use crate::trace::TraceEvent;
use platform::{
    Address, DriveSource, Error, ErrorKind, Instant, KeptMemory, KeptSize, Listener, LocalFuture,
    OtherMemory, StateStore, StreamSource, Work, World,
};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use units::{ByteCount, SectorSize};

pub(crate) struct SimWorld {
    core: Rc<Core>,
    process: u64,
    random: RefCell<Rng>,
    state: SimState,
}

impl SimWorld {
    pub fn new(core: &Rc<Core>, process: u64, shard: usize) -> SimWorld {
        SimWorld {
            core: core.clone(),
            process,
            random: RefCell::new(core.rng("random", &format!("{process}.{shard}"))),
            state: SimState { core: core.clone(), process },
        }
    }

    fn open(&self, name: &str) -> platform::Result<Arc<dyn DriveSource>> {
        if let Some(twin) = self.core.twins.borrow().get(name) {
            return twin.open(&self.core, name, self.process);
        }
        let drive = self.core.drives.borrow().get(name).cloned();
        drive.ok_or_else(|| not_found(name))?.open(&self.core, name, self.process)
    }

    fn create(&self, name: &str, size: ByteCount) -> platform::Result<()> {
        let core = &self.core;
        if size.is_zero() || !size.is_aligned(SectorSize::B512.bytes()) {
            return Err(Error::new(
                ErrorKind::BadName,
                format!(
                    "a drive file of {} bytes cannot be made; give a whole number of 512-byte \
                        sectors, such as 1G",
                    size.0
                ),
            ));
        }
        if core.drives.borrow().contains_key(name) {
            return Err(Error::new(
                ErrorKind::InUse,
                format!("drive file {name} exists already; choose another name"),
            ));
        }
        let used = core.file_space_used.get();
        if core.options.file_space.is_some_and(|space| used.saturating_add(size.0) > space.0) {
            return Err(Error::new(
                ErrorKind::OutOfSpace,
                format!("no room for drive file {name}: {} wanted", units::decimal_capacity(size)),
            ));
        }
        core.file_space_used.set(used + size.0);
        let options = crate::DriveOptions { size, ..core.options.file_drives.clone() };
        let drive = DriveCell::new(core, name, options);
        core.drives.borrow_mut().insert(name.to_owned(), drive);
        Ok(())
    }
}

impl World for SimWorld {
    fn now(&self) -> Instant {
        self.core.now()
    }

    fn unix_time(&self) -> u64 {
        let right = self.core.options.unix_epoch + self.core.now().ns / 1_000_000_000;
        right.saturating_add_signed(self.core.clock_ahead_s.get())
    }

    fn random(&self) -> u64 {
        self.random.borrow_mut().next_u64()
    }

    fn charge(&self, work: Work) -> Duration {
        let model = self.core.charges.borrow().of(self.process);
        model.map_or_else(|| self.core.options.costs.of(work), |charge| charge(work))
    }

    fn open_drive<'a>(
        &'a self,
        name: &'a str,
    ) -> LocalFuture<'a, platform::Result<Arc<dyn DriveSource>>> {
        Box::pin(async move { self.open(name) })
    }

    fn open_drive_for_reading<'a>(
        &'a self,
        name: &'a str,
    ) -> LocalFuture<'a, platform::Result<Arc<dyn DriveSource>>> {
        Box::pin(async move { self.open(name) })
    }

    fn create_drive<'a>(
        &'a self,
        name: &'a str,
        size: ByteCount,
    ) -> LocalFuture<'a, platform::Result<()>> {
        Box::pin(async move { self.create(name, size) })
    }

    fn listen<'a>(
        &'a self,
        address: &'a Address,
    ) -> LocalFuture<'a, platform::Result<Rc<dyn Listener>>> {
        Box::pin(async move { network::listen(&self.core, address, self.process) })
    }

    fn connect<'a>(
        &'a self,
        address: &'a Address,
    ) -> LocalFuture<'a, platform::Result<Box<dyn StreamSource>>> {
        Box::pin(network::connect(&self.core, address, self.process))
    }

    fn kept_memory<'a>(
        &'a self,
        name: &'a str,
        size: Option<KeptSize>,
    ) -> LocalFuture<'a, platform::Result<Option<KeptMemory>>> {
        Box::pin(kept::take(&self.core, self.process, name, size))
    }

    fn forget_kept_memory<'a>(&'a self, name: &'a str) -> LocalFuture<'a, platform::Result<()>> {
        Box::pin(kept::forget(&self.core, self.process, name))
    }

    fn other_memories<'a>(
        &'a self,
        name: &'a str,
    ) -> LocalFuture<'a, platform::Result<Vec<OtherMemory>>> {
        Box::pin(async move { Ok(self.core.kept.borrow().others(name)) })
    }

    fn forget_other_memory<'a>(
        &'a self,
        _name: &'a str,
        other: &'a str,
    ) -> LocalFuture<'a, platform::Result<()>> {
        Box::pin(kept::forget_other(&self.core, other))
    }

    fn boot_id(&self) -> u128 {
        self.core.kept.borrow().boot_of(self.process)
    }

    fn state(&self) -> &dyn StateStore {
        &self.state
    }

    fn trace(&self, event: &'static str, a: u64, b: u64) {
        self.core.trace(TraceEvent::Note { name: event, a, b });
    }
}
