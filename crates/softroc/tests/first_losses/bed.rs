//! An array, its controller and its files.

use crate::common::host::Host;
use crate::common::{Controller, Folder, not_possible, pattern, run, until};
use crate::content::{Content, Reader, pieces};
use crate::servers::Servers;
use crate::table::{Case, End, Ground, Stage};
use std::path::Path;

/// The capacity of each drive for a volume.
const DATA: u64 = 8 << 20;
/// The size of the drives, including a reserved tail of 32 MiB.
const DRIVE: u64 = DATA + (32 << 20);

/// The array of a test case.
pub struct Bed<'a> {
    pub case: &'a Case,
    pub controller: Controller,
    pub memory: Folder,
    /// The drives as files, and by their names in the controller that wrote to them.
    pub files: Vec<String>,
    pub names: Vec<String>,
    pub servers: Option<Servers>,
    pub content: Content,
}

impl Bed<'_> {
    /// A new volume for a case. `None`: this computer has no /dev/shm.
    pub fn new(case: &Case) -> Option<Bed<'_>> {
        let name = format!("first-losses-{}", case.shape.level);
        let Some(memory) = Folder::in_memory(&name) else {
            not_possible("losses from the first write on", "/dev/shm is not there");
            return None;
        };
        let mut controller = Controller::unstarted(&name);
        controller.arguments = ["--shards", "2", "--cache", "1M", "--cache-folder", &memory.path()]
            .map(String::from)
            .into();
        // Servers may be slow on a busy computer: no drive is suspended for that.
        for operation in ["short-read", "read", "write", "flush", "discard"] {
            let limit = format!("remote.{operation}=10m");
            controller.arguments.extend(["--time-limit".to_owned(), limit]);
        }
        let files =
            (0..case.all_drives()).map(|number| controller.folder.file(&format!("d{number}.img")));
        let files: Vec<String> = files.collect();
        let names = match case.has_servers() {
            true => Servers::names(&controller.folder, files.len()),
            false => files.clone(),
        };
        let content = Content::new(0);
        let mut bed = Bed { case, controller, memory, files, names, servers: None, content };
        bed.begin();
        bed.content = Content::new(bed.controller.capacity("v") as usize);
        Some(bed)
    }

    /// Starts the controller, and creates the volume.
    pub fn begin(&mut self) {
        if !self.case.has_servers() {
            self.controller.start();
            make_drives(&self.controller, self.case, &self.files);
            return create(&self.controller, self.case, &self.names);
        }
        let is_blank = self.case.ground == Ground::Blank;
        if is_blank {
            // Only the controller that created files knows them to be blank, so it also creates the
            // volume.
            let mut maker = Controller::new("first-losses-maker");
            make_drives(&maker, self.case, &self.files);
            create(&maker, self.case, &self.files);
            maker.stop();
        } else {
            make_drives(&self.controller, self.case, &self.files);
        }
        self.servers = Some(Servers::start(self, 0..self.files.len(), true));
        let arguments = self.controller.arguments.clone();
        self.controller.arguments.push("--drives".into());
        self.controller.arguments.extend(self.names.iter().cloned());
        self.controller.start();
        self.controller.arguments = arguments;
        if !is_blank {
            create(&self.controller, self.case, &self.names);
        }
    }

    pub fn is_initialised(&self) -> bool {
        self.controller.show("v")["initialisation"].is_null()
    }

    /// The percentage of zeros on the first drive, which had noise: about the initialised part,
    /// from the volume's start.
    fn zeroed_percent(&self) -> usize {
        let bytes = std::fs::read(&self.files[0]).expect("it can be read");
        let blocks = bytes[..DATA as usize].chunks(4096);
        let (all, zeroed) =
            (blocks.len(), blocks.filter(|block| block.iter().all(|byte| *byte == 0)).count());
        zeroed * 100 / all
    }

    pub fn host(&self) -> Host {
        Host::connect(&self.controller.nbd_socket(), "v").expect("it is served")
    }

    /// Writes pieces with distinct content.
    pub fn write(&mut self, version: u64, pieces: &[(usize, usize)]) {
        let mut host = self.host();
        for (at, len) in pieces {
            self.content.write(&mut host, *at, &pattern(version << 32 | *at as u64, *len));
        }
    }

    pub fn flush(&mut self) {
        let mut host = self.host();
        self.content.flush(&mut host);
    }

    /// Waits for the stage of the last write, and writes. Returns whether the stage was seen.
    pub fn live(&mut self) -> bool {
        let case = self.case;
        let pieces = pieces(self.content.written.len(), case.writes_whole_stripes());
        let mut was_seen = true;
        let mut reader = None;
        match case.stage {
            Stage::New => {}
            // Zeros on other drives are written too fast.
            Stage::HalfInitialised if case.ground != Ground::Noise => {}
            Stage::HalfInitialised => {
                reader = Some(Reader::start(&self.controller));
                until("it is initialised in part", || self.zeroed_percent() >= 15);
            }
            Stage::InMigration | Stage::JustMigrated => {
                // The migration has data to move.
                self.write(1, &pieces);
                self.flush();
                was_seen = self.migrate();
            }
        }
        // Earlier data are partly overwritten.
        let again = if case.stage.is_moved() { 2 } else { pieces.len() };
        self.write(2, &pieces[..again]);
        if case.is_slow() {
            was_seen = !self.is_initialised();
        }
        // Whole stripes at the end that were initialised before the write have the known limit.
        let is_unflushed = case.end == End::PowerCutUnflushed
            && (!case.writes_whole_stripes() || self.zeroed_percent() < 50);
        if !is_unflushed {
            self.flush();
        }
        drop(reader);
        was_seen
    }

    /// Migrates it, entirely or partly. Returns whether the migration is at the intended point.
    pub fn migrate(&mut self) -> bool {
        let (controller, case) = (&self.controller, self.case);
        let (level, _, may_lose) = case.shape.to.expect("the case is one");
        // During a migration no write is acknowledged from the cache.
        controller.softroc(&["volume", "set", "v", "--write-mode", "write-through"]).ok();
        let mut order = match level == case.shape.level {
            true => vec!["volume", "expand", "v", "--destroy-data"],
            false => vec!["volume", "migrate", "v", "--destroy-data", "--level", level],
        };
        order.push("--add");
        order.extend(self.names[case.shape.drives..].iter().map(String::as_str));
        controller.softroc(&order).ok();
        let task = controller
            .tasks()
            .into_iter()
            .find(|task| task["kind"] == "reshape")
            .expect("it is ordered");
        let number = task["task"].as_u64().expect("a number").to_string();
        if case.stage == Stage::InMigration {
            // Both fail if the task has ended.
            let _ = controller.softroc(&["task", "set", &number, "--limit", "24M"]);
            let percent =
                || controller.json(&["task", "show", &number])["task"]["percent"].as_u64();
            until("it is half migrated", || percent().is_none_or(|done| done >= 30));
            let _ = controller.softroc(&["task", "pause", &number]);
            return !controller.show("v")["reshape"].is_null();
        }
        until("it is migrated", || controller.show("v")["reshape"].is_null());
        assert_eq!(controller.show("v")["may_lose"], may_lose, "{}", case.why(&[]));
        controller.softroc(&["volume", "set", "v", "--write-mode", case.mode, "--yes"]).ok();
        true
    }

    /// A power cut for the process, the drives and the memory at one moment.
    pub fn power_cut(&mut self) {
        run("kill", &["-STOP", &self.controller.pid().to_string()]);
        self.servers.as_mut().expect("it has servers").kill();
        self.controller.kill_9();
        for entry in std::fs::read_dir(&self.memory.0).expect("the cache's folder").flatten() {
            std::fs::remove_dir_all(entry.path()).expect("it can be removed");
        }
        let boot = self.controller.folder.file("boot");
        std::fs::write(&boot, "9f0b5c1e-5f4b-4d0c-8b8f-3d6f0a0e7c11\n").expect("a file");
        self.controller.boot_id = Some(boot);
    }

    /// Saves the files at the end of the process: drives, state, and the cache's memory.
    pub fn keep(&self) {
        let kept = self.kept();
        std::fs::create_dir(&kept).expect("a folder");
        for file in &self.files {
            std::fs::rename(
                file,
                Path::new(&kept).join(Path::new(file).file_name().expect("a name")),
            )
            .expect("it is kept");
        }
        run("cp", &["-a", &self.controller.state(), &format!("{kept}/state")]);
        run("cp", &["-a", &self.memory.path(), &format!("{kept}/memory")]);
    }

    pub fn kept(&self) -> String {
        self.controller.folder.file("kept")
    }

    /// Restores the saved files without the lost drives.
    pub fn restore(&self, lost: &[usize]) {
        let kept = self.kept();
        let [state, memory] = [self.controller.state(), self.memory.path()];
        for (name, place) in [("state", &state), ("memory", &memory)] {
            std::fs::remove_dir_all(place).expect("it can be removed");
            run("cp", &["-a", &format!("{kept}/{name}"), place]);
        }
        for (number, file) in self.files.iter().enumerate() {
            if lost.contains(&number) {
                // The previous set may have it.
                let _ = std::fs::remove_file(file);
            } else {
                run("cp", &["--sparse=always", &format!("{kept}/d{number}.img"), file]);
            }
        }
    }

    /// Starts it without the lost drives, with an operator's confirmation that they were not used,
    /// and reads it all.
    pub fn start_without(&mut self, lost: &[usize]) {
        let why = self.case.why(lost);
        if self.case.has_servers() {
            let left = (0..self.files.len()).filter(|drive| !lost.contains(drive));
            self.servers = Some(Servers::start(self, left, false));
        }
        self.controller.start();
        let show = self.controller.show("v");
        if show["state"] == "offline" {
            let started = self.controller.softroc(&["volume", "start", "v", "--degraded", "--yes"]);
            assert_eq!(started.code, 0, "{why}: {}\n{show}", started.stderr);
        }
        let show = self.controller.show("v");
        assert_eq!(
            (&show["state"], &show["lost_bytes"]),
            (&"degraded".into(), &0.into()),
            "{why}: {show}"
        );
        self.content.look(&self.controller, &why);
    }
}

