//! The write cache in use: write-back volumes of a real controller that is killed, stopped, and
//! started with other settings, with a hanging drive, and after the cache's memory was deleted.

mod common;

use common::host::Host;
use common::pausable::Pausable;
use common::{Controller, Folder, not_possible, pattern, softroc, until};

const PIECE: usize = 64 << 10;
const PIECES: usize = 48;

/// A controller with a small cache in its own folder. `None`: this computer has no /dev/shm.
fn cached(name: &str) -> Option<(Controller, Folder)> {
    let Some(memory) = Folder::in_memory(name) else {
        not_possible("tests of the cache", "/dev/shm is not there");
        return None;
    };
    let mut controller = Controller::unstarted(name);
    start_with(&mut controller, &["--cache", "16M", "--cache-folder", &memory.path()]);
    Some((controller, memory))
}

fn start_with(controller: &mut Controller, arguments: &[&str]) {
    controller.arguments = arguments.iter().map(|text| (*text).to_owned()).collect();
    controller.start();
}

/// A volume on new file drives, in that mode.
fn volume_in(controller: &Controller, name: &str, level: &str, mode: &str) {
    let drives = controller.file_drives(3);
    let mut arguments =
        vec!["volume", "create", name, "--level", level, "--write-mode", mode, "--yes", "--drives"];
    arguments.extend(drives.iter().map(String::as_str));
    controller.softroc(&arguments).ok();
}

fn host(controller: &Controller) -> Host {
    Host::connect(&controller.nbd_socket(), "data").expect("it is served")
}

fn piece(round: u64, number: usize) -> Vec<u8> {
    pattern(round << 32 | number as u64, PIECE)
}

/// Writes pieces all over a volume without a flush; each is acknowledged.
fn write_pieces(host: &mut Host, round: u64) {
    for number in 0..PIECES {
        host.write((number * PIECE) as u64, &piece(round, number)).expect("it is written");
    }
}

fn expect_pieces(host: &mut Host, round: u64) {
    for number in 0..PIECES {
        let found = host.read((number * PIECE) as u64, PIECE).expect("it is readable");
        assert!(found == piece(round, number), "piece {number} differs");
    }
}

/// The write mode of `volume show --json`: configured, in effect, reason.
fn write_mode(controller: &Controller) -> (String, String, String) {
    let show = controller.show("data");
    let policies = show["policies"].as_array().expect("policies");
    let mode = policies.iter().find(|policy| policy["name"] == "write-mode").expect("a write mode");
    let text = |field: &str| mode[field].as_str().expect("text").to_owned();
    (text("configured"), text("current"), text("reason"))
}

fn expect_mode(controller: &Controller, configured: &str, current: &str) -> String {
    let (is_configured, is_current, reason) = write_mode(controller);
    assert_eq!((is_configured.as_str(), is_current.as_str()), (configured, current), "{reason}");
    reason
}

fn cache(controller: &Controller, field: &str) -> u64 {
    controller.show("data")["cache"][field].as_u64().expect("a number")
}

/// The memory files of a controller in a folder.
fn memory_files(memory: &Folder) -> Vec<std::path::PathBuf> {
    let folders = std::fs::read_dir(&memory.0).into_iter().flatten().flatten();
    let files =
        folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten());
    files.map(|file| file.path()).collect()
}

fn delete_memory(memory: &Folder) {
    let files = memory_files(memory);
    assert!(!files.is_empty(), "there was memory in {}", memory.path());
    files.iter().for_each(|file| std::fs::remove_file(file).expect("it can be removed"));
}

