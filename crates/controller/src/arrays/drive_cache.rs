//! The drives' own write caches, on or off as volumes are configured. A drive serves all volumes of
//! its array: if one of them turns the cache off, it is off.
//!
//! In both settings drives are flushed before data is reported as durable. With the cache off a
//! completed write is durable already, so durability does not depend on host flushes.
//!
//! # Order of steps
//! The label holds the setting. Each drive is set before hosts see a volume and after a change; a
//! drive that joins is set at the next health poll. A drive may lose the setting with its power: it
//! is set again whenever it is opened.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::Result;
use crate::inventory::Drive;
use ondisk::{DriveCache, VolumeLabel};
use platform::{DriveKind, IoErrorKind};
use std::rc::Rc;

/// The cache state of a volume's drives.
pub(crate) struct DriveCaches {
    /// The name of the state.
    pub(crate) current: &'static str,
    /// The meaning of the state, and why it differs from the setting.
    pub(crate) reason: String,
}

/// The setting for an array's drives, and the volume that requires it.
fn wished(array: &Array) -> (DriveCache, Option<Rc<Volume>>) {
    let of = |wish: DriveCache| {
        array.volumes().into_iter().find(|volume| volume.label().drive_cache == wish)
    };
    match (of(DriveCache::Off), of(DriveCache::On)) {
        (Some(volume), _) => (DriveCache::Off, Some(volume)),
        (None, Some(volume)) => (DriveCache::On, Some(volume)),
        (None, None) => (DriveCache::Unchanged, None),
    }
}

/// The drives of an array that are open.
fn drives(array: &Array) -> Vec<Rc<Drive>> {
    (0..array.label().member.len())
        .filter_map(|slot| array.drive(slot))
        .filter(|drive| drive.access().is_some())
        .collect()
}

impl Arrays {
    /// Applies the setting to the drives of all arrays, where it was not applied yet.
    pub(crate) async fn follow_drive_caches(&self) {
        for array in self.all().iter().filter(|array| array.is_running()) {
            self.set_drive_caches(array).await;
        }
    }

    /// Applies the setting to the drives of an array, where it was not applied yet.
    pub(super) async fn set_drive_caches(&self, array: &Array) {
        let on = match wished(array).0 {
            DriveCache::Unchanged => return,
            wish => wish == DriveCache::On,
        };
        for drive in drives(array) {
            let Some(access) = drive.access() else { continue };
            if access.write_cache().is_some_and(|(told, _)| told == on) {
                continue;
            }
            let Err(error) = access.set_write_cache(on).await else { continue };
            if error.kind == IoErrorKind::NotSupported {
                continue;
            }
            let what = if on { "on" } else { "off" };
            let text = format!(
                "the write cache of drive {} could not be switched {what}: {error}",
                drive.name
            );
            let effect = "the drive keeps its cache setting; the controller flushes the drive's \
                          cache for durability in any case";
            self.events.report(
                EventCode::DriveCacheNotSet,
                &drive.name,
                &error.to_string(),
                effect,
                text,
            );
        }
    }

    /// `volume set --drive-cache`. Returns notes for the operator.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub(crate) async fn set_drive_cache(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        wish: DriveCache,
    ) -> Result<Vec<String>> {
        let _starting = array.starting_turn().await;
        let name = volume.name();
        self.check_can_record(array, &name)?;
        if volume.label().drive_cache != wish {
            self.relabel(array, volume, |label: &mut VolumeLabel| label.drive_cache = wish).await?;
            let text =
                format!("the write caches of the drives of '{name}' are set to {}", wish.name());
            let effect = "'softroc volume show' shows the state of the drives' caches";
            self.events.report(
                EventCode::VolumeDriveCache,
                &name,
                "an operator changed it",
                effect,
                text,
            );
        }
        self.set_drive_caches(array).await;
        let now = drive_caches(array, volume);
        let is_so = now.current == wish.name() || wish == DriveCache::Unchanged;
        Ok((!is_so)
            .then(|| {
                format!(
                    "the write caches of the drives of '{name}' are {}: {}",
                    now.current, now.reason
                )
            })
            .into_iter()
            .collect())
    }
}

/// The cache state of a volume's drives, compared with the setting.
pub(crate) fn drive_caches(array: &Array, volume: &Volume) -> DriveCaches {
    let (wish, whose) = wished(array);
    if wish == DriveCache::Unchanged {
        let reason = "the drives' own write caches keep their settings".to_owned();
        return DriveCaches { current: wish.name(), reason };
    }
    let all = drives(array);
    let told = |drive: &Rc<Drive>| drive.access().and_then(|access| access.write_cache());
    let is_so = |drive: &&Rc<Drive>| told(drive).is_some_and(|(_, result)| result.is_ok());
    let (count, of) = (all.iter().filter(is_so).count(), all.len());
    let why = all.iter().find_map(|drive| match told(drive)? {
        (_, Ok(())) => None,
        (_, Err(error)) if error.kind != IoErrorKind::NotSupported => {
            Some(format!("{}: {error}", drive.name))
        }
        _ => Some(format!("{} {}", drive.name, without(drive))),
    });
    let why = why.unwrap_or_else(|| "they are set when the drives are present".to_owned());
    let for_whom = match whose.filter(|other| other.uuid() != volume.uuid()) {
        Some(other) => format!(", for '{}' on the same drives", other.name()),
        None => String::new(),
    };
    match (count, wish) {
        (0, _) => DriveCaches {
            current: DriveCache::Unchanged.name(),
            reason: format!("no drive cache was switched: {why}"),
        },
        (count, _) if count < of => DriveCaches {
            current: "mixed",
            reason: format!("{} on {count} of {of} drives{for_whom}; {why}", wish.name()),
        },
        (_, DriveCache::Off) => DriveCaches {
            current: wish.name(),
            reason: format!("writes that a drive acknowledged survive a power cut{for_whom}"),
        },
        _ => DriveCaches {
            current: wish.name(),
            reason: format!(
                "drives acknowledge writes from their own caches; the controller flushes them for \
                durability{for_whom}"
            ),
        },
    }
}

/// Why a drive has no cache that can be switched.
fn without(drive: &Drive) -> &'static str {
    let kind = drive.access().map(|access| access.info().kind);
    match kind {
        Some(DriveKind::File) => {
            "is a file, which has no drive cache: the page cache is bypassed and flushed"
        }
        Some(DriveKind::Memory | DriveKind::Null) => "is memory, which has no cache",
        Some(DriveKind::Remote) => "is an NBD export, whose server controls the drive cache",
        Some(DriveKind::Volume) => "is a volume, which has a write mode of its own",
        _ => "has no cache that can be switched",
    }
}
