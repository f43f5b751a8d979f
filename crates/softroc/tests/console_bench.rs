//! Measurements and predictions in the console: the same as on the command line, with live
//! progress, by permitted users.

mod common;

use common::browser::Browser;
use common::managed::{Managed, between};
use common::pages::{ask, curl, enter, head, served, sign_in, token};
use common::{have, until, until_long};

/// The page of a measurement of the volume, for a user.
fn page(managed: &Managed, who: &str) -> String {
    let (status, page) = curl(managed, who, "", "/console/bench?of=data");
    assert_eq!(status, "200", "{page}");
    page
}

/// A part of a page, up to the next one.
fn part<'p>(page: &'p str, id: &str) -> &'p str {
    between(page, &format!("<section id=\"{id}\""), "</section>")
}

/// Signs a user in, and returns the fields of their forms.
fn entered(managed: &Managed, who: &str) -> String {
    assert_eq!(sign_in(managed, who), "303");
    token(&page(managed, who)).to_owned()
}

const READS: &str =
    "-d verb=bench-run -d of=data -d profile=random-read -d outstanding=1,4 -d runtime=300ms";

#[test]
fn a_volume_is_measured_from_its_page_as_the_command_line_measures_it() {
    if !have("curl") {
        return;
    }
    let managed = served("console-bench");
    let (otto, rita) = (entered(&managed, "otto"), entered(&managed, "rita"));
    assert_eq!(ask(&managed, "rita", &rita, READS).0, "403");
    let (status, said) = ask(&managed, "otto", &otto, READS);
    assert_eq!(status, "303", "{said}");
    // One measurement runs at a time; later visitors see it.
    let (status, said) = ask(&managed, "otto", &otto, READS);
    assert!(
        status == "503" && said.contains("only one may run; wait, or stop it first"),
        "{status} {said}"
    );
    assert!(part(&page(&managed, "rita"), "run").contains("by otto"));
    until_long("it is measured", || {
        part(&page(&managed, "rita"), "run").contains("</span> done</span>")
    });
    let shown = page(&managed, "rita");
    let run = part(&shown, "run");
    for fact in ["random-read, 1<", "random-read, 4<", "Stored as run 1", "--profile=random-read"] {
        assert!(run.contains(fact), "no '{fact}' in {run}");
    }
    // The page shows the stored result, and its command line is valid.
    let kept = managed.controller.json(&["bench", "show", "last"]);
    let rows = kept["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2, "{kept}");
    for row in rows {
        let rate = row["iops"].as_f64().expect("a rate");
        let shown = if rate >= 100.0 { format!("{rate:.0}") } else { format!("{rate:.1}") };
        assert!(run.contains(&format!("\"Requests/s\">{shown}")), "no {shown} in {run}");
    }
    let command = kept["method"]["command"].as_str().expect("a command line");
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    assert!(managed.controller.softroc(&words).ok().contains("random-read"), "{command}");
    let events = managed.controller.softroc(&["events"]).ok();
    assert!(
        events.contains("under the load random-read began: the measurement only reads"),
        "{events}"
    );
    assert!(
        events.contains("under the load random-read ended: the measurement is complete"),
        "{events}"
    );
    // Its report is a separate page, as written by `bench --report`, without access to the session.
    let (status, report) = curl(&managed, "rita", "", "/console/bench-report");
    assert!(
        status == "200" && report.contains("StorageBench") && report.contains("volume:data"),
        "{status}"
    );
    let told = head(&managed, "rita");
    assert!(
        told.contains("default-src 'none'; style-src 'unsafe-inline'") && told.contains("sandbox"),
        "{told}"
    );
    curl(&managed, "rita", "", "/console/bench-report?save=yes");
    assert!(
        head(&managed, "rita")
            .contains("content-disposition: attachment; filename=\"storagebench.html\"")
    );
}

#[test]
fn a_load_that_writes_takes_the_name_of_the_volume_and_an_administrator() {
    if !have("curl") {
        return;
    }
    let managed = served("console-writes");
    let (otto, ada) = (entered(&managed, "otto"), entered(&managed, "ada"));
    let writes = READS.replace("random-read", "random-write");
    let with = |word: &str| format!("{writes} -d word={word}");
    // A volume with host data is not overwritten by a click.
    let mut host = common::host::Host::connect(&managed.controller.nbd_socket(), "data")
        .expect("it is served");
    host.write(0, &[7; 4096]).expect("it is written");
    drop(host);
    for (who, token, form, expected, why) in [
        ("otto", &otto, writes.clone(), "409", "type the volume&#39;s name as an administrator"),
        ("ada", &ada, writes.clone(), "409", "or choose a read-only load"),
        ("otto", &otto, with("data"), "403", "takes administrator"),
        (
            "ada",
            &ada,
            with("date"),
            "400",
            "&#39;date&#39; is not the name of the volume &#39;data&#39;",
        ),
        ("ada", &ada, with("data").replace("300ms", "soon"), "400", "is not a time"),
        ("ada", &ada, with("data").replace("random-write", "--help"), "400", "not a load profile"),
        ("ada", &ada, READS.replace("of=data", "of=nothing"), "404", "nothing"),
    ] {
        let (status, page) = ask(&managed, who, token, &form);
        assert!(status == expected && page.contains(why), "{who} {form}: {status} {page}");
    }
    let mut host = common::host::Host::connect(&managed.controller.nbd_socket(), "data")
        .expect("it is served");
    assert_eq!(host.read(0, 4096).expect("it is read"), [7; 4096]);
    // With a connected host, only on explicit request.
    assert_eq!(ask(&managed, "ada", &ada, READS).0, "303");
    let over = |sign: &str| {
        until_long("it is over", || part(&page(&managed, "ada"), "run").contains(sign))
    };
    over("</span> failed</span>");
    assert!(
        part(&page(&managed, "ada"), "run").contains("whose I/O would distort the measurement")
    );
    assert_eq!(ask(&managed, "ada", &ada, &format!("{READS} -d beside=yes")).0, "303");
    over("</span> done</span>");
    drop(host);
    assert_eq!(ask(&managed, "ada", &ada, &with("data")).0, "303");
    over("random-write, 4<");
    over("</span> done</span>");
    let events = managed.controller.softroc(&["events"]).ok();
    assert!(events.contains("under the load random-write began: its data may be lost"), "{events}");
}

/// An abandoned measurement: it is stopped, and keeps its partial result. Or it ends with the
/// controller.
#[test]
fn a_measurement_is_stopped_and_keeps_no_controller_from_ending() {
    if !have("curl") {
        return;
    }
    let mut managed = served("console-stopped");
    let ada = entered(&managed, "ada");
    let long = READS.replace("outstanding=1,4", "outstanding=1,2,3").replace("300ms", "30m");
    assert_eq!(ask(&managed, "ada", &ada, "-d verb=bench-stop").0, "409");
    assert_eq!(ask(&managed, "ada", &ada, &long).0, "303");
    until("it runs", || part(&page(&managed, "ada"), "run").contains("requests/s, "));
    let shown = page(&managed, "ada");
    assert!(
        part(&shown, "run").contains("(point 1 of 3)") && part(&shown, "run").contains("left."),
        "{shown}"
    );
    assert_eq!(ask(&managed, "ada", &ada, "-d verb=bench-stop").0, "303");
    until_long("it is stopped", || {
        part(&page(&managed, "ada"), "run").contains("</span> stopped</span>")
    });
    assert_eq!(ask(&managed, "ada", &ada, &long).0, "303");
    until("it runs", || part(&page(&managed, "ada"), "run").contains("requests/s, "));
    managed.controller.stop();
    managed.controller.start();
    managed.controller.wait_optimal("data");
}

/// Predicts the same load for another controller while pages and hosts are served, and shows both
/// figures side by side.
#[test]
fn what_another_controller_would_do_stands_beside_what_was_measured() {
    if !have("curl") {
        return;
    }
    let managed = served("console-predict");
    let ada = entered(&managed, "ada");
    assert_eq!(ask(&managed, "ada", &ada, READS).0, "303");
    let predict = |controller: &str, outstanding: &str| {
        format!(
            "-d verb=predict-run -d of=data -d level=raid5 -d drives=3 -d spans=1 -d strip=64 -d \
                controller={controller} -d drive=SAS-12G-SSD -d profile=random-read -d \
                outstanding={outstanding}"
        )
    };
    let (status, said) = ask(&managed, "ada", &ada, &predict("C610", "1,4"));
    assert!(status == "400" && said.contains("C610 has no raid5"), "{status} {said}");
    assert_eq!(ask(&managed, "ada", &ada, &predict("HBA", "1,4")).0, "303");
    let shows = |id: &str, what: &str| {
        until_long(what, || {
            std::thread::sleep(std::time::Duration::from_millis(500));
            part(&page(&managed, "ada"), id).contains(what)
        });
    };
    shows("prediction", "</span> done</span>");
    shows("compared", "random-read, 4 outstanding");
    let shown = page(&managed, "ada");
    let words =
        ["predict", "--controller=HBA", "--drives=3xSAS-12G-SSD", "--level=raid5", "--strip=64K"];
    assert!(part(&shown, "prediction").contains(&words[1..].join(" ")), "{shown}");
    let load = ["--profile=random-read", "--outstanding=1,4", "--json"];
    let told = managed.controller.softroc(&[&words[..], &load[..]].concat()).ok();
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    for row in told["rows"].as_array().expect("rows") {
        let rate = format!("{:.0}", row["iops"].as_f64().expect("a rate"));
        assert!(
            part(&shown, "compared").contains(&format!("\"Predicted/s\">{rate}<")),
            "{rate}: {shown}"
        );
    }
    let (status, both) = curl(&managed, "ada", "", "/console/bench-report?beside=yes");
    assert!(status == "200" && both.contains("prediction of HBA"), "{status} {both}");
    // A prediction of many points on rotating drives takes long, and is stopped.
    let long = predict("HBA", "1..512")
        .replace("SAS-12G-SSD", "Nearline-20TB-HDD")
        .replace("drives=3", "drives=24");
    assert_eq!(ask(&managed, "ada", &ada, &long).0, "303");
    let (status, said) = ask(&managed, "ada", &ada, &predict("HBA", "2"));
    assert!(status == "503" && said.contains("only one may run"), "{status} {said}");
    assert_eq!(ask(&managed, "ada", &ada, "-d verb=predict-stop").0, "303");
    shows("prediction", "</span> stopped</span>");
}

/// For each possible level, by permitted users: the figures of `softroc predict`.
#[test]
fn levels_are_predicted_before_one_is_chosen() {
    if !have("curl") {
        return;
    }
    let managed = served("console-levels");
    let folder = &managed.controller.folder;
    let drives: Vec<String> = (0..2).map(|number| folder.file(&format!("n{number}.img"))).collect();
    let mut add = vec!["drive", "add", "--create", common::DRIVE];
    add.extend(drives.iter().map(String::as_str));
    managed.controller.softroc(&add).ok();
    let chosen: String =
        drives.iter().map(|drive| format!("drive={}&", drive.replace('/', "%2F"))).collect();
    let path = format!("/console/create?{chosen}controller=HBA&model=SAS-12G-SSD&level=raid1");
    for who in ["rita", "otto"] {
        sign_in(&managed, who);
    }
    let raid1 = |who: &str| {
        let page = curl(&managed, who, "", &path).1;
        let row = between(&page, "<th scope=\"row\">raid1</th>", "</tr>").to_owned();
        (between(&row, "\"Predicted IOPS\">", "<").to_owned(), page)
    };
    assert_eq!(raid1("rita").0, "–", "read-only users cannot start one");
    // Low frequency: predictions have a low priority.
    until_long("it is predicted", || {
        std::thread::sleep(std::time::Duration::from_millis(500));
        raid1("otto").0.parse::<u64>().is_ok()
    });
    let (rate, page) = raid1("otto");
    let command = between(&page, "Predicted by <code>softroc ", "</code>");
    let told: Vec<&str> = command.split(' ').chain(["--json"]).collect();
    let told = managed.controller.softroc(&told).ok();
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(
        format!("{:.0}", told["rows"][0]["iops"].as_f64().expect("a rate")),
        rate,
        "{command}"
    );
}

#[test]
fn an_open_page_is_told_how_a_measurement_goes() {
    let managed = served("console-watch");
    let Some(mut browser) = Browser::start(&managed.controller.folder.0.display().to_string())
    else {
        return;
    };
    enter(&mut browser, &managed, "/console/bench?of=data");
    browser.until("document.getElementById('pulse').textContent === 'Live.'");
    let asked = browser.asked_for().len();
    sign_in(&managed, "otto");
    let token = token(&page(&managed, "otto")).to_owned();
    assert_eq!(ask(&managed, "otto", &token, &READS.replace("300ms", "3s")).0, "303");
    browser.until("document.querySelector('#run progress') !== null");
    browser.until("document.getElementById('run').textContent.includes('requests/s, ')");
    browser.until("document.querySelectorAll('#run tbody tr').length === 2");
    browser.until("document.querySelector('#run .badge').textContent.includes('done')");
    assert_eq!(
        browser.asked_for()[asked..],
        Vec::<String>::new(),
        "it receives updates, and sends no requests"
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
