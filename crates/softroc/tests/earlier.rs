//! Arrays written by earlier releases, with label versions 3 to 5: each image of `earlier/` starts,
//! its task ends, and each block has the content that the earlier release acknowledged; also after
//! a restart, and with a failed drive.

mod common;

use common::host::Host;
use common::{Controller, have, run};
use serde::Deserialize;
use std::path::{Path, PathBuf};

const BLOCK: usize = 4096;
/// The length of a read.
const READ: usize = 1 << 20;

/// The description of an image by `make.py`.
#[derive(Deserialize)]
struct Expected {
    /// The state of its volumes after the task.
    ends: String,
    /// The active task.
    task: Option<String>,
    /// The content of its drives before the volumes were created: one repeated byte each.
    fills: Vec<u8>,
    volumes: Vec<Volume>,
}

#[derive(Deserialize)]
struct Volume {
    name: String,
    blocks: usize,
    /// First block, number of blocks, and the possible versions of each sector; 0: unwritten.
    written: Vec<(usize, usize, Vec<u64>)>,
}

/// The content that `make.py` writes to a block.
fn content(block: usize, version: u64) -> Vec<u8> {
    let block = block as u64;
    let part =
        [*b"SoftROC3", block.to_le_bytes(), version.to_le_bytes(), (block ^ version).to_le_bytes()];
    part.concat().repeat(BLOCK / 32)
}

impl Expected {
    /// Whether a sector may be unwritten: zeros, or the earlier content of a drive.
    fn is_unwritten(&self, sector: &[u8]) -> bool {
        let byte = sector[0];
        (byte == 0 || self.fills.contains(&byte)) && sector.iter().all(|other| *other == byte)
    }

    fn check_block(&self, block: usize, versions: &[u64], found: &[u8]) {
        let contents: Vec<Vec<u8>> =
            versions.iter().map(|version| content(block, *version)).collect();
        for (number, sector) in found.chunks(512).enumerate() {
            let is_version =
                versions.iter().zip(&contents).any(|(version, content)| match version {
                    0 => self.is_unwritten(sector),
                    _ => content[..512] == *sector,
                });
            assert!(
                is_version,
                "block {block}, sector {number}: not of {versions:?} but {:?}",
                &sector[..32]
            );
        }
    }

    /// Reads a whole volume, checks it, and returns its content.
    fn read(&self, controller: &Controller, volume: &Volume) -> Vec<u8> {
        let mut host = Host::connect(&controller.nbd_socket(), &volume.name).expect("it is served");
        let size = usize::try_from(host.size).expect("it is small");
        // Its new layout may have more.
        assert!(size / BLOCK >= volume.blocks);
        let mut bytes = Vec::with_capacity(size);
        while bytes.len() < size {
            let len = READ.min(size - bytes.len());
            bytes.extend(host.read(bytes.len() as u64, len).expect("every block is readable"));
        }
        let mut versions = vec![&[0][..]; size / BLOCK];
        for (first, count, of) in &volume.written {
            versions[*first..first + count].fill(of);
        }
        for (block, found) in bytes.chunks(BLOCK).enumerate() {
            self.check_block(block, versions[block], found);
        }
        bytes
    }

    fn read_all(&self, controller: &Controller) -> Vec<Vec<u8>> {
        self.volumes.iter().map(|volume| self.read(controller, volume)).collect()
    }
}

/// Whether no task is active.
fn are_done(controller: &Controller) -> bool {
    !controller.tasks().iter().any(|task| task["state"] == "running" || task["state"] == "waiting")
}

fn image(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/earlier").join(format!("{name}.tar.xz"))
}

