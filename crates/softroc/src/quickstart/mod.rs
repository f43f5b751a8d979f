//! `softroc quickstart`: the tour. It creates eight file drives, a RAID 6 volume on seven of them
//! and a hot spare, and measures the volume over NBD with the five standard load profiles. Then it
//! fails a drive under load: the spare replaces it, and the tour verifies the data. Finally it
//! stops everything.

mod folder;
mod losing;

use crate::cli::Quickstart;
use crate::control::Control;
use crate::failure::{Failure, Outcome};
use crate::{bench, output, progress};
use controller::{AddSpare, Command, CreateVolume, Reply};
use folder::Folder;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use storagebench::{Ending, Profile, Results, Settings, Table};
use units::{ByteCount, counted};

const DRIVES: usize = 8;
const DRIVE_SIZE: ByteCount = ByteCount(256 << 20);
const DEPTHS: &str = "1,8,32";
const RAMP: Duration = Duration::from_millis(300);
const VOLUME: &str = "tour";
/// How long a drive may not respond, since the disk below the tour's files may be busy.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The widest line of the tour's text.
const WIDTH: usize = 80;
/// The time of the steps other than the measurement, for the announcement.
const OTHER_STEPS: Duration = Duration::from_secs(20);

/// Runs the tour.
pub fn run(tour: &Quickstart) -> Outcome {
    let interrupted = bench::cancel_on_interrupt()?;
    let folder = Folder::take(&tour.dir)?;
    let outcome = take_tour(tour, &folder, &interrupted);
    if !tour.keep {
        folder.clear();
    }
    // Ctrl-C in a terminal also stops the controller: the tour's last step then fails.
    match outcome {
        Err(_) if interrupted.load(Ordering::Relaxed) => Err(stopped(tour)),
        outcome => outcome,
    }
}

fn stopped(tour: &Quickstart) -> Failure {
    let folder = tour.dir.display();
    Failure::stopped(match tour.keep {
        true => {
            format!("the tour was stopped before its end; its drive files are kept in {folder}")
        }
        false => "the tour was stopped before its end; its drive files are removed, and there is \
            no report"
            .to_owned(),
    })
}

fn take_tour(tour: &Quickstart, folder: &Folder, interrupted: &Arc<AtomicBool>) -> Outcome {
    let settings = settings(tour)?;
    tell(&format!(
        "The tour creates a RAID 6 volume on files in {}, measures it, fails a drive under load, \
         and verifies the data, in about {}.",
        tour.dir.display(),
        progress::seconds(settings.duration() + OTHER_STEPS)
    ))?;
    let drives: Vec<PathBuf> =
        (0..DRIVES).map(|i| folder.drives().join(format!("drive{i}.img"))).collect();
    let control = Control::new(&folder.state(), None);
    let mut server = Server::start(folder, &control)?;
    create(&control, &drives)?;
    let address = control.volume_address(VOLUME)?;
    let results = measure(settings, &address, &control, interrupted)?;
    losing::run(&control, &address, interrupted)?;
    server.stop()?;

    output::write_file(&folder.file("report.html"), &bench::report(&results, true))?;
    output::write_file(&folder.file("report.json"), &results.to_json())?;
    let state = tour.dir.join("state");
    output::print(&format!(
        "\nReport: {}\n{}",
        tour.dir.join("report.html").display(),
        match tour.keep {
            true => format!(
                "The drives are kept. Serve them: softroc serve --state {}",
                state.display()
            ),
            false => "The drive files are removed (--keep keeps them).".to_owned(),
        }
    ))
}

/// The volume on all drives except the last one, the spare.
fn create(control: &Control, drives: &[PathBuf]) -> Outcome {
    let mut names: Vec<String> =
        drives.iter().map(|drive| drive.to_string_lossy().into_owned()).collect();
    let spare = names.pop().unwrap_or_default();
    step(1, "Create a volume and a hot spare")?;
    let bar = progress::bar(DRIVES as u64);
    for name in names.iter().chain([&spare]) {
        let add = |size_bytes| Command::DriveAdd { drive: name.clone(), size_bytes };
        let added = control.ask(&add(Some(DRIVE_SIZE.0)));
        if added.as_ref().is_err_and(Failure::is_unavailable) {
            // The file exists; it is registered when it responds.
            ask_patiently(control, &add(None))?;
        } else {
            added?;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let members = counted(names.len(), "drive");
    let create = CreateVolume {
        name: VOLUME.into(),
        level: "raid6".into(),
        drives: names,
        ..CreateVolume::default()
    };
    ask_patiently(control, &Command::VolumeCreate(create))?;
    let add_spare = AddSpare { drive: spare.clone(), revertible: true, ..AddSpare::default() };
    ask_patiently(control, &Command::SpareAdd(add_spare))?;
    let volume = control.volume_info(VOLUME)?;
    tell(&format!(
        "Volume '{VOLUME}' is {}: {}, RAID 6 on {members} of {DRIVE_SIZE}. It survives the failure \
         of any two drives. The spare {} replaces the first one that fails.",
        volume.state,
        ByteCount(volume.capacity_bytes),
        file_name(&spare)
    ))
}

/// Retries while drives do not respond in time: the disk below the tour's files may be busy.
fn ask_patiently(control: &Control, command: &Command) -> Outcome<Reply> {
    let deadline = Instant::now() + LONGEST_WAIT;
    loop {
        match control.ask(command) {
            Err(failure) if failure.is_unavailable() && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(200));
            }
            answer => return answer,
        }
    }
}

