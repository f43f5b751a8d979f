//! A volume as a drive, for whoever sees only drives: StorageBench, other arrays.

use crate::shard::Shard;
use crate::volume::{Volume, VolumeSpec};
use env::{
    Bufs, Completion, Drive, DriveIdentity, DriveInfo, DriveKind, Env, IoError, IoErrorKind, IoOutcome,
    IoRequest, Slice,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};

/// Requests that are under way at a time.
const RUNNERS: usize = 512;

/// A volume, as this shard serves it, behind the interface of a drive.
pub struct VolumeDrive {
    inner: Rc<Inner>,
    info: DriveInfo,
}

struct Inner {
    env: Env,
    volume: Rc<Volume>,
    requests: RefCell<VecDeque<(IoRequest, Completion)>>,
    waiting: env::sync::Signal,
}

impl VolumeDrive {
    /// The drive of a volume, on its shard.
    pub fn new(shard: &Shard, volume: Rc<Volume>) -> VolumeDrive {
        let VolumeSpec { name, sector, capacity, .. } = volume.spec().clone();
        let env = shard.env().clone();
        let inner = Rc::new(Inner {
            env: env.clone(),
            volume,
            requests: RefCell::default(),
            waiting: env::sync::Signal::default(),
        });
        for _ in 0..RUNNERS {
            env.spawn("volume drive", run(inner.clone()));
        }
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
            hardware: env::Hardware::default(),
        };
        VolumeDrive { inner, info }
    }
}

impl Drive for VolumeDrive {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn start(&self, request: IoRequest, completion: Completion) {
        self.inner.requests.borrow_mut().push_back((request, completion));
        self.inner.waiting.notify_one(&self.inner.env);
    }
}

async fn run(inner: Rc<Inner>) {
    loop {
        inner.waiting.wait_until(&inner.env, || !inner.requests.borrow().is_empty()).await;
        let next = inner.requests.borrow_mut().pop_front();
        if let Some((request, completion)) = next {
            completion.complete(serve(&inner.volume, request).await);
        }
    }
}

async fn serve(volume: &Rc<Volume>, request: IoRequest) -> IoOutcome {
    let result = match request {
        IoRequest::Read { offset, buffers } => return read(volume, offset, buffers).await,
        IoRequest::Write { offset, slices, durability } => {
            let mut at = offset;
            let mut result = Ok(());
            for slice in slices {
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
        IoRequest::Health => return IoOutcome::with_health(env::DriveHealth::default()),
        IoRequest::Locate { .. } => Err(IoError::new(IoErrorKind::NotSupported)),
        IoRequest::Status { range } => match volume.status(range).await {
            Ok(extents) => return IoOutcome { extents, ..IoOutcome::done(range.len.0) },
            Err(error) => Err(error),
        },
    };
    match result {
        Ok(bytes) => IoOutcome::done(bytes),
        Err(error) => IoOutcome::failed(error),
    }
}

async fn read(volume: &Rc<Volume>, offset: ByteOffset, buffers: Bufs) -> IoOutcome {
    let mut at = offset;
    let mut back = Bufs::new();
    let mut result = Ok(());
    for buf in buffers {
        let range = ByteRange::new(at, buf.len());
        at = range.end();
        let (this, buf) = volume.read(range, buf).await;
        result = result.and(this);
        match buf {
            Some(buf) => back.push(buf),
            None => result = result.and(Err(IoError::new(IoErrorKind::TimedOut))),
        }
    }
    let bytes: ByteCount = at - offset;
    IoOutcome { result: result.map(|()| bytes.0), buffers: back, ..IoOutcome::done(0) }
}
