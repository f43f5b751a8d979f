//! Recovery of a volume that is not started: its state names one next step. The steps lead to an
//! online volume, whatever is missing together: a drive, the memory of the cache, the log device,
//! current parity.

use crate::common::events::{End, end};
use crate::common::{Bench, MIB};
use controller::{
    Command, DiscardLog, Discarded, ErrorKind, SetPolicy, VolumeState, WriteHole, WriteMode,
};
use units::{ByteCount, ByteOffset, ByteRange};

const STRIP: u64 = 64 << 10;
const DRIVES: [&str; 3] = ["a", "b", "c"];
const LOG: &str = "x";
/// Replaces `b` in the cases with punctured blocks.
const SPARE: &str = "s";
/// First host writes; writes before the flush; last writes.
const OLD: u8 = 5;
const FLUSHED: u8 = 66;
const UNFLUSHED: u8 = 77;
const FLUSHED_AT: u64 = 2 * STRIP;
const UNFLUSHED_AT: u64 = 6 * STRIP;
/// An unreadable block of `a`, in a stripe that is otherwise unused.
const PUNCTURED_AT: u64 = 8 * STRIP;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Device {
    Here,
    /// It failed before the crash, and never returns.
    Dead,
    /// It is missing after the crash.
    Away,
    /// It is present, and its records are unreadable.
    Damaged,
    /// It never existed.
    None,
}

#[derive(Clone, Copy, Debug)]
struct State {
    level: &'static str,
    drive: Device,
    log: Device,
    has_memory: bool,
    /// No journal: regions with interrupted writes have stale parity.
    has_stale_parity: bool,
    has_punctured: bool,
    mode: WriteMode,
}

/// All variants.
fn states() -> Vec<State> {
    let mut states = Vec::new();
    for drive in [Device::Here, Device::Dead, Device::Away] {
        for log in [Device::None, Device::Here, Device::Away, Device::Damaged] {
            for bits in 0..8 {
                let [has_memory, has_stale_parity, has_punctured] =
                    [1, 2, 4].map(|bit| bits & bit != 0);
                // Without a journal nothing is on a log.
                if has_stale_parity && log != Device::None {
                    continue;
                }
                let of = |level, mode| State {
                    level,
                    drive,
                    log,
                    has_memory,
                    has_stale_parity,
                    has_punctured,
                    mode,
                };
                states.extend(
                    [WriteMode::WriteBack, WriteMode::LoggedWriteBack]
                        .map(|mode| of("raid5", mode)),
                );
                // Either of two copies could have served alone: the operator is asked.
                if log == Device::None && !has_punctured && !has_stale_parity {
                    states.push(of("raid1", WriteMode::WriteBack));
                }
            }
        }
    }
    states
}

fn flush(bench: &mut Bench) {
    let volume = bench.shards[0].volume_named("data").expect("the volume is online");
    bench.sim.run(async move { volume.flush().await }).expect("it ends").expect("flushed");
}

/// An optimal volume.
fn prepared(state: &State) -> Bench {
    let mut bench = Bench::in_order(31, 2, 3);
    bench.cache_size = ByteCount(MIB);
    bench.add_drives(&[LOG], 8 * MIB);
    let size = bench.sim.drive("a").expect("the drive exists").size();
    bench.add_drives(&[SPARE], size.0);
    bench.boot(&[]);
    let wanted = |wanted: &mut controller::CreateVolume| wanted.write_mode = Some(state.mode);
    let drives: &[&str] = if state.level == "raid1" { &["a", "c"] } else { &DRIVES };
    bench.create_with("data", state.level, drives, wanted).expect("created");
    if state.has_stale_parity {
        let (volume, write_hole) = ("data".to_owned(), Some(WriteHole::Resync));
        bench
            .ask(Command::VolumePolicy(SetPolicy { volume, write_hole, ..SetPolicy::default() }))
            .expect("set");
    }
    if state.log != Device::None {
        let drives = vec![LOG.to_owned()];
        bench
            .ask(Command::LogAdd { drives, destroy_data: false, same_disk_ok: false })
            .expect("added");
    }
    bench.write("data", 0, OLD, 12 * STRIP);
    flush(&mut bench);
    bench.settle("data");
    if state.has_punctured {
        puncture(&mut bench);
    }
    bench
}

