//! `/metrics`, verified by Prometheus' own tools, and the files in `docs/monitoring`.

mod common;

use common::host::Host;
use common::{Controller, DRIVE, Folder, have, run, softroc};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MANUAL: &str = include_str!("../../../docs/operate/monitoring.md");

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/monitoring").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(docs(name)).expect(name)
}

/// A controller that serves metrics at a free port.
fn controller(name: &str, extra: &[&str]) -> Controller {
    let mut arguments = vec!["--metrics", "127.0.0.1:0"];
    arguments.extend(extra);
    Controller::with(name, &arguments)
}

/// Its metrics address.
fn address(controller: &Controller) -> String {
    let log = controller.log();
    let rest = log.split("metrics for Prometheus at http://").nth(1).expect("it says where");
    rest.split("/metrics").next().expect("an address").to_owned()
}

/// The response to a `GET`: the head and the body.
fn get(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
        .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_owned(), body.to_owned())
}

fn scrape(controller: &Controller) -> String {
    get(&address(controller), "/metrics").1
}

/// The value of a series, as printed.
fn value(page: &str, series: &str) -> Option<f64> {
    let line = page
        .lines()
        .find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// The families of a page, with their types.
fn families(page: &str) -> BTreeMap<&str, &str> {
    let lines = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    lines.filter_map(|line| line.split_once(' ')).collect()
}

/// The metrics of a page that have a help text.
fn helps(page: &str) -> Vec<&str> {
    let lines = page.lines().filter_map(|line| line.strip_prefix("# HELP "));
    lines.filter_map(|line| line.split_once(' ')).map(|(name, _)| name).collect()
}

/// Checks a text with a program; panics with its output on failure.
fn judge(program: &str, arguments: &[&str], input: &str) {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("an input").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success() && said.trim().is_empty(), "{program} says: {said}");
}

/// A controller with volumes, one of them degraded.
fn eventful(name: &str) -> Controller {
    let controller = controller(name, &["--metrics-compat", "node-md"]);
    let drives = controller.volume("data", "raid5", 3);
    controller
        .softroc(&[
            "volume", "create", "scratch", "--level", "raid0", "--drives", "mem:64M", "mem:64M",
        ])
        .ok();
    let mut host = Host::connect(&controller.nbd_socket(), "data").expect("it is served");
    host.write(0, &[7; 4096]).expect("it is written");
    host.read(0, 4096).expect("it is read");
    host.flush().expect("it is flushed");
    controller.wait_synced("data");
    controller.softroc(&["drive", "fail", &drives[2]]).ok();
    controller
}

#[test]
fn promtool_has_nothing_to_say_and_nothing_is_told_twice() {
    let controller = eventful("promtool");
    let (head, page) = get(&address(&controller), "/metrics");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    let series: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
    let names: BTreeSet<&str> =
        series.iter().filter_map(|line| line.rsplit_once(' ')).map(|(name, _)| name).collect();
    assert_eq!(names.len(), series.len(), "a series is exported twice");
    assert_eq!(value(&page, "softroc_volume_state{volume=\"data\",state=\"degraded\"}"), Some(1.0));
    assert_eq!(value(&page, "softroc_volume_state{volume=\"data\",state=\"optimal\"}"), Some(0.0));
    assert_eq!(value(&page, "softroc_volume_failures_survivable{volume=\"data\"}"), Some(0.0));
    assert_eq!(
        value(&page, "softroc_volume_failures_survivable_optimal{volume=\"data\"}"),
        Some(1.0)
    );
    assert_eq!(value(&page, "softroc_volume_hosts{volume=\"scratch\"}"), Some(0.0));
    assert!(
        value(&page, "softroc_volume_written_bytes_total{volume=\"data\"}") == Some(4096.0),
        "{page}"
    );
    if have("promtool") {
        judge("promtool", &["check", "metrics"], &page);
    }
}

#[test]
fn the_port_answers_metrics_and_nothing_else() {
    let controller = controller("port", &[]);
    let address = address(&controller);
    for path in ["/", "/v1/info", "/v1/volumes", "/metrics/more"] {
        let (head, _) = get(&address, path);
        assert!(head.starts_with("HTTP/1.1 404"), "{path}: {head}");
    }
    let mut stream = TcpStream::connect(&address).expect("it listens");
    let shutdown = r#"{"command": "shutdown"}"#;
    let head = "POST /v1/command HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\
        Content-Type: application/json";
    write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{shutdown}", shutdown.len())
        .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    controller.softroc(&["volume", "list"]).ok();
    // A client that uses all connections does not block the controller.
    let silent: Vec<TcpStream> =
        (0..64).map(|_| TcpStream::connect(&address).expect("it listens")).collect();
    controller.softroc(&["volume", "list"]).ok();
    drop(silent);
    assert!(get(&address, "/metrics").0.starts_with("HTTP/1.1 200"));
}