#[test]
fn what_was_answered_outlives_a_kill_and_a_flush_leaves_nothing_dirty() {
    let Some((mut controller, _memory)) = cached("wb-kill") else { return };
    volume_in(&controller, "data", "raid5", "write-back");
    expect_mode(&controller, "write-back", "write-back");
    for round in 1..4 {
        write_pieces(&mut host(&controller), round);
        assert!(cache(&controller, "absorbed") > 0, "the cache answered none of them");
        controller.kill_9();
        controller.start();
        expect_mode(&controller, "write-back", "write-back");
        expect_pieces(&mut host(&controller), round);
    }
    write_pieces(&mut host(&controller), 9);
    controller.softroc(&["volume", "flush", "data"]).ok();
    let said = controller.softroc(&["volume", "show", "data", "--all"]).ok();
    assert!(said.contains("write-mode") && said.contains("write-back since 20"), "{said}");
    assert_eq!((cache(&controller, "dirty_bytes"), cache(&controller, "pinned_bytes")), (0, 0));
    assert!(cache(&controller, "destages") > 0);
    expect_pieces(&mut host(&controller), 9);
    let list = controller.softroc(&["volume", "list"]).ok();
    assert!(list.contains("write-back"), "{list}");
}

#[test]
fn the_mode_changes_while_a_host_writes_and_leaves_nothing_behind() {
    let Some((mut controller, memory)) = cached("wb-set") else { return };
    controller.volume("data", "raid5", 3);
    expect_mode(&controller, "write-through", "write-through");
    assert!(memory_files(&memory).is_empty(), "no volume uses memory");
    let mut host = host(&controller);
    for round in 1..4 {
        controller.softroc(&["volume", "set", "data", "--write-mode", "write-back"]).ok();
        expect_mode(&controller, "write-back", "write-back");
        write_pieces(&mut host, round);
        assert!(cache(&controller, "absorbed") > 0, "the cache answered none of them");
        controller.softroc(&["volume", "set", "data", "--write-mode", "write-through"]).ok();
        expect_mode(&controller, "write-through", "write-through");
        assert_eq!(cache(&controller, "dirty_bytes"), 0);
        expect_pieces(&mut host, round);
    }
    // The memory has no dirty data: the volume is complete without it.
    controller.kill_9();
    delete_memory(&memory);
    controller.start();
    expect_pieces(&mut Host::connect(&controller.nbd_socket(), "data").expect("it is served"), 3);
}

#[test]
fn flushes_are_answered_from_memory_only_by_a_volume_that_was_made_so_with_a_yes() {
    let Some((mut controller, _memory)) = cached("awb") else { return };
    controller.volume("data", "raid5", 3);
    let ask = ["volume", "set", "data", "--write-mode", "always-write-back"];
    let refused = controller.softroc(&ask).refused();
    assert!(refused.contains("power cut") && refused.contains("--yes"), "{refused}");
    expect_mode(&controller, "write-through", "write-through");
    let (drives, more) = (controller.folder.file("d0.img"), controller.folder.file("d1.img"));
    let create =
        ["volume", "create", "more", "--level", "raid1", "--write-mode", "always-write-back"];
    let refused =
        controller.softroc(&[&create[..], &["--drives", &drives, &more]].concat()).refused();
    assert!(refused.contains("power cut"), "{refused}");
    controller.softroc(&[&ask[..], &["--yes"]].concat()).ok();
    let said = controller.softroc(&["volume", "show", "data"]).ok();
    assert!(said.contains("a power cut loses recent writes, flushed ones too"), "{said}");
    let mut writer = host(&controller);
    write_pieces(&mut writer, 1);
    writer.write_durable(0, &piece(7, 0)).expect("it is written");
    writer.flush().expect("it is flushed");
    controller.kill_9();
    controller.start();
    expect_mode(&controller, "always-write-back", "always-write-back");
    let mut reader = host(&controller);
    assert!(reader.read(0, PIECE).expect("it is readable") == piece(7, 0));
    reader.write(0, &piece(1, 0)).expect("it is written");
    expect_pieces(&mut reader, 1);
}

