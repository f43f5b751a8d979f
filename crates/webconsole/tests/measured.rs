//! Benchmarks and predictions on pages, and the command lines of their forms.

mod world;

use access::{Action, Role};
use controller::ErrorKind;
use webconsole::{
    ConsoleAction, Live, Load, Measure, Model, Offer, Order, Point, Predict, Prediction, Run,
    Stage, Workbench, World,
};
use world::{NOW, html, query};

fn point(outstanding: u32, per_s: f64) -> Point {
    Point {
        profile: "database".to_owned(),
        outstanding,
        per_s,
        mib_per_s: per_s / 128.0,
        mean_us: Some(f64::from(outstanding) / per_s * 1e6),
        p99_us: None,
        sure_percent: Some(1.5),
    }
}

fn load(name: &str, writes: bool) -> Load {
    let (load, prose) = ("random, 8 KiB".to_owned(), "what <databases> do".to_owned());
    Load { name: name.to_owned(), load, prose, writes }
}

fn model(name: &str, strips_kib: &[u64]) -> Model {
    Model {
        name: name.to_owned(),
        about: format!("Model {name}"),
        rotates: true,
        strips_kib: strips_kib.to_vec(),
    }
}

fn measure() -> Measure {
    Measure {
        volume: "data".to_owned(),
        profile: "database".to_owned(),
        outstanding: "1,8".to_owned(),
        runtime: "5s".to_owned(),
        destroy_data: false,
        beside_hosts: false,
    }
}

/// A world with a running benchmark of `data` and a prediction for it.
fn world() -> World {
    let run = Run {
        order: measure(),
        by: "otto".to_owned(),
        begun_unix_s: NOW - 600,
        stage: Stage::Runs,
        live: Some(Live {
            profile: "database".to_owned(),
            outstanding: 8,
            phase: "run",
            per_s: 1234.4,
            mib_per_s: 9.64,
            mean_us: Some(6480.0),
            errors: 2,
            point: (2, 2),
            percent: 71,
            left_s: 3,
        }),
        points: vec![point(1, 300.0)],
        notes: Vec::new(),
    };
    let order = Predict {
        controller: "EP420i".to_owned(),
        drives: (3, "SAS-12G-HDD".to_owned()),
        level: "raid5".to_owned(),
        spans: 1,
        strip_kib: Some(256),
        profile: "database".to_owned(),
        outstanding: "1,8".to_owned(),
        failed: Vec::new(),
    };
    let prediction = Prediction {
        order,
        stage: Stage::Done,
        percent: 100,
        points: vec![point(1, 600.0), point(8, 2000.0)],
        notes: vec!["database: limited by the drives, busy 99 %".to_owned()],
    };
    let offer = Offer {
        profiles: vec![load("database", true), load("random-read", false)],
        controllers: vec![model("HBA", &[64, 256]), model("EP420i", &[64])],
        drives: vec![model("SAS-12G-HDD", &[])],
    };
    let workbench = Workbench { offer, run: Some(run), prediction: Some(prediction) };
    World { workbench, ..world::world() }
}

fn page(world: &World, role: Role) -> String {
    html(world, role, "bench", &[("of", "data")])
}

#[test]
fn a_measurement_is_seen_while_it_runs_and_beside_a_prediction() {
    let mut world = world();
    let shown = page(&world, Role::ReadOnly);
    for fact in [
        "Measurement of data",
        "71 %, about 3 s left. 1234 requests/s, 9.6 MiB/s, 6.5 ms each, 2 failed: database, 8 \
            outstanding, run (point 2 of 2)",
        "by otto",
        "softroc bench volume:data --profile=database --outstanding=1,8 --runtime=5s",
        "Predicted: EP420i, 3 × SAS-12G-HDD, raid5",
        "The model has no journal and no SoftROC cache.",
        "Database: limited by the drives, busy 99 %.",
        // 300 of 600; rows without a counterpart are left out.
        "database, 1 outstanding",
        "\"Measured / predicted\">50 %<",
        "The load uses NBD",
        "what &#60;databases&#62; do",
    ] {
        assert!(shown.contains(fact), "no '{fact}' in {shown}");
    }
    assert!(
        !shown.contains("database, 8 outstanding</th>") && !shown.contains("bench-report"),
        "{shown}"
    );
    // A prediction for another number of drives is not compared.
    let mut wider = world.clone();
    wider.workbench.prediction.as_mut().expect("it is known").order.drives.0 = 4;
    assert!(!page(&wider, Role::ReadOnly).contains("Measured and predicted"));
    let run = world.workbench.run.as_mut().expect("it runs");
    run.stage = Stage::Failed("'data' is used by a host".to_owned());
    let shown = page(&world, Role::ReadOnly);
    assert!(
        shown.contains("failed</span>") && shown.contains("&#39;data&#39; is used by a host."),
        "{shown}"
    );
    assert!(
        !shown.contains("requests/s, ") && shown.contains("bench-report?beside=yes"),
        "{shown}"
    );
    // Without a name, the page of the running benchmark appears; an unknown volume has no page.
    assert!(html(&world, Role::ReadOnly, "bench", &[]).contains("Benchmark of data"));
    assert!(
        html(&world, Role::ReadOnly, "bench", &[("of", "gone")]).contains("There is no volume")
    );
}

