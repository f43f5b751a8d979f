//! The device behind a drive: health, locate light, write cache, and whether it is still present.
//! Such commands block, so they run in sequence on a thread of the drive, which starts with the
//! first command.

use crate::errno::drive_error;
use crate::file_drive::OpenDrive;
use crate::health;
use crate::sysfs::{self, Interface};
use crate::worker::Worker;
use platform::{DriveHealth, DriveKind, IoError, IoErrorKind, IoOutcome};
use rustix::fs::SeekFrom;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use units::ByteOffset;

/// A drive's device. See the [module](self).
pub(crate) struct BackingDevice {
    interface: Interface,
    locate: Option<PathBuf>,
    cache_type: Option<PathBuf>,
    worker: Mutex<Option<Arc<Worker>>>,
}

/// A query or command to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DeviceCommand {
    Health,
    /// Switches the locate light on or off.
    Locate(bool),
    /// Switches the device's write cache on or off.
    WriteCache(bool),
    /// Checks that the drive's path still leads to the open device or file.
    CheckPath,
}

impl BackingDevice {
    /// `device`: the command interface, and the sysfs file of the locate light. `None`: there is no
    /// device.
    pub(crate) fn new(device: Option<(Interface, Option<PathBuf>)>) -> BackingDevice {
        let (interface, locate) = device.unwrap_or_default();
        BackingDevice { interface, locate, cache_type: None, worker: Mutex::new(None) }
    }

    /// Adds the sysfs file that switches the write cache.
    pub(crate) fn with_cache_type(self, cache_type: Option<PathBuf>) -> BackingDevice {
        BackingDevice { cache_type, ..self }
    }

    /// The answer, if it needs no command.
    pub(crate) fn known(&self, command: DeviceCommand) -> Option<IoOutcome> {
        match command {
            DeviceCommand::Locate(_) if self.locate.is_none() => {
                Some(IoOutcome::failed(IoError::new(IoErrorKind::NotSupported)))
            }
            DeviceCommand::WriteCache(_)
                if self.cache_type.is_none() && self.interface != Interface::Nvme =>
            {
                Some(IoOutcome::failed(IoError::new(IoErrorKind::NotSupported)))
            }
            _ => None,
        }
    }

    fn worker(&self) -> platform::Result<Arc<Worker>> {
        let mut place = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(worker) = &*place {
            return Ok(worker.clone());
        }
        let worker = Arc::new(Worker::start()?);
        *place = Some(worker.clone());
        Ok(worker)
    }
}

impl OpenDrive {
    /// Sends the command to the device. The drive stays open until the device has responded.
    pub(crate) async fn ask(self: Arc<Self>, command: DeviceCommand) -> IoOutcome {
        // This process cannot start a thread for the command, which says nothing about the device.
        let unasked = || IoError { kind: IoErrorKind::NotSupported, errno: libc::EAGAIN };
        let Ok(worker) = self.behind.worker() else { return IoOutcome::failed(unasked()) };
        let answer = worker.run(move || self.answer(command)).await;
        match answer.unwrap_or_else(|_| Err(unasked())) {
            Ok(Some(health)) => IoOutcome::with_health(health),
            Ok(None) => IoOutcome::done(0),
            Err(error) => IoOutcome::failed(error),
        }
    }

    /// Blocks until the device has responded.
    fn answer(&self, command: DeviceCommand) -> Result<Option<DriveHealth>, IoError> {
        let BackingDevice { interface, locate, .. } = &self.behind;
        match (command, locate) {
            (DeviceCommand::Health, _) => {
                self.look()?;
                if *interface == Interface::Unknown {
                    return Ok(Some(DriveHealth::default()));
                }
                let model = self.info.hardware.model.as_deref().unwrap_or_default();
                let sector_bytes = self.info.logical_sector.bytes().0;
                health::ask(&self.fd, *interface, model, sector_bytes).map(Some)
            }
            (DeviceCommand::CheckPath, _) => self.look().map(|()| None),
            (DeviceCommand::WriteCache(on), _) => self.switch_cache(on).map(|()| None),
            (DeviceCommand::Locate(_), None) => Err(IoError::new(IoErrorKind::NotSupported)),
            (DeviceCommand::Locate(on), Some(light)) => {
                match std::fs::write(light, if on { "1" } else { "0" }) {
                    Ok(()) => Ok(None),
                    Err(error) => Err(light_error(&error)),
                }
            }
        }
    }
}

