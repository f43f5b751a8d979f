//! The part of the tour that fails a drive under load.
//!
//! Three checks verify the data: a pattern in the first eighth of the volume, written before and
//! compared after; self-describing blocks of StorageBench in the second half throughout; and a
//! consistency check of the whole volume.

use super::{VOLUME, indent, say};
use crate::control::Control;
use crate::failure::{Failure, Outcome};
use crate::{output, progress, render};
use controller::{Command, Reply, StartTask, Startable, TaskInfo, TaskKind, TaskState};
use platform::{Buf, Durability, Env, Io, Member};
use std::collections::VecDeque;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use storagebench::{Area, Bench, Ending, Profile, Settings, Target};
use units::{ByteCount, ByteOffset, counted};

/// The slot of the failed drive.
const PULLED: usize = 2;

const PIECE: ByteCount = ByteCount::MIB;
const PIECES_AT_ONCE: usize = 4;

/// How long the load runs; the drive fails after a quarter of it.
const LOAD: Duration = Duration::from_secs(8);
const LOAD_OUTSTANDING: &str = "8";

/// The polling interval of tasks, and the time limit of one.
const LOOK: Duration = Duration::from_millis(250);
const LONGEST_TASK: Duration = Duration::from_secs(300);

/// Fails a drive of the tour's volume under load, and verifies the data.
pub fn run(control: &Control, address: &str) -> Outcome {
    let Reply::Volume { volume, .. } = control.ask(&Command::VolumeShow { volume: VOLUME.into() })? else {
        return Err(unexpected("a volume"));
    };
    let patterned = ByteCount(volume.capacity_bytes / 8).align_down(PIECE);
    say(&format!("Writing a pattern to {patterned} of the volume"));
    with_pattern(address, patterned, Direction::Write)?;

    say(&format!(
        "Failing a drive (softroc drive fail {VOLUME}:{PULLED}) while StorageBench writes and \
         verifies in the second half"
    ));
    let load = start_load(address);
    std::thread::sleep(LOAD / 4);
    control.ask(&Command::DriveFail {
        drive: format!("{VOLUME}:{PULLED}"),
        accept_data_loss: false,
        accepted: None,
        dry_run: false,
    })?;
    let rebuild = wait_for(control, "rebuild", |tasks| {
        tasks.into_iter().rev().find(|task| task.kind == TaskKind::Rebuild)
    })?;
    follow(control, rebuild)?;
    let verified = end_load(load)?;
    output::print(&indent(&verified))?;

    say(&format!("Comparing redundancy with data (softroc task start check {VOLUME})"));
    let start = StartTask { what: Startable::Check, volume: Some(VOLUME.into()), ..StartTask::default() };
    let Reply::Task { task, .. } = control.ask(&Command::TaskStart(start))? else {
        return Err(unexpected("a task"));
    };
    let check = follow(control, *task)?;
    if check.found.mismatches > 0 {
        return Err(Failure::failed(format!(
            "redundancy and data differ in {}",
            counted(check.found.mismatches, "stripe")
        )));
    }
    output::print("  Redundancy and data agree everywhere.")?;

    say("Reading the pattern again");
    with_pattern(address, patterned, Direction::Compare)?;
    output::print(&format!("  All {patterned} read back as written."))?;
    let Reply::Volume { volume, .. } = control.ask(&Command::VolumeShow { volume: VOLUME.into() })? else {
        return Err(unexpected("a volume"));
    };
    let successor = volume.drives.get(PULLED).map(|drive| drive.name.as_str()).unwrap_or_default();
    output::print(&format!("  The volume is {}; drive {PULLED} is now {successor}.", volume.state))
}

fn unexpected(what: &str) -> Failure {
    Failure::failed(format!("the controller's answer is not {what}"))
}

/// StorageBench in the second half of the volume, on its own thread.
fn start_load(address: &str) -> JoinHandle<Outcome<String>> {
    let address = address.to_owned();
    std::thread::spawn(move || {
        let settings = Settings {
            profiles: vec!["database".parse::<Profile>()?],
            outstanding: LOAD_OUTSTANDING.parse()?,
            runtime: LOAD,
            ramp: Duration::from_millis(1),
            confidence_percent: None,
            area: "50%..".parse::<Area>()?,
            verify: true,
            destroy_data: true,
            ..Settings::default()
        };
        on_a_shard(|env| async move {
            let target = Target::new(VOLUME, drives::open(&env, &address).await?);
            let measured = Bench::new(settings).run(&env, &target).await?;
            if let Ending::Cancelled(sentence) | Ending::Failed(sentence) = measured.ending {
                return Err(Failure::failed(sentence));
            }
            let figures = measured.rows.first().and_then(|row| {
                let latency = row.latency_us.as_ref()?;
                let tail = latency.p99.map_or_else(String::new, |p99| format!(", p99 {p99:.0} µs"));
                Some(format!(
                    "Host I/O meanwhile: {:.0} IO/s, mean latency {:.0} µs{tail}.",
                    row.iops, latency.mean
                ))
            });
            let verified = measured.verified.map(|verified| verified.to_string());
            Ok([figures, verified].into_iter().flatten().collect::<Vec<_>>().join("\n"))
        })
    })
}