/// A drive is rebuilt while a block of another drive is unreadable: the rebuilt drive loses that
/// block.
fn puncture(bench: &mut Bench) {
    bench.ask(Command::VolumeFlush { volume: "data".into() }).expect("flushed");
    let block = ByteRange::new(ByteOffset(PUNCTURED_AT / 2), ByteCount(4096));
    bench.sim.drive("a").expect("the drive exists").make_unreadable(block);
    bench.ask(crate::common::fail_drive("b")).expect("failed");
    let replace =
        Command::DriveReplace { drive: "b".into(), with: SPARE.into(), destroy_data: false };
    bench.ask(replace).expect("replaced");
    for _ in 0..100 {
        if bench.show("data").state == VolumeState::Optimal {
            break;
        }
        bench.wait(3);
    }
    let shown = bench.show("data");
    assert_eq!(shown.state, VolumeState::Optimal, "{shown:?}");
    assert!(shown.lost_bytes > 0, "the block is listed");
}

/// Hosts write, and the process is killed; then the parts of the case go missing.
fn crash(bench: &mut Bench, state: &State) {
    if state.drive == Device::Dead {
        bench.ask(crate::common::fail_drive("c")).expect("the volume tolerates it");
    }
    let log = bench.sim.drive(LOG).expect("the drive exists");
    let of_log = || log.read_true(ByteOffset::ZERO, log.size());
    let before = of_log();
    bench.write("data", FLUSHED_AT, FLUSHED, 4096);
    flush(bench);
    bench.write("data", UNFLUSHED_AT, UNFLUSHED, 4096);
    let after = of_log();
    bench.wait(6);
    // Without a log the data is destaged, and its region is marked at the kill.
    bench.write("data", 10 * STRIP, OLD, 4096);
    flush(bench);
    bench.write("data", UNFLUSHED_AT + 4096, UNFLUSHED, 4096);
    end(bench, End::Killed);
    if !state.has_memory {
        let env = bench.sim.env();
        let forgotten = bench.sim.run(async move { env.world().forget_kept_memory("cache").await });
        forgotten.expect("it ends").expect("it is deleted");
    }
    match state.log {
        Device::Away => log.vanish(),
        Device::Damaged => {
            let sectors = before.chunks(512).zip(after.chunks(512)).enumerate();
            for (number, _) in sectors.filter(|(_, (before, after))| before != after) {
                log.make_unreadable(ByteRange::new(
                    ByteOffset(512 * number as u64),
                    ByteCount(512),
                ));
            }
        }
        Device::Here | Device::Dead | Device::None => {}
    }
    if state.drive == Device::Away {
        bench.sim.drive("c").expect("the drive exists").vanish();
    }
    bench.boot(&[]);
}

fn serves(bench: &mut Bench) -> bool {
    !matches!(bench.show("data").state, VolumeState::Offline | VolumeState::Missing)
}

/// The last command in the reasons of a state: for an operator who cannot reconnect anything.
fn next_step(reasons: &str) -> Command {
    let shown = reasons
        .rsplit("'softroc ")
        .find_map(|rest| rest.split('\'').next().filter(|_| reasons.contains("'softroc ")));
    let text = shown.unwrap_or_else(|| panic!("no next step: {reasons}"));
    let words: Vec<&str> = text.split(' ').collect();
    let has = |flag| words.contains(&flag);
    match words[..2] {
        ["volume", "start"] => Command::VolumeStart {
            volume: words[2].into(),
            accept_stale_parity: has("--accept-stale-parity"),
            degraded: has("--degraded"),
        },
        ["log", "discard"] => Command::LogDiscard(DiscardLog::lacking(words[2])),
        _ => panic!("an unknown step: {text}"),
    }
}