#[test]
fn a_write_is_answered_while_a_drive_stands_still_and_is_there_after_a_kill() {
    let Some((mut controller, _memory)) = cached("wb-still") else { return };
    let Some(mut drive) = Pausable::start(48) else { return };
    let mut drives = controller.file_drives(2);
    drives.push(drive.name());
    controller.create("data", "raid5", &drives).ok();
    controller.wait_synced("data");
    controller.softroc(&["volume", "set", "data", "--write-mode", "write-back"]).ok();
    let mut writer = host(&controller);
    drive.stand_still();
    writer.write(0, &piece(1, 0)).expect("it is acknowledged");
    writer.write((2 * PIECE) as u64, &piece(1, 2)).expect("it is acknowledged");
    // No drive can have these writes, as one of three hangs.
    assert_eq!(cache(&controller, "dirty_bytes"), 2 * PIECE as u64);
    let said = controller.softroc(&["volume", "show", "data", "--all"]).ok();
    assert!(
        said.contains("128 KiB dirty; 2 writes acknowledged from the cache, 0 read hits, "),
        "{said}"
    );
    assert!(writer.read(0, PIECE).expect("it is readable") == piece(1, 0));
    until("a hit is shown", || cache(&controller, "hits") > 0);
    controller.kill_9();
    drive.start_anew();
    controller.start();
    let mut reader = host(&controller);
    for number in [0, 2] {
        let found = reader.read((number * PIECE) as u64, PIECE).expect("it is readable");
        assert!(found == piece(1, number), "piece {number} differs");
    }
    controller.softroc(&["volume", "flush", "data"]).ok();
    assert_eq!(cache(&controller, "dirty_bytes"), 0);
}

/// A drive of a volume without redundancy fails with a pending write: further writes are
/// impossible.
#[test]
fn what_cannot_be_written_is_pinned_and_stands_out() {
    let Some((mut controller, _memory)) = cached("wb-pinned") else { return };
    let Some(drive) = Pausable::start(48) else { return };
    let mut drives = controller.file_drives(1);
    drives.push(drive.name());
    controller.create("data", "raid0", &drives).ok();
    controller.wait_synced("data");
    controller.softroc(&["volume", "set", "data", "--write-mode", "write-back"]).ok();
    let mut writer = host(&controller);
    drive.stand_still();
    for number in 0..8 {
        writer.write((number * PIECE) as u64, &piece(1, number)).expect("it is acknowledged");
    }
    drop(drive);
    until("something is pinned", || cache(&controller, "pinned_bytes") > 0);
    let said = controller.softroc(&["volume", "show", "data", "--check"]);
    assert_eq!(said.code, 1, "{}", said.stdout);
    let reason = "cannot be written to its drives now";
    assert!(
        said.stdout.contains(" preserved); ") && said.stdout.contains(reason),
        "{}",
        said.stdout
    );
    let flush = controller.softroc(&["volume", "flush", "data"]);
    assert!(
        flush.code == 1 && flush.stderr.contains("not all dirty data of 'data'"),
        "{}",
        flush.stderr
    );
    for number in 0..8 {
        let found = writer.read((number * PIECE) as u64, PIECE).expect("it is readable");
        assert!(found == piece(1, number), "piece {number} differs");
    }
    controller.kill_9();
    controller.start();
    let show = controller.show("data");
    let (why, dirty) = (show["reasons"].to_string(), cache(&controller, "dirty_bytes"));
    assert!(dirty > 0 && show["state"] == "offline", "{show}");
    assert!(why.contains("only in the cache") && why.contains("do not delete"), "{why}");
    let bytes = units::ByteCount(dirty).to_string();
    let refused = controller.softroc(&["log", "discard", "data", "--yes"]).refused();
    assert!(
        refused.contains(&format!("the cache has {bytes}")) && refused.contains("--cache"),
        "{refused}"
    );
    let asked = controller.softroc(&["log", "discard", "data", "--cache"]).refused();
    assert!(asked.contains("data of 'data'; lost: ") && asked.contains("bytes 0 to "), "{asked}");
    // The missing drive may have the flag; the other drives do not.
    let refused = controller.softroc(&["log", "discard", "data", "--cache", "--yes"]).refused();
    assert!(refused.contains("some of its drives are missing"), "{refused}");
    assert_eq!(cache(&controller, "dirty_bytes"), dirty);
}

