//! A simulated drive as a process has it open.

use super::{DriveCell, Lease, not_found};
use crate::core::{Core, SimId};
use env::{
    Completion, Drive, DriveInfo, DriveSource, Env, Error, ErrorKind, IoError, IoErrorKind, IoRequest,
    LocalFuture,
};
use std::rc::Rc;
use std::sync::Arc;

/// A drive that a process opened.
pub(super) struct Source {
    pub sim: SimId,
    pub drive: String,
    pub incarnation: u64,
    pub info: DriveInfo,
    pub process: u64,
    pub epoch: u64,
    pub lease: Arc<Lease>,
}

impl DriveSource for Source {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn look<'a>(&'a self) -> LocalFuture<'a, std::result::Result<(), IoError>> {
        Box::pin(async move {
            let there = self.sim.core().and_then(|core| core.drive_at(&self.info.name));
            match there.filter(|cell| cell.name == self.drive && cell.incarnation == self.incarnation) {
                Some(cell) => cell.look(),
                None => Err(IoError::new(IoErrorKind::Changed)),
            }
        })
    }

    fn attach(&self, _: &Env) -> env::Result<Rc<dyn Drive>> {
        let lost =
            || Error::new(ErrorKind::System, "a simulated drive is attached on its simulation's thread");
        let core = self.sim.core().ok_or_else(lost)?;
        let cell = core.drives.borrow().get(&self.drive).cloned();
        let Some(cell) = cell.filter(|cell| cell.incarnation == self.incarnation) else {
            return Err(not_found(&self.info.name));
        };
        match &mut cell.state.borrow_mut().attachments {
            Some(0) => return Err(Error::new(ErrorKind::System, "the drive can be attached no more")),
            Some(left) => *left -= 1,
            None => {}
        }
        let (info, lease) = (self.info.clone(), self.lease.clone());
        Ok(Rc::new(Attached { core, cell, info, process: self.process, epoch: self.epoch, _lease: lease }))
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