/// Regression: the page warned of a host that was the benchmark itself.
#[test]
fn a_measurement_is_no_host_to_be_warned_of() {
    let mut world = world();
    let host = serde_json::json!({
        "host": "unix", "protocol": "NBD", "since_unix_s": NOW, "reads_per_s": 0,
        "read_bytes_per_s": 0, "writes_per_s": 0, "written_bytes_per_s": 0, "outstanding": 0,
        "address": "unix", "pid": null, "uid": null, "process": null, "asked_for": "data",
        "reads": 0, "read_bytes": 0, "writes": 0, "written_bytes": 0,
    });
    let host: controller::HostInfo = serde_json::from_value(host).expect("a host");
    world.volumes[1].hosts = vec![host.clone()];
    assert!(!page(&world, Role::Operator).contains("slow each other"), "it is the measurement");
    world.volumes[1].hosts.push(host);
    assert!(
        page(&world, Role::Operator)
            .contains("In use by 1 host: the measurement and the hosts slow"),
        "another one"
    );
    world.workbench.run.as_mut().expect("a run").stage = Stage::Done;
    assert!(page(&world, Role::Operator).contains("In use by 2 hosts"), "both are others");
}

#[test]
fn a_form_stands_for_the_command_line_beside_it() {
    let world = world();
    let read = |fields: &[(&str, &str)]| ConsoleAction::read(&query(fields), &world);
    let form = [
        ("verb", "bench-run"),
        ("of", "data"),
        ("profile", "database"),
        ("outstanding", "1,8"),
        ("runtime", "5s"),
    ];
    let deed = read(&form).expect("it is understood");
    assert_eq!(deed.order, Order::Measure(measure()));
    assert_eq!(deed.order.action(), Action::Benchmark);
    let named = |word: &'static str| [&form[..], &[("word", word), ("beside", "yes")]].concat();
    let deed = read(&named("data")).expect("it is understood");
    assert_eq!(deed.order.action(), Action::BenchmarkWrites);
    let Order::Measure(order) = &deed.order else { panic!("{deed:?}") };
    assert_eq!(order.words()[5..], ["--destroy-data", "--beside-hosts"]);
    let refused = read(&named("date")).expect_err("it is not the name");
    assert_eq!(refused.kind, ErrorKind::Invalid);
    // Unexpected values stay one argument of one option.
    let odd = [&form[..2], &[("profile", "--html=/etc/passwd"), ("runtime", "1s --destroy-data")]]
        .concat();
    let Order::Measure(order) = read(&odd).expect("it is one word").order else { panic!() };
    assert_eq!(order.words()[2], "--profile=--html=/etc/passwd");
    assert_eq!(order.words().len(), 5);
}

#[test]
fn a_prediction_is_of_what_the_volume_is_as_far_as_the_controller_has_it() {
    let mut world = world();
    let read = |world: &World, controller: &str| {
        let fields = [
            ("verb", "predict-run"),
            ("of", "data"),
            ("level", "raid5"),
            ("drives", "3"),
            ("spans", "1"),
            ("strip", "256"),
            ("controller", controller),
            ("drive", "SAS-12G-HDD"),
        ];
        let Order::Predict(order) =
            ConsoleAction::read(&query(&fields), world).expect("it is understood").order
        else {
            panic!("it is a prediction");
        };
        order.words().join(" ")
    };
    assert!(read(&world, "HBA").starts_with(
        "predict --controller=HBA --drives=3xSAS-12G-HDD --level=raid5 --strip=256K \
            --profile=random-read"
    ));
    assert!(
        read(&world, "EP420i").starts_with(
            "predict --controller=EP420i --drives=3xSAS-12G-HDD --level=raid5 --profile"
        )
    );
    // The form of the page describes the same volume.
    world.workbench.prediction = None;
    let shown = page(&world, Role::Operator);
    assert!(
        shown.contains(
            "softroc predict --controller=HBA --drives=3xSAS-12G-HDD --level=raid5 --strip=256K"
        ),
        "{shown}"
    );
    // A failed drive is also failed in the prediction.
    let volume = &mut world.volumes[1];
    volume.drives.iter_mut().for_each(|drive| drive.state = controller::DriveState::Online);
    volume.drives[1].state = controller::DriveState::Failed;
    assert!(page(&world, Role::Operator).contains("--outstanding=1,8 --failed=1<"));
    assert!(shown.contains("<option value=\"EP420i\">EP420i: Model EP420i</option>"), "{shown}");
    assert!(
        shown.contains("<option value=\"database\" selected>database (writes)</option>"),
        "{shown}"
    );
    assert!(!page(&world, Role::Operator).contains("<button disabled>Measure data"));
    assert!(page(&world, Role::ReadOnly).contains("<button disabled>Measure data"));
}

/// Regression: `2xA+254xA+254xA+…` as a drive name was an unbounded number of drives: one form
/// could use all memory.
#[test]
fn a_model_that_the_catalog_does_not_have_is_refused() {
    let world = world();
    let read = |controller: &str, drive: &str| {
        let fields =
            [("verb", "predict-run"), ("of", "data"), ("controller", controller), ("drive", drive)];
        ConsoleAction::read(&query(&fields), &world)
    };
    assert!(read("HBA", "SAS-12G-HDD").is_ok());
    for (controller, drive, kind) in [
        ("HBA", "SAS-12G-HDD+254xSAS-12G-HDD", "no drive of that name"),
        ("HBA", "SAS-12G", "no drive of that name"),
        ("hba", "SAS-12G-HDD", "no controller of that name"),
    ] {
        let refused = read(controller, drive).expect_err("the catalog has none");
        assert_eq!(refused.kind, ErrorKind::Invalid);
        assert!(refused.message.contains(kind), "{refused:?}");
    }
}