#[test]
fn memory_that_was_deleted_after_a_kill_is_missed_and_a_stop_leaves_none() {
    let Some((mut controller, memory)) = cached("wb-gone") else { return };
    volume_in(&controller, "data", "raid5", "write-back");
    write_pieces(&mut host(&controller), 1);
    controller.stop();
    assert!(memory_files(&memory).is_empty(), "nothing is left of it");
    controller.start();
    expect_mode(&controller, "write-back", "write-back");
    expect_pieces(&mut host(&controller), 1);
    write_pieces(&mut host(&controller), 2);
    controller.softroc(&["volume", "flush", "data"]).ok();
    controller.kill_9();
    delete_memory(&memory);
    controller.start();
    let show = controller.show("data");
    let why = show["reasons"].to_string();
    assert_eq!(show["state"], "offline", "{why}");
    assert!(
        why.contains("another 'softroc serve'") && why.contains("log discard data --yes"),
        "{why}"
    );
    let refused = controller.softroc(&["volume", "start", "data"]).refused();
    assert!(refused.contains("--cache-folder"), "{refused}");
    let refused = controller.softroc(&["log", "discard", "data"]).refused();
    assert!(
        refused.contains("data of 'data'; lost: ") && refused.contains("blocks of 4 KiB"),
        "{refused}"
    );
    assert!(refused.contains("--yes"), "{refused}");
    let said = controller.softroc(&["log", "discard", "data", "--yes"]).ok();
    assert!(said.contains("its amount is unknown"), "{said}");
    controller.softroc(&["volume", "start", "data"]).ok();
    // The flush has left no dirty data in memory.
    expect_pieces(&mut host(&controller), 2);
    let again = controller.softroc(&["log", "discard", "nope", "--yes"]);
    assert_eq!(again.code, 4, "{}", again.stderr);
    let codes = controller.softroc(&["events"]).ok();
    assert!(codes.contains("volume.cache-discarded"), "{codes}");
}

#[test]
fn without_a_cache_a_volume_is_write_through_and_says_why() {
    let Some((mut controller, memory)) = cached("wb-none") else { return };
    let with = controller.arguments.clone();
    volume_in(&controller, "data", "raid5", "write-back");
    write_pieces(&mut host(&controller), 1);
    controller.kill_9();
    // Dirty data of the earlier process are not lost: they are destaged.
    start_with(&mut controller, &["--cache", "0", "--cache-folder", &memory.path()]);
    let why = expect_mode(&controller, "write-back", "write-through");
    assert!(why.contains("without a cache") && why.contains("--cache SIZE"), "{why}");
    expect_pieces(&mut host(&controller), 1);
    let list = controller.softroc(&["volume", "list"]).ok();
    assert!(list.contains("write-through (not write-back)"), "{list}");
    let before = cache(&controller, "absorbed");
    write_pieces(&mut host(&controller), 2);
    assert_eq!(cache(&controller, "absorbed"), before, "the cache answers nothing");
    until("nothing is dirty", || cache(&controller, "dirty_bytes") == 0);
    assert!(expect_mode(&controller, "write-back", "write-through").contains("without a cache"));
    controller.stop();
    controller.arguments = with;
    controller.start();
    expect_mode(&controller, "write-back", "write-back");
    expect_pieces(&mut host(&controller), 2);
}

#[test]
fn a_cache_folder_on_a_disk_makes_no_cache() {
    let folder = Folder::new("on-disk");
    if common::is_in_memory(&folder.0) {
        return not_possible("a cache folder on a disk", "temporary files are in memory here");
    }
    let controller = Controller::with("wb-disk", &["--cache-folder", &folder.path()]);
    volume_in(&controller, "data", "raid5", "write-back");
    let why = expect_mode(&controller, "write-back", "write-through");
    assert!(why.contains("not on a memory file system") && why.contains("/dev/shm"), "{why}");
    assert!(controller.log().contains("is not on tmpfs"), "{}", controller.log());
    write_pieces(&mut host(&controller), 1);
    assert_eq!(cache(&controller, "absorbed"), 0);
    assert!(memory_files(&folder).is_empty());
}