#[test]
fn an_address_for_others_is_refused_unless_it_is_meant() {
    let folder = Folder::new("metrics-remote");
    let state = folder.file("state");
    for (address, why) in
        [("0.0.0.0:0", "add --allow-remote"), ("unix:metrics.sock", "needs HOST:PORT")]
    {
        let said = softroc(&["serve", "--state", &state, "--metrics", address]);
        assert!(said.code != 0 && said.stderr.contains(why), "{}: {}", said.code, said.stderr);
    }
    let controller =
        Controller::with("metrics-allowed", &["--metrics", "0.0.0.0:0", "--allow-remote"]);
    assert!(
        controller.log().contains("metrics for Prometheus at http://0.0.0.0:"),
        "{}",
        controller.log()
    );
}

/// One outstanding request, so that at most one request is pending when the measurement ends.
#[test]
fn counters_equal_what_storagebench_measured() {
    let controller = controller("counters", &[]);
    let drives = ["mem:96M", "mem:96M", "mem:96M"].map(str::to_owned);
    controller.create("data", "raid5", &drives).ok();
    controller.wait_synced("data");
    let count =
        |page: &str, name: &str| value(page, &format!("{name}{{volume=\"data\"}}")).expect(name);
    let names = ["reads_completed", "read_bytes", "writes_completed", "written_bytes"]
        .map(|name| format!("softroc_volume_{name}_total"));
    let before = scrape(&controller);
    let uri = controller.uri("data");
    let mut arguments =
        vec!["bench", &uri, "--profile", "database", "--outstanding", "1", "--destroy-data"];
    arguments.extend(["--runtime", "1s", "--ramp", "0s", "--confidence", "none"]);
    let measured = controller.json(&arguments);
    let after = scrape(&controller);
    let [reads, read_bytes, writes, written_bytes] =
        names.map(|name| count(&after, &name) - count(&before, &name));
    let row = &measured["rows"][0];
    let ios = |split: &str| {
        row[split]["ios"].as_f64().unwrap_or_else(|| panic!("no {split} in {measured}"))
    };
    let (row_reads, row_writes) = (ios("read"), ios("write"));
    assert!(row_reads > 0.0 && row_writes > 0.0, "{measured}");
    let more = (reads - row_reads) + (writes - row_writes);
    assert!(reads >= row_reads && writes >= row_writes && more <= 1.0, "{reads} {writes}: {row}");
    let block = row["block_bytes"].as_f64().unwrap_or(8192.0);
    assert_eq!((read_bytes, written_bytes), (reads * block, writes * block), "{row}");
    let histogram = "softroc_volume_read_duration_seconds_count{volume=\"data\"}";
    assert_eq!(
        value(&after, histogram),
        value(&after, "softroc_volume_reads_completed_total{volume=\"data\"}")
    );
}

/// Names of metrics in a text.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| word.starts_with("softroc_") || word.starts_with("node_md_"))
        .map(|word| {
            ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| word.strip_suffix(end))
                .unwrap_or(word)
        })
        .map(str::to_owned)
        .collect()
}

/// The expressions of the dashboard, with the variables of Grafana replaced.
fn expressions(dashboard: &serde_json::Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let plain = |expression: &str| {
        let plain = expression.replace("$__rate_interval", "5m");
        ["instance", "volume", "drive"]
            .iter()
            .fold(plain, |text, name| text.replace(&format!("${name}"), ".*"))
    };
    targets.map(|target| plain(target["expr"].as_str().expect("an expression"))).collect()
}