/// Creates the files of the drives for the case.
pub fn make_drives(controller: &Controller, case: &Case, files: &[String]) {
    match case.ground {
        Ground::Blank => {
            let size = DRIVE.to_string();
            let mut arguments = vec!["drive", "add", "--create", &size];
            arguments.extend(files.iter().map(String::as_str));
            controller.softroc(&arguments).ok();
        }
        Ground::Truncated => {
            for file in files {
                let file = std::fs::File::create(file).expect("a file");
                file.set_len(DRIVE).expect("it has that length");
            }
        }
        Ground::Noise => {
            for (number, file) in files.iter().enumerate() {
                let noise = pattern(1000 + number as u64, 1 << 20).repeat((DRIVE >> 20) as usize);
                std::fs::write(file, noise).expect("a file");
            }
        }
    }
}

pub fn create(controller: &Controller, case: &Case, drives: &[String]) {
    let shape = case.shape;
    let mut order =
        vec!["volume", "create", "v", "--level", shape.level, "--strip", "64K", "--destroy-data"];
    order.extend(["--yes", "--write-mode", case.mode, "--drives"]);
    order.extend(drives[..shape.drives].iter().map(String::as_str));
    controller.softroc(&order).ok();
    let show = controller.show("v");
    let is = (&show["state"], &show["resync"], &show["may_lose"]);
    assert_eq!(is, (&"optimal".into(), &().into(), &shape.survives.into()), "{}", case.why(&[]));
}