impl OpenDrive {
    /// Switches the device's write cache, and verifies the new state.
    fn switch_cache(&self, on: bool) -> Result<(), IoError> {
        let Some(file) = &self.behind.cache_type else {
            return health::switch_nvme_cache(&self.fd, on);
        };
        let wished = if on { "write back" } else { "write through" };
        let is_so = || std::fs::read_to_string(file).map(|text| text.trim() == wished);
        let failed = |error: std::io::Error| drive_error(error.raw_os_error().unwrap_or(libc::EIO));
        if is_so().map_err(failed)? {
            return Ok(());
        }
        std::fs::write(file, wished).map_err(|error| match error.raw_os_error() {
            // The device does not permit the change.
            Some(libc::EINVAL) => IoError { kind: IoErrorKind::NotSupported, errno: libc::EINVAL },
            _ => failed(error),
        })?;
        match is_so().map_err(failed)? {
            true => Ok(()),
            false => Err(IoError::new(IoErrorKind::NotSupported)),
        }
    }

    /// Whether a file ends before that byte. It was truncated then, and a write would restore its
    /// length with zeros in place of the lost data, so that the truncation would go undetected.
    pub(crate) fn ends_before(&self, end: ByteOffset) -> bool {
        rustix::fs::fstat(&self.fd)
            .is_ok_and(|file| u64::try_from(file.st_size).is_ok_and(|size| size < end.0))
    }

    /// Whether a block device that reports "no space" was removed or has shrunk. The kernel sets
    /// the size of a removed device to zero and reports its writes so. With an unchanged size the
    /// device is really full, like a volume of a thin pool.
    pub(crate) fn is_cut(&self) -> Option<IoErrorKind> {
        if self.info.kind != DriveKind::BlockDevice {
            return None;
        }
        // No code uses the file position that this moves.
        match rustix::fs::seek(&self.fd, SeekFrom::End(0)) {
            Ok(0) => Some(IoErrorKind::Gone),
            Ok(size) if size < self.info.size.0 => Some(IoErrorKind::Changed),
            Ok(_) => None,
            Err(error) => Some(drive_error(error.raw_os_error()).kind),
        }
    }

    /// Checks that the path still leads to the opened file or device, with its size.
    ///
    /// # Errors
    /// `Changed` if not.
    fn look(&self) -> Result<(), IoError> {
        let changed = IoError::new(IoErrorKind::Changed);
        let system = |error: rustix::io::Errno| drive_error(error.raw_os_error());
        let open = rustix::fs::fstat(&self.fd).map_err(system)?;
        let path = &self.info.name;
        let is_there = match rustix::fs::stat(path) {
            Ok(there) if self.info.kind == DriveKind::BlockDevice => there.st_rdev == open.st_rdev,
            Ok(there) => (there.st_dev, there.st_ino) == (open.st_dev, open.st_ino),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => false,
            // Unknown, such as for an unreadable directory.
            Err(_) => true,
        };
        let size = match self.info.kind {
            DriveKind::BlockDevice => sysfs::size_of(open.st_rdev),
            _ => u64::try_from(open.st_size).ok(),
        };
        match is_there && size.is_none_or(|size| size >= self.info.size.0) {
            true => Ok(()),
            false => Err(changed),
        }
    }
}

