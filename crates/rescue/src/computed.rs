//! Presents a parity array as one drive, for a volume in several sections. Its own engine
//! reconstructs missing data.

use crate::sections::{Members, read_only_drive};
use engine::{Attachment, VolumeDrive, VolumeService, VolumeSpec, VolumeState, alone};
use platform::sync::Signal;
use platform::{
    Completion, Drive, DriveInfo, DriveSource, Env, IoError, IoErrorKind, IoOutcome, IoRequest,
    Result,
};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The array. Each thread that attaches it runs its own engine.
pub(crate) struct Computed {
    spec: Arc<VolumeSpec>,
    members: Members,
    state: VolumeState,
    info: DriveInfo,
}

impl Computed {
    pub(crate) fn new(attachment: Attachment) -> Computed {
        let Attachment { spec, sources, state, .. } = attachment;
        let info = read_only_drive(&spec.name, spec.capacity, spec.sector);
        Computed { spec, members: sources, state, info }
    }
}

impl DriveSource for Computed {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn attach(&self, env: &Env) -> Result<Rc<dyn Drive>> {
        let attachment =
            Attachment::new(self.spec.clone(), self.members.clone(), self.state.clone());
        let array = Rc::new(Array { drive: RefCell::default(), started: Signal::default() });
        let (starting, of) = (array.clone(), env.clone());
        env.spawn("start an array", async move {
            let name = attachment.spec.name.clone();
            let started = alone::attach(&of, attachment, None).await;
            let drive = started.map(|alone| VolumeService::new(alone.volume).as_drive());
            let drive = drive.inspect_err(|why| tracing::warn!("{name} cannot be read: {why}"));
            *starting.drive.borrow_mut() = Some(drive.map(Rc::new));
            starting.started.notify(&of);
        });
        Ok(Rc::new(Attached { env: env.clone(), array, info: self.info.clone() }))
    }
}

/// An array that is starting or has started.
struct Array {
    drive: RefCell<Option<std::result::Result<Rc<VolumeDrive>, String>>>,
    started: Signal,
}

struct Attached {
    env: Env,
    array: Rc<Array>,
    info: DriveInfo,
}

impl Drive for Attached {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn start(&self, request: IoRequest, completion: Completion) {
        let (env, array) = (self.env.clone(), self.array.clone());
        self.env.spawn("read an array", async move {
            array.started.wait_until(&env, || array.drive.borrow().is_some()).await;
            let drive =
                array.drive.borrow().as_ref().and_then(|drive| drive.as_ref().ok().cloned());
            match drive {
                Some(drive) => drive.start(request, completion),
                None => completion.complete(IoOutcome::failed(IoError::new(IoErrorKind::Gone))),
            }
        });
    }
}
