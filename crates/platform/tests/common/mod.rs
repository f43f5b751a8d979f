//! A drive under the control of a test.

use platform::{Completion, Drive, DriveIdentity, DriveInfo, DriveKind, Env, IoRequest, Member};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, SectorSize};

/// A drive that holds each operation until the test completes it.
struct HoldingDrive {
    info: DriveInfo,
    kept: Rc<RefCell<Vec<(IoRequest, Completion)>>>,
}

impl Drive for HoldingDrive {
    fn info(&self) -> &DriveInfo {
        &self.info
    }
    fn start(&self, request: IoRequest, completion: Completion) {
        self.kept.borrow_mut().push((request, completion));
    }
}

pub type HeldOperations = Rc<RefCell<Vec<(IoRequest, Completion)>>>;

pub fn keeper(env: &Env, limit: Duration) -> (Member, HeldOperations) {
    let kept = HeldOperations::default();
    let info = DriveInfo {
        name: "keeper".into(),
        identity: DriveIdentity("keeper".into()),
        kind: DriveKind::Memory,
        size: ByteCount::MIB,
        logical_sector: SectorSize::B512,
        physical_sector: SectorSize::B512,
        rotational: false,
        read_only: false,
        exclusive: true,
        hardware: platform::Hardware::default(),
    };
    (Member::with_time_limit(env, Rc::new(HoldingDrive { info, kept: kept.clone() }), limit), kept)
}
