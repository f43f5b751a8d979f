//! The report of a whole measurement, and what a browser makes of it where this machine has one.

// A test may use files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

// Every test uses its part of it.
#[allow(dead_code)]
mod world;

use env::Drive;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;
use storagebench::{
    Bench, Environment, Method, Profile, ReportOptions, Results, Settings, Target, html_report,
};
use world::{Service, TestDrive, TestWorld};

/// The standard profiles on drives of so many servers, each under its own name.
fn results(targets: &[(&str, usize, u64)]) -> Results {
    let settings = Settings {
        profiles: Profile::standard(),
        outstanding: "1..64".parse().unwrap(),
        runtime: Duration::from_secs(2),
        ramp: Duration::from_millis(200),
        hollow: true,
        ..Settings::default()
    };
    let environment =
        [("Processor", "2 × an imagined one"), ("Kernel", "none"), ("Drive", "a queue with servers")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut results = Results::new(Method::of(&settings), Environment(environment.to_vec()));
    for (name, servers, mean_us) in targets {
        let world = TestWorld::new(1);
        let drive = TestDrive::new(&world.env, 1 << 30, *servers, Service::Exponential(mean_us * 1000));
        let drive = Rc::new(drive.with_info(|info| info.kind = env::DriveKind::Model));
        let target = Target::attached(*name, drive as Rc<dyn Drive>);
        let (env, bench) = (world.env.clone(), Bench::new(settings.clone()));
        results.add(world.run(async move { bench.run(&env, &target).await }).unwrap());
    }
    results
}

fn write(name: &str, page: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, page).unwrap();
    path
}

/// Opens a page in a headless browser of that width; `None` where there is none. Returns what it logged, and
/// the document as the browser understood it.
fn open(page: &Path, width: u32) -> Option<(String, String)> {
    let profile = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("browser-{width}"));
    let browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    })?;
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
        ])
        .args(["--enable-logging=stderr", "--log-level=0", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--window-size={width},2400"))
        .arg(page)
        .output()
        .unwrap();
    let _ = std::fs::remove_dir_all(profile);
    Some((String::from_utf8_lossy(&output.stderr).into(), String::from_utf8_lossy(&output.stdout).into()))
}

/// A page with the report in a frame of the given width (a window cannot be as narrow as a phone), and in it a
/// script that writes what it measures into the title: how far the report is too wide, the smallest text's size
/// on the screen, how many texts are outside their figure.
fn probe(report: &str, width: u32) -> String {
    let script = "<script>addEventListener('load', () => {\
        const d = document.documentElement; let least = 1e9, outside = 0;\
        for (const t of document.querySelectorAll('svg text')) {\
          const s = t.ownerSVGElement, scale = s.getBoundingClientRect().width / s.viewBox.baseVal.width;\
          least = Math.min(least, parseFloat(getComputedStyle(t).fontSize) * scale);\
          const r = t.getBoundingClientRect(), b = s.getBoundingClientRect();\
          if (r.left < b.left - 1 || r.right > b.right + 1 || r.top < b.top - 1 || r.bottom > b.bottom + 1) outside++;\
        }\
        parent.document.title = `${d.clientWidth} ${d.scrollWidth - d.clientWidth} ${least.toFixed(1)} ${outside}`;\
      });</script></body>";
    let report = report.replace("default-src 'none'; ", "").replace("</body>", script);
    let framed = report.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!DOCTYPE html><html><head><title></title><link rel=icon href=data:,></head><body>\
         <iframe srcdoc=\"{framed}\" style=\"width:{width}px;height:2000px;border:0\"></iframe></body></html>"
    )
}

#[test]
fn a_browser_shows_the_report_without_complaint_on_a_phone_and_on_a_desk() {
    let one = results(&[("mem:1G", 8, 400)]);
    let two = results(&[("/dev/disk/by-id/a-drive-with-a-rather-long-name-0001", 8, 400), ("mem:1G", 3, 90)]);
    let options = ReportOptions { indicative: true, ..ReportOptions::default() };
    for (name, results) in [("report-one.html", one), ("report-two.html", two)] {
        let page = html_report(&results, &options);
        write(name, &page);
        for width in [390, 1440] {
            let probe = write(&format!("probe-{width}-{name}"), &probe(&page, width));
            let Some((log, document)) = open(&probe, width) else {
                println!("skipped: no chromium on this machine");
                return;
            };
            assert!(!log.contains("CONSOLE"), "{log}");
            let title =
                document.split("<title>").nth(1).and_then(|rest| rest.split('<').next()).unwrap_or_default();
            let figures: Vec<f64> = title.split(' ').filter_map(|word| word.parse().ok()).collect();
            let [shown, wide, least, outside] = figures[..] else { panic!("no measurements: {title}") };
            assert_eq!((wide, outside), (0.0, 0.0), "{name} at {width}: {title}");
            // A bar to scroll by may take a little of the width.
            assert!(shown > f64::from(width) - 20.0 && least >= 12.0, "{name} at {width}: {title}");
        }
    }
}
