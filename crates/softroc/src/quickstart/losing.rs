//! The part of the tour that fails a drive under load.
//!
//! Three checks verify the data: a pattern in the first eighth of the volume, written before and
//! compared after; self-describing blocks of StorageBench in the second half throughout; and a
//! consistency check of the whole volume.

use super::{VOLUME, file_name, indent, step, tell};
use crate::control::Control;
use crate::failure::{Failure, Outcome};
use crate::output;
use controller::{Command, Reply, StartTask, Startable, TaskInfo, TaskKind, TaskState};
use platform::{Buf, Durability, Env, Io, Member};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use storagebench::{Area, Bench, Ending, Profile, Settings, Target, duration_text, number_text};
use units::{ByteCount, ByteOffset, counted};

/// The slot of the failed drive.
const PULLED: usize = 2;

const PIECE: ByteCount = ByteCount::MIB;
const PIECES_AT_ONCE: usize = 4;

/// How long the load runs; the drive fails after a quarter of it.
const LOAD: Duration = Duration::from_secs(8);
const LOAD_OUTSTANDING: &str = "8";

/// The polling interval for the start of the rebuild, and its time limit.
const LOOK: Duration = Duration::from_millis(50);
const LONGEST_START: Duration = Duration::from_secs(300);

/// Fails a drive of the tour's volume under load, and verifies the data.
pub fn run(control: &Control, address: &str, interrupted: &Arc<AtomicBool>) -> Outcome {
    let patterned = ByteCount(control.volume_info(VOLUME)?.capacity_bytes / 8).align_down(PIECE);
    step(3, "Fail a drive while a host writes, and rebuild it on the spare")?;
    with_pattern(address, patterned, Direction::Write)?;
    let load = start_load(address, interrupted.clone());
    std::thread::sleep(LOAD / 4);
    control.ask(&Command::DriveFail {
        drive: format!("{VOLUME}:{PULLED}"),
        accept_data_loss: false,
        accepted: None,
        dry_run: false,
    })?;
    let rebuild = wait_for_rebuild(control, interrupted)?;
    let failed = Instant::now();
    let state = control.volume_info(VOLUME)?.state;
    tell(&format!(
        "Failed drive {PULLED} (softroc drive fail {VOLUME}:{PULLED}): the volume is {state}, and \
         the host continues."
    ))?;
    finish(control, rebuild, interrupted)?;
    let volume = control.volume_info(VOLUME)?;
    let successor = volume.drives.get(PULLED).map(|drive| drive.name.as_str()).unwrap_or_default();
    tell(&format!(
        "The spare {} was rebuilt in {:.1} s: the volume is {}.",
        file_name(successor),
        failed.elapsed().as_secs_f64(),
        volume.state
    ))?;
    tell(&end_load(load)?)?;

    step(4, "Verify the data")?;
    let start =
        StartTask { what: Startable::Check, volume: Some(VOLUME.into()), ..StartTask::default() };
    let Reply::Task { task, .. } = control.ask(&Command::TaskStart(start))? else {
        return Err(unexpected("a task"));
    };
    let check = finish(control, *task, interrupted)?;
    if check.found.mismatches > 0 {
        return Err(Failure::failed(format!(
            "redundancy and data differ in {}",
            counted(check.found.mismatches, "stripe")
        )));
    }
    tell(&format!("Redundancy and data agree everywhere (softroc task start check {VOLUME})."))?;
    with_pattern(address, patterned, Direction::Compare)?;
    tell(&format!("A pattern of {patterned}, written before the failure, reads back unchanged."))
}

fn unexpected(what: &str) -> Failure {
    Failure::failed(format!("the controller's answer is not {what}"))
}

/// StorageBench in the second half of the volume, on its own thread.
fn start_load(address: &str, interrupted: Arc<AtomicBool>) -> JoinHandle<Outcome<String>> {
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
            let measured =
                Bench::new(settings).cancelled_by(interrupted).run(&env, &target).await?;
            if let Ending::Cancelled(sentence) | Ending::Failed(sentence) = measured.ending {
                return Err(Failure::failed(sentence));
            }
            let figures = measured.rows.first().and_then(|row| {
                let latency = row.latency_us.as_ref()?;
                let tail = latency
                    .p99
                    .map_or_else(String::new, |p99| format!(", p99 {}", duration_text(p99)));
                Some(format!(
                    "The host meanwhile: {} IO/s, mean latency {}{tail}.",
                    number_text(row.iops),
                    duration_text(latency.mean)
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
    let shard =
        platform_linux::Shard::new(&platform_linux::Settings::with_memory(ByteCount(256 << 20)))?;
    let env = shard.env().clone();
    shard.run(work(env))
}

fn wait_for_rebuild(control: &Control, interrupted: &AtomicBool) -> Outcome<TaskInfo> {
    let deadline = Instant::now() + LONGEST_START;
    while !interrupted.load(Ordering::Relaxed) && Instant::now() < deadline {
        let Reply::Tasks { tasks } = control.ask(&Command::TaskList {})? else {
            return Err(unexpected("tasks"));
        };
        match tasks.into_iter().rev().find(|task| task.kind == TaskKind::Rebuild) {
            Some(task) => return Ok(task),
            None => std::thread::sleep(LOOK),
        }
    }
    Err(Failure::failed("no rebuild started; 'softroc events' shows why"))
}

/// Shows the progress of a task until it is complete.
fn finish(control: &Control, task: TaskInfo, interrupted: &AtomicBool) -> Outcome<TaskInfo> {
    let task = control.watch_task(task, &|line| output::print(&indent(line)), interrupted)?;
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
            while wrong.is_none()
                && under_way.len() < PIECES_AT_ONCE
                && next < ByteOffset::ZERO + len
            {
                under_way.push_back((next, start(&volume, next, direction)));
                next += PIECE;
            }
            // Wait for every operation, even after a failure.
            let Some((at, io)) = under_way.pop_front() else { break };
            let outcome = io.await;
            let problem = match outcome.result {
                Ok(moved) if moved != PIECE.0 => Some(format!("moved only {moved} bytes")),
                Ok(_) if direction == Direction::Write => None,
                Ok(_) if outcome.buffers.first().is_some_and(|buf| buf.bytes() == pattern(at)) => {
                    None
                }
                Ok(_) => Some("returned different data than was written".to_owned()),
                Err(error) => Some(format!("failed: {error}")),
            };
            wrong = wrong
                .or(problem.map(|what| format!("{PIECE} of the volume at byte {} {what}", at.0)));
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