/// The enclosure reports this error, not the drive: it does not concern the drive's blocks.
fn light_error(error: &std::io::Error) -> IoError {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    match drive_error(errno) {
        IoError {
            kind: IoErrorKind::Medium | IoErrorKind::Invalid | IoErrorKind::Unknown, ..
        } => IoError { kind: IoErrorKind::NotSupported, errno },
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_device_there_is_nothing_to_ask() {
        for behind in
            [BackingDevice::new(None), BackingDevice::new(Some((Interface::Unknown, None)))]
        {
            let light = behind.known(DeviceCommand::Locate(true)).map(|outcome| outcome.result);
            assert_eq!(light, Some(Err(IoError::new(IoErrorKind::NotSupported))));
        }
        let device = BackingDevice::new(Some((Interface::Scsi, Some("/dev/null".into()))));
        assert!(
            device.known(DeviceCommand::Health).is_none()
                && device.known(DeviceCommand::Locate(true)).is_none()
        );
    }

    /// Files of drives were truncated, deleted and replaced, and the controller continued to write
    /// to files without a name.
    #[test]
    fn a_file_that_is_not_what_it_was_is_told_from_one_that_is() {
        let path = std::env::temp_dir().join(format!("looked-at-{}", std::process::id()));
        let other = path.with_extension("other");
        let open = || {
            std::fs::write(&path, [0; 8192]).unwrap();
            crate::open::open_drive(path.to_str().unwrap(), crate::open::Access::Writing).unwrap()
        };
        let changed = Err(IoError::new(IoErrorKind::Changed));
        let drive = open();
        assert_eq!(drive.look(), Ok(()));
        std::fs::write(&path, [0; 4096]).unwrap();
        assert_eq!(drive.look(), changed, "truncated");
        std::fs::write(&path, [0; 16384]).unwrap();
        assert_eq!(drive.look(), Ok(()), "longer than it was: nothing is missing");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(drive.look(), changed, "deleted");
        drop(drive);
        let drive = open();
        std::fs::write(&other, [0; 8192]).unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(drive.look(), changed, "replaced by another of that name");
        std::fs::remove_file(&path).unwrap();
    }

    /// A file was truncated, and the next write restored its length: the lost data read as zeros,
    /// and no check detected it.
    #[test]
    fn a_write_does_not_hide_that_a_file_was_truncated() {
        let path = std::env::temp_dir().join(format!("truncated-{}", std::process::id()));
        std::fs::write(&path, [1; 16384]).unwrap();
        let open =
            crate::open::open_drive(path.to_str().unwrap(), crate::open::Access::Writing).unwrap();
        let source = crate::file_drive::FileDrive { open: Arc::new(open) };
        let shard =
            crate::Shard::new(&crate::Settings::with_memory(units::ByteCount::MIB)).unwrap();
        let (env, file) = (shard.env().clone(), path.clone());
        let (before, after, health) = shard.run(async move {
            use platform::DriveSource;
            let drive = platform::Member::new(&env, source.attach(&env).unwrap());
            let write = async || {
                let bytes = platform::Buf::copy_of(&[2; 4096]).freeze();
                drive
                    .write(
                        ByteOffset(12288),
                        [bytes].into_iter().collect(),
                        platform::Durability::Cached,
                    )
                    .await
            };
            let before = write().await.result;
            std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(4096).unwrap();
            (before, write().await.result, drive.health().await.map(drop))
        });
        let changed = IoError::new(IoErrorKind::Changed);
        assert_eq!((before, after, health), (Ok(4096), Err(changed), Err(changed)));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn questions_are_asked_away_from_the_shard_and_answered_on_it() {
        let drive = std::env::temp_dir().join(format!("asked-{}", std::process::id()));
        let light = std::env::temp_dir().join(format!("asked-light-{}", std::process::id()));
        std::fs::write(&drive, [0; 4096]).unwrap();
        let open =
            crate::open::open_drive(drive.to_str().unwrap(), crate::open::Access::Writing).unwrap();
        let behind = BackingDevice::new(Some((Interface::Scsi, Some(light.clone()))));
        let source = crate::file_drive::FileDrive { open: Arc::new(OpenDrive { behind, ..open }) };
        let shard =
            crate::Shard::new(&crate::Settings::with_memory(units::ByteCount::MIB)).unwrap();
        let env = shard.env().clone();
        let (health, lit) = shard.run(async move {
            use platform::DriveSource;
            let drive = platform::Member::new(&env, source.attach(&env).unwrap());
            let (health, light) = (
                env.spawn("health", {
                    let drive = drive.clone();
                    async move { drive.health().await }
                }),
                drive.locate(true),
            );
            let lit = light.await.result;
            let health = health.await;
            assert_eq!(drive.outstanding(), 0);
            (health, lit)
        });
        // A file takes no SCSI commands, and so reports an unknown health.
        assert_eq!((health, lit), (Ok(DriveHealth::default()), Ok(0)));
        assert_eq!(std::fs::read_to_string(&light).unwrap(), "1");
        std::fs::remove_file(&light).unwrap();
        std::fs::remove_file(&drive).unwrap();
    }

    #[test]
    fn the_write_cache_is_switched_by_its_file_and_looked_at_afterwards() {
        let path = std::env::temp_dir().join(format!("cache-type-{}", std::process::id()));
        let drive = path.with_extension("drive");
        std::fs::write(&path, "write back\n").unwrap();
        std::fs::write(&drive, [0; 4096]).unwrap();
        let open =
            crate::open::open_drive(drive.to_str().unwrap(), crate::open::Access::Writing).unwrap();
        let behind =
            BackingDevice::new(Some((Interface::Scsi, None))).with_cache_type(Some(path.clone()));
        assert!(behind.known(DeviceCommand::WriteCache(true)).is_none());
        let cached = OpenDrive { behind, ..open };
        for (on, content) in [(false, "write through"), (true, "write back"), (true, "write back")]
        {
            assert_eq!(cached.answer(DeviceCommand::WriteCache(on)), Ok(None));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        // A device that accepts the command without effect: it loses every write.
        let liar = BackingDevice::new(Some((Interface::Scsi, None)))
            .with_cache_type(Some("/dev/null".into()));
        let liar = OpenDrive { behind: liar, ..cached };
        let refused = liar.answer(DeviceCommand::WriteCache(false)).map_err(|error| error.kind);
        assert_eq!(refused, Err(IoErrorKind::NotSupported));
        // A file takes no NVMe commands, and a drive without a device has no cache.
        let nvme = OpenDrive { behind: BackingDevice::new(Some((Interface::Nvme, None))), ..liar };
        let refused = nvme.answer(DeviceCommand::WriteCache(false)).map_err(|error| error.kind);
        assert_eq!(refused, Err(IoErrorKind::NotSupported));
        assert!(BackingDevice::new(None).known(DeviceCommand::WriteCache(true)).is_some());
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(&drive).unwrap();
    }

    #[test]
    fn the_light_is_switched_by_its_file() {
        let path = std::env::temp_dir().join(format!("light-{}", std::process::id()));
        std::fs::write(&path, "0").unwrap();
        let drive = std::env::temp_dir().join(format!("lit-{}", std::process::id()));
        std::fs::write(&drive, [0; 4096]).unwrap();
        let open =
            crate::open::open_drive(drive.to_str().unwrap(), crate::open::Access::Writing).unwrap();
        let lit = OpenDrive {
            behind: BackingDevice::new(Some((Interface::Unknown, Some(path.clone())))),
            ..open
        };
        for (on, content) in [(true, "1"), (false, "0")] {
            assert_eq!(lit.answer(DeviceCommand::Locate(on)), Ok(None));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        let gone = "/nowhere/locate".into();
        let dark =
            OpenDrive { behind: BackingDevice::new(Some((Interface::Unknown, Some(gone)))), ..lit };
        assert!(dark.answer(DeviceCommand::Locate(true)).is_err());
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(&drive).unwrap();
    }
}