#[test]
fn what_is_shipped_names_what_is_exported() {
    let controller = eventful("shipped");
    let page = scrape(&controller);
    let exported: BTreeSet<String> =
        families(&page).keys().map(|name| (*name).to_owned()).collect();
    let dashboard: serde_json::Value = serde_json::from_str(&text("dashboard.json")).expect("JSON");
    let variables = dashboard["templating"]["list"].to_string();
    let expressions = expressions(&dashboard);
    assert!(expressions.len() > 30, "{expressions:?}");
    for (what, named) in [
        ("dashboard.json", metrics_in(&(expressions.join("\n") + &variables))),
        ("alerts.yml", metrics_in(&text("alerts.yml"))),
        ("alerts_test.yml", metrics_in(&text("alerts_test.yml"))),
        ("docs/operate/monitoring.md", metrics_in(MANUAL)),
    ] {
        let unknown: Vec<&String> = named.difference(&exported).collect();
        assert!(unknown.is_empty(), "{what} names metrics that are not exported: {unknown:?}");
    }
    // The manual describes the most important metrics; each metric has a help text.
    let explained: BTreeSet<String> = helps(&page).into_iter().map(str::to_owned).collect();
    let missing: Vec<&String> = exported.difference(&explained).collect();
    assert!(missing.is_empty(), "exported without a help text: {missing:?}");
    if have("promtool") {
        // Each expression becomes a recording rule, so that its syntax is checked.
        let mut rules = "groups:\n  - name: panels\n    rules:\n".to_owned();
        for (number, expression) in expressions.iter().enumerate() {
            let quoted = expression.replace('\'', "''");
            rules.push_str(&format!("      - record: panel:{number}\n        expr: '{quoted}'\n"));
        }
        let file = controller.folder.file("panels.yml");
        std::fs::write(&file, rules).expect("a file");
        run("promtool", &["check", "rules", &file]);
        run("promtool", &["check", "rules", docs("alerts.yml").to_str().expect("a path")]);
        run("promtool", &["test", "rules", docs("alerts_test.yml").to_str().expect("a path")]);
    }
}

/// Exported pages as series for `promtool test rules`: each page for five minutes. A series that is
/// no longer exported is stale, as Prometheus marks it.
fn as_series(pages: &[String]) -> String {
    let mut series: BTreeMap<&str, Vec<Option<&str>>> = BTreeMap::new();
    for (number, page) in pages.iter().enumerate() {
        for (name, value) in page.lines().filter_map(|line| line.rsplit_once(' ')) {
            if !name.starts_with('#') {
                series.entry(name).or_insert_with(|| vec![None; pages.len()])[number] = Some(value);
            }
        }
    }
    let values = |values: &[Option<&str>]| -> String {
        let each = |value: &Option<&str>| {
            value.map_or("stale _x4".to_owned(), |value| format!("{value}x4"))
        };
        values.iter().map(each).collect::<Vec<_>>().join(" ")
    };
    let line = |(name, all): (&&str, &Vec<Option<&str>>)| {
        format!("      - series: '{name}'\n        values: '{}'\n", values(all))
    };
    series.iter().map(line).collect()
}

/// At the end of each page exactly these of the selected alerts fire.
fn fires(folder: &Folder, rules: &Path, pages: &[String], asked: &str, expected: &[&[&str]]) {
    let mut test =
        format!("rule_files: ['{}']\nevaluation_interval: 1m\ntests:\n", rules.display());
    test.push_str("  - interval: 1m\n    input_series:\n");
    test.push_str(&as_series(pages));
    test.push_str("    promql_expr_test:\n");
    for (number, alerts) in expected.iter().enumerate() {
        let query =
            format!("max by (alertname) (ALERTS{{alertstate=\"firing\",alertname=~\"{asked}\"}})");
        test.push_str(&format!("      - expr: {query}\n        eval_time: {}m\n", number * 5 + 4));
        let sample = |alert: &&str| {
            format!("          - labels: '{{alertname=\"{alert}\"}}'\n            value: 1\n")
        };
        test.push_str("        exp_samples:\n");
        alerts.iter().for_each(|alert| test.push_str(&sample(alert)));
    }
    let file = folder.file("rules_test.yml");
    std::fs::write(&file, test).expect("a file");
    run("promtool", &["test", "rules", &file]);
}