fn end_load(load: JoinHandle<Outcome<String>>) -> Outcome<String> {
    load.join().unwrap_or_else(|_| Err(Failure::failed("the load ended unexpectedly")))
}

/// Runs a future on a shard of this thread.
fn on_a_shard<T, W>(work: impl FnOnce(Env) -> W) -> Outcome<T>
where
    T: 'static,
    W: Future<Output = Outcome<T>> + 'static,
{
    let shard = platform_linux::Shard::new(&platform_linux::Settings::with_memory(ByteCount(256 << 20)))?;
    let env = shard.env().clone();
    shard.run(work(env))
}

/// Waits until a task is found.
fn wait_for(
    control: &Control,
    what: &str,
    find: impl Fn(Vec<TaskInfo>) -> Option<TaskInfo>,
) -> Outcome<TaskInfo> {
    let deadline = Instant::now() + LONGEST_TASK;
    loop {
        let Reply::Tasks { tasks } = control.ask(&Command::TaskList {})? else {
            return Err(unexpected("tasks"));
        };
        match find(tasks) {
            Some(task) => return Ok(task),
            None if Instant::now() > deadline => {
                return Err(Failure::failed(format!("no {what} started; 'softroc events' shows why")));
            }
            None => std::thread::sleep(LOOK),
        }
    }
}

/// Shows the progress of a task until it is complete.
fn follow(control: &Control, mut task: TaskInfo) -> Outcome<TaskInfo> {
    let deadline = Instant::now() + LONGEST_TASK;
    let bar = progress::bar(task.total_blocks.max(1));
    let mut told = None;
    while !task.state.is_over() {
        bar.set_length(task.total_blocks.max(1));
        bar.set_position(task.done_blocks);
        bar.set_message(render::tasks::progress(&task));
        if bar.is_hidden() && told != Some(task.percent / 20) {
            output::print(&indent(&render::tasks::line(&task)))?;
            told = Some(task.percent / 20);
        }
        if Instant::now() > deadline {
            return Err(Failure::failed(format!("task {} does not end; see serve.log", task.task)));
        }
        std::thread::sleep(LOOK);
        let Reply::Task { task: now, .. } = control.ask(&Command::TaskShow { task: task.task })? else {
            return Err(unexpected("a task"));
        };
        task = *now;
    }
    bar.finish_and_clear();
    output::print(&indent(&render::tasks::line(&task)))?;
    match task.state {
        TaskState::Done => Ok(task),
        _ => {
            let why = task.reason.as_deref().unwrap_or("'softroc events' shows why");
            Err(Failure::failed(format!("task {} was not completed: {why}", task.task)))
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Write,
    Compare,
}

/// Writes the pattern from the start of the volume, or compares it.
fn with_pattern(address: &str, len: ByteCount, direction: Direction) -> Outcome {
    let address = address.to_owned();
    on_a_shard(|env| async move {
        let source = drives::open(&env, &address).await?;
        let volume = Member::new(&env, source.attach(&env)?);
        let mut under_way: VecDeque<(ByteOffset, Io)> = VecDeque::new();
        let mut next = ByteOffset::ZERO;
        let mut wrong = None;
        loop {
            while wrong.is_none() && under_way.len() < PIECES_AT_ONCE && next < ByteOffset::ZERO + len {
                under_way.push_back((next, start(&volume, next, direction)));
                next += PIECE;
            }
            // Wait for every operation, even after a failure.
            let Some((at, io)) = under_way.pop_front() else { break };
            let outcome = io.await;
            let problem = match outcome.result {
                Ok(moved) if moved != PIECE.0 => Some(format!("moved only {moved} bytes")),
                Ok(_) if direction == Direction::Write => None,
                Ok(_) if outcome.buffers.first().is_some_and(|buf| buf.bytes() == pattern(at)) => None,
                Ok(_) => Some("returned different data than was written".to_owned()),
                Err(error) => Some(format!("failed: {error}")),
            };
            wrong = wrong.or(problem.map(|what| format!("{PIECE} of the volume at byte {} {what}", at.0)));
        }
        if let Some(wrong) = wrong {
            return Err(Failure::failed(wrong));
        }
        if direction == Direction::Write {
            volume.flush().await.result.map_err(Failure::failed)?;
        }
        Ok(())
    })
}

fn start(volume: &Member, at: ByteOffset, direction: Direction) -> Io {
    let mut buf = Buf::unpooled(PIECE);
    match direction {
        Direction::Compare => volume.read(at, [buf].into_iter().collect()),
        Direction::Write => {
            buf.bytes_mut().copy_from_slice(&pattern(at));
            volume.write(at, [buf.freeze()].into_iter().collect(), Durability::Cached)
        }
    }
}

/// The pattern of a piece: every eight bytes are a function of their address.
fn pattern(at: ByteOffset) -> Vec<u8> {
    (at.0..at.0 + PIECE.0)
        .step_by(8)
        .flat_map(|place| (place ^ 0x5F0C).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes())
        .collect()
}
