//! Unpacks, scans and serves the packed arrays of `tests/images`.

#![allow(dead_code, reason = "no test uses all of it")]

use engine::{ShardIndex, ShardMessage, ShardSeed, VolumeDrive, VolumeId, VolumeService};
use platform::{Env, mailbox};
use platform_linux::{Settings, Shard};
use rescue::{Named, Scan};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use units::{ByteCount, DriveIndex, DriveSet};

/// An array's drives, unpacked into a temporary folder, which is removed on drop.
pub struct Unpacked {
    pub name: String,
    pub folder: PathBuf,
    pub drives: Vec<String>,
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Unpacks an array; `None`, with a message, if the program for it is missing.
pub fn unpack(file: &Path, purpose: &str) -> Option<Unpacked> {
    let name = file.file_name().unwrap().to_string_lossy().replace(".tar.xz", "");
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = parent.join(format!("rescue-{}-{purpose}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let unpacked = Command::new("tar").arg("-xJSf").arg(file).arg("-C").arg(&folder).status();
    if !unpacked.is_ok_and(|status| status.success()) {
        test_tools::not_installed("tar or xz");
        let _ = std::fs::remove_dir_all(&folder);
        return None;
    }
    let path = |number: usize| folder.join(format!("disk{number}.img"));
    let drives = (0..).map(path).take_while(|path| path.exists());
    let drives = drives.map(|path| path.to_str().unwrap().to_owned()).collect();
    Some(Unpacked { name, folder, drives })
}

/// The packed array with this name.
pub fn packed_as(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/images/{name}.tar.xz"))
}

/// All drives except those left out. The images of Intel's arrays come from drives with these
/// serial numbers.
pub fn named(array: &Unpacked, left_out: &DriveSet) -> Vec<Named> {
    let is_intel = array.name.starts_with("imsm");
    let with_number =
        (0..).zip(&array.drives).filter(|(number, _)| !left_out.contains(DriveIndex(*number)));
    let serial = |number: u16| is_intel.then(|| format!("REFDISK{:04}", number + 1));
    with_number
        .map(|(number, name)| Named { name: name.clone(), serial: serial(number), size_was: None })
        .collect()
}

/// Runs on a shard with the real environment.
pub fn on_a_shard<T: 'static>(work: impl AsyncFnOnce(Env) -> T + 'static) -> T {
    let shard = Shard::new(&Settings::with_memory(ByteCount(64 << 20))).unwrap();
    let env = shard.env().clone();
    shard.run(async move { work(env).await })
}

/// Serves the volumes of a scan by an engine.
pub async fn serve(env: &Env, scan: &Scan) -> Vec<Rc<VolumeDrive>> {
    let seed = ShardSeed::new(env, 1);
    let sender = seed.sender();
    let (reports, receiver) = mailbox::mailbox(env, engine::REPORTS_OPEN);
    let shard = seed.start(ShardIndex(0), 1, reports);
    assert!(sender.send(ShardMessage::Peers(vec![sender.clone()])).is_ok());
    let mut health = BTreeMap::new();
    let mut served = Vec::new();
    for (number, volume) in (0..).zip(&scan.volumes) {
        let attachment = rescue::attachment(scan, volume, VolumeId(number)).unwrap();
        health.insert(VolumeId(number), attachment.state.clone());
        let (done, mut answers) = mailbox::mailbox(env, 1);
        assert!(sender.send(ShardMessage::Attach(Box::new(attachment), done)).is_ok());
        answers.receive().await.unwrap().unwrap();
        served
            .push(Rc::new(VolumeService::new(shard.volume(VolumeId(number)).unwrap()).as_drive()));
    }
    env.spawn("keeper", engine::unkept::keep(env.clone(), receiver, vec![sender], health));
    served
}
