//! The drives' own write caches, on or off as volumes wish it. A drive belongs to all volumes of its array: if one of them wants its
//! cache off, it is off.
//!
//! Whatever it is, drives are flushed before anything is said to be durable. With the cache off a write that a drive has taken is
//! durable already, so that nothing depends on hosts that flush.
//!
//! # The order of things
//! The label says what is wished. Before hosts see a volume, and when it is wished otherwise, each drive is told; a drive that joins is
//! told when drives are next asked for their health. A drive may forget it with its power: it is told anew whenever it is opened.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::Result;
use crate::inventory::Drive;
use ondisk::{DriveCache, VolumeLabel};
use platform::{DriveKind, IoErrorKind};
use std::rc::Rc;

/// What drives made of what was wished.
pub(crate) struct DriveCaches {
    /// As it is called.
    pub(crate) current: &'static str,
    /// What that means, and why it is not what was wished.
    pub(crate) reason: String,
}

/// What an array's drives are to do, and the volume that wants it.
fn wished(array: &Array) -> (DriveCache, Option<Rc<Volume>>) {
    let of = |wish: DriveCache| array.volumes().into_iter().find(|volume| volume.label().drive_cache == wish);
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
    /// Tells the drives of all arrays what is wished, where they were not told.
    pub(crate) async fn follow_drive_caches(&self) {
        for array in self.all().iter().filter(|array| array.is_running()) {
            self.set_drive_caches(array).await;
        }
    }

    /// Tells the drives of an array what is wished, where they were not told.
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
            let text =
                format!("the write cache of drive {} could not be switched {what}: {error}", drive.name);
            let effect = "it is as the drive has it; everything that must be durable is flushed all the same";
            self.events.report(EventCode::DriveCacheNotSet, &drive.name, &error.to_string(), effect, text);
        }
    }

    /// `volume set --drive-cache`. What is worth knowing about it.
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
            let text = format!("'{name}' wants the write caches of its drives {}", wish.name());
            let effect = "'softroc volume show' says what the drives made of it";
            self.events.report(EventCode::VolumeDriveCache, &name, "an operator changed it", effect, text);
        }
        self.set_drive_caches(array).await;
        let now = drive_caches(array, volume);
        let is_so = now.current == wish.name() || wish == DriveCache::Unchanged;
        Ok((!is_so)
            .then(|| {
                format!("the write caches of the drives of '{name}' are {}: {}", now.current, now.reason)
            })
            .into_iter()
            .collect())
    }
}

/// What the drives of a volume made of what is wished.
pub(crate) fn drive_caches(array: &Array, volume: &Volume) -> DriveCaches {
    let (wish, whose) = wished(array);
    if wish == DriveCache::Unchanged {
        let reason = "the drives' own write caches are as the drives have them".to_owned();
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
    let why = why.unwrap_or_else(|| "they are told when they are there".to_owned());
    let for_whom = match whose.filter(|other| other.uuid() != volume.uuid()) {
        Some(other) => format!(", for '{}' on the same drives", other.name()),
        None => String::new(),
    };
    match (count, wish) {
        (0, _) => DriveCaches {
            current: DriveCache::Unchanged.name(),
            reason: format!("no drive has a cache that was switched: {why}"),
        },
        (count, _) if count < of => DriveCaches {
            current: "mixed",
            reason: format!("{} on {count} of {of} drives{for_whom}; {why}", wish.name()),
        },
        (_, DriveCache::Off) => DriveCaches {
            current: wish.name(),
            reason: format!("what a drive has taken outlives a power cut{for_whom}"),
        },
        _ => DriveCaches {
            current: wish.name(),
            reason: format!(
                "drives answer writes from their own caches; they are flushed before anything is durable{for_whom}"
            ),
        },
    }
}

/// Why a drive has no cache that could be switched.
fn without(drive: &Drive) -> &'static str {
    let kind = drive.access().map(|access| access.info().kind);
    match kind {
        Some(DriveKind::File) => "is a file, which has none: the page cache is bypassed and flushed",
        Some(DriveKind::Memory | DriveKind::Null) => "is memory, which has none",
        Some(DriveKind::Remote) => "is an export, whose cache is its server's business",
        Some(DriveKind::Volume) => "is a volume, which has a write mode of its own",
        _ => "has none that can be switched",
    }
}
