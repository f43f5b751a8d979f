//! `softroc attach` and `softroc detach`.

use super::Output;
use clap::{Args, ValueEnum};

/// See [`Command::Attach`](super::Command::Attach).
#[derive(Args, Debug)]
pub struct Attach {
    /// The volumes.
    #[arg(required_unless_present = "list", value_name = "VOLUME")]
    pub volumes: Vec<String>,

    /// Which way a disk goes: nbd is in every kernel; ublk is quicker, and knows strip and stripe, but needs Linux 6.9 or newer with
    /// ublk_drv.
    #[arg(long = "as", value_name = "WAY", default_value = "nbd", conflicts_with = "list")]
    pub by: AttachWay,

    /// Let nothing be written to the disks.
    #[arg(long, conflicts_with = "list")]
    pub read_only: bool,

    /// List the disks of this machine that are volumes.
    #[arg(long, conflicts_with = "volumes")]
    pub list: bool,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// See [`Command::Detach`](super::Command::Detach).
#[derive(Args, Debug)]
pub struct Detach {
    /// The disks: volumes, or devices such as /dev/nbd0.
    #[arg(required = true, value_name = "VOLUME|DEVICE")]
    pub disks: Vec<String>,

    /// Detach them even while they are in use, or requests wait on them: what is not written yet is lost, and a file system
    /// on them sees I/O errors.
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
    /// The kernel's driver for disks that a program serves.
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

/// Whether a volume is attached whenever it is served.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttachSwitch {
    /// It is.
    On,
    /// It is, and nothing can be written to the disk.
    ReadOnly,
    /// Only by 'softroc attach'.
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
