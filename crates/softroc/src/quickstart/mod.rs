//! `softroc quickstart`: the tour. It creates eight file drives, a RAID 6 volume on seven of them
//! and a hot spare, and measures the volume over NBD with the five standard load profiles. Then it
//! fails a drive under load: the spare replaces it, and the tour verifies the data. Finally it
//! stops everything.

mod folder;
mod losing;

use crate::cli::Quickstart;
use crate::control::Control;
use crate::failure::{Failure, Outcome};
use crate::{bench, output, progress, render};
use controller::{AddSpare, Command, CreateVolume, Reply};
use folder::Folder;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use storagebench::{Ending, Profile, Settings, Table};
use units::ByteCount;

const DRIVES: usize = 8;
const DRIVE_SIZE: ByteCount = ByteCount(256 << 20);
const DEPTHS: &str = "1,8,32";
const RAMP: Duration = Duration::from_millis(300);
const VOLUME: &str = "tour";
/// How long a drive may not respond, since the disk below the tour's files may be busy.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Runs the tour.
pub fn run(tour: &Quickstart) -> Outcome {
    let folder = Folder::take(&tour.dir)?;
    let outcome = take_tour(tour, &folder);
    if !tour.keep {
        folder.clear();
    }
    outcome
}

fn take_tour(tour: &Quickstart, folder: &Folder) -> Outcome {
    let state = folder.state();
    let drives: Vec<PathBuf> = (0..DRIVES).map(|i| folder.drives().join(format!("drive{i}.img"))).collect();
    say(&format!("Starting the controller in {}", state.display()));
    let control = Control::new(&state, None);
    let mut server = Server::start(folder, &control)?;

    create(&control, &drives)?;
    let address = control.volume_address(VOLUME)?;
    say("The plan of an 8 KiB write (softroc explain --volume tour write 8K@1M)");
    let explained = control.ask(&Command::Explain(controller::Explain {
        volume: Some(VOLUME.into()),
        operation: "write".into(),
        offset_bytes: 1 << 20,
        size_bytes: 8192,
        ..controller::Explain::default()
    }))?;
    output::print(&indent(&render::reply(&explained)))?;

    let results = measure(tour, &address, &control)?;
    losing::run(&control, &address)?;

    let report = folder.file("report.html");
    output::write_file(&report, &bench::report(&results, true))?;
    let json = folder.file("report.json");
    output::write_file(&json, &results.to_json())?;

    say("The best result of each profile (a few seconds each: indicative)");
    let table = Table::of_best(&results);
    let headers: Vec<&str> = table.headers.iter().map(String::as_str).collect();
    output::print(&indent(&output::table(&headers, &table.rows, &table.numeric)))?;

    say("Stopping");
    let shown = control.ask(&Command::VolumeShow { volume: VOLUME.into() });
    server.stop()?;
    if let Ok(Reply::Volume { volume, .. }) = shown {
        output::print(&indent(&format!("The volume is {} at the end.", volume.state)))?;
    }
    let kept = if tour.keep {
        format!("The drives are kept: 'softroc serve --state {}' serves the volume again.", state.display())
    } else {
        "The drive files are removed (--keep keeps them).".into()
    };
    output::print(&format!("\nReport: {}\n        {}\n{kept}", report.display(), json.display()))
}

/// The volume on all drives except the last one, the spare.
fn create(control: &Control, drives: &[PathBuf]) -> Outcome {
    let mut names: Vec<String> = drives.iter().map(|drive| drive.to_string_lossy().into_owned()).collect();
    let spare = names.pop().unwrap_or_default();
    say(&format!(
        "Creating {DRIVES} file drives of {DRIVE_SIZE}, a RAID 6 volume on {} of them, and a hot spare",
        names.len()
    ));
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
    let create =
        CreateVolume { name: VOLUME.into(), level: "raid6".into(), drives: names, ..CreateVolume::default() };
    let reply = ask_patiently(control, &Command::VolumeCreate(create))?;
    let spare = AddSpare { drive: spare, revertible: true, ..AddSpare::default() };
    ask_patiently(control, &Command::SpareAdd(spare))?;
    output::print(&indent(&render::reply(&reply)))?;
    output::print(&indent(&render::reply(&control.ask(&Command::SpareList {})?)))
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

fn measure(tour: &Quickstart, address: &str, control: &Control) -> Outcome<storagebench::Results> {
    let settings = Settings {
        profiles: Profile::standard(),
        outstanding: DEPTHS.parse()?,
        runtime: tour.runtime,
        ramp: RAMP,
        // A quick measurement: it must end within the announced time.
        confidence_percent: None,
        ..Settings::default()
    };
    say(&format!(
        "Measuring through {address}: {} profiles, {} depths each, about {}",
        settings.profiles.len(),
        settings.outstanding.rungs().len(),
        progress::seconds(settings.duration())
    ));
    let cancel = bench::cancel_on_interrupt()?;
    let targets = [(format!("volume:{VOLUME}"), address.to_owned())];
    let environment = bench::environment_of(&targets, control);
    let bench::Finished { results, ending, .. } =
        bench::Measurement::new(settings, targets.to_vec(), bench::AtOnce::One, environment, cancel).run()?;
    match ending {
        Ending::Failed(sentence) => Err(Failure::failed(sentence)),
        Ending::Complete | Ending::Cancelled(_) => Ok(results),
    }
}

fn say(line: &str) {
    output::say(&format!("\n{line} …"));
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
        let log = std::fs::File::create(&log_path)
            .map_err(|error| Failure::refused(format!("cannot write {}: {error}", log_path.display())))?;
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
                return Err(Failure::failed(format!("the controller did not start: {}", log.trim())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn stop(&mut self) -> Outcome {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).map_err(Failure::failed)?;
        let status = self.child.wait().map_err(Failure::failed)?;
        match status.success() {
            true => Ok(()),
            false => Err(Failure::failed(format!("the controller ended with {status}; see serve.log"))),
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