/// Follows the steps until the volume is online. Returns the commands.
fn follow(bench: &mut Bench, state: &State) -> Vec<Command> {
    let (mut done, mut reasons_before): (Vec<Command>, Vec<String>) = (Vec::new(), Vec::new());
    while !serves(bench) {
        let reasons = bench.show("data").reasons.join("; ");
        let command = next_step(&reasons);
        assert!(!reasons_before.contains(&reasons), "{state:?}: {done:?} led back to: {reasons}");
        let answer = bench.ask(command.clone());
        // A command that gives data up succeeds; a start may name the next missing part.
        let is_start = matches!(command, Command::VolumeStart { accept_stale_parity: false, .. });
        assert!(
            answer.is_ok() || is_start,
            "{state:?}: {command:?} is refused: {answer:?}, after {done:?}"
        );
        if matches!(command, Command::LogDiscard(_)) {
            let _ = bench.ask(start(false, false));
        }
        done.push(command);
        reasons_before.push(reasons);
        assert!(done.len() < 8, "{state:?}: {done:?}");
    }
    done
}

fn start(accept_stale_parity: bool, degraded: bool) -> Command {
    Command::VolumeStart { volume: "data".into(), accept_stale_parity, degraded }
}

/// Whether data may be lost in a state, given the parts that an operator gave up.
fn look(bench: &mut Bench, state: &State, what: &str) {
    // Blocks of the missing drive may read wrongly where parity is stale.
    if state.has_stale_parity && state.drive != Device::Here {
        return;
    }
    let is_log_lost = matches!(state.log, Device::Away | Device::Damaged);
    // Without a log a flush was acknowledged by the drives.
    if state.has_memory || !is_log_lost {
        bench.expect("data", FLUSHED_AT, FLUSHED, 4096);
    }
    let logged = state.mode == WriteMode::LoggedWriteBack && state.log == Device::Here;
    if state.has_memory
        || logged
        || (state.mode == WriteMode::LoggedWriteBack && state.log == Device::None)
    {
        bench.expect("data", UNFLUSHED_AT, UNFLUSHED, 8192);
    }
    let bytes =
        bench.try_read("data", 10 * STRIP, STRIP).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(bytes.iter().all(|byte| *byte == OLD), "{what}");
}

/// Every state, with all missing parts permanently lost: each step succeeds, and the volume is
/// online, also after a restart.
#[test]
fn from_every_state_the_steps_that_are_printed_lead_to_a_served_volume() {
    for state in states() {
        let mut bench = prepared(&state);
        crash(&mut bench, &state);
        let done = follow(&mut bench, &state);
        let what = format!("{state:?} after {done:?}");
        look(&mut bench, &state, &what);
        bench.write("data", 3 * STRIP, 88, 4096);
        flush(&mut bench);
        bench.restart(&[]);
        if !serves(&mut bench) {
            follow(&mut bench, &state);
        }
        bench.expect("data", 3 * STRIP, 88, 4096);
        look(&mut bench, &state, &what);
    }
}

/// Lossless steps come first: the missing part is named, and when it returns no data is given up.
#[test]
fn what_is_away_is_asked_for_before_anything_is_given_up() {
    for state in states()
        .into_iter()
        .filter(|state| state.drive == Device::Away || state.log == Device::Away)
    {
        let mut bench = prepared(&state);
        crash(&mut bench, &state);
        if !serves(&mut bench) {
            let reasons = bench.show("data").reasons.join("; ");
            let lossless = ["Connect ", "--cache-folder", "to try again"];
            assert!(lossless.iter().any(|step| reasons.contains(step)), "{state:?}: {reasons}");
        }
        if state.drive == Device::Away {
            bench.sim.drive("c").expect("the drive exists").come_back();
        }
        if state.log == Device::Away {
            bench.sim.drive(LOG).expect("the drive exists").come_back();
        }
        bench.restart(&[]);
        let log = if state.log == Device::Away { Device::Here } else { state.log };
        let back = State { drive: Device::Here, log, ..state };
        if !serves(&mut bench) {
            assert!(!state.has_memory, "{state:?}: {:?}", bench.show("data").reasons);
            follow(&mut bench, &back);
        }
        look(&mut bench, &back, &format!("{back:?}"));
    }
}

