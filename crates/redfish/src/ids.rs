//! Identifiers of resources in addresses.

use crate::World;
use controller::{DriveInfo, VolumeInfo};

pub(crate) const ROOT: &str = "/redfish/v1";
pub(crate) const SYSTEM: &str = "/redfish/v1/Systems/host";
pub(crate) const CHASSIS: &str = "/redfish/v1/Chassis/host";
pub(crate) const MANAGER: &str = "/redfish/v1/Managers/softroc";
pub(crate) const STORAGE: &str = "/redfish/v1/Systems/host/Storage/softroc";
pub(crate) const CONTROLLER: &str = "/redfish/v1/Systems/host/Storage/softroc/Controllers/0";

/// A stable 64-bit hash of a text (FNV-1a).
pub(crate) fn hash(text: &[u8]) -> u64 {
    text.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

/// The identifier of a drive: readable and unique per name.
pub(crate) fn of_drive(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    let tail: String = plain.trim_matches('-').chars().rev().take(40).collect();
    let tail: String = tail.chars().rev().collect();
    format!("{}-{:08x}", tail.trim_matches(['-', '.']), hash(name.as_bytes()) >> 32)
}

/// The drive with this identifier.
pub(crate) fn drive<'w>(world: &'w World, id: &str) -> Option<&'w DriveInfo> {
    world.drives.iter().find(|drive| of_drive(&drive.name) == id)
}

/// The volume with this identifier, its UUID.
pub(crate) fn volume<'w>(world: &'w World, id: &str) -> Option<&'w VolumeInfo> {
    world.volumes.iter().find(|volume| volume.uuid == id)
}

pub(crate) fn drive_uri(name: &str) -> String {
    format!("{CHASSIS}/Drives/{}", of_drive(name))
}

pub(crate) fn volume_uri(volume: &VolumeInfo) -> String {
    format!("{STORAGE}/Volumes/{}", volume.uuid)
}

pub(crate) fn task_uri(task: u64) -> String {
    format!("{ROOT}/TaskService/Tasks/{task}")
}

/// The drive of an address, from its last segment.
pub(crate) fn drive_at<'w>(world: &'w World, uri: &str) -> Option<&'w DriveInfo> {
    let id = uri.trim_end_matches('/').strip_prefix(&format!("{CHASSIS}/Drives/"))?;
    drive(world, id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drives_can_be_read_and_differ() {
        assert!(of_drive("/dev/sdb").starts_with("dev-sdb-"));
        assert_ne!(of_drive("/dev/sd-b"), of_drive("/dev/sd/b"));
        for name in ["", "/", "nbd://host:10809/ü?x=#%", &"x/".repeat(500)] {
            let id = of_drive(name);
            assert!(
                id.len() < 64 && id.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)),
                "{id}"
            );
        }
    }
}