fn is_used_as_it_was_left(name: &str) {
    if !have("xz") {
        return;
    }
    let mut controller = Controller::new(&name.replace('/', "-"));
    run("tar", &["-xJSf", image(name).to_str().unwrap(), "-C", &controller.folder.path()]);
    let expected =
        std::fs::read(controller.folder.file("expected.json")).expect("it is in the image");
    let expected: Expected = serde_json::from_slice(&expected).expect("make.py wrote it");
    let drives = (0..9).map(|number| controller.folder.file(&format!("d{number}.img")));
    let drives: Vec<String> = drives.filter(|drive| Path::new(drive).exists()).collect();
    let mut arguments = vec!["drive", "add"];
    arguments.extend(drives.iter().map(String::as_str));
    controller.softroc(&arguments).ok();
    // If drives are missing, an operator confirms that there are no more.
    for volume in expected.volumes.iter().filter(|_| expected.ends == "degraded") {
        controller.softroc(&["volume", "start", &volume.name]).ok();
    }
    expected.read_all(&controller);
    // A task starts a moment after the command that causes it.
    common::until("its task", || {
        let tasks = controller.tasks();
        expected.task.as_ref().is_none_or(|kind| tasks.iter().any(|task| task["kind"] == **kind))
    });
    common::until("the end of its tasks", || are_done(&controller));
    let tasks = controller.tasks();
    assert!(tasks.iter().all(|task| task["state"] == "done"), "{tasks:?}");
    let held = expected.read_all(&controller);
    let states = |controller: &Controller| {
        for volume in &expected.volumes {
            let show = controller.show(&volume.name);
            assert_eq!(
                (&show["state"], &show["resync"]),
                (&expected.ends.clone().into(), &().into())
            );
        }
    };
    states(&controller);
    controller.stop();
    controller.start();
    states(&controller);
    assert!(expected.read_all(&controller) == held, "it changed with the restart");
    if expected.ends == "optimal" {
        controller.softroc(&["drive", "fail", &format!("{}:0", expected.volumes[0].name)]).ok();
        assert!(expected.read_all(&controller) == held, "redundancy did not agree");
    }
}

#[test]
fn two_volumes_and_a_spare_that_were_stopped_in_order() {
    is_used_as_it_was_left("clean");
}

#[test]
fn a_volume_killed_in_its_initial_resync() {
    is_used_as_it_was_left("resync");
}

#[test]
fn a_volume_stopped_in_its_initial_resync() {
    is_used_as_it_was_left("resync-stopped");
}

#[test]
fn a_volume_killed_in_its_rebuild() {
    is_used_as_it_was_left("rebuild");
}

#[test]
fn a_volume_killed_on_its_way_to_another_layout() {
    is_used_as_it_was_left("reshape");
}

#[test]
fn a_volume_stopped_on_its_way_to_another_layout() {
    is_used_as_it_was_left("reshape-stopped");
}

#[test]
fn a_volume_stopped_without_two_of_its_drives() {
    is_used_as_it_was_left("degraded");
}

#[test]
fn a_volume_killed_under_writes_with_a_journal() {
    is_used_as_it_was_left("dirty");
}

#[test]
fn a_volume_killed_under_writes_without_a_journal() {
    is_used_as_it_was_left("dirty-resync");
}

#[test]
fn mirrors_killed_under_writes() {
    is_used_as_it_was_left("dirty-mirrors");
}

#[test]
fn a_volume_killed_under_writes_while_a_drive_was_failed() {
    is_used_as_it_was_left("dirty-degraded");
}

/// Label version 4.
#[test]
fn volumes_of_version_4_that_were_stopped_in_order() {
    for image in ["clean", "degraded", "initialising-degraded"] {
        is_used_as_it_was_left(&format!("version-4/{image}"));
    }
}

#[test]
fn volumes_of_version_4_that_were_killed_under_writes() {
    for image in ["initialising", "dirty", "dirty-degraded"] {
        is_used_as_it_was_left(&format!("version-4/{image}"));
    }
}

#[test]
fn a_volume_of_version_4_that_was_killed_in_its_rebuild() {
    is_used_as_it_was_left("version-4/rebuild");
}

#[test]
fn a_volume_of_version_4_that_was_killed_on_its_way_to_another_layout() {
    is_used_as_it_was_left("version-4/reshape");
}

/// Label version 5.
#[test]
fn volumes_of_version_5_that_were_stopped_in_order() {
    for image in ["clean", "degraded", "initialising-degraded"] {
        is_used_as_it_was_left(&format!("version-5/{image}"));
    }
}

#[test]
fn volumes_of_version_5_that_were_killed_under_writes() {
    for image in ["initialising", "dirty", "dirty-degraded"] {
        is_used_as_it_was_left(&format!("version-5/{image}"));
    }
}

#[test]
fn a_volume_of_version_5_that_was_killed_in_its_rebuild() {
    is_used_as_it_was_left("version-5/rebuild");
}

#[test]
fn a_volume_of_version_5_that_was_killed_on_its_way_to_another_layout() {
    is_used_as_it_was_left("version-5/reshape");
}
