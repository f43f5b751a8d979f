//! The report of a whole measurement, and its display in a browser if this machine has one.

// A test may use files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

// Every test uses its part of it.
#[allow(dead_code)]
mod world;

use platform::Drive;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::rc::Rc;
use std::time::Duration;
use storagebench::{
    Bench, Environment, Method, Profile, ReportOptions, Results, Settings, Target, html_report,
};
use world::{Service, TestDrive, TestWorld};

/// The standard profiles on drives with these numbers of servers, each under its own name.
fn results(targets: &[(&str, usize, u64)]) -> Results {
    let settings = Settings {
        profiles: Profile::standard(),
        outstanding: "1..64".parse().unwrap(),
        runtime: Duration::from_millis(500),
        ramp: Duration::from_millis(100),
        hollow: true,
        ..Settings::default()
    };
    let environment = [
        ("Processor", "2 × an imagined one"),
        ("Kernel", "none"),
        ("Drive", "a queue with servers"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut results = Results::new(Method::of(&settings), Environment(environment.to_vec()));
    for (name, servers, mean_us) in targets {
        let world = TestWorld::new(1);
        let drive =
            TestDrive::new(&world.env, 1 << 30, *servers, Service::Exponential(mean_us * 1000));
        let drive = Rc::new(drive.with_info(|info| info.kind = platform::DriveKind::Model));
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

/// Runs a headless browser with a preference for dark mode on a page; `None` without a browser.
fn browse(name: &str, page: &Path, arguments: &[String]) -> Option<Output> {
    let profile = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("browser-{name}"));
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
            "--blink-settings=preferredColorScheme=0",
        ])
        .args(arguments)
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(page)
        .output()
        .unwrap();
    let _ = std::fs::remove_dir_all(profile);
    Some(output)
}

/// Opens a page. Returns the browser's log, and its document.
fn open(page: &Path) -> Option<(String, String)> {
    let arguments =
        ["--enable-logging=stderr", "--log-level=0", "--dump-dom", "--window-size=1440,2400"];
    let output = browse("open", page, &arguments.map(str::to_owned))?;
    Some((
        String::from_utf8_lossy(&output.stderr).into(),
        String::from_utf8_lossy(&output.stdout).into(),
    ))
}

/// Prints a page to a PDF, with dark mode selected.
fn print(name: &str, page: &Path) -> Option<PathBuf> {
    let pdf = page.with_extension("pdf");
    let arguments =
        [format!("--print-to-pdf={}", pdf.display()), "--no-pdf-header-footer".to_owned()];
    let output = browse(name, page, &arguments)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(pdf)
}

/// The output of a poppler program for a PDF; `None` if it is not installed.
fn poppler(arguments: &[&str], pdf: &Path) -> Option<Vec<u8>> {
    let (program, arguments) = arguments.split_first().unwrap();
    let stdout = (*program == "pdftotext").then_some("-");
    let output = Command::new(program).args(arguments).arg(pdf).args(stdout).output().ok()?;
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

/// A frame of the given width with the report in it (a window cannot be as narrow as a phone), and
/// a script that appends measurements to the page's title after `name`: the width of the report,
/// its excess width, the smallest text size on the screen, the number of texts outside of their
/// figure, the number of figures.
fn frame(name: &str, report: &str, width: u32) -> String {
    let script = "<script>addEventListener('load', () => {\
        const d = document.documentElement; let least = 1e9, outside = 0;\
        for (const t of document.querySelectorAll('svg text')) {\
          const s = t.ownerSVGElement, \
          scale = s.getBoundingClientRect().width / s.viewBox.baseVal.width;\
          least = Math.min(least, parseFloat(getComputedStyle(t).fontSize) * scale);\
          const r = t.getBoundingClientRect(), b = s.getBoundingClientRect();\
          if (r.left < b.left - 1 || r.right > b.right + 1 || \
          r.top < b.top - 1 || r.bottom > b.bottom + 1) outside++;\
        }\
        const figures = document.querySelectorAll('figure svg path, figure svg rect').length ? \
          document.querySelectorAll('figure svg').length : 0;\
        parent.document.title += \
          `NAME ${d.clientWidth} ${d.scrollWidth - d.clientWidth} ${least.toFixed(1)} \
          ${outside} ${figures};`;\
      });</script></body>"
        .replace("NAME", name);
    let report = report.replace("default-src 'none'; ", "").replace("</body>", &script);
    let framed = report.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<iframe srcdoc=\"{framed}\" style=\"width:{width}px;height:2000px;border:0\"></iframe>"
    )
}

#[test]
fn a_browser_shows_the_report_without_complaint_on_a_phone_and_on_a_desk() {
    let one = results(&[("mem:1G", 8, 400)]);
    let two = results(&[
        ("/dev/disk/by-id/a-drive-with-a-rather-long-name-0001", 8, 400),
        ("mem:1G", 3, 90),
    ]);
    let options = ReportOptions { indicative: true, ..ReportOptions::default() };
    let mut frames = String::new();
    for (name, results, figures) in [("one", &one, 27), ("two", &two, 27)] {
        let page = html_report(results, &options);
        assert_eq!(page.matches("<figure>").count(), figures, "{name}");
        write(&format!("report-{name}.html"), &page);
        // Unchanged, with its own content security policy.
        let whole = page.replace('&', "&amp;").replace('"', "&quot;");
        frames += &format!("<iframe srcdoc=\"{whole}\"></iframe>");
        frames +=
            &[390, 1440].map(|width| frame(&format!("{name}-{width}"), &page, width)).concat();
    }
    let probe = write(
        "report-probe.html",
        &format!(
            "<!DOCTYPE html><html><head><title></title><link rel=icon \
                href=data:,></head><body>{frames}</body></html>"
        ),
    );
    let Some((log, document)) = open(&probe) else {
        test_tools::not_installed("chromium");
        return;
    };
    assert!(!log.contains("CONSOLE"), "{log}");
    let title = document
        .split("<title>")
        .nth(1)
        .and_then(|rest| rest.split('<').next())
        .unwrap_or_default();
    assert_eq!(title.matches(';').count(), 4, "measurements of two reports at two widths: {title}");
    for measured in title.split_terminator(';') {
        let (name, figures) = measured.split_once(' ').unwrap();
        let width: f64 = name.split('-').nth(1).unwrap().parse().unwrap();
        let figures: Vec<f64> = figures.split(' ').map(|word| word.parse().unwrap()).collect();
        let [shown, wide, least, outside, drawn] = figures[..] else { panic!("{measured}") };
        assert_eq!((wide, outside, drawn), (0.0, 0.0, 27.0), "{measured}");
        // A scrollbar may take a little of the width.
        assert!(shown > width - 20.0 && least >= 12.0, "{measured}");
    }
}

/// The number after `name="` in a tag.
fn attribute(tag: &str, name: &str) -> Option<f64> {
    tag.split(&format!(" {name}=\"")).nth(1)?.split('"').next()?.parse().ok()
}

/// A grey image (PGM): its width, and the brightness of its pixels.
fn grey(picture: &[u8]) -> (usize, &[u8]) {
    let mut words = picture.split(u8::is_ascii_whitespace);
    assert_eq!(words.next(), Some(&b"P5"[..]), "a grey picture of {} bytes", picture.len());
    let mut number =
        || std::str::from_utf8(words.next().unwrap()).unwrap().parse::<usize>().unwrap();
    let (width, height) = (number(), number());
    (width, &picture[picture.len() - width * height..])
}

/// Regression: printed profiles extended over pages. Headings and legends were alone at the foot of
/// a page, their figures on the next, and a fifth figure on a third.
#[test]
fn on_paper_each_profile_has_a_page_nothing_is_cut_and_the_paper_is_white() {
    let long = "/dev/disk/by-id/a-drive-with-a-rather-long-name-0001";
    let reports = [
        ("one", results(&[("mem:1G", 8, 400)])),
        ("two", results(&[(long, 8, 400), ("mem:1G", 3, 90)])),
    ];
    for (name, results) in &reports {
        let page =
            write(&format!("print-{name}.html"), &html_report(results, &ReportOptions::default()));
        let Some(pdf) = print(&format!("print-{name}"), &page) else {
            test_tools::not_installed("chromium");
            return;
        };
        let Some(text) = poppler(&["pdftotext"], &pdf) else {
            test_tools::not_installed("poppler-utils");
            return;
        };
        let text = String::from_utf8(text).unwrap();
        let pages: Vec<&str> = text.split_terminator('\u{C}').collect();
        each_profile_has_a_page(name, &pages);
        nothing_is_cut(name, &pdf);
        the_paper_is_white(name, &pdf, pages.len());
    }
}

fn each_profile_has_a_page(name: &str, pages: &[&str]) {
    // The summary, a page for each of the five profiles, then the table.
    for (at, profile) in
        ["file-copy", "file-server", "database", "streaming", "restore"].iter().enumerate()
    {
        let page = pages[1 + at];
        let what = format!("{name}, page {}: {page}", at + 2);
        assert!(page.starts_with(profile), "{what}");
        for (part, count) in [
            ("Throughput", 1),
            ("Latency: mean (solid) and 99th percentile (dotted)", 1),
            ("Latency distribution,", 1),
            ("over time,", 2),
            // The units below the figures' axes.
            ("outstanding I/Os", 2),
            ("percent of requests", 1),
            ("seconds", 2),
        ] {
            assert_eq!(page.matches(part).count(), count, "'{part}' on {what}");
        }
    }
}

fn nothing_is_cut(name: &str, pdf: &Path) {
    let boxes = String::from_utf8(poppler(&["pdftotext", "-bbox"], pdf).unwrap()).unwrap();
    let (mut width, mut height, mut words) = (0.0, 0.0, 0);
    for tag in boxes.lines() {
        if let (Some(wide), Some(high)) = (attribute(tag, "width"), attribute(tag, "height")) {
            (width, height) = (wide, high);
        } else if let Some(left) = attribute(tag, "xMin") {
            let [top, right, bottom] =
                ["yMin", "xMax", "yMax"].map(|name| attribute(tag, name).unwrap());
            assert!(left > 0.0 && top > 0.0 && right < width && bottom < height, "{name}: {tag}");
            // In points: content that is too wide would shrink the whole page.
            assert!(bottom - top > 6.5, "{name}: too small to read: {tag}");
            words += 1;
        }
    }
    assert!(words > 500, "{name}: {words} words");
}

fn the_paper_is_white(name: &str, pdf: &Path, pages: usize) {
    for number in 1..=pages {
        let number = number.to_string();
        let picture =
            poppler(&["pdftoppm", "-gray", "-r", "40", "-f", &number, "-l", &number], pdf).unwrap();
        let (width, points) = grey(&picture);
        let edge = |at: &usize| {
            let column = at % width;
            column == 0 || column == width - 1 || *at < width || *at >= points.len() - width
        };
        assert!(
            (0..points.len()).filter(edge).all(|at| points[at] == 255),
            "{name}, page {number}"
        );
        let white = points.iter().filter(|point| **point > 250).count();
        assert!(
            white * 10 > points.len() * 7,
            "{name}, page {number}: {white} of {}",
            points.len()
        );
    }
}
