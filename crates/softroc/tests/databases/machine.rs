//! A host whose disk is a write-back volume, and the controller of that volume.

use crate::common::mounted::{Mounted, can_mount};
use crate::common::pausable::Pausable;
use crate::common::retry::Retry;
use crate::common::{Controller, Folder, have, not_possible, until};
use std::path::PathBuf;

const DRIVE_MIB: u64 = 160;

/// The behaviour of the host while the controller is down.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It retries, and waits.
    Patient,
    /// It gets a permanent error at once.
    Direct,
}

/// The controller and its host. Stopped on drop.
pub struct Machine {
    pub controller: Controller,
    memory: Folder,
    /// Two of its three drives. While they hang, not even a journal can have the cached data.
    pausable: [Pausable; 2],
    retry: Option<Retry>,
    disk: Option<Mounted>,
}

impl Machine {
    /// A machine with an empty file system. `None`, with a printed reason: not supported here.
    pub fn new(name: &str, way: Way) -> Option<Machine> {
        if !(can_mount() && have("nbdkit")) {
            return None;
        }
        let Some(memory) = Folder::in_memory(name) else {
            not_possible("databases on a write-back volume", "/dev/shm is not there");
            return None;
        };
        let pausable = [Pausable::start(DRIVE_MIB)?, Pausable::start(DRIVE_MIB)?];
        let mut controller = Controller::unstarted(name);
        // The cache is small compared to the databases' writes, so that it destages all the time.
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
            not_possible("databases on a write-back volume", &why);
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

    /// Attaches the volume again, without cached data, and mounts the file system.
    pub fn put_disk_on(&mut self, way: Way) {
        self.attach(way).expect("it was attached before");
        self.disk().mount();
    }

    /// Unmounts cleanly: the file system is consistent.
    pub fn take_disk_off_in_order(&mut self) {
        self.disk().unmount_and_check();
        self.take_disk_off();
    }

    /// Detaches the volume and drops the host's cached data. Programs on the disk have ended.
    pub fn take_disk_off(&mut self) {
        self.disk = None;
        self.retry = None;
    }

    fn dirty(&self) -> u64 {
        self.controller.show("data")["cache"]["dirty_bytes"].as_u64().expect("a number")
    }

    /// Kills the controller while hosts wait for a flush: drives hang, so that later writes are in
    /// the cache only. If the hosts are idle, it is killed without waiting.
    pub fn kill(&mut self, mut is_busy: impl FnMut() -> bool) {
        self.pausable.iter().for_each(Pausable::stand_still);
        // When all of them wait, it does not grow.
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
        let mode =
            policies.iter().find(|policy| policy["name"] == "write-mode").expect("a write mode");
        assert_eq!(mode["current"], "write-back", "{show}");
        assert_eq!(show["state"], "optimal", "{show}");
    }

    /// Restarts the controller without the cached data, as after a power cut: an operator has
    /// discarded them.
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
        // If a test fails while the controller is down, waiting programs get an error and can end.
        self.retry = None;
        self.disk = None;
    }
}
