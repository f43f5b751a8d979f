//! The running measurement, on its own thread, and its results.

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
    /// A flag that stops the measurement.
    pub(super) cancel: Arc<AtomicBool>,
    /// The results, after its end.
    pub(super) results: Option<Results>,
}

impl Measuring {
    /// Whether it has ended.
    pub(super) fn is_over(&self) -> bool {
        self.shown.stage.is_over()
    }
}

/// The limit of a measurement's buffers, which use memory of the serving process. On the command
/// line, a separate process has larger ones.
const MOST_BUFFERS: ByteCount = ByteCount(256 << 20);

/// Checks the memory of the outstanding requests.
///
/// # Errors
/// `Invalid` if they take more than [`MOST_BUFFERS`].
fn has_room(settings: &Settings) -> Result<()> {
    for profile in &settings.profiles {
        let outstanding = profile.rungs(&settings.outstanding).into_iter().max().unwrap_or(1);
        let need = ByteCount(profile.largest_block().0.saturating_mul(outstanding.into()));
        if need > MOST_BUFFERS {
            let sentence = format!(
                "the profile '{profile}' with {outstanding} outstanding requests needs {need} of \
                 the controller's memory, and {MOST_BUFFERS} is the most; reduce them, or run \
                 'softroc bench' on the command line"
            );
            return Err(Error::new(ErrorKind::Invalid, sentence));
        }
    }
    Ok(())
}

/// The command line options of an order, and whether it writes.
fn asked(order: &Measure) -> Result<(BenchRun, bool)> {
    // The command line would also accept a profile definition, with requests of any size.
    if !offer::all().profiles.iter().any(|known| known.name == order.profile) {
        let sentence = format!(
            "'{}' is not a load profile of the console; choose one of 'softroc bench profiles'",
            order.profile
        );
        return Err(Error::new(ErrorKind::Invalid, sentence));
    }
    let Command::Bench(command) = parsed(&order.words()).map_err(|failure| invalid(&failure))?
    else {
        return Err(Error::new(ErrorKind::Invalid, "the form is not valid; reload the page"));
    };
    let settings = bench::check(&command.run).map_err(|failure| invalid(&failure))?;
    if settings.writes() && !order.destroy_data {
        let sentence = format!(
            "'{}' overwrites data on '{}'; to confirm, type the volume's name as an \
             administrator, or choose a read-only load",
            order.profile, order.volume
        );
        return Err(Error::new(ErrorKind::HoldsData, sentence));
    }
    has_room(&settings)?;
    Ok((command.run, settings.writes()))
}

/// Starts a measurement.
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
                "a measurement of '{}' is running, and only one may run; wait, or stop it first",
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
    let destroys = if writes { "its data may be lost" } else { "the measurement only reads" };
    tell(
        shared,
        EventCode::BenchStarted,
        order,
        ("requested in the console", destroys),
        "began",
        Some(by),
    );
    let (mine, whose) = (shared.clone(), order.clone());
    let work = move || {
        let measured = catch_unwind(AssertUnwindSafe(|| measure(&mine, &whose, &run, cancel)));
        let measured = measured.unwrap_or_else(|_| {
            Err(Failure::failed("the measurement ended with an internal error; see the log"))
        });
        end(&mine, &whose, measured);
    };
    if let Err(error) = std::thread::Builder::new().name("bench".into()).spawn(work) {
        let sentence = format!("cannot start a thread for the measurement: {error}");
        end(shared, order, Err(Failure::failed(&sentence)));
        return Err(Error::new(ErrorKind::Failed, sentence));
    }
    Ok(())
}

/// Measures on this thread, as a client of the controller.
fn measure(
    shared: &Arc<Shared>,
    order: &Measure,
    run: &BenchRun,
    cancel: Arc<AtomicBool>,
) -> Outcome<Finished> {
    let control = Control::new(&shared.folder, Some(&shared.socket));
    let watched = shared.clone();
    let seen: bench::MakesObserver = Box::new(move |settings, targets| {
        Rc::new(PageObserver { shared: watched, course: Course::new(settings, targets) })
    });
    let command = format!("softroc {}", order.words().join(" "));
    bench::served(run, command, &control, cancel, seen)?.run()
}

/// Records the end of a measurement, and emits its event.
fn end(shared: &Shared, order: &Measure, measured: Outcome<Finished>) {
    let stage = match &measured {
        Ok(Finished { ending: Ending::Complete, .. }) => Stage::Done,
        Ok(Finished { ending: Ending::Cancelled(why), .. }) => Stage::Stopped(why.clone()),
        Ok(Finished { ending: Ending::Failed(why), .. }) => Stage::Failed(why.clone()),
        Err(failure) => Stage::Failed(failure.to_string()),
    };
    let effect = match &stage {
        Stage::Stopped(why) | Stage::Failed(why) => why.clone(),
        Stage::Done | Stage::Runs | Stage::Waits => "the measurement is complete".to_owned(),
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

/// Emits an event.
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

/// Shows the progress on pages. Called on the measuring thread.
struct PageObserver {
    shared: Arc<Shared>,
    course: Course,
}

impl PageObserver {
    fn show(&self, change: impl FnOnce(&mut Run)) {
        if let Some(measuring) = self.shared.state().measuring.as_mut() {
            change(&mut measuring.shown);
        }
    }
}

impl Observer for PageObserver {
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

    /// A form could once request all memory of the controller, with huge requests, 65536 at a time.
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
        assert_eq!(
            asked(&order("random-read", "1,512")).map(|(_, writes)| writes).ok(),
            Some(false)
        );
        assert_eq!(
            asked(&order("random-write", "1,512")).map(|(_, writes)| writes).ok(),
            Some(true)
        );
        let why = refused("database", "1,65536");
        assert!(why.contains("of the controller's memory, and 256 MiB is the most"), "{why}");
        assert!(
            refused("100% read, 1M, random", "1").contains("not a load profile of the console")
        );
    }
}
