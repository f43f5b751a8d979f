//! `softroc attach` and `softroc detach`.

use super::Output;
use clap::{Args, ValueEnum};

/// See [`Command::Attach`](super::Command::Attach).
#[derive(Args, Debug)]
pub struct Attach {
    /// The volumes.
    #[arg(required_unless_present = "list", value_name = "VOLUME")]
    pub volumes: Vec<String>,

    /// The kernel driver of the disk.
    #[arg(
        long = "as",
        value_name = "WAY",
        default_value = "nbd",
        conflicts_with = "list",
        help = driver()
    )]
    pub by: AttachWay,

    /// Attach the disks read-only.
    #[arg(long, conflicts_with = "list")]
    pub read_only: bool,

    /// List the volumes that are disks of this machine.
    #[arg(long, conflicts_with = "volumes")]
    pub list: bool,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// The help of `--as`.
fn driver() -> String {
    format!(
        "The kernel driver of the disk. nbd works with every kernel. ublk is faster and reports \
         strip and stripe sizes, but needs Linux {} or newer with ublk_drv",
        platform_linux::UBLK_SINCE
    )
}

/// See [`Command::Detach`](super::Command::Detach).
#[derive(Args, Debug)]
pub struct Detach {
    /// The disks: volumes, or devices such as /dev/nbd0.
    #[arg(required = true, value_name = "VOLUME|DEVICE")]
    pub disks: Vec<String>,

    /// Detach disks that are in use or have pending requests. Unwritten data is lost, and a mounted
    /// file system sees I/O errors.
    #[arg(long)]
    pub force: bool,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// See [`Attach::by`].
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttachWay {
    /// The kernel's NBD client.
    Nbd,
    /// The kernel's ublk driver for user-space block devices.
    Ublk,
}

impl From<AttachWay> for controller::DiskKind {
    fn from(way: AttachWay) -> controller::DiskKind {
        match way {
            AttachWay::Nbd => controller::DiskKind::Nbd,
            AttachWay::Ublk => controller::DiskKind::Ublk,
        }
    }
}

/// Whether a volume is attached automatically.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttachSwitch {
    /// Attach the volume whenever the controller serves it.
    On,
    /// Attach the volume read-only whenever the controller serves it.
    ReadOnly,
    /// Attach the volume only by 'softroc attach'.
    Off,
}

impl From<AttachSwitch> for controller::AttachPolicy {
    fn from(switch: AttachSwitch) -> controller::AttachPolicy {
        match switch {
            AttachSwitch::On => controller::AttachPolicy::On,
            AttachSwitch::ReadOnly => controller::AttachPolicy::ReadOnly,
            AttachSwitch::Off => controller::AttachPolicy::Off,
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_names_the_kernel_that_ublk_needs() {
        let page = include_str!("../../../../docs/operate/attach.md");
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("needs Linux {} or newer", platform_linux::UBLK_SINCE)));
    }
}