#[test]
fn two_controllers_with_one_cache_folder_do_not_meet() {
    let Some((first, memory)) = cached("wb-two-a") else { return };
    let mut second = Controller::unstarted("wb-two-b");
    start_with(&mut second, &["--cache", "1M", "--cache-folder", &memory.path()]);
    for controller in [&first, &second] {
        volume_in(controller, "data", "raid5", "write-back");
        expect_mode(controller, "write-back", "write-back");
        write_pieces(&mut host(controller), 1);
    }
    assert_eq!(memory_files(&memory).len(), 2);
    // The same state by another path has the same memory.
    let link = second.folder.file("link");
    std::os::unix::fs::symlink(second.state(), &link).expect("a link");
    second.kill_9();
    second.start_at(&link);
    expect_mode(&second, "write-back", "write-back");
    expect_pieces(&mut host(&second), 1);
    expect_pieces(&mut host(&first), 1);
}

#[test]
fn a_cache_that_is_too_small_to_be_any_use_is_refused() {
    let folder = Folder::new("tiny-cache");
    let answer = softroc(&["serve", "--cache", "64K", "--state", &folder.file("state")]);
    assert_eq!(answer.code, 2, "{}", answer.stderr);
    assert!(
        answer.stderr.contains("64 KiB") && answer.stderr.contains("--cache 0"),
        "{}",
        answer.stderr
    );
}

#[test]
fn explain_tells_what_the_cache_has_and_what_it_will_do() {
    let Some((controller, _memory)) = cached("wb-explain-cache") else { return };
    controller.volume("data", "raid5", 3);
    let explain = || controller.softroc(&["explain", "cache", "--volume", "data"]).ok();
    let said = explain();
    assert!(said.starts_with("'data' is write-through, no-read-ahead, direct."), "{said}");
    assert!(
        said.contains("nothing is dirty") && said.contains("no clean data is cached"),
        "{said}"
    );
    controller
        .softroc(&[
            "volume",
            "set",
            "data",
            "--write-mode",
            "write-back",
            "--read-mode",
            "read-ahead",
        ])
        .ok();
    controller.softroc(&["volume", "set", "data", "--cache-mode", "cached"]).ok();
    let said = explain();
    assert!(said.starts_with("'data' is write-back, read-ahead, cached."), "{said}");
    assert!(
        said.contains("acknowledged when the cache has it")
            && said.contains("data that was read again stays"),
        "{said}"
    );
    let json = controller.json(&["explain", "cache", "--volume", "data"]);
    assert_eq!(json["explanation"]["cache_mode"], "cached", "{json}");
    assert_eq!(json["explanation"]["cache"]["clean_bytes"], 0, "{json}");
    let level = ["explain", "cache", "--level", "raid5", "--drives", "3", "8K@0"];
    assert!(controller.softroc(&level).stderr.contains("give --volume NAME"));
    let range = ["explain", "cache", "--volume", "data", "8K@0"];
    assert!(controller.softroc(&range).stderr.contains("omit the range"));
    let bytes = ["explain", "write", "--volume", "data"];
    assert!(controller.softroc(&bytes).stderr.contains("SIZE@OFFSET, such as 8K@1M"));
}

#[test]
fn explain_says_that_a_write_is_absorbed() {
    let Some((controller, _memory)) = cached("wb-explain") else { return };
    controller.volume("data", "raid5", 3);
    let explain = |operation: &str| {
        controller.softroc(&["explain", "--volume", "data", operation, "8K@1M"]).ok()
    };
    let plan = explain("write");
    assert!(!plan.contains("acknowledged from"), "{plan}");
    controller.softroc(&["volume", "set", "data", "--write-mode", "write-back"]).ok();
    let said = explain("write");
    assert!(
        said.starts_with("'data' is write-back: this write, without FUA, is acknowledged"),
        "{said}"
    );
    // Its plan is that of a destage; only its way differs.
    let without_way = |text: &str| {
        text.lines().filter(|line| !line.starts_with("Carried out ")).collect::<Vec<_>>().join("\n")
    };
    assert!(without_way(&said).ends_with(&without_way(&plan)), "{said}");
    assert!(said.contains("by stripes, each with its plan (a write: the cache may acknowledge"));
    assert!(
        !explain("read").contains("acknowledged from")
            && !explain("write-zeroes").contains("acknowledged from")
    );
    let json = controller.json(&["explain", "--volume", "data", "write", "8K@1M"]);
    assert!(
        json["explanation"]["cache"]
            .as_str()
            .is_some_and(|text| text.contains("acknowledged from")),
        "{json}"
    );
}
