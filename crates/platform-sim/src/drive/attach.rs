//! Simulated drives as processes open them.

use super::{DriveCell, Lease, Presence, not_found};
use crate::core::{Core, SimId};
use platform::{
    Completion, Drive, DriveIdentity, DriveInfo, DriveSource, Env, Error, ErrorKind, IoError,
    IoErrorKind, IoRequest, LocalFuture,
};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Weak};

/// A drive opened by a process.
pub(super) struct Source {
    pub sim: SimId,
    pub drive: String,
    pub incarnation: u64,
    pub info: DriveInfo,
    pub process: u64,
    pub epoch: u64,
    pub lease: Arc<Lease>,
}

impl DriveCell {
    /// Opens it for `process` under `name`.
    pub fn open(
        self: &Rc<Self>,
        core: &Core,
        name: &str,
        process: u64,
    ) -> platform::Result<Arc<dyn DriveSource>> {
        let (held, of) = {
            let state = self.state.borrow();
            (state.lease.upgrade().is_some(), state.lease_of)
        };
        self.check_free(name, process, held.then_some(of))?;
        let lease = Arc::new(Lease);
        let mut state = self.state.borrow_mut();
        state.lease = Arc::downgrade(&lease);
        state.lease_of = process;
        drop(state);
        Ok(self.source(core, name, process, lease))
    }

    /// Whether the drive is unchanged since it was opened.
    fn look(&self) -> std::result::Result<(), IoError> {
        let state = self.state.borrow();
        match (state.presence, state.cut) {
            (Presence::Present, None) => Ok(()),
            (Presence::Away | Presence::Failed, _) => Err(IoError::new(IoErrorKind::Gone)),
            (Presence::Present | Presence::Deleted, _) => Err(IoError::new(IoErrorKind::Changed)),
        }
    }

    /// Whether it is present and not held by a process.
    fn check_free(&self, name: &str, process: u64, holder: Option<u64>) -> platform::Result<()> {
        if self.state.borrow().presence != Presence::Present {
            return Err(not_found(name));
        }
        let Some(other) = holder else { return Ok(()) };
        let holder = match other == process {
            true => "in use by this process".to_owned(),
            false => format!("held by another controller (process {other})"),
        };
        Err(Error::new(ErrorKind::InUse, format!("drive {name} is {holder}")))
    }

    fn source(
        self: &Rc<Self>,
        core: &Core,
        name: &str,
        process: u64,
        lease: Arc<Lease>,
    ) -> Arc<Source> {
        let state = self.state.borrow();
        let mut info = self.info(name);
        info.size = state.cut.unwrap_or(state.length);
        Arc::new(Source {
            sim: core.id(),
            drive: self.name.clone(),
            incarnation: self.incarnation,
            info,
            process,
            epoch: state.epoch,
            lease,
        })
    }
}

/// A second access to a drive, with a lock and an identity of its own, like two exports of one
/// storage. Only the content shows that it is the same drive.
pub(crate) struct Twin {
    drive: Rc<DriveCell>,
    lease: RefCell<(Weak<Lease>, u64)>,
}

impl Twin {
    pub fn of(drive: &Rc<DriveCell>) -> Twin {
        Twin { drive: drive.clone(), lease: RefCell::new((Weak::new(), 0)) }
    }

    pub fn drive(&self) -> &Rc<DriveCell> {
        &self.drive
    }

    /// Opens it for `process` under `name`.
    pub fn open(
        &self,
        core: &Core,
        name: &str,
        process: u64,
    ) -> platform::Result<Arc<dyn DriveSource>> {
        let mut held = self.lease.borrow_mut();
        let holder = held.0.upgrade().map(|_| held.1);
        self.drive.check_free(name, process, holder)?;
        let lease = Arc::new(Lease);
        *held = (Arc::downgrade(&lease), process);
        let mut source = self.drive.source(core, name, process, lease);
        if let Some(source) = Arc::get_mut(&mut source) {
            source.info.identity = DriveIdentity(format!("sim:{name}"));
        }
        Ok(source)
    }
}

impl DriveSource for Source {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn look<'a>(&'a self) -> LocalFuture<'a, std::result::Result<(), IoError>> {
        Box::pin(async move {
            let there = self.sim.core().and_then(|core| core.drive_at(&self.info.name));
            match there
                .filter(|cell| cell.name == self.drive && cell.incarnation == self.incarnation)
            {
                Some(cell) => cell.look(),
                None => Err(IoError::new(IoErrorKind::Changed)),
            }
        })
    }

    fn attach(&self, _: &Env) -> platform::Result<Rc<dyn Drive>> {
        let lost = || {
            Error::new(
                ErrorKind::System,
                "a simulated drive is attached on its simulation's thread",
            )
        };
        let core = self.sim.core().ok_or_else(lost)?;
        let cell = core.drives.borrow().get(&self.drive).cloned();
        let Some(cell) = cell.filter(|cell| cell.incarnation == self.incarnation) else {
            return Err(not_found(&self.info.name));
        };
        match &mut cell.state.borrow_mut().attachments {
            Some(0) => {
                return Err(Error::new(ErrorKind::System, "the drive cannot be attached again"));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        let (info, lease) = (self.info.clone(), self.lease.clone());
        Ok(Rc::new(Attached {
            core,
            cell,
            info,
            process: self.process,
            epoch: self.epoch,
            _lease: lease,
        }))
    }
}

/// A drive attached to a shard.
struct Attached {
    core: Rc<Core>,
    cell: Rc<DriveCell>,
    info: DriveInfo,
    process: u64,
    epoch: u64,
    _lease: Arc<Lease>,
}

impl Drive for Attached {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn start(&self, request: IoRequest, completion: Completion) {
        self.cell.start(&self.core, self.process, self.epoch, request, completion);
    }
}