fn settings(tour: &Quickstart) -> Outcome<Settings> {
    Ok(Settings {
        profiles: Profile::standard(),
        outstanding: DEPTHS.parse()?,
        runtime: tour.runtime,
        ramp: RAMP,
        // A quick measurement: it must end within the announced time.
        confidence_percent: None,
        ..Settings::default()
    })
}

fn measure(
    settings: Settings,
    address: &str,
    control: &Control,
    interrupted: &Arc<AtomicBool>,
) -> Outcome<Results> {
    step(
        2,
        &format!(
            "Measure it over NBD: {} load profiles with {} outstanding I/Os",
            settings.profiles.len(),
            DEPTHS.replace(',', ", ")
        ),
    )?;
    let targets = [(format!("volume:{VOLUME}"), address.to_owned())];
    let environment = bench::environment_of(&targets, control);
    let bench::Finished { results, ending, .. } = bench::Measurement::new(
        settings,
        targets.to_vec(),
        bench::AtOnce::One,
        environment,
        interrupted.clone(),
    )
    .run()?;
    if let Ending::Failed(sentence) | Ending::Cancelled(sentence) = ending {
        return Err(Failure::failed(sentence));
    }
    let table = Table::of_best(&results);
    let headers: Vec<&str> = table.headers.iter().map(String::as_str).collect();
    output::print(&indent(&output::table_within(&headers, &table.rows, &table.numeric, None)))?;
    tell(
        "These are the best results of short runs: a first impression. 'softroc bench' measures \
            precisely.",
    )?;
    Ok(results)
}

/// Prints the heading of a step.
fn step(number: usize, what: &str) -> Outcome {
    output::print("")?;
    output::wrapped(&format!("{number}/4 {what}"), width())
        .iter()
        .try_for_each(|line| output::print(line))
}

/// Prints sentences below a heading.
fn tell(text: &str) -> Outcome {
    text.lines()
        .flat_map(|line| output::wrapped(line, width() - 2))
        .try_for_each(|line| output::print(&indent(&line)))
}

fn width() -> usize {
    output::width().map_or(WIDTH, |width| usize::from(width).clamp(20, WIDTH))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn indent(text: &str) -> String {
    text.lines()
        .map(|line| if line.is_empty() { String::new() } else { format!("  {line}") })
        .collect::<Vec<_>>()
        .join("\n")
}

/// The controller in a separate process, as a user would run it; stopped when dropped.
struct Server {
    child: Child,
}

impl Server {
    fn start(folder: &Folder, control: &Control) -> Outcome<Server> {
        let program = std::env::current_exe().map_err(Failure::failed)?;
        let log_path = folder.file("serve.log");
        let log = std::fs::File::create(&log_path).map_err(|error| {
            Failure::refused(format!("cannot write {}: {error}", log_path.display()))
        })?;
        let child = std::process::Command::new(program)
            .arg("serve")
            .arg("--state")
            .arg(folder.state())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| Failure::failed(format!("cannot start 'softroc serve': {error}")))?;
        let mut server = Server { child };
        let deadline = Instant::now() + Duration::from_secs(30);
        while control.ask(&Command::Info {}).is_err() {
            let ended = server.child.try_wait().map_err(Failure::failed)?.is_some();
            if ended || Instant::now() > deadline {
                let log = std::fs::read_to_string(&log_path).unwrap_or_default();
                return Err(Failure::failed(format!(
                    "the controller did not start: {}",
                    log.trim()
                )));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn stop(&mut self) -> Outcome {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, rustix::process::Signal::TERM)
            .map_err(Failure::failed)?;
        let status = self.child.wait().map_err(Failure::failed)?;
        match status.success() {
            true => Ok(()),
            false => {
                Err(Failure::failed(format!("the controller ended with {status}; see serve.log")))
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) && self.stop().is_err() {
            // After an incomplete stop, the process must not outlive the tour.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