/// The original rules of awesome-prometheus-alerts for Linux md (tests/judges, CC BY 4.0), and
/// ours.
#[test]
fn alerts_fire_while_a_drive_is_out_and_end_when_it_is_rebuilt() {
    if !have("promtool") {
        return;
    }
    let controller = controller("alerts", &["--metrics-compat", "node-md"]);
    let drives = controller.volume("data", "raid5", 3);
    let mut host = Host::connect(&controller.nbd_socket(), "data").expect("it is served");
    host.write(0, &[7; 1 << 20]).expect("it is written");
    controller.wait_synced("data");
    let well = scrape(&controller);
    controller.softroc(&["drive", "fail", &drives[1]]).ok();
    let out = scrape(&controller);
    let new = controller.folder.file("new.img");
    controller.softroc(&["drive", "add", "--create", DRIVE, &new]).ok();
    controller.softroc(&["drive", "replace", &drives[1], "--with", &new]).ok();
    controller.wait_optimal("data");
    controller.softroc(&["drive", "forget", &drives[1]]).ok();
    let mended = scrape(&controller);
    let pages = [well, out, mended];
    let judges =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges/awesome-prometheus-alerts");
    let (insufficient, failed) =
        ("HostSoftwareRaidInsufficientDrives", "HostSoftwareRaidDiskFailure");
    let theirs = judges.join("node-exporter.yml");
    let both: &[&str] = &[failed, insufficient];
    fires(&controller.folder, &theirs, &pages, "HostSoftwareRaid.*", &[&[], both, &[]]);
    let ours = docs("alerts.yml").canonicalize().expect("the rules");
    let all: &[&str] = &["SoftrocDriveOut", "SoftrocNoRedundancyLeft", "SoftrocVolumeDegraded"];
    fires(&controller.folder, &ours, &pages, "Softroc.*", &[&[], all, &[]]);
}

/// A Prometheus server. Ended on drop.
struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    fn scraping(folder: &Folder, target: &str) -> Prometheus {
        let config = folder.file("prometheus.yml");
        let job = |name: &str, target: &str| {
            format!("  - job_name: {name}\n    static_configs:\n      - targets: ['{target}']\n")
        };
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("its address").to_string();
        drop(free);
        let settings =
            "global:\n  scrape_interval: 200ms\n  scrape_timeout: 200ms\nscrape_configs:\n"
                .to_owned();
        std::fs::write(&config, settings + &job("softroc", target) + &job("itself", &address))
            .expect("a file");
        let log = std::fs::File::create(folder.file("prometheus.log")).expect("a log");
        let child = Command::new("prometheus")
            .arg(format!("--config.file={config}"))
            .arg(format!("--storage.tsdb.path={}", folder.file("tsdb")))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("prometheus starts");
        Prometheus { child, address }
    }

    /// The first value of a query's result, if any.
    fn query(&self, query: &str) -> Option<f64> {
        let url = format!("http://{}", self.address);
        let output =
            Command::new("promtool").args(["query", "instant", &url, query]).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().next()?.split("=> ").nth(1)?.split(' ').next()?.parse().ok()
    }

    fn until(&self, query: &str, is_so: impl Fn(f64) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let value = self.query(query);
            if value.is_some_and(&is_so) {
                return;
            }
            assert!(Instant::now() < deadline, "{query} is {value:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_prometheus_scrapes_while_volumes_come_and_go() {
    if !have("prometheus") || !have("promtool") {
        return;
    }
    let controller = controller("prometheus", &[]);
    let drives = controller.file_drives(3);
    let prometheus = Prometheus::scraping(&controller.folder, &address(&controller));
    prometheus.until("up{job=\"softroc\"}", |up| up == 1.0);
    for round in 0..3 {
        let name = format!("v{round}");
        controller.create(&name, "raid5", &drives).ok();
        prometheus
            .until(&format!("softroc_volume_state{{volume=\"{name}\",state=\"optimal\"}}"), |is| {
                is == 1.0
            });
        controller.softroc(&["drive", "fail", &format!("{name}:0")]).ok();
        prometheus
            .until(&format!("softroc_volume_failures_survivable{{volume=\"{name}\"}}"), |left| {
                left == 0.0
            });
        controller.softroc(&["volume", "delete", &name, "--yes"]).ok();
        controller.softroc(&["drive", "clear-failed", &drives[0]]);
        prometheus
            .until(&format!("absent(softroc_volume_info{{volume=\"{name}\"}})"), |is| is == 1.0);
    }
    prometheus.until("count_over_time(up{job=\"softroc\"}[10m])", |scrapes| scrapes >= 20.0);
    assert_eq!(
        prometheus.query(
            "sum_over_time(up{job=\"softroc\"}[10m]) - count_over_time(up{job=\"softroc\"}[10m])"
        ),
        Some(0.0)
    );
    for dropped in ["sample_duplicate_timestamp", "sample_out_of_order", "sample_out_of_bounds"] {
        let total = format!("prometheus_target_scrapes_{dropped}_total");
        prometheus.until(&total, |count| count == 0.0);
    }
}
