//! A machine whose disk is a write-back volume, and the controller of that volume.

use crate::common::mounted::{Mounted, can_mount};
use crate::common::pausable::Pausable;
use crate::common::retry::Retry;
use crate::common::{Controller, Folder, have, skipped, until};
use std::path::PathBuf;

const DRIVE_MIB: u64 = 160;

/// What a host does while the controller is away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It tries again, and waits.
    Patient,
    /// It gets an error at once, and for ever.
    Direct,
}

/// The controller and its host. Taken down when dropped.
pub struct Machine {
    pub controller: Controller,
    memory: Folder,
    /// Two of its three drives. While they stand still, not even a journal can have what the cache has.
    pausable: [Pausable; 2],
    retry: Option<Retry>,
    disk: Option<Mounted>,
}

impl Machine {
    /// One with an empty file system. `None`: this machine cannot do that, and has said why.
    pub fn new(name: &str, way: Way) -> Option<Machine> {
        if !(can_mount() && have("nbdkit")) {
            return None;
        }
        let Some(memory) = Folder::in_memory(name) else {
            skipped("databases on a write-back volume", "/dev/shm is not there");
            return None;
        };
        let pausable = [Pausable::start(DRIVE_MIB)?, Pausable::start(DRIVE_MIB)?];
        let mut controller = Controller::unstarted(name);
        // The cache is small beside what the databases write, so that it has to destage all the time.
        let arguments = ["--cache", "16M", "--cache-folder", &memory.path()];
        controller.arguments = arguments.map(str::to_owned).to_vec();
        controller.start();
        let mut drives = controller.file_drives_of(&format!("{DRIVE_MIB}M"), 1);
        drives.extend(pausable.iter().map(Pausable::name));
        let mut create = vec!["volume", "create", "data", "--level", "raid5"];
        create.extend(["--write-mode", "write-back", "--yes", "--drives"]);
        create.extend(drives.iter().map(String::as_str));
        controller.softroc(&create).ok();
        let mut machine = Machine { controller, memory, pausable, retry: None, disk: None };
        if let Err(why) = machine.attach(way) {
            skipped("databases on a write-back volume", &why);
            return None;
        }
        let disk = machine.disk();
        disk.format();
        disk.mount();
        Some(machine)
    }

    fn attach(&mut self, way: Way) -> Result<(), String> {
        self.retry = (way == Way::Patient).then(|| Retry::start(&self.controller, "data"));
        let direct = self.controller.uri("data");
        let uri = self.retry.as_ref().map_or(direct, Retry::uri);
        self.disk = Some(Mounted::attach(&self.controller.folder, &uri)?);
        Ok(())
    }

    fn disk(&self) -> &Mounted {
        self.disk.as_ref().expect("the disk is there")
    }

    /// A folder for a database's files, on the volume.
    pub fn folder(&self, name: &str) -> PathBuf {
        let folder = std::path::Path::new(&self.disk().mount).join(name);
        std::fs::create_dir_all(&folder).expect("a folder on the volume");
        folder
    }

    /// Attaches the volume anew: nothing is known any more of what was read or written before. The file system is mounted.
    pub fn put_disk_on(&mut self, way: Way) {
        self.attach(way).expect("it was attached before");
        self.disk().mount();
    }

    /// Unmounts in order: the file system is whole.
    pub fn take_disk_off_in_order(&mut self) {
        self.disk().unmount_and_check();
        self.take_disk_off();
    }

    /// What the host has in its memory is forgotten. Programs that used the disk have ended.
    pub fn take_disk_off(&mut self) {
        self.disk = None;
        self.retry = None;
    }

    fn dirty(&self) -> u64 {
        self.controller.show("data")["cache"]["dirty_bytes"].as_u64().expect("a number")
    }

    /// The controller dies while hosts wait for a flush: drives stand still, so that what was written since is in the cache alone.
    /// It dies without, if hosts have become idle.
    pub fn kill(&mut self, mut is_busy: impl FnMut() -> bool) {
        self.pausable.iter().for_each(Pausable::stand_still);
        // It does not become more when all of them wait.
        let (mut dirty, mut looks) = (0, 0);
        until("something is in the cache alone", || {
            let now = self.dirty();
            looks = if now == dirty { looks + 1 } else { 0 };
            dirty = now;
            looks > 5 && (dirty > 0 || !is_busy())
        });
        self.controller.kill_9();
        self.pausable.iter_mut().for_each(Pausable::start_anew);
        println!("killed with {} KiB in the cache alone", dirty >> 10);
    }

    pub fn come_back(&mut self) {
        self.controller.start();
        let show = self.controller.show("data");
        let policies = show["policies"].as_array().expect("policies");
        let mode = policies.iter().find(|policy| policy["name"] == "write-mode").expect("a write mode");
        assert_eq!(mode["current"], "write-back", "{show}");
        assert_eq!(show["state"], "optimal", "{show}");
    }

    /// The controller comes back, and what was in the cache alone is lost, as after a power cut: an operator has given it up.
    pub fn come_back_without_memory(&mut self) {
        let folders = std::fs::read_dir(&self.memory.0).expect("the cache's folder").flatten();
        let files: Vec<PathBuf> = folders.map(|folder| folder.path().join("cache.kept")).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        std::fs::remove_file(&files[0]).expect("the cache's memory was there");
        self.controller.start();
        assert_eq!(self.controller.show("data")["state"], "offline");
        self.controller.softroc(&["log", "discard", "data", "--yes"]).ok();
        self.controller.softroc(&["volume", "start", "data"]).ok();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // If a test has failed while the controller is away, whoever waits for it gets an error now, and can end.
        self.retry = None;
        self.disk = None;
    }
}
