//! A volume as a drive, for users of the drive interface: StorageBench, other arrays. A request
//! takes a task, unless it [needs none](Volume::begin).

use crate::host::Volume;
use crate::volume::VolumeSpec;
use platform::{
    Buf, Bufs, Completion, Drive, DriveIdentity, DriveInfo, DriveKind, IoError, IoErrorKind,
    IoOutcome, IoRequest, Receiver, Served, Service, Slice,
};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};

/// The most requests in progress with a task each; others wait.
const MOST_REQUESTS: usize = 512;

/// A volume as this shard serves it: drive requests, served by async functions.
pub struct VolumeService {
    volume: Rc<Volume>,
    info: DriveInfo,
}

impl VolumeService {
    /// The requests to a volume, on its shard.
    pub fn new(volume: Rc<Volume>) -> VolumeService {
        let (&VolumeSpec { sector, capacity, .. }, name) =
            (volume.spec(), volume.name().to_string());
        let info = DriveInfo {
            identity: DriveIdentity(format!("volume:{name}")),
            name,
            kind: DriveKind::Volume,
            size: capacity,
            logical_sector: sector,
            physical_sector: sector,
            rotational: false,
            read_only: false,
            exclusive: false,
            hardware: platform::Hardware::default(),
        };
        VolumeService { volume, info }
    }

    /// The volume.
    pub fn volume(&self) -> &Rc<Volume> {
        &self.volume
    }

    /// The volume as a drive.
    pub fn as_drive(self) -> VolumeDrive {
        let volume = self.volume.clone();
        let served = Served::new(volume.shard().env(), self, MOST_REQUESTS);
        VolumeDrive { volume, served }
    }
}

impl Service for VolumeService {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    async fn serve(&self, request: IoRequest) -> IoOutcome {
        serve(&self.volume, request).await
    }
}

/// A volume, as this shard serves it, behind the interface of a drive.
pub struct VolumeDrive {
    volume: Rc<Volume>,
    served: Served<VolumeService>,
}

impl Drive for VolumeDrive {
    fn info(&self) -> &DriveInfo {
        self.served.info()
    }

    fn start(&self, request: IoRequest, completion: Completion) {
        match self.volume.begin(request, Receiver::Completion(completion)) {
            Some((request, Receiver::Completion(completion))) => {
                self.served.start(request, completion);
            }
            Some((_, Receiver::OnReturn(..))) => {
                unreachable!("a request comes back with its own receiver")
            }
            None => {}
        }
    }
}

async fn serve(volume: &Rc<Volume>, request: IoRequest) -> IoOutcome {
    let result = match request {
        IoRequest::Read { offset, buffers } => return read(volume, offset, buffers).await,
        IoRequest::Write { offset, mut slices, durability } => {
            let mut at = offset;
            let mut result = Ok(());
            for place in 0..slices.len() {
                let slice = std::mem::replace(&mut slices[place], Slice::hollow(ByteCount::ZERO));
                let range = ByteRange::new(at, slice.len());
                at = range.end();
                result = volume.write(range, slice, durability).await;
                if result.is_err() {
                    break;
                }
            }
            result.map(|()| (at - offset).0)
        }
        IoRequest::WriteZeroes { range, may_unmap: _, durability } => {
            volume.write(range, Slice::zero(range.len), durability).await.map(|()| range.len.0)
        }
        IoRequest::Trim { range } => volume.trim(range).await.map(|()| range.len.0),
        IoRequest::Flush => volume.flush().await.map(|()| 0),
        IoRequest::Health => return IoOutcome::with_health(platform::DriveHealth::default()),
        IoRequest::Locate { .. } | IoRequest::WriteCache { .. } => {
            Err(IoError::new(IoErrorKind::NotSupported))
        }
        IoRequest::Status { range } => match Box::pin(volume.status(range)).await {
            Ok(extents) => return IoOutcome { extents, ..IoOutcome::done(range.len.0) },
            Err(error) => Err(error),
        },
    };
    match result {
        Ok(bytes) => IoOutcome::done(bytes),
        Err(error) => IoOutcome::failed(error),
    }
}

async fn read(volume: &Rc<Volume>, offset: ByteOffset, mut buffers: Bufs) -> IoOutcome {
    let (mut at, mut back) = (offset, 0);
    let mut result = Ok(());
    for place in 0..buffers.len() {
        let buf = std::mem::replace(&mut buffers[place], Buf::hollow(ByteCount::ZERO));
        let range = ByteRange::new(at, buf.len());
        at = range.end();
        let (this, buf) = volume.read(range, buf).await;
        result = result.and(this);
        match buf {
            Some(buf) => {
                buffers[back] = buf;
                back += 1;
            }
            None => result = result.and(Err(IoError::new(IoErrorKind::TimedOut))),
        }
    }
    buffers.truncate(back);
    let bytes: ByteCount = at - offset;
    IoOutcome { result: result.map(|()| bytes.0), buffers, extents: Vec::new(), health: None }
}