/// More drives are lost than the level tolerates: the volume is deleted, whatever else is missing.
#[test]
fn what_can_never_be_served_can_be_deleted() {
    for state in
        states().into_iter().filter(|state| state.level == "raid5" && state.drive == Device::Dead)
    {
        let mut bench = prepared(&state);
        crash(&mut bench, &state);
        bench.sim.drive("a").expect("the drive exists").vanish();
        bench.restart(&[]);
        assert!(!serves(&mut bench), "{state:?}");
        let deleted =
            bench.ask(Command::VolumeDelete { volume: "data".into(), disconnect_hosts: false });
        assert!(deleted.is_ok() && !bench.has("data"), "{state:?}: {deleted:?}");
    }
}

/// The memory of the cache is lost; drives and log are present.
const WITHOUT_MEMORY: State = State {
    level: "raid5",
    drive: Device::Here,
    log: Device::Here,
    has_memory: false,
    has_stale_parity: false,
    has_punctured: false,
    mode: WriteMode::WriteBack,
};

/// The memory of the cache was lost in the same boot, and the log had all flushed data. `log
/// discard` gave up both.
#[test]
fn the_memory_is_given_up_and_the_log_is_replayed() {
    let state = WITHOUT_MEMORY;
    let mut bench = prepared(&state);
    crash(&mut bench, &state);
    let dry = DiscardLog { dry_run: true, ..DiscardLog::lacking("data") };
    let (_, notes) = crate::common::volume(bench.ask(Command::LogDiscard(dry)));
    assert!(
        notes[0].contains("at most 256 blocks of 4 KiB")
            && notes[0].contains("replayed from the log"),
        "{notes:?}"
    );
    assert!(!serves(&mut bench), "no data was given up");
    bench.ask(Command::LogDiscard(DiscardLog::lacking("data"))).expect("given up");
    bench.ask(start(false, false)).expect("started");
    bench.expect("data", FLUSHED_AT, FLUSHED, 4096);
    assert!(bench.has_event("were on its log device"), "{:?}", bench.events());
}

/// A command gives up no present part that it does not name.
#[test]
fn what_is_intact_is_given_up_by_name_alone() {
    let state = WITHOUT_MEMORY;
    let mut bench = prepared(&state);
    crash(&mut bench, &state);
    let records = DiscardLog { what: Some(Discarded::Records), ..DiscardLog::lacking("data") };
    bench.ask(Command::LogDiscard(records)).expect("given up by name");
    assert!(!serves(&mut bench), "the memory was not given up");
    let done = follow(&mut bench, &state);
    assert_eq!(done.len(), 1, "{done:?}");
    bench.write("data", UNFLUSHED_AT, 99, 4096);
    let lacking = Command::LogDiscard(DiscardLog::lacking("data"));
    let why = bench.refused(ErrorKind::WrongState, lacking);
    assert!(
        why.contains("--cache") && !why.contains("--records"),
        "records in use are not given up: {why}"
    );
    bench.expect("data", UNFLUSHED_AT, 99, 4096);
    let cache = DiscardLog { what: Some(Discarded::Cache), ..DiscardLog::lacking("data") };
    bench.ask(Command::LogDiscard(cache)).expect("given up by name");
    assert_eq!(bench.show("data").cache.dirty_bytes, 0);
}

/// The memory was given up, and the log had the flushed data. Another command without a name gave
/// up the log, too.
#[test]
fn records_that_can_be_read_are_given_up_by_name_alone() {
    let state = WITHOUT_MEMORY;
    let mut bench = prepared(&state);
    crash(&mut bench, &state);
    let lacking = || Command::LogDiscard(DiscardLog::lacking("data"));
    bench.ask(lacking()).expect("the memory is given up");
    let why = bench.refused(ErrorKind::WrongState, lacking());
    assert!(why.contains("--records"), "{why}");
    bench.ask(start(false, false)).expect("started");
    bench.expect("data", FLUSHED_AT, FLUSHED, 4096);
}
