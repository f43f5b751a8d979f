//! The measurement that runs, on a thread of its own, and what it came to.

use super::{Shared, invalid, offer, parsed, point};
use crate::bench::{self, Finished};
use crate::cli::{BenchRun, Command};
use crate::control::Control;
use crate::failure::{Failure, Outcome};
use crate::machine;
use crate::progress::{Course, phase};
use controller::{Caller, Error, ErrorKind, EventCode, Occurrence, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use storagebench::{Ending, Observer, Progress, Results, Row, Settings};
use units::ByteCount;
use webconsole::{Live, Measure, Run, Stage};

/// A measurement.
pub(super) struct Measuring {
    pub(super) shown: Run,
    /// Whoever sets it ends the measurement.
    pub(super) cancel: Arc<AtomicBool>,
    /// All that came out, once it is over.
    pub(super) results: Option<Results>,
}

impl Measuring {
    /// Whether nothing more comes.
    pub(super) fn is_over(&self) -> bool {
        self.shown.stage.is_over()
    }
}

/// The buffers of a measurement are in the memory of the process that serves the volumes, and may take no more of it. On the command line they are
/// in a process of their own, and may be larger.
const MOST_BUFFERS: ByteCount = ByteCount(256 << 20);

/// Whether the requests that are outstanding have room.
///
/// # Errors
/// `Invalid` if they take more than [`MOST_BUFFERS`].
fn has_room(settings: &Settings) -> Result<()> {
    for profile in &settings.profiles {
        let outstanding = profile.rungs(&settings.outstanding).into_iter().max().unwrap_or(1);
        let need = ByteCount(profile.largest_block().0.saturating_mul(outstanding.into()));
        if need > MOST_BUFFERS {
            let sentence = format!(
                "the profile '{profile}' with {outstanding} outstanding requests takes {need} of the controller's memory, and {MOST_BUFFERS} is the most; name fewer, or measure it on the command line, with 'softroc bench'"
            );
            return Err(Error::new(ErrorKind::Invalid, sentence));
        }
    }
    Ok(())
}

/// What an order asks for, by the flags of the command line, and whether it writes.
fn asked(order: &Measure) -> Result<(BenchRun, bool)> {
    // The command line takes the words of a load as well, whose requests may be of any size.
    if !offer::all().profiles.iter().any(|known| known.name == order.profile) {
        let sentence = format!(
            "'{}' is not a load profile that a page has; choose one of 'softroc bench profiles'",
            order.profile
        );
        return Err(Error::new(ErrorKind::Invalid, sentence));
    }
    let Command::Bench(command) = parsed(&order.words()).map_err(|failure| invalid(&failure))? else {
        return Err(Error::new(ErrorKind::Invalid, "that is no measurement; open the page again"));
    };
    let settings = bench::check(&command.run).map_err(|failure| invalid(&failure))?;
    if settings.writes() && !order.destroy_data {
        let sentence = format!(
            "'{}' writes, and what '{}' holds where it writes is lost; as an administrator, type the volume's name if that may be, or choose a load that only reads",
            order.profile, order.volume
        );
        return Err(Error::new(ErrorKind::HoldsData, sentence));
    }
    has_room(&settings)?;
    Ok((command.run, settings.writes()))
}

/// Begins a measurement.
///
/// # Errors
/// See [`control_api::Workbench::measure`].
pub(super) fn begin(shared: &Arc<Shared>, order: &Measure, by: Caller) -> Result<()> {
    let (run, writes) = asked(order)?;
    let cancel = Arc::new(AtomicBool::new(false));
    {
        let mut state = shared.state();
        if let Some(other) = state.measuring.as_ref().filter(|other| !other.is_over()) {
            let sentence = format!(
                "a measurement of '{}' runs, and one runs at a time; wait, or stop it first",
                other.shown.order.volume
            );
            return Err(Error::new(ErrorKind::Busy, sentence));
        }
        let shown = Run {
            order: order.clone(),
            by: by.user.clone(),
            begun_unix_s: machine::unix_time(),
            stage: Stage::Runs,
            live: None,
            points: Vec::new(),
            notes: Vec::new(),
        };
        state.measuring = Some(Measuring { shown, cancel: cancel.clone(), results: None });
    }
    let destroys = if writes { "what it holds may be lost" } else { "it is only read" };
    tell(shared, EventCode::BenchStarted, order, ("it was asked for", destroys), "began", Some(by));
    let (mine, whose) = (shared.clone(), order.clone());
    let work = move || {
        let measured = catch_unwind(AssertUnwindSafe(|| measure(&mine, &whose, &run, cancel)));
        let measured = measured.unwrap_or_else(|_| {
            Err(Failure::failed("the measurement ended by an error of the program; the log has it"))
        });
        end(&mine, &whose, measured);
    };
    if let Err(error) = std::thread::Builder::new().name("bench".into()).spawn(work) {
        let sentence = format!("a thread for the measurement cannot be started: {error}");
        end(shared, order, Err(Failure::failed(&sentence)));
        return Err(Error::new(ErrorKind::Failed, sentence));
    }
    Ok(())
}

/// Measures, on this thread, as a client of the controller.
fn measure(
    shared: &Arc<Shared>,
    order: &Measure,
    run: &BenchRun,
    cancel: Arc<AtomicBool>,
) -> Outcome<Finished> {
    let control = Control::new(&shared.folder, Some(&shared.socket));
    let watched = shared.clone();
    let seen: bench::MakesObserver = Box::new(move |settings, targets| {
        Rc::new(Onlooker { shared: watched, course: Course::new(settings, targets) })
    });
    let command = format!("softroc {}", order.words().join(" "));
    bench::served(run, command, &control, cancel, seen)?.run()
}

/// Puts down how it ended, and has it known.
fn end(shared: &Shared, order: &Measure, measured: Outcome<Finished>) {
    let stage = match &measured {
        Ok(Finished { ending: Ending::Complete, .. }) => Stage::Done,
        Ok(Finished { ending: Ending::Cancelled(why), .. }) => Stage::Stopped(why.clone()),
        Ok(Finished { ending: Ending::Failed(why), .. }) => Stage::Failed(why.clone()),
        Err(failure) => Stage::Failed(failure.to_string()),
    };
    let effect = match &stage {
        Stage::Stopped(why) | Stage::Failed(why) => why.clone(),
        Stage::Done | Stage::Runs | Stage::Waits => "all of it was measured".to_owned(),
    };
    if let Some(measuring) = shared.state().measuring.as_mut() {
        measuring.shown.stage = stage;
        measuring.shown.live = None;
        if let Ok(Finished { results, kept, .. }) = measured {
            measuring.shown.points = results.rows.iter().map(point).collect();
            measuring.shown.notes = storagebench::summary(&results);
            measuring.shown.notes.extend(storagebench::doubts(&results));
            measuring.shown.notes.extend(kept);
            measuring.results = Some(results);
        }
    }
    tell(shared, EventCode::BenchEnded, order, ("it ended", &effect), "ended", None);
}

/// Has the controller take note of it.
fn tell(
    shared: &Shared,
    code: EventCode,
    order: &Measure,
    (cause, effect): (&str, &str),
    what: &str,
    by: Option<Caller>,
) {
    shared.controller.note(Occurrence {
        code,
        subject: order.volume.clone(),
        cause: cause.to_owned(),
        effect: effect.to_owned(),
        text: format!(
            "a measurement of '{}' under the load {} {what}: {effect}",
            order.volume, order.profile
        ),
        by,
    });
}

/// Shows on pages what it sees. It is called on the thread that measures.
struct Onlooker {
    shared: Arc<Shared>,
    course: Course,
}

impl Onlooker {
    fn show(&self, change: impl FnOnce(&mut Run)) {
        if let Some(measuring) = self.shared.state().measuring.as_mut() {
            change(&mut measuring.shown);
        }
    }
}

impl Observer for Onlooker {
    fn progress(&self, progress: &Progress<'_>) {
        let (done, points) = self.course.points();
        let live = Live {
            profile: progress.profile.name().to_owned(),
            outstanding: progress.outstanding,
            phase: phase(progress.phase),
            per_s: progress.iops,
            mib_per_s: progress.throughput_mib_s,
            mean_us: progress.latency_us,
            errors: progress.errors,
            point: (done + 1, points),
            percent: (self.course.share(progress).clamp(0.0, 1.0) * 100.0) as u8,
            left_s: self.course.left_in(progress).as_secs(),
        };
        self.show(|run| run.live = Some(live));
    }

    fn preconditioned(&self, took: Duration) {
        self.course.preconditioned(took);
    }

    fn point_took(&self, took: Duration) {
        self.course.point_took(took);
    }

    fn row(&self, row: &Row) {
        self.show(|run| run.points.push(point(row)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A form of a page had the controller take as much memory as there is, by requests of any size, and 65536 of them.
    #[test]
    fn a_measurement_takes_no_more_memory_than_it_may() {
        let order = |profile: &str, outstanding: &str| Measure {
            volume: "data".to_owned(),
            profile: profile.to_owned(),
            outstanding: outstanding.to_owned(),
            runtime: "1s".to_owned(),
            destroy_data: true,
            beside_hosts: false,
        };
        let refused = |profile: &str, outstanding: &str| {
            let error = asked(&order(profile, outstanding)).map(|_| ()).expect_err("it is refused");
            assert_eq!(error.kind, ErrorKind::Invalid);
            error.message
        };
        assert_eq!(asked(&order("random-read", "1,512")).map(|(_, writes)| writes).ok(), Some(false));
        assert_eq!(asked(&order("random-write", "1,512")).map(|(_, writes)| writes).ok(), Some(true));
        let why = refused("database", "1,65536");
        assert!(why.contains("of the controller's memory, and 256 MiB is the most"), "{why}");
        assert!(refused("100% read, 1M, random", "1").contains("not a load profile that a page has"));
    }
}
